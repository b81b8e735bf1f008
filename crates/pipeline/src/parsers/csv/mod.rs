//! Comma-separated values: one line, its columns by name.
//!
//! Follows Elasticsearch's csv processor (reference page "CSV processor") and RFC 4180: a quoted field may contain the
//! separator, line breaks and doubled quotes; a quote inside an unquoted field is malformed. Fields past the last named
//! column are ignored, missing ones are not pushed, empty ones are pushed as empty text.

use std::borrow::Cow;

use memchr::{memchr, memchr3};

use super::ParseError;
use crate::event::{FieldSink, Value};

#[cfg(test)]
mod tests;

/// Parser of lines with the same columns.
#[derive(Debug, Clone)]
pub struct Csv {
    columns: Vec<String>,
    separator: char,
    quote: char,
    trim: bool,
}

impl Csv {
    /// Creates a parser for these columns, separated by commas and quoted by `"`. A column with an empty name is skipped.
    pub fn new(columns: Vec<String>) -> Self {
        Self {
            columns,
            separator: ',',
            quote: '"',
            trim: false,
        }
    }

    /// Sets the separator.
    pub fn separator(mut self, separator: char) -> Self {
        self.separator = separator;
        self
    }

    /// Sets the quote.
    pub fn quote(mut self, quote: char) -> Self {
        self.quote = quote;
        self
    }

    /// Drops whitespace around unquoted fields and around quotes.
    pub fn trim(mut self, trim: bool) -> Self {
        self.trim = trim;
        self
    }

    /// Parses one line and pushes its fields by column. One line break at the end does not belong to it.
    ///
    /// # Errors
    /// If a quote is not closed, stands inside an unquoted field, or is followed by text; or if a line break stands
    /// outside quotes. The fields before it have been pushed.
    pub fn parse<'a, S: FieldSink<'a> + ?Sized>(&'a self, record: &'a str, sink: &mut S) -> Result<(), ParseError> {
        let line = record.strip_suffix('\n').unwrap_or(record);
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            return Ok(());
        }
        let mut next = Some(0);
        for column in &self.columns {
            let Some(start) = next else { break };
            let (value, end) = self.field(line, start)?;
            next = end;
            if !column.is_empty() {
                sink.field(column, Value::Text(value));
            }
        }
        Ok(())
    }

    /// The field at `start`, and where the next one starts.
    fn field<'a>(&self, line: &'a str, start: usize) -> Result<(Cow<'a, str>, Option<usize>), ParseError> {
        let rest = &line[start..];
        let inner = if self.trim {
            rest.trim_start_matches([' ', '\t'])
        } else {
            rest
        };
        let Some(quoted) = inner.strip_prefix(self.quote) else {
            return self.unquoted(line, start);
        };
        let (length, doubled) = self.quoted_length(quoted).ok_or(ParseError {
            format: "csv",
            expected: "a closing quote",
            offset: line.len(),
        })?;
        let value = match doubled {
            true => {
                let quote = self.quote.to_string();
                Cow::Owned(quoted[..length].replace(&quote.repeat(2), &quote))
            }
            false => Cow::Borrowed(&quoted[..length]),
        };
        let after = &quoted[length + self.quote.len_utf8()..];
        let after = if self.trim {
            after.trim_start_matches([' ', '\t'])
        } else {
            after
        };
        if after.is_empty() {
            return Ok((value, None));
        }
        match after.strip_prefix(self.separator) {
            Some(next) => Ok((value, Some(line.len() - next.len()))),
            None => Err(ParseError {
                format: "csv",
                expected: "a separator after the closing quote",
                offset: line.len() - after.len(),
            }),
        }
    }

    fn unquoted<'a>(&self, line: &'a str, start: usize) -> Result<(Cow<'a, str>, Option<usize>), ParseError> {
        let rest = &line[start..];
        let length = match u8::try_from(self.separator) {
            Ok(separator) if separator.is_ascii() => memchr(separator, rest.as_bytes()),
            _ => rest.find(self.separator),
        };
        let value = &rest[..length.unwrap_or(rest.len())];
        let illegal = match u8::try_from(self.quote) {
            Ok(quote) if quote.is_ascii() => memchr3(quote, b'\n', b'\r', value.as_bytes()),
            _ => value.find([self.quote, '\n', '\r']),
        };
        if let Some(at) = illegal {
            return Err(ParseError {
                format: "csv",
                expected: "no quote and no line break in an unquoted field",
                offset: start + at,
            });
        }
        let value = if self.trim { value.trim_ascii() } else { value };
        Ok((
            Cow::Borrowed(value),
            length.map(|length| start + length + self.separator.len_utf8()),
        ))
    }

    /// Length of a quoted field up to its closing quote, and whether it contains doubled quotes.
    fn quoted_length(&self, text: &str) -> Option<(usize, bool)> {
        let mut from = 0;
        let mut doubled = false;
        loop {
            let at = from + text[from..].find(self.quote)?;
            from = at + self.quote.len_utf8();
            if !text[from..].starts_with(self.quote) {
                return Some((at, doubled));
            }
            doubled = true;
            from += self.quote.len_utf8();
        }
    }
}
