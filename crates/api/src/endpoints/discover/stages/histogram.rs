//! `histogram`: events over time, with a breakdown by the values of a field.

use std::collections::HashMap;

use firn_engine::Error;
use firn_query::search::{SearchRequest, SearchResponse};
use serde_json::{Map, Value, json};

use super::exact_counts::{self, Counted};
use super::outcome::{Outcome, aggregations, buckets, is_whole, number, text};
use crate::endpoints::discover::interval::Buckets;
use crate::endpoints::discover::known_fields;
use crate::endpoints::discover::request::SplitBy;
use crate::endpoints::discover::stage_run::Step;
use crate::endpoints::discover::time_range::TimeRange;
use crate::wire::error::ApiError;

/// Minimum values per shard: for most breakdown fields that is all of them.
const SHARD_SPLITS: u64 = 100;

/// Values beyond the requested number: if shards differ, one of them may be among the first.
const BEYOND: u64 = 5;

pub(super) async fn run(
    step: &Step<'_>,
    split_by: &SplitBy,
    splits: u64,
    width_px: u64,
    interval: Option<&str>,
) -> Result<Outcome, ApiError> {
    let Some(time) = &step.run.question.time else {
        return Err(Error::illegal_argument("stage [histogram] needs a field of time: [time] is required").into());
    };
    let split_by = match split_by {
        SplitBy::Nothing => None,
        SplitBy::Field(field) => Some(field.clone()),
        SplitBy::Default => default_split(step).await?,
    };
    let (from_ms, to_ms) = match (time.from_ms, time.to_ms) {
        (Some(from_ms), Some(to_ms)) => (from_ms, to_ms),
        (from_ms, to_ms) => {
            // If one end is open, `at_ms` stands for both ends in the estimate; nothing is counted before the estimate
            // is accepted.
            let at_ms = from_ms.or(to_ms).unwrap_or(0);
            let drawn = HistogramPlan {
                buckets: Buckets::new(interval, width_px, at_ms, at_ms, time)?,
                split_by: split_by.as_deref(),
                splits,
            };
            let requests = vec![ends_request(step, time)?, drawn.request(step, time)?];
            if let Some(cost) = step.too_dear(requests).await? {
                return Ok(Outcome::Estimated(cost));
            }
            // Without events there is nothing to draw.
            ends(step, time).await?.unwrap_or((at_ms, at_ms))
        }
    };
    let drawn = HistogramPlan {
        buckets: Buckets::new(interval, width_px, from_ms, to_ms, time)?,
        split_by: split_by.as_deref(),
        splits,
    };
    let request = drawn.request(step, time)?;
    if let Some(cost) = step.too_dear(vec![request.clone()]).await? {
        return Ok(Outcome::Estimated(cost));
    }
    let found = step
        .search(request, &|so_far| {
            if so_far.aggregations.is_some() {
                step.partial(&drawn.print(so_far, None, false));
            }
        })
        .await?;
    let split = found.aggregations.as_deref().map_or(&Value::Null, |all| &all["split"]);
    let again = match split_by.as_deref() {
        Some(field) => {
            let below = json!({"time": drawn.over_time(time)});
            exact_counts::again(step, field, split, splits, Some(below)).await?
        }
        None => None,
    };
    let again = match again {
        Some(request) => {
            step.partial(&drawn.print(&found, None, false));
            Some(step.search(request, &|_| {}).await?)
        }
        None => None,
    };
    Ok(Outcome::Done(drawn.print(&found, again.as_ref(), true)))
}

/// Returns the first configured field that is in use.
async fn default_split(step: &Step<'_>) -> Result<Option<String>, ApiError> {
    let (known, in_use) = (step.run.known().await?, step.run.in_use().await?);
    Ok(known_fields::default_split(
        &step.run.edge.config.discover.split_by,
        known,
        in_use,
    ))
}

