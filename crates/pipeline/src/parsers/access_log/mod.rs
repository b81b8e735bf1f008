//! Access logs of Apache and nginx: the formats `common` and `combined`, with and without the virtual host before them.
//!
//! Follows the page "Log Files" of the Apache HTTP Server and nginx' `ngx_http_log_module`. The line is split by hand, at
//! its brackets and quotes. Fields: `vhost`, `client`, `ident`, `user`, `timestamp`, `method`, `url`, `http_version`,
//! `status`, `bytes`, `referrer`, `user_agent`. `-` is null. A request that is no HTTP request is pushed whole as `request`;
//! what follows the user agent is pushed as `extra`.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::ParseError;
use crate::event::{FieldSink, Value};

#[cfg(test)]
mod tests;

/// Parses one line and pushes its fields.
///
/// # Errors
/// If the line has no client, time, request or status. Nothing has been pushed then.
pub fn parse<'a, S: FieldSink<'a> + ?Sized>(record: &'a str, sink: &mut S) -> Result<(), ParseError> {
    let line = record.trim_ascii_end();
    let (before, timestamp, rest) = around_time(line).ok_or(error("a client, then a time in brackets", 0))?;
    let client = Client::split(before).ok_or(error("client, identity and user before the time", 0))?;
    let offset = |rest: &str| line.len() - rest.len();
    let (request, rest) = quoted(rest).ok_or_else(|| error("a request in quotes", offset(rest)))?;
    let (status, after_status) = token(rest);
    if !is_number(status) && status != "-" {
        return Err(error("a status", offset(rest)));
    }
    if let Some(vhost) = client.vhost {
        sink.field("vhost", Value::text(vhost));
    }
    sink.field("client", Value::text(client.address));
    sink.field("ident", text_or_null(client.ident));
    sink.field("user", text_or_null(client.user));
    sink.field("timestamp", Value::text(timestamp));
    push_request(request, sink);
    sink.field("status", number_or_null(status));
    let (bytes, after_bytes) = token(after_status);
    let mut rest = after_status;
    if is_number(bytes) || bytes == "-" {
        sink.field("bytes", number_or_null(bytes));
        rest = after_bytes;
    }
    for name in ["referrer", "user_agent"] {
        let Some((value, next)) = quoted(rest) else { break };
        sink.field(name, value.value());
        rest = next;
    }
    let extra = rest.trim_ascii();
    if !extra.is_empty() {
        sink.field("extra", Value::text(extra));
    }
    Ok(())
}

fn error(expected: &'static str, offset: usize) -> ParseError {
    ParseError {
        format: "access_log",
        expected,
        offset,
    }
}

/// The line before its time, the time, and the line after it. The time is the first bracket behind a space with a digit.
fn around_time(line: &str) -> Option<(&str, &str, &str)> {
    let bytes = line.as_bytes();
    let mut from = 0;
    loop {
        let open = from + memchr(b'[', &bytes[from..])?;
        from = open + 1;
        if open > 0 && bytes[open - 1] == b' ' && bytes.get(from).is_some_and(u8::is_ascii_digit) {
            let close = from + memchr(b']', &bytes[from..])?;
            return Some((&line[..open - 1], &line[from..close], &line[close + 1..]));
        }
    }
}

/// What stands before the time.
struct Client<'a> {
    vhost: Option<&'a str>,
    address: &'a str,
    ident: &'a str,
    user: &'a str,
}

impl<'a> Client<'a> {
    /// Splits `[vhost] client ident user`. A user may contain spaces; a virtual host is told by the `-` of the identity.
    fn split(text: &'a str) -> Option<Self> {
        let (first, rest) = text.split_once(' ')?;
        let (second, rest) = rest.split_once(' ')?;
        if first.is_empty() || second.is_empty() || rest.is_empty() {
            return None;
        }
        if let Some(user) = rest.strip_prefix("- ")
            && !user.is_empty()
        {
            return Some(Self {
                vhost: Some(first),
                address: second,
                ident: "-",
                user,
            });
        }
        Some(Self {
            vhost: None,
            address: first,
            ident: second,
            user: rest,
        })
    }
}

