//! Small finished trees and checks for the tests of pipelines.

use serde_json::{Value, json};

use crate::aggs::finished::{Finished, FinishedBucket, Level};
use crate::aggs::test_support::{metric, parsed};
use crate::aggs::{
    Aggregations, Bucket, DateHistogramPartial, FinishOptions, Key, Partial, Partials, TermsPartial, ValueFormat,
};

const DAY: i64 = 86_400_000;

fn partials(entries: Vec<(&str, Partial)>) -> Partials {
    Partials(
        entries
            .into_iter()
            .map(|(name, partial)| (name.to_owned(), partial))
            .collect(),
    )
}

/// Returns a level with one date histogram of one bucket.
pub(super) fn level() -> (Aggregations, Level) {
    let aggregations = parsed(json!({"days": {
        "date_histogram": {"field": "t", "fixed_interval": "1d", "format": "epoch_millis"},
        "aggs": {
            "total": {"sum": {"field": "n"}},
            "all": {"stats": {"field": "n"}},
            "terms": {"terms": {"field": "a"}, "aggs": {"dotted.name": {"sum": {"field": "n"}}}},
            "large": {"filter": {"match_all": {}}, "aggs": {"inner": {"max": {"field": "n"}}}}
        }
    }}));
    let term = |doc_count, value| Bucket {
        doc_count,
        sub: partials(vec![("dotted.name", metric(&[value]))]),
    };
    let terms = TermsPartial {
        buckets: [
            (Key::Str("a".into()).into(), term(2, 4.0)),
            (Key::Str("b".into()).into(), term(1, 2.0)),
        ]
        .into(),
        ..TermsPartial::default()
    };
    let bucket = Bucket {
        doc_count: 3,
        sub: partials(vec![
            ("total", metric(&[1.0, 2.0, 3.0])),
            ("all", metric(&[1.0, 2.0, 3.0])),
            ("terms", Partial::Terms(terms)),
            (
                "large",
                Partial::Single(Bucket {
                    doc_count: 1,
                    sub: partials(vec![("inner", metric(&[5.0]))]),
                }),
            ),
        ]),
    };
    let days = DateHistogramPartial {
        buckets: [(DAY, bucket)].into(),
        format: ValueFormat::Raw,
    };
    let partials = partials(vec![("days", Partial::DateHistogram(days))]);
    let level = aggregations.finished(partials, &FinishOptions::new(100)).unwrap();
    (aggregations, level)
}

/// Returns the aggregations below the histogram of [`level`], and its buckets.
pub(super) fn day_buckets() -> (Aggregations, Vec<FinishedBucket>) {
    let (aggregations, mut level) = level();
    let Some(Finished::Buckets(buckets)) = level.0.pop() else {
        panic!("the level has no histogram");
    };
    (aggregations.0["days"].sub.clone(), buckets.buckets)
}

/// Returns the answer of a request about days: one bucket per day, with the values of `n` in it. The histogram is
/// called `days`; `pipelines` are in it next to `total`, the sum of `n`, and `beside` is next to the histogram.
pub(super) fn days_answer(days: &[&[f64]], pipelines: &Value, beside: &Value) -> firn_model::Result<Value> {
    let mut sub = json!({"total": {"sum": {"field": "n"}}, "most": {"max": {"field": "n"}}});
    sub.as_object_mut()
        .unwrap()
        .extend(pipelines.as_object().unwrap().clone());
    let mut request = json!({"days": {
        "date_histogram": {"field": "t", "fixed_interval": "1d", "format": "yyyy-MM-dd"},
        "aggs": sub
    }});
    request
        .as_object_mut()
        .unwrap()
        .extend(beside.as_object().unwrap().clone());
    let aggregations = Aggregations::parse(&request)?;
    assert_eq!(parsed(aggregations.print()), aggregations);
    let buckets = days.iter().enumerate().map(|(day, values)| {
        let sub = partials(vec![("total", metric(values)), ("most", metric(values))]);
        let doc_count = values.len() as u64;
        (day as i64 * DAY, Bucket { doc_count, sub })
    });
    let histogram = DateHistogramPartial {
        buckets: buckets.collect(),
        format: ValueFormat::Raw,
    };
    aggregations.finish(partials(vec![("days", Partial::DateHistogram(histogram))]), 100)
}

/// Returns the answers of the pipeline `p` by bucket; null where it has none.
pub(super) fn along(days: &[&[f64]], pipeline: Value) -> Vec<Value> {
    let answer = days_answer(days, &json!({"p": pipeline}), &json!({})).unwrap();
    let buckets = answer["days"]["buckets"].as_array().unwrap();
    buckets.iter().map(|bucket| bucket["p"].clone()).collect()
}

/// Returns only the values of [`along`]; a bucket without an answer is null too.
pub(super) fn values_along(days: &[&[f64]], pipeline: Value) -> Vec<Value> {
    along(days, pipeline)
        .iter()
        .map(|answer| answer["value"].clone())
        .collect()
}

/// Returns the answer of the pipeline `p` next to the histogram.
pub(super) fn beside(days: &[&[f64]], pipeline: Value) -> Value {
    days_answer(days, &json!({}), &json!({"p": pipeline})).unwrap()["p"].clone()
}

/// Returns the remaining days, by the last digits of their date.
pub(super) fn days_left(days: &[&[f64]], pipeline: Value) -> Vec<u32> {
    let answer = days_answer(days, &json!({"p": pipeline}), &json!({})).unwrap();
    let buckets = answer["days"]["buckets"].as_array().unwrap();
    let day = |bucket: &Value| bucket["key_as_string"].as_str().unwrap()[8..].parse().unwrap();
    buckets.iter().map(day).collect()
}

/// Checks that a pipeline inside the histogram is refused with this reason.
pub(super) fn check_refused(pipeline: Value, reason: &str) {
    let error = days_answer(&[], &json!({"p": pipeline}), &json!({})).expect_err("accepted");
    assert_eq!(error.reason(), reason, "{pipeline}");
}

/// Checks that a pipeline next to the histogram is refused with this reason.
pub(super) fn check_refused_beside(pipeline: Value, reason: &str) {
    let error = days_answer(&[], &json!({}), &json!({"p": pipeline})).expect_err("accepted");
    assert_eq!(error.reason(), reason, "{pipeline}");
}
