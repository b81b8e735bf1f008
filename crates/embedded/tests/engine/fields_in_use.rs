//! Tests of fields in use: which fields have values, and which indices match a filter.

use firn_engine::Engine;
use firn_engine::fields::FieldsInUseRequest;
use firn_query::query::Query;
use serde_json::{Value, json};

use crate::node::{Node, add, ctx, target};

fn ask(node: &Node, filter: Option<Value>) -> Vec<(String, Vec<String>)> {
    let request = FieldsInUseRequest {
        target: target("*"),
        index_filter: filter.map(|filter| Query::parse(&filter).unwrap()),
    };
    let found = node
        .run(node.engine.fields_in_use(&ctx(), request))
        .unwrap()
        .require()
        .unwrap();
    found
        .into_iter()
        .map(|index| (index.index, index.fields.into_iter().collect()))
        .collect()
}

#[test]
fn by_columns_terms_and_names() {
    let node = Node::new();
    let kinds = [
        "keyword",
        "text",
        "long",
        "ip",
        "date",
        "geo_point",
        "boolean",
        "flattened",
    ];
    let mut properties = json!({"@timestamp": {"type": "date"}});
    for kind in kinds {
        properties[format!("with_{kind}")] = json!({"type": kind});
        properties[format!("without_{kind}")] = json!({"type": kind});
    }
    for name in ["old", "new"] {
        node.create(name, json!({"mappings": {"properties": properties}}))
            .unwrap();
    }
    node.write(add("old", json!({"@timestamp": "2020-01-01"})));
    node.write(add(
        "new",
        json!({
            "@timestamp": "2026-01-01", "with_keyword": "a", "with_text": "b", "with_long": 1, "with_ip": "::1",
            "with_date": 1, "with_geo_point": "1,2", "with_boolean": true, "with_flattened": {"a": "b"}
        }),
    ));
    node.refresh("*");
    let mut full: Vec<String> = kinds.iter().map(|kind| format!("with_{kind}")).collect();
    full.push("@timestamp".to_owned());
    full.sort();
    let new = ("new".to_owned(), full);
    let old = ("old".to_owned(), vec!["@timestamp".to_owned()]);
    assert_eq!(ask(&node, None), [new.clone(), old]);
    assert_eq!(
        ask(&node, Some(json!({"range": {"@timestamp": {"gte": "2025-01-01"}}}))),
        [new]
    );
}

#[test]
fn a_preference_selects_shards() {
    let node = Node::new();
    node.create("logs", json!({"settings": {"number_of_shards": 3}}))
        .unwrap();
    for n in 0..30 {
        node.write(add("logs", json!({"n": n})));
    }
    node.refresh("logs");
    let count = |shards: &[u32]| {
        let mut request = firn_query::search::SearchRequest::new(target("logs"));
        request.only_shards = shards.to_vec();
        let response = node.run(node.engine.search(&ctx(), request)).unwrap();
        (response.total.unwrap().value, response.shards.total)
    };
    assert_eq!(count(&[]), (30, 3));
    let each: Vec<_> = (0..3).map(|shard| count(&[shard])).collect();
    assert!(each.iter().all(|(_, shards)| *shards == 1));
    assert_eq!(each.iter().map(|(total, _)| total).sum::<u64>(), 30);
    assert_eq!(count(&[0, 2]).0, each[0].0 + each[2].0);
}
