//! JSON (RFC 8259): one object, flattened to dotted names in one pass, without a tree.
//!
//! Values stay as they were received: strings without escapes are text, strings with escapes are passed on still escaped,
//! numbers keep their digits, arrays stay JSON. Everything that is passed on is checked, so that what is made of it is valid
//! JSON again. Duplicate names are pushed in their order.

mod scan;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use self::scan::Scanner;
use super::ParseError;
use crate::event::{FieldSink, Value};

/// Objects and arrays inside each other at most. Elasticsearch's mappings permit 20 objects by default.
pub const DEPTH_MAX: usize = 64;

/// Parses one object and pushes its fields. Empty objects are pushed as JSON, so that none is lost.
///
/// # Errors
/// If the record is no JSON object, or deeper than [`DEPTH_MAX`]. The fields before the fault have been pushed.
pub fn parse<'a, S: FieldSink<'a> + ?Sized>(record: &'a str, sink: &mut S) -> Result<(), ParseError> {
    let mut scanner = Scanner::new(record);
    scanner.space();
    scanner.byte(b'{', "a JSON object")?;
    scanner.space();
    if !scanner.skip(b'}') {
        object(&mut scanner, sink)?;
    }
    scanner.space();
    match scanner.offset() == record.len() {
        true => Ok(()),
        false => Err(scanner.error("nothing after the object")),
    }
}

/// Reads the inside of the outermost object up to its brace. Iterative: the depth of a record costs no stack.
fn object<'a, S: FieldSink<'a> + ?Sized>(scanner: &mut Scanner<'a>, sink: &mut S) -> Result<(), ParseError> {
    let mut path: Vec<Cow<'a, str>> = Vec::new();
    loop {
        let name = match scanner.string("a name in quotes")? {
            (name, false) => Cow::Borrowed(name),
            (name, true) => Cow::Owned(unescape(name)),
        };
        scanner.space();
        scanner.byte(b':', "`:` after a name")?;
        scanner.space();
        if scanner.peek() == Some(b'{') {
            let start = scanner.offset();
            scanner.skip(b'{');
            scanner.space();
            if scanner.skip(b'}') {
                let empty = Value::Json(Cow::Borrowed(scanner.since(start)));
                push(&path, name, empty, sink);
            } else if path.len() + 2 > DEPTH_MAX {
                return Err(scanner.error("at most 64 levels"));
            } else {
                path.push(name);
                continue;
            }
        } else {
            let value = scanner.value(path.len() + 1)?;
            push(&path, name, value, sink);
        }
        loop {
            scanner.space();
            if scanner.skip(b',') {
                scanner.space();
                break;
            }
            scanner.byte(b'}', "`,` or `}` after a value")?;
            if path.pop().is_none() {
                return Ok(());
            }
        }
    }
}

/// Pushes one field under its dotted name.
fn push<'a, S: FieldSink<'a> + ?Sized>(path: &[Cow<'a, str>], name: Cow<'a, str>, value: Value<'a>, sink: &mut S) {
    match name {
        Cow::Borrowed(name) if path.is_empty() => sink.field(name, value),
        name => {
            let mut parts = [""; DEPTH_MAX];
            for (part, outer) in parts.iter_mut().zip(path) {
                *part = outer;
            }
            parts[path.len()] = &name;
            sink.joined(&parts[..=path.len()], value);
        }
    }
}

/// Text of [`Value::Escaped`]. A surrogate without its pair becomes U+FFFD; what is no escape is text.
pub fn unescape(escaped: &str) -> String {
    let mut out = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match rest.as_bytes().get(1) {
            Some(b'n') => simple(&mut out, '\n'),
            Some(b't') => simple(&mut out, '\t'),
            Some(b'r') => simple(&mut out, '\r'),
            Some(b'b') => simple(&mut out, '\u{8}'),
            Some(b'f') => simple(&mut out, '\u{c}'),
            Some(&byte @ (b'"' | b'\\' | b'/')) => simple(&mut out, char::from(byte)),
            Some(b'u') => code_point(&mut out, rest),
            _ => 0,
        };
        if length == 0 {
            out.push('\\');
        }
        rest = &rest[length.max(1)..];
    }
    out.push_str(rest);
    out
}

fn simple(out: &mut String, character: char) -> usize {
    out.push(character);
    2
}

/// Appends the character of `\uXXXX` or of a pair of them; returns the bytes read, 0 if there are no four digits.
fn code_point(out: &mut String, text: &str) -> usize {
    let unit = |text: &str| {
        let digits = text.strip_prefix("\\u")?.get(..4)?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
        u16::from_str_radix(digits, 16).ok()
    };
    let Some(first) = unit(text) else { return 0 };
    let second = if (0xd800..0xdc00).contains(&first) {
        unit(&text[6..])
    } else {
        None
    };
    if let Some(second) = second
        && let Some(Ok(character)) = char::decode_utf16([first, second]).next()
    {
        out.push(character);
        return 12;
    }
    out.push(char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER));
    6
}
