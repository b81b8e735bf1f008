//! Browser sessions against the real process: sign-in, cookies, tenant views, and TLS.

mod ending;
mod refusals;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use firn_testkit::{Answer, Client, Node};
use serde_json::{Value, json};

use support::browser::{self, Browser, PASSWORD, settle, start};

/// Returns status, type and reason of an error.
fn error(answer: &Answer) -> (u16, String, String) {
    let body = answer.json();
    let text = |name: &str| body["error"][name].as_str().unwrap_or_default().to_owned();
    (answer.status, text("type"), text("reason"))
}

fn sign_in(client: &Client, name: &str, password: &str) -> Answer {
    let body = json!({"username": name, "password": password});
    client.json("POST", "/_firn/session", &body).unwrap()
}

#[test]
fn signing_in_and_out() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    settle(&node);
    let noname = node.client().get("/_firn/session").unwrap();
    assert_eq!(error(&noname).1, "security_exception");
    assert_eq!(
        (noname.status, noname.header("www-authenticate")),
        (401, None),
        "the browser would ask by itself"
    );
    assert!(
        node.client().get("/").unwrap().header("www-authenticate").is_some(),
        "programs are told"
    );

    let answer = sign_in(node.client(), "ann", PASSWORD);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let cookie = answer.header("set-cookie").unwrap();
    let (value, attributes) = cookie.split_once(';').unwrap();
    assert_eq!(attributes, " Path=/; Max-Age=604800; HttpOnly; SameSite=Strict");
    assert_eq!(value.len(), "firn_session=".len() + 43);
    let mut body = answer.json();
    let csrf = body["csrf"].take();
    assert!(csrf.as_str().is_some_and(|csrf| csrf.len() == 43), "{csrf}");
    assert!(!value.contains(csrf.as_str().unwrap()));
    for name in ["name", "version"] {
        assert!(body[name].take().is_string(), "{name}");
    }
    let expect = json!({
        "security": true,
        "user": {"username": "ann", "full_name": null, "roles": ["tenant_reader"]},
        "tenant": "acme",
        "operator": false,
        "view_as": null,
        "csrf": null,
        "expires_in_s": 8 * 3600,
        "name": null,
        "version": null,
    });
    assert_eq!(body, expect);

    let ann = Browser {
        client: node.client().clone(),
        cookie: value.to_owned(),
        csrf: csrf.as_str().unwrap().to_owned(),
    };
    let again = ann.get("/_firn/session");
    assert_eq!(
        (again.status, &again.json()["csrf"]),
        (200, &csrf),
        "a page that is loaded anew gets its token"
    );
    assert_eq!(again.header("cache-control"), Some("no-store"));
    assert_eq!(ann.count(), 3);
    assert_eq!(ann.send("POST", "/events/_search", &json!({})).status, 200);
    let me = ann.get("/_security/_authenticate").json();
    assert_eq!(me["username"], "ann", "as with the password in each request");

    let out = ann.send("DELETE", "/_firn/session", &Value::Null);
    assert_eq!((out.status, out.text()), (204, String::new()));
    assert_eq!(
        out.header("set-cookie"),
        Some("firn_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict")
    );
    for path in ["/_firn/session", "/events/_count", "/"] {
        let ended = ann.get(path);
        assert_eq!(
            error(&ended),
            (
                401,
                "security_exception".to_owned(),
                "the session has ended, sign in again".to_owned()
            )
        );
        assert_eq!(ended.header("www-authenticate"), None, "{path}");
    }
    // A second sign-in in the same browser replaces the session.
    let bob = Browser::sign_in(node.client(), "bob");
    let body = json!({"username": "bob", "password": PASSWORD}).to_string();
    let next = bob.bare(
        "POST",
        "/_firn/session",
        &[("content-type", "application/json")],
        body.as_bytes(),
    );
    assert_eq!((next.status, bob.status()), (200, 401));
    node.stop().unwrap();
}

