//! Members that are added to a JSON object without parsing it.

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
