//! Key-value text: `a=1 b="two words"`.
//!
//! Follows Elasticsearch's kv processor (reference page "KV processor"): both separators are regular expressions, keys and
//! values are trimmed of chosen characters, brackets and quotes are stripped. Beyond it, [`Quotes::Group`] lets a quoted
//! value contain separators, as firewalls write it. Prefixes and lists of keys are the receiver's business.

use std::borrow::Cow;

use memchr::memchr;
use regex::Regex;

use super::ParseError;
use crate::event::{FieldSink, Value};

#[cfg(test)]
mod tests;

/// Bytes of a compiled separator or trimmer at most.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Characters that `strip_brackets` removes, once at each end of a value.
const OPENING: [char; 5] = ['(', '[', '<', '"', '\''];
const CLOSING: [char; 5] = [')', ']', '>', '"', '\''];

/// Meaning of a quote at the start of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Quotes {
    /// None, as in Elasticsearch: separators inside quotes separate.
    #[default]
    Text,
    /// `"` and `'` group: the value ends at the same quote, `\` escapes a quote and itself.
    Group,
}

/// What a part without a value separator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Incomplete {
    /// The record is refused, as in Elasticsearch.
    #[default]
    Refuse,
    /// The part is skipped.
    Skip,
}

/// Parser of key-value text with its options.
#[derive(Debug, Clone)]
pub struct KeyValue {
    field_split: Separator,
    value_split: Separator,
    trim_key: Option<Trim>,
    trim_value: Option<Trim>,
    strip_brackets: bool,
    quotes: Quotes,
    incomplete: Incomplete,
}

impl KeyValue {
    /// Creates a parser from the two separators, which are regular expressions.
    ///
    /// # Errors
    /// If one is empty or no regular expression. The text says why.
    pub fn new(field_split: &str, value_split: &str) -> Result<Self, String> {
        Ok(Self {
            field_split: Separator::new(field_split).map_err(|reason| format!("[field_split] {reason}"))?,
            value_split: Separator::new(value_split).map_err(|reason| format!("[value_split] {reason}"))?,
            trim_key: None,
            trim_value: None,
            strip_brackets: false,
            quotes: Quotes::default(),
            incomplete: Incomplete::default(),
        })
    }

    /// Trims these characters from keys; they are the inside of a character class, as in Elasticsearch.
    ///
    /// # Errors
    /// If they make no character class.
    pub fn trim_key(mut self, characters: &str) -> Result<Self, String> {
        self.trim_key = Some(Trim::new(characters).map_err(|reason| format!("[trim_key] {reason}"))?);
        Ok(self)
    }

    /// Trims these characters from values.
    ///
    /// # Errors
    /// If they make no character class.
    pub fn trim_value(mut self, characters: &str) -> Result<Self, String> {
        self.trim_value = Some(Trim::new(characters).map_err(|reason| format!("[trim_value] {reason}"))?);
        Ok(self)
    }

    /// Strips one bracket or quote from each end of a value, before it is trimmed.
    pub fn strip_brackets(mut self, strip: bool) -> Self {
        self.strip_brackets = strip;
        self
    }

    /// Sets the meaning of quotes.
    pub fn quotes(mut self, quotes: Quotes) -> Self {
        self.quotes = quotes;
        self
    }

    /// Sets what a part without a value separator does.
    pub fn incomplete(mut self, incomplete: Incomplete) -> Self {
        self.incomplete = incomplete;
        self
    }

    /// Parses one record and pushes its pairs in order. Empty parts at the end are no parts.
    ///
    /// # Errors
    /// If a part has no value separator and [`Incomplete::Refuse`] is set. The pairs before it have been pushed.
    pub fn parse<'a, S: FieldSink<'a> + ?Sized>(&self, record: &'a str, sink: &mut S) -> Result<(), ParseError> {
        let mut from = 0;
        while from < record.len() {
            let part = self.part(record, from);
            match part.pair {
                Some((key_end, value_start)) => {
                    let key = trimmed(&record[from..key_end], self.trim_key.as_ref());
                    let value = self.value(&record[value_start..part.end], part.quoted);
                    sink.field(key, Value::Text(value));
                }
                None if self.incomplete == Incomplete::Skip => {}
                // Elasticsearch's splitter drops empty parts at the end of the text.
                None if record[from..part.end].is_empty() && self.rest_is_empty(record, from) => return Ok(()),
                None => {
                    return Err(ParseError {
                        format: "key-value",
                        expected: "a value separator in each part",
                        offset: from,
                    });
                }
            }
            from = part.next;
        }
        Ok(())
    }

    /// The part that starts at `from`. It is searched no further than to its end, or to its closing quote.
    fn part(&self, record: &str, from: usize) -> Part {
        let rest = &record[from..];
        let (end, next) = self.field_split.find(rest).unwrap_or((rest.len(), rest.len()));
        let pair = self.value_split.find(&rest[..end]);
        if self.quotes == Quotes::Group
            && let Some((key_end, value_start)) = pair
            && let Some((value_end, next)) = self.quoted(rest, value_start)
        {
            return Part {
                pair: Some((from + key_end, from + value_start + 1)),
                end: from + value_end,
                next: from + next,
                quoted: true,
            };
        }
        Part {
            pair: pair.map(|(start, next)| (from + start, from + next)),
            end: from + end,
            next: from + next,
            quoted: false,
        }
    }

