//! Hand-written parser of ISO 8601: the hot path of indexing, without allocation.

use super::parts::{ParsedZone, Parts};
use super::zone::Zone;

/// Cursor that reads a text from its beginning.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Returns the unread text.
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips `length` bytes, which must end at a character boundary.
    pub(super) fn skip(&mut self, length: usize) {
        self.at += length;
    }

    /// Consumes `byte` (ASCII) if it is next.
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let hit = self.peek() == Some(byte);
        self.at += usize::from(hit);
        hit
    }

    /// Consumes `literal` if it is next.
    pub(super) fn eat_str(&mut self, literal: &str) -> bool {
        let hit = self.rest().starts_with(literal);
        if hit {
            self.at += literal.len();
        }
        hit
    }

    /// Reads as many digits as possible, from `min` to `max` (at most 18).
    pub(super) fn digits(&mut self, min: usize, max: usize) -> Option<i64> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut value = 0i64;
        while self.at - start < max {
            match bytes.get(self.at) {
                Some(byte @ b'0'..=b'9') => {
                    value = value * 10 + i64::from(byte - b'0');
                    self.at += 1;
                }
                _ => break,
            }
        }
        (self.at - start >= min).then_some(value)
    }

    /// Reads digits as an unsigned number of at most 9 digits.
    pub(super) fn small(&mut self, min: usize, max: usize) -> Option<u32> {
        self.digits(min, max.min(9)).map(|value| value as u32)
    }

    /// Reads `min` to `max` (at most 9) digits after the point, as ns.
    pub(super) fn fraction(&mut self, min: usize, max: usize) -> Option<u32> {
        let start = self.at;
        let value = self.small(min, max)?;
        Some(value * 10u32.pow(9 - (self.at - start) as u32))
    }

    /// Reads a year: four digits (`min` in a lenient format), more only with a sign.
    pub(super) fn year(&mut self, min: usize) -> Option<i64> {
        let negative = self.peek() == Some(b'-');
        let signed = negative || self.peek() == Some(b'+');
        self.at += usize::from(signed);
        let year = self.digits(min, if signed { 9 } else { 4 })?;
        Some(if negative { -year } else { year })
    }

    /// Reads `+01:00`, `+0100`, `+01`, `+01:00:00`, `+1`: returns seconds, within 18 hours.
    pub(super) fn offset(&mut self) -> Option<i32> {
        let sign = match self.peek()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        self.at += 1;
        let hours = self.small(1, 2)?;
        let colon = self.eat(b':');
        let minutes = match self.peek() {
            Some(b'0'..=b'9') => self.small(2, 2)?,
            _ if colon => return None,
            _ => 0,
        };
        let seconds = match self.peek() {
            Some(b':') if colon => {
                self.at += 1;
                self.small(2, 2)?
            }
            Some(b'0'..=b'9') if !colon => self.small(2, 2)?,
            _ => 0,
        };
        let total = hours * 3600 + minutes * 60 + seconds;
        (minutes < 60 && seconds < 60 && total <= 18 * 3600).then_some(sign * total as i32)
    }

    /// Reads `Z`, an offset, or the name of a zone, to the end of the text or the next blank.
    pub(super) fn zone(&mut self) -> Option<ParsedZone> {
        match self.peek()? {
            b'Z' | b'z' if self.rest().len() == 1 || !self.text.as_bytes()[self.at + 1].is_ascii_alphabetic() => {
                self.at += 1;
                Some(ParsedZone::OffsetSeconds(0))
            }
            b'+' | b'-' => self.offset().map(ParsedZone::OffsetSeconds),
            b'A'..=b'Z' | b'a'..=b'z' => {
                let rest = self.rest();
                let is_part =
                    |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-' | b'+' | b':');
                let length = rest.bytes().position(|byte| !is_part(byte)).unwrap_or(rest.len());
                let zone = Zone::parse(&rest[..length]).ok()?;
                self.at += length;
                Some(ParsedZone::Named(Box::new(zone)))
            }
            _ => None,
        }
    }
}

/// Parses `yyyy[-MM[-dd]]['T'[HH[:mm[:ss[.fraction]]]][zone]]`, the whole text. Lenient formats accept single digits
/// where strict ones require two.
pub(super) fn parse(text: &str, strict: bool) -> Option<Parts> {
    let mut cursor = Cursor::new(text);
    let parts = parse_prefix(&mut cursor, strict)?;
    cursor.is_at_end().then_some(parts)
}

fn parse_prefix(cursor: &mut Cursor<'_>, strict: bool) -> Option<Parts> {
    let min = if strict { 2 } else { 1 };
    let mut parts = Parts {
        year: Some(cursor.year(if strict { 4 } else { 1 })?),
        ..Parts::default()
    };
    if cursor.eat(b'-') {
        parts.month = Some(cursor.small(min, 2)?);
        if cursor.eat(b'-') {
            parts.day = Some(cursor.small(min, 2)?);
        }
    }
    if !cursor.eat(b'T') {
        return Some(parts);
    }
    if cursor.peek().is_none() {
        return Some(parts);
    }
    parts.hour = Some(cursor.small(min, 2)?);
    if cursor.eat(b':') {
        parts.minute = Some(cursor.small(min, 2)?);
        if cursor.eat(b':') {
            parts.second = Some(cursor.small(min, 2)?);
            if cursor.eat(b'.') || cursor.eat(b',') {
                parts.nano = Some(cursor.fraction(1, 9)?);
            }
        }
    }
    if !cursor.is_at_end() {
        parts.zone = Some(cursor.zone()?);
    }
    Some(parts)
}
