//! Tests of tenant isolation on shared indices: a tenant sees and changes only its documents.

use std::sync::Arc;

use firn_engine::document::{
    BulkItem, BulkItemResponse, BulkRequest, Effect, Expectation, GetRequest, Operation, Refresh,
};
use firn_engine::{Engine, Error, ErrorKind, RequestContext, Result, Scope};
use firn_model::metadata::Command;
use firn_model::tenant::TenantId;
use firn_query::search::{SearchRequest, SearchResponse};
use serde_json::{Value, json};

use crate::node::{Node, add, create, delete, index, target, update, update_with};

/// Requests of one tenant.
pub(crate) struct Tenant<'a> {
    node: &'a Node,
    pub(crate) ctx: RequestContext,
}

pub(crate) fn of<'a>(node: &'a Node, tenant: &str) -> Tenant<'a> {
    let scope = Scope::tenant(TenantId::parse(tenant).unwrap());
    let ctx = RequestContext {
        scope: Arc::new(scope),
        ..RequestContext::new()
    };
    Tenant { node, ctx }
}

/// Returns requests of an operator, with the same methods.
pub(crate) fn operator(node: &Node) -> Tenant<'_> {
    let ctx = RequestContext::new();
    Tenant { node, ctx }
}

impl Tenant<'_> {
    pub(crate) fn bulk(&self, items: Vec<BulkItem>) -> Vec<BulkItemResponse> {
        let request = BulkRequest {
            items,
            refresh: Refresh::Now,
            timeout: None,
            origin: None,
        };
        self.node
            .run(self.node.disclosed().bulk(&self.ctx, request))
            .unwrap()
            .items
    }

    pub(crate) fn write(&self, item: BulkItem) -> Result<(String, Effect)> {
        let response = self.bulk(vec![item]).pop().unwrap();
        response.result.map(|written| (response.id, written.effect))
    }

    pub(crate) fn refused(&self, item: BulkItem) -> Error {
        self.write(item).unwrap_err()
    }

    pub(crate) fn get_routed(&self, index: &str, id: &str, routing: Option<&str>) -> Result<Option<Value>> {
        let request = GetRequest {
            index: index.to_owned(),
            id: id.to_owned(),
            routing: routing.map(str::to_owned),
            realtime: true,
            version: None,
        };
        let result = self
            .node
            .run(self.node.disclosed().get(&self.ctx, vec![request]))?
            .pop()
            .unwrap()?;
        assert_eq!(result.id, id);
        Ok(result.found.map(|found| serde_json::from_slice(&found.source).unwrap()))
    }

    pub(crate) fn get(&self, index: &str, id: &str) -> Option<Value> {
        self.get_routed(index, id, None).unwrap()
    }

    pub(crate) fn try_search(&self, index: &str, body: &Value) -> Result<SearchResponse> {
        let request = SearchRequest::parse(target(index), Some(body))?;
        self.node.run(self.node.disclosed().search(&self.ctx, request))
    }

    pub(crate) fn ids(&self, index: &str, query: Value) -> Vec<String> {
        let response = self.try_search(index, &json!({"query": query, "size": 100})).unwrap();
        let mut ids: Vec<String> = response.hits.into_iter().map(|hit| hit.id).collect();
        ids.sort();
        ids
    }
}

pub(crate) fn shared() -> Node {
    let node = Node::new();
    let body = json!({
        "settings": {"index.tenant.field": "tenant", "number_of_shards": 3},
        "mappings": {"properties": {"tenant": {"type": "keyword"}, "copied": {"type": "keyword", "copy_to": "tenant"}}},
    });
    node.create("shared", body).unwrap();
    node.create("plain", json!({})).unwrap();
    node.create(
        "of-b",
        json!({"settings": {"index.tenant.field": "tenant", "index.tenant.owner": "b"}}),
    )
    .unwrap();
    node
}

fn routed(item: BulkItem, routing: &str) -> BulkItem {
    BulkItem {
        routing: Some(routing.to_owned()),
        ..item
    }
}

