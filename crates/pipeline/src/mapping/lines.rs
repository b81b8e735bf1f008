//! Mapping of a stream of lines.

use std::io::{self, BufRead, BufReader, Read, Write};

use super::Mapper;
use crate::parsers::ParseError;

/// Longest line in bytes; a longer one is reported and passed over.
pub(crate) const LINE_BYTES_MAX: usize = 16 << 20;
/// Bytes of output that are collected before they are written.
const WRITE_BYTES: usize = 256 << 10;
/// Bytes of input that are read at once.
const READ_BYTES: usize = 256 << 10;

/// A line that is no event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFailure {
    /// The line has not the format of the pack.
    Parse(ParseError),
    /// The line has more than [`LINE_BYTES_MAX`] bytes.
    TooLong,
}

impl std::fmt::Display for LineFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Parse(error) => error.fmt(f),
            Self::TooLong => write!(f, "the line has more than {LINE_BYTES_MAX} bytes"),
        }
    }
}

/// Counts of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineTotals {
    /// Events that were written.
    pub events: u64,
    /// Lines that are no events.
    pub failures: u64,
}

/// Maps each line to one line of JSON; empty lines are passed over. `fail` receives the lines that are no events, with their
/// numbers, from 1 on.
///
/// # Errors
/// Errors of the input and of the output.
pub fn map_lines(
    mapper: &mut Mapper,
    input: impl Read,
    mut output: impl Write,
    mut fail: impl FnMut(u64, LineFailure),
) -> io::Result<LineTotals> {
    let mut input = BufReader::with_capacity(READ_BYTES, input);
    let mut totals = LineTotals::default();
    let mut line = Vec::new();
    let mut out = Vec::with_capacity(WRITE_BYTES + (WRITE_BYTES >> 2));
    let mut number = 0;
    loop {
        // Events are written before the next read, which may wait for a slow source.
        if out.len() >= WRITE_BYTES || input.buffer().is_empty() {
            output.write_all(&out)?;
            output.flush()?;
            out.clear();
        }
        line.clear();
        let is_whole = read_line(&mut input, &mut line)?;
        if line.is_empty() {
            break;
        }
        number += 1;
        let record = line.strip_suffix(b"\n").unwrap_or(&line);
        let record = record.strip_suffix(b"\r").unwrap_or(record);
        if record.trim_ascii().is_empty() {
            continue;
        }
        let failure = match is_whole {
            false => Some(LineFailure::TooLong),
            true => mapper.map(record, &mut out).err().map(LineFailure::Parse),
        };
        match failure {
            None => {
                out.push(b'\n');
                totals.events += 1;
            }
            Some(failure) => {
                totals.failures += 1;
                fail(number, failure);
            }
        }
    }
    output.write_all(&out)?;
    output.flush()?;
    Ok(totals)
}

/// Reads a line; of a line that is too long the beginning. Returns whether it is whole.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    let mut is_whole = true;
    loop {
        let available = input.fill_buf()?;
        let end = memchr::memchr(b'\n', available);
        let length = end.map_or(available.len(), |end| end + 1);
        if line.len() + length <= LINE_BYTES_MAX {
            line.extend_from_slice(&available[..length]);
        } else {
            is_whole = false;
        }
        input.consume(length);
        if end.is_some() || length == 0 {
            return Ok(is_whole);
        }
    }
}
