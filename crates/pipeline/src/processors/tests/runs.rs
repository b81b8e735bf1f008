//! Tests of runs: failures and their handlers, other pipelines, metadata, statistics, budgets.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::super::*;
use super::{NOW_MS, document, object};

struct Known(HashMap<String, Arc<Pipeline>>);

impl Pipelines for Known {
    fn pipeline(&self, id: &str) -> Option<Arc<Pipeline>> {
        self.0.get(id).cloned()
    }
}

fn known(pipelines: Value) -> Known {
    let parse = |(id, body): (String, Value)| {
        let pipeline = Pipeline::parse(&id, &object(body)).unwrap_or_else(|error| panic!("{id}: {error}"));
        (id, Arc::new(pipeline))
    };
    Known(object(pipelines).into_iter().map(parse).collect())
}

/// Runs the pipeline `main`.
fn run(pipelines: Value, source: Value) -> (Document, Result<Outcome, Failure>) {
    let known = known(pipelines);
    let mut context = Context::new(NOW_MS);
    context.pipelines = &known;
    let mut document = document(source);
    let result = known.0["main"].run(&mut document, &context);
    (document, result)
}

#[track_caller]
fn check(pipelines: Value, source: Value, expected: Value) {
    let (document, result) = run(pipelines, source);
    assert_eq!(result, Ok(Outcome::Indexed));
    assert_eq!(Value::Object(document.source), expected);
}

fn set(field: &str, value: Value) -> Value {
    json!({"set": {"field": field, "value": value}})
}

fn fail() -> Value {
    json!({"fail": {"message": "no", "tag": "t"}})
}

#[test]
fn a_failure_ends_the_pipeline() {
    let (document, result) = run(
        json!({"main": {"processors": [set("a", json!(1)), fail(), set("b", json!(2))]}}),
        json!({}),
    );
    let failure = result.unwrap_err();
    assert_eq!((failure.reason.as_str(), failure.processor_type), ("no", Some("fail")));
    assert_eq!((failure.processor_tag.as_deref(), failure.pipeline), (Some("t"), None));
    assert_eq!(Value::Object(document.source), json!({"a": 1}));
}

#[test]
fn ignored_failures() {
    let ignored = json!({"fail": {"message": "no", "ignore_failure": true}});
    check(
        json!({"main": {"processors": [ignored, set("b", json!(2))]}}),
        json!({}),
        json!({"b": 2}),
    );
}

#[test]
fn handlers_of_a_processor() {
    let text =
        "{{_ingest.on_failure_message}}|{{_ingest.on_failure_processor_type}}|{{_ingest.on_failure_processor_tag}}";
    let handled = json!({"fail": {"message": "no", "tag": "t", "on_failure": [set("e", json!(text))]}});
    let main = json!({"main": {"processors": [handled, set("after", json!("{{_ingest.on_failure_message}}."))]}});
    check(main, json!({}), json!({"e": "no|fail|t", "after": "."}));
    let nested = json!({"fail": {"message": "1", "on_failure": [{"fail": {"message": "2", "on_failure": [set("e", json!("{{_ingest.on_failure_message}}"))]}}]}});
    check(json!({"main": {"processors": [nested]}}), json!({}), json!({"e": "2"}));
    let again = json!({"fail": {"message": "1", "on_failure": [{"fail": {"message": "2 after {{_ingest.on_failure_message}}"}}]}});
    let (document, result) = run(json!({"main": {"processors": [again]}}), json!({}));
    assert_eq!(result.unwrap_err().reason, "2 after 1");
    assert_eq!(document.ingest().get("on_failure_message"), None);
}

#[test]
fn handlers_of_a_pipeline() {
    let main = json!({"main": {
        "processors": [set("a", json!(1)), fail(), set("b", json!(2))],
        "on_failure": [set("e", json!("{{_ingest.on_failure_message}}"))]
    }});
    check(main, json!({}), json!({"a": 1, "e": "no"}));
    // A false condition that cannot be evaluated is a failure too.
    let main = json!({"main": {
        "processors": [{"set": {"field": "a", "value": 1, "if": "ctx.x.y == 1", "ignore_failure": true}}],
        "on_failure": [set("e", json!("{{_ingest.on_failure_message}}|{{_ingest.on_failure_processor_type}}"))]
    }});
    let reason = "cannot access method/field [y] from a null def reference|set";
    check(main, json!({}), json!({"e": reason}));
}

