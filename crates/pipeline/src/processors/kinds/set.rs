//! `set`: sets a field to a value, a template or the value of another field.

use super::prelude::*;

#[derive(Debug)]
struct Set {
    field: Template,
    value: Source,
    replace: bool,
    ignore_empty_value: bool,
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
    boxed(Set {
        field,
        value,
        replace: options.boolean("override", true)?,
        ignore_empty_value: options.boolean("ignore_empty_value", false)?,
    })
}

impl Processor for Set {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let path = self.field.path(document, &mut run.budget)?;
        if !self.replace && document.find(&path).is_some_and(|value| !value.is_null()) {
            return Ok(Flow::Continue);
        }
        let value = match &self.value {
            Source::Value(value) => value.value(document, &mut run.budget)?,
            Source::Copy(from) => {
                let value = match document.find(from) {
                    None if self.ignore_empty_value => return Ok(Flow::Continue),
                    _ => document.get(from)?.clone(),
                };
                run.budget.write_value(&value)?;
                value
            }
        };
        let is_empty = value.is_null() || value.as_str().is_some_and(str::is_empty);
        let is_constant = matches!(self.value, Source::Value(ValueSource::Constant(_)));
        if self.ignore_empty_value && is_empty && !(is_constant && value != Value::Null) {
            return Ok(Flow::Continue);
        }
        document.set(&path, value)?;
        Ok(Flow::Continue)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"set": {"value": 1}}), "[field] required property is missing");
        refused(json!({"set": {"field": "f"}}), "[value] required property is missing");
        refused(
            json!({"set": {"field": "f", "value": 1, "copy_from": "g"}}),
            "[copy_from] cannot set both `copy_from` and `value` in the same processor",
        );
        refused(
            json!({"set": {"field": "f", "value": 1, "foo": 2}}),
            "processor [set] doesn't support one or more provided configuration parameters [foo]",
        );
        refused(
            json!({"set": {"field": "f", "value": "x", "media_type": "text/html"}}),
            "[media_type] property does not contain a supported media type [text/html]; must be one of [application/json, \
             text/plain, application/x-www-form-urlencoded]",
        );
    }

    #[test]
    fn results() {
        let set = |value| json!({"set": {"field": "f", "value": value}});
        check(set(json!(1)), json!({}), json!({"f": 1}));
        check(
            set(json!({"a": [1, "{{b}}"]})),
            json!({"b": "x"}),
            json!({"b": "x", "f": {"a": [1, "x"]}}),
        );
        check(
            set(json!("{{b}}-{{c.0}}")),
            json!({"b": 1, "c": ["y"]}),
            json!({"b": 1, "c": ["y"], "f": "1-y"}),
        );
        check(
            json!({"set": {"field": "{{b}}", "value": 1}}),
            json!({"b": "x"}),
            json!({"b": "x", "x": 1}),
        );
        check(
            json!({"set": {"field": "a.b.c", "value": 1}}),
            json!({"a": {}}),
            json!({"a": {"b": {"c": 1}}}),
        );
        check(
            json!({"set": {"field": "a.1", "value": 9}}),
            json!({"a": [1, 2]}),
            json!({"a": [1, 9]}),
        );
        check(
            json!({"set": {"field": "_source.a", "value": 1}}),
            json!({}),
            json!({"a": 1}),
        );
    }

    #[test]
    fn options() {
        let copy = json!({"set": {"field": "f", "copy_from": "g.h"}});
        check(copy, json!({"g": {"h": [1]}}), json!({"g": {"h": [1]}, "f": [1]}));
        let no_override = json!({"set": {"field": "f", "value": 1, "override": false}});
        check(no_override.clone(), json!({"f": 2}), json!({"f": 2}));
        check(no_override.clone(), json!({"f": null}), json!({"f": 1}));
        check(no_override, json!({}), json!({"f": 1}));
        let ignore = json!({"set": {"field": "f", "value": "{{missing}}", "ignore_empty_value": true}});
        check(ignore, json!({"f": 2}), json!({"f": 2}));
        let ignore = json!({"set": {"field": "f", "copy_from": "g", "ignore_empty_value": true}});
        check(ignore.clone(), json!({"f": 2, "g": ""}), json!({"f": 2, "g": ""}));
        check(ignore, json!({"f": 2}), json!({"f": 2}));
        let plain = json!({"set": {"field": "f", "value": "{{g}}", "media_type": "text/plain"}});
        check(plain, json!({"g": "\"x\""}), json!({"g": "\"x\"", "f": "\"x\""}));
    }

    #[test]
    fn failures() {
        let set = |field: &str| json!({"set": {"field": field, "value": 1}});
        let reason = "cannot set [b] with parent object of type [java.lang.Integer] as part of path [a.b]";
        fails(set("a.b"), json!({"a": 1}), reason);
        let reason = "cannot resolve [b] from object of type [java.lang.Integer] as part of path [a.b.c]";
        fails(set("a.b.c"), json!({"a": 1}), reason);
        fails(
            set("a.b"),
            json!({"a": null}),
            "cannot set [b] with null parent as part of path [a.b]",
        );
        let reason = "[b] is not an integer, cannot be used as an index as part of path [a.b]";
        fails(set("a.b"), json!({"a": []}), reason);
        let reason = "[3] is out of bounds for array with length [1] as part of path [a.3]";
        fails(set("a.3"), json!({"a": [1]}), reason);
        fails(set("{{x}}"), json!({}), "path cannot be null nor empty");
        let copy = json!({"set": {"field": "f", "copy_from": "g"}});
        fails(copy, json!({}), "field [g] not present as part of path [g]");
        let reason = "_index [1] is wrong type, expected assignable to [java.lang.String], not [java.lang.Integer]";
        fails(set("_index"), json!({}), reason);
    }
}