/// A text in quotes.
#[derive(Clone, Copy)]
struct Quoted<'a> {
    inside: &'a str,
    escaped: bool,
}

impl<'a> Quoted<'a> {
    fn value(self) -> Value<'a> {
        match self {
            Self { inside: "-", .. } => Value::Null,
            Self { inside, escaped: false } => Value::text(inside),
            Self { inside, escaped: true } => Value::Text(Cow::Owned(unescape(inside))),
        }
    }

    fn part(self, part: &'a str) -> Value<'a> {
        Self { inside: part, ..self }.value()
    }
}

/// The quoted text at the start of `text`, after spaces, and what follows it.
fn quoted(text: &str) -> Option<(Quoted<'_>, &str)> {
    let text = text.trim_ascii_start().strip_prefix('"')?;
    let bytes = text.as_bytes();
    let mut from = 0;
    let mut escaped = false;
    loop {
        let at = from + memchr2(b'"', b'\\', bytes.get(from..)?)?;
        if bytes[at] == b'"' {
            let inside = &text[..at];
            return Some((Quoted { inside, escaped }, &text[at + 1..]));
        }
        escaped = true;
        from = at + 2;
    }
}

/// Pushes method, URL and version of `GET /path HTTP/1.1`; the URL may contain spaces.
fn push_request<'a, S: FieldSink<'a> + ?Sized>(request: Quoted<'a>, sink: &mut S) {
    let text = request.inside;
    let parts = memchr(b' ', text.as_bytes()).map(|end| (&text[..end], &text[end + 1..]));
    match parts {
        Some((method, rest)) if is_method(method) && !rest.is_empty() => {
            let (url, version) = match memchr::memrchr(b' ', rest.as_bytes()) {
                Some(at) if rest[at + 1..].starts_with("HTTP/") => (&rest[..at], Some(&rest[at + 1 + "HTTP/".len()..])),
                _ => (rest, None),
            };
            sink.field("method", Value::text(method));
            sink.field("url", request.part(url));
            if let Some(version) = version {
                sink.field("http_version", request.part(version));
            }
        }
        _ => sink.field("request", request.value()),
    }
}

fn is_method(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_'))
}

/// The word at the start of `text`, after spaces, and what follows it.
fn token(text: &str) -> (&str, &str) {
    let text = text.trim_ascii_start();
    text.split_at(memchr(b' ', text.as_bytes()).unwrap_or(text.len()))
}

fn is_number(text: &str) -> bool {
    // A leading zero is no number in JSON's notation.
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'))
}

fn number_or_null(text: &str) -> Value<'_> {
    if text == "-" {
        Value::Null
    } else {
        Value::Number(Cow::Borrowed(text))
    }
}

fn text_or_null(text: &str) -> Value<'_> {
    if text == "-" { Value::Null } else { Value::text(text) }
}

/// Removes the escapes of both servers: `\"`, `\\`, `\n` and the like, and `\xhh` of ASCII. Others are text.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (character, length) = match rest.as_bytes() {
            [byte @ (b'"' | b'\\'), ..] => (char::from(*byte), 1),
            [b'n', ..] => ('\n', 1),
            [b't', ..] => ('\t', 1),
            [b'r', ..] => ('\r', 1),
            [b'v', ..] => ('\u{b}', 1),
            [b'b', ..] => ('\u{8}', 1),
            [b'f', ..] => ('\u{c}', 1),
            [b'x', high, low, ..] => match hexadecimal(*high, *low) {
                Some(character) => (character, 3),
                None => ('\\', 0),
            },
            _ => ('\\', 0),
        };
        out.push(character);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

fn hexadecimal(high: u8, low: u8) -> Option<char> {
    let code = char::from(high).to_digit(16)? * 16 + char::from(low).to_digit(16)?;
    char::from_u32(code).filter(char::is_ascii)
}
