//! Tests that unused indices created by a tenant's writes are removed with the tenant, unless an operator changed them.

use firn_engine::{Engine, RequestContext};
use firn_model::metadata::Command;
use firn_model::tenant::TenantId;
use serde_json::json;

use crate::isolation::of;
use crate::node::{Node, delete, index};
use crate::snapshots::{restore, restore_request, snapshot, with_repository};

/// Lets writes of a tenant create indices of these names, which have no documents.
fn make_unused(node: &Node, names: &[&str]) -> TenantId {
    let body = json!({"index_patterns": ["n-*"], "template": {"settings": {"index.tenant.field": "tenant"}}});
    node.execute(Command::PutIndexTemplate {
        name: "plain".to_owned(),
        body,
        create: false,
    })
    .unwrap();
    for name in names {
        of(node, "a").write(index(name, "1", json!({}))).unwrap();
        of(node, "a").write(delete(name, "1")).unwrap();
    }
    TenantId::parse("a").unwrap()
}

fn names(node: &Node) -> Vec<String> {
    let metadata = node.run(node.engine.metadata(&RequestContext::new())).unwrap();
    metadata.indices.keys().cloned().collect()
}

#[test]
fn an_index_that_an_operator_changed_meanwhile_stays() {
    let node = Node::new();
    let tenant = make_unused(&node, &["n-changed", "n-unused"]);
    let metadata = node.run(node.engine.metadata(&RequestContext::new())).unwrap();
    let drop = |name: &str| Command::DropUnused {
        tenant: tenant.clone(),
        stream: None,
        indices: [(name.to_owned(), metadata.indices[name].uuid.clone())].into(),
    };
    node.execute(Command::PutMapping {
        names: vec!["n-changed".to_owned()],
        mapping: json!({"properties": {"severity": {"type": "keyword"}}}),
    })
    .unwrap();
    node.execute(drop("n-changed")).unwrap();
    node.execute(drop("n-unused")).unwrap();
    assert_eq!(names(&node), ["n-changed"]);
}

#[test]
fn an_index_that_an_operator_restored_does_not_belong_to_the_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_repository(folder.path());
    let tenant = make_unused(&node, &["n-1"]);
    snapshot(&node, "first", "n-1").unwrap();
    let mut request = restore_request("first", &["n-1"]);
    request.rename = Some(("(.+)".to_owned(), "archive-$1".to_owned()));
    restore(&node, request).unwrap();
    let operator = RequestContext::new();
    let gone = node
        .run(node.engine.drop_unused_of(&operator, tenant))
        .unwrap()
        .require()
        .unwrap();
    assert_eq!(gone, ["n-1"]);
    assert_eq!(names(&node), ["archive-n-1"]);
}
