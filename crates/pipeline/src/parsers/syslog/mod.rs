//! Syslog: RFC 5424, RFC 3164, and the usual deviations from both.
//!
//! Senders follow RFC 3164 loosely, so this parser refuses only an empty record. What it cannot read as a header is the
//! message. It accepts no priority, years and fractions of a second in the timestamp, ISO 8601 timestamps, a missing
//! hostname, and Cisco's sequence numbers, clock marks (`*Mar  1 …`) and time zones.
//!
//! Fields: `priority`, `facility`, `facility_name`, `severity`, `severity_name`, `version`, `timestamp` (text),
//! `hostname`, `app_name`, `procid`, `msgid`, `sd.<id>.<name>`, `message`. Absent parts and RFC 5424's `-` are not pushed;
//! an element of structured data without parameters has no field.

mod bsd;
mod structured_data;
#[cfg(test)]
mod tests;
mod timestamp;

use super::ParseError;
use crate::event::{FieldSink, Value};

/// Names of the facilities by number (RFC 5424, table 1, with the short names of syslog.conf).
pub const FACILITY_NAMES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp",
    "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];

/// Names of the severities by number (RFC 5424, table 2).
pub const SEVERITY_NAMES: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// Largest priority: facility 23, severity 7.
const PRIORITY_MAX: u8 = 191;

/// Parses one record and pushes its fields. The message keeps its inner line breaks; those at the end are dropped.
///
/// # Errors
/// If the record is empty. Nothing has been pushed then.
pub fn parse<'a, S: FieldSink<'a> + ?Sized>(record: &'a str, sink: &mut S) -> Result<(), ParseError> {
    let record = record.trim_end_matches(['\r', '\n', '\0']);
    if record.trim_ascii().is_empty() {
        return Err(ParseError {
            format: "syslog",
            expected: "a message",
            offset: 0,
        });
    }
    let Some((priority, rest)) = priority(record) else {
        bsd::parse(record, false, sink);
        return Ok(());
    };
    sink.field("priority", Value::Int(priority.into()));
    let (facility, severity) = (priority >> 3, priority & 7);
    sink.field("facility", Value::Int(facility.into()));
    sink.field("facility_name", Value::text(FACILITY_NAMES[usize::from(facility)]));
    sink.field("severity", Value::Int(severity.into()));
    sink.field("severity_name", Value::text(SEVERITY_NAMES[usize::from(severity)]));
    match version(rest) {
        Some((version, rest)) => {
            sink.field("version", Value::Int(version.into()));
            parse_5424(rest, sink);
        }
        None => bsd::parse(rest, true, sink),
    }
    Ok(())
}

/// Priority at the start of a record, and what follows it. None if there is none or it is out of range.
fn priority(record: &str) -> Option<(u8, &str)> {
    let inside = record.strip_prefix('<')?;
    let digits = leading_digits(inside);
    let rest = inside[digits.len()..].strip_prefix('>')?;
    // `u8` also refuses no digits and a number past 255.
    let priority: u8 = digits.parse().ok()?;
    (priority <= PRIORITY_MAX).then_some((priority, rest))
}

/// Version of RFC 5424, and what follows it. Told from RFC 3164 by the timestamp behind it, which is ISO 8601 or `-`.
fn version(text: &str) -> Option<(u16, &str)> {
    let digits = leading_digits(text);
    if digits.is_empty() || digits.len() > 3 || digits.starts_with('0') {
        return None;
    }
    let rest = text[digits.len()..].strip_prefix(' ')?;
    let (timestamp, _) = token(rest);
    if timestamp != "-" && timestamp::iso(timestamp) != Some(timestamp.len()) {
        return None;
    }
    Some((digits.parse().ok()?, rest))
}

/// Pushes what follows the version. A truncated header ends where it ends.
fn parse_5424<'a, S: FieldSink<'a> + ?Sized>(text: &'a str, sink: &mut S) {
    let mut rest = text;
    for name in ["timestamp", "hostname", "app_name", "procid", "msgid"] {
        let (value, next) = token(rest);
        if !matches!(value, "" | "-") {
            sink.field(name, Value::text(value));
        }
        rest = next;
    }
    rest = match rest.strip_prefix('-') {
        Some(next) if next.is_empty() || next.starts_with(' ') => next,
        _ => match structured_data::end(rest) {
            Some(end) => {
                structured_data::push(&rest[..end], sink);
                &rest[end..]
            }
            // Some senders leave structured data out; damaged data is not lost either.
            None => rest,
        },
    };
    let message = rest.strip_prefix(' ').unwrap_or(rest);
    push_message(message.strip_prefix('\u{feff}').unwrap_or(message), sink);
}

fn push_message<'a, S: FieldSink<'a> + ?Sized>(message: &'a str, sink: &mut S) {
    if !message.is_empty() {
        sink.field("message", Value::text(message));
    }
}

/// The text up to the next space, and the text after that space.
fn token(text: &str) -> (&str, &str) {
    match memchr::memchr(b' ', text.as_bytes()) {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, ""),
    }
}

fn leading_digits(text: &str) -> &str {
    let end = text
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    &text[..end]
}
