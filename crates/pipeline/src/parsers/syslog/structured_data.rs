//! Structured data of RFC 5424: `[id name="value" name="value"][id …]`, with `\"`, `\\` and `\]` in values.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use crate::event::{FieldSink, Value};

/// One step of reading: a parameter, or the end of all elements.
enum Step<'a> {
    Element(&'a str),
    Parameter {
        name: &'a str,
        value: &'a str,
        escaped: bool,
    },
    End,
}

/// Reads elements step by step.
struct Reader<'a> {
    text: &'a str,
    offset: usize,
    inside: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            offset: 0,
            inside: false,
        }
    }

    /// The next step. None if the text does not follow the format.
    fn next(&mut self) -> Option<Step<'a>> {
        let rest = &self.text[self.offset..];
        if !self.inside {
            let Some(rest) = rest.strip_prefix('[') else {
                return Some(Step::End);
            };
            let id = name(rest)?;
            self.offset += 1 + id.len();
            self.inside = true;
            return Some(Step::Element(id));
        }
        let trimmed = rest.trim_start_matches(' ');
        if let Some(next) = trimmed.strip_prefix(']') {
            self.offset = self.text.len() - next.len();
            self.inside = false;
            return self.next();
        }
        if trimmed.len() == rest.len() {
            return None;
        }
        let name = name(trimmed)?;
        let quoted = trimmed[name.len()..].strip_prefix("=\"")?;
        let (length, escaped) = value_length(quoted)?;
        self.offset = self.text.len() - quoted.len() + length + 1;
        Some(Step::Parameter {
            name,
            value: &quoted[..length],
            escaped,
        })
    }
}

/// Where the structured data at the start of `text` ends. None if there is none, or it is malformed.
pub(super) fn end(text: &str) -> Option<usize> {
    let mut reader = Reader::new(text);
    while !matches!(reader.next()?, Step::End) {}
    let is_separated = matches!(text.as_bytes().get(reader.offset), None | Some(b' '));
    (reader.offset > 0 && is_separated).then_some(reader.offset)
}

/// Pushes each parameter as `sd.<id>.<name>`. `text` is what [`end`] accepted.
pub(super) fn push<'a, S: FieldSink<'a> + ?Sized>(text: &'a str, sink: &mut S) {
    let mut reader = Reader::new(text);
    let mut id = "";
    while let Some(step) = reader.next() {
        match step {
            Step::Element(element) => id = element,
            Step::Parameter { name, value, escaped } => {
                let value = if escaped {
                    Cow::Owned(unescape(value))
                } else {
                    Cow::Borrowed(value)
                };
                sink.joined(&["sd", id, name], Value::Text(value));
            }
            Step::End => break,
        }
    }
}

/// A name at the start of `text`: anything but a space, `=`, `]` and `"`.
fn name(text: &str) -> Option<&str> {
    let end = text
        .bytes()
        .position(|byte| matches!(byte, b' ' | b'=' | b']' | b'"'))?;
    (end > 0).then(|| &text[..end])
}

/// Length of a value up to its closing quote, and whether it contains a backslash.
fn value_length(text: &str) -> Option<(usize, bool)> {
    let bytes = text.as_bytes();
    let mut from = 0;
    let mut escaped = false;
    loop {
        let at = from + memchr2(b'"', b'\\', bytes.get(from..)?)?;
        if bytes[at] == b'"' {
            return Some((at, escaped));
        }
        escaped = true;
        from = at + 2;
    }
}

/// Removes the backslash before `"`, `\` and `]`; others are text.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        match rest.as_bytes().get(at + 1) {
            Some(&byte @ (b'"' | b'\\' | b']')) => {
                out.push(char::from(byte));
                rest = &rest[at + 2..];
            }
            _ => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out.push_str(rest);
    out
}
