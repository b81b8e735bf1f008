//! Place among stored events at which a run of a rule ends and the next one begins.

use std::fmt;

use firn_model::dates::{DateFormat, Zone};
use firn_model::{Error, Result};
use serde_json::{Value, json};

const NANOS_PER_MS: i128 = 1_000_000;
/// Between the time and the sequence number of a mark within the events of one time.
const AFTER: &str = " after ";
/// Format of times to the nanosecond.
const NANOS_FORMAT: &str = "strict_date_optional_time_nanos";

/// Place among stored events in the order of their times and sequence numbers. The events of one time may be more than a run reads; their
/// sequence numbers stay the same, so that the next run reads the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunMark {
    /// Time of the events from here on, ms since the epoch.
    ms: i64,
    /// The same below the ms, nanoseconds.
    nanos: u32,
    /// Events of this time with a lower sequence number are before the mark.
    seq_no: u64,
}

impl RunMark {
    /// Returns the place before all events of a time, ms since the epoch, and behind all earlier ones.
    pub fn at_ms(ms: i64) -> Self {
        Self {
            ms,
            nanos: 0,
            seq_no: 0,
        }
    }

    /// Returns the place behind the event of a time, RFC 3339, that has a sequence number; `None`: it is no time.
    pub(crate) fn behind(time: &str, seq_no: u64) -> Option<Self> {
        let nanos = DateFormat::default_millis().parse_nanos(time).ok()?;
        Some(Self {
            ms: i64::try_from(nanos.div_euclid(NANOS_PER_MS)).ok()?,
            nanos: nanos.rem_euclid(NANOS_PER_MS) as u32,
            seq_no: seq_no.saturating_add(1),
        })
    }

    /// Reads a place within the events of one time as [`Display`](fmt::Display) prints it; `None`: the text is a time alone.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::IllegalArgument`]: it is neither.
    pub fn parse(text: &str) -> Result<Option<Self>> {
        let Some((time, seq_no)) = text.split_once(AFTER) else {
            return Ok(None);
        };
        let parsed = seq_no.parse().ok().and_then(|seq_no| Self::behind(time, seq_no));
        parsed.map(Some).ok_or_else(|| {
            let reason =
                format!("a run continues from a time, or from [TIME{AFTER}SEQUENCE NUMBER], not from [{text}]");
            Error::illegal_argument(reason)
        })
    }

    /// Returns the time of the events from here on, ms since the epoch.
    pub fn ms(self) -> i64 {
        self.ms
    }

    /// Returns the query of the events from here on whose times are before `end_ms`, ms since the epoch.
    pub(crate) fn query(self, end_ms: i64) -> Value {
        let range = json!({"range": {"@timestamp": {"gte": self.ms, "lt": end_ms, "format": "epoch_millis"}}});
        if self == Self::at_ms(self.ms) {
            return range;
        }
        let time = self.time();
        let of_time = |mut bounds: Value| {
            bounds["format"] = NANOS_FORMAT.into();
            json!({"range": {"@timestamp": bounds}})
        };
        let same = of_time(json!({"gte": time, "lte": time}));
        let others = json!({"range": {"_seq_no": {"gte": self.seq_no}}});
        let should = json!([of_time(json!({"gt": time})), {"bool": {"filter": [same, others]}}]);
        json!({"bool": {"filter": [range], "should": should, "minimum_should_match": 1}})
    }

    /// Adds the members of this name to the record of a run.
    pub(crate) fn write(self, name: &str, run: &mut Value) {
        run[name] = self.ms.into();
        if self.nanos > 0 {
            run[format!("{name}_nanos")] = self.nanos.into();
        }
        if self.seq_no > 0 {
            run[format!("{name}_seq_no")] = self.seq_no.into();
        }
    }

    /// Reads the members of this name of the record of a run.
    pub(crate) fn read(name: &str, run: &Value) -> Option<Self> {
        let part = |part: &str| run[format!("{name}_{part}")].as_u64().unwrap_or(0);
        Some(Self {
            ms: run[name].as_i64()?,
            nanos: u32::try_from(part("nanos")).ok()?,
            seq_no: part("seq_no"),
        })
    }

    fn time(self) -> String {
        let utc = Zone::utc();
        match i64::try_from(i128::from(self.ms) * NANOS_PER_MS + i128::from(self.nanos)) {
            Ok(nanos) if self.nanos > 0 => match DateFormat::new(NANOS_FORMAT) {
                Ok(format) => format.print_nanos(nanos, &utc),
                Err(_) => DateFormat::default_millis().print_ms(self.ms, &utc),
            },
            _ => DateFormat::default_millis().print_ms(self.ms, &utc),
        }
    }
}

/// A time, or, within the events of one time, that time and the last sequence number before the mark.
impl fmt::Display for RunMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.time())?;
        match self.seq_no {
            0 => Ok(()),
            seq_no => write!(f, "{AFTER}{}", seq_no - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_ordered_and_read_as_they_are_printed() {
        let behind = |time: &str, seq_no: u64| RunMark::behind(time, seq_no).unwrap();
        let marks = [
            RunMark::at_ms(1_767_225_600_000),
            behind("2026-01-01T00:00:00Z", 0),
            behind("2026-01-01T00:00:00.000Z", 41),
            behind("2026-01-01T00:00:00.000000001Z", 3),
            RunMark::at_ms(1_767_225_600_001),
        ];
        assert!(marks.is_sorted_by(|one, next| one < next), "{marks:?}");
        let texts = [
            "2026-01-01T00:00:00.000Z",
            "2026-01-01T00:00:00.000Z after 0",
            "2026-01-01T00:00:00.000Z after 41",
            "2026-01-01T00:00:00.000000001Z after 3",
            "2026-01-01T00:00:00.001Z",
        ];
        for (mark, text) in marks.into_iter().zip(texts) {
            assert_eq!(mark.to_string(), text);
            let read = RunMark::parse(text).unwrap();
            assert_eq!(read, text.contains("after").then_some(mark));
            let mut run = json!({"from": 1});
            mark.write("from", &mut run);
            assert_eq!(RunMark::read("from", &run), Some(mark), "{run}");
        }
        for wrong in ["2026-01-01 after x", "x after 1", "2026-01-01 after -1"] {
            assert!(RunMark::parse(wrong).is_err(), "{wrong}");
        }
    }
}