#[test]
fn equal_ids_of_two_tenants_are_two_documents() {
    let node = shared();
    let (a, b, all) = (of(&node, "a"), of(&node, "b"), operator(&node));
    for tenant in [&a, &b] {
        assert_eq!(
            tenant.write(create("shared", "1", json!({"v": 1}))).unwrap(),
            ("1".to_owned(), Effect::Created)
        );
    }
    let conflict = a.refused(create("shared", "1", json!({})));
    assert_eq!(conflict.kind(), ErrorKind::VersionConflict);
    assert_eq!(
        conflict.reason(),
        "[1]: version conflict, document already exists (current version [1])"
    );
    assert_eq!(
        a.write(index("shared", "1", json!({"v": 2}))).unwrap().1,
        Effect::Updated
    );
    assert_eq!(
        a.write(update("shared", "1", json!({"w": 3}))).unwrap().1,
        Effect::Updated
    );
    assert_eq!(a.get("shared", "1"), Some(json!({"tenant": "a", "v": 2, "w": 3})));
    assert_eq!(b.get("shared", "1"), Some(json!({"tenant": "b", "v": 1})));
    assert_eq!(all.get_routed("shared", "1", Some("b")).unwrap(), b.get("shared", "1"));
    assert_eq!(
        all.get_routed("shared", "1", None).unwrap_err().kind(),
        ErrorKind::RoutingMissing
    );
    for queries in [
        json!({"ids": {"values": ["1"]}}),
        json!({"term": {"_id": "1"}}),
        json!({"terms": {"_id": ["1", "2"]}}),
    ] {
        assert_eq!(a.ids("shared", queries.clone()), ["1"]);
        assert_eq!(all.ids("shared", queries), ["1", "1"]);
    }
    assert_eq!(
        a.ids("shared", json!({"ids": {"values": ["b\u{1f}1", "a\u{1f}1"]}})),
        Vec::<String>::new()
    );
    assert_eq!(a.write(delete("shared", "1")).unwrap().1, Effect::Deleted);
    assert_eq!(a.write(delete("shared", "1")).unwrap().1, Effect::NotFound);
    assert_eq!(a.get("shared", "1"), None);
    assert_eq!(
        all.write(routed(delete("shared", "1"), "b")).unwrap().1,
        Effect::Deleted
    );
    assert_eq!(b.get("shared", "1"), None);
}

#[test]
fn generated_ids_of_other_tenants_are_ordinary_ids() {
    let node = shared();
    let (a, b, all) = (of(&node, "a"), of(&node, "b"), operator(&node));
    let of_b = b.write(add("shared", json!({"v": "secret"}))).unwrap().0;
    let of_a = a.write(add("shared", json!({"v": "own"}))).unwrap().0;
    assert_eq!(a.get("shared", &of_b), None);
    assert_eq!(a.get("shared", &of_a), Some(json!({"tenant": "a", "v": "own"})));
    assert_eq!(a.write(delete("shared", &of_b)).unwrap().1, Effect::NotFound);
    assert_eq!(
        a.refused(update("shared", &of_b, json!({"v": 1}))).kind(),
        ErrorKind::DocumentMissing
    );
    assert_eq!(
        a.write(create("shared", &of_b, json!({"v": "mine"}))).unwrap().1,
        Effect::Created
    );
    assert_eq!(
        a.write(index("shared", &of_b, json!({"v": "more"}))).unwrap().1,
        Effect::Updated
    );
    assert_eq!(a.ids("shared", json!({"ids": {"values": [of_b]}})), [of_b.as_str()]);
    assert_eq!(b.get("shared", &of_b), Some(json!({"tenant": "b", "v": "secret"})));
    assert_eq!(all.get("shared", &of_b), b.get("shared", &of_b));
    let upsert = update_with("shared", &of_b, json!({}), |update| {
        update.upsert = Some(json!({"v": "up"}))
    });
    a.write(upsert).unwrap();
    assert_eq!(b.get("shared", &of_b), Some(json!({"tenant": "b", "v": "secret"})));
    // The owner can change it.
    assert_eq!(
        a.write(update("shared", &of_a, json!({"w": 1}))).unwrap().1,
        Effect::Updated
    );
    assert_eq!(a.write(delete("shared", &of_a)).unwrap().1, Effect::Deleted);
}

