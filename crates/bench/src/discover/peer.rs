//! Equivalent plain searches for the peer, and comparison of the results.

use serde_json::{Value, json};

use super::stages::{Question, SAMPLE_HITS, SPLIT_BY, Stage, TOP_FIELD, TOP_VALUES};

/// Both may estimate the number of distinct values, each with a different error.
const DISTINCT_TOLERANCE: f64 = 0.05;
/// Even a small number of distinct values may be wrong by one or two.
const DISTINCT_SLACK: f64 = 3.0;

/// Returns the search that is equivalent to a stage.
pub(super) fn body(question: &Question<'_>) -> Value {
    let mut body = json!({
        "track_total_hits": true,
        "query": {"bool": {"filter": [
            {"term": {"tenant": question.tenant}},
            {"range": {"@timestamp": {
                "gte": question.window.from_ms, "lte": question.window.to_ms, "format": "epoch_millis"}}},
        ]}},
    });
    let aggregations = match question.stage {
        Stage::Sample => {
            body["size"] = SAMPLE_HITS.into();
            body["sort"] = json!([{"@timestamp": "desc"}]);
            return body;
        }
        Stage::Histogram => {
            let interval = interval(question.window.to_ms - question.window.from_ms);
            json!({"time": {
                "date_histogram": {"field": "@timestamp", "fixed_interval": interval},
                "aggs": {"split": {"terms": {"field": SPLIT_BY, "size": 5}}},
            }})
        }
        Stage::Cardinality => question
            .fields
            .iter()
            .map(|field| (field.clone(), json!({"cardinality": {"field": field}})))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Stage::TopValues => json!({
            "top": {"terms": {"field": TOP_FIELD, "size": TOP_VALUES}},
            "missing": {"missing": {"field": TOP_FIELD}},
        }),
    };
    body["size"] = 0.into();
    body["aggs"] = aggregations;
    body
}

/// Returns an interval with about as many buckets as the console draws.
fn interval(span_ms: i64) -> &'static str {
    const HOUR_MS: i64 = 3_600_000;
    match span_ms / HOUR_MS {
        0..=30 => "15m",
        31..=200 => "2h",
        _ => "6h",
    }
}

/// Returns the difference between firn's result and the peer's response.
pub(super) fn difference(stage: Stage, ours: &Value, theirs: &Value) -> Option<String> {
    let total = &theirs["hits"]["total"]["value"];
    let differ = |what: &str, a: &Value, b: &Value| (a != b).then(|| format!("{what} {a} and {b}"));
    match stage {
        Stage::Sample => differ("totals", &ours["total"]["value"], total)
            .or_else(|| differ("instants", &instants(&ours["hits"]), &instants(&theirs["hits"]["hits"]))),
        Stage::Histogram => {
            let count: u64 = each(&ours["buckets"])
                .filter_map(|bucket| bucket["count"].as_u64())
                .sum();
            differ("events of all buckets", &count.into(), total)
        }
        Stage::Cardinality => each(&ours["fields"]).find_map(|field| {
            let name = field["name"].as_str().unwrap_or_default();
            let (a, b) = (&field["cardinality"], &theirs["aggregations"][name]["value"]);
            let (x, y) = (a.as_f64()?, b.as_f64()?);
            ((x - y).abs() > DISTINCT_SLACK + x.max(y) * DISTINCT_TOLERANCE)
                .then(|| format!("distinct values of {name}: {a} and {b}"))
        }),
        Stage::TopValues => differ("hits", &ours["total"], total)
            .or_else(|| {
                let missing = &theirs["aggregations"]["missing"]["doc_count"];
                differ("hits without a value", &ours["missing"], missing)
            })
            .or_else(|| counts_differ(&ours["values"], &theirs["aggregations"]["top"])),
    }
}

/// Compares counts of values. The peer omits counts that shards did not return, and reports this; then it may only
/// count less.
fn counts_differ(ours: &Value, theirs: &Value) -> Option<String> {
    let counts = |list: &Value, count: &str| -> Vec<u64> { each(list).filter_map(|one| one[count].as_u64()).collect() };
    if theirs["doc_count_error_upper_bound"] == 0 {
        let (a, b) = (counts(ours, "count"), counts(&theirs["buckets"], "doc_count"));
        return (a != b).then(|| format!("counts {a:?} and {b:?}"));
    }
    each(&theirs["buckets"]).find_map(|bucket| {
        let same = each(ours).find(|value| value["value"] == bucket["key"])?;
        (same["count"].as_u64() < bucket["doc_count"].as_u64())
            .then(|| format!("counts of a value {same} and {bucket}"))
    })
}

fn each(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn instants(hits: &Value) -> Value {
    each(hits).map(|hit| hit["sort"][0].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_found() {
        let theirs = json!({"hits": {"total": {"value": 5}, "hits": [{"sort": [7]}]},
            "aggregations": {"a": {"value": 1000}, "missing": {"doc_count": 1}, "top": {"doc_count_error_upper_bound": 0, "buckets": [{"doc_count": 4}]}}});
        let check = |stage, ours: Value, differs: bool| {
            assert_eq!(difference(stage, &ours, &theirs).is_some(), differs, "{ours}");
        };
        check(
            Stage::Sample,
            json!({"total": {"value": 5}, "hits": [{"sort": [7]}]}),
            false,
        );
        check(
            Stage::Sample,
            json!({"total": {"value": 4}, "hits": [{"sort": [7]}]}),
            true,
        );
        check(
            Stage::Sample,
            json!({"total": {"value": 5}, "hits": [{"sort": [8]}]}),
            true,
        );
        check(
            Stage::Histogram,
            json!({"buckets": [{"count": 2}, {"count": 3}]}),
            false,
        );
        check(Stage::Histogram, json!({"buckets": [{"count": 2}]}), true);
        check(
            Stage::Cardinality,
            json!({"fields": [{"name": "a", "cardinality": 1020}]}),
            false,
        );
        check(
            Stage::Cardinality,
            json!({"fields": [{"name": "a", "cardinality": 1100}]}),
            true,
        );
        check(
            Stage::TopValues,
            json!({"total": 5, "missing": 1, "values": [{"count": 4}]}),
            false,
        );
        check(
            Stage::TopValues,
            json!({"total": 5, "missing": 1, "values": [{"count": 3}]}),
            true,
        );
        check(
            Stage::TopValues,
            json!({"total": 5, "missing": 0, "values": [{"count": 4}]}),
            true,
        );
    }

    #[test]
    fn what_the_peer_estimates_is_at_most_as_much() {
        let theirs =
            |count: u64| json!({"doc_count_error_upper_bound": 9, "buckets": [{"key": "a", "doc_count": count}]});
        let ours = json!([{"value": "a", "count": 7}, {"value": "b", "count": 6}]);
        assert_eq!(counts_differ(&ours, &theirs(5)), None);
        assert!(counts_differ(&ours, &theirs(8)).is_some());
    }
}
