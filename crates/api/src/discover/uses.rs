//! Which fields events use most, by some of them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use firn_engine::search::Hit;
use serde_json::Value;

/// Newest events that are asked which fields are used most.
pub(super) const SAMPLE: u64 = 100;
/// Depth to which objects of an event are looked into for its fields.
const DEPTH_MAX: usize = 20;

/// Of each field how many events have it.
#[derive(Default)]
pub(super) struct Uses(HashMap<String, usize>);

impl Uses {
    /// Of these events.
    pub(super) fn of(hits: &[Hit]) -> Self {
        let mut uses = Self::default();
        for hit in hits {
            let source = hit.source.as_deref().unwrap_or(b"null");
            // What is not JSON has no fields.
            if let Ok(source) = serde_json::from_slice::<Value>(source) {
                uses.add(&source);
            }
        }
        uses
    }

    fn add(&mut self, source: &Value) {
        let mut paths = BTreeSet::new();
        add_paths("", source, &mut paths, 0);
        for path in paths {
            *self.0.entry(path).or_default() += 1;
        }
    }

    /// Whether an event has this field by itself.
    pub(super) fn has(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    /// Fields, those that most events have first, then by name.
    pub(super) fn ranked<'a>(&self, fields: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
        // A field of its own below another (`message.keyword`) is used as that is.
        let used = |field: &str| {
            let parent = || field.rsplit_once('.').and_then(|(parent, _)| self.0.get(parent));
            self.0.get(field).or_else(parent).copied().unwrap_or(0)
        };
        let mut fields: Vec<&String> = fields.collect();
        fields.sort_by_key(|field| (Reverse(used(field)), *field));
        fields
    }
}

fn add_paths(prefix: &str, value: &Value, paths: &mut BTreeSet<String>, depth: usize) {
    match value {
        Value::Object(object) if depth < DEPTH_MAX => {
            for (name, value) in object {
                let path = match prefix {
                    "" => name.clone(),
                    prefix => format!("{prefix}.{name}"),
                };
                add_paths(&path, value, paths, depth + 1);
            }
        }
        Value::Array(values) if depth < DEPTH_MAX => {
            for value in values {
                add_paths(prefix, value, paths, depth + 1);
            }
        }
        Value::Null => {}
        _ => {
            paths.insert(prefix.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_most_events_have_comes_first() {
        let mut uses = Uses::default();
        for source in [
            json!({"a": {"b": 1}, "m": "x", "n": null}),
            json!({"a": [{"b": 1}, {"c": 2}], "m": "y"}),
            json!({"m": 1}),
        ] {
            uses.add(&source);
        }
        assert_eq!((uses.0["a.b"], uses.0["a.c"], uses.0["m"]), (2, 1, 3));
        assert!(!uses.has("n") && uses.has("m") && !uses.has("m.keyword"));
        let fields: Vec<String> = ["a.b", "a.c", "m.keyword", "z"].map(str::to_owned).into();
        assert_eq!(uses.ranked(fields.iter()), ["m.keyword", "a.b", "a.c", "z"]);
    }
}