#[test]
fn other_pipelines() {
    let call = |name: &str| json!({"pipeline": {"name": name}});
    let pipelines = json!({
        "main": {"processors": [call("inner"), set("after", json!("{{_ingest.pipeline}}"))]},
        "inner": {"processors": [set("in", json!("{{_ingest.pipeline}}"))]}
    });
    check(pipelines, json!({}), json!({"in": "inner", "after": "main"}));
    let terminate = json!({
        "main": {"processors": [call("inner"), set("after", json!(1))]},
        "inner": {"processors": [{"terminate": {}}, set("never", json!(1))]}
    });
    check(terminate, json!({}), json!({"after": 1}));
    let drop = json!({
        "main": {"processors": [call("inner"), set("after", json!(1))]},
        "inner": {"processors": [{"drop": {}}]}
    });
    assert_eq!(run(drop, json!({})).1, Ok(Outcome::Dropped));
    let reroute = json!({
        "main": {"processors": [call("inner"), set("after", json!(1))]},
        "inner": {"processors": [{"reroute": {"destination": "other"}}, set("never", json!(1))]}
    });
    let (document, result) = run(reroute, json!({}));
    assert_eq!((result, document.index()), (Ok(Outcome::Rerouted), "other"));
    assert_eq!(Value::Object(document.source), json!({}));
}

#[test]
fn failures_of_other_pipelines() {
    let pipelines = json!({
        "main": {
            "processors": [{"pipeline": {"name": "inner"}}],
            "on_failure": [set("e", json!("{{_ingest.on_failure_pipeline}}|{{_ingest.on_failure_processor_tag}}"))]
        },
        "inner": {"processors": [fail()]}
    });
    check(pipelines, json!({}), json!({"e": "inner|t"}));
}

#[test]
fn cycles_are_failures() {
    let call = |name: &str| json!({"processors": [{"pipeline": {"name": name}}]});
    let (_, result) = run(json!({"main": call("b"), "b": call("c"), "c": call("main")}), json!({}));
    let failure = result.unwrap_err();
    assert_eq!(
        (failure.reason.as_str(), failure.kind),
        ("Cycle detected for pipeline: main", FailureKind::Cycle)
    );
    // One pipeline twice after another is no cycle.
    let twice = json!({"processors": [{"pipeline": {"name": "b"}}, {"pipeline": {"name": "b"}}]});
    let append = json!({"processors": [{"append": {"field": "a", "value": 1}}]});
    check(json!({"main": twice, "b": append}), json!({}), json!({"a": [1, 1]}));
}

#[test]
fn too_many_pipelines_are_a_failure() {
    let mut pipelines = json!({"main": {"processors": [{"pipeline": {"name": "p0"}}]}});
    for number in 0..150 {
        pipelines[format!("p{number}")] = json!({"processors": [{"pipeline": {"name": format!("p{}", number + 1)}}]});
    }
    pipelines["p150"] = json!({"processors": []});
    let reason = "Too many nested pipelines. Cannot have more than 100 nested pipelines";
    assert_eq!(run(pipelines, json!({})).1.unwrap_err().reason, reason);
}