#[test]
fn without_security_every_caller_is_an_operator() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[("xpack.security.enabled", "false")]);
    let client = node.client();
    for (method, body) in [
        ("GET", Value::Null),
        ("POST", json!({"username": "elastic", "password": "wrong"})),
    ] {
        let answer = match &body {
            Value::Null => client.get("/_firn/session"),
            body => client.json(method, "/_firn/session", body),
        };
        let answer = answer.unwrap();
        assert_eq!(answer.header("set-cookie"), None);
        let body = answer.json();
        assert_eq!(
            (&body["security"], &body["operator"], &body["user"], &body["csrf"]),
            (&json!(false), &json!(true), &Value::Null, &Value::Null),
            "{method}: {}",
            answer.text()
        );
    }
    let view = json!({"tenant": "acme", "reason": "curious"});
    let view = client.json("POST", "/_firn/session/view", &view).unwrap();
    assert_eq!(view.status, 400, "{}", view.text());
    node.stop().unwrap();
}

#[test]
fn sessions_are_separate_between_tenants() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    settle(&node);
    let (ann, bob) = (
        Browser::sign_in(node.client(), "ann"),
        Browser::sign_in(node.client(), "bob"),
    );
    assert_eq!((ann.count(), bob.count()), (3, 5));
    let hits = ann.send("POST", "/_all/_search", &json!({"size": 100})).text();
    assert!(hits.contains("of acme") && !hits.contains("of bolt"), "{hits}");
    // A cookie with the token of another session is refused.
    let mixed = Browser {
        csrf: bob.csrf.clone(),
        ..ann.clone()
    };
    assert_eq!(mixed.send("POST", "/events/_search", &json!({})).status, 403);
    for (tenant, reason) in [("bolt", "because"), ("acme", "because"), ("noname", "")] {
        let view = ann.send(
            "POST",
            "/_firn/session/view",
            &json!({"tenant": tenant, "reason": reason}),
        );
        assert_eq!(error(&view).0, 403, "{}", view.text());
        assert!(!view.text().contains(tenant), "{}", view.text());
    }
    assert_eq!(ann.count(), 3);
    node.stop().unwrap();
}

