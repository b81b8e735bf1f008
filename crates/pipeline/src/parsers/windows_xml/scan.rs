//! Scanner of XML tokens: tags with their attributes, and text with its entities replaced.

use std::borrow::Cow;

use memchr::{memchr, memmem};

use super::ParseError;

/// One token.
pub(super) enum Token<'a> {
    /// A start tag; `closed` if it ends with `/>`.
    Start {
        tag: &'a str,
        attributes: Attributes<'a>,
        closed: bool,
    },
    End {
        tag: &'a str,
    },
    /// Text between tags, or a CDATA section.
    Text(Cow<'a, str>),
}

/// Reads tokens from left to right.
pub(super) struct Scanner<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let offset = if text.starts_with('\u{feff}') {
            '\u{feff}'.len_utf8()
        } else {
            0
        };
        Self { text, offset }
    }

    pub(super) fn error(&self, expected: &'static str) -> ParseError {
        ParseError {
            format: "windows_xml",
            expected,
            offset: self.offset,
        }
    }

    /// The next token; comments and processing instructions are skipped. None at the end of the record.
    pub(super) fn next(&mut self) -> Result<Option<Token<'a>>, ParseError> {
        loop {
            let rest = &self.text[self.offset..];
            if rest.is_empty() {
                return Ok(None);
            }
            if !rest.starts_with('<') {
                let end = memchr(b'<', rest.as_bytes()).unwrap_or(rest.len());
                self.offset += end;
                return Ok(Some(Token::Text(unescape(&rest[..end]))));
            }
            if let Some(inside) = rest.strip_prefix("<!--") {
                self.skip_to("-->", inside)?;
            } else if let Some(inside) = rest.strip_prefix("<?") {
                self.skip_to("?>", inside)?;
            } else if let Some(inside) = rest.strip_prefix("<![CDATA[") {
                let text = self.skip_to("]]>", inside)?;
                return Ok(Some(Token::Text(Cow::Borrowed(text))));
            } else if rest.starts_with("<!") {
                return Err(self.error("no document type"));
            } else {
                return self.tag(&rest[1..]).map(Some);
            }
        }
    }

    /// Moves behind `end`, which follows `inside`; returns what stands before it.
    fn skip_to(&mut self, end: &str, inside: &'a str) -> Result<&'a str, ParseError> {
        let Some(length) = memmem::find(inside.as_bytes(), end.as_bytes()) else {
            return Err(self.error("the end of a comment, an instruction or a CDATA section"));
        };
        self.offset = self.text.len() - inside.len() + length + end.len();
        Ok(&inside[..length])
    }

    /// Reads a tag, of which `<` was read.
    fn tag(&mut self, rest: &'a str) -> Result<Token<'a>, ParseError> {
        let is_end = rest.starts_with('/');
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        let length = name_length(rest);
        if length == 0 {
            return Err(self.error("a name after `<`"));
        }
        let tag = local_name(&rest[..length]);
        let rest = &rest[length..];
        if is_end {
            let Some(after) = rest.trim_ascii_start().strip_prefix('>') else {
                return Err(self.error("`>` after the name of a closing tag"));
            };
            self.offset = self.text.len() - after.len();
            return Ok(Token::End { tag });
        }
        let mut attributes = Attributes { rest };
        while attributes.next().is_some() {}
        let after = attributes.rest.trim_ascii_start();
        let (closed, after) = match (after.strip_prefix("/>"), after.strip_prefix('>')) {
            (Some(after), _) => (true, after),
            (_, Some(after)) => (false, after),
            _ => return Err(self.error("`name=\"value\"` or `>` in a tag")),
        };
        self.offset = self.text.len() - after.len();
        Ok(Token::Start {
            tag,
            attributes: Attributes { rest },
            closed,
        })
    }
}

/// Attributes of a tag: names without namespace prefixes, and values. Declarations of namespaces have the name `xmlns`.
#[derive(Clone)]
pub(super) struct Attributes<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a str, Cow<'a, str>);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.trim_ascii_start();
        if rest.len() == self.rest.len() {
            return None;
        }
        let length = name_length(rest);
        let name = &rest[..length];
        let value = rest[length..].trim_ascii_start().strip_prefix('=')?.trim_ascii_start();
        let quote = value
            .bytes()
            .next()
            .filter(|byte| length > 0 && matches!(byte, b'"' | b'\''))?;
        let value = &value[1..];
        let end = memchr(quote, value.as_bytes())?;
        self.rest = &value[end + 1..];
        let name = if name.starts_with("xmlns:") {
            "xmlns"
        } else {
            local_name(name)
        };
        Some((name, unescape(&value[..end])))
    }
}

/// Length of the name at the start of `text`.
fn name_length(text: &str) -> usize {
    let is_end = |byte| {
        matches!(
            byte,
            b' ' | b'\t' | b'\r' | b'\n' | b'/' | b'>' | b'<' | b'=' | b'"' | b'\'' | b'&'
        )
    };
    text.bytes().position(is_end).unwrap_or(text.len())
}

/// A name without its namespace prefix.
fn local_name(name: &str) -> &str {
    match name.split_once(':') {
        Some((_, local)) if !local.is_empty() => local,
        _ => name,
    }
}

/// Bytes of an entity at most, from `&` to `;`.
const ENTITY_BYTES_MAX: usize = 12;

/// Replaces the five entities of XML and references to characters. Others are text.
fn unescape(text: &str) -> Cow<'_, str> {
    let Some(first) = memchr(b'&', text.as_bytes()) else {
        return Cow::Borrowed(text);
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut next = Some(first);
    while let Some(at) = next {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let bytes = rest.as_bytes();
        let end = memchr(b';', &bytes[..bytes.len().min(ENTITY_BYTES_MAX)]);
        match end.and_then(|end| Some((entity(&rest[1..end])?, end + 1))) {
            Some((character, length)) => {
                out.push(character);
                rest = &rest[length..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
        next = memchr(b'&', rest.as_bytes());
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn entity(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}
