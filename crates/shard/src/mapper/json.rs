//! Pull reader of one JSON text: validates everything it passes, builds no tree, never recurses.
//!
//! Custom code because the mapper needs all of this together: one pass (libraries that read lazily
//! pass nested values once per level), a depth limit so that a hostile event cannot overflow the
//! stack, positions for error messages, and numbers as they were written.

use firn_model::{Error, ErrorKind};

/// Maximum nesting depth of objects and arrays, as in Elasticsearch.
pub const DEPTH_MAX: usize = 1000;

/// Syntax error: position and reason.
#[derive(Debug)]
pub(super) struct JsonError {
    position: usize,
    reason: String,
}

pub(super) type JsonResult<T> = Result<T, JsonError>;

/// JSON reader. Positions are byte offsets.
pub(super) struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pub(super) position: usize,
}

/// Raw string between its quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawString {
    /// After the opening quote.
    pub(super) start: usize,
    /// At the closing quote.
    pub(super) end: usize,
    /// Whether it contains escapes.
    pub(super) escaped: bool,
}

/// Bytes that a string cannot contain unescaped: quote, backslash, control characters.
static STOPS: [bool; 256] = {
    let mut stops = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        stops[byte] = true;
        byte += 1;
    }
    stops[b'"' as usize] = true;
    stops[b'\\' as usize] = true;
    stops
};

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            position: 0,
        }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    pub(super) fn fail<T>(&self, reason: impl Into<String>) -> JsonResult<T> {
        Err(JsonError {
            position: self.position,
            reason: reason.into(),
        })
    }

    /// Skips white space and returns the next byte.
    #[inline]
    pub(super) fn peek(&mut self) -> JsonResult<u8> {
        loop {
            match self.bytes.get(self.position) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.position += 1,
                Some(byte) => return Ok(*byte),
                None => return self.fail("unexpected end of input"),
            }
        }
    }

    /// Consumes `byte`, which must be next.
    #[inline]
    pub(super) fn expect(&mut self, byte: u8) -> JsonResult<()> {
        let found = self.peek()?;
        if found != byte {
            return self.unexpected(&format!("was expecting '{}'", char::from(byte)));
        }
        self.position += 1;
        Ok(())
    }

    /// Consumes `byte` if it is next.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> JsonResult<bool> {
        let found = self.peek()? == byte;
        self.position += usize::from(found);
        Ok(found)
    }

    /// After a member or element: true if another follows, false if `close` was consumed.
    #[inline]
    pub(super) fn more(&mut self, close: u8) -> JsonResult<bool> {
        match self.peek()? {
            b',' => {
                self.position += 1;
                Ok(true)
            }
            byte if byte == close => {
                self.position += 1;
                Ok(false)
            }
            _ => self.unexpected(&format!("was expecting ',' or '{}'", char::from(close))),
        }
    }

    pub(super) fn unexpected<T>(&self, expected: &str) -> JsonResult<T> {
        let character = self.text[self.position..].chars().next().unwrap_or('\u{0}');
        self.fail(format!(
            "unexpected character ('{}' (code {})): {expected}",
            character.escape_default(),
            character as u32
        ))
    }

    /// Fails unless only white space follows.
    pub(super) fn finish(&mut self) -> JsonResult<()> {
        while let Some(byte) = self.bytes.get(self.position) {
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return self.unexpected("was expecting the end of the document");
            }
            self.position += 1;
        }
        Ok(())
    }

    /// Reads a string, from its opening quote on.
    #[inline]
    pub(super) fn string(&mut self) -> JsonResult<RawString> {
        if self.bytes.get(self.position) != Some(&b'"') {
            return self.unexpected("was expecting double-quote to start field name or value");
        }
        self.position += 1;
        let start = self.position;
        let mut escaped = false;
        loop {
            let rest = &self.bytes[self.position..];
            let Some(offset) = rest.iter().position(|byte| STOPS[usize::from(*byte)]) else {
                self.position = self.bytes.len();
                return self.fail("unexpected end of input in a string");
            };
            self.position += offset;
            match self.bytes[self.position] {
                b'"' => {
                    let end = self.position;
                    self.position += 1;
                    return Ok(RawString { start, end, escaped });
                }
                b'\\' => {
                    escaped = true;
                    self.escape()?;
                }
                _ => return self.unexpected("control characters must be escaped in a string"),
            }
        }
    }

    /// Validates and skips one escape.
    fn escape(&mut self) -> JsonResult<()> {
        match self.bytes.get(self.position + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.position += 2,
            Some(b'u') => {
                let digits = self.bytes.get(self.position + 2..self.position + 6);
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return self.fail("an \\u escape needs four hexadecimal digits");
                }
                self.position += 6;
            }
            _ => return self.fail("unrecognized character escape"),
        }
        Ok(())
    }

    /// Reads a number as written.
    pub(super) fn number(&mut self) -> JsonResult<(usize, usize)> {
        let start = self.position;
        let digits = |reader: &mut Self| {
            let from = reader.position;
            while reader.bytes.get(reader.position).is_some_and(u8::is_ascii_digit) {
                reader.position += 1;
            }
            reader.position - from
        };
        if self.bytes.get(self.position) == Some(&b'-') {
            self.position += 1;
        }
        let leading_zero = self.bytes.get(self.position) == Some(&b'0');
        let count = digits(self);
        if count == 0 || (leading_zero && count > 1) {
            return self.fail("invalid numeric value");
        }
        if self.bytes.get(self.position) == Some(&b'.') {
            self.position += 1;
            if digits(self) == 0 {
                return self.fail("invalid numeric value: a digit must follow the decimal point");
            }
        }
        if matches!(self.bytes.get(self.position), Some(b'e' | b'E')) {
            self.position += 1;
            if matches!(self.bytes.get(self.position), Some(b'+' | b'-')) {
                self.position += 1;
            }
            if digits(self) == 0 {
                return self.fail("invalid numeric value: a digit must follow the exponent");
            }
        }
        Ok((start, self.position))
    }

    /// Reads `true`, `false` or `null`.
    pub(super) fn literal(&mut self, word: &'static str) -> JsonResult<()> {
        if !self.bytes[self.position..].starts_with(word.as_bytes()) {
            return self.unexpected("was expecting a JSON value");
        }
        self.position += word.len();
        Ok(())
    }

    /// Skips one value of any kind, and validates it.
    pub(super) fn skip_value(&mut self) -> JsonResult<()> {
        let mut in_object = [false; DEPTH_MAX];
        let mut depth = 0;
        'value: loop {
            let opened = match self.peek()? {
                b'{' => Some(true),
                b'[' => Some(false),
                b'"' => {
                    self.string()?;
                    None
                }
                b't' => self.literal("true").map(|()| None)?,
                b'f' => self.literal("false").map(|()| None)?,
                b'n' => self.literal("null").map(|()| None)?,
                _ => self.number().map(|_| None)?,
            };
            if let Some(object) = opened {
                self.position += 1;
                if !self.take(if object { b'}' } else { b']' })? {
                    if depth == DEPTH_MAX {
                        return self.too_deep();
                    }
                    in_object[depth] = object;
                    depth += 1;
                    if object {
                        self.key_and_colon()?;
                    }
                    continue 'value;
                }
            }
            while depth > 0 {
                let object = in_object[depth - 1];
                if self.more(if object { b'}' } else { b']' })? {
                    if object {
                        self.key_and_colon()?;
                    }
                    continue 'value;
                }
                depth -= 1;
            }
            return Ok(());
        }
    }

    pub(super) fn too_deep<T>(&self) -> JsonResult<T> {
        self.fail(format!(
            "Document nesting depth ({}) exceeds the maximum allowed ({DEPTH_MAX})",
            DEPTH_MAX + 1
        ))
    }

    #[inline]
    pub(super) fn key_and_colon(&mut self) -> JsonResult<RawString> {
        self.peek()?;
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    /// Decodes a string's escapes; an unpaired surrogate becomes U+FFFD.
    pub(super) fn unescape_into(&self, raw: RawString, out: &mut String) {
        let mut rest = &self.text[raw.start..raw.end];
        while let Some(at) = rest.find('\\') {
            out.push_str(&rest[..at]);
            let kind = rest.as_bytes()[at + 1];
            rest = &rest[at + 2..];
            match kind {
                b'b' => out.push('\u{8}'),
                b'f' => out.push('\u{c}'),
                b'n' => out.push('\n'),
                b'r' => out.push('\r'),
                b't' => out.push('\t'),
                b'u' => {
                    let (character, length) = unescape_unicode(rest);
                    out.push(character);
                    rest = &rest[length..];
                }
                other => out.push(char::from(other)),
            }
        }
        out.push_str(rest);
    }
}

