//! Tests of field isolation: a tenant sees only fields, terms, counts and times of its documents in shared indices.

use firn_engine::Engine;
use firn_engine::fields::FieldsInUseRequest;
use firn_engine::terms_enum::TermsEnumRequest;
use firn_model::metadata::Command;
use firn_query::query::Query;
use serde_json::{Value, json};

use crate::isolation::{Tenant, of, operator, shared};
use crate::node::{Node, add, index, target};

/// Writes events of two tenants with different fields and values.
fn with_events() -> Node {
    let node = shared();
    for (tenant, count) in [("a", 3), ("b", 40)] {
        let items = (0..count).map(|number| {
            let field = format!("{tenant}_field");
            let event = json!({
                "@timestamp": if tenant == "a" { "2026-01-01T00:00:00Z" } else { "2026-06-01T00:00:00Z" },
                "class": format!("{tenant}-{number}"),
                "number": if tenant == "a" { number } else { number + 1000 },
                field: {"deep": number, "text": format!("{tenant} words")},
            });
            add("shared", event)
        });
        for response in of(&node, tenant).bulk(items.collect()) {
            response.result.unwrap();
        }
    }
    node
}

#[test]
fn fields_of_other_tenants_behave_as_unmapped() {
    let node = with_events();
    let a = of(&node, "a");
    let metadata = node.run(node.engine.metadata_with_mappings(&a.ctx)).unwrap();
    let printed = metadata.indices["shared"].mapping.print().to_string();
    assert!(printed.contains("a_field") && printed.contains("class"), "{printed}");
    assert!(!printed.contains("b_field"), "{printed}");
    let plain = node.run(node.engine.metadata(&a.ctx)).unwrap();
    assert!(!plain.indices["shared"].mapping.print().to_string().contains("field"));
    let in_use = FieldsInUseRequest {
        target: target("shared"),
        index_filter: None,
    };
    let fields = node
        .run(node.engine.fields_in_use(&a.ctx, in_use))
        .unwrap()
        .require()
        .unwrap();
    let fields: Vec<&str> = fields[0].fields.iter().map(String::as_str).collect();
    let expect = [
        "@timestamp",
        "a_field.deep",
        "a_field.text",
        "a_field.text.keyword",
        "class",
        "class.keyword",
        "number",
        "tenant",
    ];
    assert_eq!(fields, expect);
    // Errors must not reveal a field: those of another tenant's field equal those of a missing one.
    for make in [
        |field: &str| json!({"sort": [field]}),
        |field: &str| json!({"query": {"range": {field: {"gte": "no number"}}}}),
        |field: &str| json!({"query": {"match_phrase": {field: "x y"}}}),
        |field: &str| json!({"size": 0, "aggs": {"t": {"terms": {"field": field}}}}),
        |field: &str| json!({"query": {"query_string": {"query": "\"x y\"", "fields": [field]}}}),
    ] {
        let outcome = |field: &str| match a.try_search("shared", &make(field)) {
            Ok(response) => format!("{:?}", response.total),
            Err(error) => error.reason().replace(field, "FIELD"),
        };
        assert_eq!(outcome("b_field.deep"), outcome("x_field.deep"));
        assert_eq!(outcome("b_field.text"), outcome("x_field.text"));
    }
}

