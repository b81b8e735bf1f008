//! Time range of a request, resolved once.

use firn_engine::{Error, Result};
use firn_model::dates::{DateFormat, Zone};
use serde_json::{Map, Value, json};

use crate::wire::error::ApiError;
use crate::wire::json_fields::Fields;

/// Time range; both ends are included.
#[derive(Debug, Clone)]
pub(crate) struct TimeRange {
    pub(crate) field: String,
    /// ms since epoch UTC; `None`: open.
    pub(crate) from_ms: Option<i64>,
    /// ms since epoch UTC; `None`: open.
    pub(crate) to_ms: Option<i64>,
    /// Time zone of the days.
    pub(crate) zone: Zone,
    /// The end is now and moves.
    pub(super) goes_on: bool,
}

impl TimeRange {
    /// Parses `{"field", "from", "to", "zone"}`: date math, dates or ms. `now` has one value per request, so that all
    /// stages cover the same events and cached results can be reused.
    pub(super) fn read(object: Map<String, Value>, now_ms: i64) -> Result<Self, ApiError> {
        let mut fields = Fields::new("time range", object);
        let field = fields.string("field")?.unwrap_or_else(|| "@timestamp".to_owned());
        let zone = match fields.string("zone")? {
            Some(name) => Zone::parse(&name)?,
            None => Zone::utc(),
        };
        let (from, to) = (fields.take("from"), fields.take("to"));
        let goes_on = match &to {
            None => true,
            Some(to) => to.as_str().is_some_and(|to| to.trim_start().starts_with("now")),
        };
        let range = Self {
            from_ms: bound("from", from, now_ms, false, &zone)?,
            to_ms: bound("to", to, now_ms, true, &zone)?,
            field,
            zone,
            goes_on,
        };
        fields.finish()?;
        if let (Some(from_ms), Some(to_ms)) = (range.from_ms, range.to_ms)
            && from_ms > to_ms
        {
            return Err(Error::illegal_argument(format!(
                "[from] of [time] must not be after [to], found [{from_ms}] and [{to_ms}]"
            ))
            .into());
        }
        Ok(range)
    }

    /// Returns the range as a query; `None`: it is open on both sides.
    pub(super) fn query(&self) -> Option<Value> {
        let mut range = Map::new();
        for (name, bound) in [("gte", self.from_ms), ("lte", self.to_ms)] {
            if let Some(ms) = bound {
                range.insert(name.to_owned(), ms.into());
            }
        }
        if range.is_empty() {
            return None;
        }
        range.insert("format".to_owned(), "epoch_millis".into());
        Some(json!({"range": {&self.field: range}}))
    }

    /// Returns the range without an end that only marks the time of the request.
    pub(super) fn without_end(&self) -> Self {
        Self {
            to_ms: self.to_ms.filter(|_| !self.goes_on),
            ..self.clone()
        }
    }
}

fn bound(name: &str, value: Option<Value>, now_ms: i64, round_up: bool, zone: &Zone) -> Result<Option<i64>> {
    let parse = |text: &str| DateFormat::default_millis().parse_math_ms(text, now_ms, round_up, zone);
    match value {
        None => Ok(None),
        Some(Value::Number(ms)) if ms.is_i64() => Ok(ms.as_i64()),
        Some(Value::String(text)) => parse(text.trim()).map(Some),
        Some(other) => Err(Error::illegal_argument(format!(
            "[{name}] of [time] must be a date, date math or ms since epoch, found [{other}]"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-03-29T12:34:56.789Z: the day on which clocks go forward in Europe.
    const NOW_MS: i64 = 1_774_787_696_789;

    fn range(object: Value) -> Result<TimeRange, String> {
        let Value::Object(object) = object else { unreachable!() };
        TimeRange::read(object, NOW_MS).map_err(|error| error.body(None, false)["error"]["reason"].to_string())
    }

    fn check(object: Value, from_ms: Option<i64>, to_ms: Option<i64>) {
        let range = range(object).unwrap();
        assert_eq!((range.from_ms, range.to_ms), (from_ms, to_ms));
    }

    #[test]
    fn ends_may_be_written_in_all_ways() {
        check(json!({}), None, None);
        check(json!({"from": 5, "to": "now"}), Some(5), Some(NOW_MS));
        check(
            json!({"from": "now-1s", "to": "1774787696789"}),
            Some(NOW_MS - 1000),
            Some(NOW_MS),
        );
        // A day is 23 hours long there, and its end is included.
        let day = range(json!({"from": "now/d", "to": "now/d", "zone": "Europe/Zurich"})).unwrap();
        assert_eq!(day.to_ms.unwrap() - day.from_ms.unwrap() + 1, 23 * 3_600_000);
        // Half-hour offset.
        let day = range(json!({"from": "2026-03-29", "to": "2026-03-29", "zone": "Asia/Kolkata"})).unwrap();
        assert_eq!(day.from_ms.unwrap() % 3_600_000, 1_800_000);
        assert_eq!(day.to_ms.unwrap() - day.from_ms.unwrap() + 1, 24 * 3_600_000);
    }

    #[test]
    fn nonsense_is_refused() {
        for (object, expect) in [
            (json!({"from": "yesterday"}), "yesterday"),
            (json!({"from": true}), "[from] of [time]"),
            (json!({"zone": "Mars/Base"}), "Mars/Base"),
            (json!({"from": 2, "to": 1}), "must not be after"),
            (json!({"till": 2}), "unexpected field [till]"),
        ] {
            let error = range(object).unwrap_err();
            assert!(error.contains(expect), "{error}");
        }
    }

    #[test]
    fn only_an_end_that_moves_is_open() {
        let without = |object| range(object).unwrap().without_end().to_ms;
        assert_eq!(without(json!({"from": 1, "to": "now"})), None);
        assert_eq!(without(json!({"from": 1, "to": 2})), Some(2));
        assert_eq!(range(json!({})).unwrap().query(), None);
    }
}
