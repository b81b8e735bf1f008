//! Tests of the parser of pipelines: what it takes, and the errors of what it refuses.

use serde_json::{Value, json};

use super::super::*;
use super::object;

fn parses(body: Value) -> Pipeline {
    Pipeline::parse("p", &object(body)).unwrap()
}

#[track_caller]
fn refuses(body: Value, reason: &str, details: Value) {
    let error = Pipeline::parse("p", &object(body)).unwrap_err();
    assert_eq!(error.reason(), reason);
    assert_eq!(error.details().cloned().map_or(Value::Null, Value::Object), details);
}

#[test]
fn parts_of_a_pipeline() {
    let pipeline = parses(json!({
        "description": "d", "version": 7, "_meta": {"by": "me"}, "deprecated": true, "field_access_pattern": "classic",
        "processors": [{"set": {"field": "a", "value": 1, "tag": "t"}}, {"drop": {"if": "ctx.a == 2"}}],
        "on_failure": [{"set": {"field": "error", "value": "{{_ingest.on_failure_message}}"}}]
    }));
    assert_eq!(
        (pipeline.id(), pipeline.description(), pipeline.version()),
        ("p", Some("d"), Some(7))
    );
    assert_eq!(
        (pipeline.meta(), pipeline.is_deprecated()),
        (Some(&json!({"by": "me"})), true)
    );
    let keys: Vec<String> = pipeline
        .counts()
        .processors
        .into_iter()
        .map(|(key, _, _)| key)
        .collect();
    assert_eq!(keys, ["set:t", "drop"]);
    parses(json!({"processors": []}));
    let wrapped = parses(json!({"processors": [
        {"set": {"field": "a", "value": 1, "tag": "a", "ignore_failure": true}},
        {"set": {"field": "a", "value": 1, "tag": "b", "if": "true"}},
        {"set": {"field": "a", "value": 1, "tag": "c", "if": "true", "ignore_failure": true}},
        {"set": {"field": "a", "value": 1, "if": "true", "on_failure": [{"drop": {"tag": "d"}}]}},
        {"pipeline": {"name": "x", "tag": "e"}}
    ]}));
    let keys: Vec<String> = wrapped
        .counts()
        .processors
        .into_iter()
        .map(|(key, kind, _)| format!("{key} {kind}"))
        .collect();
    let expected = [
        "set:a set",
        "set:b conditional",
        "compound:CompoundProcessor-c conditional",
        "compound:CompoundProcessor-null-d conditional",
        "pipeline:x:e pipeline",
    ];
    assert_eq!(keys, expected);
    parses(json!({"processors": [{"set": {"field": "a", "value": 1}, "drop": {}}]}));
}

#[test]
fn errors_of_pipelines() {
    let property = |name: &str| json!({"property_name": name});
    refuses(
        json!({}),
        "[processors] required property is missing",
        property("processors"),
    );
    let reason = "[processors] property isn't a list, but of type [java.util.HashMap]";
    refuses(json!({"processors": {}}), reason, property("processors"));
    let reason = "[description] property isn't a string, but of type [java.lang.Integer]";
    refuses(
        json!({"processors": [], "description": 1}),
        reason,
        property("description"),
    );
    let reason = "pipeline [p] doesn't support one or more provided configuration parameters [foo]";
    refuses(json!({"processors": [], "foo": 1}), reason, json!({}));
    let reason = "pipeline [p] cannot have an empty on_failure option defined";
    refuses(json!({"processors": [], "on_failure": []}), reason, json!({}));
    let error = Pipeline::parse(
        "p",
        &object(json!({"processors": [], "field_access_pattern": "flexible"})),
    );
    assert_eq!(
        error.unwrap_err().reason(),
        "[field_access_pattern] of [\"flexible\"] is not implemented by firn"
    );
}

#[test]
fn errors_of_processors() {
    let one = |processor: Value| json!({"processors": [processor]});
    refuses(
        one(json!({"nothing": {}})),
        "No processor type exists with name [nothing]",
        json!({"processor_type": "nothing"}),
    );
    refuses(
        one(json!({"set": {"value": 1, "tag": "t"}})),
        "[field] required property is missing",
        json!({"processor_type": "set", "processor_tag": "t", "property_name": "field"}),
    );
    refuses(
        one(json!({"set": {"field": "a", "value": 1, "foo": 1}})),
        "processor [set] doesn't support one or more provided configuration parameters [foo]",
        json!({"processor_type": "set"}),
    );
    refuses(
        one(json!({"set": {"field": "a", "value": 1, "on_failure": []}})),
        "[on_failure] processors list cannot be empty",
        json!({"processor_type": "set", "property_name": "on_failure"}),
    );
    refuses(
        one(json!({"set": "x"})),
        "property isn't a map, but of type [java.lang.String]",
        json!({"processor_type": "set"}),
    );
    refuses(
        one(json!({"set": {"field": "a", "value": 1, "ignore_failure": "yes"}})),
        "[ignore_failure] property isn't a boolean, but of type [java.lang.String]",
        json!({"property_name": "ignore_failure"}),
    );
    for name in REFUSED {
        let error = Pipeline::parse("p", &object(one(json!({*name: {}})))).unwrap_err();
        assert_eq!(error.reason(), format!("processor [{name}] is not implemented by firn"));
    }
    let error = Pipeline::parse("p", &object(one(json!({"drop": {"if": "ctx.a ="}})))).unwrap_err();
    assert_eq!(error.reason(), "compile error");
}
