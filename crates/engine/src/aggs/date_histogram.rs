//! `date_histogram`: a bucket for each interval of time.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use firn_model::dates::{CalendarUnit, DateFormat, Rounding, Zone, parse_duration_ms};
use serde_json::{Map, Value, json};

use super::finish::Finisher;
use super::order::{self, Ranked, Sorter};
use super::parse::{self, Request, unknown_field};
use super::partial::Room;
use super::{AggregationKind, Aggregations, Bucket, Key, TermsOrder, ValueFormat};
use crate::json::token;
use crate::{Error, Result};

pub(super) const NAME: &str = "date_histogram";

/// `date_histogram`.
#[derive(Debug, Clone, PartialEq)]
pub struct DateHistogram {
    /// Full path of a date field.
    pub field: String,
    /// How wide a bucket is.
    pub interval: Interval,
    /// As written; `None`: UTC.
    pub time_zone: Option<String>,
    /// Moves the start of buckets, ms.
    pub offset_ms: i64,
    /// Default 0: empty buckets between the first and the last are returned.
    pub min_doc_count: u64,
    /// `extended_bounds`, as written (dates or ms); a side that is not given is null.
    pub extended_bounds: Option<(Value, Value)>,
    /// `hard_bounds`, as written; a side that is not given is null.
    pub hard_bounds: Option<(Value, Value)>,
    /// Buckets as an object by key.
    pub keyed: bool,
    /// Date format of `key_as_string`; `None`: the field's.
    pub format: Option<String>,
    /// Value of documents without the field.
    pub missing: Option<Value>,
    /// Order of buckets; default key ascending. (key, ascending)
    pub order: Vec<(TermsOrder, bool)>,
}

/// The width of a date histogram's bucket.
pub use firn_model::dates::Interval;

pub(super) fn parse(request: &Request<'_>) -> Result<AggregationKind> {
    let mut field = None;
    let mut interval: Option<(&str, Interval)> = None;
    let mut histogram = DateHistogram {
        field: String::new(),
        interval: Interval::Fixed(1),
        time_zone: None,
        offset_ms: 0,
        min_doc_count: 0,
        extended_bounds: None,
        hard_bounds: None,
        keyed: false,
        format: None,
        missing: None,
        order: Vec::new(),
    };
    for (key, value) in request.body {
        match key.as_str() {
            "field" => field = Some(parse::text(NAME, key, value)?),
            "fixed_interval" | "calendar_interval" => {
                let text = parse::text(NAME, key, value)?;
                let parsed = if key == "fixed_interval" {
                    fixed_interval(&text)?
                } else {
                    calendar_interval(&text)?
                };
                if let Some((first, _)) = interval.replace((key, parsed)) {
                    return Err(Error::illegal_argument(format!(
                        "Cannot use [{key}] with [{first}] configuration option."
                    )));
                }
            }
            "interval" => {
                return Err(Error::parsing(format!(
                    "[{NAME}] unknown field [interval]: use [fixed_interval] or [calendar_interval]"
                )));
            }
            "time_zone" => {
                let text = parse::text(NAME, key, value)?;
                Zone::parse(&text)?;
                histogram.time_zone = Some(text);
            }
            "offset" => histogram.offset_ms = offset(value)?,
            "min_doc_count" => histogram.min_doc_count = parse::number(request, NAME, key, value, 0)?,
            "extended_bounds" => histogram.extended_bounds = bounds(key, value)?,
            "hard_bounds" => histogram.hard_bounds = bounds(key, value)?,
            "keyed" => histogram.keyed = parse::flag(NAME, key, value)?,
            "format" => {
                let text = parse::text(NAME, key, value)?;
                DateFormat::new(&text)?;
                histogram.format = Some(text);
            }
            "missing" => histogram.missing = Some(parse::scalar(NAME, key, value)?),
            "order" => histogram.order = order::parse(value)?,
            _ => return Err(unknown_field(NAME, key)),
        }
    }
    histogram.field = parse::required_field(field)?;
    histogram.interval = match interval {
        Some((_, interval)) => interval,
        None => {
            return Err(Error::illegal_argument(
                "Invalid interval specified, must be non-null and non-empty",
            ));
        }
    };
    order::check(&histogram.order, request.sub)?;
    Ok(AggregationKind::DateHistogram(histogram))
}

