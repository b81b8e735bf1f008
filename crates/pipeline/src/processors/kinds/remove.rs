//! `remove`: removes fields, or all fields but some.

use std::borrow::Cow;

use super::prelude::*;

#[derive(Debug)]
enum Remove {
    Fields {
        fields: Vec<Template>,
        ignore_missing: bool,
    },
    Keep(Vec<Template>),
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let ignore_missing = options.boolean("ignore_missing", false)?;
    let fields = templates(options, "field")?;
    let keep = templates(options, "keep")?;
    match (fields.is_empty(), keep.is_empty()) {
        (true, true) => Err(options.error(Some("keep"), "or [field] must be specified")),
        (false, false) => Err(options.error(Some("keep"), "and [field] cannot both be used in the same processor")),
        (false, true) => boxed(Remove::Fields { fields, ignore_missing }),
        (true, false) => boxed(Remove::Keep(keep)),
    }
}

/// Takes a template or a list of them.
fn templates(options: &mut Options, name: &str) -> Result<Vec<Template>> {
    let texts = options.texts_or_text(name)?;
    texts.iter().map(|text| options.parse_template(name, text)).collect()
}

impl Processor for Remove {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        match self {
            Self::Fields { fields, ignore_missing } => {
                for field in fields {
                    let path = match field.path(document, &mut run.budget) {
                        // An empty path: the template has no value.
                        Err(failure) if failure.kind == FailureKind::IllegalArgument && *ignore_missing => continue,
                        path => path?,
                    };
                    if !*ignore_missing || document.find(&path).is_some() {
                        document.remove(&path)?;
                    }
                }
            }
            Self::Keep(fields) => {
                let paths: Result<Vec<Cow<'_, Path>>, Failure> = fields
                    .iter()
                    .map(|field| field.path(document, &mut run.budget))
                    .collect();
                let paths = paths?;
                let names: Vec<String> = document.source.keys().cloned().collect();
                for name in names {
                    run.budget.take(1 + paths.len() as u64)?;
                    keep(&mut document.source, &name, &name, &paths, 0);
                }
            }
        }
        Ok(Flow::Continue)
    }
}

/// Objects inside each other that are searched for fields to keep; deeper ones are kept or removed as a whole.
const DEPTH_MAX: usize = 100;

/// Removes a field that neither is to be kept nor contains or lies inside one that is.
fn keep(map: &mut Map<String, Value>, name: &str, path: &str, paths: &[Cow<'_, Path>], depth: usize) {
    let path_of = |keep: &Path| keep.text().strip_prefix("_source.").unwrap_or(keep.text()).to_owned();
    if paths.iter().any(|keep| path_of(keep) == path) {
        return;
    }
    let prefix = format!("{path}.");
    if depth < DEPTH_MAX && paths.iter().any(|keep| path_of(keep).starts_with(&prefix)) {
        if let Some(Value::Object(inner)) = map.get_mut(name) {
            let names: Vec<String> = inner.keys().cloned().collect();
            for name in names {
                keep(inner, &name, &format!("{prefix}{name}"), paths, depth + 1);
            }
        }
        return;
    }
    map.shift_remove(name);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"remove": {}}), "[keep] or [field] must be specified");
        refused(
            json!({"remove": {"field": "a", "keep": "b"}}),
            "[keep] and [field] cannot both be used in the same processor",
        );
        refused(
            json!({"remove": {"field": 1}}),
            "[field] property isn't a string or list of strings, but of type [java.lang.Integer]",
        );
    }

    #[test]
    fn results() {
        check(
            json!({"remove": {"field": "a"}}),
            json!({"a": 1, "b": 2, "c": 3}),
            json!({"b": 2, "c": 3}),
        );
        check(
            json!({"remove": {"field": ["a.b", "c"]}}),
            json!({"a": {"b": 1}, "c": 2}),
            json!({"a": {}}),
        );
        check(
            json!({"remove": {"field": "a.0"}}),
            json!({"a": [1, 2]}),
            json!({"a": [2]}),
        );
        check(
            json!({"remove": {"field": "{{x}}"}}),
            json!({"x": "a", "a": 1}),
            json!({"x": "a"}),
        );
        check(
            json!({"remove": {"field": "a", "ignore_missing": true}}),
            json!({}),
            json!({}),
        );
        check(
            json!({"remove": {"field": "{{x}}", "ignore_missing": true}}),
            json!({}),
            json!({}),
        );
        let source = json!({"a": {"b": 1, "c": 2}, "d": 3, "e": 4});
        check(
            json!({"remove": {"keep": ["a.b", "d"]}}),
            source.clone(),
            json!({"a": {"b": 1}, "d": 3}),
        );
        check(json!({"remove": {"keep": "a"}}), source, json!({"a": {"b": 1, "c": 2}}));
    }

    #[test]
    fn failures() {
        fails(
            json!({"remove": {"field": "a"}}),
            json!({}),
            "field [a] not present as part of path [a]",
        );
        fails(
            json!({"remove": {"field": "a.b"}}),
            json!({}),
            "field [a] not present as part of path [a.b]",
        );
        let reason = "cannot remove [b] from object of type [java.lang.Integer] as part of path [a.b]";
        fails(json!({"remove": {"field": "a.b"}}), json!({"a": 1}), reason);
        let reason = "[1] is out of bounds for array with length [1] as part of path [a.1]";
        fails(json!({"remove": {"field": "a.1"}}), json!({"a": [1]}), reason);
    }
}
