//! Indices of a single tenant: created by name, stored under it, and invisible to others.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_testkit::Client;
use serde_json::{Value, json};

use super::{MARK, world};

fn status(client: &Client, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let answer = match body {
        Value::Null => client.send(method, path, None, b"").unwrap(),
        body => client.json(method, path, body).unwrap(),
    };
    (answer.status, answer.json())
}

#[test]
fn an_admin_makes_changes_and_deletes_its_own() {
    let world = world();
    let alpha = &world.alpha;
    let wanted = json!({"index": [{"names": ["brandnew"], "privileges": ["create_index", "manage_own_index"]}]});
    let has = alpha.ok("POST", "/_security/user/_has_privileges", &wanted);
    assert_eq!(has["has_all_requested"], true, "{has}");
    let body = json!({
        "settings": {"number_of_shards": 1, "codec": "best_compression"},
        "mappings": {"properties": {"status": {"type": "long"}}},
    });
    let (made, answer) = status(alpha, "PUT", "/brandnew", &body);
    assert_eq!(made, 200, "{answer}");
    assert_eq!(answer["index"], "brandnew");
    let (twice, answer) = status(alpha, "PUT", "/brandnew", &body);
    assert_eq!(twice, 400);
    assert_eq!(answer["error"]["type"], "resource_already_exists_exception");
    assert_eq!(answer["error"]["index"], "brandnew");
    alpha.ok(
        "PUT",
        "/brandnew/_mapping",
        &json!({"properties": {"more": {"type": "ip"}}}),
    );
    alpha.ok("PUT", "/brandnew/_doc/1?refresh=true", &json!({"status": 5}));
    let found = alpha.ok("POST", "/brandnew/_search", &json!({"sort": ["status", "more"]}));
    assert_eq!(found["hits"]["total"]["value"], 1, "{found}");
    let shown = alpha.ok("GET", "/brandnew", &Value::Null).to_string();
    assert!(shown.contains("more") && !shown.contains("declared_fields"), "{shown}");

    // For other tenants it does not exist, nor do theirs for alpha.
    let missing = |client: &Client, method: &str, name: &str| {
        let (status, body) = status(client, method, &format!("/{name}"), &Value::Null);
        (status, body.to_string().replace(name, "NAME"))
    };
    let theirs = format!("{MARK}-own");
    for name in ["events", "nonames", theirs.as_str()] {
        let response = missing(alpha, "DELETE", name);
        assert_eq!(response.0, 403, "{response:?}");
        assert_eq!(response, missing(alpha, "DELETE", "nothing"));
    }
    assert_eq!(
        missing(&world.bravo, "DELETE", "brandnew"),
        missing(&world.bravo, "DELETE", "nothing")
    );
    for (path, body) in [
        ("/events", json!({})),
        ("/events/_mapping", json!({"properties": {"x": {"type": "ip"}}})),
    ] {
        assert_eq!(status(alpha, "PUT", path, &body).0, 403, "{path}");
    }
    for setting in [
        json!({"index.tenant.owner": "bravo"}),
        json!({"number_of_shards": 9}),
        json!({"index.lifecycle.name": "p"}),
    ] {
        let (refused, answer) = status(alpha, "PUT", "/another", &json!({"settings": setting}));
        assert_eq!(refused, 400, "{answer}");
    }
    assert_eq!(
        status(alpha, "PUT", "/another", &json!({"aliases": {"events": {}}})).0,
        400
    );

    alpha.ok("DELETE", "/brandnew", &Value::Null);
    assert_eq!(missing(alpha, "GET", "brandnew"), missing(alpha, "GET", "nothing"));
    // Users who may only write, or only read, cannot create or delete indices.
    for role in ["tenant_writer", "tenant_reader"] {
        let body = json!({"password": "correct horse", "roles": [role], "metadata": {"tenant": "alpha"}});
        world.operator.ok("PUT", &format!("/_security/user/al-{role}"), &body);
        let basic = STANDARD.encode(format!("al-{role}:correct horse"));
        let user = world.node.client().authorized(format!("Basic {basic}"));
        for (method, path, body) in [
            ("PUT", "/brandnew", json!({})),
            ("DELETE", "/al-own", Value::Null),
            ("PUT", "/al-own/_mapping", json!({})),
        ] {
            assert_eq!(status(&user, method, path, &body).0, 403, "{role} {method} {path}");
        }
    }
}