#[test]
fn declared_fields_are_known_to_every_tenant() {
    let node = Node::new();
    let body = json!({
        "settings": {"index.tenant.field": "tenant"},
        "mappings": {"properties": {"status": {"type": "long"}, "host": {"properties": {"name": {"type": "keyword"}}}}},
    });
    for name in ["week-1", "week-2", "week-3"] {
        node.create(name, body.clone()).unwrap();
    }
    let (a, b) = (of(&node, "a"), of(&node, "b"));
    a.write(index("week-1", "1", json!({"status": 5, "own": "x"}))).unwrap();
    a.write(index("week-2", "2", json!({"msg": "x"}))).unwrap();
    for name in ["week-1", "week-2", "week-3"] {
        b.write(index(name, "9", json!({"status": 7, "b_field": 1}))).unwrap();
    }
    let sorted = |body: Value| {
        let response = a.try_search("week-*", &body).unwrap();
        assert!(response.shards.failures.is_empty(), "{:?}", response.shards.failures);
        let hits = response.hits.into_iter();
        hits.map(|hit| hit.id).collect::<Vec<_>>()
    };
    let check = |node: &Node| {
        let a = of(node, "a");
        let response = a.try_search("week-*", &json!({"sort": [{"status": "desc"}]})).unwrap();
        assert!(response.shards.failures.is_empty(), "{:?}", response.shards.failures);
        let ids: Vec<String> = response.hits.into_iter().map(|hit| hit.id).collect();
        assert_eq!(ids, ["1", "2"]);
    };
    check(&node);
    assert_eq!(
        sorted(json!({"sort": [{"host.name": "asc"}, {"status": "asc"}]})),
        ["1", "2"]
    );
    assert_eq!(
        sorted(json!({"collapse": {"field": "status"}, "sort": [{"status": "asc"}]})),
        ["1", "2"]
    );
    let outcome = |field: &str| {
        a.try_search("week-*", &json!({"sort": [field]}))
            .map(|_| ())
            .map_err(|error| error.reason().replace(field, "F"))
    };
    assert_eq!(outcome("b_field"), outcome("x_field"));
    assert!(outcome("b_field").is_err());
    let known = |node: &Node, name: &str| {
        let metadata = node
            .run(node.engine.metadata_with_mappings(&of(node, "a").ctx))
            .unwrap();
        metadata.indices[name].mapping.fields().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(known(&node, "week-1"), ["host.name", "own", "status", "tenant"]);
    assert_eq!(known(&node, "week-3"), ["host.name", "status", "tenant"]);
    // A field that is declared later is visible too, also after a restart.
    node.execute(Command::PutMapping {
        names: vec!["week-3".to_owned()],
        mapping: json!({"properties": {"b_field": {"type": "long"}}}),
    })
    .unwrap();
    assert_eq!(known(&node, "week-3"), ["b_field", "host.name", "status", "tenant"]);
    let node = node.restart();
    check(&node);
    assert_eq!(known(&node, "week-3"), ["b_field", "host.name", "status", "tenant"]);
    assert_eq!(known(&node, "week-2"), ["host.name", "msg", "status", "tenant"]);
}

#[test]
fn terms_are_those_of_the_tenants_documents() {
    let node = with_events();
    let a = of(&node, "a");
    let enumerated = |tenant: &Tenant<'_>, field: &str| {
        let body = json!({"field": field, "string": "", "size": 1000});
        let request = TermsEnumRequest::parse(target("shared"), &body).unwrap();
        node.run(node.engine.terms_enum(&tenant.ctx, request)).unwrap().terms
    };
    assert_eq!(enumerated(&a, "class.keyword"), ["a-0", "a-1", "a-2"]);
    assert_eq!(enumerated(&a, "tenant"), ["a"]);
    assert_eq!(enumerated(&a, "b_field.text.keyword"), Vec::<String>::new());
    assert_eq!(enumerated(&operator(&node), "tenant"), ["a", "b"]);
    for field in ["class.keyword", "number", "tenant"] {
        let body = json!({
            "size": 0,
            "query": {"match_none": {}},
            "aggs": {"t": {"terms": {"field": field, "min_doc_count": 0, "size": 100}}},
        });
        let response = a.try_search("shared", &body).unwrap();
        let shown = response.aggregations.unwrap().to_string();
        let count = shown.matches("\"doc_count\":0").count();
        assert_eq!(count, if field == "tenant" { 1 } else { 3 }, "{shown}");
        assert!(!shown.contains("b-") && !shown.contains("100"), "{shown}");
    }
}

#[test]
fn counts_and_times_are_those_of_the_tenant() {
    let node = with_events();
    let a = of(&node, "a");
    let stats = node.run(node.disclosed().stats(&a.ctx, target("*"))).unwrap();
    let documents: u64 = stats[0].shards.iter().map(|shard| shard.doc_count).sum();
    assert_eq!(documents, 3);
    assert!(
        stats[0]
            .shards
            .iter()
            .all(|shard| shard.indexing_total == 0 && shard.segments.is_empty())
    );
    // An index filter does not reveal when other tenants have events.
    let june = json!({"range": {"@timestamp": {"gte": "2026-05-01"}}});
    let in_use = |tenant: &Tenant<'_>| {
        let request = FieldsInUseRequest {
            target: target("shared"),
            index_filter: Some(Query::parse(&june).unwrap()),
        };
        node.run(node.engine.fields_in_use(&tenant.ctx, request))
            .unwrap()
            .require()
            .unwrap()
            .len()
    };
    assert_eq!((in_use(&a), in_use(&of(&node, "b"))), (0, 1));
}
