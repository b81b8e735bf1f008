//! Where a query that somebody typed stops making sense, and what could have stood there.
//!
//! Parsers count in bytes of the text. Whoever shows the error counts in UTF-16 code units, as browsers do, or in
//! lines and columns, as Elasticsearch does; both are worked out here, once.

use std::ops::Range;

use serde_json::{Map, Value, json};

use crate::Error;

/// The first mistake in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// Bytes of the text that are wrong, at character boundaries; empty where something is missing.
    pub at: Range<usize>,
    /// What is wrong, as a sentence without its end.
    pub message: String,
    /// What could have stood there, as the language writes it, or by name (`value`).
    pub expected: Vec<String>,
}

impl SyntaxError {
    /// The error of a request that holds the text. Its details are `position` (`start` and `end`, UTF-16, half open)
    /// and `expected`.
    pub fn into_error(self, text: &str) -> Error {
        let (line, column) = line_and_column(text, self.at.start);
        let mut details = Map::new();
        details.insert("position".into(), position(text, &self.at));
        details.insert("expected".into(), json!(self.expected));
        Error::parsing(format!("line {line}:{column}: {}", self.message))
            .with_position(line, column)
            .with_details(details)
    }
}

/// `{"start": n, "end": n}` in UTF-16 code units.
pub fn position(text: &str, at: &Range<usize>) -> Value {
    json!({"start": utf16_offset(text, at.start), "end": utf16_offset(text, at.end)})
}

/// UTF-16 code units before a byte of the text; all of them if it is past the end.
pub fn utf16_offset(text: &str, byte: usize) -> usize {
    let before = text.get(..byte).unwrap_or(text);
    before.encode_utf16().count()
}

/// The byte where so many UTF-16 code units are over; within a pair the byte before it, past the end the end.
pub fn byte_offset(text: &str, units: usize) -> usize {
    let mut seen = 0;
    for (byte, letter) in text.char_indices() {
        seen += letter.len_utf16();
        if seen > units {
            return byte;
        }
    }
    text.len()
}

/// Both from 1, in characters.
pub fn line_and_column(text: &str, byte: usize) -> (u32, u32) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    (line as u32, column as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_told_in_utf16() {
        let text = "é😀x";
        for (byte, units) in [(0, 0), (2, 1), (6, 3), (7, 4), (99, 4)] {
            assert_eq!(utf16_offset(text, byte), units);
        }
        for (units, byte) in [(0, 0), (1, 2), (2, 2), (3, 6), (4, 7), (99, 7)] {
            assert_eq!(byte_offset(text, units), byte);
        }
        assert_eq!(line_and_column("a\né b", 4), (2, 2));
    }

    #[test]
    fn errors_carry_the_place() {
        let error = SyntaxError {
            at: 2..6,
            message: "this is no query".to_owned(),
            expected: vec!["value".to_owned()],
        }
        .into_error("é😀x");
        assert_eq!(error.reason(), "line 1:2: this is no query");
        assert_eq!(error.position(), Some((1, 2)));
        let details = Value::Object(error.details().unwrap().clone());
        assert_eq!(
            details,
            json!({"position": {"start": 1, "end": 3}, "expected": ["value"]})
        );
    }
}
