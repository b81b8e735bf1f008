//! Refusals of requests over a quota, and reports of usage.

use std::io::Write as _;
use std::sync::Arc;

use firn_auth::{Control, Identity, NewUser, Password, SignInThrottleLimits};
use firn_model::tenant::{Quotas, TenantId, TenantSettings};
use http_body_util::Full;
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

/// A refused bulk has Elasticsearch's body and stores nothing; sent again, each of its events is stored once.
#[tokio::test]
async fn a_bulk_over_its_quota_is_stored_once_when_it_is_sent_again() {
    let (node, control, anna) = with_tenant();
    let count = async || {
        let answer = ask(&node, &anna, "GET", "/logs/_search", "").await.json();
        answer["hits"]["total"]["value"].as_u64().unwrap()
    };
    let one = Quotas {
        ingest_events_per_second: Some(1),
        ..Quotas::default()
    };
    limit(&control, one);
    assert_eq!((bulk(&node, &anna).await.status(), count().await), (200, 2));
    for _ in 0..3 {
        let refused = bulk(&node, &anna).await;
        let body = refused.json();
        assert_eq!((refused.status(), &body["status"]), (429, &json!(429)));
        assert!(refused.header("content-type").starts_with("application/json"));
        let error = &body["error"];
        assert_eq!(error["root_cause"][0]["type"], error["type"]);
        assert_eq!(error["root_cause"][0]["reason"], error["reason"]);
        assert_eq!(body.get("items"), None, "{body}");
        assert_eq!(count().await, 2, "a refused bulk stores nothing");
    }
    limit(&control, Quotas::default());
    let stored = bulk(&node, &anna).await.json();
    assert_eq!((&stored["errors"], count().await), (&json!(false), 4));
}

async fn compressed(node: &Node, who: &str, body: Vec<u8>) -> Answer {
    let request = http::Request::post("/logs/_bulk")
        .header("authorization", who)
        .header("content-type", "application/x-ndjson")
        .header("content-encoding", "gzip");
    node.send_request(request.body(Full::new(body.into())).unwrap()).await
}

/// The end of the body is damaged, which only what decompresses all of it notices.
#[tokio::test]
async fn a_quota_is_checked_before_a_body_is_decompressed() {
    let (node, control, anna) = with_tenant();
    let gzip = |text: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let damaged = |first: &str| {
        let mut packed = gzip(&format!("{first}{}", BULK.repeat(20_000)));
        let end = packed.len() - 6;
        packed[end] ^= 1;
        packed
    };
    let creates = || damaged(BULK);
    let deletes = || damaged("\n{\"delete\":{\"_id\":\"none\"}}\n");
    assert_eq!(compressed(&node, &anna, creates()).await.status(), 400);
    let quota = async |who: &str, body: Vec<u8>| {
        let answer = compressed(&node, who, body).await;
        (answer.status(), answer.json()["error"]["quota"].clone())
    };
    let full = Quotas {
        stored_bytes: Some(34_000),
        ..Quotas::default()
    };
    limit(&control, full);
    assert_eq!(quota(&anna, creates()).await, (429, json!("stored_bytes")));
    // Whether it has events is not known before it is decompressed.
    assert_eq!(quota(&anna, deletes()).await.0, 400);
    let only_deletes = gzip("{\"delete\":{\"_id\":\"none\"}}\n");
    assert_eq!(quota(&anna, only_deletes).await.0, 200, "deletes free space");
    let with_events = gzip(&format!("{{\"delete\":{{\"_id\":\"none\"}}}}\n{BULK}"));
    assert_eq!(quota(&anna, with_events).await, (429, json!("stored_bytes")));
    let one = Quotas {
        ingest_events_per_second: Some(1),
        ..Quotas::default()
    };
    limit(&control, one);
    assert_eq!(bulk(&node, &anna).await.status(), 200);
    for body in [creates(), deletes()] {
        let refused = compressed(&node, &anna, body).await;
        assert_eq!(refused.status(), 429, "{}", refused.text());
        assert_eq!(refused.json()["error"]["quota"], "ingest_events_per_second");
    }
    // The quotas of another caller decide nothing.
    let operator = basic("elastic", "correct horse");
    assert_eq!(compressed(&node, &operator, creates()).await.status(), 400);
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