#[test]
fn events_are_stamped_and_forged_ones_refused() {
    let node = shared();
    let a = of(&node, "a");
    let raw = |text: &'static str| BulkItem {
        operation: Operation::Index { source: text.into() },
        ..index("shared", "x", json!({}))
    };
    for forged in [
        r#"{"tenant":"b"}"#,
        r#"{"tenant":["a","b"]}"#,
        r#"{"tenant":["a","a"]}"#,
        r#"{"\u0074enant":"b"}"#,
        r#"{"tenant":null}"#,
        r#"{"tenant":["b"]}"#,
        r#"{"copied":"b"}"#,
        r#"{"tenant":"a","copied":"b"}"#,
        r#"{"tenant":"A"}"#,
    ] {
        assert_eq!(a.refused(raw(forged)).kind(), ErrorKind::Forbidden, "{forged}");
    }
    for broken in [
        r#"{"tenant":"a","tenant":"b"}"#,
        r#"{"tenant":"a","\u0074enant":"b"}"#,
        "[1]",
        "{",
    ] {
        assert_eq!(a.refused(raw(broken)).kind(), ErrorKind::DocumentParsing, "{broken}");
    }
    a.write(raw(r#" {"tenant":"a","v":1}"#)).unwrap();
    assert_eq!(a.get("shared", "x"), Some(json!({"tenant": "a", "v": 1})));
    let forged = update("shared", "x", json!({"tenant": "b"}));
    assert_eq!(a.refused(forged).kind(), ErrorKind::Forbidden);
    let forged = update_with("shared", "y", json!({}), |update| {
        update.upsert = Some(json!({"tenant": "b"}))
    });
    assert_eq!(a.refused(forged).kind(), ErrorKind::Forbidden);
    a.write(update_with("shared", "y", json!({"v": 2}), |update| {
        update.doc_as_upsert = true
    }))
    .unwrap();
    assert_eq!(a.get("shared", "y"), Some(json!({"tenant": "a", "v": 2})));
    for item in [
        index("shared", "x", json!({})),
        delete("shared", "x"),
        update("shared", "x", json!({"v": 9})),
    ] {
        assert_eq!(a.refused(routed(item, "b")).kind(), ErrorKind::IllegalArgument);
    }
    assert_eq!(
        a.get_routed("shared", "x", Some("b")).unwrap_err().kind(),
        ErrorKind::IllegalArgument
    );
    assert!(a.get_routed("shared", "x", Some("a")).unwrap().is_some());
    assert_eq!(operator(&node).ids("shared", json!({"match_all": {}})), ["x", "y"]);
}

#[test]
fn events_of_an_operator_name_their_tenant() {
    let node = shared();
    let (a, all) = (of(&node, "a"), operator(&node));
    all.write(index("shared", "1", json!({"tenant": "a", "v": 1}))).unwrap();
    all.write(routed(index("shared", "2", json!({"tenant": "a", "v": 2})), "a"))
        .unwrap();
    all.write(add("shared", json!({"v": "of no tenant"}))).unwrap();
    assert_eq!(a.get("shared", "2"), Some(json!({"tenant": "a", "v": 2})));
    assert_eq!(a.ids("shared", json!({"match_all": {}})), ["1", "2"]);
    for (item, kind) in [
        (index("shared", "3", json!({"v": 3})), ErrorKind::RoutingMissing),
        (
            routed(index("shared", "3", json!({"tenant": "a"})), "b"),
            ErrorKind::IllegalArgument,
        ),
        (
            index("shared", "3", json!({"tenant": ["a", "b"]})),
            ErrorKind::DocumentParsing,
        ),
        (
            index("shared", "3", json!({"tenant": "a\u{1f}b"})),
            ErrorKind::IllegalArgument,
        ),
        (
            index("shared", "3", json!({"tenant": "a", "copied": "b"})),
            ErrorKind::DocumentParsing,
        ),
        (update("shared", "1", json!({"v": 2})), ErrorKind::RoutingMissing),
        (
            routed(update("shared", "1", json!({"tenant": "b"})), "a"),
            ErrorKind::IllegalArgument,
        ),
        (delete("shared", "1"), ErrorKind::RoutingMissing),
    ] {
        let text = format!("{item:?}");
        assert_eq!(all.refused(item).kind(), kind, "{text}");
    }
    let made = all.write(add("shared", json!({"tenant": "a", "v": 4}))).unwrap().0;
    assert_eq!(
        all.write(update("shared", &made, json!({"v": 5}))).unwrap().1,
        Effect::Updated
    );
    let moved = all.refused(update("shared", &made, json!({"tenant": "b"})));
    assert_eq!(moved.kind(), ErrorKind::DocumentMissing, "b has no such document");
    assert_eq!(a.get("shared", &made), Some(json!({"tenant": "a", "v": 5})));
}

#[test]
fn objects_of_other_tenants_are_refused_like_missing_ones() {
    let node = shared();
    let a = of(&node, "a");
    of(&node, "b").write(index("own", "1", json!({"v": 1}))).unwrap();
    let refusal = |name: &str| a.try_search(name, &json!({})).unwrap_err();
    for name in ["plain", "of-b", "missing", "own", "b~own"] {
        let error = refusal(name);
        assert_eq!(error.kind(), ErrorKind::Forbidden);
        assert_eq!(
            error.reason(),
            format!("the action is unauthorized on indices [{name}]")
        );
        assert_eq!(error.index(), None);
        assert_eq!(a.get_routed(name, "1", None).unwrap_err().kind(), ErrorKind::Forbidden);
        assert_eq!(a.refused(delete(name, "1")).kind(), ErrorKind::Forbidden);
    }
    assert_eq!(a.ids("*,-nothing*", json!({"match_all": {}})), Vec::<String>::new());
    let skipped = a.node.run(a.node.disclosed().stats(&a.ctx, target("*"))).unwrap();
    let names: Vec<String> = skipped.into_iter().map(|index| index.index).collect();
    assert_eq!(names, ["shared"]);
    let commands = [
        Command::DeleteIndices {
            names: vec!["shared".to_owned()],
        },
        Command::PutClusterSettings { settings: json!({}) },
        Command::AutoCreate {
            name: "x".to_owned(),
            tenant: None,
        },
        Command::PutMapping {
            names: vec!["shared".to_owned()],
            mapping: json!({}),
        },
    ];
    for command in commands {
        let error = node.run(node.disclosed().execute(&a.ctx, command)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Forbidden);
    }
}

#[test]
fn a_tenant_writes_to_its_index_of_a_name() {
    let node = shared();
    let (a, b) = (of(&node, "a"), of(&node, "b"));
    for name in ["logs", "plain", "of-b"] {
        a.write(index(name, "1", json!({"v": 1}))).unwrap();
        assert_eq!(a.get(name, "1"), Some(json!({"tenant": "a", "v": 1})));
    }
    assert_eq!(
        b.try_search("logs", &json!({})).unwrap_err().kind(),
        ErrorKind::Forbidden
    );
    b.write(index("logs", "1", json!({"v": 2}))).unwrap();
    assert_eq!(a.get("logs", "1"), Some(json!({"tenant": "a", "v": 1})));
    assert_eq!(b.get("logs", "1"), Some(json!({"tenant": "b", "v": 2})));
    assert_eq!(b.get("of-b", "1"), None, "the operator gave the index to b");
    assert_eq!(a.ids("log*", json!({"match_all": {}})), ["1"]);
    let search = a.try_search("logs", &json!({})).unwrap();
    assert_eq!(search.hits[0].index, "a~logs");
    let named = node.run(node.engine.metadata(&a.ctx)).unwrap();
    assert!(
        named
            .indices
            .keys()
            .all(|name| name.starts_with("a~") || name == "shared"),
        "{:?}",
        named.indices.keys().collect::<Vec<_>>()
    );
}

#[test]
fn a_tenants_events_stay_under_their_name_when_others_create_it() {
    let node = shared();
    let (a, b) = (of(&node, "a"), of(&node, "b"));
    for id in ["1", "2", "3"] {
        a.write(index("late", id, json!({"v": 1}))).unwrap();
    }
    node.create("late", json!({"settings": {"index.tenant.field": "tenant"}}))
        .unwrap();
    b.write(index("late", "9", json!({"v": 2}))).unwrap();
    assert_eq!(a.ids("late", json!({"match_all": {}})), ["1", "2", "3"]);
    assert_eq!(a.ids("la*", json!({"match_all": {}})), ["1", "2", "3"]);
    assert_eq!(a.get("late", "1"), Some(json!({"tenant": "a", "v": 1})));
    a.write(index("late", "4", json!({"v": 3}))).unwrap();
    a.write(delete("late", "1")).unwrap();
    assert_eq!(a.ids("late", json!({"match_all": {}})), ["2", "3", "4"]);
    assert_eq!(b.ids("late", json!({"match_all": {}})), ["9"]);
    let search = a.try_search("late", &json!({})).unwrap();
    assert!(search.hits.iter().all(|hit| hit.index == "a~late"));
}

#[test]
fn a_tenant_creates_changes_and_deletes_its_indices() {
    let node = shared();
    let (a, b) = (of(&node, "a"), of(&node, "b"));
    let execute = |tenant: &Tenant<'_>, command: Command| node.run(node.disclosed().execute(&tenant.ctx, command));
    let create = |name: &str, settings: Value| Command::CreateIndex {
        name: name.to_owned(),
        settings,
        mappings: Some(json!({"properties": {"status": {"type": "long"}}})),
        aliases: None,
    };
    let put = |name: &str| Command::PutMapping {
        names: vec![name.to_owned()],
        mapping: json!({"properties": {"more": {"type": "ip"}}}),
    };
    let drop = |name: &str| Command::DeleteIndices {
        names: vec![name.to_owned()],
    };
    for name in ["mine", "plain"] {
        let outcome = execute(&a, create(name, json!({}))).unwrap();
        assert_eq!(outcome.created_index.as_deref(), Some(name));
        a.write(index(name, "1", json!({"status": 5}))).unwrap();
    }
    assert_eq!(a.ids("mine", json!({"term": {"status": 5}})), ["1"]);
    let twice = execute(&a, create("mine", json!({}))).unwrap_err();
    assert_eq!(
        (twice.kind(), twice.index()),
        (ErrorKind::ResourceAlreadyExists, Some("mine"))
    );
    let refused = execute(&a, create("other", json!({"index.tenant.owner": "b"}))).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::IllegalArgument);
    execute(&a, put("a~mine")).unwrap();
    let metadata = node.run(node.engine.metadata_with_mappings(&a.ctx)).unwrap();
    assert!(metadata.indices["a~mine"].mapping.fields().contains("more"));
    let conflict = Command::PutMapping {
        names: vec!["a~mine".to_owned()],
        mapping: json!({"properties": {"status": {"type": "ip"}}}),
    };
    assert_eq!(execute(&a, conflict).unwrap_err().index(), Some("mine"));
    // For objects of other tenants the errors equal those for missing objects.
    let missing = |command: fn(&str) -> Command, name: &str| {
        let error = execute(&a, command(name)).unwrap_err();
        (error.kind(), error.reason().replace(name, "NAME"))
    };
    b.write(index("mine", "1", json!({}))).unwrap();
    let all: [fn(&str) -> Command; 2] = [
        |name| Command::DeleteIndices {
            names: vec![name.to_owned()],
        },
        |name| Command::PutMapping {
            names: vec![name.to_owned()],
            mapping: json!({}),
        },
    ];
    for command in all {
        for name in ["shared", "plain", "b~mine", "of-b"] {
            let refusal = missing(command, name);
            assert_eq!(refusal, missing(command, "nothing"), "{name}");
            assert_eq!(refusal.0, ErrorKind::Forbidden);
        }
    }
    assert_eq!(
        execute(&a, create("shared", json!({}))).unwrap_err().kind(),
        ErrorKind::Forbidden
    );
    let both = Command::DeleteIndices {
        names: vec!["a~mine".to_owned(), "shared".to_owned()],
    };
    assert_eq!(execute(&a, both).unwrap_err().kind(), ErrorKind::Forbidden);
    execute(&a, drop("a~mine")).unwrap();
    assert_eq!(
        a.try_search("mine", &json!({})).unwrap_err().kind(),
        ErrorKind::Forbidden
    );
    assert!(b.get("mine", "1").is_some());
}

