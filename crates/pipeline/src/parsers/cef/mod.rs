//! Common Event Format (CEF): `CEF:0|vendor|product|version|class|name|severity|key=value key=value`.
//!
//! Follows "Implementing ArcSight Common Event Format" (versions 0 and 1), and logstash-codec-cef where senders do not
//! follow it: values contain unescaped `=`, keys contain subkeys and indices (`ad.field[0]`). A record may begin with
//! anything, usually a syslog header; the parser starts at `CEF:`.
//!
//! A value ends where whitespace and a key with its `=` follow. Whitespace at the end of a value is dropped, whitespace at
//! its begin belongs to it. An unknown escape (`\d`) is text.

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memchr2};

use super::ParseError;
use crate::event::{FieldSink, Value};

#[cfg(test)]
mod tests;

/// Names of the fields that the header is pushed as, in the order of the header.
pub const HEADER_NAMES: [&str; 7] = [
    "cef.version",
    "deviceVendor",
    "deviceProduct",
    "deviceVersion",
    "deviceEventClassId",
    "name",
    "severity",
];

/// Name of the field for text between the header and the first key.
pub const UNPARSED: &str = "cef.unparsed";

const SIGNATURE: &str = "CEF:";

/// Offset of `CEF:` in a record, bytes. What stands before it is the header of a transport.
pub fn locate(record: &str) -> Option<usize> {
    // Headers of transports are short: a searcher for the whole word costs more than it saves.
    memchr_iter(b'C', record.as_bytes()).find(|&at| record.as_bytes()[at..].starts_with(SIGNATURE.as_bytes()))
}

/// Parses one record and pushes its header, then its extension in the record's order, keys as they stand.
///
/// Values borrow from the record unless they contain an escape.
///
/// # Errors
/// If there is no `CEF:`, the version is neither 0 nor 1, or the header has less than seven fields. Nothing has been pushed
/// then. The extension cannot fail: text that is no key belongs to the value before it, or to [`UNPARSED`].
pub fn parse<'a, S: FieldSink<'a> + ?Sized>(record: &'a str, sink: &mut S) -> Result<(), ParseError> {
    let Some(start) = locate(record) else {
        return Err(error("`CEF:`", 0));
    };
    let start = start + SIGNATURE.len();
    let (header, extension) = header(record, start)?;
    for (name, value) in HEADER_NAMES.into_iter().zip(header) {
        sink.field(name, Value::Text(value));
    }
    parse_extension(extension, sink);
    Ok(())
}

fn error(expected: &'static str, offset: usize) -> ParseError {
    ParseError {
        format: "cef",
        expected,
        offset,
    }
}

