//! Tests of `_simulate` with and without `verbose`, in Elasticsearch's JSON.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::*;
use super::{NOW_MS, document, object};

struct Inner;

impl Pipelines for Inner {
    fn pipeline(&self, id: &str) -> Option<Arc<Pipeline>> {
        let processors = match id {
            "inner" => json!([{"set": {"field": "i", "value": 1}}]),
            "broken" => json!([{"fail": {"message": "inside"}}]),
            "one" => json!([{"pipeline": {"name": "two"}}]),
            "two" => json!([{"pipeline": {"name": "one"}}]),
            "main" => json!([{"pipeline": {"name": "main"}}]),
            _ => return None,
        };
        Pipeline::parse(id, &object(json!({"processors": processors})))
            .ok()
            .map(Arc::new)
    }
}

fn verbose(processors: Value, source: Value) -> Value {
    let pipeline = Pipeline::parse("main", &object(json!({"processors": processors}))).unwrap();
    let mut context = Context::new(NOW_MS);
    context.pipelines = &Inner;
    let (results, _) = pipeline.run_verbose(&mut document(source), &context);
    print_verbose(&results)
}

fn doc(source: Value) -> Value {
    let ingest = json!({"timestamp": "2026-11-28T02:30:00.000Z", "pipeline": "main"});
    json!({"_index": "index", "_id": "1", "_version": "-3", "_source": source, "_ingest": ingest})
}

fn error(kind: &str, reason: &str) -> Value {
    json!({"root_cause": [{"type": kind, "reason": reason}], "type": kind, "reason": reason})
}

#[test]
fn plain_results() {
    let pipeline = Pipeline::parse(
        "main",
        &object(json!({"processors": [{"set": {"field": "a", "value": 1}}]})),
    )
    .unwrap();
    let mut document = document(json!({}));
    let result = pipeline.run(&mut document, &Context::new(NOW_MS));
    let mut expected = doc(json!({"a": 1}));
    expected["_ingest"] = json!({"timestamp": "2026-11-28T02:30:00.000Z"});
    assert_eq!(print_result(&document, &result), json!({"doc": expected}));
    let failed = Err(Failure::new(FailureKind::IllegalArgument, "no"));
    assert_eq!(
        print_result(&document, &failed),
        json!({"error": error("illegal_argument_exception", "no")})
    );
    assert_eq!(print_result(&document, &Ok(Outcome::Dropped)), Value::Null);
}

#[test]
fn every_status() {
    let processors = json!([
        {"set": {"field": "a", "value": 1, "tag": "t", "description": "d", "if": "true"}},
        {"set": {"field": "b", "value": 1, "if": "ctx.a == 2"}},
        {"rename": {"field": "x", "target_field": "y", "ignore_failure": true}},
        {"drop": {}},
        {"set": {"field": "never", "value": 1}}
    ]);
    let ignored = error("illegal_argument_exception", "field [x] doesn't exist");
    let expected = json!({"processor_results": [
        {"processor_type": "set", "status": "success", "description": "d", "tag": "t",
         "if": {"condition": "true", "result": true}, "doc": doc(json!({"a": 1}))},
        {"processor_type": "set", "status": "skipped", "if": {"condition": "ctx.a == 2", "result": false}},
        {"processor_type": "rename", "status": "error_ignored", "ignored_error": {"error": ignored}, "doc": doc(json!({"a": 1}))},
        {"processor_type": "drop", "status": "dropped"}
    ]});
    assert_eq!(verbose(processors, json!({})), expected);
}

#[test]
fn failures_and_their_handlers() {
    let processors = json!([
        {"fail": {"message": "1", "on_failure": [{"set": {"field": "e", "value": "{{_ingest.on_failure_message}}"}}]}},
        {"fail": {"message": "2"}}
    ]);
    let results = verbose(processors, json!({}));
    let mut handled = doc(json!({"e": "1"}));
    for (name, value) in [
        ("message", json!("1")),
        ("processor_type", json!("fail")),
        ("processor_tag", Value::Null),
    ] {
        handled["_ingest"][format!("on_failure_{name}")] = value;
    }
    let expected = json!({"processor_results": [
        {"processor_type": "fail", "status": "error", "error": error("fail_processor_exception", "1")},
        {"processor_type": "set", "status": "success", "doc": handled},
        {"processor_type": "fail", "status": "error", "error": error("fail_processor_exception", "2")}
    ]});
    assert_eq!(results, expected);
}

#[test]
fn other_pipelines() {
    let types = |processors: Value| {
        let results = verbose(processors, json!({}));
        let results = results["processor_results"].as_array().cloned().unwrap_or_default();
        let parts = results
            .iter()
            .map(|result| format!("{} {}", result["processor_type"], result["status"]));
        parts.collect::<Vec<_>>().join(", ").replace('"', "")
    };
    assert_eq!(
        types(json!([{"pipeline": {"name": "inner"}}])),
        "pipeline success, set success"
    );
    assert_eq!(
        types(json!([{"pipeline": {"name": "broken"}}])),
        "pipeline success, fail error"
    );
    assert_eq!(types(json!([{"pipeline": {"name": "none"}}])), "pipeline error");
    assert_eq!(types(json!([{"pipeline": {"name": "main"}}])), "pipeline error");
    assert_eq!(types(json!([{"pipeline": {"name": "one"}}])), "pipeline error");
    assert_eq!(
        types(json!([{"pipeline": {"name": "inner", "if": "false"}}])),
        "pipeline skipped"
    );
    // The steps inside `foreach` are one step.
    let each = json!([{"foreach": {"field": "l", "ignore_missing": true, "processor": {"drop": {}}}}]);
    assert_eq!(types(each), "foreach success");
}

#[test]
fn a_failed_script_has_its_cause() {
    let results = verbose(json!([{"script": "ctx.a.b = 1"}]), json!({}));
    let cause =
        json!({"type": "null_pointer_exception", "reason": "cannot access method/field [b] from a null def reference"});
    assert_eq!(results["processor_results"][0]["error"]["caused_by"], cause);
}