#[test]
fn unused_indices_are_removed_with_the_tenant_that_created_them() {
    let node = Node::new();
    for (name, pattern, data_stream) in [("plain", "n-*", None), ("streams", "s-*", Some(json!({})))] {
        let mut body = json!({
            "index_patterns": [pattern],
            "template": {"settings": {"index.tenant.field": "tenant", "index.number_of_shards": 2}},
        });
        if let Some(data_stream) = data_stream {
            body["data_stream"] = data_stream;
        }
        node.execute(Command::PutIndexTemplate {
            name: name.to_owned(),
            body,
            create: false,
        })
        .unwrap();
    }
    let (a, b) = (of(&node, "a"), of(&node, "b"));
    a.write(index("n-empty", "1", json!({}))).unwrap();
    a.write(delete("n-empty", "1")).unwrap();
    a.write(index("n-of-both", "1", json!({}))).unwrap();
    b.write(index("n-of-both", "1", json!({}))).unwrap();
    a.write(delete("n-of-both", "1")).unwrap();
    b.write(index("n-of-b", "1", json!({}))).unwrap();
    b.write(delete("n-of-b", "1")).unwrap();
    // The event has no time, and is refused; the data stream has been created.
    a.refused(add("s-empty", json!({})));
    a.refused(add("s-of-both", json!({})));
    b.write(add("s-of-both", json!({"@timestamp": "2026-01-01T00:00:00Z"})))
        .unwrap();
    node.create("operators", json!({"settings": {"index.tenant.field": "tenant"}}))
        .unwrap();

    let id = TenantId::parse("a").unwrap();
    let refused = node.run(node.engine.drop_unused_of(&b.ctx, id.clone())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Forbidden);
    let node = node.restart();
    let gone = node
        .run(node.engine.drop_unused_of(&RequestContext::new(), id.clone()))
        .unwrap()
        .require()
        .unwrap();
    assert_eq!(gone.len(), 2, "{gone:?}");
    let metadata = node.run(node.engine.metadata(&RequestContext::new())).unwrap();
    let left: Vec<&str> = metadata
        .indices
        .values()
        .filter(|index| index.data_stream.is_none())
        .map(|index| index.name.as_str())
        .collect();
    assert_eq!(left, ["n-of-b", "n-of-both", "operators"]);
    assert_eq!(metadata.data_streams.keys().collect::<Vec<_>>(), ["s-of-both"]);
    assert!(of(&node, "b").get("n-of-both", "1").is_some());
    let again = node
        .run(node.engine.drop_unused_of(&RequestContext::new(), id))
        .unwrap()
        .require()
        .unwrap();
    assert_eq!(again, Vec::<String>::new());
}