/// The seven fields of the header, and what follows them.
fn header(record: &str, start: usize) -> Result<([Cow<'_, str>; 7], &str), ParseError> {
    let mut fields = [const { Cow::Borrowed("") }; 7];
    let mut rest = record[start..].trim_start_matches(' ');
    for (position, field) in fields.iter_mut().enumerate() {
        let offset = record.len() - rest.len();
        let last = position + 1 == HEADER_NAMES.len();
        let (text, escaped, next) = match header_field(rest) {
            (end, escaped) if end < rest.len() => (&rest[..end], escaped, &rest[end + 1..]),
            // A record without an extension may also lack the `|` before it.
            (_, escaped) if last => (rest.trim_ascii_end(), escaped, ""),
            _ => return Err(error("seven header fields, each ended by `|`", record.len())),
        };
        if position == 0 && !matches!(text, "0" | "1") {
            return Err(error("version 0 or 1 after `CEF:`", offset));
        }
        *field = if escaped {
            Cow::Owned(unescape(text, |byte| matches!(byte, b'|' | b'\\').then_some(byte)))
        } else {
            Cow::Borrowed(text)
        };
        rest = next;
    }
    Ok((fields, rest))
}

/// End of the header field at the start of `text`, and whether it contains an escape.
fn header_field(text: &str) -> (usize, bool) {
    let bytes = text.as_bytes();
    let mut from = 0;
    let mut escaped = false;
    while let Some(found) = memchr2(b'|', b'\\', &bytes[from..]) {
        let at = from + found;
        if bytes[at] == b'|' {
            return (at, escaped);
        }
        let is_escape = matches!(bytes.get(at + 1), Some(b'|' | b'\\'));
        escaped |= is_escape;
        from = at + 1 + usize::from(is_escape);
    }
    (bytes.len(), escaped)
}

/// Parses `key=value key=value`.
fn parse_extension<'a, S: FieldSink<'a> + ?Sized>(extension: &'a str, sink: &mut S) {
    let bytes = extension.as_bytes();
    let first = next_key(bytes, 0, true);
    let before = extension[..first.map_or(bytes.len(), |(start, _)| start)].trim_ascii();
    if !before.is_empty() {
        sink.field(UNPARSED, unescaped(before, memchr(b'\\', before.as_bytes()).is_some()));
    }
    // One search for the next backslash serves all values before it.
    let mut backslash = 0;
    let mut current = first;
    while let Some((key_start, equals)) = current {
        let value_start = equals + 1;
        current = next_key(bytes, value_start, false);
        let value_end = current.map_or(bytes.len(), |(start, _)| start);
        if backslash < value_start {
            backslash = memchr(b'\\', &bytes[value_start..]).map_or(bytes.len(), |found| value_start + found);
        }
        let value = extension[value_start..value_end].trim_ascii_end();
        sink.field(&extension[key_start..equals], unescaped(value, backslash < value_end));
    }
}

/// The next key at or after `from`: its start and the place of its `=`. A key follows whitespace, or stands at `from`
/// itself if `at_start`.
#[inline]
fn next_key(bytes: &[u8], from: usize, at_start: bool) -> Option<(usize, usize)> {
    let mut search = from;
    while let Some(found) = memchr(b'=', &bytes[search..]) {
        let equals = search + found;
        let mut start = equals;
        while start > search && is_word(bytes[start - 1]) {
            start -= 1;
        }
        if start > search && !is_space(bytes[start - 1]) {
            // A word ends here: either this is a key with a subkey or index, or none.
            while start > search && !is_space(bytes[start - 1]) {
                start -= 1;
            }
            if !is_extended_key(&bytes[start..equals]) {
                search = equals + 1;
                continue;
            }
        }
        let follows_space = start > search && is_space(bytes[start - 1]);
        if start < equals && (follows_space || (at_start && start == from)) {
            return Some((start, equals));
        }
        search = equals + 1;
    }
    None
}

/// True for `word(.subkey)*([index])?`, the keys that logstash-codec-cef accepts beyond plain words.
fn is_extended_key(key: &[u8]) -> bool {
    let Some(word_end) = key.iter().position(|&byte| !is_word(byte)) else {
        return !key.is_empty();
    };
    if word_end == 0 {
        return false;
    }
    let (subkeys, index) = match key[word_end..].iter().position(|&byte| byte == b'[') {
        Some(bracket) => key[word_end..].split_at(bracket),
        None => (&key[word_end..], &b""[..]),
    };
    let index_is_valid = match index {
        [] => true,
        [b'[', digits @ .., b']'] => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let subkeys_are_valid = match subkeys {
        [] => true,
        [b'.', names @ ..] => names
            .split(|&byte| byte == b'.')
            .all(|name| !name.is_empty() && !name.iter().any(|byte| matches!(byte, b'|' | b'\\' | b'[' | b']'))),
        _ => false,
    };
    index_is_valid && subkeys_are_valid
}

/// Value of an extension key, of which `may_escape` says whether a backslash stands in it.
#[inline]
fn unescaped(value: &str, may_escape: bool) -> Value<'_> {
    if !may_escape {
        return Value::text(value);
    }
    Value::Text(Cow::Owned(unescape(value, |byte| match byte {
        b'\\' | b'=' => Some(byte),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        _ => None,
    })))
}

/// Replaces `\x` by what `replacement` has for `x`; other backslashes are text. Replacements are ASCII.
fn unescape(text: &str, replacement: impl Fn(u8) -> Option<u8>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        match rest.as_bytes().get(at + 1).and_then(|&byte| replacement(byte)) {
            Some(byte) => {
                out.push(char::from(byte));
                rest = &rest[at + 2..];
            }
            None => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}

const WORD: u8 = 1;
const SPACE: u8 = 2;

/// Classes of bytes, one look-up each.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let ascii = byte as u8;
        if ascii.is_ascii_alphanumeric() || ascii == b'_' {
            classes[byte] = WORD;
        } else if ascii.is_ascii_whitespace() {
            classes[byte] = SPACE;
        }
        byte += 1;
    }
    classes
};

fn is_word(byte: u8) -> bool {
    CLASSES[usize::from(byte)] == WORD
}

fn is_space(byte: u8) -> bool {
    CLASSES[usize::from(byte)] == SPACE
}
