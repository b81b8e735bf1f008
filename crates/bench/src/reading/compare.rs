//! Comparison of the responses of two servers.

use serde_json::Value;

use super::questions::{Answers, Question};

/// Both estimate the number of distinct values, each with a different error.
const DISTINCT_TOLERANCE: f64 = 0.03;
/// Scores are floats that each server sums in a different order.
const SCORE_TOLERANCE: f64 = 0.001;

/// Returns the difference between two responses.
pub(super) fn difference(question: &Question, a: &Value, b: &Value) -> Option<String> {
    let both = |what: &str, a: &Value, b: &Value| (a != b).then(|| format!("{what} {a} and {b}"));
    for answer in [a, b] {
        if answer["timed_out"] == true || answer.pointer("/_shards/failed") != Some(&Value::from(0)) {
            return Some("a response is incomplete".to_owned());
        }
    }
    let total = |answer: &Value| answer.pointer("/hits/total").cloned().unwrap_or_default();
    if let Some(difference) = both("total", &total(a), &total(b)) {
        return Some(difference);
    }
    match question.answers {
        Answers::Count => None,
        Answers::Documents => both("documents", &documents(a), &documents(b)),
        Answers::Sorted => both("sort values", &each_hit(a, "sort"), &each_hit(b, "sort")),
        Answers::Scored => scores(a, b),
        Answers::Buckets => aggregations("aggregations", &a["aggregations"], &b["aggregations"]),
    }
}

fn hits(answer: &Value) -> &[Value] {
    answer
        .pointer("/hits/hits")
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn each_hit(answer: &Value, key: &str) -> Value {
    hits(answer).iter().map(|hit| hit[key].clone()).collect()
}

fn documents(answer: &Value) -> Value {
    let mut sources: Vec<String> = hits(answer).iter().map(|hit| hit["_source"].to_string()).collect();
    sources.sort_unstable();
    sources.into()
}

/// Compares scores relative to the best one of each: OpenSearch 3 omits the factor k1 + 1 of BM25, by which
/// Elasticsearch 8 multiplies all of them.
fn scores(a: &Value, b: &Value) -> Option<String> {
    let (a, b) = (each_hit(a, "_score"), each_hit(b, "_score"));
    let parts = |scores: &Value| -> Vec<f64> {
        let scores: Vec<f64> = scores
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_f64)
            .collect();
        scores.iter().map(|score| score / scores[0]).collect()
    };
    let (own, theirs) = (parts(&a), parts(&b));
    let near = own.len() == theirs.len() && own.iter().zip(&theirs).all(|(a, b)| (a - b).abs() <= SCORE_TOLERANCE);
    (!near).then(|| format!("scores {a} and {b}"))
}

fn near(a: &Value, b: &Value, tolerance: f64) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= tolerance * a.abs().max(b.abs()),
        _ => a == b,
    }
}

/// Compares everything but the bounds of what a shard may have missed, which depend on how it counts.
fn aggregations(path: &str, a: &Value, b: &Value) -> Option<String> {
    match (a, b) {
        (Value::Object(own), Value::Object(theirs)) => {
            for (key, value) in own {
                if key == "doc_count_error_upper_bound" {
                    continue;
                }
                let Some(other) = theirs.get(key) else {
                    return Some(format!("{path} has {key} only once"));
                };
                if path.ends_with(".distinct") && near(value, other, DISTINCT_TOLERANCE) {
                    continue;
                }
                if let Some(difference) = aggregations(&format!("{path}.{key}"), value, other) {
                    return Some(difference);
                }
            }
            (own.len() != theirs.len()).then(|| format!("{path} {a} and {b}"))
        }
        (Value::Array(own), Value::Array(theirs)) => {
            let (own, theirs) = (between_empty(own), between_empty(theirs));
            if own.len() != theirs.len() {
                return Some(format!("{path} {a} and {b}"));
            }
            let mut pairs = own.iter().zip(theirs).enumerate();
            pairs.find_map(|(number, (a, b))| aggregations(&format!("{path}[{number}]"), a, b))
        }
        _ => (a != b).then(|| format!("{path} {a} and {b}")),
    }
}

/// Returns the buckets without the empty ones at both ends: OpenSearch lists those that overlap the window of the
/// query, Elasticsearch only those between documents.
fn between_empty(buckets: &[Value]) -> &[Value] {
    let is_full = |bucket: &Value| bucket["doc_count"] != 0;
    let first = buckets.iter().position(is_full).unwrap_or(buckets.len());
    let end = buckets.iter().rposition(is_full).map_or(first, |last| last + 1);
    &buckets[first..end]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn buckets_are_compared() {
        let check = |a: Value, b: Value, same: bool| {
            let difference = aggregations("aggregations", &a, &b);
            assert_eq!(difference.is_none(), same, "{difference:?}");
        };
        let top = |count: u64, error: u64| json!({"top": {"doc_count_error_upper_bound": error, "buckets": [{"key": "a", "doc_count": count}]}});
        check(top(1, 0), top(1, 7), true);
        check(top(1, 0), top(2, 0), false);
        let distinct = |value: u64| json!({"distinct": {"value": value}});
        check(distinct(1000), distinct(1010), true);
        check(distinct(1000), distinct(1100), false);
        check(distinct(1000), top(1, 0), false);
        check(json!({"x": [1]}), json!({"x": [1, 2]}), false);
    }

    #[test]
    fn scores_may_differ_by_a_factor() {
        let answer = |scores: &[f64]| {
            let hits: Vec<Value> = scores.iter().map(|score| json!({"_score": score})).collect();
            json!({"hits": {"hits": hits}})
        };
        assert_eq!(scores(&answer(&[2.2, 1.1]), &answer(&[1.0, 0.5])), None);
        assert!(scores(&answer(&[2.0, 1.0]), &answer(&[2.0, 1.9])).is_some());
        assert!(scores(&answer(&[1.0]), &json!({})).is_some());
    }

    #[test]
    fn empty_buckets_at_the_ends_do_not_count() {
        let days = |counts: &[u64]| -> Value { counts.iter().map(|count| json!({"doc_count": count})).collect() };
        assert_eq!(aggregations("x", &days(&[1, 0, 2]), &days(&[0, 0, 1, 0, 2, 0])), None);
        assert!(aggregations("x", &days(&[1, 0, 2]), &days(&[1, 2])).is_some());
        assert_eq!(aggregations("x", &days(&[]), &days(&[0])), None);
    }
}