#[test]
fn metadata() {
    let processors = json!([
        set("_index", json!("{{_index}}-new")),
        set("_id", json!("7")),
        set("_routing", json!("r")),
        set("_version", json!(3)),
        set("_version_type", json!("external")),
        set("_dynamic_templates.a", json!("t")),
        set("time", json!("{{_ingest.timestamp}}")),
    ]);
    let (document, result) = run(json!({"main": {"processors": processors}}), json!({}));
    assert_eq!(result, Ok(Outcome::Indexed));
    assert_eq!(
        (document.index(), document.id(), document.routing()),
        ("index-new", Some("7"), Some("r"))
    );
    assert_eq!(
        (document.version(), document.version_type()),
        (Some(3), Some("external"))
    );
    assert_eq!(
        document.dynamic_templates().map(|map| map["a"].clone()),
        Some(json!("t"))
    );
    assert_eq!(
        Value::Object(document.source),
        json!({"time": "2026-11-28T02:30:00.000Z"})
    );
    let (document, _) = run(
        json!({"main": {"processors": [{"remove": {"field": "_id"}}]}}),
        json!({}),
    );
    assert_eq!((document.id(), document.version()), (None, None));
    for (field, value, reason) in [
        (
            "_version",
            json!("x"),
            "_version [x] is wrong type, expected assignable to [java.lang.Number], not [java.lang.String]",
        ),
        (
            "_version_type",
            json!("x"),
            "_version_type must be a null or one of [internal, external, external_gte] but was [x] with type [java.lang.String]",
        ),
        ("_index", json!(null), "_index cannot be null"),
    ] {
        let script = json!({"script": {"source": format!("ctx.{field} = params.v"), "params": {"v": value}}});
        let (_, result) = run(json!({"main": {"processors": [script]}}), json!({}));
        assert_eq!(result.unwrap_err().root().reason, reason);
    }
}

#[test]
fn statistics() {
    let body = json!({"processors": [
        {"set": {"field": "a", "value": 1, "tag": "t"}},
        {"fail": {"message": "no", "if": "ctx.bad == true"}}
    ]});
    let pipeline = Pipeline::parse("p", &object(body.clone())).unwrap();
    let ticks = AtomicU64::new(0);
    let clock = || ticks.fetch_add(10, Ordering::Relaxed);
    let mut context = Context::new(NOW_MS);
    context.clock = Some(&clock);
    for bad in [false, true, false] {
        let _ = pipeline.run(&mut document(json!({"bad": bad})), &context);
    }
    let _ = pipeline.run_verbose(&mut document(json!({})), &context);
    let counts = pipeline.counts();
    assert_eq!(
        (counts.total.count, counts.total.current, counts.total.failed),
        (3, 0, 1)
    );
    assert!(counts.total.nanos >= 60);
    let processors: Vec<(String, u64, u64)> = counts
        .processors
        .iter()
        .map(|(key, _, counts)| (key.clone(), counts.count, counts.failed))
        .collect();
    assert_eq!(processors, [("set:t".to_owned(), 3, 0), ("fail".to_owned(), 1, 1)]);
    // A new version continues them.
    let next = Pipeline::parse("p", &object(body)).unwrap().continuing(&pipeline);
    next.run(&mut document(json!({})), &context).unwrap();
    assert_eq!((next.counts().total.count, next.counts().processors[0].2.count), (4, 4));
    let other = Pipeline::parse("p", &object(json!({"processors": [{"drop": {}}]})))
        .unwrap()
        .continuing(&next);
    assert_eq!(
        (other.counts().total.count, other.counts().processors[0].2.count),
        (4, 0)
    );
}

/// Requests share a pipeline and a context between threads.
#[test]
fn what_is_shared_is_sync() {
    fn is_sync<T: Sync + Send>() {}
    is_sync::<Pipeline>();
    is_sync::<Context<'static>>();
}

#[test]
fn a_budget_failure_has_no_handler() {
    let body = json!({
        "processors": [{"script": {"source": "while (true) { }", "ignore_failure": true}}],
        "on_failure": [set("e", json!(1))]
    });
    let (document, result) = run(json!({"main": body}), json!({}));
    assert_eq!(result.unwrap_err().kind, FailureKind::BudgetExceeded);
    assert_eq!(Value::Object(document.source), json!({}));
}

#[test]
fn growing_documents_end() {
    for processor in [
        json!({"gsub": {"field": "s", "pattern": "a", "replacement": "aaaaaaaaaa"}}),
        json!({"set": {"field": "s", "value": "{{s}}{{s}}"}}),
        json!({"append": {"field": "l", "copy_from": "l"}}),
        json!({"set": {"field": "o.o", "copy_from": "o"}}),
    ] {
        let processors: Vec<Value> = (0..5000).map(|_| processor.clone()).collect();
        let source = json!({"s": "a", "l": [1], "o": {"x": 1, "pad": "0123456789".repeat(20)}});
        let (_, result) = run(json!({"main": {"processors": processors}}), source);
        assert_eq!(result.unwrap_err().kind, FailureKind::BudgetExceeded, "{processor}");
    }
}
