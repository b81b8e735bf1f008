//! Ranking of fields by how many events use them, from a sample.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use firn_query::search::Hit;
use serde_json::Value;

/// Newest events in the sample.
pub(super) const SAMPLE: u64 = 100;
/// Maximum depth of the objects whose fields are counted.
const DEPTH_MAX: usize = 20;

/// Number of events by field.
#[derive(Default)]
pub(super) struct FieldUsage(HashMap<String, usize>);

impl FieldUsage {
    /// Counts the fields of events.
    pub(super) fn of(hits: &[Hit]) -> Self {
        let mut uses = Self::default();
        for hit in hits {
            let source = hit.source.as_deref().unwrap_or(b"null");
            // Invalid JSON has no fields.
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

    /// Returns whether an event contains this field.
    pub(super) fn has(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    /// Returns fields by number of events, descending, then by name.
    pub(super) fn ranked<'a>(&self, fields: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
        // A subfield (`message.keyword`) has the uses of its parent.
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
        let mut uses = FieldUsage::default();
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
