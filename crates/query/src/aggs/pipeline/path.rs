//! Path of a pipeline's input in the finished tree (`buckets_path`).
//!
//! `terms['key']>filter>metric.field`: names descend the tree, a key in brackets selects a bucket (or, at the end, a
//! field of a metric as in `percentiles[95]`), and the last part may be `_count`, `_key` or an aggregation's
//! `_bucket_count`.

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use crate::aggs::finished::{Buckets, Finished, FinishedBucket, Level};
use crate::aggs::{Aggregation, AggregationKind, Aggregations};

/// A parsed path of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct BucketsPath {
    text: String,
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
struct Step {
    name: String,
    /// Text in brackets, without quotes.
    key: Option<String>,
}

impl BucketsPath {
    /// Parses a path.
    pub fn parse(text: &str) -> Result<Self> {
        let step = |element: &str| -> Option<Step> {
            let element = element.trim();
            let (name, key) = match element.rfind('[') {
                None => (element, None),
                Some(open) => {
                    let key = element[open + 1..].strip_suffix(']')?.trim();
                    let unquoted = ['\'', '"']
                        .iter()
                        .find_map(|quote| key.strip_prefix(*quote)?.strip_suffix(*quote));
                    let key = unquoted.unwrap_or(key);
                    (&element[..open], Some(key.to_owned()).filter(|key| !key.is_empty()))
                }
            };
            let bracket_is_full = element.contains('[') == key.is_some();
            (!name.is_empty() && bracket_is_full).then(|| Step {
                name: name.to_owned(),
                key,
            })
        };
        let mut steps = Vec::new();
        for element in text.split('>') {
            steps.push(step(element).ok_or_else(|| {
                Error::illegal_argument(format!("Invalid path element [{element}] in path [{text}]"))
            })?);
        }
        Ok(Self {
            text: text.to_owned(),
            steps,
        })
    }

    /// Returns the path as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the aggregation of this level where the path starts; `None` for `_count` and `_key`.
    pub(super) fn first<'a>(&self, level: &'a Aggregations) -> Option<(usize, &'a Aggregation)> {
        let (place, _) = place(level, &self.steps.first()?.name)?;
        level.0.get_index(place).map(|(_, aggregation)| (place, aggregation))
    }

    /// Resolves the path below a bucket with the sub-aggregations `level`.
    pub(super) fn bind(&self, level: &Aggregations) -> Result<Bound> {
        self.bind_steps(&self.steps, level)
    }

    /// Resolves the path of a sibling pipeline: the aggregation with several buckets, and the rest of the path below
    /// each of its buckets. `own_name` is the pipeline's name, for errors.
    pub(super) fn bind_beside(&self, own_name: &str, level: &Aggregations) -> Result<Beside> {
        let mut level = level;
        let mut hops = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            let rest = &self.steps[number + 1..];
            let (place, field) = place(level, &step.name).ok_or_else(|| self.not_found(&step.name))?;
            let Some((_, aggregation)) = level.0.get_index(place) else {
                return Err(self.not_found(&step.name));
            };
            let has_buckets = aggregation.kind.has_buckets();
            match (has_buckets, &step.key, field) {
                (true, None, None) if !rest.is_empty() => {
                    let bound = self.bind_steps(rest, &aggregation.sub)?;
                    return Ok(Beside { hops, place, bound });
                }
                (true, None, Some("_count")) if rest.is_empty() => {
                    let bound = Bound {
                        hops: Vec::new(),
                        end: End::DocCount,
                    };
                    return Ok(Beside { hops, place, bound });
                }
                (true, Some(key), None) => hops.push(Hop::Bucket(place, key.clone())),
                (true, None, None) => return Err(self.several_values(&step.name)),
                (false, None, None) if aggregation.kind.is_single_bucket() => hops.push(Hop::Single(place)),
                _ => return Err(self.no_buckets(own_name, aggregation)),
            }
            level = &aggregation.sub;
        }
        Err(self.several_values(self.steps.last().map_or("", |step| &step.name)))
    }

    fn bind_steps(&self, steps: &[Step], level: &Aggregations) -> Result<Bound> {
        let mut level = level;
        let mut hops = Vec::new();
        let Some((last, through)) = steps.split_last() else {
            return Err(self.not_found(""));
        };
        for step in through {
            let Some((place, _, aggregation)) = level.0.get_full(&step.name) else {
                return Err(self.not_found(&step.name));
            };
            match &step.key {
                Some(key) if aggregation.kind.has_buckets() => hops.push(Hop::Bucket(place, key.clone())),
                None if aggregation.kind.is_single_bucket() => hops.push(Hop::Single(place)),
                _ => return Err(self.several_values(&step.name)),
            }
            level = &aggregation.sub;
        }
        let end = match (last.name.as_str(), &last.key) {
            ("_count", None) => End::DocCount,
            ("_key", None) => End::Key,
            (name, key) => {
                let (place, field) = place(level, name).ok_or_else(|| self.not_found(name))?;
                let aggregation = level.0.get_index(place).map(|(_, aggregation)| aggregation);
                let field = key.as_deref().or(field);
                match aggregation {
                    Some(found) if found.kind.is_single_bucket() && field == Some("_count") => {
                        hops.push(Hop::Single(place));
                        End::DocCount
                    }
                    Some(found) if found.kind.has_buckets() && field == Some("_bucket_count") => {
                        End::BucketCount(place)
                    }
                    Some(found) if found.kind.is_metric() => End::Metric(place, field.map(str::to_owned)),
                    _ => return Err(self.several_values(name)),
                }
            }
        };
        Ok(Bound { hops, end })
    }

    fn not_found(&self, name: &str) -> Error {
        let is_first = self.steps.first().is_none_or(|first| first.name == name);
        let which = if is_first { String::new() } else { format!(" [{name}]") };
        Error::illegal_argument(format!("No aggregation{which} found for path [{}]", self.text))
    }

    fn several_values(&self, name: &str) -> Error {
        Error::illegal_argument(format!(
            "buckets_path must reference either a number value or a single value numeric metric aggregation, but \
             [{name}] contains multiple values. Please specify which to use."
        ))
    }

    fn no_buckets(&self, own_name: &str, found: &Aggregation) -> Error {
        Error::illegal_argument(format!(
            "The first aggregation in buckets_path must be a multi-bucket aggregation for aggregation [{own_name}] found :\
             {} for buckets path: {}",
            found.kind.name(),
            self.text
        ))
    }
}

