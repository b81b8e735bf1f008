//! Queries against events.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Language, dsl_condition, text_condition};
use crate::{Evaluator, Expression, LogSource, LogSources, Rule, RuleSet, Severity};

fn matches(condition: Expression, event: &Value) -> bool {
    let rule = Rule {
        id: "r".to_owned(),
        title: "r".to_owned(),
        description: String::new(),
        severity: Severity::Low,
        tags: Vec::new(),
        references: Vec::new(),
        false_positives: Vec::new(),
        author: None,
        log_source: LogSource::default(),
        condition,
    };
    let compiled = RuleSet::compile(vec![rule], &LogSources::Any);
    assert!(compiled.errors.is_empty(), "{:?}", compiled.errors);
    let mut evaluator = Evaluator::new(Arc::new(compiled.rules));
    let (mut as_tree, mut printed) = (Vec::new(), Vec::new());
    evaluator.begin();
    evaluator.push_object(event.as_object().unwrap());
    evaluator.evaluate(&mut as_tree);
    evaluator.begin();
    evaluator.push_printed(event.to_string().as_bytes()).unwrap();
    evaluator.evaluate(&mut printed);
    assert_eq!(as_tree, printed);
    !as_tree.is_empty()
}

fn event() -> Value {
    json!({
        "message": "Failed password for root from 10.1.2.3 port 22", "user": {"name": "Root"}, "event": {"code": 4625, "type": ["start", "denied"]},
        "source": {"ip": "10.1.2.3", "port": 22}, "network.bytes": 1500, "ok": true, "empty": null, "path": "C:\\Windows\\x.exe",
        "items": [{"name": "one"}, {"name": "two"}],
    })
}

#[test]
fn texts_in_kql_and_lucene_match_as_a_search_does() {
    let event = event();
    let check = |language: Language, text: &str, expect: bool| {
        let condition = text_condition(text, language).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(matches(condition, &event), expect, "{language:?} {text}");
    };
    for (text, expect) in [
        ("user.name: Root", true),
        ("user.name: root", false),
        ("user.name: R*t", true),
        ("user.name: \"R*t\"", false),
        ("user.name: (Admin or Root)", true),
        ("not user.name: Admin", true),
        ("not nothing: x", true),
        ("event.code: 4625", true),
        ("event.code >= 4625 and event.code < 4626", true),
        ("event.code > 4625", false),
        ("event.type: denied", true),
        ("source.ip: 10.1.0.0/16", true),
        ("source.ip: 10.2.0.0/16", false),
        ("network.bytes > 1000", true),
        ("message: password", true),
        ("message: PASSWORD", true),
        ("message: pass", false),
        ("message: pass*", true),
        ("message: (other failed)", true),
        ("message: \"failed password\"", true),
        ("message: \"password failed\"", false),
        ("message: *", true),
        ("empty: *", false),
        ("items.name: two", true),
        ("ok: true", true),
        ("root", true),
        ("absent", false),
        ("*", true),
        ("", true),
    ] {
        check(Language::Kuery, text, expect);
    }
    for (text, expect) in [
        ("user.name:Root AND event.code:4625", true),
        ("user.name:root OR event.code:4625", true),
        ("+user.name:Root -event.type:start", false),
        ("message:(failed accepted)", true),
        ("message:(+failed +accepted)", false),
        ("message:\"failed password\"", true),
        ("source.port:[20 TO 22]", true),
        ("source.port:[20 TO 22}", false),
        ("source.port:>=22", true),
        ("user.name:R?ot", true),
        ("user.name:/R.+t/", true),
        ("user.name:/R/", false),
        ("_exists_:ok", true),
        ("_exists_:empty", false),
        ("NOT user.name:Admin", true),
        ("", false),
    ] {
        check(Language::Lucene, text, expect);
    }
}

#[test]
fn the_query_dsl_matches_as_a_search_does() {
    let event = event();
    for (query, expect) in [
        (json!({"match_all": {}}), true),
        (json!({"match_none": {}}), false),
        (json!({"term": {"user.name": "Root"}}), true),
        (
            json!({"term": {"user.name": {"value": "root", "case_insensitive": true}}}),
            true,
        ),
        (json!({"term": {"event.code": 4625}}), true),
        (json!({"term": {"ok": true}}), true),
        (json!({"terms": {"source.port": [21, 22]}}), true),
        (json!({"range": {"source.port": {"gte": 22, "lt": 23}}}), true),
        (json!({"exists": {"field": "source.ip"}}), true),
        (json!({"match": {"message": "nothing root"}}), true),
        (
            json!({"match": {"message": {"query": "nothing root", "operator": "and"}}}),
            false,
        ),
        (json!({"match_phrase": {"message": "for root"}}), true),
        (
            json!({"multi_match": {"query": "root", "fields": ["message", "user.name"]}}),
            true,
        ),
        (json!({"prefix": {"path": "C:\\Win"}}), true),
        (json!({"wildcard": {"path": "*\\\\x.exe"}}), true),
        (json!({"wildcard": {"path": "*.EXE"}}), false),
        (json!({"regexp": {"user.name": "R[a-z]+"}}), true),
        (
            json!({"bool": {"filter": [{"term": {"ok": true}}], "should": [{"term": {"ok": false}}]}}),
            true,
        ),
        (json!({"bool": {"should": [{"term": {"ok": false}}]}}), false),
        (
            json!({"bool": {"should": [{"term": {"ok": true}}, {"exists": {"field": "path"}}, {"match_none": {}}], "minimum_should_match": 2}}),
            true,
        ),
        (
            json!({"bool": {"should": [{"term": {"ok": true}}], "minimum_should_match": 2}}),
            false,
        ),
        (json!({"bool": {"must_not": [{"term": {"user.name": "Root"}}]}}), false),
        (json!({"query_string": {"query": "user.name:Root"}}), true),
        (json!({"kql": {"query": "user.name: Root"}}), true),
    ] {
        let condition = dsl_condition(&query).unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(matches(condition, &event), expect, "{query}");
    }
}

#[test]
fn what_one_event_cannot_answer_is_refused_by_name() {
    for (query, reason) in [
        (json!({"fuzzy": {"a": "b"}}), "[fuzzy]"),
        (json!({"ids": {"values": ["a"]}}), "[ids]"),
        (
            json!({"match": {"message": {"query": "a", "fuzziness": 1}}}),
            "[fuzziness]",
        ),
        (json!({"range": {"@timestamp": {"gte": "now-1h"}}}), "numbers only"),
        (json!({"query_string": {"query": "user.\\*:x"}}), "is a pattern"),
        (json!({"regexp": {"a": "b~c"}}), "operator [~]"),
        (json!({"unknown": {}}), "unknown"),
    ] {
        let error = dsl_condition(&query).unwrap_err();
        assert!(error.contains(reason), "{query}: {error}");
    }
    for text in ["user.*: x", "a: (", "@timestamp > now-1h"] {
        assert!(text_condition(text, Language::Kuery).is_err(), "{text}");
    }
}