/// Returns the ends of the range, with the first and the last event for open ends; `None`: there are no events.
async fn ends(step: &Step<'_>, time: &TimeRange) -> Result<Option<(i64, i64)>, ApiError> {
    let response = step.search(ends_request(step, time)?, &|_| {}).await?;
    let aggregations = response.aggregations.as_deref().unwrap_or(&Value::Null);
    let ms = |name: &str| aggregations[name]["value"].as_f64().map(|ms| ms as i64);
    let found = ms("first").zip(ms("last"));
    Ok(found.map(|(first, last)| (time.from_ms.unwrap_or(first), time.to_ms.unwrap_or(last))))
}

fn ends_request(step: &Step<'_>, time: &TimeRange) -> Result<SearchRequest, Error> {
    step.run.question.search(json!({
        "size": 0,
        "track_total_hits": false,
        "aggs": {"first": {"min": {"field": time.field}}, "last": {"max": {"field": time.field}}},
    }))
}

/// Specification of the histogram.
struct HistogramPlan<'a> {
    buckets: Buckets,
    split_by: Option<&'a str>,
    /// Maximum values of the breakdown.
    splits: u64,
}

impl HistogramPlan<'_> {
    fn request(&self, step: &Step<'_>, time: &TimeRange) -> Result<SearchRequest, Error> {
        let over_time = self.over_time(time);
        let mut aggs = json!({"time": over_time});
        if let Some(field) = self.split_by {
            let terms = exact_counts::terms(field, self.splits + BEYOND, SHARD_SPLITS);
            aggs["split"] = json!({"terms": terms, "aggs": {"time": over_time}});
        }
        step.run.question.search(aggregations(aggs))
    }

    /// Builds the aggregation over time. Empty buckets are filled in here, so that not every breakdown value has to
    /// return them.
    fn over_time(&self, time: &TimeRange) -> Value {
        let kind = if self.buckets.is_calendar() {
            "calendar_interval"
        } else {
            "fixed_interval"
        };
        let mut histogram = Map::new();
        histogram.insert("field".to_owned(), time.field.as_str().into());
        histogram.insert(kind.to_owned(), self.buckets.name.as_str().into());
        histogram.insert("time_zone".to_owned(), self.buckets.zone().name().into());
        histogram.insert("min_doc_count".to_owned(), 1.into());
        json!({"date_histogram": histogram})
    }

    fn print(&self, found: &SearchResponse, again: Option<&SearchResponse>, ended: bool) -> Vec<u8> {
        self.result(found, again, ended).to_string().into_bytes()
    }

    /// Builds the result. `ended`: it is final; `again`: recounted breakdown values, if necessary.
    fn result(&self, found: &SearchResponse, again: Option<&SearchResponse>, ended: bool) -> Value {
        let aggregations = found.aggregations.as_deref().unwrap_or(&Value::Null);
        let again_aggregations = again.and_then(|again| again.aggregations.as_deref());
        let counted = Counted::new(
            &aggregations["split"],
            again_aggregations.map(|all| &all["values"]),
            self.splits,
            self.splits + BEYOND,
            ended && is_whole(found) && again.is_none_or(is_whole),
        );
        let counts = by_start(&aggregations["time"]);
        let splits: Vec<(String, HashMap<i64, u64>)> = counted
            .buckets
            .iter()
            .map(|split| (text(split), by_start(&split["time"])))
            .collect();
        let range = &self.buckets;
        let starts: Vec<i64> = range.starts().collect();
        let printed = starts.iter().enumerate().map(|(number, start)| {
            let next = starts.get(number + 1).copied();
            let next = next.unwrap_or_else(|| range.rounding.next(*start));
            let count = counts.get(start).copied().unwrap_or(0);
            let (of_splits, other) = at(*start, count, &splits);
            json!({
                "from_ms": (*start).max(range.from_ms),
                "to_ms": next.min(range.to_ms.saturating_add(1)),
                "count": count,
                "splits": of_splits,
                "other": other,
            })
        });
        let names: Vec<&String> = splits.iter().map(|(name, _)| name).collect();
        json!({
            "interval": range.name,
            "interval_ms": range.interval_ms,
            "calendar": range.is_calendar(),
            "zone": range.zone().name(),
            "split_by": self.split_by,
            "splits": names,
            "exact": counted.exact,
            "exact_choice": counted.exact_choice,
            "buckets": printed.collect::<Vec<_>>(),
        })
    }
}

