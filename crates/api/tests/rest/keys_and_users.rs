//! `_security` and `_firn/tenants`, in Elasticsearch's shapes where it has them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_auth::SignInThrottleLimits;
use serde_json::{Value, json};

use crate::fake::{NOW_MS, Node};
use crate::security::{ask, basic, secure};

const PASSWORD: &str = "correct horse";

/// Returns a node and the credentials of its operator.
fn node() -> (Node, String) {
    let (node, _) = secure(SignInThrottleLimits::default());
    (node, basic("elastic", PASSWORD))
}

async fn ok(node: &Node, who: &str, method: &str, uri: &str, body: Value) -> Value {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let answer = ask(node, who, method, uri, &body).await;
    assert!(
        answer.response.status().is_success(),
        "{method} {uri}: {}",
        answer.text()
    );
    answer.json()
}

async fn fails(node: &Node, who: &str, method: &str, uri: &str, body: Value) -> String {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let answer = ask(node, who, method, uri, &body).await;
    let error = &answer.json()["error"];
    format!(
        "{} {} {}",
        answer.status(),
        error["type"].as_str().unwrap_or("?"),
        error["reason"].as_str().unwrap_or("?")
    )
}

/// Creates a tenant with an admin and returns the credentials of the admin.
async fn tenant(node: &Node, operator: &str, name: &str) -> String {
    ok(node, operator, "PUT", &format!("/_firn/tenants/{name}"), json!({})).await;
    let user = json!({"password": PASSWORD, "roles": ["tenant_admin"], "metadata": {"tenant": name}});
    ok(node, operator, "PUT", &format!("/_security/user/{name}-admin"), user).await;
    basic(&format!("{name}-admin"), PASSWORD)
}

#[tokio::test]
async fn a_key_is_created_used_listed_and_invalidated() {
    let (node, operator) = node();
    let admin = tenant(&node, &operator, "acme").await;
    let body = json!({"name": "shipper", "expiration": "1d", "metadata": {"app": "x"},
        "role_descriptors": {"w": {"indices": [{"names": ["logs-*"], "privileges": ["write"]}]}}});
    let made = ok(&node, &admin, "POST", "/_security/api_key", body).await;
    assert_eq!(made["name"], "shipper");
    assert_eq!(made["expiration"], NOW_MS + 86_400_000);
    let pair = format!("{}:{}", made["id"].as_str().unwrap(), made["api_key"].as_str().unwrap());
    assert_eq!(made["encoded"], STANDARD.encode(&pair));
    let key = format!("ApiKey {}", made["encoded"].as_str().unwrap());

    let me = ok(&node, &key, "GET", "/_security/_authenticate", Value::Null).await;
    assert_eq!(me["authentication_type"], "api_key");
    assert_eq!(me["api_key"], json!({"id": made["id"], "name": "shipper"}));
    assert_eq!(me["metadata"], json!({"app": "x", "tenant": "acme"}));
    ok(&node, &key, "POST", "/logs-1/_doc", json!({"a": 1})).await;
    assert_eq!(
        fails(&node, &key, "GET", "/logs-1/_search", Value::Null).await,
        format!(
            "403 security_exception action [indices:data/read/search] is unauthorized for API key id [{}] of user \
             [acme-admin], this action is granted by the index privileges [read,all]",
            made["id"].as_str().unwrap()
        )
    );

    let listed = ok(
        &node,
        &admin,
        "GET",
        "/_security/api_key?owner=true&with_limited_by=true",
        Value::Null,
    )
    .await;
    let listed = &listed["api_keys"][0];
    assert_eq!(
        (&listed["username"], &listed["invalidated"]),
        (&json!("acme-admin"), &json!(false))
    );
    assert_eq!(listed["last_used"], NOW_MS);
    assert_eq!(listed["role_descriptors"]["w"]["indices"][0]["privileges"][0], "write");
    assert!(listed["limited_by"][0]["tenant_admin"].is_object());
    assert!(listed.get("api_key").is_none() && !listed.to_string().contains(made["api_key"].as_str().unwrap()));

    let ended = ok(
        &node,
        &admin,
        "DELETE",
        "/_security/api_key",
        json!({"ids": [made["id"]]}),
    )
    .await;
    assert_eq!(ended["invalidated_api_keys"], json!([made["id"]]));
    let answer = ask(&node, &key, "GET", "/", "").await;
    assert_eq!(answer.status(), 401);
    assert_eq!(
        answer.json()["error"]["additional_unsuccessful_credentials"],
        "API key: api key has been invalidated"
    );
    assert_eq!(
        ask(&node, &admin, "GET", "/_security/api_key?id=nosuch", "")
            .await
            .status(),
        404
    );
}

