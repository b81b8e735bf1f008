//! Framing of syslog over a byte stream: octet counting and newlines (RFC 6587).
//!
//! A [`Framer`] is fed chunks as a connection delivers them and hands out whole frames. A frame that lies inside one
//! chunk is not copied. An over-long frame is reported once and skipped; the frames after it are read as usual.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr;

#[cfg(test)]
mod tests;

/// Bytes of one frame at most by default: far above what devices send, low enough for thousands of connections.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

/// Memory that stays with a connection between two frames.
const RETAINED_BYTES: usize = 4 << 10;
/// A frame without an end grows by this fraction at least.
const GROWTH: usize = 8;

/// Digits of an octet count at most.
const COUNT_DIGITS_MAX: usize = 9;

/// How frames are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// Each frame by its start: `<count> <` is octet counting, anything else ends with a newline.
    #[default]
    Auto,
    /// Each frame begins with its length: `<count> <bytes>`.
    OctetCounted,
    /// Each frame ends with a newline. Empty lines are no frames.
    Newline,
}

/// What happens to a frame that is not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InvalidUtf8 {
    /// Invalid bytes become U+FFFD.
    #[default]
    Replace,
    /// The frame is reported as [`FramingError::InvalidUtf8`].
    Report,
}

/// Reason why a frame was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FramingError {
    /// The frame is longer than the limit.
    TooLong {
        /// The limit, bytes.
        bytes_max: usize,
    },
    /// No octet count stands where one must; all bytes up to the next newline are skipped.
    NoCount,
    /// The frame is not UTF-8. For the dead letters it holds the bytes.
    InvalidUtf8 {
        /// The frame as received.
        frame: Vec<u8>,
    },
    /// The stream ended inside an octet-counted frame. For the dead letters it holds the bytes.
    Truncated {
        /// The part that was received.
        frame: Vec<u8>,
    },
}

impl fmt::Display for FramingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes_max } => write!(f, "syslog frame is longer than {bytes_max} bytes and was skipped"),
            Self::NoCount => {
                f.write_str("syslog frame does not begin with an octet count; skipped up to the next newline")
            }
            Self::InvalidUtf8 { frame } => write!(f, "syslog frame of {} bytes is not UTF-8", frame.len()),
            Self::Truncated { frame } => write!(
                f,
                "stream ended inside a syslog frame, after {} bytes of it",
                frame.len()
            ),
        }
    }
}

impl std::error::Error for FramingError {}

/// Splitter of one stream into frames.
#[derive(Debug)]
pub struct Framer {
    framing: Framing,
    invalid_utf8: InvalidUtf8,
    bytes_max: usize,
    /// Begin of a frame whose end has not arrived.
    partial: Vec<u8>,
    /// Bytes of `partial` that hold no newline.
    searched: usize,
    skipping: Skipping,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Skipping {
    Nothing,
    ToNewline,
    Bytes(usize),
}

/// What stands at the start of some bytes.
enum Found {
    /// A frame: where it starts and ends, and where the next one starts.
    Frame { start: usize, end: usize, next: usize },
    /// Not enough bytes to tell.
    Incomplete,
    /// A frame that must be skipped; its first bytes, and how to skip the others.
    Skip {
        error: FramingError,
        start: usize,
        skipping: Skipping,
    },
}

impl Framer {
    /// Creates a splitter whose frames have at most `bytes_max` bytes.
    pub fn new(framing: Framing, invalid_utf8: InvalidUtf8, bytes_max: usize) -> Self {
        Self {
            framing,
            invalid_utf8,
            bytes_max,
            partial: Vec::new(),
            searched: 0,
            skipping: Skipping::Nothing,
        }
    }

    /// Memory that frames without an end take.
    pub fn allocated_bytes(&self) -> usize {
        self.partial.capacity()
    }

    /// Bytes that wait for the rest of their frame. Never much above the limit of a frame.
    pub fn buffered_bytes(&self) -> usize {
        self.partial.len()
    }

