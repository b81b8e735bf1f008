//! `foreach`: runs a processor on each element of a list (`_ingest._value`) or field of an object (`_ingest._key` too).

use super::super::step::Step;
use super::prelude::*;

#[derive(Debug)]
struct Foreach {
    field: Path,
    step: Step,
    ignore_missing: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.path("field")?;
    let ignore_missing = options.boolean("ignore_missing", false)?;
    let processor = options.map("processor")?;
    let mut processors = processor.iter();
    let (Some((name, inner)), None) = (processors.next(), processors.next()) else {
        return Err(options.error(Some("processor"), "Must specify exactly one processor type"));
    };
    boxed(Foreach {
        field,
        step: options.step(name, inner)?,
        ignore_missing,
    })
}

impl Processor for Foreach {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let value = match document.find(&self.field) {
            None | Some(Value::Null) if self.ignore_missing => return Ok(Flow::Continue),
            Some(value) => value,
            None => document.get(&self.field)?,
        };
        run.budget.write_value(value)?;
        match value.clone() {
            Value::Array(values) => self.list(values, document, run),
            Value::Object(fields) => self.object(fields, document, run),
            Value::Null => Err(Failure::illegal(format!(
                "field [{}] is null, cannot loop over its elements.",
                self.field.text()
            ))),
            other => Err(Failure::illegal(format!(
                "field [{}] of type [{}] cannot be cast to a list or map",
                self.field.text(),
                class_name(&other)
            ))),
        }
    }
}

impl Foreach {
    fn list(&self, values: Vec<Value>, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let mut changed = Vec::with_capacity(values.len());
        for value in values {
            let outer = document.set_ingest("_value", Some(value));
            let flow = run.quiet_step(&self.step, document);
            let value = document.set_ingest("_value", outer);
            match flow? {
                // A processor may have removed the value.
                Flow::Continue => changed.push(value.unwrap_or(Value::Null)),
                flow => return Ok(flow),
            }
        }
        document.set(&self.field, Value::Array(changed))?;
        Ok(Flow::Continue)
    }

    fn object(&self, fields: Map<String, Value>, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let mut changed = Map::new();
        for (name, value) in fields {
            let outer_key = document.set_ingest("_key", Some(name.into()));
            let outer = document.set_ingest("_value", Some(value));
            let flow = run.quiet_step(&self.step, document);
            let value = document.set_ingest("_value", outer);
            let key = document.set_ingest("_key", outer_key);
            match flow? {
                Flow::Continue => {
                    // A processor may have changed the name; without a name or a value, the field is removed.
                    if let (Some(Value::String(key)), Some(value)) = (key, value) {
                        changed.insert(key, value);
                    }
                }
                flow => return Ok(flow),
            }
        }
        document.set(&self.field, Value::Object(changed))?;
        Ok(Flow::Continue)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{NOW_MS, check, fails, refused, run};
    use crate::processors::{Budget, Context, FailureKind};

    #[test]
    fn refuses_to_parse() {
        refused(
            json!({"foreach": {"field": "f"}}),
            "[processor] required property is missing",
        );
        refused(
            json!({"foreach": {"field": "f", "processor": {"trim": {}, "drop": {}}}}),
            "[processor] Must specify exactly one processor type",
        );
        refused(
            json!({"foreach": {"field": "f", "processor": {"nothing": {}}}}),
            "No processor type exists with name [nothing]",
        );
        let mut deep = json!({"set": {"field": "f", "value": 1}});
        for _ in 0..40 {
            deep = json!({"foreach": {"field": "f", "processor": deep}});
        }
        refused(deep, "processors nest too deeply");
    }

    #[test]
    fn results() {
        let upper = json!({"uppercase": {"field": "_ingest._value"}});
        let each = json!({"foreach": {"field": "f", "processor": upper}});
        check(each.clone(), json!({"f": ["a", "b"]}), json!({"f": ["A", "B"]}));
        check(each, json!({"f": {"x": "a"}}), json!({"f": {"x": "A"}}));
        let key = json!({"foreach": {"field": "f", "processor": {"uppercase": {"field": "_ingest._key"}}}});
        check(key, json!({"f": {"x": 1}}), json!({"f": {"X": 1}}));
        let remove = json!({"foreach": {"field": "f", "processor": {"remove": {"field": "_ingest._value.id"}}}});
        check(remove, json!({"f": [{"id": 1, "n": 2}]}), json!({"f": [{"n": 2}]}));
        let append = json!({"append": {"field": "g", "value": "{{_ingest._value}}"}});
        let each = json!({"foreach": {"field": "f", "processor": append}});
        check(each, json!({"f": [1, 2]}), json!({"f": [1, 2], "g": ["1", "2"]}));
        let inner = json!({"foreach": {"field": "_ingest._value", "processor": {"trim": {"field": "_ingest._value"}}}});
        let nested = json!({"foreach": {"field": "f", "processor": inner}});
        check(nested, json!({"f": [[" a"], ["b "]]}), json!({"f": [["a"], ["b"]]}));
        let ignore = json!({"foreach": {"field": "f", "ignore_missing": true, "processor": {"drop": {}}}});
        check(ignore, json!({}), json!({}));
    }

    #[test]
    fn failures() {
        let each = json!({"foreach": {"field": "f", "processor": {"trim": {"field": "_ingest._value"}}}});
        fails(each.clone(), json!({}), "field [f] not present as part of path [f]");
        fails(
            each.clone(),
            json!({"f": null}),
            "field [f] is null, cannot loop over its elements.",
        );
        let cast = "field [_ingest._value] of type [java.lang.Integer] cannot be cast to [java.lang.String]";
        fails(each, json!({"f": [1]}), cast);
    }

    #[test]
    fn the_budget_ends_a_long_loop() {
        let each = json!({"foreach": {"field": "f", "processor": {"trim": {"field": "_ingest._value"}}}});
        let mut context = Context::new(NOW_MS);
        context.budget = Budget {
            steps: 100,
            ..Budget::default()
        };
        let failure = run(&each, json!({"f": vec!["a"; 1000]}), &context).1.unwrap_err();
        assert_eq!(failure.kind, FailureKind::BudgetExceeded);
    }
}
