//! Tests of a purge: a tenant is removed from every index that holds events by tenant.

use std::sync::Arc;

use firn_engine::admin::{PurgeOutcome, PurgeRequest, PurgedIndex};
use firn_engine::{Engine, ErrorKind, RequestContext, Result, Scope};
use firn_model::metadata::Command;
use firn_model::tenant::TenantId;
use serde_json::json;

use crate::node::{Node, add, ctx};

fn purge(node: &Node, ctx: &RequestContext, tenant: &str, before_ms: Option<i64>) -> Result<PurgeOutcome> {
    let request = PurgeRequest {
        tenant: TenantId::parse(tenant).unwrap(),
        before_ms,
        index: None,
    };
    node.run(node.engine.purge_tenant(ctx, request))
}

fn with_events() -> Node {
    let node = Node::new();
    for name in ["logs", "metrics"] {
        node.create(
            name,
            json!({"settings": {"index.number_of_shards": 2, "index.tenant.field": "tenant"}}),
        )
        .unwrap();
    }
    // In this index the field has no special meaning.
    node.create("plain", json!({})).unwrap();
    for name in ["logs", "plain"] {
        for number in 0..30 {
            let tenant = ["acme", "zeta", "omega"][number % 3];
            let event = json!({"tenant": tenant, "@timestamp": number, "message": format!("event {number}")});
            node.write(add(name, event));
        }
    }
    node
}

#[test]
fn a_purge_reaches_every_tenant_index_and_no_other() {
    let node = with_events();
    let outcome = purge(&node, &ctx(), "acme", None).unwrap();
    assert!(outcome.is_complete(), "{outcome:?}");
    assert_eq!((outcome.documents, outcome.shards.total), (10, 4));
    let logs = PurgedIndex {
        index: "logs".to_owned(),
        documents: 10,
        segments: 1,
    };
    assert_eq!(outcome.indices, [logs]);
    let node = node.reopen();
    let of = |name: &str| node.count(name, json!({"term": {"tenant": "acme"}}));
    assert_eq!((of("logs"), of("plain")), (0, 10));
    assert_eq!(node.count("logs", json!({"match_all": {}})), 20);
    assert_eq!(purge(&node, &ctx(), "acme", None).unwrap().indices, []);
    assert_eq!(purge(&node, &ctx(), "zeta", Some(15)).unwrap().documents, 5);
}

#[test]
fn closed_indices_are_listed_and_tenants_may_not_purge() {
    let node = with_events();
    let scope = Scope::tenant(TenantId::parse("acme").unwrap());
    let own = RequestContext {
        scope: Arc::new(scope),
        ..ctx()
    };
    assert_eq!(
        purge(&node, &own, "acme", None).unwrap_err().kind(),
        ErrorKind::Forbidden
    );
    let set_closed = |closed| Command::SetClosed {
        names: vec!["logs".to_owned()],
        closed,
    };
    node.execute(set_closed(true)).unwrap();
    let outcome = purge(&node, &ctx(), "acme", None).unwrap();
    assert!(!outcome.is_complete());
    assert!(
        outcome
            .shards
            .failures
            .iter()
            .all(|(index, _, error)| { (index.as_str(), error.kind()) == ("logs", ErrorKind::IndexClosed) })
    );
    node.execute(set_closed(false)).unwrap();
    assert_eq!(purge(&node, &ctx(), "acme", None).unwrap().documents, 10);
}