/// Finds an aggregation by `name` or `name.field`; names may contain dots, so the longest existing name wins.
fn place<'a>(level: &Aggregations, text: &'a str) -> Option<(usize, Option<&'a str>)> {
    if let Some(place) = level.0.get_index_of(text) {
        return Some((place, None));
    }
    let dots = text.rmatch_indices('.');
    dots.map(|(dot, _)| (&text[..dot], &text[dot + 1..]))
        .find_map(|(name, field)| Some((level.0.get_index_of(name)?, Some(field))))
}

/// One step down from a level.
#[derive(Debug)]
enum Hop {
    Single(usize),
    Bucket(usize, String),
}

#[derive(Debug)]
enum End {
    DocCount,
    Key,
    BucketCount(usize),
    Metric(usize, Option<String>),
}

/// A path resolved for the buckets of one aggregation.
#[derive(Debug)]
pub(super) struct Bound {
    hops: Vec<Hop>,
    end: End,
}

impl Bound {
    /// Whether the path is the bucket's `_count`: then 0 is a value, not a gap.
    pub(super) fn is_own_count(&self) -> bool {
        self.hops.is_empty() && matches!(self.end, End::DocCount)
    }

    /// Returns the value at the path; `None` if it does not exist in this bucket.
    pub(super) fn read(&self, bucket: &FinishedBucket) -> Result<Option<f64>> {
        let Some((level, doc_count, key)) = descend(&self.hops, &bucket.sub, bucket.doc_count, Some(bucket)) else {
            return Ok(None);
        };
        match &self.end {
            End::DocCount => Ok(Some(doc_count as f64)),
            End::Key => match key.map(|bucket| &bucket.key) {
                Some(Value::Number(number)) => Ok(number.as_f64()),
                Some(Value::String(text)) if text.parse::<f64>().is_ok() => Ok(text.parse().ok()),
                _ => Err(Error::illegal_argument(
                    "buckets_path must reference either a number value or a single value numeric metric aggregation, got: \
                     [String] at aggregation [_key]",
                )),
            },
            End::BucketCount(place) => Ok(match level.0.get(*place) {
                Some(Finished::Buckets(buckets)) => Some(buckets.buckets.len() as f64),
                _ => None,
            }),
            End::Metric(place, field) => match level.0.get(*place) {
                Some(Finished::Metric(printed)) => metric(printed, field.as_deref()).map(Some),
                _ => Ok(None),
            },
        }
    }
}

