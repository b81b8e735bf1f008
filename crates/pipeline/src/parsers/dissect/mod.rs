//! Dissect: splitting at fixed delimiters, `%{clientip} %{ident} [%{@timestamp}]`.
//!
//! Follows Elasticsearch's dissect processor (reference page "Dissect processor"). Modifiers of a key: `->` skips repeated
//! delimiters behind it, `+name` appends to a field, `+name/2` appends in this order, `?name` and an empty name skip, `*name`
//! and `&name` take the name and the value of one field from the record. A delimiter that repeats without `->` gives the
//! keys in between empty values.

mod key;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use memchr::memmem;

use self::key::{Key, Modifier};
use super::ParseError;
use crate::event::{FieldSink, Value};

/// Keys of one pattern at most.
pub const KEYS_MAX: usize = 1000;

/// Parser of records with one pattern.
#[derive(Debug)]
pub struct Dissect {
    /// Text before the first key.
    leading: String,
    pairs: Vec<Pair>,
    append_separator: String,
}

/// A key and the delimiter behind it, which is empty at the end of a pattern.
#[derive(Debug)]
struct Pair {
    key: Key,
    delimiter: memmem::Finder<'static>,
}

impl Pair {
    fn delimiter(&self) -> &[u8] {
        self.delimiter.needle()
    }
}

impl Dissect {
    /// Compiles a pattern. `append_separator` stands between the values of `+` keys.
    ///
    /// # Errors
    /// If the pattern has no key, a key is malformed, or `*name` and `&name` do not come in pairs. The text says which.
    pub fn new(pattern: &str, append_separator: &str) -> Result<Self, String> {
        let refused = |reason: String| format!("cannot compile dissect pattern [{pattern}]: {reason}");
        let mut pairs = Vec::new();
        let Some(start) = pattern.find("%{") else {
            return Err(refused("no key `%{name}`".to_owned()));
        };
        let mut rest = &pattern[start..];
        while let Some(inside) = rest.strip_prefix("%{") {
            let Some((key, after)) = inside.split_once('}') else {
                return Err(refused("a key without `}`".to_owned()));
            };
            let key = Key::parse(key).map_err(&refused)?;
            // A delimiter has at least one character: `%{a}%{b}` has the delimiter `%{b}`, as in Elasticsearch.
            let first = after.chars().next().map_or(0, char::len_utf8);
            let length = after[first..].find("%{").map_or(after.len(), |length| first + length);
            pairs.push(Pair {
                key,
                delimiter: memmem::Finder::new(&after[..length]).into_owned(),
            });
            rest = &after[length..];
        }
        if pairs.len() > KEYS_MAX {
            return Err(refused(format!("more than {KEYS_MAX} keys")));
        }
        key::link(pairs.iter_mut().map(|pair| &mut pair.key)).map_err(&refused)?;
        Ok(Self {
            leading: pattern[..start].to_owned(),
            pairs,
            append_separator: append_separator.to_owned(),
        })
    }

    /// Parses one record and pushes its fields in the order of the pattern; an appended field at its first key.
    ///
    /// # Errors
    /// If the record does not have all delimiters in their order. Nothing has been pushed then.
    pub fn parse<'a, S: FieldSink<'a> + ?Sized>(&'a self, record: &'a str, sink: &mut S) -> Result<(), ParseError> {
        let values = self.values(record).ok_or(ParseError {
            format: "dissect",
            expected: "all delimiters of the pattern in their order",
            offset: 0,
        })?;
        for (number, (pair, &value)) in self.pairs.iter().zip(&values).enumerate() {
            match &pair.key.modifier {
                Modifier::None => sink.field(&pair.key.name, Value::text(value)),
                Modifier::Append { parts } => {
                    if parts.iter().min() == Some(&number) {
                        let parts: Vec<_> = parts.iter().map(|&part| values[part]).collect();
                        let joined = Cow::Owned(parts.join(&self.append_separator));
                        sink.field(&pair.key.name, Value::Text(joined));
                    }
                }
                Modifier::FieldName { value: other } => sink.field(value, Value::text(values[*other])),
                Modifier::Skip | Modifier::FieldValue => {}
            }
        }
        Ok(())
    }

    /// Values of all keys. None if the record does not match. Walks the record as Elasticsearch does.
    fn values<'a>(&self, record: &'a str) -> Option<Vec<&'a str>> {
        let mut rest = record.strip_prefix(&*self.leading)?;
        if rest.is_empty() {
            return None;
        }
        let mut values = Vec::with_capacity(self.pairs.len());
        let mut pairs = self.pairs.iter();
        let mut pair = pairs.next()?;
        loop {
            if pair.delimiter().is_empty() {
                values.push(rest);
                break;
            }
            let end = pair.delimiter.find(rest.as_bytes())?;
            values.push(&rest[..end]);
            rest = &rest[end + pair.delimiter().len()..];
            while !pair.delimiter().is_empty() && rest.as_bytes().starts_with(pair.delimiter()) {
                rest = &rest[pair.delimiter().len()..];
                if !pair.key.skips_right_padding {
                    let Some(next) = pairs.next() else { break };
                    pair = next;
                    values.push("");
                }
            }
            match pairs.next() {
                Some(next) => pair = next,
                None => break,
            }
        }
        (values.len() == self.pairs.len()).then_some(values)
    }
}
