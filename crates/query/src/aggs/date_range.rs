//! `date_range` aggregation: a bucket per time range.

use firn_model::dates::{DateFormat, Zone};
use firn_model::{Error, Result};
use serde_json::Value;

use super::finish::Finisher;
use super::finished::Buckets;
use super::parse::Request;
use super::range::answer_with;
use super::ranges::Ranges;
use super::{AggregationKind, Aggregations, ListedPartial, ValueFormat};

pub(super) const NAME: &str = "date_range";

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let ranges = Ranges::parse(request, NAME, &["format", "time_zone"])?;
    ranges.zone()?;
    if let Some(format) = &ranges.format {
        DateFormat::new(format)?;
    }
    Ok(AggregationKind::DateRange(ranges))
}

impl Ranges {
    /// Returns the time zone.
    pub fn zone(&self) -> Result<Zone> {
        self.time_zone.as_deref().map_or_else(|| Ok(Zone::utc()), Zone::parse)
    }

    /// Returns the bounds in ms since epoch UTC, `[from, to)`; an open bound is infinite. `format` is the field's, and
    /// is used unless the request has a format.
    pub fn date_bounds(&self, format: &DateFormat, now_ms: i64) -> Result<Vec<(f64, f64)>> {
        let zone = self.zone()?;
        let bound = |value: &Value, open: f64| {
            let text = match value {
                Value::Null => return Ok(open),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            match (format.parse_math_ms(&text, now_ms, false, &zone), value.as_i64()) {
                (Ok(ms), _) => Ok(ms as f64),
                // A number that is not a date in the format counts as ms.
                (Err(_), Some(ms)) => Ok(ms as f64),
                (Err(cause), None) => Err(Error::parsing(format!(
                    "failed to parse date field [{text}] with format [{}]",
                    format.pattern()
                ))
                .caused_by(cause)),
            }
        };
        let ranges = self.ranges.iter();
        ranges
            .map(|spec| Ok((bound(&spec.from, f64::NEG_INFINITY)?, bound(&spec.to, f64::INFINITY)?)))
            .collect()
    }
}

pub(super) fn answer(
    finisher: &mut Finisher<'_>,
    ranges: &Ranges,
    sub: &Aggregations,
    mut partial: ListedPartial,
) -> Result<Buckets> {
    let zone = ranges.zone()?;
    let format = match (&partial.format, &ranges.format) {
        (ValueFormat::Date(format), _) => format.clone(),
        (_, Some(format)) => DateFormat::new(format)?.into(),
        (_, None) => DateFormat::default_millis().into(),
    };
    // Without any shard the bounds are not parsed yet.
    let bounds = match partial.bounds.is_empty() {
        true => ranges.date_bounds(&format, finisher.now_ms().unwrap_or_default())?,
        false => std::mem::take(&mut partial.bounds),
    };
    let print = |ms: f64| format.print_ms(ms as i64, &zone);
    answer_with(finisher, NAME, ranges, sub, partial, &bounds, &print, true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip, parsed};
    use crate::aggs::{FinishOptions, Partials};

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"date_range": {
            "field": "t", "ranges": [{"from": "now-1d/d"}, {"to": 5, "key": "old"}], "keyed": true, "format": "yyyy",
            "time_zone": "+01:00", "missing": "2020"
        }}}));
    }

    #[test]
    fn refuses() {
        let check = |body: Value, error: &str| check_refused(json!({"x": {"date_range": body}}), error);
        check(
            json!({"field": "t", "ranges": []}),
            "No [ranges] specified for the [x] aggregation",
        );
        check(
            json!({"field": "t", "ranges": [{}], "time_zone": "Nowhere"}),
            "Unknown time-zone ID: Nowhere",
        );
        check(
            json!({"field": "t", "ranges": [{}], "foo": 1}),
            "[date_range] unknown field [foo]",
        );
        let aggregations = parsed(json!({"x": {"date_range": {"field": "t", "ranges": [{"to": "zz"}]}}}));
        assert_eq!(
            aggregations.finish(Partials::default(), 10).unwrap_err().reason(),
            "failed to parse date field [zz] with format [strict_date_optional_time||epoch_millis]"
        );
    }

    #[test]
    fn fields_read() {
        check_fields(json!({"x": {"date_range": {"field": "t", "ranges": [{}]}}}), &["t"]);
    }

    #[test]
    fn answers_with_dates_in_the_zone() {
        let aggregations = parsed(json!({"x": {"date_range": {
            "field": "t", "format": "yyyy-MM-dd", "time_zone": "+02:00",
            "ranges": [{"from": "2024-06-12", "to": "now/d"}, {"to": "2024-06-14||/M"}, {"key": "z"}]
        }}}));
        let mut options = FinishOptions::new(10);
        options.now_ms = Some(1_718_452_800_000);
        assert_eq!(
            aggregations.finish_with(Partials::default(), &options).unwrap()["x"]["buckets"],
            json!([
                {"key": "*-2024-06-01", "to": 1717192800000.0, "to_as_string": "2024-06-01", "doc_count": 0},
                {"key": "z", "doc_count": 0},
                {"key": "2024-06-12-2024-06-15", "from": 1718143200000.0, "from_as_string": "2024-06-12",
                 "to": 1718402400000.0, "to_as_string": "2024-06-15", "doc_count": 0}
            ])
        );
    }
}
