//! Error of a parser: what was expected, and where.

use std::fmt;

/// Reason why a record could not be parsed. The record goes to the dead letters with this reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseError {
    /// The format, in lower case: `cef`, `syslog`.
    pub format: &'static str,
    /// What was expected: `a version number after "CEF:"`.
    pub expected: &'static str,
    /// Offset in the record, bytes.
    pub offset: usize,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            format,
            expected,
            offset,
        } = self;
        write!(f, "cannot parse {format}: expected {expected} at byte {offset}")
    }
}

impl std::error::Error for ParseError {}
