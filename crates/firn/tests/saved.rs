//! Saved searches and dashboards against the real process: ownership, versions, and durability.

mod support;

use firn_testkit::{Answer, Client};
use serde_json::{Value, json};

use support::browser::{Browser, PASSWORD, settle, start};

fn object(title: &str) -> Value {
    json!({"title": title, "description": "for all of us", "state": {"search": format!("q={title}"), "more": [1, null, {"a": "ä"}]}})
}

fn titles(browser: &Browser, query: &str) -> Vec<String> {
    let answer = browser.get(&format!("/_firn/saved{query}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let saved = answer.json()["saved"].as_array().cloned().unwrap();
    saved
        .iter()
        .map(|saved| saved["title"].as_str().unwrap().to_owned())
        .collect()
}

fn error(answer: &Answer) -> (u16, String) {
    let body = answer.json();
    (
        answer.status,
        body["error"]["type"].as_str().unwrap_or_default().to_owned(),
    )
}

#[test]
fn users_of_a_tenant_share_saved_objects() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let by_password = settle(&node);
    let sign_in = |name: &str| Browser::sign_in(node.client(), name);
    let (ann, amy, bob, operator) = (sign_in("ann"), sign_in("amy"), sign_in("bob"), sign_in("elastic"));

    let made = ann.send("POST", "/_firn/saved/search", &object("errors"));
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    let id = made["id"].as_str().unwrap();
    assert_eq!(id.len(), 20);
    assert_eq!(
        (
            &made["type"],
            &made["title"],
            &made["version"],
            &made["updated_by"],
            &made["tenant"]
        ),
        (
            &json!("search"),
            &json!("errors"),
            &json!(1),
            &json!("ann"),
            &json!("acme")
        )
    );
    assert!(made["updated_ms"].as_i64() > Some(1_600_000_000_000), "{made}");
    assert_eq!(made["state"], Value::Null, "the client that saves it has it");
    let put = amy.send("PUT", "/_firn/saved/dashboard/web-log", &object("Web log"));
    assert_eq!(put.status, 201, "{}", put.text());
    assert_eq!(
        (titles(&ann, ""), titles(&amy, "?type=search")),
        (
            vec!["errors".to_owned(), "Web log".to_owned()],
            vec!["errors".to_owned()]
        )
    );
    let got = amy.get(&format!("/_firn/saved/search/{id}")).json();
    assert_eq!(
        (&got["state"], &got["description"]),
        (&object("errors")["state"], &json!("for all of us"))
    );
    assert_eq!(
        amy.get("/_firn/saved").json()["saved"][0]["state"],
        Value::Null,
        "lists are short"
    );

    // They do not exist for other tenants, not even for callers who may read all events.
    for other in [&bob, &operator] {
        assert!(titles(other, "").is_empty());
        for (method, body) in [
            ("GET", Value::Null),
            ("DELETE", Value::Null),
            ("PUT", object("taken over")),
        ] {
            let version = if method == "GET" { "" } else { "?version=1" };
            let answer = other.send(method, &format!("/_firn/saved/search/{id}{version}"), &body);
            let expect = if method == "PUT" { 409 } else { 404 };
            assert_eq!(answer.status, expect, "{method} {}", answer.text());
            assert!(
                !answer.text().contains("errors") && !answer.text().contains("acme"),
                "{}",
                answer.text()
            );
        }
        assert_eq!(
            other
                .send("PUT", &format!("/_firn/saved/search/{id}"), &object("their own"))
                .status,
            201
        );
        assert_eq!(titles(other, ""), ["their own"]);
    }
    assert_eq!(amy.get(&format!("/_firn/saved/search/{id}")).json(), got);
    // In the view of a tenant an operator can read its objects, but not change them.
    let view = json!({"tenant": "acme", "reason": "ticket 1"});
    let operator = operator.with_view(&operator.send("POST", "/_firn/session/view", &view));
    assert_eq!(titles(&operator, ""), ["errors", "Web log"]);
    for (method, path, body) in [
        ("POST", "/_firn/saved/search".to_owned(), object("x")),
        ("PUT", format!("/_firn/saved/search/{id}"), object("x")),
        ("DELETE", format!("/_firn/saved/search/{id}"), Value::Null),
    ] {
        assert_eq!(
            error(&operator.send(method, &path, &body)),
            (403, "security_exception".to_owned()),
            "{method}"
        );
    }
    // A write-only key cannot read saved objects either.
    let roles = json!({"w": {"indices": [{"names": ["*"], "privileges": ["write"]}]}});
    let key = json!({"name": "w", "role_descriptors": roles, "metadata": {"tenant": "acme"}});
    let key = by_password.ok("POST", "/_security/api_key", &key);
    let shipper = node
        .client()
        .authorized(format!("ApiKey {}", key["encoded"].as_str().unwrap()));
    assert_eq!(shipper.get("/_firn/saved").unwrap().status, 403);
    assert_eq!(node.client().get("/_firn/saved").unwrap().status, 401);

    let gone = amy.send("DELETE", &format!("/_firn/saved/search/{id}"), &Value::Null);
    assert_eq!(gone.status, 200, "{}", gone.text());
    assert_eq!(ann.get(&format!("/_firn/saved/search/{id}")).status, 404);
    assert_eq!(titles(&bob, ""), ["their own"]);
    node.stop().unwrap();
}

#[test]
fn a_change_of_an_outdated_version_is_a_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    settle(&node);
    let (ann, amy) = (
        Browser::sign_in(node.client(), "ann"),
        Browser::sign_in(node.client(), "amy"),
    );
    let path = |version: u64| format!("/_firn/saved/search/errors?version={version}");
    assert_eq!(ann.send("PUT", &path(0), &object("one")).status, 201);
    assert_eq!(amy.send("PUT", &path(1), &object("two")).json()["version"], 2);
    let late = ann.send("PUT", &path(1), &object("late"));
    assert_eq!(error(&late), (409, "version_conflict_engine_exception".to_owned()));
    assert!(late.text().contains("current version [2]"), "{}", late.text());
    assert_eq!(error(&ann.send("DELETE", &path(1), &Value::Null)).0, 409);
    assert_eq!(error(&ann.send("PUT", &path(0), &object("late"))).0, 409);
    assert_eq!(titles(&ann, ""), ["two"]);
    // Many concurrent writers with the version that each saw: one wins each time.
    let writers: Vec<_> = (0..8)
        .map(|number| {
            let (browser, path) = (ann.clone(), path(2));
            std::thread::spawn(move || browser.send("PUT", &path, &object(&number.to_string())).status)
        })
        .collect();
    let statuses: Vec<u16> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == 200).count(),
        1,
        "{statuses:?}"
    );
    assert_eq!(
        statuses.iter().filter(|status| **status == 409).count(),
        7,
        "{statuses:?}"
    );
    assert_eq!(ann.send("DELETE", &path(3), &Value::Null).status, 200);
    node.stop().unwrap();
}