#[test]
fn dropping_unused_indices_loses_no_acknowledged_write() {
    let node = Node::new();
    node.execute(Command::PutIndexTemplate {
        name: "plain".to_owned(),
        body: json!({"index_patterns": ["n-*"], "template": {"settings": {"index.tenant.field": "tenant"}}}),
        create: false,
    })
    .unwrap();
    let (a, b) = (of(&node, "a"), of(&node, "b"));
    let id = TenantId::parse("a").unwrap();
    for round in 0..30 {
        let name = format!("n-{round}");
        a.write(index(&name, "1", json!({}))).unwrap();
        a.write(delete(&name, "1")).unwrap();
        let written = std::thread::scope(|scope| {
            let writer = scope.spawn(|| b.write(index(&name, "1", json!({}))));
            let gone = node
                .run(node.engine.drop_unused_of(&RequestContext::new(), id.clone()))
                .unwrap()
                .require()
                .unwrap();
            drop(gone);
            writer.join().unwrap()
        });
        // If an index was removed, the write creates it again.
        written.unwrap();
        assert!(b.get(&name, "1").is_some(), "round {round}");
    }
}

/// An alias with a filter restricts a tenant's searches like all others; the filter is not shown to the tenant.
#[test]
fn a_filtered_alias_narrows_what_a_tenant_sees() {
    let node = shared();
    let settings = json!({"index.tenant.field": "tenant"});
    for (name, alias) in [
        ("al-1", json!({"mx": {"filter": {"term": {"k": "x"}}}})),
        ("al-2", json!({"mx": {}})),
    ] {
        let mappings = json!({"properties": {"k": {"type": "keyword"}}});
        node.create(
            name,
            json!({"settings": settings, "mappings": mappings, "aliases": alias}),
        )
        .unwrap();
    }
    let filter = json!({"term": {"k": "nothing"}});
    let aliases = json!({"narrow": {"filter": filter}});
    node.create("al-3", json!({"settings": settings, "aliases": aliases}))
        .unwrap();
    for tenant in ["a", "b"] {
        for (index_name, id, k) in [
            ("al-1", "1", "x"),
            ("al-1", "2", "y"),
            ("al-2", "3", "x"),
            ("al-2", "4", "y"),
        ] {
            of(&node, tenant).write(index(index_name, id, json!({"k": k}))).unwrap();
        }
    }
    let a = of(&node, "a");
    assert_eq!(a.ids("mx", json!({"match_all": {}})), ["1", "3", "4"]);
    assert_eq!(a.ids("mx", json!({"term": {"k": "y"}})), ["4"]);
    // It names an index, so no tenant index is created in its place.
    a.write(index("narrow", "5", json!({"k": "x"}))).unwrap();
    assert!(a.get("al-3", "5").is_some());
    assert_eq!(a.ids("narrow", json!({"match_all": {}})), Vec::<String>::new());
    let seen = node.run(node.engine.metadata(&a.ctx)).unwrap();
    assert_eq!(seen.indices["al-3"].aliases["narrow"].print(), json!({}));
    let whole = node.run(node.engine.metadata(&RequestContext::new())).unwrap();
    assert_eq!(
        whole.indices["al-3"].aliases["narrow"].print(),
        json!({"filter": filter})
    );
}