#[test]
fn its_name_stays_its_own() {
    let world = world();
    let (alpha, bravo, operator) = (&world.alpha, &world.bravo, &world.operator);
    let count =
        |client: &Client, name: &str| client.ok("GET", &format!("/{name}/_count"), &Value::Null)["count"].clone();
    assert_eq!(count(alpha, "al-own"), 5);
    operator.ok("PUT", "/al-own", &json!({"settings": {"index.tenant.field": "tenant"}}));
    bravo.ok("PUT", "/al-own/_doc/1?refresh=true", &json!({"class": MARK}));
    assert_eq!((count(alpha, "al-own"), count(bravo, "al-own")), (json!(5), json!(1)));
    assert_eq!(count(alpha, "al-o*"), 5);
    alpha.ok("GET", "/al-own/_doc/1", &Value::Null);
    alpha.ok("PUT", "/al-own/_doc/new?refresh=true", &json!({"class": "al"}));
    let deleted = alpha.ok(
        "POST",
        "/al-own/_delete_by_query?refresh=true",
        &json!({"query": {"match_all": {}}}),
    );
    assert_eq!(deleted["deleted"], 6, "{deleted}");
    assert_eq!((count(alpha, "al-own"), count(bravo, "al-own")), (json!(0), json!(1)));
    alpha.ok("DELETE", "/al-own", &Value::Null);
    assert_eq!(count(bravo, "al-own"), 1);
    assert_eq!(count(operator, "al-own"), 1);
}

#[test]
fn one_tenant_s_names_leave_room_for_others() {
    let world = world();
    let settings = json!({"persistent": {"cluster.max_shards_per_node": 40}});
    world.operator.ok("PUT", "/_cluster/settings", &settings);
    let template = json!({
        "index_patterns": ["logs-*"],
        "data_stream": {},
        "template": {"settings": {"index.tenant.field": "tenant", "index.period": "week"}},
    });
    world.operator.ok("PUT", "/_index_template/logs", &template);
    let event = json!({"@timestamp": "2026-01-01T00:00:00Z"});
    let made = |client: &Client, name: &str| status(client, "POST", &format!("/{name}/_doc"), &event);
    let answers: Vec<(u16, Value)> = (0..40)
        .map(|number| made(&world.alpha, &format!("logs-{number}")))
        .collect();
    let last = answers.last().unwrap();
    assert_eq!(last.0, 429, "{}", last.1);
    assert_eq!(last.1["error"]["type"], "quota_exceeded_exception");
    assert!(
        last.1["error"]["reason"]
            .as_str()
            .unwrap()
            .contains("a quarter of [cluster.max_shards_per_node]")
    );
    assert!(answers.iter().filter(|answer| answer.0 == 201).count() >= 5);
    let (others, answer) = made(&world.bravo, "logs-of-more");
    assert_eq!(others, 201, "{answer}");
    let shown = world.bravo.ok("GET", "/_data_stream/logs-0", &Value::Null).to_string();
    assert!(!shown.contains("alpha") && !shown.contains("made_by"), "{shown}");
}

#[test]
fn indices_that_its_writes_created_are_deleted_with_it_if_empty() {
    let world = world();
    let (alpha, bravo, operator) = (&world.alpha, &world.bravo, &world.operator);
    let template = json!({"index_patterns": ["made-*"], "template": {"settings": {"index.tenant.field": "tenant"}}});
    operator.ok("PUT", "/_index_template/made", &template);
    for name in ["made-of-both", "made-by-alpha"] {
        alpha.ok("PUT", &format!("/{name}/_doc/1"), &json!({"class": "al"}));
    }
    bravo.ok("PUT", "/made-of-both/_doc/1", &json!({"class": MARK}));
    operator.ok("DELETE", "/_firn/tenants/alpha", &Value::Null);
    let started = Instant::now();
    let deletion = loop {
        let deletion = operator.ok("GET", "/_firn/tenants/alpha/deletion", &Value::Null);
        if deletion["status"] == "done" {
            break deletion;
        }
        assert!(started.elapsed() < Duration::from_secs(90), "{deletion}");
        std::thread::sleep(Duration::from_millis(100));
    };
    let state_of = |name: &str| {
        let indices = deletion["indices"].as_array().unwrap().iter();
        let mut indices = indices.filter(|index| index["index"] == name);
        indices.next().map(|index| index["state"].clone())
    };
    assert_eq!(state_of("made-by-alpha"), Some(json!("index removed")), "{deletion}");
    assert_ne!(state_of("made-of-both"), Some(json!("index removed")), "{deletion}");
    assert_eq!(operator.get("/made-by-alpha").unwrap().status, 404);
    bravo.ok("GET", "/made-of-both/_doc/1", &Value::Null);
    operator.ok("GET", "/_data_stream/events", &Value::Null);
}
