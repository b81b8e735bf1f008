//! Authentication and its errors over HTTP.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_api::Security;
use firn_auth::{Control, Parts, Password, SessionLimits, SignInThrottleLimits};
use firn_storage::sim::SimDisk;

use crate::fake::{Answer, NOW_MS, Node};

const PASSWORD: &str = "correct horse";

/// Returns a node whose only user is the operator.
pub(crate) fn secure(slowdown: SignInThrottleLimits) -> (Node, Arc<Control>) {
    let counter = std::sync::atomic::AtomicU8::new(0);
    let control = Control::open(Parts {
        disk: Arc::new(SimDisk::new()),
        folder: PathBuf::from("/control"),
        now_ms: Arc::new(|| NOW_MS),
        stopwatch: Arc::new(Duration::default),
        random: Arc::new(move |bytes| {
            bytes
                .iter_mut()
                .for_each(|byte| *byte = counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        }),
        slowdown,
        sessions: SessionLimits::default(),
    })
    .unwrap();
    control.set_operator_password(&Password(PASSWORD.to_owned())).unwrap();
    let control = Arc::new(control);
    let node = Node::with(|config| config.security = Security::On(Arc::clone(&control)));
    (node, control)
}

/// Returns the value of `Authorization` for a user.
pub(crate) fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

/// Sends a request with credentials.
pub(crate) async fn ask(node: &Node, who: &str, method: &str, uri: &str, body: &str) -> Answer {
    node.send_with(method, uri, &[("authorization", who)], body).await
}

fn reason(answer: &Answer) -> String {
    let body = answer.json();
    format!(
        "{} {} {}",
        answer.status(),
        body["error"]["type"].as_str().unwrap(),
        body["error"]["reason"].as_str().unwrap()
    )
}

#[tokio::test]
async fn requests_without_credentials_get_a_challenge() {
    let (node, _) = secure(SignInThrottleLimits::default());
    let answer = node.send("GET", "/_search?size=0", "").await;
    assert_eq!(
        reason(&answer),
        "401 security_exception missing authentication credentials for REST request [/_search?size=0]"
    );
    let challenges: Vec<_> = answer.response.headers().get_all("www-authenticate").iter().collect();
    assert_eq!(challenges, [r#"Basic realm="security", charset="UTF-8""#, "ApiKey"]);
    assert_eq!(answer.json()["error"]["header"]["WWW-Authenticate"][1], "ApiKey");
    // Not even the existing paths are revealed.
    assert_eq!(node.send("GET", "/_nonsense", "").await.status(), 401);
    assert_eq!(node.send("DELETE", "/_search", "").await.status(), 401);
    assert_eq!(node.send("HEAD", "/", "").await.status(), 401);
}

#[tokio::test]
async fn the_operator_signs_in_with_a_password() {
    let (node, _) = secure(SignInThrottleLimits::default());
    let me = basic("elastic", PASSWORD);
    for _ in 0..2 {
        assert_eq!(ask(&node, &me, "GET", "/", "").await.status(), 200);
    }
    let answer = ask(&node, &me, "GET", "/_security/_authenticate", "").await;
    let body = answer.json();
    assert_eq!(
        (&body["username"], &body["roles"][0]),
        (&"elastic".into(), &"operator".into())
    );
    assert_eq!(body["authentication_realm"]["name"], "reserved");

    for wrong in [basic("elastic", "wrong"), basic("noname", PASSWORD)] {
        let answer = ask(&node, &wrong, "GET", "/a/_search", "").await;
        let text = reason(&answer);
        assert!(
            text.starts_with("401 security_exception unable to authenticate user ["),
            "{text}"
        );
        assert!(text.ends_with("] for REST request [/a/_search]"), "{text}");
    }
    let answer = ask(&node, "Basic ???", "GET", "/", "").await;
    assert_eq!(
        reason(&answer),
        "401 security_exception invalid basic authentication header encoding"
    );
}

#[tokio::test]
async fn guessing_takes_longer_and_longer() {
    let (node, _) = secure(SignInThrottleLimits {
        free_failures: 2,
        first_wait: Duration::from_millis(200),
        ..SignInThrottleLimits::default()
    });
    let good = basic("elastic", PASSWORD);
    assert_eq!(ask(&node, &good, "GET", "/", "").await.status(), 200);
    for _ in 0..4 {
        assert_eq!(
            ask(&node, &basic("elastic", "guess"), "GET", "/", "").await.status(),
            401
        );
    }
    let wait = async |who: String| {
        let started = std::time::Instant::now();
        let status = ask(&node, &who, "GET", "/", "").await.status();
        (status, started.elapsed())
    };
    let (status, guessed) = wait(basic("elastic", "guess")).await;
    assert!(status == 401 && guessed >= Duration::from_millis(350), "{guessed:?}");
    // A client that authenticated before does not wait behind guesses of the same name: the next one waits twice as long.
    let (status, waited) = wait(good).await;
    assert!(status == 200 && waited < guessed, "{waited:?}, {guessed:?}");
}

#[tokio::test]
async fn no_credentials_are_needed_while_security_is_off() {
    let node = Node::new();
    assert_eq!(
        ask(&node, &basic("elastic", "wrong"), "GET", "/", "").await.status(),
        200
    );
    let answer = node.send("GET", "/_security/_authenticate", "").await;
    assert!(
        reason(&answer).starts_with("400 illegal_argument_exception security is off"),
        "{}",
        answer.text()
    );
}
