//! Signing in with a browser, against the real process: cookies, tokens, who is refused, and when sessions end.

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use firn_testkit::{Answer, Client, Node};
use serde_json::{Value, json};
use support::browser::{self, Browser, PASSWORD, ok, put_user, settle, start};

/// What an error says, and its type.
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
    let nobody = node.client().get("/_firn/session").unwrap();
    assert_eq!(error(&nobody).1, "security_exception");
    assert_eq!(
        (nobody.status, nobody.header("www-authenticate")),
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
    // Who signs in again in the same browser has one session.
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
fn without_security_everybody_is_an_operator() {
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
fn what_may_change_something_needs_the_session_s_token() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let client = settle(&node);
    let (bob, amy) = (
        Browser::sign_in(node.client(), "bob"),
        Browser::sign_in(node.client(), "amy"),
    );
    let json = ("content-type", "application/json");
    let doc = br#"{"@timestamp":"2026-01-01T00:00:00Z","message":"forged"}"#;
    let write = |headers: &[(&str, &str)]| {
        let mut all = vec![json];
        all.extend(headers);
        bob.bare("POST", "/events/_doc?refresh=true", &all, doc)
    };
    let refused = write(&[]);
    assert_eq!(error(&refused).1, "security_exception");
    assert!(error(&refused).2.contains("[x-firn-csrf]"), "{}", refused.text());
    assert_eq!(refused.status, 403);
    for token in ["", "x", amy.csrf.as_str(), bob.cookie.split('=').nth(1).unwrap()] {
        assert_eq!(write(&[("x-firn-csrf", token)]).status, 403, "{token}");
    }
    // What others' pages ask for is refused with the right token as well.
    let own = ("x-firn-csrf", bob.csrf.as_str());
    for site in ["cross-site", "same-site"] {
        assert_eq!(write(&[own, ("sec-fetch-site", site)]).status, 403, "{site}");
        assert_eq!(
            bob.bare("GET", "/events/_count", &[("sec-fetch-site", site)], b"")
                .status,
            403,
            "{site}"
        );
    }
    assert_eq!(bob.count(), 5, "nothing was written");
    assert_eq!(write(&[own, ("sec-fetch-site", "same-origin")]).status, 201);
    assert_eq!(bob.count(), 6);

    // Looking needs none; a GET that does more than look does.
    assert_eq!(bob.bare("GET", "/events/_count", &[], b"").status, 200);
    assert_eq!(bob.bare("HEAD", "/events", &[], b"").status, 200);
    assert_eq!(bob.bare("GET", "/events/_refresh", &[], b"").status, 403);
    assert_eq!(bob.get("/events/_refresh").status, 200);
    for (method, path) in [
        ("POST", "/events/_search"),
        ("DELETE", "/_firn/session"),
        ("POST", "/_firn/session/view"),
    ] {
        assert_eq!(bob.bare(method, path, &[], b"").status, 403, "{method} {path}");
    }
    // A form brings it as a field; that this endpoint takes no forms is said after that.
    let form = ("content-type", "application/x-www-form-urlencoded");
    let send = |form_body: &str| {
        bob.bare("POST", "/events/_search", &[form], form_body.as_bytes())
            .status
    };
    assert_eq!(send("a=b"), 403);
    assert_eq!(send(&format!("csrf={}", amy.csrf)), 403);
    assert_eq!(send(&format!("a=b&csrf={}", bob.csrf)), 406);

    // Credentials of the request's own count before the cookie, and need no token.
    let operator = browser::operator(&node);
    let headers = [("cookie", bob.cookie.as_str()), json];
    let both = operator.with_headers("POST", "/_count", &headers, b"{}").unwrap();
    assert_eq!(both.status, 200);
    let me = operator
        .with_headers("GET", "/_security/_authenticate", &headers[..1], b"")
        .unwrap();
    assert_eq!(me.json()["username"], "elastic");
    let wrong = node.client().authorized("Basic ###");
    assert_eq!(wrong.with_headers("GET", "/", &headers[..1], b"").unwrap().status, 401);
    assert_eq!(bob.bare("GET", "/", &[("authorization", "Bearer x")], b"").status, 401);
    drop(client);
    node.stop().unwrap();
}

#[test]
fn what_is_no_session_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    settle(&node);
    let ann = Browser::sign_in(node.client(), "ann");
    let (name, token) = ann.cookie.split_once('=').unwrap();
    let last = token.chars().last().unwrap();
    let swapped = |letter: char| format!("{}{letter}", &token[..token.len() - 1]);
    let forged = [
        String::new(),
        "x".to_owned(),
        token[..42].to_owned(),
        format!("{token}A"),
        swapped(if last == 'A' { 'E' } else { 'A' }),
        token.to_uppercase(),
        format!("\"{token}\""),
        "A".repeat(43),
        "A".repeat(8000),
        format!("{token}%20"),
        "../../control".to_owned(),
    ];
    for value in forged {
        let other = Browser {
            cookie: format!("{name}={value}"),
            ..ann.clone()
        };
        assert_eq!(other.status(), 401, "{value}");
        assert_eq!(other.get("/events/_count").status, 401, "{value}");
    }
    let twice = Browser {
        cookie: format!("{0}; {0}", ann.cookie),
        ..ann.clone()
    };
    assert_eq!(twice.status(), 401);
    let elsewhere = Browser {
        cookie: format!("__Host-firn_session={token}"),
        ..ann.clone()
    };
    assert_eq!(elsewhere.status(), 401, "the name that TLS has");
    assert_eq!(ann.status(), 200);
    node.stop().unwrap();
}

