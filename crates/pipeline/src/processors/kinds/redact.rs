//! `redact`: replaces what grok patterns match by their names (`<EMAIL>`).

use super::captures::Captures;
use super::grok::{compile, pattern_definitions};
use super::prelude::*;
use crate::event;
use crate::parsers::grok::Grok;

/// Name of the group around each pattern: it gives the place of the whole match.
const WHOLE: &str = "redact_whole";

#[derive(Debug)]
struct Redact {
    field: Path,
    /// Each pattern with the name that replaces its matches.
    patterns: Vec<(Grok, String)>,
    ignore_missing: bool,
    prefix: String,
    suffix: String,
    trace_redact: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.path("field")?;
    let texts = options.texts("patterns")?;
    if texts.is_empty() {
        return Err(options.error(Some("patterns"), "List of patterns must not be empty"));
    }
    let definitions = pattern_definitions(options)?;
    let mut patterns = Vec::new();
    for text in &texts {
        // Compiled alone first, so that an error shows the pattern as written.
        compile(options, std::slice::from_ref(text), &definitions)?;
        let grok = compile(options, &[format!("(?<{WHOLE}>{text})")], &definitions)?;
        let Some(name) = grok.field_names().nth(1).map(str::to_owned) else {
            return Err(options.error(Some("patterns"), format!("pattern [{text}] has no name")));
        };
        patterns.push((grok, name));
    }
    // firn has no licences.
    options.boolean("skip_if_unlicensed", false)?;
    boxed(Redact {
        field,
        patterns,
        ignore_missing: options.boolean("ignore_missing", true)?,
        prefix: options.text_or("prefix", "<")?,
        suffix: options.text_or("suffix", ">")?,
        trace_redact: options.boolean("trace_redact", false)?,
    })
}

/// A match: its place and its name.
struct Found<'a> {
    start: usize,
    end: usize,
    name: &'a str,
}

impl Processor for Redact {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let text = match document.find(&self.field) {
            None | Some(Value::Null) if self.ignore_missing => return Ok(Flow::Continue),
            None | Some(Value::Null) => {
                let reason = format!("field [{}] is null or missing", self.field.text());
                return Err(Failure::illegal(reason));
            }
            Some(Value::String(text)) => text.clone(),
            Some(other) => return Err(cannot_cast(self.field.text(), other, "java.lang.String")),
        };
        let mut found = Vec::new();
        for (grok, name) in &self.patterns {
            let mut offset = 0;
            while offset < text.len() {
                run.budget.take_text(text.len() - offset)?;
                let Some((start, end)) = search(grok, &text[offset..]) else {
                    break;
                };
                let (start, end) = (offset + start, offset + end);
                offset = if end > offset {
                    end
                } else {
                    text.ceil_char_boundary(offset + 1)
                };
                if end > start {
                    found.push(Found { start, end, name });
                }
            }
        }
        if found.is_empty() {
            return Ok(Flow::Continue);
        }
        let redacted = self.replace(&text, merge(found));
        run.budget.write(redacted.len())?;
        document.set(&self.field, redacted.into())?;
        if self.trace_redact {
            let trace = Map::from_iter([("_is_redacted".to_owned(), Value::Bool(true))]);
            document.set_ingest("_redact", Some(Value::Object(trace)));
        }
        Ok(Flow::Continue)
    }
}

impl Redact {
    fn replace(&self, text: &str, found: Vec<Found<'_>>) -> String {
        let mut out = String::with_capacity(text.len());
        let mut end = 0;
        for one in found {
            out.push_str(&text[end..one.start]);
            out.push_str(&self.prefix);
            out.push_str(one.name);
            out.push_str(&self.suffix);
            end = one.end;
        }
        out.push_str(&text[end..]);
        out
    }
}

/// Returns the place of the first match.
fn search(grok: &Grok, text: &str) -> Option<(usize, usize)> {
    let mut captures = Captures::default();
    grok.parse(text, &mut captures).ok()?;
    let (_, whole) = captures.0.into_iter().find(|(name, _)| name == WHOLE)?;
    let event::Value::Text(whole) = whole else {
        return None;
    };
    // The value is a part of the text: its place follows from the addresses.
    let start = (whole.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let end = start + whole.len();
    (end <= text.len() && matches!(whole, std::borrow::Cow::Borrowed(_))).then_some((start, end))
}

/// Merges matches that overlap or touch; the longest one gives the name.
fn merge(mut found: Vec<Found<'_>>) -> Vec<Found<'_>> {
    found.sort_by_key(|one| one.start);
    let mut merged: Vec<Found<'_>> = Vec::new();
    let mut longest = 0;
    for one in found {
        let len = one.end - one.start;
        match merged.last_mut() {
            Some(last) if one.start <= last.end => {
                last.end = last.end.max(one.end);
                if len > longest {
                    longest = len;
                    last.name = one.name;
                }
            }
            _ => {
                longest = len;
                merged.push(one);
            }
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::processors::Context;
    use crate::processors::tests::{NOW_MS, check, fails, refused, run};

    #[test]
    fn refuses_to_parse() {
        refused(
            json!({"redact": {"field": "f"}}),
            "[patterns] required property is missing",
        );
        refused(
            json!({"redact": {"field": "f", "patterns": []}}),
            "[patterns] List of patterns must not be empty",
        );
        refused(
            json!({"redact": {"field": "f", "patterns": ["abc"]}}),
            "[patterns] pattern [abc] has no name",
        );
    }

    fn redacts(patterns: Value, text: &str, expected: &str) {
        check(
            json!({"redact": {"field": "f", "patterns": patterns}}),
            json!({"f": text}),
            json!({"f": expected}),
        );
    }

    #[test]
    fn results() {
        redacts(
            json!(["%{IP:CLIENT}"]),
            "from 1.2.3.4 to 10.0.0.1.",
            "from <CLIENT> to <CLIENT>.",
        );
        redacts(
            json!(["%{EMAILADDRESS:EMAIL}", "%{IP:IP}"]),
            "ann@example.com at 1.2.3.4",
            "<EMAIL> at <IP>",
        );
        redacts(json!(["%{IP:IP}"]), "nothing here", "nothing here");
        // The longest of two that overlap gives the name.
        redacts(json!(["(?<SHORT>b)", "(?<LONG>abc)"]), "xabcx", "x<LONG>x");
        let own = json!({"redact": {
            "field": "f", "patterns": ["%{CARD:CARD}"], "pattern_definitions": {"CARD": "\\d{4}-\\d{4}"},
            "prefix": "[", "suffix": "]"
        }});
        check(
            own,
            json!({"f": "ä 1234-5678 ö 1111-2222"}),
            json!({"f": "ä [CARD] ö [CARD]"}),
        );
        check(
            json!({"redact": {"field": "f", "patterns": ["%{IP:IP}"]}}),
            json!({}),
            json!({}),
        );
    }

    #[test]
    fn the_trace() {
        let trace = json!({"redact": {"field": "f", "patterns": ["%{IP:IP}"], "trace_redact": true}});
        let (document, result) = run(&trace, json!({"f": "1.2.3.4"}), &Context::new(NOW_MS));
        result.unwrap();
        assert_eq!(document.ingest().get("_redact"), Some(&json!({"_is_redacted": true})));
    }

    #[test]
    fn failures() {
        let strict = json!({"redact": {"field": "f", "patterns": ["%{IP:IP}"], "ignore_missing": false}});
        fails(strict.clone(), json!({}), "field [f] is null or missing");
        let cast = "field [f] of type [java.lang.Integer] cannot be cast to [java.lang.String]";
        fails(strict, json!({"f": 1}), cast);
    }
}
