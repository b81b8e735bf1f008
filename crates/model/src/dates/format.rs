//! Date formats: alternatives that are tried in order.

use std::sync::LazyLock;

use super::iso;
use super::named::{Named, lookup};
use super::parts::{Instant, Parts};
use super::pattern::Pattern;
use super::print::{Clock, push_padded};
use super::zone::Zone;
use crate::{Error, Result};

/// Maximum alternatives of one format.
const ALTERNATIVES_MAX: usize = 32;

const DEFAULT: &str = "strict_date_optional_time||epoch_millis";
const SLASHES: &str = "yyyy/MM/dd HH:mm:ss||yyyy/MM/dd||epoch_millis";

static UTC: LazyLock<Zone> = LazyLock::new(Zone::utc);

/// A parsed `format` (`strict_date_optional_time||epoch_millis`, `yyyy-MM-dd HH:mm:ss`, …).
#[derive(Debug, Clone)]
pub struct DateFormat {
    pattern: String,
    alternatives: Vec<Alternative>,
}

/// Two formats are equal if their patterns are equal texts.
impl PartialEq for DateFormat {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern
    }
}

#[derive(Debug, Clone)]
enum Alternative {
    Iso { strict: bool },
    EpochMillis,
    EpochSecond,
    Pattern(Pattern),
}

impl DateFormat {
    /// Parses a format; alternatives are separated by `||`. Each is a name of Elasticsearch's built-in formats or a
    /// pattern of Java's `DateTimeFormatter`, in English. Other texts fail with [`crate::ErrorKind::IllegalArgument`];
    /// week dates, eras and the like with [`crate::ErrorKind::NotImplemented`].
    pub fn new(pattern: &str) -> Result<Self> {
        let mut alternatives = Vec::new();
        for part in pattern.split("||") {
            if part.is_empty() || alternatives.len() == ALTERNATIVES_MAX {
                return Err(Error::illegal_argument(format!(
                    "Invalid format: [{pattern}]: No date pattern provided"
                )));
            }
            alternatives.push(match lookup(part) {
                Some(Named::Iso { strict }) => Alternative::Iso { strict },
                Some(Named::EpochMillis) => Alternative::EpochMillis,
                Some(Named::EpochSecond) => Alternative::EpochSecond,
                Some(Named::Pattern { pattern, lenient }) => {
                    Alternative::Pattern(Pattern::compile_named(pattern, lenient)?)
                }
                Some(Named::Missing) => return Err(Error::not_implemented(format!("date format [{part}]"))),
                None => Alternative::Pattern(Pattern::compile(part)?),
            });
        }
        Ok(Self {
            pattern: pattern.to_owned(),
            alternatives,
        })
    }

    /// Returns `strict_date_optional_time||epoch_millis`.
    pub fn default_millis() -> Self {
        Self {
            pattern: DEFAULT.to_owned(),
            alternatives: vec![Alternative::Iso { strict: true }, Alternative::EpochMillis],
        }
    }

    /// Returns `yyyy/MM/dd HH:mm:ss||yyyy/MM/dd||epoch_millis`, the second of Elasticsearch's formats for dynamic
    /// dates.
    pub(crate) fn slashes() -> Self {
        // The text is a constant and a test parses it, so the default is never reached.
        Self::new(SLASHES).unwrap_or_else(|_| Self::default_millis())
    }

    /// Returns the pattern as written.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Returns whether a string parses.
    pub fn matches(&self, text: &str) -> bool {
        self.instant(text, false, &UTC).is_some()
    }

    /// Parses a string value of a document to nanoseconds since the epoch; numbers are passed as text. Dates without a
    /// zone are in UTC. This is the hot path of indexing: ISO 8601 without allocation. If no alternative matches, it
    /// fails with [`crate::ErrorKind::IllegalArgument`].
    pub fn parse_nanos(&self, text: &str) -> Result<i128> {
        self.instant(text, false, &UTC)
            .map(Instant::to_nanos)
            .ok_or_else(|| self.failure(text))
    }

    /// Parses a string value of a document to ms; finer parts are truncated. See [`DateFormat::parse_nanos`].
    pub fn parse_ms(&self, text: &str) -> Result<i64> {
        self.instant(text, false, &UTC)
            .and_then(Instant::to_ms)
            .ok_or_else(|| self.failure(text))
    }