#[test]
fn what_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    settle(&node);
    let ann = Browser::sign_in(node.client(), "ann");
    let put = |path: &str, body: &Value| ann.send("PUT", &format!("/_firn/saved/{path}"), body).status;
    for path in [
        "searches/a",
        "search/a.b",
        "search/..%2Fcontrol",
        "search/%2e%2e",
        "search/a%20b",
        &format!("search/{}", "x".repeat(65)),
        "search/a?version=x",
        "search/a?version=-1",
        "search/a?more=1",
    ] {
        assert_eq!(put(path, &object("t")), 400, "{path}");
    }
    for body in [
        json!({}),
        json!([]),
        json!({"title": "t"}),
        json!({"title": "", "state": {}}),
        json!({"title": " ", "state": {}}),
        json!({"title": 1, "state": {}}),
        json!({"title": "t", "state": null}),
        json!({"title": "t", "state": {}, "more": 1}),
        json!({"title": "x".repeat(257), "state": {}}),
        json!({"title": "t", "description": "x".repeat(1001), "state": {}}),
        json!({"title": "t", "state": "x".repeat(256 * 1024)}),
    ] {
        let shown: String = body.to_string().chars().take(60).collect();
        assert_eq!(put("search/a", &body), 400, "{shown}");
    }
    let deep = format!("{{\"title\":\"t\",\"state\":{}1{}}}", "[".repeat(200), "]".repeat(200));
    let headers = [("content-type", "application/json"), ("x-firn-csrf", ann.csrf.as_str())];
    assert_eq!(
        ann.bare("PUT", "/_firn/saved/search/a", &headers, deep.as_bytes())
            .status,
        400
    );
    assert_eq!(put("search/a", &Value::Null), 400);
    assert!(titles(&ann, "").is_empty());
    assert_eq!(ann.get("/_firn/saved?type=x").status, 400);
    assert_eq!(
        put("search/a", &json!({"title": "t", "state": "x".repeat(256 * 1024 - 2)})),
        201
    );
    // Every text is returned unchanged.
    let odd = "<script>alert(1)</script> \u{202e}\u{1f600} \"\\ \u{0}";
    assert_eq!(put("search/odd", &json!({"title": odd, "state": odd})), 201);
    let got = ann.get("/_firn/saved/search/odd");
    assert_eq!(
        (&got.json()["title"], &got.json()["state"]),
        (&json!(odd.trim()), &json!(odd))
    );
    assert_eq!(got.header("content-type"), Some("application/json"));
    node.stop().unwrap();
}

