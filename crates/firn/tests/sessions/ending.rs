//! Lifetime of sessions, and the events that end them.

use std::time::{Duration, Instant};

use firn_testkit::Answer;
use serde_json::{Value, json};

use crate::support::browser::{Browser, put_user, settle, start};

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
    // Sessions need no password hash: in this build each would take some tenths of a second.
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
        operator.ok("PUT", "/_security/user/ann", &user);
    };
    roles(json!(["tenant_admin"]));
    assert_eq!(write(&ann), 201);
    roles(json!(["tenant_reader"]));
    assert_eq!((write(&ann), ann.status()), (403, 200));
    roles(json!([]));
    assert_eq!(ann.get("/events/_count").status, 403);
    roles(json!(["tenant_reader"]));
    assert_eq!(ann.get("/events/_count").status, 200);

    // By the user, in one of two browsers.
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
    // By another user.
    let bob = sign_in("bob");
    put_user(&operator, "bob", "tenant_admin", Some("bolt"));
    assert_eq!(bob.status(), 401);

    let amy = sign_in("amy");
    operator.ok("PUT", "/_security/user/amy/_disable", &Value::Null);
    assert_eq!(amy.status(), 401);
    operator.ok("PUT", "/_security/user/amy/_enable", &Value::Null);
    assert_eq!(amy.status(), 401, "it has ended");
    let amy = sign_in("amy");
    operator.ok("DELETE", "/_security/user/amy", &Value::Null);
    put_user(&operator, "amy", "tenant_reader", Some("acme"));
    assert_eq!(amy.status(), 401, "another user of the same name");
    assert_eq!(ann.status(), 200);
    operator.ok("DELETE", "/_firn/tenants/acme", &Value::Null);
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
    let (mut longest_pause, mut before) = (Duration::ZERO, signed_in);
    let looked = idle.get("/_firn/session").json();
    let last_used = Instant::now();
    assert!(looked["expires_in_s"].as_u64().unwrap() <= 2, "{looked}");
    while last_used.elapsed() < Duration::from_millis(idle_ms + 100) {
        std::thread::sleep(Duration::from_millis(100));
        // After a long pause of the machine nothing can be concluded.
        let alive = used.status();
        longest_pause = longest_pause.max(before.elapsed());
        before = Instant::now();
        assert!(
            alive == 200 || signed_in.elapsed() > Duration::from_millis(idle_ms),
            "{:?}",
            signed_in.elapsed()
        );
    }
    assert_eq!(idle.status(), 401, "not used for so long");
    let mut alive_ms = 0;
    while used.status() == 200 {
        longest_pause = longest_pause.max(before.elapsed());
        before = Instant::now();
        alive_ms = signed_in.elapsed().as_millis() as u64;
        assert!(alive_ms < 8000, "used all the time, and still it ends");
        std::thread::sleep(Duration::from_millis(100));
    }
    longest_pause = longest_pause.max(before.elapsed());
    let stood_still = longest_pause > Duration::from_millis(idle_ms / 2);
    assert!(alive_ms > idle_ms || stood_still, "{alive_ms}");
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

/// Checks that `end` ends a live tail within a second or two, long before its own end.
fn ends_a_tail(tail: impl FnOnce() -> Option<Answer> + Send + 'static, end: impl FnOnce()) {
    let tail = std::thread::spawn(move || (tail(), Instant::now()));
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!tail.is_finished(), "a tail goes on");
    let ended = Instant::now();
    end();
    let (answer, at) = tail.join().unwrap();
    assert!(answer.is_none(), "aborted, so that no client takes it for the whole");
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
        operator.ok("DELETE", "/_security/user/amy", &Value::Null);
    });
    // The same for clients that send credentials with each request.
    let key = json!({"name": "k", "metadata": {"tenant": "bolt"}});
    let key = operator.ok("POST", "/_security/api_key", &key);
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
        operator.ok("DELETE", "/_security/api_key", &json!({"ids": [key["id"]]}));
    });
    node.stop().unwrap();
}