#[test]
fn wrong_passwords_are_refused_slowly_and_bodies_are_small() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    settle(&node);
    let ann = Browser::sign_in(node.client(), "ann");
    let wrong = sign_in(node.client(), "ann", "a guess");
    let unknown = sign_in(node.client(), "nobody", "a guess");
    for (answer, name) in [(&wrong, "ann"), (&unknown, "nobody")] {
        let reason = format!("unable to authenticate user [{name}] for REST request [/_firn/session]");
        assert_eq!(error(answer), (401, "security_exception".to_owned(), reason));
        assert_eq!(
            (answer.header("set-cookie"), answer.header("www-authenticate")),
            (None, None)
        );
    }
    let post = |headers: &[(&str, &str)], body: &str| {
        let client = node.client();
        client
            .with_headers("POST", "/_firn/session", headers, body.as_bytes())
            .unwrap()
            .status
    };
    let json = ("content-type", "application/json");
    let good = json!({"username": "ann", "password": PASSWORD}).to_string();
    assert_eq!(
        post(&[("content-type", "text/plain")], &good),
        406,
        "as a form of another site could send it"
    );
    assert_eq!(
        post(&[("content-type", "application/x-www-form-urlencoded")], &good),
        406
    );
    assert_eq!(post(&[], &good), 406);
    assert_eq!(post(&[json, ("sec-fetch-site", "cross-site")], &good), 403);
    assert_eq!(post(&[json], ""), 400);
    for bad in [
        "{",
        "[]",
        "{}",
        r#"{"username":"ann"}"#,
        r#"{"username":1,"password":2}"#,
        r#"{"username":"ann","password":"x","more":1}"#,
    ] {
        assert_eq!(post(&[json], bad), 400, "{bad}");
    }
    let long = json!({"username": "ann", "password": "x".repeat(20_000)}).to_string();
    assert_eq!(post(&[json], &long), 413);
    assert_eq!(
        post(
            &[json],
            &json!({"username": "ann", "password": "x".repeat(8_000)}).to_string()
        ),
        401
    );
    assert_eq!(
        post(
            &[json],
            &json!({"username": "x".repeat(8_000), "password": "x"}).to_string()
        ),
        401
    );

    let started = Instant::now();
    for number in 0..9 {
        assert_eq!(sign_in(node.client(), "amy", &format!("guess {number}")).status, 401);
    }
    // Five are free; then 0.1, 0.2, 0.4 s.
    assert!(
        started.elapsed() >= Duration::from_millis(650),
        "{:?}",
        started.elapsed()
    );
    let guesses: Vec<_> = (0..48)
        .map(|number| {
            let client = node.client().clone();
            let body = json!({"username": "amy", "password": format!("flood {number}")});
            std::thread::spawn(move || client.json("POST", "/_firn/session", &body).ok())
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    let started = Instant::now();
    assert_eq!(ann.status(), 200, "nobody waits who is signed in");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    node.kill9().unwrap();
    let sent_away = guesses
        .into_iter()
        .filter_map(|guess| guess.join().expect("an end"))
        .filter(|guess| guess.status == 429)
        .inspect(|guess| assert_eq!(guess.header("retry-after"), Some("10")))
        .count();
    assert!(sent_away >= 48 - 16 - 2, "{sent_away}");
}

#[test]
fn sessions_live_through_restart_and_kill() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    settle(&node);
    let (ann, bob) = (
        Browser::sign_in(node.client(), "ann"),
        Browser::sign_in(node.client(), "bob"),
    );
    assert_eq!(bob.send("DELETE", "/_firn/session", &Value::Null).status, 204);
    let amy = Browser::sign_in(node.client(), "amy");
    node.kill9().unwrap();
    let node = start(folder.path(), &[]);
    let at = |browser: &Browser| browser.at(node.client());
    assert_eq!(
        (at(&ann).status(), at(&amy).status(), at(&bob).status()),
        (200, 200, 401)
    );
    assert_eq!(
        at(&amy).send("POST", "/events/_search", &json!({})).status,
        200,
        "the token is the same too"
    );
    node.stop().unwrap();
    let node = start(folder.path(), &[]);
    let ann = ann.at(node.client());
    // No password is hashed for them: in this build each would take some tenths of a second.
    let started = Instant::now();
    for _ in 0..200 {
        assert_eq!(ann.status(), 200);
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let record = std::fs::read(folder.path().join("data/control/control")).unwrap();
    let record = String::from_utf8_lossy(&record);
    let secret = ann.cookie.split('=').nth(1).unwrap();
    assert!(record.contains("token_sha256") && !record.contains(secret) && !record.contains(&ann.csrf));
    node.stop().unwrap();
}

#[test]
fn what_changes_about_a_user_holds_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let operator = settle(&node);
    let sign_in = |name: &str| Browser::sign_in(node.client(), name);
    let event = json!({"@timestamp": "2026-01-01T00:00:00Z", "message": "by ann"});
    let write = |browser: &Browser| browser.send("POST", "/events/_doc", &event).status;

    let ann = sign_in("ann");
    assert_eq!(write(&ann), 403);
    let roles = |roles: Value| {
        let user = json!({"roles": roles, "metadata": {"tenant": "acme"}});
        ok(&operator, "PUT", "/_security/user/ann", &user);
    };
    roles(json!(["tenant_admin"]));
    assert_eq!(write(&ann), 201);
    roles(json!(["tenant_reader"]));
    assert_eq!((write(&ann), ann.status()), (403, 200));
    roles(json!([]));
    assert_eq!(ann.get("/events/_count").status, 403);
    roles(json!(["tenant_reader"]));
    assert_eq!(ann.get("/events/_count").status, 200);

    // By himself, in one of his browsers.
    let (one, two) = (sign_in("bob"), sign_in("bob"));
    let other = json!({"password": "another horse"});
    assert_eq!(one.send("POST", "/_security/user/_password", &other).status, 200);
    assert_eq!((one.status(), two.status()), (401, 401));
    put_user(&operator, "bob", "tenant_admin", Some("bolt"));
    assert_eq!(
        one.status(),
        401,
        "the first password again is another one all the same"
    );
    // By somebody else.
    let bob = sign_in("bob");
    put_user(&operator, "bob", "tenant_admin", Some("bolt"));
    assert_eq!(bob.status(), 401);

    let amy = sign_in("amy");
    ok(&operator, "PUT", "/_security/user/amy/_disable", &Value::Null);
    assert_eq!(amy.status(), 401);
    ok(&operator, "PUT", "/_security/user/amy/_enable", &Value::Null);
    assert_eq!(amy.status(), 401, "it has ended");
    let amy = sign_in("amy");
    ok(&operator, "DELETE", "/_security/user/amy", &Value::Null);
    put_user(&operator, "amy", "tenant_reader", Some("acme"));
    assert_eq!(amy.status(), 401, "another user of the same name");
    assert_eq!(ann.status(), 200);
    ok(&operator, "DELETE", "/_firn/tenants/acme", &Value::Null);
    assert_eq!(ann.status(), 401);
    node.stop().unwrap();
}

