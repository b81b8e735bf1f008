//! Examples of packs, run as tests.

use std::sync::Arc;

use serde_json::Value;

use super::{MapOptions, Mapper, Pack};
use crate::tables::Tables;

/// Time of arrival of examples: 2026-11-24T08:00:00Z.
const RECEIVED_NANOS: i64 = 1_795_507_200_000_000_000;

/// An example whose event differs from the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExampleFailure {
    /// Name of the example.
    pub name: String,
    /// Lines of the difference: `-` expected, `+` found.
    pub difference: Vec<String>,
}

/// Runs the examples of a pack, without tables, and returns their number and the failures.
///
/// Fields that say how the event was made (`ecs.version`, `event.original`, `firn.mapping.name` and `.version`) are compared
/// only if the example has them.
pub fn run_examples(pack: &Arc<Pack>) -> (usize, Vec<ExampleFailure>) {
    let options = MapOptions {
        original: true,
        received: Some(RECEIVED_NANOS),
    };
    let mut mapper = Mapper::new(Arc::clone(pack), &Tables::default(), options);
    let mut failures = Vec::new();
    for example in &pack.examples {
        let mut out = Vec::new();
        let input = example.input.trim_end_matches(['\r', '\n']);
        let difference = match (mapper.map(input.as_bytes(), &mut out), &example.refused) {
            (Ok(()), None) => compare(&out, example.expect.as_ref()),
            (Ok(()), Some(reason)) => vec![format!("- refused: {reason}"), String::from("+ an event")],
            (Err(error), Some(reason)) if error.to_string().contains(reason) => Vec::new(),
            (Err(error), _) => vec![format!("+ {error}")],
        };
        if !difference.is_empty() {
            failures.push(ExampleFailure {
                name: example.name.clone(),
                difference,
            });
        }
    }
    (pack.examples.len(), failures)
}

fn compare(out: &[u8], expect: Option<&Value>) -> Vec<String> {
    let mut found: Value = match serde_json::from_slice(out) {
        Ok(found) => found,
        Err(error) => return vec![format!("+ invalid JSON: {error}")],
    };
    let empty = Value::Null;
    let expect = expect.unwrap_or(&empty);
    for path in [
        ["ecs", "version", ""],
        ["event", "original", ""],
        ["firn", "mapping", "name"],
        ["firn", "mapping", "version"],
    ] {
        let path: Vec<&str> = path.into_iter().filter(|segment| !segment.is_empty()).collect();
        if get(expect, &path).is_none() {
            remove(&mut found, &path);
        }
    }
    let mut difference = Vec::new();
    let (mut expected, mut actual) = (Vec::new(), Vec::new());
    flatten("", expect, &mut expected);
    flatten("", &found, &mut actual);
    expected.sort();
    actual.sort();
    for (name, value) in &expected {
        if !actual.contains(&(name.clone(), value.clone())) {
            difference.push(format!("- {name}: {value}"));
        }
    }
    for (name, value) in &actual {
        if !expected.contains(&(name.clone(), value.clone())) {
            difference.push(format!("+ {name}: {value}"));
        }
    }
    difference
}

fn get<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, segment| value.get(segment))
}

/// Removes a field, and the objects that are empty without it.
fn remove(value: &mut Value, path: &[&str]) {
    let (Some(object), Some((first, rest))) = (value.as_object_mut(), path.split_first()) else {
        return;
    };
    if let (false, Some(inner)) = (rest.is_empty(), object.get_mut(*first)) {
        remove(inner, rest);
    }
    if rest.is_empty()
        || object
            .get(*first)
            .is_some_and(|inner| *inner == Value::Object(serde_json::Map::new()))
    {
        object.shift_remove(*first);
    }
}

/// Lists the values by dotted names. An empty object is a value, too.
fn flatten(prefix: &str, value: &Value, out: &mut Vec<(String, String)>) {
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (name, value) in object {
                let name = match prefix {
                    "" => name.clone(),
                    prefix => format!("{prefix}.{name}"),
                };
                flatten(&name, value, out);
            }
        }
        Value::Null if prefix.is_empty() => {}
        value => out.push((prefix.to_owned(), value.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: &str, expect: &str, difference: &[&str]) {
        let expect = serde_json::from_str(expect).unwrap();
        assert_eq!(compare(found.as_bytes(), Some(&expect)), difference);
    }

    #[test]
    fn differences_are_named() {
        check(r#"{"a":{"b":1}}"#, r#"{"a.b":1}"#, &[]);
        check(
            r#"{"a":{"b":1},"c":2}"#,
            r#"{"a":{"b":3}}"#,
            &["- a.b: 3", "+ a.b: 1", "+ c: 2"],
        );
        check(
            r#"{"ecs":{"version":"1"},"event":{"original":"x","kind":"y"}}"#,
            r#"{"event":{"kind":"y"}}"#,
            &[],
        );
        check(
            r#"{"ecs":{"version":"1"}}"#,
            r#"{"ecs":{"version":"2"}}"#,
            &[r#"- ecs.version: "2""#, r#"+ ecs.version: "1""#],
        );
    }
}
