//! Refused requests: without the token of the session, with invalid cookies, with wrong passwords.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::browser::{self, Browser, PASSWORD, settle, start};
use crate::{error, sign_in};

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
    // Requests from pages of other sites are refused even with the right token.
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

    // Reads need no token; a GET that changes something does.
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
    // Another spelling of the sign-in path creates no session from an existing one.
    for path in ["/_firn//session", "/%5Ffirn/session", "//_firn/session/"] {
        let answer = bob.bare("POST", path, &[own], b"");
        assert!(
            answer.status >= 400 && answer.header("set-cookie").is_none(),
            "{path}: {}",
            answer.status
        );
    }
    // A form carries the token as a field; the refusal of forms at this endpoint comes after the check.
    let form = ("content-type", "application/x-www-form-urlencoded");
    let send = |form_body: &str| {
        bob.bare("POST", "/events/_search", &[form], form_body.as_bytes())
            .status
    };
    assert_eq!(send("a=b"), 403);
    assert_eq!(send(&format!("csrf={}", amy.csrf)), 403);
    assert_eq!(send(&format!("a=b&csrf={}", bob.csrf)), 406);

    // Credentials of the request have precedence over the cookie, and need no token.
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
    let unknown = sign_in(node.client(), "noname", "a guess");
    for (answer, name) in [(&wrong, "ann"), (&unknown, "noname")] {
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
    // Five attempts are free; then the delays are 0.1, 0.2, 0.4 s.
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
    assert_eq!(ann.status(), 200, "a session does not wait");
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
