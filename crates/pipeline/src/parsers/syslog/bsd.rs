//! RFC 3164 (BSD syslog) after the priority: `Oct 11 22:14:15 host app[pid]: message`, and what senders make of it.

use super::{leading_digits, push_message, timestamp, token};
use crate::event::{FieldSink, Value};

/// Name of a program at most, bytes. RFC 3164 allows 32; real senders write paths.
const APP_NAME_BYTES_MAX: usize = 128;

/// Pushes the fields of `text`. Without priority and timestamp, all of it is the message.
pub(super) fn parse<'a, S: FieldSink<'a> + ?Sized>(text: &'a str, has_priority: bool, sink: &mut S) {
    let mut rest = text;
    let start = without_sequence_number(text);
    let has_timestamp = if let Some(length) = timestamp::length(start) {
        sink.field("timestamp", Value::text(&start[..length]));
        rest = after_colon(&start[length..]);
        if let Some((hostname, next)) = hostname(rest) {
            sink.field("hostname", Value::text(hostname));
            rest = after_colon(next);
        }
        true
    } else {
        false
    };
    if (has_timestamp || has_priority)
        && let Some((app_name, procid, next)) = tag(rest)
    {
        sink.field("app_name", Value::text(app_name));
        if let Some(procid) = procid {
            sink.field("procid", Value::text(procid));
        }
        rest = next;
    }
    push_message(rest, sink);
}

/// Skips Cisco's sequence numbers (`45: `, `000123: 000124: `) and its marks of an unset clock (`*`, `.`). Without a
/// timestamp behind them the text is none of Cisco's, and the caller ignores the answer.
fn without_sequence_number(text: &str) -> &str {
    let mut rest = text.trim_start_matches(' ');
    // Two numbers at most: the one of the logging host and the one of the message.
    for _ in 0..2 {
        let digits = leading_digits(rest);
        match rest[digits.len()..].strip_prefix(": ") {
            Some(next) if !digits.is_empty() => rest = next.trim_start_matches(' '),
            _ => break,
        }
    }
    rest.strip_prefix(['*', '.']).unwrap_or(rest)
}

/// Skips spaces with at most one colon in between.
fn after_colon(text: &str) -> &str {
    let rest = text.trim_start_matches(' ');
    rest.strip_prefix(": ")
        .or_else(|| (rest == ":").then_some(""))
        .unwrap_or(rest)
        .trim_start_matches(' ')
}

/// The hostname at the start of `text`. None if a tag stands there, or nothing follows.
fn hostname(text: &str) -> Option<(&str, &str)> {
    let (word, rest) = token(text);
    let is_hostname = !word.is_empty()
        && !word.ends_with(':')
        && !word.starts_with('%')
        && word.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'[' | b']' | b'=' | b'{' | b'"' | b'|'))
        // `CEF:0` and the like begin the message.
        && !word.starts_with("CEF:")
        && !word.starts_with("LEEF:");
    // `[2001:db8::1]` and `[10.0.0.1]`, as relays write addresses.
    let is_bracketed = word.len() > 2
        && word.starts_with('[')
        && word.ends_with(']')
        && word[1..word.len() - 1]
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':'))
        && word.bytes().any(|byte| matches!(byte, b'.' | b':'));
    ((is_hostname || is_bracketed) && !rest.is_empty()).then_some((word, rest))
}

/// Program, process and what follows: `sshd[42]: …`, `su: …`, `%ASA-6-302013: …`.
fn tag(text: &str) -> Option<(&str, Option<&str>, &str)> {
    let end = text
        .bytes()
        .take(APP_NAME_BYTES_MAX + 1)
        .position(|byte| matches!(byte, b'[' | b':') || !byte.is_ascii_graphic())?;
    let app_name = &text[..end];
    if app_name.is_empty() || app_name.contains(['=', '"', '{', '<', '|']) || matches!(app_name, "CEF" | "LEEF") {
        return None;
    }
    let (procid, rest) = match text[end..].strip_prefix('[') {
        Some(inside) => {
            let (procid, rest) = inside.split_once(']')?;
            if procid.bytes().any(|byte| byte == b' ') {
                return None;
            }
            (Some(procid).filter(|procid| !procid.is_empty()), rest)
        }
        None => (None, &text[end..]),
    };
    let rest = match rest.strip_prefix(':') {
        // `http://…` and `::1` are text.
        Some(rest) if rest.is_empty() || rest.starts_with(' ') || procid.is_some() => rest,
        // Some programs leave the colon out: `app[42] message`.
        None if procid.is_some() && (rest.is_empty() || rest.starts_with(' ')) => rest,
        // Some write a colon and no space: `app:message`, which is told from a time or an address by its first letter.
        Some(rest) if rest.starts_with(|first: char| first.is_ascii_alphabetic()) && is_program(app_name) => rest,
        _ => return None,
    };
    Some((app_name, procid, rest.strip_prefix(' ').unwrap_or(rest)))
}

/// True for a name that begins with a letter and has none of the signs of an address or path in it.
fn is_program(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}