#[tokio::test]
async fn bodies_of_keys_are_checked() {
    let (node, operator) = node();
    let check = async |body: Value, expect: &str| {
        let got = fails(&node, &operator, "POST", "/_security/api_key", body).await;
        assert!(got.contains(expect), "{got}");
    };
    check(Value::Null, "request body is required").await;
    check(
        json!({"name": ""}),
        "400 action_request_validation_exception Validation Failed: 1: api key name is required",
    )
    .await;
    check(json!({"name": "a", "expires": "1d"}), "unexpected field [expires]").await;
    check(
        json!({"name": "a", "expiration": "tomorrow"}),
        "illegal_argument_exception",
    )
    .await;
    let role = |entry: Value| json!({"name": "a", "role_descriptors": {"r": {"indices": [entry]}}});
    check(
        role(json!({"names": ["a"], "privileges": ["reed"]})),
        "unknown index privilege [reed]",
    )
    .await;
    check(
        role(json!({"names": ["a"], "privileges": ["create_doc"]})),
        "not_implemented_exception",
    )
    .await;
    let query = json!({"names": ["a"], "privileges": ["read"], "query": {"match_all": {}}});
    check(role(query), "not_implemented_exception [query]").await;
    check(
        json!({"name": "a", "metadata": {"tenant": "noname"}}),
        "no tenant [noname] is declared",
    )
    .await;
    check(
        json!({"name": "a", "metadata": {"_reserved": 1}}),
        "metadata keys may not start with [_]",
    )
    .await;
    let none = fails(&node, &operator, "DELETE", "/_security/api_key", json!({})).await;
    assert!(none.contains("One of [api key id(s)"), "{none}");
}

#[tokio::test]
async fn users_come_and_go() {
    let (node, operator) = node();
    let body = json!({"password": PASSWORD, "roles": ["reader"], "full_name": "Me", "metadata": {"a": 1}});
    assert_eq!(
        ok(&node, &operator, "PUT", "/_security/user/me", body.clone()).await,
        json!({"created": true})
    );
    assert_eq!(
        ok(&node, &operator, "POST", "/_security/user/me", body).await,
        json!({"created": false})
    );
    assert_eq!(
        ok(&node, &operator, "GET", "/_security/user/me", Value::Null).await,
        json!({"me": {"username": "me", "roles": ["reader"], "full_name": "Me", "email": null,
                      "metadata": {"a": 1}, "enabled": true}})
    );
    let role = json!({"indices": [{"names": ["web-*"], "privileges": ["read", "view_index_metadata"]}]});
    assert_eq!(
        ok(&node, &operator, "PUT", "/_security/role/reader", role).await,
        json!({"role": {"created": true}})
    );
    let me = basic("me", PASSWORD);
    let requested = json!({"cluster": ["monitor"], "index": [{"names": ["web-1", "mail"], "privileges": ["read"]}]});
    let has = ok(&node, &me, "POST", "/_security/user/_has_privileges", requested).await;
    assert_eq!(
        has,
        json!({"username": "me", "has_all_requested": false, "cluster": {"monitor": false},
               "index": {"web-1": {"read": true}, "mail": {"read": false}}, "application": {}})
    );

    ok(
        &node,
        &me,
        "PUT",
        "/_security/user/_password",
        json!({"password": "another one"}),
    )
    .await;
    assert_eq!(ask(&node, &me, "GET", "/", "").await.status(), 401);
    let me = basic("me", "another one");
    assert_eq!(
        fails(&node, &me, "GET", "/_security/user", Value::Null).await,
        "403 security_exception action [cluster:admin/xpack/security/user/get] is unauthorized for user [me] with \
         effective roles [reader], this action is granted by the cluster privileges [manage_tenant,manage_security,all]"
    );
    ok(&node, &operator, "PUT", "/_security/user/me/_disable", Value::Null).await;
    assert_eq!(ask(&node, &me, "GET", "/", "").await.status(), 401);
    assert_eq!(
        ok(&node, &operator, "DELETE", "/_security/user/me", Value::Null).await,
        json!({"found": true})
    );
    assert_eq!(
        ask(&node, &operator, "DELETE", "/_security/user/me", "").await.status(),
        404
    );
    assert_eq!(
        ask(&node, &operator, "GET", "/_security/user/me", "").await.text(),
        "{}"
    );
}