fn fixed_interval(text: &str) -> Result<Interval> {
    let wrong = || {
        Error::illegal_argument(format!(
            "failed to parse setting [{NAME}.fixedInterval] with value [{text}] as a time value"
        ))
    };
    // `M` is months, which have no fixed length, and never minutes.
    if text.trim_end().ends_with('M') {
        return Err(wrong());
    }
    let ms = parse_duration_ms(text).map_err(|cause| wrong().caused_by(cause))?;
    match i64::try_from(ms) {
        Ok(ms) if ms >= 1 => Ok(Interval::Fixed(ms)),
        _ => Err(Error::illegal_argument("Zero or negative time interval not supported")),
    }
}

/// The names of calendar units; the first is the one that prints.
const CALENDAR_UNITS: &[(CalendarUnit, [&str; 2])] = &[
    (CalendarUnit::Second, ["1s", "second"]),
    (CalendarUnit::Minute, ["1m", "minute"]),
    (CalendarUnit::Hour, ["1h", "hour"]),
    (CalendarUnit::Day, ["1d", "day"]),
    (CalendarUnit::Week, ["1w", "week"]),
    (CalendarUnit::Month, ["1M", "month"]),
    (CalendarUnit::Quarter, ["1q", "quarter"]),
    (CalendarUnit::Year, ["1y", "year"]),
];

fn calendar_interval(text: &str) -> Result<Interval> {
    let found = CALENDAR_UNITS.iter().find(|(_, names)| names.contains(&text));
    match found {
        Some((unit, _)) => Ok(Interval::Calendar(*unit)),
        None => Err(Error::illegal_argument(format!(
            "The supplied interval [{text}] could not be parsed as a calendar interval."
        ))),
    }
}

/// `+6h`, `-1d`, or ms.
fn offset(value: &Value) -> Result<i64> {
    let wrong = || {
        Error::parsing(format!(
            "[{NAME}] failed to parse field [offset]: {value} is not a time value"
        ))
    };
    match value {
        Value::Number(number) => number.as_i64().ok_or_else(wrong),
        Value::String(text) => {
            let (sign, text) = match text.strip_prefix('-') {
                Some(rest) => (-1, rest),
                None => (1, text.strip_prefix('+').unwrap_or(text)),
            };
            let ms = parse_duration_ms(text).map_err(|cause| wrong().caused_by(cause))?;
            Ok(sign * i64::try_from(ms).map_err(|_| wrong())?)
        }
        _ => Err(wrong()),
    }
}

fn bounds(key: &str, value: &Value) -> Result<Option<(Value, Value)>> {
    let Value::Object(body) = value else {
        return match value {
            Value::Null => Ok(None),
            _ => Err(Error::parsing(format!(
                "[{NAME}] {key} doesn't support values of type: {}",
                token(value)
            ))),
        };
    };
    let (mut min, mut max) = (Value::Null, Value::Null);
    for (side, value) in body {
        let target = match side.as_str() {
            "min" => &mut min,
            "max" => &mut max,
            _ => return Err(Error::parsing(format!("[bounds] unknown field [{side}]"))),
        };
        match value {
            Value::String(_) | Value::Number(_) | Value::Null => *target = value.clone(),
            _ => {
                return Err(Error::parsing(format!(
                    "[bounds] {side} doesn't support values of type: {}",
                    token(value)
                )));
            }
        }
    }
    Ok(Some((min, max)))
}

/// Inclusive lower and exclusive or inclusive upper bound, each optional, ms since epoch UTC.
type BoundsMs = (Option<i64>, Option<i64>);

impl DateHistogram {
    /// Its time zone.
    pub fn zone(&self) -> Result<Zone> {
        self.time_zone.as_deref().map_or_else(|| Ok(Zone::utc()), Zone::parse)
    }

    /// How instants become bucket starts.
    pub fn rounding(&self) -> Result<Rounding> {
        Ok(Rounding::new(self.interval, self.zone()?, self.offset_ms))
    }

    /// `hard_bounds` in ms: buckets that start before the first or not before the second are not
    /// made. [`Aggregations::finish`] leaves such buckets out as well; knowing the bounds early
    /// saves making them.
    pub fn hard_bounds_ms(&self, format: &DateFormat, now_ms: Option<i64>) -> Result<BoundsMs> {
        self.resolve(self.hard_bounds.as_ref(), format, now_ms)
    }

