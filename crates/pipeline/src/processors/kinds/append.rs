//! `append`: appends values to a list.

use super::prelude::*;

#[derive(Debug)]
struct Append {
    field: Template,
    value: Source,
    allow_duplicates: bool,
    ignore_empty_values: bool,
}

#[derive(Debug)]
enum Source {
    Value(ValueSource),
    Copy(Path),
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.template("field")?;
    let copy_from = options.optional_path("copy_from")?;
    let media_type = options.media_type()?;
    let value = match copy_from {
        None => Source::Value(options.value_source("value", media_type)?),
        Some(_) if options.take("value").is_some() => {
            return Err(options.error(
                Some("copy_from"),
                "cannot set both `copy_from` and `value` in the same processor",
            ));
        }
        Some(path) => Source::Copy(path),
    };
    boxed(Append {
        field,
        value,
        allow_duplicates: options.boolean("allow_duplicates", true)?,
        ignore_empty_values: options.boolean("ignore_empty_values", false)?,
    })
}

impl Processor for Append {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let path = self.field.path(document, &mut run.budget)?;
        let mut value = match &self.value {
            Source::Value(value) => value.value(document, &mut run.budget)?,
            Source::Copy(from) => {
                let value = match document.find(from) {
                    None if self.ignore_empty_values => return Ok(Flow::Continue),
                    _ => document.get(from)?,
                };
                run.budget.write_value(value)?;
                value.clone()
            }
        };
        if self.ignore_empty_values {
            let is_empty = |value: &Value| value.is_null() || value.as_str().is_some_and(str::is_empty);
            match &mut value {
                Value::Array(values) => {
                    values.retain(|value| !is_empty(value));
                    if values.is_empty() {
                        return Ok(Flow::Continue);
                    }
                }
                value if is_empty(value) => return Ok(Flow::Continue),
                _ => {}
            }
        }
        if !self.allow_duplicates {
            // Each new value is compared with all there are.
            let existing = document.find(&path).and_then(Value::as_array).map_or(1, Vec::len);
            let new = value.as_array().map_or(1, Vec::len);
            run.budget.take(((existing + new) * new) as u64)?;
        }
        document.append(&path, value, self.allow_duplicates)?;
        Ok(Flow::Continue)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"append": {"value": 1}}), "[field] required property is missing");
        refused(
            json!({"append": {"field": "f"}}),
            "[value] required property is missing",
        );
    }

    #[test]
    fn results() {
        let append = |value| json!({"append": {"field": "f", "value": value}});
        check(append(json!(1)), json!({}), json!({"f": [1]}));
        check(append(json!([1, 2])), json!({"f": 0}), json!({"f": [0, 1, 2]}));
        check(
            append(json!(["{{a}}"])),
            json!({"a": "x", "f": ["x"]}),
            json!({"a": "x", "f": ["x", "x"]}),
        );
        check(append(json!(1)), json!({"f": null}), json!({"f": [null, 1]}));
        let unique = |value| json!({"append": {"field": "f", "value": value, "allow_duplicates": false}});
        check(
            unique(json!(["a", "b", "b"])),
            json!({"f": ["a"]}),
            json!({"f": ["a", "b"]}),
        );
        check(unique(json!("a")), json!({"f": "a"}), json!({"f": "a"}));
        check(unique(json!("b")), json!({"f": "a"}), json!({"f": ["a", "b"]}));
        let copy = json!({"append": {"field": "f", "copy_from": "g"}});
        check(copy, json!({"f": 1, "g": [2, 3]}), json!({"f": [1, 2, 3], "g": [2, 3]}));
        let ignore = json!({"append": {"field": "f", "value": ["", "a"], "ignore_empty_values": true}});
        check(ignore, json!({}), json!({"f": ["a"]}));
        let ignore = json!({"append": {"field": "f", "copy_from": "g", "ignore_empty_values": true}});
        check(ignore, json!({"f": "2"}), json!({"f": "2"}));
    }

    #[test]
    fn failures() {
        let reason = "cannot set [b] with parent object of type [java.lang.String] as part of path [a.b]";
        fails(
            json!({"append": {"field": "a.b", "value": 1}}),
            json!({"a": "x"}),
            reason,
        );
    }
}
