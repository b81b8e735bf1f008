//! Tests of `_terms_enum`: values, their order, and incomplete answers.

use std::time::Duration;

use firn_engine::Engine;
use firn_engine::terms_enum::{TermsEnumRequest, TermsEnumResponse};
use serde_json::{Value, json};

use crate::node::{Node, add, ctx, index, target};

fn filled() -> Node {
    let node = Node::new();
    let mappings = json!({"properties": {
        "k": {"type": "keyword"}, "column": {"type": "keyword", "index": false},
        "terms": {"type": "keyword", "doc_values": false}, "ip": {"type": "ip"}, "env": {"type": "constant_keyword", "value": "prod"},
        "labels": {"type": "flattened"}, "text": {"type": "text"}, "n": {"type": "long"}
    }});
    node.create(
        "logs",
        json!({"settings": {"number_of_shards": 2}, "mappings": mappings}),
    )
    .unwrap();
    for (number, value) in ["apple", "Apricot", "banana", "apple", "avocado", "cherry", "ap"]
        .iter()
        .enumerate()
    {
        let source = json!({
            "k": value, "column": value, "terms": value, "ip": format!("10.0.{number}.{}", 20 - number),
            "labels": {"team": value}, "text": value, "n": number
        });
        node.write(add("logs", source));
        node.refresh("logs");
    }
    node
}

fn ask(node: &Node, expression: &str, body: &Value) -> TermsEnumResponse {
    let request = TermsEnumRequest::parse(target(expression), body).unwrap();
    node.run(node.engine.terms_enum(&ctx(), request)).unwrap()
}

#[test]
fn terms_by_prefix() {
    let node = filled();
    let check = |body: Value, expected: &[&str]| {
        let answer = ask(&node, "logs", &body);
        assert_eq!(answer.terms, expected, "{body}");
        assert!(answer.complete, "{body}");
        assert_eq!((answer.shards.total, answer.shards.successful), (2, 2));
    };
    for field in ["k", "column", "terms", "labels.team"] {
        check(json!({"field": field, "string": "ap"}), &["ap", "apple"]);
        check(
            json!({"field": field, "string": "ap", "case_insensitive": true}),
            &["Apricot", "ap", "apple"],
        );
        check(json!({"field": field, "size": 3}), &["Apricot", "ap", "apple"]);
        check(
            json!({"field": field, "size": 2, "search_after": "ap"}),
            &["apple", "avocado"],
        );
        check(
            json!({"field": field, "string": "a", "search_after": "apple"}),
            &["avocado"],
        );
        check(json!({"field": field, "string": "x"}), &[]);
    }
    check(
        json!({"field": "ip", "size": 3}),
        &["10.0.0.20", "10.0.1.19", "10.0.2.18"],
    );
    check(json!({"field": "ip", "string": "10.0.5"}), &["10.0.5.15"]);
    check(
        json!({"field": "ip", "search_after": "10.0.4.16"}),
        &["10.0.5.15", "10.0.6.14"],
    );
    check(json!({"field": "env", "string": "pr"}), &["prod"]);
    check(json!({"field": "env", "string": "x"}), &[]);
    check(json!({"field": "_index", "string": "l"}), &["logs"]);
    // The field itself stands for every value below it.
    check(json!({"field": "labels", "string": "b"}), &["banana"]);
    for without in ["text", "n", "nowhere"] {
        check(json!({"field": without}), &[]);
    }
}

#[test]
fn a_timeout_or_damage_makes_the_answer_incomplete() {
    let node = filled();
    let request = TermsEnumRequest {
        timeout: Duration::ZERO,
        ..TermsEnumRequest::parse(target("logs"), &json!({"field": "k"})).unwrap()
    };
    let answer = node.run(node.engine.terms_enum(&ctx(), request)).unwrap();
    assert!(!answer.complete);
    let gone = ctx();
    gone.cancel.cancel();
    let request = TermsEnumRequest::parse(target("logs"), &json!({"field": "k"})).unwrap();
    assert!(node.run(node.engine.terms_enum(&gone, request)).is_err());
}

#[test]
fn shards_that_cannot_match_are_left_out() {
    let node = Node::new();
    for (name, day) in [("old", "2020-01-01"), ("new", "2026-01-01")] {
        let mappings = json!({"properties": {"@timestamp": {"type": "date"}, "k": {"type": "keyword"}}});
        node.create(
            name,
            json!({"mappings": mappings, "aliases": {"some": {"filter": {"term": {"k": "new"}}}}}),
        )
        .unwrap();
        node.write(index(name, "1", json!({"@timestamp": day, "k": name})));
        node.refresh(name);
    }
    let filter = json!({"range": {"@timestamp": {"gte": "2025-01-01"}}});
    assert_eq!(ask(&node, "old,new", &json!({"field": "k"})).terms, ["new", "old"]);
    assert_eq!(
        ask(&node, "old,new", &json!({"field": "k", "index_filter": filter})).terms,
        ["new"]
    );
    // A term dictionary cannot apply the filter of an alias.
    let request = TermsEnumRequest::parse(target("some"), &json!({"field": "k"})).unwrap();
    let error = node.run(node.engine.terms_enum(&ctx(), request)).unwrap_err();
    assert_eq!(
        error.reason(),
        "[_terms_enum] on an alias with a filter is not implemented by firn"
    );
}
