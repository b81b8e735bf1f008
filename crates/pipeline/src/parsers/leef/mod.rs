//! Log Event Extended Format (LEEF): `LEEF:1.0|vendor|product|version|event id|key=value<tab>key=value`.
//!
//! Follows IBM's "QRadar DSM: Log Event Extended Format (LEEF)" guide. Version 2.0 has a sixth header field, the
//! delimiter: one character, or its code in hexadecimal (`x5E`, `0x5E`). It may be empty or absent, then the delimiter is
//! a tab. The format has no escapes, so all values borrow from the record.

use memchr::{memchr, memmem};

use super::ParseError;
use crate::event::{FieldSink, Value};

#[cfg(test)]
mod tests;

/// Names of the fields that the header is pushed as, in the order of the header.
pub const HEADER_NAMES: [&str; 5] = [
    "leef.version",
    "leef.vendor",
    "leef.product",
    "leef.product_version",
    "leef.event_id",
];

/// Name of the field for each attribute without `=`.
pub const UNPARSED: &str = "leef.unparsed";

const SIGNATURE: &str = "LEEF:";

/// Hexadecimal digits of a delimiter at most: enough for each character that IBM's guide permits.
const DELIMITER_DIGITS_MAX: usize = 4;

/// Offset of `LEEF:` in a record, bytes. What stands before it is the header of a transport.
pub fn locate(record: &str) -> Option<usize> {
    if record.starts_with(SIGNATURE) {
        return Some(0);
    }
    memmem::find(record.as_bytes(), SIGNATURE.as_bytes())
}

/// Parses one record and pushes its header, then its attributes in the record's order, keys as they stand.
///
/// Whitespace around keys and values is dropped.
///
/// # Errors
/// If there is no `LEEF:`, the version is neither 1.0 nor 2.0, or the header has less than five fields. Nothing has been
/// pushed then.
pub fn parse<'a, S: FieldSink<'a> + ?Sized>(record: &'a str, sink: &mut S) -> Result<(), ParseError> {
    let Some(start) = locate(record) else {
        return Err(error("`LEEF:`", 0));
    };
    let start = start + SIGNATURE.len();
    let mut rest = record[start..].trim_start_matches(' ');
    let mut header = [""; 5];
    for (position, field) in header.iter_mut().enumerate() {
        let offset = record.len() - rest.len();
        match memchr(b'|', rest.as_bytes()) {
            Some(end) => (*field, rest) = (&rest[..end], &rest[end + 1..]),
            None if position + 1 == HEADER_NAMES.len() => (*field, rest) = (rest.trim_ascii_end(), ""),
            None => return Err(error("five header fields, each ended by `|`", record.len())),
        }
        if position == 0 && !matches!(*field, "1.0" | "2.0" | "1" | "2") {
            return Err(error("version 1.0 or 2.0 after `LEEF:`", offset));
        }
    }
    let mut delimiter = '\t';
    if header[0].starts_with('2')
        && let Some((named, attributes)) = leading_delimiter(rest)
    {
        (delimiter, rest) = (named, attributes);
    }
    for (name, value) in HEADER_NAMES.into_iter().zip(header) {
        sink.field(name, Value::text(value));
    }
    for attribute in rest.split(delimiter) {
        match memchr(b'=', attribute.as_bytes()) {
            Some(equals) if !attribute[..equals].trim_ascii().is_empty() => {
                let value = attribute[equals + 1..].trim_ascii();
                sink.field(attribute[..equals].trim_ascii(), Value::text(value));
            }
            _ if attribute.trim_ascii().is_empty() => {}
            _ => sink.field(UNPARSED, Value::text(attribute.trim_ascii())),
        }
    }
    Ok(())
}

fn error(expected: &'static str, offset: usize) -> ParseError {
    ParseError {
        format: "leef",
        expected,
        offset,
    }
}

/// The delimiter at the start of `text`, ended by `|`, and what follows it. None if the attributes begin at once.
fn leading_delimiter(text: &str) -> Option<(char, &str)> {
    // The delimiter itself may be `|`.
    if let Some(rest) = text.strip_prefix("||")
        && !rest.is_empty()
    {
        return Some(('|', rest));
    }
    let end = memchr(b'|', text.as_bytes())?;
    let (named, rest) = (&text[..end], &text[end + 1..]);
    let mut chars = named.chars();
    match (chars.next(), chars.next()) {
        (None, _) => return Some(('\t', rest)),
        (Some(single), None) => return Some((single, rest)),
        _ => {}
    }
    let digits = named
        .strip_prefix("0x")
        .or_else(|| named.strip_prefix("0X"))
        .or_else(|| named.strip_prefix(['x', 'X']))?;
    if digits.len() > DELIMITER_DIGITS_MAX || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let delimiter = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)?;
    Some((delimiter, rest))
}