    fn resolve(&self, bounds: Option<&(Value, Value)>, format: &DateFormat, now_ms: Option<i64>) -> Result<BoundsMs> {
        let Some((min, max)) = bounds else {
            return Ok((None, None));
        };
        let zone = self.zone()?;
        let side = |value: &Value| match value {
            Value::Null => Ok(None),
            Value::Number(number) => match number.as_i64() {
                Some(ms) => Ok(Some(ms)),
                None => Err(Error::illegal_argument(format!("bound [{number}] is not a date"))),
            },
            Value::String(text) => {
                if now_ms.is_none() && text.starts_with("now") {
                    return Err(Error::not_implemented(format!("bound [{text}] relative to now")));
                }
                format.parse_math_ms(text, now_ms.unwrap_or(0), false, &zone).map(Some)
            }
            other => Err(Error::illegal_argument(format!("bound [{other}] is not a date"))),
        };
        Ok((side(min)?, side(max)?))
    }

    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        body.insert("field".into(), json!(self.field));
        match self.interval {
            Interval::Fixed(ms) => body.insert("fixed_interval".into(), json!(format!("{ms}ms"))),
            Interval::Calendar(unit) => {
                let names = CALENDAR_UNITS.iter().find(|(named, _)| *named == unit);
                let name = names.map_or("1d", |(_, names)| names[0]);
                body.insert("calendar_interval".into(), json!(name))
            }
        };
        let bounds = |bounds: &(Value, Value)| json!({"min": bounds.0, "max": bounds.1});
        parse::put(&mut body, "time_zone", self.time_zone.as_ref());
        if self.offset_ms != 0 {
            body.insert("offset".into(), json!(self.offset_ms));
        }
        body.insert("min_doc_count".into(), json!(self.min_doc_count));
        parse::put(&mut body, "extended_bounds", self.extended_bounds.as_ref().map(bounds));
        parse::put(&mut body, "hard_bounds", self.hard_bounds.as_ref().map(bounds));
        if self.keyed {
            body.insert("keyed".into(), true.into());
        }
        parse::put(&mut body, "format", self.format.as_ref());
        parse::put(&mut body, "missing", self.missing.as_ref());
        if !self.order.is_empty() {
            body.insert("order".into(), order::print(&self.order));
        }
        Value::Object(body)
    }

    pub(super) fn fields(&self, fields: &mut BTreeSet<String>) {
        fields.insert(self.field.clone());
    }
}

/// Partial result of `date_histogram`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DateHistogramPartial {
    /// By the bucket's start, ms since epoch UTC.
    pub buckets: HashMap<i64, Bucket>,
    /// How keys print.
    pub format: ValueFormat,
}

impl DateHistogramPartial {
    pub(super) fn fold(&mut self, other: Self, room: &mut Room) -> Result<()> {
        self.format.merge(&other.format);
        for (key, bucket) in other.buckets {
            match self.buckets.entry(key) {
                Entry::Occupied(mut own) => own.get_mut().fold(bucket, room)?,
                Entry::Vacant(vacant) => {
                    room.take_with(|| bucket.bucket_count())?;
                    vacant.insert(bucket);
                }
            }
        }
        Ok(())
    }
}

pub(super) fn answer(
    finisher: &mut Finisher<'_>,
    name: &str,
    histogram: &DateHistogram,
    sub: &Aggregations,
    partial: DateHistogramPartial,
) -> Result<Map<String, Value>> {
    let format = match (&partial.format, &histogram.format) {
        (ValueFormat::Date(format), _) => format.clone(),
        (_, Some(format)) => DateFormat::new(format)?.into(),
        (_, None) => DateFormat::default_millis().into(),
    };
    let zone = histogram.zone()?;
    let buckets = filled(finisher, name, histogram, partial, &format)?;
    let mut ordered = Vec::with_capacity(buckets.len());
    if histogram.order.is_empty() {
        ordered.extend(buckets);
    } else {
        let sorter = Sorter::new(&histogram.order, sub)?;
        let rank = |(key, bucket)| sorter.rank(Key::I64(key), bucket);
        let mut ranked: Vec<Ranked> = buckets.into_iter().map(rank).collect();
        let count = ranked.len();
        sorter.sort_top(&mut ranked, count);
        for Ranked { key, bucket, .. } in ranked {
            if let Key::I64(key) = key {
                ordered.push((key, bucket));
            }
        }
    }
    let mut by_key = Map::new();
    let mut list = Vec::new();
    for (key, bucket) in ordered {
        let text = format.print_ms(key, &zone);
        let mut printed = Map::new();
        printed.insert("key_as_string".into(), text.as_str().into());
        printed.insert("key".into(), key.into());
        printed.insert("doc_count".into(), bucket.doc_count.into());
        finisher.level(sub, bucket.sub, &mut printed)?;
        if histogram.keyed {
            by_key.insert(text, Value::Object(printed));
        } else {
            list.push(Value::Object(printed));
        }
    }
    let mut answer = Map::new();
    let buckets = if histogram.keyed {
        Value::Object(by_key)
    } else {
        Value::Array(list)
    };
    answer.insert("buckets".into(), buckets);
    Ok(answer)
}