/// Returns the records of the audit log that a query finds; waits until there are some.
#[track_caller]
fn audited(operator: &Client, query: &Value, count: usize) -> Vec<Value> {
    let started = Instant::now();
    loop {
        operator
            .send("POST", "/.firn-audit/_refresh?ignore_unavailable=true", None, b"")
            .unwrap();
        let body = json!({"query": query, "size": 100, "sort": ["@timestamp"]});
        let found = operator
            .json("POST", "/.firn-audit/_search?ignore_unavailable=true", &body)
            .unwrap()
            .json();
        let hits = found["hits"]["hits"].as_array().cloned().unwrap_or_default();
        if hits.len() >= count {
            return hits.into_iter().map(|hit| hit["_source"].clone()).collect();
        }
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "{count} of {query}: {found}"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn an_operator_takes_a_tenant_view_and_the_audit_log_records_it() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let by_password = settle(&node);
    let own = Browser::sign_in(node.client(), "elastic");
    assert_eq!(own.get("/_firn/session").json()["operator"], true);
    assert_eq!(own.count(), 8);
    let take = |body: Value| own.send("POST", "/_firn/session/view", &body);
    assert_eq!(take(json!({"tenant": "acme"})).status, 400, "without a reason");
    assert_eq!(take(json!({"tenant": "acme", "reason": "  "})).status, 400);
    assert_eq!(take(json!({"tenant": "acme", "reason": "x".repeat(1001)})).status, 400);
    assert_eq!(take(json!({"tenant": "acme", "reason": "x", "more": 1})).status, 400);
    assert_eq!(take(json!({"tenant": "noname", "reason": "x"})).status, 404);
    assert_eq!(take(json!({"tenant": "../acme", "reason": "x"})).status, 400);
    let by_basic = by_password
        .json("POST", "/_firn/session/view", &json!({"tenant": "acme", "reason": "x"}))
        .unwrap();
    assert_eq!(by_basic.status, 400, "there is no session");
    assert_eq!(own.count(), 8);

    let taken = take(json!({"tenant": "acme", "reason": "ticket 4711"}));
    assert_eq!(taken.status, 200, "{}", taken.text());
    let body = taken.json();
    assert_eq!(
        (&body["view_as"], &body["operator"], &body["tenant"]),
        (&json!("acme"), &json!(true), &Value::Null)
    );
    assert_eq!(body["user"]["username"], "elastic");
    let operator = own.with_view(&taken);
    assert_ne!(operator.csrf, own.csrf);
    assert_eq!(operator.get("/_firn/session").json()["view_as"], "acme");
    let hits = operator.send("POST", "/_search", &json!({"size": 100})).text();
    assert!(hits.contains("of acme") && !hits.contains("of bolt"), "{hits}");
    assert_eq!(operator.count(), 3);
    // Another browser of the operator is not affected.
    assert_eq!(Browser::sign_in(node.client(), "elastic").count(), 8);
    let event = json!({"@timestamp": "2026-01-01T00:00:00Z", "message": "written in a view"});
    for (method, path, body) in [
        ("POST", "/events/_doc", event),
        ("PUT", "/made", json!({})),
        ("DELETE", "/events", Value::Null),
        ("POST", "/events/_refresh", Value::Null),
        (
            "PUT",
            "/_security/user/elastic/_password",
            json!({"password": "another horse"}),
        ),
        (
            "POST",
            "/_security/user/_password",
            json!({"password": "another horse"}),
        ),
        ("PUT", "/_security/user/eve", json!({"password": PASSWORD, "roles": []})),
        ("POST", "/_security/api_key", json!({"name": "k"})),
        ("PUT", "/_firn/tenants/acme", json!({})),
        ("DELETE", "/_firn/tenants/acme", Value::Null),
        ("PUT", "/_cluster/settings", json!({})),
        ("GET", "/_firn/tenants", Value::Null),
        ("GET", "/_nodes/stats", Value::Null),
        ("GET", "/.firn-audit/_search", Value::Null),
    ] {
        let answer = operator.send(method, path, &body);
        assert!(matches!(answer.status, 403 | 404), "{method} {path}: {}", answer.text());
        assert!(!answer.text().contains("4711"), "{method} {path}: {}", answer.text());
    }
    // From one tenant to the next, through a restart, and back.
    let next = json!({"tenant": "bolt", "reason": "ticket 4712"});
    let next = operator.send("POST", "/_firn/session/view", &next);
    assert_eq!(next.status, 200, "{}", next.text());
    let operator = operator.with_view(&next);
    assert_eq!(operator.count(), 5);
    // A graceful stop, because a kill loses the records of the last second.
    node.stop().unwrap();
    let node = start(folder.path(), &[]);
    let operator = operator.at(node.client());
    assert_eq!(operator.count(), 5, "the view survives a restart");
    let back = operator.send("POST", "/_firn/session/view", &json!({"tenant": null, "reason": ""}));
    assert_eq!((back.status, &back.json()["view_as"]), (200, &Value::Null));
    let operator = operator.with_view(&back);
    assert_eq!((operator.count(), &operator.csrf), (8, &own.csrf));

    let by_password = browser::operator(&node);
    let of = |name: &str, tenant: &str| json!({"bool": {"filter": [{"term": {"request.name": name}}, {"term": {"view.tenant": tenant}}]}});
    let taken = &audited(&by_password, &of("view_as_tenant", "acme"), 1)[0];
    assert_eq!(
        (
            &taken["user"]["name"],
            &taken["view"]["reason"],
            &taken["event"]["action"]
        ),
        (&json!("elastic"), &json!("ticket 4711"), &json!("access_granted")),
        "{taken}"
    );
    let looked = &audited(&by_password, &of("search", "acme"), 1)[0];
    assert_eq!(
        (&looked["user"]["name"], &looked["tenant"], &looked["view"]["reason"]),
        (&json!("elastic"), &json!("acme"), &json!("ticket 4711")),
        "{looked}"
    );
    assert!(!audited(&by_password, &of("count", "bolt"), 1).is_empty());
    let refused = audited(
        &by_password,
        &json!({"bool": {"filter": [{"term": {"event.action": "access_denied"}}, {"term": {"view.tenant": "acme"}}]}}),
        10,
    );
    assert!(
        refused.iter().all(|event| event["user"]["name"] == "elastic"),
        "{refused:?}"
    );
    let signed_in = audited(
        &by_password,
        &json!({"bool": {"filter": [{"term": {"request.name": "create_session"}}]}}),
        2,
    );
    assert!(
        signed_in
            .iter()
            .all(|event| event["event"]["action"] == "authentication_success"),
        "{signed_in:?}"
    );
    node.stop().unwrap();
}

#[test]
fn each_window_of_a_browser_gets_answers_of_its_view_only() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    settle(&node);
    let changed = |browser: &Browser| {
        let search = browser.send("POST", "/events/_search", &json!({}));
        for answer in [browser.get("/events/_count"), search, browser.get("/_firn/session")] {
            let (status, error_type, reason) = error(&answer);
            assert_eq!((status, error_type.as_str()), (403, "session_changed_exception"));
            assert!(reason.contains("GET /_firn/session"), "{reason}");
            assert!(!answer.text().contains("acme"), "{}", answer.text());
        }
    };
    // Two windows share the cookie. In one of them the operator takes a view, then another one, and leaves it.
    let own = Browser::sign_in(node.client(), "elastic");
    let take = |browser: &Browser, tenant: Value| {
        let body = json!({"tenant": tenant, "reason": "ticket 4711"});
        browser.send("POST", "/_firn/session/view", &body)
    };
    let acme = own.with_view(&take(&own, json!("acme")));
    assert_eq!(acme.count(), 3);
    changed(&own);
    assert_eq!(
        error(&take(&own, json!("bolt"))).1,
        "session_changed_exception",
        "without the current token the view cannot change"
    );
    let bolt = acme.with_view(&take(&acme, json!("bolt")));
    assert_eq!(bolt.count(), 5);
    changed(&acme);
    changed(&own);
    let back = bolt.with_view(&take(&bolt, Value::Null));
    changed(&bolt);
    assert_eq!((back.count(), own.count()), (8, 8), "it is as it was");
    // A request without the token expects no view, and gets the current session.
    let session = own.bare("GET", "/_firn/session", &[], b"");
    assert_eq!(session.json()["csrf"], own.csrf.as_str());

    // In another window another user signs in, so the cookie now belongs to that user.
    let ann = Browser::sign_in(node.client(), "ann");
    let first_window = Browser {
        csrf: own.csrf.clone(),
        ..ann.clone()
    };
    changed(&first_window);
    assert_eq!(ann.count(), 3);
    node.stop().unwrap();
}

