//! Refusals of requests over a quota, and reports of usage.

use std::sync::Arc;

use firn_auth::{Control, Identity, NewUser, Password, SignInThrottleLimits};
use firn_model::tenant::{Quotas, TenantId, TenantSettings};
use serde_json::json;

use crate::fake::{Answer, Node};
use crate::security::{ask, basic, secure};

const PASSWORD: &str = "battery staple";
const BULK: &str = "{\"create\":{}}\n{\"a\":1}\n{\"create\":{}}\n{\"a\":2}\n";

fn acme() -> TenantId {
    TenantId::parse("acme").unwrap()
}

fn limit(control: &Control, quotas: Quotas) {
    let settings = TenantSettings {
        quotas,
        ..TenantSettings::default()
    };
    control.put_tenant(&acme(), settings).unwrap();
}

/// Returns a node with the tenant `acme` and its admin.
fn with_tenant() -> (Node, Arc<Control>, String) {
    let (node, control) = secure(SignInThrottleLimits::default());
    limit(&control, Quotas::default());
    control
        .put_tenant(&TenantId::parse("other").unwrap(), TenantSettings::default())
        .unwrap();
    let user = NewUser {
        password: Some(Password(PASSWORD.to_owned())),
        roles: vec!["tenant_admin".to_owned()],
        full_name: None,
        email: None,
        metadata: json!({"tenant": "acme"}).as_object().unwrap().clone(),
        enabled: true,
    };
    control.put_user(&Identity::open(), "anna", user).unwrap();
    (node, control, basic("anna", PASSWORD))
}

async fn bulk(node: &Node, who: &str) -> Answer {
    let headers = [("authorization", who), ("content-type", "application/x-ndjson")];
    node.send_with("POST", "/logs/_bulk", &headers, BULK).await
}

#[tokio::test]
async fn a_bulk_over_its_quota_is_refused_as_a_whole() {
    let (node, control, anna) = with_tenant();
    assert_eq!(bulk(&node, &anna).await.status(), 200);
    let one = Quotas {
        ingest_events_per_second: Some(1),
        ..Quotas::default()
    };
    limit(&control, one);
    // The burst of two seconds.
    assert_eq!(bulk(&node, &anna).await.status(), 200);
    let refused = bulk(&node, &anna).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.response.headers()["retry-after"], "1");
    let error = &refused.json()["error"];
    assert_eq!(error["type"], "quota_exceeded_exception");
    assert_eq!(error["quota"], "ingest_events_per_second");
    let reason = error["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("quota [ingest_events_per_second] of tenant [acme] is used up: its limit is [1]"),
        "{reason}"
    );
    // Single documents count against the same quota; a caller without a tenant has none.
    assert_eq!(ask(&node, &anna, "POST", "/logs/_doc", "{}").await.status(), 429);
    let operator = basic("elastic", "correct horse");
    assert_eq!(bulk(&node, &operator).await.status(), 200);
    // Reads and deletes are no ingest, and a raised quota takes effect at once.
    limit(
        &control,
        Quotas {
            ingest_events_per_second: Some(1_000_000),
            ..one
        },
    );
    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    assert_eq!(bulk(&node, &anna).await.status(), 200);
    limit(
        &control,
        Quotas {
            stored_bytes: Some(34_000),
            ..Quotas::default()
        },
    );
    let full = bulk(&node, &anna).await;
    assert_eq!(
        (full.status(), &full.json()["error"]["quota"]),
        (429, &json!("stored_bytes"))
    );
    assert_eq!(full.response.headers()["retry-after"], "60");
    assert_eq!(ask(&node, &anna, "GET", "/logs/_search", "").await.status(), 200);
    // Deletes free space.
    let deleted = ask(&node, &anna, "DELETE", "/logs/_doc/nothing", "").await;
    assert_ne!(deleted.status(), 429, "{}", deleted.json());
}