/// The buckets by key, ascending: those within the hard bounds that are full enough, and with
/// `min_doc_count: 0` also the empty ones between the first and the last and out to the extended
/// bounds.
fn filled(
    finisher: &mut Finisher<'_>,
    name: &str,
    histogram: &DateHistogram,
    partial: DateHistogramPartial,
    format: &DateFormat,
) -> Result<Vec<(i64, Bucket)>> {
    let now_ms = finisher.now_ms();
    let (hard_min, hard_max) = histogram.hard_bounds_ms(format, now_ms)?;
    let (min, max) = histogram.resolve(histogram.extended_bounds.as_ref(), format, now_ms)?;
    check_bounds(name, (hard_min, hard_max), (min, max))?;
    let within = |key: i64| hard_min.is_none_or(|min| key >= min) && hard_max.is_none_or(|max| key < max);
    let full_enough = |bucket: &Bucket| bucket.doc_count >= histogram.min_doc_count;
    let found = partial.buckets.into_iter();
    let mut found: Vec<(i64, Bucket)> = found
        .filter(|(key, bucket)| within(*key) && full_enough(bucket))
        .collect();
    finisher.count(found.len())?;
    found.sort_unstable_by_key(|(key, _)| *key);
    if histogram.min_doc_count > 0 {
        return Ok(found);
    }
    let rounding = histogram.rounding()?;
    let (min, max) = (
        min.map(|min| rounding.round_down(min)),
        max.map(|max| rounding.round_down(max)),
    );
    let (first, last) = match (found.first(), found.last()) {
        (Some((first, _)), Some((last, _))) => (min.unwrap_or(*first).min(*first), max.unwrap_or(*last).max(*last)),
        _ => match (min, max) {
            (Some(min), Some(max)) => (min, max),
            _ => return Ok(found),
        },
    };
    let mut filled = Vec::with_capacity(found.len());
    let mut found = found.into_iter().peekable();
    let mut key = first;
    while key <= last {
        match found.next_if(|(found, _)| *found <= key) {
            // A bucket whose start another rounding chose stays where it is.
            Some(bucket) => {
                let earlier = bucket.0 < key;
                filled.push(bucket);
                if earlier {
                    continue;
                }
            }
            None if within(key) => {
                finisher.count(1)?;
                filled.push((key, Bucket::default()));
            }
            None => {}
        }
        // A rounding that does not advance would never end.
        let next = rounding.next(key);
        if next <= key {
            break;
        }
        key = next;
    }
    filled.extend(found);
    Ok(filled)
}

fn check_bounds(name: &str, hard: BoundsMs, extended: BoundsMs) -> Result<()> {
    if let (Some(min), Some(max)) = extended
        && min > max
    {
        return Err(Error::illegal_argument(format!(
            "[extended_bounds.min][{min}] cannot be greater than [extended_bounds.max][{max}] for histogram aggregation \
             [{name}]"
        )));
    }
    let below = matches!((hard.0, extended.0), (Some(hard), Some(extended)) if extended < hard);
    let above = matches!((hard.1, extended.1), (Some(hard), Some(extended)) if extended > hard);
    if below || above {
        return Err(Error::illegal_argument(format!(
            "Extended bounds have to be inside hard bounds, hard bounds: [{}], extended bounds: [{}]",
            print_bounds(hard),
            print_bounds(extended)
        )));
    }
    Ok(())
}

