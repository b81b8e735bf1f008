//! `dissect`: splits a text at fixed delimiters.

use super::captures::{Captures, json};
use super::prelude::*;
use crate::parsers::dissect;

#[derive(Debug)]
struct Dissect {
    field: Path,
    pattern: String,
    dissect: dissect::Dissect,
    ignore_missing: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.path("field")?;
    let pattern = options.text("pattern")?;
    let separator = options.text_or("append_separator", "")?;
    let dissect = dissect::Dissect::new(&pattern, &separator).map_err(|reason| options.error(None, reason))?;
    boxed(Dissect {
        field,
        pattern,
        dissect,
        ignore_missing: options.boolean("ignore_missing", false)?,
    })
}

impl Processor for Dissect {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let Some(text) = document.text_or_missing(&self.field, self.ignore_missing)? else {
            return Ok(Flow::Continue);
        };
        run.budget.take_text(text.len())?;
        run.budget.write(text.len())?;
        let text = text.to_owned();
        let mut captures = Captures::default();
        self.dissect.parse(&text, &mut captures).map_err(|_| {
            let pattern = &self.pattern;
            let reason = format!("Unable to find match for dissect pattern: {pattern} against source: {text}");
            Failure::new(FailureKind::Dissect, reason)
        })?;
        for (name, value) in captures.0 {
            document.set(&Path::parse(&name)?, json(value))?;
        }
        Ok(Flow::Continue)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(
            json!({"dissect": {"pattern": "%{a}"}}),
            "[field] required property is missing",
        );
        refused(
            json!({"dissect": {"field": "f"}}),
            "[pattern] required property is missing",
        );
        let reason = "cannot compile dissect pattern [abc]: no key `%{name}`";
        refused(json!({"dissect": {"field": "f", "pattern": "abc"}}), reason);
    }

    fn dissects(pattern: &str, text: &str, mut expected: Value) {
        expected["f"] = json!(text);
        check(
            json!({"dissect": {"field": "f", "pattern": pattern}}),
            json!({"f": text}),
            expected,
        );
    }

    #[test]
    fn results() {
        dissects(
            "%{a} %{b} %{c}",
            "foo bar baz",
            json!({"a": "foo", "b": "bar", "c": "baz"}),
        );
        dissects(
            "%{source.ip} [%{@timestamp}]",
            "1.2.3.4 [now]",
            json!({"source": {"ip": "1.2.3.4"}, "@timestamp": "now"}),
        );
        dissects("%{a->} %{?skip} %{b}", "x   y z", json!({"a": "x", "b": "z"}));
        let append = json!({"dissect": {"field": "f", "pattern": "%{+n} %{+n} %{b}", "append_separator": "-"}});
        check(
            append,
            json!({"f": "a b c"}),
            json!({"f": "a b c", "n": "a-b", "b": "c"}),
        );
        check(
            json!({"dissect": {"field": "f", "pattern": "%{a}", "ignore_missing": true}}),
            json!({}),
            json!({}),
        );
    }

    #[test]
    fn failures() {
        let dissect = json!({"dissect": {"field": "f", "pattern": "%{a},%{b}"}});
        let reason = "Unable to find match for dissect pattern: %{a},%{b} against source: foo bar";
        fails(dissect.clone(), json!({"f": "foo bar"}), reason);
        fails(
            dissect.clone(),
            json!({"f": null}),
            "field [f] is null, cannot process it.",
        );
        fails(dissect, json!({}), "field [f] not present as part of path [f]");
    }
}
