//! Syntax error of a query text: where it is, and what could stand there.
//!
//! Parsers count in bytes of the text. Clients count in UTF-16 code units, as browsers do, or in lines and columns, as
//! Elasticsearch does; this module converts to both.

use std::ops::Range;

use firn_model::Error;
use serde_json::{Map, Value, json};

/// The first mistake in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// Byte range of the mistake, at character boundaries; empty if something is missing.
    pub at: Range<usize>,
    /// Description of the mistake, as a sentence without its full stop.
    pub message: String,
    /// Texts that could stand there, as the language writes them, or names of categories (`value`).
    pub expected: Vec<String>,
}

impl SyntaxError {
    /// Returns the error of a request that contains the text. Its details are `position` (`start` and `end`, UTF-16,
    /// half open) and `expected`.
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

/// Returns `{"start": n, "end": n}` in UTF-16 code units.
pub fn position(text: &str, at: &Range<usize>) -> Value {
    json!({"start": utf16_offset(text, at.start), "end": utf16_offset(text, at.end)})
}

/// Returns the UTF-16 code units before a byte of the text; all of them if the byte is past the end.
pub fn utf16_offset(text: &str, byte: usize) -> usize {
    let before = text.get(..byte).unwrap_or(text);
    before.encode_utf16().count()
}

/// Returns the byte after `units` UTF-16 code units; within a surrogate pair the byte before it, past the end the end.
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

/// Returns line and column, both from 1, in characters.
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
    fn offsets_are_utf16() {
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
    fn errors_have_positions() {
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