/// A path resolved for the level of a sibling pipeline.
#[derive(Debug)]
pub(super) struct Beside {
    hops: Vec<Hop>,
    place: usize,
    /// Rest of the path, below each bucket.
    pub(super) bound: Bound,
}

impl Beside {
    /// Returns the buckets of the named aggregation.
    pub(super) fn buckets<'a>(&self, level: &'a Level) -> Option<&'a Buckets> {
        let (level, ..) = descend(&self.hops, level, 0, None)?;
        match level.0.get(self.place)? {
            Finished::Buckets(buckets) => Some(buckets),
            _ => None,
        }
    }
}

type At<'a> = (&'a Level, u64, Option<&'a FinishedBucket>);

/// Descends the tree; returns the level there, and the count and key of its bucket.
fn descend<'a>(hops: &[Hop], level: &'a Level, doc_count: u64, key: Option<&'a FinishedBucket>) -> Option<At<'a>> {
    let mut at = (level, doc_count, key);
    for hop in hops {
        at = match hop {
            Hop::Single(place) => match at.0.0.get(*place)? {
                Finished::Single(bucket) => (&bucket.sub, bucket.doc_count, None),
                _ => return None,
            },
            Hop::Bucket(place, name) => match at.0.0.get(*place)? {
                Finished::Buckets(buckets) => {
                    let bucket = buckets.buckets.iter().find(|bucket| bucket.name() == *name)?;
                    (&bucket.sub, bucket.doc_count, Some(bucket))
                }
                _ => return None,
            },
        };
    }
    Some(at)
}

/// Returns a number of a printed metric; NaN where it prints null.
fn metric(printed: &Map<String, Value>, field: Option<&str>) -> Result<f64> {
    let found = match field {
        None | Some("value") => match printed.get("value") {
            None if field.is_none() => {
                return Err(Error::illegal_argument(
                    "buckets_path must reference either a number value or a single value numeric metric aggregation, but \
                     the aggregation contains multiple values. Please specify which to use.",
                ));
            }
            found => found,
        },
        Some(field) => named_field(printed, field),
    };
    match found {
        Some(Value::Number(number)) => Ok(number.as_f64().unwrap_or(f64::NAN)),
        Some(Value::Null) => Ok(f64::NAN),
        // A number that JSON cannot represent (NaN, infinities).
        Some(Value::String(text)) => text.parse().map_err(|_| no_field(field)),
        _ => Err(no_field(field)),
    }
}

fn no_field(field: Option<&str>) -> Error {
    Error::illegal_argument(format!("path not supported: [{}]", field.unwrap_or("value")))
}

/// Returns a field by its name in paths, which may differ from its printed position.
fn named_field<'a>(printed: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    if let Some(bound) = field.strip_prefix("std_") {
        let bounds = printed.get("std_deviation_bounds").and_then(|bounds| bounds.get(bound));
        if bounds.is_some() {
            return bounds;
        }
    }
    match printed.get("values") {
        // Percentiles: compared as numbers, so 95 and 95.0 are equal.
        Some(Value::Object(values)) => {
            let wanted: f64 = field.parse().ok()?;
            let same = |(key, _): &(&String, _)| key.parse::<f64>().is_ok_and(|key| key == wanted);
            values.iter().find(same).map(|(_, value)| value)
        }
        Some(Value::Array(values)) => {
            let wanted: f64 = field.parse().ok()?;
            let entry = values.iter().find(|entry| entry["key"].as_f64() == Some(wanted))?;
            entry.get("value")
        }
        _ => match printed.get("top") {
            // `top_metrics`: the first row.
            Some(top) => top.get(0)?.get("metrics")?.get(field),
            None => printed.get(field),
        },
    }
}

impl AggregationKind {
    /// Whether the aggregation has several buckets.
    pub(super) fn has_buckets(&self) -> bool {
        self.is_bucketing() && !self.is_single_bucket()
    }

