//! Formats of dates, as the processors `date` and `date_index_name` read them.

use firn_model::dates::{DateFormat, Zone};
use firn_model::{Error, Result};

/// Offset of TAI64N's labels, in seconds, as Elasticsearch has it.
const TAI_OFFSET_MS: i128 = 10_000;

/// Nanoseconds of a millisecond.
const NANOS: i128 = 1_000_000;

/// A format: one of four names, or a pattern of Java's.
#[derive(Debug)]
pub(super) enum DateText {
    Iso8601(DateFormat),
    Unix,
    UnixMs,
    Tai64n,
    /// A pattern. Without a year in it, the year of the request is put before the pattern and the text.
    Pattern {
        format: DateFormat,
        has_year: bool,
    },
}

impl DateText {
    /// Parses a format; one of several alternatives (`a||b`) counts as a format of its own.
    pub(super) fn parse_all(formats: &[String]) -> Result<Vec<Self>> {
        formats
            .iter()
            .flat_map(|format| format.split("||"))
            .map(Self::parse)
            .collect()
    }

    fn parse(format: &str) -> Result<Self> {
        Ok(match format {
            "ISO8601" => Self::Iso8601(DateFormat::new("iso8601")?),
            "UNIX" => Self::Unix,
            "UNIX_MS" => Self::UnixMs,
            "TAI64N" => Self::Tai64n,
            pattern => {
                let has_year = is_name(pattern) || has_year(pattern);
                let pattern = match has_year {
                    true => pattern.to_owned(),
                    false => format!("yyyy {pattern}"),
                };
                let format = DateFormat::new(&pattern)?;
                Self::Pattern { format, has_year }
            }
        })
    }

    /// Reads a text to nanoseconds since the epoch. Dates without a zone are in `zone`.
    pub(super) fn nanos(&self, text: &str, zone: &Zone, now_ms: i64) -> Result<i128> {
        let malformed = || Error::illegal_argument(format!("For input string: \"{text}\""));
        match self {
            Self::Iso8601(format) => read(format, text, zone),
            Self::Unix => {
                let seconds = text
                    .parse::<f64>()
                    .ok()
                    .filter(|seconds| seconds.is_finite())
                    .ok_or_else(malformed)?;
                Ok((seconds * 1000.0) as i64 as i128 * NANOS)
            }
            Self::UnixMs => Ok(i128::from(text.parse::<i64>().map_err(|_| malformed())?) * NANOS),
            Self::Tai64n => {
                let label = text.strip_prefix('@').unwrap_or(text);
                let hex = |range| label.get(range).and_then(|digits| i64::from_str_radix(digits, 16).ok());
                let (Some(seconds), Some(nanos)) = (hex(1..16), hex(16..24)) else {
                    return Err(malformed());
                };
                let ms = i128::from(seconds) * 1000 - TAI_OFFSET_MS + i128::from(nanos) / NANOS;
                Ok(ms * NANOS)
            }
            Self::Pattern { format, has_year: true } => read(format, text, zone),
            Self::Pattern {
                format,
                has_year: false,
            } => {
                let year = DateFormat::new("yyyy")?.print_ms(now_ms, &Zone::utc());
                read(format, &format!("{year} {text}"), zone)
            }
        }
    }
}

/// Reads a date. Date math is no date here.
fn read(format: &DateFormat, text: &str, zone: &Zone) -> Result<i128> {
    if text.contains("||") || text.starts_with("now") {
        let pattern = format.pattern();
        return Err(Error::illegal_argument(format!(
            "failed to parse date field [{text}] with format [{pattern}]"
        )));
    }
    format.parse_math_nanos(text, 0, false, zone)
}

/// Beginnings of the names of Elasticsearch's formats.
const NAMES: [&str; 11] = [
    "strict_", "basic_", "epoch_", "date", "hour", "time", "t_time", "ordinal_", "week", "year", "iso8601",
];

/// Returns whether a format is one of the names.
fn is_name(format: &str) -> bool {
    let is_word = format
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    is_word && NAMES.iter().any(|name| format.starts_with(name))
}

/// Returns whether a pattern has a letter of a year outside of quotes.
fn has_year(pattern: &str) -> bool {
    let outside = pattern.split('\'').step_by(2);
    outside.flat_map(str::chars).any(|c| matches!(c, 'y' | 'u' | 'Y'))
}
