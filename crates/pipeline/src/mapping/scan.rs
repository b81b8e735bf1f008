//! Scanner of JSON text that borrows what it finds and checks all that it passes over.

use std::borrow::Cow;

use crate::event::Value;
use crate::parsers::ParseError;

/// Most nested arrays and objects; serde_json has the same limit.
pub(crate) const DEPTH_MAX: usize = 128;

/// Inside of a JSON string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inside<'a> {
    /// Without escapes.
    Plain(&'a str),
    /// With escapes, all of them valid.
    Escaped(&'a str),
    /// With half of a surrogate pair, which no Unicode text can hold.
    HalfPair(&'a str),
}

/// Position in a JSON text.
#[derive(Debug, Clone)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(crate) fn failure(&self, expected: &'static str) -> ParseError {
        ParseError {
            format: "json",
            expected,
            offset: self.at,
        }
    }

    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        loop {
            match bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    /// Consumes `byte` if it comes next after white space.
    #[inline]
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let hit = self.peek() == Some(byte);
        self.at += usize::from(hit);
        hit
    }

    /// Fails unless only white space remains.
    pub(crate) fn end(&mut self) -> Result<(), ParseError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.failure("the end of the record")),
        }
    }

    /// Reads a string; its opening quote comes next.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<Inside<'a>, ParseError> {
        if !self.eat(b'"') {
            return Err(self.failure("a string"));
        }
        let start = self.at;
        self.at = next_special(self.text.as_bytes(), self.at);
        match self.text.as_bytes().get(self.at) {
            Some(b'"') => {
                self.at += 1;
                Ok(Inside::Plain(&self.text[start..self.at - 1]))
            }
            _ => self.string_with_escapes(start),
        }
    }

    fn string_with_escapes(&mut self, start: usize) -> Result<Inside<'a>, ParseError> {
        let bytes = self.text.as_bytes();
        let mut is_half = false;
        loop {
            match bytes.get(self.at) {
                Some(b'"') => {
                    let inside = &self.text[start..self.at];
                    self.at += 1;
                    return Ok(match is_half {
                        true => Inside::HalfPair(inside),
                        false => Inside::Escaped(inside),
                    });
                }
                Some(b'\\') => match bytes.get(self.at + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
                    Some(b'u') => {
                        let Some(unit) = code_unit(bytes, self.at) else {
                            return Err(self.failure("four hexadecimal digits"));
                        };
                        self.at += 6;
                        match unit {
                            0xD800..=0xDBFF => match code_unit(bytes, self.at) {
                                Some(0xDC00..=0xDFFF) => self.at += 6,
                                _ => is_half = true,
                            },
                            0xDC00..=0xDFFF => is_half = true,
                            _ => {}
                        }
                    }
                    _ => return Err(self.failure("an escape")),
                },
                Some(_) => return Err(self.failure("no control character in a string")),
                None => return Err(self.failure("a closing quote")),
            }
            self.at = next_special(bytes, self.at);
        }
    }

    /// Reads any value. Arrays and objects are checked and returned as text.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<Value<'a>, ParseError> {
        match self.peek() {
            Some(b'"') => self.string().map(string_value),
            Some(b'{' | b'[') => self.container().map(|text| Value::Json(Cow::Borrowed(text))),
            Some(b'-' | b'0'..=b'9') => self.number().map(|text| Value::Number(Cow::Borrowed(text))),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.failure("a value")),
        }
    }

    fn word(&mut self, word: &'static str, value: Value<'a>) -> Result<Value<'a>, ParseError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.failure("a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn digits(&mut self) -> Result<(), ParseError> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.failure("a digit"));
        }
        Ok(())
    }

    fn number(&mut self) -> Result<&'a str, ParseError> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        self.at += usize::from(bytes[self.at] == b'-');
        if bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
            if bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
                return Err(self.failure("a number without leading zeros"));
            }
        } else {
            self.digits()?;
        }
        if bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(bytes.get(self.at), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(&self.text[start..self.at])
    }

    /// Passes over an array or object without recursion, and returns its text.
    fn container(&mut self) -> Result<&'a str, ParseError> {
        let start = self.at;
        // One bit per open container: 1 is an object.
        let mut open: u128 = 0;
        let mut depth = 0usize;
        loop {
            // A value begins here.
            match self.peek() {
                Some(bracket @ (b'{' | b'[')) => {
                    if depth == DEPTH_MAX {
                        return Err(self.failure("at most 128 nested arrays and objects"));
                    }
                    self.at += 1;
                    depth += 1;
                    open = open << 1 | u128::from(bracket == b'{');
                    if !self.eat(if bracket == b'{' { b'}' } else { b']' }) {
                        if bracket == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                    depth -= 1;
                    open >>= 1;
                }
                Some(b'"') => {
                    if let Inside::HalfPair(_) = self.string()? {
                        return Err(self.failure("no half of a surrogate pair in an array or object"));
                    }
                }
                _ => {
                    self.value()?;
                }
            }
            // A value ended here: close what ends with it.
            loop {
                if depth == 0 {
                    return Ok(&self.text[start..self.at]);
                }
                let is_object = open & 1 == 1;
                if self.eat(b',') {
                    if is_object {
                        self.key()?;
                    }
                    break;
                }
                if !self.eat(if is_object { b'}' } else { b']' }) {
                    return Err(self.failure("a comma or the end of an array or object"));
                }
                depth -= 1;
                open >>= 1;
            }
        }
    }

    fn key(&mut self) -> Result<(), ParseError> {
        if let Inside::HalfPair(_) = self.string()? {
            return Err(self.failure("no half of a surrogate pair in a name"));
        }
        self.colon()
    }

    #[inline]
    pub(crate) fn colon(&mut self) -> Result<(), ParseError> {
        if self.eat(b':') {
            return Ok(());
        }
        Err(self.failure("a colon"))
    }
}

