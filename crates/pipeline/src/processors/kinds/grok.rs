//! `grok`: reads a text by patterns of named patterns.
//!
//! The bank is the one of `ecs_compatibility: v1`. In the mode `disabled`, which is the default, the patterns of access logs and
//! of syslog's beginning give the old names (`clientip`, `verb`); other patterns with fields inside give ECS names in both modes.

use std::collections::BTreeMap;

use super::captures::{Captures, json};
use super::prelude::*;
use crate::parsers::grok;

/// Patterns with the field names of the time before ECS.
const BEFORE_ECS: [(&str, &str); 5] = [
    (
        "HTTPD_COMMONLOG",
        r#"%{IPORHOST:clientip} %{HTTPDUSER:ident} %{HTTPDUSER:auth} \[%{HTTPDATE:timestamp}\] "(?:%{WORD:verb} %{NOTSPACE:request}(?: HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest})" (?:-|%{NUMBER:response}) (?:-|%{NUMBER:bytes})"#,
    ),
    ("COMMONAPACHELOG", "%{HTTPD_COMMONLOG}"),
    ("HTTPD_COMBINEDLOG", r#"%{HTTPD_COMMONLOG} %{QS:referrer} %{QS:agent}"#),
    ("COMBINEDAPACHELOG", "%{HTTPD_COMBINEDLOG}"),
    (
        "SYSLOGBASE",
        r"%{SYSLOGTIMESTAMP:timestamp} (?:<%{NONNEGINT:facility}.%{NONNEGINT:priority}> )?%{SYSLOGHOST:logsource} %{PROG:program}(?:\[%{POSINT:pid}\])?:",
    ),
];

#[derive(Debug)]
struct Grok {
    field: Path,
    grok: grok::Grok,
    trace_match: bool,
    ignore_missing: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.path("field")?;
    let patterns = options.texts("patterns")?;
    if patterns.is_empty() {
        return Err(options.error(Some("patterns"), "List of patterns must not be empty"));
    }
    let mut definitions = BTreeMap::new();
    match options.text_or("ecs_compatibility", "disabled")?.as_str() {
        "v1" => {}
        "disabled" => {
            definitions.extend(BEFORE_ECS.map(|(name, definition)| (name.to_owned(), definition.to_owned())));
        }
        other => return Err(options.error(Some("ecs_compatibility"), format!("unsupported mode '{other}'"))),
    }
    definitions.extend(pattern_definitions(options)?);
    boxed(Grok {
        field,
        grok: compile(options, &patterns, &definitions)?,
        trace_match: options.boolean("trace_match", false)?,
        ignore_missing: options.boolean("ignore_missing", false)?,
    })
}

/// Takes `pattern_definitions`.
pub(super) fn pattern_definitions(options: &mut Options) -> Result<BTreeMap<String, String>> {
    let definitions = options.optional_map("pattern_definitions")?.unwrap_or_default();
    let definitions = definitions.into_iter().map(|(name, definition)| match definition {
        Value::String(definition) => Ok((name, definition)),
        other => {
            let reason = format!(
                "property isn't a map of strings, but has a value of type [{}]",
                class_name(&other)
            );
            Err(options.error(Some("pattern_definitions"), reason))
        }
    });
    definitions.collect()
}

/// Compiles patterns, with Elasticsearch's text for what is wrong.
pub(super) fn compile(
    options: &Options,
    patterns: &[String],
    definitions: &BTreeMap<String, String>,
) -> Result<grok::Grok> {
    let texts: Vec<&str> = patterns.iter().map(String::as_str).collect();
    grok::Grok::new(&texts, definitions).map_err(|error| {
        let patterns = patterns.join(", ");
        let reason = format!("Invalid regex pattern found in: [{patterns}]. {}", error.reason);
        options.error(Some("patterns"), reason)
    })
}

impl Processor for Grok {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let Some(text) = document.text_or_missing(&self.field, self.ignore_missing)? else {
            return Ok(Flow::Continue);
        };
        run.budget.take_text(text.len())?;
        let text = text.to_owned();
        let mut captures = Captures::default();
        let number = self
            .grok
            .parse(&text, &mut captures)
            .map_err(|_| Failure::illegal(format!("Provided Grok expressions do not match field value: [{text}]")))?;
        for (name, value) in captures.0 {
            let value = json(value);
            run.budget.write_value(&value)?;
            document.set(&Path::parse(&name)?, value)?;
        }
        if self.trace_match {
            document.set_ingest("_grok_match_index", Some(number.to_string().into()));
        }
        Ok(Flow::Continue)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::processors::Context;
    use crate::processors::tests::{NOW_MS, check, fails, refused, run};

    #[test]
    fn refuses_to_parse() {
        refused(
            json!({"grok": {"field": "f"}}),
            "[patterns] required property is missing",
        );
        refused(
            json!({"grok": {"field": "f", "patterns": []}}),
            "[patterns] List of patterns must not be empty",
        );
        let mode = json!({"grok": {"field": "f", "patterns": ["a"], "ecs_compatibility": "v2"}});
        refused(mode, "[ecs_compatibility] unsupported mode 'v2'");
        let reason = "[patterns] Invalid regex pattern found in: [%{NO:x}]. unable to find pattern [NO]";
        refused(json!({"grok": {"field": "f", "patterns": ["%{NO:x}"]}}), reason);
    }

    fn grok(patterns: Value, text: &str, mut expected: Value) {
        expected["f"] = json!(text);
        check(
            json!({"grok": {"field": "f", "patterns": patterns}}),
            json!({"f": text}),
            expected,
        );
    }

    #[test]
    fn results() {
        grok(
            json!(["%{IP:ip} %{WORD:w}"]),
            "1.2.3.4 hi",
            json!({"ip": "1.2.3.4", "w": "hi"}),
        );
        grok(
            json!(["%{NUMBER:n:int} %{NUMBER:d:float}"]),
            "12 1.5",
            json!({"n": 12, "d": 1.5}),
        );
        grok(
            json!(["^%{INT:a}$", "%{WORD:source.name}"]),
            "hello",
            json!({"source": {"name": "hello"}}),
        );
        let own = json!({"grok": {
            "field": "f", "patterns": ["my %{FAVOURITE:dog}"], "pattern_definitions": {"FAVOURITE": "beagle|poodle"}
        }});
        check(
            own,
            json!({"f": "my poodle"}),
            json!({"f": "my poodle", "dog": "poodle"}),
        );
        check(
            json!({"grok": {"field": "f", "patterns": ["a"], "ignore_missing": true}}),
            json!({}),
            json!({}),
        );
    }

    #[test]
    fn modes() {
        let line = r#"1.2.3.4 - ann [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 2326"#;
        let mode = |mode: &str| {
            let options = json!({"field": "f", "patterns": ["%{COMMONAPACHELOG}"], "ecs_compatibility": mode});
            let (document, result) = run(&json!({"grok": options}), json!({"f": line}), &Context::new(NOW_MS));
            result.unwrap();
            Value::Object(document.source)
        };
        let before = mode("disabled");
        assert_eq!(
            (&before["clientip"], &before["verb"], &before["bytes"]),
            (&json!("1.2.3.4"), &json!("GET"), &json!("2326"))
        );
        let ecs = mode("v1");
        assert_eq!(
            (&ecs["source"]["address"], &ecs["http"]["request"]["method"]),
            (&json!("1.2.3.4"), &json!("GET"))
        );
    }

    #[test]
    fn the_number_of_the_match() {
        let trace = json!({"grok": {"field": "f", "patterns": ["^a$", "^b$"], "trace_match": true}});
        let (document, result) = run(&trace, json!({"f": "b"}), &Context::new(NOW_MS));
        result.unwrap();
        assert_eq!(document.ingest().get("_grok_match_index"), Some(&json!("1")));
    }

    #[test]
    fn failures() {
        let grok = json!({"grok": {"field": "f", "patterns": ["^%{INT:a}$"]}});
        fails(
            grok.clone(),
            json!({"f": "x"}),
            "Provided Grok expressions do not match field value: [x]",
        );
        fails(
            grok.clone(),
            json!({"f": null}),
            "field [f] is null, cannot process it.",
        );
        fails(grok, json!({}), "field [f] not present as part of path [f]");
    }
}