    /// Whether the aggregation has values: a metric or a pipeline, but not hits.
    fn is_metric(&self) -> bool {
        !self.is_bucketing() && !matches!(self, Self::TopHits(_))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::aggs::pipeline::test_support::{day_buckets, level};

    fn check(path: &str, expected: Option<f64>) {
        let (sub, buckets) = day_buckets();
        let bound = BucketsPath::parse(path)
            .unwrap()
            .bind(&sub)
            .unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(bound.read(&buckets[0]).unwrap(), expected, "{path}");
    }

    fn check_refused(path: &str, reason: &str) {
        let (sub, buckets) = day_buckets();
        let read = BucketsPath::parse(path).and_then(|path| path.bind(&sub)?.read(&buckets[0]));
        assert_eq!(read.expect_err(path).reason(), reason, "{path}");
    }

    #[test]
    fn leads_to_values() {
        check("_count", Some(3.0));
        check("_key", Some(86_400_000.0));
        check("total", Some(6.0));
        check("total.value", Some(6.0));
        check("all.avg", Some(2.0));
        check("all[max]", Some(3.0));
        check("terms._bucket_count", Some(2.0));
        check("terms['a']>_count", Some(2.0));
        check("terms['a']>dotted.name", Some(4.0));
        check("terms[\"b\"]>dotted.name.value", Some(2.0));
        check("terms['none']>_count", None);
        check("large._count", Some(1.0));
        check("large>_count", Some(1.0));
        check("large>inner", Some(5.0));
    }

    #[test]
    fn percentiles_are_found_by_number() {
        for printed in [
            json!({"values": {"95.0": 7.0, "99.9": null}}),
            json!({"values": [{"key": 95.0, "value": 7.0}]}),
        ] {
            let printed = printed.as_object().unwrap();
            assert_eq!(metric(printed, Some("95")).unwrap(), 7.0);
            assert_eq!(metric(printed, Some("95.0")).unwrap(), 7.0);
            assert!(metric(printed, Some("50")).is_err());
            assert!(metric(printed, None).is_err());
        }
    }

    #[test]
    fn other_fields_are_found_by_name() {
        let stats = json!({"std_deviation": 1.0, "std_deviation_bounds": {"upper": 9.0, "lower": "-Infinity"}});
        let stats = stats.as_object().unwrap();
        assert_eq!(metric(stats, Some("std_upper")).unwrap(), 9.0);
        assert_eq!(metric(stats, Some("std_lower")).unwrap(), f64::NEG_INFINITY);
        assert_eq!(metric(stats, Some("std_deviation")).unwrap(), 1.0);
        let top = json!({"top": [{"sort": [1], "metrics": {"m": 4}}]});
        assert_eq!(metric(top.as_object().unwrap(), Some("m")).unwrap(), 4.0);
    }

    #[test]
    fn refuses() {
        check_refused("nothing", "No aggregation found for path [nothing]");
        check_refused(
            "large>nothing",
            "No aggregation [nothing] found for path [large>nothing]",
        );
        for path in ["terms", "terms>_count", "large"] {
            let name = path.split('>').next().unwrap();
            check_refused(
                path,
                &format!(
                    "buckets_path must reference either a number value or a single value numeric metric aggregation, but \
                     [{name}] contains multiple values. Please specify which to use."
                ),
            );
        }
        check_refused("all.foo", "path not supported: [foo]");
        for path in ["", "a>", ">a", "a[", "a[]", "[a]", "a[b"] {
            let error = BucketsPath::parse(path).unwrap_err();
            assert!(error.reason().starts_with("Invalid path element ["), "{path}: {error}");
        }
    }

    #[test]
    fn siblings_go_through_buckets() {
        let (aggregations, level) = level();
        let check = |path: &str, expected: &[Option<f64>]| {
            let beside = BucketsPath::parse(path)
                .unwrap()
                .bind_beside("p", &aggregations)
                .unwrap();
            let buckets = beside.buckets(&level).unwrap().buckets.iter();
            let values: Vec<_> = buckets.map(|bucket| beside.bound.read(bucket).unwrap()).collect();
            assert_eq!(values, expected, "{path}");
        };
        check("days>total", &[Some(6.0)]);
        check("days>_count", &[Some(3.0)]);
        check("days._count", &[Some(3.0)]);
        check("days['86400000']>terms>_count", &[Some(2.0), Some(1.0)]);
        for path in ["days", "nothing>x", "days['1']>total"] {
            assert!(
                BucketsPath::parse(path)
                    .unwrap()
                    .bind_beside("p", &aggregations)
                    .is_err(),
                "{path}"
            );
        }
    }
}