#[test]
fn sessions_end_when_they_are_idle_and_when_they_are_old() {
    let folder = tempfile::tempdir().unwrap();
    let idle_ms = 2000;
    let settings = [
        ("xpack.security.session.idle_timeout", "2s"),
        ("xpack.security.session.lifespan", "6s"),
    ];
    let node = start(folder.path(), &settings);
    settle(&node);
    let signed_in = Instant::now();
    let (idle, used) = (
        Browser::sign_in(node.client(), "ann"),
        Browser::sign_in(node.client(), "ann"),
    );
    let looked = idle.get("/_firn/session").json();
    let last_used = Instant::now();
    assert!(looked["expires_in_s"].as_u64().unwrap() <= 2, "{looked}");
    while last_used.elapsed() < Duration::from_millis(idle_ms + 100) {
        std::thread::sleep(Duration::from_millis(100));
        // On a machine that stood still in between nothing can be said.
        let alive = used.status();
        assert!(
            alive == 200 || signed_in.elapsed() > Duration::from_millis(idle_ms),
            "{:?}",
            signed_in.elapsed()
        );
    }
    assert_eq!(idle.status(), 401, "not used for so long");
    let mut alive_ms = 0;
    while used.status() == 200 {
        alive_ms = signed_in.elapsed().as_millis() as u64;
        assert!(alive_ms < 8000, "used all the time, and still it ends");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(alive_ms > idle_ms, "{alive_ms}");
    assert_eq!(used.status(), 401);
    node.stop().unwrap();
}

#[test]
fn the_thirty_third_session_ends_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    settle(&node);
    let bob = Browser::sign_in(node.client(), "bob");
    let browsers: Vec<Browser> = (0..32)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(2));
            Browser::sign_in(node.client(), "ann")
        })
        .collect();
    assert!(browsers.iter().all(|browser| browser.status() == 200));
    std::thread::sleep(Duration::from_millis(2));
    let last = Browser::sign_in(node.client(), "ann");
    assert_eq!((browsers[0].status(), last.status(), bob.status()), (401, 200, 200));
    assert!(browsers[1..].iter().all(|browser| browser.status() == 200));
    node.stop().unwrap();
}