    /// Prints with the first alternative.
    pub fn print_ms(&self, ms: i64, zone: &Zone) -> String {
        self.print(ms, 0, zone)
    }

    /// Prints nanoseconds (`date_nanos`) with the first alternative.
    pub fn print_nanos(&self, nanos: i64, zone: &Zone) -> String {
        self.print(nanos.div_euclid(1_000_000), nanos.rem_euclid(1_000_000) as u32, zone)
    }

    fn print(&self, ms: i64, nano_of_ms: u32, zone: &Zone) -> String {
        let mut out = String::with_capacity(30);
        match self.alternatives.first() {
            Some(Alternative::EpochMillis) => push_epoch(&mut out, ms, nano_of_ms, 6),
            Some(Alternative::EpochSecond) => push_epoch(&mut out, ms, nano_of_ms, 9),
            Some(Alternative::Pattern(pattern)) => pattern.print(&Clock::at(ms, nano_of_ms, zone), &mut out),
            Some(Alternative::Iso { .. }) | None => Clock::at(ms, nano_of_ms, zone).push_iso(&mut out),
        }
        out
    }

    /// Parses a text without date math with the first alternative that matches.
    pub(super) fn instant(&self, text: &str, round_up: bool, zone: &Zone) -> Option<Instant> {
        self.alternatives.iter().find_map(|alternative| {
            let parts = match alternative {
                Alternative::Iso { strict } => iso::parse(text, *strict),
                Alternative::EpochMillis => parse_epoch(text, 3),
                Alternative::EpochSecond => parse_epoch(text, 0),
                Alternative::Pattern(pattern) => pattern.parse(text),
            };
            parts?.to_instant(round_up, zone)
        })
    }

    pub(super) fn failure(&self, text: &str) -> Error {
        Error::illegal_argument(format!(
            "failed to parse date field [{}] with format [{}]",
            clip(text),
            self.pattern
        ))
    }
}

/// Returns the beginning of a long text, for messages.
fn clip(text: &str) -> &str {
    const BYTES_MAX: usize = 256;
    match text.char_indices().find(|(at, _)| *at >= BYTES_MAX) {
        Some((at, _)) => &text[..at],
        None => text,
    }
}

/// Parses `-12345.678`: a number of units of 10^-`exponent` seconds.
fn parse_epoch(text: &str, exponent: usize) -> Option<Parts> {
    let negative = text.starts_with('-');
    let mut cursor = iso::Cursor::new(text);
    cursor.skip(usize::from(negative));
    let whole = cursor.digits(1, 18)?;
    let divisor = 10i64.pow(exponent as u32);
    let mut nanos = (whole % divisor) * (1_000_000_000 / divisor);
    let has_fraction = cursor.eat(b'.');
    if has_fraction {
        nanos += i64::from(cursor.fraction(1, 9 - exponent)?) / divisor;
    }
    if !cursor.is_at_end() {
        return None;
    }
    let (mut seconds, mut nano) = (whole / divisor, nanos);
    if negative {
        seconds = -seconds;
        nano = -nano;
        if nano < 0 {
            seconds -= 1;
            nano += 1_000_000_000;
        }
    }
    let missing = match (has_fraction, exponent) {
        (true, _) => 0,
        (false, 0) => 999_999_999,
        (false, _) => 999_999,
    };
    Some(Parts {
        epoch: Some(Instant {
            seconds,
            nano: nano as u32,
        }),
        epoch_missing_ns: missing,
        ..Parts::default()
    })
}

/// Prints an epoch, the inverse of [`parse_epoch`]: ns in units of 10^`decimals` ns, without trailing zeros.
fn push_epoch(out: &mut String, ms: i64, nano_of_ms: u32, decimals: usize) {
    if decimals == 6 && nano_of_ms == 0 {
        out.push_str(&ms.to_string());
        return;
    }
    let nanos = i128::from(ms) * 1_000_000 + i128::from(nano_of_ms);
    let unit = 10u128.pow(decimals as u32);
    let (whole, fraction) = (nanos.unsigned_abs() / unit, nanos.unsigned_abs() % unit);
    if nanos < 0 {
        out.push('-');
    }
    out.push_str(&whole.to_string());
    if fraction != 0 {
        out.push('.');
        push_padded(out, fraction as u64, decimals);
        while out.ends_with('0') {
            out.pop();
        }
    }
}
