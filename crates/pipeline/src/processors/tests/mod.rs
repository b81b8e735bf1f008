//! Helpers of the tests of all processors, and tests of whole pipelines.

mod parsing;
mod random;
mod runs;
mod verbose;

use serde_json::{Map, Value, json};

use super::*;

/// Instant of all tests: 2026-11-28T02:30:00.000Z.
pub(crate) const NOW_MS: i64 = 1_795_833_000_000;

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}

pub(crate) fn document(source: Value) -> Document {
    Document::new("index", Some("1"), object(source))
}

/// Parses a pipeline of one processor, written `{"set": {…}}`.
pub(crate) fn parse(processor: &Value) -> firn_model::Result<Pipeline> {
    Pipeline::parse("test", &object(json!({"processors": [processor]})))
}

/// Runs a pipeline of one processor.
pub(crate) fn run(processor: &Value, source: Value, context: &Context<'_>) -> (Document, Result<Outcome, Failure>) {
    let pipeline = parse(processor).unwrap_or_else(|error| panic!("{processor}: {error}"));
    let mut document = document(source);
    let result = pipeline.run(&mut document, context);
    (document, result)
}

/// Runs a pipeline of one processor and compares the source afterwards.
#[track_caller]
pub(crate) fn check(processor: Value, source: Value, expected: Value) {
    let (document, result) = run(&processor, source, &Context::new(NOW_MS));
    if let Err(failure) = result {
        panic!("{processor}: {failure}");
    }
    assert_eq!(Value::Object(document.source), expected, "{processor}");
}

/// Runs a pipeline of one processor and compares the text of the failure.
#[track_caller]
pub(crate) fn fails(processor: Value, source: Value, reason: &str) {
    let (document, result) = run(&processor, source, &Context::new(NOW_MS));
    match result {
        Ok(_) => panic!("{processor} does not fail: {:?}", document.source),
        Err(failure) => assert_eq!(failure.reason, reason, "{processor}"),
    }
}

/// Checks the text of the error of a processor that cannot be parsed.
#[track_caller]
pub(crate) fn refused(processor: Value, reason: &str) {
    match parse(&processor) {
        Ok(_) => panic!("{processor} is not refused"),
        Err(error) => assert_eq!(error.reason(), reason, "{processor}"),
    }
}
