//! Whether two servers answered alike.

use serde_json::Value;

use super::questions::{Answers, Question};

/// Both estimate the number of distinct values, each with an error of its own.
const DISTINCT_TOLERANCE: f64 = 0.03;
/// Scores come near, as lengths of texts are kept roughly.
const SCORE_TOLERANCE: f64 = 0.15;

/// In what they differ.
pub(super) fn difference(question: &Question, a: &Value, b: &Value) -> Option<String> {
    let both = |what: &str, a: &Value, b: &Value| (a != b).then(|| format!("{what} {a} and {b}"));
    for answer in [a, b] {
        if answer["timed_out"] == true || answer.pointer("/_shards/failed") != Some(&Value::from(0)) {
            return Some("an answer is not complete".to_owned());
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

fn scores(a: &Value, b: &Value) -> Option<String> {
    let (a, b) = (each_hit(a, "_score"), each_hit(b, "_score"));
    let near = match (a.as_array(), b.as_array()) {
        (Some(a), Some(b)) if a.len() == b.len() => a.iter().zip(b).all(|(a, b)| near(a, b, SCORE_TOLERANCE)),
        _ => false,
    };
    (!near).then(|| format!("scores {a} and {b}"))
}

fn near(a: &Value, b: &Value, tolerance: f64) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => (a - b).abs() <= tolerance * a.abs().max(b.abs()),
        _ => a == b,
    }
}

/// Everything but the bounds of what a shard may have missed, which depend on how it counts.
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
        (Value::Array(own), Value::Array(theirs)) if own.len() == theirs.len() => own
            .iter()
            .zip(theirs)
            .enumerate()
            .find_map(|(number, (a, b))| aggregations(&format!("{path}[{number}]"), a, b)),
        _ => (a != b).then(|| format!("{path} {a} and {b}")),
    }
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
    fn scores_may_differ_a_little() {
        let answer = |score: f64| json!({"hits": {"hits": [{"_score": score}]}});
        assert_eq!(scores(&answer(1.0), &answer(1.05)), None);
        assert!(scores(&answer(1.0), &answer(2.0)).is_some());
        assert!(scores(&answer(1.0), &json!({})).is_some());
    }
}