#[test]
fn they_last_as_long_as_their_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    settle(&node);
    let sign_in = |client: &Client, name: &str| Browser::sign_in(client, name);
    for name in ["ann", "bob", "elastic"] {
        let browser = sign_in(node.client(), name);
        assert_eq!(
            browser.send("PUT", "/_firn/saved/search/mine", &object(name)).status,
            201
        );
        assert_eq!(
            browser.send("PUT", "/_firn/saved/search/gone", &object("gone")).status,
            201
        );
        assert_eq!(
            browser.send("DELETE", "/_firn/saved/search/gone", &Value::Null).status,
            200
        );
    }
    node.kill9().unwrap();
    // An object that was damaged in the meantime is omitted, and affects nothing else.
    let damaged = folder.path().join("data/control/saved/bolt/search.mine");
    std::fs::write(&damaged, b"firn-saved 1 00000000 2\n{}").unwrap();
    let node = start(folder.path(), &[]);
    for (name, expect) in [("ann", vec!["ann"]), ("bob", vec![]), ("elastic", vec!["elastic"])] {
        assert_eq!(titles(&sign_in(node.client(), name), ""), expect, "{name}");
    }
    assert!(
        node.log().contains("a saved object is damaged and is skipped"),
        "{}",
        node.log()
    );
    let operator = support::browser::operator(&node);
    operator.ok("DELETE", "/_firn/tenants/acme", &Value::Null);
    assert!(!folder.path().join("data/control/saved/acme").exists());
    assert_eq!(titles(&sign_in(node.client(), "elastic"), ""), ["elastic"]);
    node.stop().unwrap();
    let node = start(folder.path(), &[("xpack.security.enabled", "false")]);
    let shown = node.client().ok("GET", "/_firn/saved/search/mine", &Value::Null);
    assert_eq!(
        (&shown["title"], &shown["updated_by"]),
        (&json!("elastic"), &json!("elastic")),
        "without security every caller is an operator"
    );
    let put = node.client().ok("PUT", "/_firn/saved/search/mine", &object(PASSWORD));
    assert_eq!((&put["version"], &put["updated_by"]), (&json!(2), &Value::Null));
    node.stop().unwrap();
}
