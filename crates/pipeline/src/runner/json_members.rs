//! Members of JSON objects: those that are added without parsing, and those that a path names.

use serde_json::{Map, Value};

/// Returns the value at a path, whose names are joined by dots.
pub(super) fn member<'v>(object: &'v Map<String, Value>, path: &str) -> Option<&'v Value> {
    let mut names = path.split('.');
    let first = object.get(names.next()?)?;
    names.try_fold(first, |value, name| value.get(name))
}

/// Adds members to a printed JSON object.
pub(super) fn add_members(object: &mut Vec<u8>, members: &[u8]) {
    let end = object.iter().rposition(|byte| *byte == b'}').unwrap_or(0);
    object.truncate(end);
    let is_empty = object.iter().rfind(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    if !is_empty {
        object.push(b',');
    }
    object.extend_from_slice(members);
    object.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_member() {
        let object = serde_json::json!({"a": {"b": {"c": 1}}, "d": 2});
        let found = |path: &str| member(object.as_object().unwrap(), path).and_then(Value::as_u64);
        assert_eq!((found("a.b.c"), found("d")), (Some(1), Some(2)));
        assert_eq!(
            (found("a.b"), found("a.x.c"), found("d.a"), found("x")),
            (None, None, None, None)
        );
    }

    #[test]
    fn members_are_added_to_objects() {
        let check = |object: &str, expect: &str| {
            let mut object = object.as_bytes().to_vec();
            add_members(&mut object, b"\"x\":{}");
            assert_eq!(String::from_utf8(object).unwrap(), expect);
        };
        check("{}", r#"{"x":{}}"#);
        check("{ } \n", r#"{ "x":{}}"#);
        check(r#"{"a":{"b":1}} "#, r#"{"a":{"b":1},"x":{}}"#);
    }
}