/// Returns the counts of the breakdown values in one bucket, and the rest of its events.
fn at(start: i64, count: u64, splits: &[(String, HashMap<i64, u64>)]) -> (Map<String, Value>, u64) {
    let (mut of_splits, mut rest) = (Map::new(), count);
    for (name, counts) in splits {
        if let Some(count) = counts.get(&start) {
            of_splits.insert(name.clone(), (*count).into());
            // An event with several values counts for each of them.
            rest = rest.saturating_sub(*count);
        }
    }
    (of_splits, rest)
}

fn by_start(histogram: &Value) -> HashMap<i64, u64> {
    let pairs = buckets(histogram).iter();
    pairs
        .filter_map(|bucket| Some((bucket["key"].as_i64()?, number(&bucket["doc_count"]))))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const HOUR: i64 = 3_600_000;

    fn range(zone: &str) -> TimeRange {
        let object = json!({"field": "t", "from": HOUR / 2, "to": 3 * HOUR, "zone": zone});
        TimeRange::read(object.as_object().unwrap().clone(), 0).unwrap()
    }

    fn hours(zone: &str) -> HistogramPlan<'static> {
        HistogramPlan {
            buckets: Buckets::new(Some("1h"), 1200, HOUR / 2, 3 * HOUR, &range(zone)).unwrap(),
            split_by: Some("f"),
            splits: 5,
        }
    }

    #[test]
    fn empty_buckets_are_there_and_the_ends_are_cut() {
        let over_time = |counts: &[(i64, u64)]| {
            let buckets = counts
                .iter()
                .map(|(key, count)| json!({"key": key, "doc_count": count}));
            json!({"buckets": buckets.collect::<Vec<_>>()})
        };
        let response = SearchResponse {
            aggregations: Some(Arc::new(json!({
                "time": over_time(&[(0, 5), (2 * HOUR, 3)]),
                "split": {"buckets": [
                    {"key": "a", "doc_count": 5, "time": over_time(&[(0, 4), (2 * HOUR, 3)])},
                    {"key": "b", "doc_count": 2, "time": over_time(&[(2 * HOUR, 2)])},
                ]},
            }))),
            ..SearchResponse::default()
        };
        let result = hours("UTC").result(&response, None, true);
        assert_eq!(result["splits"], json!(["a", "b"]));
        let expect = json!([
            {"from_ms": HOUR / 2, "to_ms": HOUR, "count": 5, "splits": {"a": 4}, "other": 1},
            {"from_ms": HOUR, "to_ms": 2 * HOUR, "count": 0, "splits": {}, "other": 0},
            {"from_ms": 2 * HOUR, "to_ms": 3 * HOUR, "count": 3, "splits": {"a": 3, "b": 2}, "other": 0},
            {"from_ms": 3 * HOUR, "to_ms": 3 * HOUR + 1, "count": 0, "splits": {}, "other": 0},
        ]);
        assert_eq!(result["buckets"], expect);
    }

    #[test]
    fn the_zone_is_the_aggregations_too() {
        let drawn = hours("Asia/Kolkata");
        let expect = json!({"date_histogram": {
            "field": "t", "fixed_interval": "1h", "time_zone": "Asia/Kolkata", "min_doc_count": 1,
        }});
        assert_eq!(drawn.over_time(&range("Asia/Kolkata")), expect);
        assert_eq!(drawn.buckets.starts().next(), Some(HOUR / 2), "half an hour off");
    }
}
