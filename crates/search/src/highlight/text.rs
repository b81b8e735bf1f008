//! The values of a field as one text, with its tokens.

use std::ops::{ControlFlow, Range};

use firn_model::Result;
use firn_model::mapping::Analyzer;
use firn_segment::analysis;

use crate::compile::limits::Pace;

/// Positions between the last token of a value and the first of the next one, so that no phrase spans values
/// (`position_increment_gap`).
const POSITION_GAP: usize = 100;

/// A word that starts before a limit is completely contained in this many characters after it: longer words are cut
/// anyway.
const WORD_CHARS_MAX: usize = 256;

/// Cost of finding and storing a token, in steps of a [`Pace`].
const STEPS_OF_TOKEN: usize = 4;

/// Separator between two values, as in Lucene's unified highlighter.
const SEPARATOR: char = '\0';

/// All values of a field, joined. Offsets are in characters.
pub(super) struct FieldText {
    pub(super) chars: Vec<char>,
    /// Range of each value in `chars`.
    pub(super) values: Vec<Range<usize>>,
    /// Tokens of all values, in order.
    pub(super) tokens: Vec<Token>,
}

/// A token of the text.
pub(super) struct Token {
    pub(super) text: String,
    /// First character.
    pub(super) start: usize,
    /// After the last character.
    pub(super) end: usize,
    /// Its position for phrases.
    pub(super) position: usize,
}

impl FieldText {
    /// Joins and analyzes values. Tokens that start at character `limit` or later are left out.
    pub(super) fn new(values: &[String], analyzer: Analyzer, limit: Option<u64>, pace: &Pace) -> Result<Self> {
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let mut text = Self {
            chars: Vec::new(),
            values: Vec::with_capacity(values.len()),
            tokens: Vec::new(),
        };
        for value in values {
            if !text.values.is_empty() {
                text.chars.push(SEPARATOR);
            }
            let start = text.chars.len();
            text.chars.extend(value.chars());
            text.values.push(start..text.chars.len());
            if start < limit {
                text.analyze(value, start, analyzer, limit, pace)?;
            }
        }
        Ok(text)
    }

    fn analyze(&mut self, value: &str, start: usize, analyzer: Analyzer, limit: usize, pace: &Pace) -> Result<()> {
        let value = match analyzer {
            Analyzer::Keyword => value,
            _ => head(value, (limit - start).saturating_add(WORD_CHARS_MAX)),
        };
        let first_position = self.tokens.last().map_or(0, |last| last.position + 1 + POSITION_GAP);
        let places = UnitPlaces::new(value);
        pace.step(1 + value.len() / 16)?;
        let ended = analysis::each_token(analyzer, value, |token| {
            let token_start = start + places.of(token.start_offset as usize);
            if token_start >= limit {
                return ControlFlow::Break(Ok(()));
            }
            self.tokens.push(Token {
                text: token.text,
                start: token_start,
                end: start + places.of(token.end_offset as usize),
                position: first_position + token.position as usize,
            });
            match pace.step(STEPS_OF_TOKEN) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(Err(error)),
            }
        });
        ended.break_value().unwrap_or(Ok(()))
    }

    /// Returns the approximate bytes of values with their tokens: most texts have a token every six characters.
    pub(super) fn bytes_of(values: &[String]) -> usize {
        let bytes: usize = values.iter().map(String::len).sum();
        bytes * (size_of::<char>() + size_of::<Token>() / 4)
    }

    pub(super) fn len(&self) -> usize {
        self.chars.len()
    }
}

/// Returns the first characters of a text.
fn head(text: &str, chars: usize) -> &str {
    match text.char_indices().nth(chars) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Conversion from UTF-16 code units, in which analysis counts, to characters.
enum UnitPlaces {
    /// They are the same.
    Same,
    /// The character of each unit.
    Table(Vec<usize>),
}

impl UnitPlaces {
    fn new(text: &str) -> Self {
        if text.chars().all(|character| character.len_utf16() == 1) {
            return Self::Same;
        }
        let mut table = Vec::with_capacity(text.len() + 1);
        for (place, character) in text.chars().enumerate() {
            table.resize(table.len() + character.len_utf16(), place);
        }
        table.push(text.chars().count());
        Self::Table(table)
    }

    fn of(&self, unit: usize) -> usize {
        match self {
            Self::Same => unit,
            Self::Table(table) => table[unit.min(table.len() - 1)],
        }
    }
}

/// Appends characters, HTML-escaped if `html` is set.
pub(super) fn push(out: &mut String, chars: &[char], html: bool) {
    for &character in chars {
        match character {
            '"' if html => out.push_str("&quot;"),
            '&' if html => out.push_str("&amp;"),
            '<' if html => out.push_str("&lt;"),
            '>' if html => out.push_str("&gt;"),
            '\'' if html => out.push_str("&#x27;"),
            '/' if html => out.push_str("&#x2F;"),
            _ => out.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::unbounded;
    use super::*;

    #[test]
    fn tokens_are_placed_by_characters() {
        let values = ["😀 ab".to_owned(), "Cd".to_owned()];
        let text = FieldText::new(&values, Analyzer::Standard, None, &unbounded().pace()).unwrap();
        let tokens: Vec<_> = text
            .tokens
            .iter()
            .map(|token| (token.text.as_str(), token.start, token.end, token.position))
            .collect();
        assert_eq!(tokens, [("ab", 2, 4, 0), ("cd", 5, 7, 101)]);
        assert_eq!(text.values, [0..4, 5..7]);
    }

    #[test]
    fn words_past_the_limit_are_left_out() {
        let long = "ab ".repeat(1000);
        let values = [long, "cd".to_owned()];
        for (limit, count) in [(0, 0), (1, 1), (3, 1), (4, 2), (2999, 1000), (3002, 1001)] {
            let text = FieldText::new(&values, Analyzer::Standard, Some(limit), &unbounded().pace()).unwrap();
            assert_eq!(text.tokens.len(), count, "{limit}");
            assert!(text.tokens.iter().all(|token| token.text.len() == 2));
            assert_eq!(text.len(), 3003);
        }
    }

    #[test]
    fn html() {
        let mut out = String::new();
        push(&mut out, &"<a href='/x'>&\"".chars().collect::<Vec<_>>(), true);
        assert_eq!(out, "&lt;a href=&#x27;&#x2F;x&#x27;&gt;&amp;&quot;");
    }
}