/// Ends a live tail by `end`, in a second or two and long before its own end.
fn ends_a_tail(tail: impl FnOnce() -> Option<Answer> + Send + 'static, end: impl FnOnce()) {
    let tail = std::thread::spawn(move || (tail(), Instant::now()));
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!tail.is_finished(), "a tail goes on");
    let ended = Instant::now();
    end();
    let (answer, at) = tail.join().unwrap();
    assert!(answer.is_none(), "broken off, so that nobody takes it for the whole");
    assert!(at - ended < Duration::from_secs(10), "{:?}", at - ended);
}

#[test]
fn what_is_still_being_read_breaks_off_with_the_right_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let operator = settle(&node);
    let question = json!({"index": "events", "timeout": "40s"}).to_string();
    let of_session = |browser: &Browser| {
        let (browser, question) = (browser.clone(), question.clone());
        move || {
            let headers = [
                ("cookie", browser.cookie.as_str()),
                ("x-firn-csrf", browser.csrf.as_str()),
                ("content-type", "application/json"),
            ];
            let path = "/_firn/discover/tail";
            let answer = browser.client.with_headers("POST", path, &headers, question.as_bytes());
            answer
                .ok()
                .inspect(|answer| assert_eq!(answer.status, 200, "{}", answer.text()))
        }
    };
    let ann = Browser::sign_in(node.client(), "ann");
    ends_a_tail(of_session(&ann), || {
        assert_eq!(ann.send("DELETE", "/_firn/session", &Value::Null).status, 204);
    });
    let watcher = Browser::sign_in(node.client(), "elastic");
    ends_a_tail(of_session(&watcher), || {
        let view = json!({"tenant": "acme", "reason": "ticket 1"});
        assert_eq!(watcher.send("POST", "/_firn/session/view", &view).status, 200);
    });
    let amy = Browser::sign_in(node.client(), "amy");
    ends_a_tail(of_session(&amy), || {
        ok(&operator, "DELETE", "/_security/user/amy", &Value::Null);
    });
    // As for whoever sends credentials with each request.
    let key = json!({"name": "k", "metadata": {"tenant": "bolt"}});
    let key = ok(&operator, "POST", "/_security/api_key", &key);
    let client = node
        .client()
        .authorized(format!("ApiKey {}", key["encoded"].as_str().unwrap()));
    let by_key = move || {
        client
            .send(
                "POST",
                "/_firn/discover/tail",
                Some("application/json"),
                question.as_bytes(),
            )
            .ok()
    };
    ends_a_tail(by_key, || {
        ok(&operator, "DELETE", "/_security/api_key", &json!({"ids": [key["id"]]}));
    });
    node.stop().unwrap();
}

