//! Merge of a partial document into a stored one.

use serde_json::{Map, Value};

/// Merges `changes` into `source`: objects level by level; all other values (including lists) are
/// replaced. Returns whether anything changed (`detect_noop`).
pub(crate) fn merge_source(source: &mut Map<String, Value>, changes: &Map<String, Value>) -> bool {
    let mut changed = false;
    for (name, new) in changes {
        match (source.get_mut(name), new) {
            (Some(Value::Object(old)), Value::Object(new)) => changed |= merge_source(old, new),
            (Some(old), new) => {
                if old != new {
                    *old = new.clone();
                    changed = true;
                }
            }
            (None, new) => {
                source.insert(name.clone(), new.clone());
                changed = true;
            }
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(source: Value, changes: Value, expect: Value, changed: bool) {
        let (Value::Object(mut source), Value::Object(changes)) = (source, changes) else {
            panic!("objects")
        };
        assert_eq!(merge_source(&mut source, &changes), changed, "{changes:?}");
        assert_eq!(Value::Object(source), expect);
    }

    #[test]
    fn objects_merge_and_the_rest_is_replaced() {
        check(json!({"a": 1}), json!({"b": 2}), json!({"a": 1, "b": 2}), true);
        check(json!({"a": 1}), json!({"a": 1}), json!({"a": 1}), false);
        check(json!({"a": 1}), json!({"a": null}), json!({"a": null}), true);
        check(json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]}), true);
        check(
            json!({"a": {"b": 1, "c": 2}}),
            json!({"a": {"c": 3}}),
            json!({"a": {"b": 1, "c": 3}}),
            true,
        );
        check(json!({"a": {"b": 1}}), json!({"a": {}}), json!({"a": {"b": 1}}), false);
        check(json!({"a": {"b": 1}}), json!({"a": 5}), json!({"a": 5}), true);
        check(json!({"a": 5}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}}), true);
    }
}