#[tokio::test]
async fn a_quota_is_checked_before_pipelines_run() {
    let (node, control, anna) = with_tenant();
    let one = Quotas {
        ingest_events_per_second: Some(1),
        ..Quotas::default()
    };
    limit(&control, one);
    assert_eq!(bulk(&node, &anna).await.status(), 200);
    // A pipeline that is looked for is one that would run.
    let headers = [("authorization", &*anna), ("content-type", "application/x-ndjson")];
    let refused = node
        .send_with("POST", "/logs/_bulk?pipeline=missing", &headers, BULK)
        .await;
    assert_eq!(refused.status(), 429, "{}", refused.json());
    let refused = ask(&node, &anna, "POST", "/logs/_doc?pipeline=missing", "{}").await;
    assert_eq!(refused.status(), 429, "{}", refused.json());
    limit(&control, Quotas::default());
    let missing = ask(&node, &anna, "POST", "/logs/_doc?pipeline=missing", "{}").await;
    assert_eq!(missing.status(), 400, "{}", missing.json());
}

#[tokio::test]
async fn searches_are_refused_by_their_quota() {
    let (node, control, anna) = with_tenant();
    assert_eq!(ask(&node, &anna, "GET", "/_search", "").await.status(), 200);
    limit(
        &control,
        Quotas {
            concurrent_searches: Some(0),
            ..Quotas::default()
        },
    );
    for path in ["/_search", "/_count", "/logs/_field_caps?fields=*"] {
        let refused = ask(&node, &anna, "GET", path, "").await;
        assert_eq!(
            (refused.status(), &refused.json()["error"]["quota"]),
            (429, &json!("concurrent_searches")),
            "{path}"
        );
        assert_eq!(refused.response.headers()["retry-after"], "1");
    }
    limit(
        &control,
        Quotas {
            concurrent_searches: Some(1),
            ..Quotas::default()
        },
    );
    for _ in 0..3 {
        assert_eq!(
            ask(&node, &anna, "GET", "/_search", "").await.status(),
            200,
            "one after the other"
        );
    }
}

#[tokio::test]
async fn operators_and_the_tenant_see_its_usage() {
    let (node, control, anna) = with_tenant();
    assert_eq!(bulk(&node, &anna).await.status(), 200);
    limit(
        &control,
        Quotas {
            concurrent_searches: Some(0),
            ..Quotas::default()
        },
    );
    assert_eq!(ask(&node, &anna, "GET", "/_search", "").await.status(), 429);
    let operator = basic("elastic", "correct horse");
    for who in [&anna, &operator] {
        let answer = ask(&node, who, "GET", "/_firn/tenants/acme/usage", "").await;
        assert_eq!(answer.status(), 200);
        let usage = answer.json();
        assert_eq!(
            (&usage["events"], &usage["stored_bytes"]),
            (
                &json!(1200),
                &json!({"hot": 30_000, "warm": 3_000, "cold": 1_000, "frozen": 500_000, "total": 534_000})
            )
        );
        assert_eq!(
            (&usage["ingest"]["events_total"], &usage["ingest"]["bytes_total"]),
            (&json!(2), &json!(BULK.len()))
        );
        assert!(usage["ingest"]["events_per_second"].as_f64().unwrap() > 0.0, "{usage}");
        assert_eq!(usage["requests_refused_by_quota"], 1);
    }
    // A tenant sees only its own usage, with the same error whether or not another tenant exists.
    let other = ask(&node, &anna, "GET", "/_firn/tenants/other/usage", "").await;
    let noname = ask(&node, &anna, "GET", "/_firn/tenants/noname/usage", "").await;
    assert_eq!((other.status(), noname.status()), (404, 404));
    assert_eq!(other.text().replace("other", "noname"), noname.text());
    assert_eq!(
        ask(&node, &operator, "GET", "/_firn/tenants/other/usage", "")
            .await
            .json()["events"],
        0
    );
    let metrics = ask(&node, &operator, "GET", "/metrics", "").await.text();
    for line in [
        "firn_tenant_events{tenant=\"acme\"} 1200",
        "firn_tenant_ingested_events_total{tenant=\"acme\"} 2",
        "firn_tenant_quota_refusals_total{tenant=\"acme\"} 1",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
}
