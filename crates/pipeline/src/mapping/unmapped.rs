//! Fields that stay under the prefix of the pack: nothing of a record is lost.

use std::collections::HashSet;

use super::print::{push_int, push_quoted, push_string};
use super::raw_fields::Unmapped;
use crate::event::Value;

/// Up to so many fields a repeated name is looked for among those with the same hash; beyond, the fields are sorted.
const UNSORTED_MAX: usize = 64;

/// Appends the object of the unmapped fields. Names with dots become nested objects; a repeated name becomes an array. If a
/// name is both a value and an object, the fields of the object keep their dotted names.
///
/// The fields are printed in the order of the record, or sorted if there are names with dots or repeated names.
pub(crate) fn print(fields: &mut [Unmapped<'_>], out: &mut Vec<u8>) {
    out.push(b'{');
    if !is_flat(fields) {
        fields.sort_by(|a, b| a.name.split('.').cmp(b.name.split('.')));
        print_nested(fields, out);
    } else {
        for (at, field) in fields.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            push_string(&field.name, out);
            out.push(b':');
            print_value(&field.value, out);
        }
    }
    out.push(b'}');
}

/// Returns whether no name has a dot and none is repeated.
fn is_flat(fields: &[Unmapped<'_>]) -> bool {
    if fields.len() > UNSORTED_MAX {
        return false;
    }
    let mut seen = [0u64; 4];
    for (at, field) in fields.iter().enumerate() {
        let bytes = field.name.as_bytes();
        let mut hash = bytes.len() as u32;
        for byte in bytes {
            if *byte == b'.' {
                return false;
            }
            hash = hash.wrapping_mul(31).wrapping_add(u32::from(*byte));
        }
        let (word, bit) = ((hash >> 6) as usize % 4, 1 << (hash % 64));
        if seen[word] & bit != 0 && fields[..at].iter().any(|other| other.name == field.name) {
            return false;
        }
        seen[word] |= bit;
    }
    true
}

/// Prints sorted fields.
fn print_nested(fields: &[Unmapped<'_>], out: &mut Vec<u8>) {
    let values: HashSet<&str> = fields.iter().map(|field| &*field.name).collect();
    // Segments of the open objects.
    let mut open: Vec<&str> = Vec::new();
    let mut is_first = true;
    let mut at = 0;
    while at < fields.len() {
        let name = &*fields[at].name;
        let same = fields[at..].iter().take_while(|other| other.name == name).count();
        // Objects whose name is also a value cannot be opened.
        let cut = match dots(name).find(|dot| values.contains(&name[..*dot])) {
            Some(conflict) => name[..conflict].rfind('.'),
            None => name.rfind('.'),
        };
        let (segments, leaf): (Vec<&str>, &str) = match cut {
            Some(dot) => (name[..dot].split('.').collect(), &name[dot + 1..]),
            None => (Vec::new(), name),
        };
        let shared = open.iter().zip(&segments).take_while(|(a, b)| a == b).count();
        for _ in shared..open.len() {
            out.push(b'}');
            is_first = false;
        }
        open.truncate(shared);
        for segment in &segments[shared..] {
            if !is_first {
                out.push(b',');
            }
            push_string(segment, out);
            out.extend_from_slice(b":{");
            open.push(segment);
            is_first = true;
        }
        if !is_first {
            out.push(b',');
        }
        is_first = false;
        push_string(leaf, out);
        out.push(b':');
        if same > 1 {
            out.push(b'[');
        }
        for (number, field) in fields[at..at + same].iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            print_value(&field.value, out);
        }
        if same > 1 {
            out.push(b']');
        }
        at += same;
    }
    out.resize(out.len() + open.len(), b'}');
}

fn dots(name: &str) -> impl Iterator<Item = usize> {
    name.bytes()
        .enumerate()
        .filter(|(_, byte)| *byte == b'.')
        .map(|(at, _)| at)
}

/// Appends a value as its source wrote it.
pub(crate) fn print_value(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(number) => push_int(*number, out),
        Value::Number(json) | Value::Json(json) => out.extend_from_slice(json.as_bytes()),
        Value::Text(text) => push_string(text, out),
        Value::Escaped(inside) => push_quoted(inside, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fields: &[(&str, i64)], expect: &str) {
        let mut fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| Unmapped {
                name: (*name).into(),
                value: Value::Int(*value),
            })
            .collect();
        let mut out = Vec::new();
        print(&mut fields, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }

    #[test]
    fn flat_names_stay_in_the_order_of_the_record() {
        check(&[("b", 1), ("a", 2)], r#"{"b":1,"a":2}"#);
    }

    #[test]
    fn dotted_names_become_objects() {
        check(&[("a.b", 1), ("c", 2), ("a.d", 3)], r#"{"a":{"b":1,"d":3},"c":2}"#);
        check(
            &[("a.b.c", 1), ("a.b.d", 2), ("a.e", 3)],
            r#"{"a":{"b":{"c":1,"d":2},"e":3}}"#,
        );
        check(&[("a.b", 1), ("a-b", 2), ("a.c", 3)], r#"{"a":{"b":1,"c":3},"a-b":2}"#);
    }

    #[test]
    fn a_repeated_name_becomes_an_array() {
        check(&[("a", 1), ("b", 2), ("a", 3)], r#"{"a":[1,3],"b":2}"#);
    }

    #[test]
    fn a_name_that_is_a_value_and_an_object_stays_valid() {
        check(&[("a", 1), ("a.b", 2), ("a.c.d", 3)], r#"{"a":1,"a.b":2,"a.c.d":3}"#);
        check(&[("x.a", 1), ("x.a.b", 2)], r#"{"x":{"a":1,"a.b":2}}"#);
        check(&[("a", 1), ("a-c", 4), ("a.b", 2)], r#"{"a":1,"a.b":2,"a-c":4}"#);
    }

    proptest::proptest! {
        /// Any names give valid JSON without repeated keys, and all values are there.
        #[test]
        fn any_names_give_valid_json(names in proptest::collection::vec("[ab.]{0,5}", 0..8)) {
            let mut fields: Vec<_> = names.iter().map(|name| Unmapped { name: name.as_str().into(), value: Value::Int(7) }).collect();
            let mut out = Vec::new();
            print(&mut fields, &mut out);
            let text = String::from_utf8(out).unwrap();
            let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
            proptest::prop_assert_eq!(text.matches('7').count(), names.len());
            // A repeated key would be lost here.
            proptest::prop_assert_eq!(parsed.to_string(), text);
        }
    }
}