#[test]
fn tenants_have_sessions_of_their_own() {
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
    // One's cookie with another's token is nobody's.
    let mixed = Browser {
        csrf: bob.csrf.clone(),
        ..ann.clone()
    };
    assert_eq!(mixed.send("POST", "/events/_search", &json!({})).status, 403);
    for (tenant, reason) in [("bolt", "because"), ("acme", "because"), ("nobody", "")] {
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

/// The records of the audit log that a query finds; waits until there are some.
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
fn an_operator_looks_with_a_tenant_s_eyes_and_the_audit_log_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let by_password = settle(&node);
    let operator = Browser::sign_in(node.client(), "elastic");
    assert_eq!(operator.get("/_firn/session").json()["operator"], true);
    assert_eq!(operator.count(), 8);
    let take = |body: Value| operator.send("POST", "/_firn/session/view", &body);
    assert_eq!(take(json!({"tenant": "acme"})).status, 400, "without a reason");
    assert_eq!(take(json!({"tenant": "acme", "reason": "  "})).status, 400);
    assert_eq!(take(json!({"tenant": "acme", "reason": "x".repeat(1001)})).status, 400);
    assert_eq!(take(json!({"tenant": "acme", "reason": "x", "more": 1})).status, 400);
    assert_eq!(take(json!({"tenant": "nobody", "reason": "x"})).status, 404);
    assert_eq!(take(json!({"tenant": "../acme", "reason": "x"})).status, 400);
    let by_basic = by_password
        .json("POST", "/_firn/session/view", &json!({"tenant": "acme", "reason": "x"}))
        .unwrap();
    assert_eq!(by_basic.status, 400, "there is no session");
    assert_eq!(operator.count(), 8);

    let taken = take(json!({"tenant": "acme", "reason": "ticket 4711"}));
    assert_eq!(taken.status, 200, "{}", taken.text());
    let body = taken.json();
    assert_eq!(
        (&body["view_as"], &body["operator"], &body["tenant"]),
        (&json!("acme"), &json!(true), &Value::Null)
    );
    assert_eq!(body["user"]["username"], "elastic");
    assert_eq!(body["csrf"], operator.csrf.as_str());
    assert_eq!(operator.get("/_firn/session").json()["view_as"], "acme");
    let hits = operator.send("POST", "/_search", &json!({"size": 100})).text();
    assert!(hits.contains("of acme") && !hits.contains("of bolt"), "{hits}");
    assert_eq!(operator.count(), 3);
    // Another browser of his is not concerned.
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
    assert_eq!(take(json!({"tenant": "bolt", "reason": "ticket 4712"})).status, 200);
    assert_eq!(operator.count(), 5);
    // Not by force, with which the last second's records go.
    node.stop().unwrap();
    let node = start(folder.path(), &[]);
    let operator = operator.at(node.client());
    assert_eq!(operator.count(), 5, "a restart shows him nothing that he had given up");
    let back = operator.send("POST", "/_firn/session/view", &json!({"tenant": null, "reason": ""}));
    assert_eq!((back.status, &back.json()["view_as"]), (200, &Value::Null));
    assert_eq!(operator.count(), 8);

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