/// Returns the value of a scanned string.
#[inline]
pub(crate) fn string_value(inside: Inside<'_>) -> Value<'_> {
    match inside {
        Inside::Plain(text) => Value::Text(Cow::Borrowed(text)),
        Inside::Escaped(text) => Value::Escaped(text),
        Inside::HalfPair(text) => {
            let mut plain = String::new();
            unescape(text, &mut plain);
            Value::Text(Cow::Owned(plain))
        }
    }
}

/// Calls `each` with the elements of an array that was scanned before. Returns `false` if the text is no array.
pub(crate) fn elements<'a>(text: &'a str, mut each: impl FnMut(Value<'a>)) -> bool {
    let mut scanner = Scanner::new(text);
    if !scanner.eat(b'[') {
        return false;
    }
    if scanner.eat(b']') {
        return true;
    }
    while let Ok(value) = scanner.value() {
        each(value);
        if !scanner.eat(b',') {
            return true;
        }
    }
    false
}

/// Appends the text of a JSON string's inside, whose escapes are valid. Half a surrogate pair becomes U+FFFD.
pub(crate) fn unescape(inside: &str, out: &mut String) {
    let bytes = inside.as_bytes();
    let mut at = 0;
    while let Some(next) = memchr::memchr(b'\\', &bytes[at..]) {
        out.push_str(&inside[at..at + next]);
        at += next;
        let unescaped = match bytes.get(at + 1) {
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let unit = code_unit(bytes, at).unwrap_or(0xFFFD);
                at += 4;
                let mut code = unit;
                if let (0xD800..=0xDBFF, Some(low @ 0xDC00..=0xDFFF)) = (unit, code_unit(bytes, at + 2)) {
                    code = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                    at += 6;
                }
                char::from_u32(code).unwrap_or('\u{FFFD}')
            }
            Some(&other) => char::from(other),
            None => return,
        };
        out.push(unescaped);
        at += 2;
    }
    out.push_str(&inside[at..]);
}

/// Reads `\uXXXX` at an offset.
fn code_unit(bytes: &[u8], at: usize) -> Option<u32> {
    let escape = bytes.get(at..at + 6)?;
    if !escape.starts_with(b"\\u") {
        return None;
    }
    escape[2..]
        .iter()
        .try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);