fn start_with_tls(folder: &Path) -> Node {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let file = |name: &str| folder.join(name).display().to_string();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    let (certificate, key) = (file("cert.pem"), file("key.pem"));
    let settings = [
        ("xpack.security.http.ssl.enabled", "true"),
        ("xpack.security.http.ssl.certificate", certificate.as_str()),
        ("xpack.security.http.ssl.key", key.as_str()),
    ];
    let options = browser::options(folder, &settings);
    let certificate = made.cert.pem();
    Node::start_with_certificate(
        Path::new(env!("CARGO_BIN_EXE_firn")),
        folder,
        &options,
        certificate.as_bytes(),
    )
    .unwrap()
}

#[test]
fn with_tls_the_cookie_is_bound_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let node = start_with_tls(folder.path());
    settle(&node);
    let answer = sign_in(node.client(), "ann", PASSWORD);
    let cookie = answer.header("set-cookie").unwrap().to_owned();
    assert!(cookie.starts_with("__Host-firn_session="), "{cookie}");
    assert!(
        cookie.ends_with("; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict; Secure"),
        "{cookie}"
    );
    let ann = Browser::sign_in(node.client(), "ann");
    assert_eq!((ann.status(), ann.count()), (200, 3));
    let plain = Browser {
        cookie: ann.cookie.replace("__Host-", ""),
        ..ann.clone()
    };
    assert_eq!(plain.status(), 401, "the name that a page without TLS could set");
    let out = ann.send("DELETE", "/_firn/session", &Value::Null);
    assert_eq!(
        out.header("set-cookie"),
        Some("__Host-firn_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; Secure")
    );
    node.stop().unwrap();
}