    /// Takes the next bytes of the stream and calls `on_frame` for each frame that they complete, in order.
    pub fn feed(&mut self, chunk: &[u8], mut on_frame: impl FnMut(Result<Cow<'_, str>, FramingError>)) {
        let mut chunk = self.skip(chunk);
        // The frame that began in earlier chunks grows by no more than it may need, so that chunks are not copied.
        while !self.partial.is_empty() && !chunk.is_empty() {
            let room = (self.bytes_max + COUNT_DIGITS_MAX + 2)
                .saturating_sub(self.partial.len())
                .max(1);
            let taken = memchr(b'\n', chunk)
                .map_or(chunk.len(), |newline| newline + 1)
                .min(room);
            let before = self.partial.len();
            if self.partial.capacity() - before < taken {
                // Thousands of connections must not take twice what they hold.
                self.partial.reserve_exact(taken.max(before / GROWTH));
            }
            self.partial.extend_from_slice(&chunk[..taken]);
            let mut partial = std::mem::take(&mut self.partial);
            match self.find(&partial, self.searched) {
                Found::Frame { start, end, next } => {
                    self.hand_out(&partial[start..end], &mut on_frame);
                    // The frame ends in this chunk, because the earlier bytes did not complete it.
                    chunk = &chunk[next.saturating_sub(before)..];
                    self.searched = 0;
                    partial.clear();
                    // The next frame is seldom as long.
                    if partial.capacity() <= RETAINED_BYTES {
                        self.partial = partial;
                    }
                }
                Found::Incomplete => {
                    self.searched = partial.len();
                    self.partial = partial;
                    chunk = &chunk[taken..];
                }
                Found::Skip { error, start, skipping } => {
                    on_frame(Err(error));
                    self.searched = 0;
                    self.skipping = skipping;
                    let rest = self.skip(&partial[start..]).len();
                    chunk = &chunk[taken - rest..];
                    chunk = self.skip(chunk);
                }
            }
        }
        while !chunk.is_empty() {
            match self.find(chunk, 0) {
                Found::Frame { start, end, next } => {
                    self.hand_out(&chunk[start..end], &mut on_frame);
                    chunk = &chunk[next..];
                }
                Found::Incomplete => {
                    self.partial.extend_from_slice(chunk);
                    self.searched = chunk.len();
                    return;
                }
                Found::Skip { error, start, skipping } => {
                    on_frame(Err(error));
                    self.skipping = skipping;
                    chunk = self.skip(&chunk[start..]);
                }
            }
        }
    }

    /// Ends the stream: a line without a newline is a frame, an octet-counted frame is truncated.
    pub fn finish(mut self, mut on_frame: impl FnMut(Result<Cow<'_, str>, FramingError>)) {
        let frame = std::mem::take(&mut self.partial);
        if frame.is_empty() {
            return;
        }
        if self.framing == Framing::OctetCounted || (self.framing == Framing::Auto && count_prefix(&frame).is_some()) {
            on_frame(Err(FramingError::Truncated { frame }));
        } else {
            self.hand_out(&frame, &mut on_frame);
        }
    }

    /// Drops bytes of a frame that is skipped, and returns the others.
    fn skip<'c>(&mut self, chunk: &'c [u8]) -> &'c [u8] {
        match self.skipping {
            Skipping::Nothing => chunk,
            Skipping::ToNewline => match memchr(b'\n', chunk) {
                Some(newline) => {
                    self.skipping = Skipping::Nothing;
                    &chunk[newline + 1..]
                }
                None => &[],
            },
            Skipping::Bytes(count) if count > chunk.len() => {
                self.skipping = Skipping::Bytes(count - chunk.len());
                &[]
            }
            Skipping::Bytes(count) => {
                self.skipping = Skipping::Nothing;
                &chunk[count..]
            }
        }
    }

    /// What stands at the start of `bytes`, of which the first `searched` hold no newline.
    fn find(&self, bytes: &[u8], searched: usize) -> Found {
        match self.framing {
            Framing::Newline => self.find_line(bytes, searched),
            Framing::OctetCounted => self.find_counted(bytes),
            Framing::Auto => match count_prefix(bytes) {
                Some((_, digits)) if bytes.get(digits + 1) == Some(&b'<') => self.find_counted(bytes),
                // `12 ` may go on with `<`, and `12` with a space.
                Some((_, digits)) if bytes.len() == digits + 1 => Found::Incomplete,
                None if bytes.len() <= COUNT_DIGITS_MAX && bytes.iter().all(u8::is_ascii_digit) => Found::Incomplete,
                _ => self.find_line(bytes, searched),
            },
        }
    }

    fn find_line(&self, bytes: &[u8], searched: usize) -> Found {
        let newline = memchr(b'\n', &bytes[searched..]).map(|found| searched + found);
        if newline.unwrap_or(bytes.len()) > self.bytes_max {
            return Found::Skip {
                error: self.too_long(),
                start: 0,
                skipping: Skipping::ToNewline,
            };
        }
        match newline {
            Some(end) => Found::Frame {
                start: 0,
                end,
                next: end + 1,
            },
            None => Found::Incomplete,
        }
    }

    fn find_counted(&self, bytes: &[u8]) -> Found {
        // Some senders end octet-counted frames with a newline that they do not count.
        let padding = bytes.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        let Some((count, digits)) = count_prefix(&bytes[padding..]) else {
            let rest = &bytes[padding..];
            return if rest.len() <= COUNT_DIGITS_MAX
                && rest.iter().all(u8::is_ascii_digit)
                && rest.first() != Some(&b'0')
            {
                Found::Incomplete
            } else {
                Found::Skip {
                    error: FramingError::NoCount,
                    start: padding,
                    skipping: Skipping::ToNewline,
                }
            };
        };
        let start = padding + digits + 1;
        if count > self.bytes_max {
            return Found::Skip {
                error: self.too_long(),
                start,
                skipping: Skipping::Bytes(count),
            };
        }
        let end = start + count;
        if bytes.len() < end {
            return Found::Incomplete;
        }
        Found::Frame { start, end, next: end }
    }

    fn too_long(&self) -> FramingError {
        FramingError::TooLong {
            bytes_max: self.bytes_max,
        }
    }

    fn hand_out(&self, frame: &[u8], on_frame: &mut impl FnMut(Result<Cow<'_, str>, FramingError>)) {
        let mut frame = frame;
        while let [rest @ .., b'\n' | b'\r' | b'\0'] = frame {
            frame = rest;
        }
        if frame.is_empty() {
            return;
        }
        match (std::str::from_utf8(frame), self.invalid_utf8) {
            (Ok(text), _) => on_frame(Ok(Cow::Borrowed(text))),
            (Err(_), InvalidUtf8::Replace) => on_frame(Ok(String::from_utf8_lossy(frame))),
            (Err(_), InvalidUtf8::Report) => on_frame(Err(FramingError::InvalidUtf8 { frame: frame.to_vec() })),
        }
    }
}

/// The octet count at the start of `bytes`, behind which a space stands, and its number of digits.
fn count_prefix(bytes: &[u8]) -> Option<(usize, usize)> {
    let digits = bytes
        .iter()
        .take(COUNT_DIGITS_MAX + 1)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if digits == 0 || digits > COUNT_DIGITS_MAX || bytes[0] == b'0' || bytes.get(digits) != Some(&b' ') {
        return None;
    }
    let count = bytes[..digits]
        .iter()
        .fold(0, |count, digit| count * 10 + usize::from(digit - b'0'));
    Some((count, digits))
}