/// Returns the character of the `\u` digits at the start of `text`, and the number of bytes consumed.
fn unescape_unicode(text: &str) -> (char, usize) {
    let unit = |text: &str| text.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let first = unit(text).unwrap_or(0xfffd);
    if let Some(character) = char::from_u32(first) {
        return (character, 4);
    }
    let second = text[4..].strip_prefix("\\u").and_then(unit);
    match second {
        Some(second @ 0xdc00..=0xdfff) if first < 0xdc00 => {
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            (char::from_u32(code).unwrap_or('\u{fffd}'), 10)
        }
        _ => ('\u{fffd}', 4),
    }
}

impl JsonError {
    /// Converts it to the error of a whole document.
    pub(super) fn into_error(self, text: &[u8]) -> Error {
        let (line, column) = line_and_column(text, self.position);
        Error::new(ErrorKind::DocumentParsing, format!("[{line}:{column}] failed to parse"))
            .with_position(line, column)
            .caused_by(Error::new(ErrorKind::JsonParse, self.reason).with_position(line, column))
    }
}

/// Returns line and column, both from 1, of a byte offset.
pub(super) fn line_and_column(text: &[u8], position: usize) -> (u32, u32) {
    let before = &text[..position.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    (line as u32, column as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, valid: bool) {
        let mut reader = Reader::new(text);
        let result = reader.skip_value().and_then(|()| reader.finish());
        assert_eq!(result.is_ok(), valid, "{text}: {result:?}");
        assert_eq!(
            serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok(),
            valid,
            "{text}"
        );
    }

    #[test]
    fn accepts_valid_json() {
        for text in [
            "{}",
            "[]",
            "[[],{}]",
            r#"{"a":1}"#,
            r#" { "a" : [ 1 , 2 ] } "#,
            "0",
            "-0",
            "1.5e-7",
            "1E+9",
            "true",
            "null",
            r#""""#,
            r#""\u00e9\n\"\\\/""#,
            r#"{"a":{"b":[{"c":null}]}}"#,
            "\"ä\"",
        ] {
            check(text, true);
        }
    }

    #[test]
    fn refuses_invalid_json() {
        for text in [
            "",
            "{",
            "}",
            "[1,]",
            "{,}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            "{a:1}",
            "01",
            "1.",
            ".5",
            "1e",
            "-",
            "+1",
            "tru",
            "nul",
            r#""\x""#,
            r#""\u12g4""#,
            "\"\n\"",
            "\"abc",
            "[1 2]",
            "{\"a\":1 \"b\":2}",
            "1 2",
            "NaN",
            "[}",
            "{]",
        ] {
            check(text, false);
        }
    }

    #[test]
    fn unescapes() {
        let text = r#""a\u00e9\ud83d\ude00\ud83d\n\/x""#;
        let mut reader = Reader::new(text);
        let raw = reader.string().unwrap();
        let mut out = String::new();
        reader.unescape_into(raw, &mut out);
        assert_eq!(out, "aé😀\u{fffd}\n/x");
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Reader::new(&deep(DEPTH_MAX)).skip_value().is_ok());
        assert!(Reader::new(&deep(DEPTH_MAX + 2)).skip_value().is_err());
        assert!(Reader::new(&"[".repeat(1_000_000)).skip_value().is_err());
    }
}
