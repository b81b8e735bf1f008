//! Checks for the tests of aggregations.

use serde_json::Value;

use super::{Aggregations, MetricPartial, Partial, Partials};

pub(super) fn parsed(request: Value) -> Aggregations {
    Aggregations::parse(&request).unwrap_or_else(|error| panic!("{request}: {error}"))
}

/// Checks that a request parses, prints, and parses to the same.
pub(super) fn check_round_trip(request: Value) {
    let aggregations = parsed(request);
    let printed = aggregations.print();
    assert_eq!(parsed(printed.clone()), aggregations, "{printed}");
}

/// Checks that a request is refused with exactly this reason.
pub(super) fn check_refused(request: Value, reason: &str) {
    match Aggregations::parse(&request) {
        Ok(aggregations) => panic!("{request} was read as {aggregations:?}"),
        Err(error) => assert_eq!(error.reason(), reason, "{request}"),
    }
}

/// Checks the fields that a request reads.
pub(super) fn check_fields(request: Value, fields: &[&str]) {
    assert_eq!(parsed(request).fields(), fields);
}

/// Returns the partial result of a metric with these values.
pub(super) fn metric(values: &[f64]) -> Partial {
    let mut partial = MetricPartial::default();
    values.iter().for_each(|value| partial.add(*value));
    Partial::Metric(partial)
}

/// Returns the partial result of a digest with these values.
pub(super) fn digest(values: &[f64]) -> Partial {
    let mut digest = super::DigestMethod::default().digest();
    values.iter().for_each(|value| {
        digest.add(*value);
    });
    Partial::Digest(super::DigestPartial::new(digest))
}

/// Checks the answer of a definition for a partial result.
pub(super) fn check_partial(definition: Value, partial: Partial, expected: Value) {
    let aggregations = parsed(serde_json::json!({ "x": definition.clone() }));
    let partials = Partials([("x".to_owned(), partial)].into_iter().collect());
    assert_eq!(
        aggregations.finish(partials, 10).unwrap()["x"],
        expected,
        "{definition}"
    );
}

/// Checks the answer of a metric for these values.
pub(super) fn check_metric(kind: &str, values: &[f64], expected: Value) {
    let aggregations = parsed(serde_json::json!({"x": {kind: {"field": "n"}}}));
    let partials = Partials([("x".to_owned(), metric(values))].into_iter().collect());
    assert_eq!(aggregations.finish(partials, 10).unwrap()["x"], expected, "{kind}");
    let nothing = aggregations.finish(Partials::default(), 10).unwrap();
    let empty = aggregations.finish(aggregations.empty(), 10).unwrap();
    assert_eq!(nothing, empty);
}