fn print_bounds((min, max): BoundsMs) -> String {
    let side = |bound: Option<i64>| bound.map(|bound| bound.to_string()).unwrap_or_default();
    format!("{}--{}", side(min), side(max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggs::test_support::{check_fields, check_refused, check_round_trip, metric, parsed};
    use crate::aggs::{FinishOptions, Partial, Partials};

    const DAY: i64 = 86_400_000;

    fn partial(counts: &[(i64, u64)]) -> DateHistogramPartial {
        let bucket = |doc_count| Bucket {
            doc_count,
            sub: Partials::default(),
        };
        DateHistogramPartial {
            buckets: counts.iter().map(|(key, count)| (*key, bucket(*count))).collect(),
            format: ValueFormat::Date(DateFormat::default_millis().into()),
        }
    }

    fn finish(body: Value, partial: DateHistogramPartial) -> Result<Value> {
        let aggregations = parsed(json!({"x": {"date_histogram": body, "aggs": {"m": {"max": {"field": "n"}}}}}));
        let partials = Partials(
            [("x".to_owned(), Partial::DateHistogram(partial))]
                .into_iter()
                .collect(),
        );
        let mut options = FinishOptions::new(50);
        options.now_ms = Some(3 * DAY + 5);
        Ok(aggregations.finish_with(partials, &options)?["x"]["buckets"].clone())
    }

    fn days(body: Value, partial: DateHistogramPartial) -> Vec<(i64, u64)> {
        let buckets = finish(body, partial).unwrap();
        let number = |bucket: &Value, name: &str| bucket[name].as_i64().unwrap();
        let buckets = buckets.as_array().unwrap().iter();
        buckets
            .map(|bucket| (number(bucket, "key") / DAY, number(bucket, "doc_count") as u64))
            .collect()
    }

    #[test]
    fn parses() {
        check_round_trip(json!({"x": {"date_histogram": {"field": "t", "fixed_interval": "30s"}}}));
        for names in CALENDAR_UNITS.iter().map(|(_, names)| names) {
            for name in names {
                check_round_trip(json!({"x": {"date_histogram": {"field": "t", "calendar_interval": name}}}));
            }
        }
        check_round_trip(json!({"x": {"date_histogram": {
            "field": "t", "fixed_interval": "1d", "time_zone": "+01:00", "offset": "-6h", "min_doc_count": 1,
            "extended_bounds": {"min": "2020-01-01", "max": 5}, "hard_bounds": {"min": 0}, "keyed": true,
            "format": "yyyy-MM-dd", "missing": "2000-01-01", "order": {"_count": "desc"}
        }}}));
    }

    #[test]
    fn refuses() {
        let check = |body: Value, error: &str| check_refused(json!({"x": {"date_histogram": body}}), error);
        check(
            json!({"field": "t"}),
            "Invalid interval specified, must be non-null and non-empty",
        );
        check(
            json!({"fixed_interval": "1d"}),
            "Required one of fields [field, script], but none were specified. ",
        );
        check(
            json!({"field": "t", "interval": "1d"}),
            "[date_histogram] unknown field [interval]: use [fixed_interval] or [calendar_interval]",
        );
        check(
            json!({"field": "t", "calendar_interval": "2d"}),
            "The supplied interval [2d] could not be parsed as a calendar interval.",
        );
        check(
            json!({"field": "t", "fixed_interval": "1M"}),
            "failed to parse setting [date_histogram.fixedInterval] with value [1M] as a time value",
        );
        check(
            json!({"field": "t", "fixed_interval": "0s"}),
            "Zero or negative time interval not supported",
        );
        check(
            json!({"field": "t", "fixed_interval": "1d", "calendar_interval": "1d"}),
            "Cannot use [calendar_interval] with [fixed_interval] configuration option.",
        );
        check(
            json!({"field": "t", "fixed_interval": "1d", "extended_bounds": {"low": 1}}),
            "[bounds] unknown field [low]",
        );
    }

    #[test]
    fn fields_read() {
        check_fields(
            json!({"x": {"date_histogram": {"field": "t", "fixed_interval": "1d"}}}),
            &["t"],
        );
    }

    #[test]
    fn prints_keys_twice_and_the_level_below() {
        let mut partial = partial(&[(DAY, 3)]);
        partial
            .buckets
            .get_mut(&DAY)
            .unwrap()
            .sub
            .0
            .insert("m".into(), metric(&[2.0, 4.0]));
        assert_eq!(
            finish(json!({"field": "t", "fixed_interval": "1d"}), partial.clone()).unwrap(),
            json!([{"key_as_string": "1970-01-02T00:00:00.000Z", "key": DAY, "doc_count": 3, "m": {"value": 4.0}}])
        );
        assert_eq!(
            finish(json!({"field": "t", "fixed_interval": "1d", "keyed": true}), partial).unwrap(),
            json!({"1970-01-02T00:00:00.000Z": {
                "key_as_string": "1970-01-02T00:00:00.000Z", "key": DAY, "doc_count": 3, "m": {"value": 4.0}
            }})
        );
    }

    #[test]
    fn fills_gaps() {
        let body = |more: Value| {
            let mut body = json!({"field": "t", "fixed_interval": "1d"});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            body
        };
        let some = || partial(&[(5 * DAY, 2), (2 * DAY, 1)]);
        assert_eq!(days(body(json!({})), some()), [(2, 1), (3, 0), (4, 0), (5, 2)]);
        assert_eq!(days(body(json!({"min_doc_count": 1})), some()), [(2, 1), (5, 2)]);
        assert_eq!(days(body(json!({"min_doc_count": 2})), some()), [(5, 2)]);
        assert_eq!(days(body(json!({})), partial(&[])), []);
        let extended = json!({"extended_bounds": {"min": "1970-01-02T07:00:00Z", "max": 7 * DAY + 1}});
        assert_eq!(
            days(body(extended.clone()), some()),
            [(1, 0), (2, 1), (3, 0), (4, 0), (5, 2), (6, 0), (7, 0)]
        );
        assert_eq!(days(body(extended), partial(&[])).len(), 7);
        assert_eq!(
            days(body(json!({"hard_bounds": {"min": 3 * DAY, "max": 5 * DAY}})), some()),
            []
        );
        assert_eq!(
            days(
                body(json!({"hard_bounds": {"max": "now"}, "extended_bounds": {"max": "now/d"}})),
                some()
            ),
            [(2, 1), (3, 0)]
        );
        assert_eq!(
            days(body(json!({"order": {"_key": "desc"}})), some()),
            [(5, 2), (4, 0), (3, 0), (2, 1)]
        );
        assert_eq!(
            days(body(json!({"order": {"_count": "desc"}})), some()),
            [(5, 2), (2, 1), (3, 0), (4, 0)]
        );
    }

    #[test]
    fn gaps_are_bounded() {
        let wide = partial(&[(0, 1), (1000 * DAY, 1)]);
        let error = finish(json!({"field": "t", "fixed_interval": "1ms"}), wide).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::TooManyBuckets);
    }

    #[test]
    fn the_ends_of_time_do_not_panic() {
        for interval in [json!({"fixed_interval": "7d"}), json!({"calendar_interval": "1M"})] {
            for (min, max) in [(i64::MIN, i64::MIN + 5), (i64::MAX - 5, i64::MAX), (i64::MIN, i64::MAX)] {
                for zone in ["UTC", "Europe/Berlin"] {
                    let mut body = json!({
                        "field": "t", "time_zone": zone, "offset": "-5h", "extended_bounds": {"min": min, "max": max}
                    });
                    body.as_object_mut()
                        .unwrap()
                        .extend(interval.as_object().unwrap().clone());
                    let _ = finish(body, partial(&[(0, 1)]));
                    let mut body = json!({"field": "t", "time_zone": zone, "min_doc_count": 1});
                    body.as_object_mut()
                        .unwrap()
                        .extend(interval.as_object().unwrap().clone());
                    let _ = finish(body, partial(&[(min, 1), (max, 1)]));
                }
            }
        }
    }

    #[test]
    fn bounds_are_checked() {
        let check = |bounds: Value, expected: &str| {
            let mut body = json!({"field": "t", "fixed_interval": "1d"});
            body.as_object_mut()
                .unwrap()
                .extend(bounds.as_object().unwrap().clone());
            assert_eq!(finish(body, partial(&[])).unwrap_err().reason(), expected);
        };
        check(
            json!({"extended_bounds": {"min": 2, "max": 1}}),
            "[extended_bounds.min][2] cannot be greater than [extended_bounds.max][1] for histogram aggregation [x]",
        );
        check(
            json!({"extended_bounds": {"min": 1, "max": 9}, "hard_bounds": {"min": 2, "max": 8}}),
            "Extended bounds have to be inside hard bounds, hard bounds: [2--8], extended bounds: [1--9]",
        );
    }
}