#[tokio::test]
async fn the_rights_of_a_tenant_s_roles() {
    let (node, operator) = node();
    let admin = tenant(&node, &operator, "acme").await;
    for role in ["reader", "writer"] {
        let user = json!({"password": PASSWORD, "roles": [format!("tenant_{role}")]});
        ok(&node, &admin, "PUT", &format!("/_security/user/{role}"), user).await;
    }
    let (reader, writer) = (basic("reader", PASSWORD), basic("writer", PASSWORD));
    let document = r#"{"a":1}"#;
    // Endpoint, then the statuses of reader, writer and admin: refused, or allowed if the target exists.
    let cases = [
        ("POST", "/a/_doc", document, [403, 201, 201]),
        ("GET", "/a/_search", "", [200, 403, 200]),
        ("GET", "/a/_mapping", "", [200, 200, 200]),
        ("GET", "/a/_stats", "", [200, 403, 200]),
        ("POST", "/a/_refresh", "", [403, 200, 200]),
        ("POST", "/a/_forcemerge", "", [403, 403, 403]),
        ("POST", "/a/_close", "", [403, 403, 403]),
        ("POST", "/nosuch/_close", "", [403, 403, 403]),
        // The engine decides whether the index belongs to the tenant.
        ("PUT", "/made", "{}", [403, 403, 200]),
        ("PUT", "/made/_mapping", "{}", [403, 403, 200]),
        ("DELETE", "/made", "", [403, 403, 200]),
        ("PUT", "/_cluster/settings", "{}", [403, 403, 403]),
        ("GET", "/_nodes/stats", "", [403, 403, 403]),
        ("GET", "/_index_template", "", [403, 403, 403]),
        ("GET", "/_security/user", "", [403, 403, 200]),
        ("GET", "/_security/role", "", [403, 403, 403]),
        ("PUT", "/_firn/tenants/acme", "{}", [403, 403, 403]),
        ("GET", "/_firn/tenants/acme", "", [403, 403, 200]),
        ("GET", "/_firn/tenants/other", "", [403, 403, 404]),
        ("GET", "/_firn/tenants/_default", "", [403, 403, 400]),
        ("GET", "/", "", [200, 200, 200]),
    ];
    ok(&node, &operator, "POST", "/a/_doc", json!({"a": 1})).await;
    for (method, uri, body, expect) in cases {
        for (who, expect) in [&reader, &writer, &admin].into_iter().zip(expect) {
            let answer = ask(&node, who, method, uri, body).await;
            assert_eq!(answer.status(), expect, "{method} {uri}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn a_monitor_of_the_cluster_sees_its_health_and_templates() {
    let (node, operator) = node();
    let users = [
        ("cluster", json!({"cluster": ["monitor"]})),
        (
            "indices",
            json!({"indices": [{"names": ["a"], "privileges": ["monitor"]}]}),
        ),
        ("templates", json!({"cluster": ["manage_index_templates"]})),
        (
            "nothing",
            json!({"indices": [{"names": ["a"], "privileges": ["read"]}]}),
        ),
    ];
    for (name, role) in users {
        ok(&node, &operator, "PUT", &format!("/_security/role/{name}"), role).await;
        let user = json!({"password": PASSWORD, "roles": [name]});
        ok(&node, &operator, "PUT", &format!("/_security/user/{name}"), user).await;
    }
    for name in ["a", "b"] {
        ok(&node, &operator, "PUT", &format!("/{name}"), Value::Null).await;
    }
    let cases = [
        ("/_cluster/health", [200, 200, 403, 403]),
        ("/_cat/health", [200, 200, 403, 403]),
        ("/_cat/templates", [200, 403, 200, 403]),
        ("/_index_template", [200, 403, 200, 403]),
        ("/_component_template", [200, 403, 200, 403]),
        ("/_cat/nodes", [200, 403, 403, 403]),
        ("/_cat/indices", [403, 200, 403, 403]),
    ];
    for (uri, expect) in cases {
        for (name, expect) in ["cluster", "indices", "templates", "nothing"].into_iter().zip(expect) {
            let answer = ask(&node, &basic(name, PASSWORD), "GET", uri, "").await;
            assert_eq!(answer.status(), expect, "{name} {uri}: {}", answer.text());
        }
    }
    let health = async |name: &str| {
        let uri = "/_cluster/health?level=indices";
        let health = ok(&node, &basic(name, PASSWORD), "GET", uri, Value::Null).await;
        health["indices"].as_object().unwrap().len()
    };
    assert_eq!((health("cluster").await, health("indices").await), (2, 1));
    let refused = fails(
        &node,
        &basic("nothing", PASSWORD),
        "GET",
        "/_cluster/health",
        Value::Null,
    )
    .await;
    assert!(
        refused.ends_with("by the cluster privileges [monitor,manage,all]"),
        "{refused}"
    );
    let put = ask(
        &node,
        &basic("cluster", PASSWORD),
        "PUT",
        "/_index_template/t",
        r#"{"index_patterns":["x"]}"#,
    )
    .await;
    assert_eq!(put.status(), 403);
}

#[tokio::test]
async fn callers_can_list_their_privileges() {
    let (node, operator) = node();
    let path = "/_security/user/_privileges";
    let privileges = ok(&node, &operator, "GET", path, Value::Null).await;
    let all = json!([{"names": ["*"], "privileges": ["all"], "allow_restricted_indices": false}]);
    assert_eq!(
        privileges,
        json!({"cluster": ["all"], "global": [], "indices": all, "applications": [], "run_as": []})
    );
    let entry = json!({"names": ["logs-*", "web"], "privileges": ["read", "monitor"]});
    let one = json!({"cluster": ["monitor", "manage_own_api_key"], "indices": [entry]});
    let other = json!({"cluster": ["monitor"], "indices": [entry, {"names": ["x"], "privileges": ["write"]}]});
    for (name, role) in [("one", one), ("other", other)] {
        ok(&node, &operator, "PUT", &format!("/_security/role/{name}"), role).await;
    }
    let user = json!({"password": PASSWORD, "roles": ["one", "other"]});
    ok(&node, &operator, "PUT", "/_security/user/jane", user).await;
    let jane = basic("jane", PASSWORD);
    let privileges = ok(&node, &jane, "GET", path, Value::Null).await;
    assert_eq!(privileges["cluster"], json!(["manage_own_api_key", "monitor"]));
    let names: Vec<&Value> = privileges["indices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["names"])
        .collect();
    assert_eq!(names, [&json!(["logs-*", "web"]), &json!(["x"])]);
    // Users of a tenant have no privileges on the node.
    ok(&node, &operator, "PUT", "/_firn/tenants/acme", json!({})).await;
    let user = json!({"password": PASSWORD, "roles": ["one"], "metadata": {"tenant": "acme"}});
    ok(&node, &operator, "PUT", "/_security/user/ann", user).await;
    let privileges = ok(&node, &basic("ann", PASSWORD), "GET", path, Value::Null).await;
    assert_eq!(privileges["cluster"], json!(["manage_own_api_key"]));

    let key = async |body: Value| {
        let key = ok(&node, &jane, "POST", "/_security/api_key", body).await;
        format!("ApiKey {}", key["encoded"].as_str().unwrap())
    };
    let whole = key(json!({"name": "whole"})).await;
    assert_eq!(
        ok(&node, &whole, "GET", path, Value::Null).await["cluster"],
        json!(["manage_own_api_key", "monitor"])
    );
    let less = key(json!({"name": "less", "role_descriptors": {"r": {"cluster": ["monitor"]}}})).await;
    let refused = fails(&node, &less, "GET", path, Value::Null).await;
    assert!(
        refused.starts_with("400 illegal_argument_exception Cannot retrieve privileges"),
        "{refused}"
    );
    let named = json!({"password": PASSWORD, "roles": []});
    let refused = fails(&node, &operator, "PUT", "/_security/user/_jane", named).await;
    assert!(refused.contains("leading [_]"), "{refused}");
}

#[tokio::test]
async fn refusals_do_not_tell_what_exists() {
    let (node, operator) = node();
    let admin = tenant(&node, &operator, "acme").await;
    ok(&node, &operator, "PUT", "/there", Value::Null).await;
    let there = ask(&node, &admin, "POST", "/there/_close", "").await;
    let nowhere = ask(&node, &admin, "POST", "/nowhere/_close", "").await;
    assert_eq!((there.status(), there.text()), (403, nowhere.text()));
}

#[tokio::test]
async fn tenants_are_declared_and_inherit() {
    let (node, operator) = node();
    let defaults = json!({"retention": "30d", "quotas": {"concurrent_searches": 4}});
    ok(&node, &operator, "PUT", "/_firn/tenants/_default", defaults).await;
    let body = json!({"display_name": "Acme", "quotas": {"stored_bytes": "1gb"}});
    let made = ok(&node, &operator, "PUT", "/_firn/tenants/acme", body).await;
    assert_eq!(made, json!({"acknowledged": true, "created": true}));
    assert_eq!(
        ok(&node, &operator, "GET", "/_firn/tenants/acme", Value::Null).await,
        json!({"id": "acme", "created": NOW_MS, "display_name": "Acme", "quotas": {"stored_bytes": 1_u64 << 30},
               "effective": {"display_name": "Acme", "retention": "30d",
                             "quotas": {"stored_bytes": 1_u64 << 30, "concurrent_searches": 4}}})
    );
    let all = ok(&node, &operator, "GET", "/_firn/tenants", Value::Null).await;
    assert_eq!(all["tenants"].as_array().unwrap().len(), 1);
    let bad = fails(&node, &operator, "PUT", "/_firn/tenants/a*", json!({})).await;
    assert!(
        bad.starts_with("400 illegal_argument_exception invalid tenant id [a*]"),
        "{bad}"
    );
    let missing = fails(&node, &operator, "GET", "/_firn/tenants/noname", Value::Null).await;
    assert_eq!(
        missing,
        "404 resource_not_found_exception no tenant [noname] is declared"
    );
}
