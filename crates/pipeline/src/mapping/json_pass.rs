//! One pass over a JSON object: names that the pack knows are found level by level, all else is passed over as text.

use std::borrow::Cow;

use super::pack::NameTree;
use super::raw_fields::RawFields;
use super::scan::{DEPTH_MAX, Inside, Scanner, string_value, unescape};
use crate::event::Value;
use crate::parsers::ParseError;

/// Pushes the fields of a record. Objects without a known name inside stay one value.
pub(crate) fn parse<'a>(tree: &NameTree, record: &'a str, fields: &mut RawFields<'a, '_>) -> Result<(), ParseError> {
    let mut scanner = Scanner::new(record);
    if !scanner.eat(b'{') {
        return Err(scanner.failure("a JSON object"));
    }
    let mut path = String::new();
    object(tree, 0, &mut scanner, &mut path, fields, 1)?;
    scanner.end()
}

/// Reads the fields of an object whose brace was read.
fn object<'a>(
    tree: &NameTree,
    node: u16,
    scanner: &mut Scanner<'a>,
    path: &mut String,
    fields: &mut RawFields<'a, '_>,
    depth: usize,
) -> Result<(), ParseError> {
    if scanner.eat(b'}') {
        return Ok(());
    }
    let level = &tree.nodes[usize::from(node)];
    loop {
        let name = match scanner.string()? {
            Inside::Plain(name) => Cow::Borrowed(name),
            Inside::Escaped(inside) | Inside::HalfPair(inside) => {
                let mut name = String::with_capacity(inside.len());
                unescape(inside, &mut name);
                Cow::Owned(name)
            }
        };
        scanner.colon()?;
        let (field, inner) = match level.keys.find(&name) {
            Some(key) => level.entries[usize::from(key)],
            None => (None, None),
        };
        match inner {
            Some(inner) if depth < DEPTH_MAX && scanner.peek() == Some(b'{') => {
                scanner.eat(b'{');
                if scanner.eat(b'}') {
                    push_unmapped(path, name, Value::Json(Cow::Borrowed("{}")), fields);
                    match scanner.eat(b',') {
                        true => continue,
                        false => break,
                    }
                }
                if tree.nodes[usize::from(inner)].is_unnamed {
                    object(tree, inner, scanner, &mut String::new(), fields, depth + 1)?;
                } else {
                    let length = path.len();
                    path.push_str(&name);
                    path.push('.');
                    object(tree, inner, scanner, path, fields, depth + 1)?;
                    path.truncate(length);
                }
            }
            _ => {
                let value = if scanner.peek() == Some(b'"') {
                    let inside = scanner.string()?;
                    fields.has_replacements |= matches!(inside, Inside::HalfPair(_));
                    string_value(inside)
                } else {
                    scanner.value()?
                };
                match field {
                    Some(field) => fields.push_known(field, value),
                    None => push_unmapped(path, name, value, fields),
                }
            }
        }
        if !scanner.eat(b',') {
            break;
        }
    }
    if scanner.eat(b'}') {
        return Ok(());
    }
    Err(scanner.failure("a comma or the end of the object"))
}

#[inline]
fn push_unmapped<'a>(path: &str, name: Cow<'a, str>, value: Value<'a>, fields: &mut RawFields<'a, '_>) {
    let name = match path {
        "" => name,
        path => Cow::Owned(format!("{path}{name}")),
    };
    fields.push_unmapped(name, value);
}
