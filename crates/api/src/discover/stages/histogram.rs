//! `histogram`: the events over time, split by the values of a field that most of them have.

use std::collections::HashMap;

use firn_engine::Error;
use firn_engine::search::SearchResponse;
use serde_json::{Map, Value, json};

use super::{Outcome, aggregations, buckets, number};
use crate::discover::interval::Buckets;
use crate::discover::known;
use crate::discover::request::SplitBy;
use crate::discover::step::Step;
use crate::discover::time::TimeRange;
use crate::error::ApiError;

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
        _ => match ends(step, time).await? {
            Some(ends) => ends,
            // Of nothing there is nothing to draw; where the range begins says when.
            None => {
                let at_ms = time.from_ms.or(time.to_ms).unwrap_or(0);
                (at_ms, at_ms)
            }
        },
    };
    let buckets = Buckets::new(interval, width_px, from_ms, to_ms, time)?;
    let over_time = over_time(&buckets, time);
    let mut aggs = json!({"time": over_time});
    if let Some(field) = &split_by {
        aggs["split"] = json!({"terms": {"field": field, "size": splits}, "aggs": {"time": over_time}});
    }
    let request = step.run.question.search(aggregations(aggs))?;
    if let Some(cost) = step.too_dear(vec![request.clone()]).await? {
        return Ok(Outcome::Estimated(cost));
    }
    let print = |response: &SearchResponse| result(&buckets, split_by.as_deref(), response).to_string().into_bytes();
    let response = step
        .search(request, &|so_far| {
            if so_far.aggregations.is_some() {
                step.partial(&print(so_far));
            }
        })
        .await?;
    Ok(Outcome::Done(print(&response)))
}

/// The first of the configured fields that is in use.
async fn default_split(step: &Step<'_>) -> Result<Option<String>, ApiError> {
    let (known, in_use) = (step.run.known().await?, step.run.in_use().await?);
    Ok(known::default_split(
        &step.run.edge.config.discover.split_by,
        known,
        in_use,
    ))
}

/// When the first event happened and when the last one; `None`: there is none.
async fn ends(step: &Step<'_>, time: &TimeRange) -> Result<Option<(i64, i64)>, ApiError> {
    let request = step.run.question.search(json!({
        "size": 0,
        "track_total_hits": false,
        "aggs": {"first": {"min": {"field": time.field}}, "last": {"max": {"field": time.field}}},
    }))?;
    let response = step.search(request, &|_| {}).await?;
    let aggregations = response.aggregations.as_deref().unwrap_or(&Value::Null);
    let ms = |name: &str| aggregations[name]["value"].as_f64().map(|ms| ms as i64);
    let found = ms("first").zip(ms("last"));
    Ok(found.map(|(first, last)| (time.from_ms.unwrap_or(first), time.to_ms.unwrap_or(last))))
}

/// Buckets without events are put in here, so that they need not be told by each split.
fn over_time(buckets: &Buckets, time: &TimeRange) -> Value {
    let kind = if buckets.is_calendar() {
        "calendar_interval"
    } else {
        "fixed_interval"
    };
    let mut histogram = Map::new();
    histogram.insert("field".to_owned(), time.field.as_str().into());
    histogram.insert(kind.to_owned(), buckets.name.as_str().into());
    histogram.insert("time_zone".to_owned(), buckets.zone().name().into());
    histogram.insert("min_doc_count".to_owned(), 1.into());
    json!({"date_histogram": histogram})
}

fn result(range: &Buckets, split_by: Option<&str>, response: &SearchResponse) -> Value {
    let aggregations = response.aggregations.as_deref().unwrap_or(&Value::Null);
    let counts = by_start(&aggregations["time"]);
    let splits: Vec<(String, HashMap<i64, u64>)> = buckets(&aggregations["split"])
        .iter()
        .map(|split| (name(split), by_start(&split["time"])))
        .collect();
    let starts: Vec<i64> = range.starts().collect();
    let printed: Vec<Value> = starts
        .iter()
        .enumerate()
        .map(|(number, start)| {
            let next = starts.get(number + 1).copied();
            let next = next.unwrap_or_else(|| range.rounding.next(*start));
            let count = counts.get(start).copied().unwrap_or(0);
            let (mut of_splits, mut rest) = (Map::new(), count);
            for (name, counts) in &splits {
                if let Some(count) = counts.get(start) {
                    of_splits.insert(name.clone(), (*count).into());
                    // An event of several values is in several splits.
                    rest = rest.saturating_sub(*count);
                }
            }
            json!({
                "from_ms": (*start).max(range.from_ms),
                "to_ms": next.min(range.to_ms.saturating_add(1)),
                "count": count,
                "splits": of_splits,
                "other": rest,
            })
        })
        .collect();
    let names: Vec<&String> = splits.iter().map(|(name, _)| name).collect();
    json!({
        "interval": range.name,
        "interval_ms": range.interval_ms,
        "calendar": range.is_calendar(),
        "zone": range.zone().name(),
        "split_by": split_by,
        "splits": names,
        "buckets": printed,
    })
}

fn name(bucket: &Value) -> String {
    let shown = bucket.get("key_as_string").unwrap_or(&bucket["key"]);
    shown.as_str().map_or_else(|| shown.to_string(), str::to_owned)
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

    fn hours(zone: &str) -> Buckets {
        Buckets::new(Some("1h"), 1200, HOUR / 2, 3 * HOUR, &range(zone)).unwrap()
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
        let result = result(&hours("UTC"), Some("f"), &response);
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
        let buckets = hours("Asia/Kolkata");
        let expect = json!({"date_histogram": {
            "field": "t", "fixed_interval": "1h", "time_zone": "Asia/Kolkata", "min_doc_count": 1,
        }});
        assert_eq!(over_time(&buckets, &range("Asia/Kolkata")), expect);
        assert_eq!(buckets.starts().next(), Some(HOUR / 2), "half an hour off");
    }
}