/// Returns a word whose high bits mark the bytes of `word` that stand escaped in JSON, from the lowest on. Bytes above the
/// first marked one may be marked wrongly.
#[inline]
pub(crate) fn specials(word: u64) -> u64 {
    let quotes = word ^ (ONES * b'"' as u64);
    let backslashes = word ^ (ONES * b'\\' as u64);
    let zero = |bytes: u64| bytes.wrapping_sub(ONES) & !bytes;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (zero(quotes) | zero(backslashes) | control) & HIGHS
}

/// Returns a word whose high bits mark exactly the bytes that stand escaped in JSON.
#[inline]
pub(crate) fn all_specials(word: u64) -> u64 {
    let zero = |bytes: u64| !(((bytes & !HIGHS) + !HIGHS) | bytes) & HIGHS;
    zero(word ^ (ONES * b'"' as u64)) | zero(word ^ (ONES * b'\\' as u64)) | zero(word & (ONES * 0xE0))
}

/// Returns the offset of the next quote, backslash or control character, or the length.
#[inline]
pub(crate) fn next_special(bytes: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let marks = specials(u64::from_le_bytes(*chunk));
        if marks != 0 {
            return at + (marks.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(byte) = bytes.get(at) {
        if *byte < 0x20 || *byte == b'"' || *byte == b'\\' {
            break;
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(text: &str) -> bool {
        let mut scanner = Scanner::new(text);
        scanner.value().is_ok() && scanner.end().is_ok()
    }

    #[test]
    fn accepts_what_serde_json_accepts() {
        for text in [
            "1",
            "-0",
            "01",
            "1.",
            "1.5",
            ".5",
            "1e5",
            "1e",
            "1E+5",
            "-",
            "true",
            "tru",
            "null",
            "nul",
            "\"a\"",
            "\"a",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u00e9\"",
            "\"\\u00\"",
            "\"\u{1}\"",
            "[]",
            "[1,2]",
            "[1,]",
            "[",
            "{}",
            "{\"a\":1}",
            "{\"a\":}",
            "{\"a\"}",
            "{a:1}",
            "{\"a\":[{\"b\":[]}],\"c\":{}}",
            "[[[]]]",
            "[}",
            "{]",
            "",
            " 1 ",
            "1 2",
            "\"\\ud83d\\ude00\"",
            "{\"a\":1,}",
            "[1 2]",
            "\"é\\n\"",
            "[\"\\\\\"]",
        ] {
            let expected = serde_json::from_str::<serde_json::Value>(text).is_ok();
            assert_eq!(accepts(text), expected, "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(accepts(&nested(DEPTH_MAX)));
        assert!(!accepts(&nested(DEPTH_MAX + 1)));
    }

    #[test]
    fn unescapes_as_serde_json_does() {
        for text in [
            r"a\nb",
            r"\\\\",
            r#"\"x\""#,
            r"\u00e9\t",
            r"\ud83d\ude00!",
            r"\/\b\f\r",
            "é",
        ] {
            let mut out = String::new();
            unescape(text, &mut out);
            let expected: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
            assert_eq!(out, expected, "{text}");
        }
        let mut out = String::new();
        unescape(r"\ud83d!", &mut out);
        assert_eq!(out, "\u{FFFD}!");
    }

    #[test]
    fn half_a_surrogate_pair_is_reported() {
        assert_eq!(Scanner::new(r#""\ud83d""#).string(), Ok(Inside::HalfPair(r"\ud83d")));
        assert_eq!(
            Scanner::new(r#""\ud83dx""#).value(),
            Ok(Value::Text("\u{FFFD}x".into()))
        );
        assert!(Scanner::new(r#"["\ud83d"]"#).value().is_err());
    }

    #[test]
    fn finds_the_first_special_byte_at_any_offset() {
        for special in ['"', '\\', '\n', '\u{0}', '\u{1f}'] {
            for at in 0..40 {
                let text = "é".repeat(at) + &special.to_string() + "\"\\\u{80}x";
                assert_eq!(next_special(text.as_bytes(), 0), at * 2);
            }
        }
        assert_eq!(next_special("no\u{7f}thing é".as_bytes(), 0), 11);
    }
}
