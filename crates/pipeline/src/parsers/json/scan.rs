//! Scanner of JSON tokens: strings, numbers, literals, and whole arrays that are only checked.

use std::borrow::Cow;

use memchr::memchr2;

use super::{DEPTH_MAX, ParseError};
use crate::event::Value;

/// Reads tokens from left to right.
pub(super) struct Scanner<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, offset: 0 }
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// The text from `start` to here.
    pub(super) fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.offset]
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.offset).copied()
    }

    /// Skips `byte` if it stands here.
    pub(super) fn skip(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.offset += usize::from(found);
        found
    }

    pub(super) fn byte(&mut self, byte: u8, expected: &'static str) -> Result<(), ParseError> {
        if self.skip(byte) {
            Ok(())
        } else {
            Err(self.error(expected))
        }
    }

    pub(super) fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.offset += 1;
        }
    }

    pub(super) fn error(&self, expected: &'static str) -> ParseError {
        ParseError {
            format: "json",
            expected,
            offset: self.offset,
        }
    }

    /// Reads a string; returns its inside, and whether it contains escapes.
    pub(super) fn string(&mut self, expected: &'static str) -> Result<(&'a str, bool), ParseError> {
        self.byte(b'"', expected)?;
        let start = self.offset;
        let bytes = self.text.as_bytes();
        let mut escaped = false;
        loop {
            let Some(found) = memchr2(b'"', b'\\', &bytes[self.offset..]) else {
                self.offset = bytes.len();
                return Err(self.error("a closing quote"));
            };
            self.offset += found;
            if bytes[self.offset] == b'"' {
                break;
            }
            escaped = true;
            self.escape()?;
        }
        let inside = &self.text[start..self.offset];
        if inside.bytes().fold(false, |control, byte| control | (byte < b' ')) {
            self.offset = start + inside.bytes().position(|byte| byte < b' ').unwrap_or(0);
            return Err(self.error("no control character in a string"));
        }
        self.offset += 1;
        Ok((inside, escaped))
    }

    /// Skips one escape, of which the backslash stands here.
    fn escape(&mut self) -> Result<(), ParseError> {
        let bytes = self.text.as_bytes();
        match bytes.get(self.offset + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.offset += 2,
            Some(b'u') => {
                let digits = bytes.get(self.offset + 2..self.offset + 6);
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(self.error("four hexadecimal digits after `\\u`"));
                }
                self.offset += 6;
            }
            _ => return Err(self.error("an escape of JSON")),
        }
        Ok(())
    }

    /// Reads a value that is no object, inside `depth` containers.
    pub(super) fn value(&mut self, depth: usize) -> Result<Value<'a>, ParseError> {
        let start = self.offset;
        match self.peek() {
            Some(b'"') => Ok(match self.string("a value")? {
                (text, false) => Value::text(text),
                (text, true) => Value::Escaped(text),
            }),
            Some(b'[') => {
                self.containers(depth)?;
                Ok(Value::Json(Cow::Borrowed(self.since(start))))
            }
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                Ok(Value::Number(Cow::Borrowed(self.since(start))))
            }
            _ => Err(self.error("a value")),
        }
    }

    fn literal(&mut self, word: &'static str, value: Value<'a>) -> Result<Value<'a>, ParseError> {
        if !self.text[self.offset..].starts_with(word) {
            return Err(self.error("`true`, `false` or `null`"));
        }
        self.offset += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<(), ParseError> {
        self.skip(b'-');
        if !self.skip(b'0') {
            self.digits()?;
        }
        if self.skip(b'.') {
            self.digits()?;
        }
        if self.skip(b'e') || self.skip(b'E') {
            let _ = self.skip(b'+') || self.skip(b'-');
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), ParseError> {
        let start = self.offset;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.offset += 1;
        }
        if self.offset == start {
            Err(self.error("a digit"))
        } else {
            Ok(())
        }
    }

    /// Skips an array and all in it, checking each token. `depth` containers are around it.
    fn containers(&mut self, depth: usize) -> Result<(), ParseError> {
        // One bit a level: 1 for an object.
        let mut kinds: u64 = 0;
        let mut levels = 0;
        loop {
            // A value stands here.
            let opened = match self.peek() {
                Some(open @ (b'[' | b'{')) => {
                    if depth + levels + 1 > DEPTH_MAX {
                        return Err(self.error("at most 64 levels"));
                    }
                    self.offset += 1;
                    levels += 1;
                    kinds = kinds << 1 | u64::from(open == b'{');
                    true
                }
                _ => {
                    self.value(depth + levels)?;
                    false
                }
            };
            self.space();
            // Behind a value, or at the start of a container: the end of any number of containers, or the next value.
            let mut first = opened;
            loop {
                let is_object = kinds & 1 == 1;
                if self.skip(if is_object { b'}' } else { b']' }) {
                    levels -= 1;
                    kinds >>= 1;
                    if levels == 0 {
                        return Ok(());
                    }
                    self.space();
                    first = false;
                    continue;
                }
                if !first {
                    self.byte(b',', "`,` or the end of an array or object")?;
                    self.space();
                }
                if is_object {
                    self.string("a name in quotes")?;
                    self.space();
                    self.byte(b':', "`:` after a name")?;
                    self.space();
                }
                break;
            }
        }
    }
}