#[test]
fn names_limit_what_a_tenant_may_use() {
    let node = shared();
    let scope = Scope::tenant(TenantId::parse("a").unwrap()).within(vec!["logs-*".to_owned()]);
    let limited = Tenant {
        node: &node,
        ctx: RequestContext {
            scope: Arc::new(scope),
            ..RequestContext::new()
        },
    };
    assert_eq!(
        limited.refused(index("other", "1", json!({}))).kind(),
        ErrorKind::Forbidden
    );
    assert_eq!(
        limited.refused(index("shared", "1", json!({}))).kind(),
        ErrorKind::Forbidden
    );
    limited.write(index("logs-1", "1", json!({}))).unwrap();
    assert_eq!(limited.ids("*", json!({"match_all": {}})), ["1"]);
    assert!(of(&node, "a").get("logs-1", "1").is_some(), "the tenant's all the same");
}

#[test]
fn versions_and_sequence_numbers_are_those_of_the_tenants_document() {
    let node = shared();
    let (a, b) = (of(&node, "a"), of(&node, "b"));
    b.write(index("shared", "1", json!({}))).unwrap();
    let expect = |seq_no| BulkItem {
        expect: Expectation::SeqNo {
            seq_no,
            primary_term: 1,
        },
        ..index("shared", "1", json!({}))
    };
    for seq_no in 0..3 {
        let error = a.refused(expect(seq_no));
        assert_eq!(
            error.reason(),
            format!("[1]: version conflict, required seqNo [{seq_no}], primary term [1]. but no document was found")
        );
    }
    let external = BulkItem {
        expect: Expectation::External(5),
        ..index("shared", "1", json!({}))
    };
    a.write(external).unwrap();
    assert_eq!(b.write(index("shared", "1", json!({}))).unwrap().1, Effect::Updated);
}

#[test]
fn ids_stay_separate_by_tenant_through_restarts_and_merges() {
    let node = shared();
    for round in 0..3 {
        for tenant in ["a", "b"] {
            of(&node, tenant)
                .write(index("shared", "1", json!({"round": round})))
                .unwrap();
        }
        node.flush("shared");
    }
    of(&node, "a").write(index("shared", "2", json!({}))).unwrap();
    let node = node.reopen();
    let merge = firn_engine::admin::ForceMergeRequest {
        target: target("shared"),
        max_num_segments: Some(1),
        only_expunge_deletes: false,
        flush: true,
    };
    node.run(node.engine.force_merge(&RequestContext::new(), merge))
        .unwrap();
    assert_eq!(of(&node, "a").ids("shared", json!({"match_all": {}})), ["1", "2"]);
    assert_eq!(of(&node, "b").ids("shared", json!({"match_all": {}})), ["1"]);
    assert_eq!(
        of(&node, "b").get("shared", "1"),
        Some(json!({"tenant": "b", "round": 2}))
    );
    assert_eq!(of(&node, "b").get("shared", "2"), None);
}