    /// End of the quoted value whose quote stands at `start`, and where the next part starts. None if there is no quote, it
    /// is not closed, or text follows it.
    fn quoted(&self, text: &str, start: usize) -> Option<(usize, usize)> {
        let quote = text
            .as_bytes()
            .get(start)
            .copied()
            .filter(|byte| matches!(byte, b'"' | b'\''))?;
        let end = start + 1 + quoted_length(&text[start + 1..], quote)?;
        let after = &text[end + 1..];
        if after.is_empty() {
            return Some((end, text.len()));
        }
        let (separator_start, separator_end) = self.field_split.find(after)?;
        (separator_start == 0).then_some((end, end + 1 + separator_end))
    }

    fn rest_is_empty(&self, record: &str, from: usize) -> bool {
        let mut rest = &record[from..];
        while let Some((0, next)) = self.field_split.find(rest) {
            rest = &rest[next..];
        }
        rest.is_empty()
    }

    fn value<'a>(&self, value: &'a str, quoted: bool) -> Cow<'a, str> {
        if quoted && memchr(b'\\', value.as_bytes()).is_some() {
            return Cow::Owned(trimmed(&unescape(value), self.trim_value.as_ref()).to_owned());
        }
        let mut value = value;
        if self.strip_brackets && !quoted {
            value = value.strip_prefix(OPENING).unwrap_or(value);
            value = value.strip_suffix(CLOSING).unwrap_or(value);
        }
        Cow::Borrowed(trimmed(value, self.trim_value.as_ref()))
    }
}

/// One part of a record, offsets in the record.
struct Part {
    /// End of the key and start of the value.
    pair: Option<(usize, usize)>,
    end: usize,
    next: usize,
    quoted: bool,
}

/// Length of a value up to its closing quote.
fn quoted_length(text: &str, quote: u8) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(quote, b'\\', text.as_bytes().get(from..)?)?;
        if text.as_bytes()[at] == quote {
            return Some(at);
        }
        from = at + 2;
    }
}

/// Removes the backslash before a quote and before itself.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(next) = chars.next() {
        match chars.peek() {
            Some(&escaped @ ('"' | '\'' | '\\')) if next == '\\' => {
                out.push(escaped);
                chars.next();
            }
            _ => out.push(next),
        }
    }
    out
}

/// A separator: literal text where its pattern is one.
#[derive(Debug, Clone)]
enum Separator {
    Byte(u8),
    Literal(String),
    Pattern(Regex),
}

impl Separator {
    fn new(pattern: &str) -> Result<Self, String> {
        if pattern.is_empty() {
            return Err("must not be empty".to_owned());
        }
        if regex::escape(pattern) == pattern {
            return Ok(match pattern.as_bytes() {
                [byte] => Self::Byte(*byte),
                _ => Self::Literal(pattern.to_owned()),
            });
        }
        compile(pattern).map(Self::Pattern)
    }

    /// Start and end of the first separator in `text`. A pattern that matches nothing does not separate.
    fn find(&self, text: &str) -> Option<(usize, usize)> {
        match self {
            Self::Byte(byte) => memchr(*byte, text.as_bytes()).map(|at| (at, at + 1)),
            Self::Literal(literal) => text.find(literal.as_str()).map(|at| (at, at + literal.len())),
            Self::Pattern(regex) => {
                let found = regex.find_iter(text).find(|found| !found.is_empty())?;
                Some((found.start(), found.end()))
            }
        }
    }
}

fn compile(pattern: &str) -> Result<Regex, String> {
    let mut builder = regex::RegexBuilder::new(pattern);
    builder
        .size_limit(COMPILED_BYTES_MAX)
        .build()
        .map_err(|error| error.to_string())
}

/// What is trimmed from both ends.
#[derive(Debug, Clone)]
enum Trim {
    Characters(Vec<char>),
    /// The inside of a character class with syntax in it: what it matches at the end, as Elasticsearch compiles it.
    Class {
        start: Regex,
        one: Regex,
    },
}

impl Trim {
    fn new(characters: &str) -> Result<Self, String> {
        if characters.is_empty() {
            return Err("must not be empty".to_owned());
        }
        if !characters.contains(['\\', '-', '^', '[', ']', '&', '~']) {
            return Ok(Self::Characters(characters.chars().collect()));
        }
        Ok(Self::Class {
            start: compile(&format!("^[{characters}]+"))?,
            one: compile(&format!("^[{characters}]$"))?,
        })
    }
}

fn trimmed<'a>(text: &'a str, trim: Option<&Trim>) -> &'a str {
    match trim {
        None => text,
        Some(Trim::Characters(characters)) => text.trim_matches(characters.as_slice()),
        Some(Trim::Class { start, one }) => {
            let text = &text[start.find(text).map_or(0, |found| found.end())..];
            let mut buffer = [0; 4];
            text.trim_end_matches(|last: char| one.is_match(last.encode_utf8(&mut buffer)))
        }
    }
}
