//! Signing in, against the real process: the operator of the first start, users, keys, and who is refused.

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_testkit::{Client, Node, NodeOptions};
use serde_json::{Value, json};

fn start(folder: &Path, settings: &[(&str, &str)]) -> Node {
    let settings = settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder, &NodeOptions { settings }).unwrap()
}

const ON: (&str, &str) = ("xpack.security.enabled", "true");

/// Starts a server whose operator has the password `correct horse`.
fn start_with_password(folder: &Path) -> Node {
    let file = folder.join("password");
    std::fs::write(&file, "correct horse\n").unwrap();
    start(folder, &[ON, ("operator.password_file", file.to_str().unwrap())])
}

fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

fn status(client: &Client, method: &str, path: &str) -> u16 {
    client.send(method, path, None, b"").unwrap().status
}

/// What stands between the lines around the password.
fn printed_password(log: &str) -> Option<&str> {
    let (_, rest) = log.split_once("with the password\n\n")?;
    rest.lines().next().map(str::trim)
}

#[test]
fn the_first_start_prints_the_operator_s_password_once() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[ON]);
    let log = node.log();
    let password = printed_password(&log).expect("a password").to_owned();
    assert_eq!(password.len(), 20, "{password}");
    assert_eq!(status(node.client(), "GET", "/"), 401);
    let operator = node.client().authorized(basic("elastic", &password));
    assert_eq!(
        operator.ok("GET", "/_security/_authenticate", &Value::Null)["username"],
        "elastic"
    );
    node.stop().unwrap();

    // From now on requests sign in without a setting that says so, and nothing is printed any more.
    let node = start(folder.path(), &[]);
    let operator = node.client().authorized(basic("elastic", &password));
    assert_eq!(
        (status(&operator, "GET", "/"), status(node.client(), "GET", "/")),
        (200, 401)
    );
    assert_eq!(node.log().matches(&password).count(), 1);
    node.stop().unwrap();

    // The record is nobody else's to read.
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(folder.path().join("data/control"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn the_operator_s_password_comes_from_a_file_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "out of a file\n").unwrap();
    let node = start(folder.path(), &[ON, ("operator.password_file", file.to_str().unwrap())]);
    let check = |node: &Node, password: &str, expect: u16| {
        let client = node.client().authorized(basic("elastic", password));
        assert_eq!(status(&client, "GET", "/"), expect, "{password}");
    };
    check(&node, "out of a file", 200);
    assert!(printed_password(&node.log()).is_none());
    node.stop().unwrap();
    // Who has lost the password gives another one.
    let node = start_with_password(folder.path());
    check(&node, "correct horse", 200);
    check(&node, "out of a file", 401);
    let settings = node.client().authorized(basic("elastic", "correct horse"));
    let shown = settings.get("/_cluster/settings?include_defaults=true").unwrap().text();
    assert!(!shown.contains("correct horse"), "{shown}");
    node.stop().unwrap();
}

#[test]
fn an_operator_who_was_disabled_comes_back_with_the_same_password() {
    let folder = tempfile::tempdir().unwrap();
    let node = start_with_password(folder.path());
    let elastic = node.client().authorized(basic("elastic", "correct horse"));
    let own = elastic
        .send("PUT", "/_security/user/elastic/_disable", None, b"")
        .unwrap();
    assert_eq!(own.status, 400, "{}", own.text());
    let error = &own.json()["error"];
    assert_eq!(
        (&error["type"], &error["reason"]),
        (
            &json!("illegal_argument_exception"),
            &json!("users may not update the enabled status of their own account")
        )
    );
    let second = json!({"password": "correct horse", "roles": ["operator"]});
    elastic.ok("PUT", "/_security/user/second", &second);
    let second = node.client().authorized(basic("second", "correct horse"));
    second.ok("PUT", "/_security/user/elastic/_disable", &Value::Null);
    assert_eq!(status(&elastic, "GET", "/"), 401);
    node.stop().unwrap();

    let node = start(folder.path(), &[ON]);
    let elastic = node.client().authorized(basic("elastic", "correct horse"));
    assert_eq!(status(&elastic, "GET", "/"), 401, "nobody gave his password");
    node.stop().unwrap();

    let node = start_with_password(folder.path());
    let elastic = node.client().authorized(basic("elastic", "correct horse"));
    assert_eq!(status(&elastic, "GET", "/"), 200);
    assert!(
        node.log().contains("was disabled and is enabled again"),
        "{}",
        node.log()
    );
}

#[test]
fn a_damaged_record_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    start_with_password(folder.path()).stop().unwrap();
    let path = folder.path().join("data/control/control");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let data = format!("path.data={}", folder.path().join("data").display());
    let output = support::firn(&["serve", "-E", "http.port=0", "-E", &data]);
    let error = support::stderr(&output);
    assert!(
        !output.status.success() && error.contains("is damaged: its checksum is ["),
        "{error}"
    );
}

#[test]
fn keys_of_a_tenant_live_through_kill_and_end_when_they_should() {
    let folder = tempfile::tempdir().unwrap();
    let node = start_with_password(folder.path());
    let operator = node.client().authorized(basic("elastic", "correct horse"));
    operator.ok("PUT", "/_firn/tenants/acme", &json!({"display_name": "Acme"}));
    let key = |body: Value| {
        let made = operator.ok("POST", "/_security/api_key", &body);
        format!("ApiKey {}", made["encoded"].as_str().unwrap())
    };
    let long = key(json!({"name": "long", "metadata": {"tenant": "acme"}}));
    let short = key(json!({"name": "short", "expiration": "1500ms", "metadata": {"tenant": "acme"}}));
    let made = Instant::now();
    assert_eq!(status(&node.client().authorized(&short), "GET", "/"), 200);
    node.kill9().unwrap();

    let node = start(folder.path(), &[]);
    let by = |key: &str| node.client().authorized(key);
    let me = by(&long).ok("GET", "/_security/_authenticate", &Value::Null);
    assert_eq!(me["metadata"]["tenant"], "acme");
    std::thread::sleep(Duration::from_millis(1600).saturating_sub(made.elapsed()));
    let refused = by(&short).get("/").unwrap();
    assert_eq!(refused.status, 401);
    assert!(refused.text().contains("api key is expired"), "{}", refused.text());

    // Without the right, the answer is the same whether or not there is such an index.
    let operator = by(&basic("elastic", "correct horse"));
    operator.ok("PUT", "/there", &Value::Null);
    let there = by(&long).send("DELETE", "/there", None, b"").unwrap();
    let nowhere = by(&long).send("DELETE", "/nowhere", None, b"").unwrap();
    let told = there.text().replace("[there]", "[nowhere]");
    assert_eq!((there.status, told), (403, nowhere.text()));
    node.stop().unwrap();
}

#[test]
fn guessing_gets_slow_and_keeps_nobody_else_out() {
    let folder = tempfile::tempdir().unwrap();
    let node = start_with_password(folder.path());
    let operator = node.client().authorized(basic("elastic", "correct horse"));
    assert_eq!(status(&operator, "GET", "/"), 200);
    let started = Instant::now();
    for number in 0..9 {
        let guess = node.client().authorized(basic("elastic", &format!("guess {number}")));
        assert_eq!(status(&guess, "GET", "/"), 401);
    }
    // Five are free; then 0.1, 0.2, 0.4 s.
    assert!(
        started.elapsed() >= Duration::from_millis(650),
        "{:?}",
        started.elapsed()
    );
    // Somebody else guesses in many connections at once: they wait, few at a time, and the rest is sent away.
    let (tell, told) = std::sync::mpsc::channel();
    for number in 0..48 {
        let client = node.client().authorized(basic("elastic", &format!("flood {number}")));
        let tell = tell.clone();
        std::thread::spawn(move || {
            let _ = client.get("/").map(|answer| tell.send(answer));
        });
    }
    // Sixteen have a place to wait, for longer each; a slow machine may let a few more in, one after the other.
    let mut sent_away = 0;
    while sent_away < 48 - 2 * 16 {
        let answer = told.recv_timeout(Duration::from_secs(60)).expect("sent away");
        if answer.status == 429 {
            assert!(answer.headers.contains(&("retry-after".to_owned(), "10".to_owned())));
            sent_away += 1;
        }
    }
    let started = Instant::now();
    assert_eq!(status(&operator, "GET", "/"), 200);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    node.kill9().unwrap();
}

#[test]
fn heads_that_are_too_large_are_refused_before_anybody_looks_at_them() {
    let folder = tempfile::tempdir().unwrap();
    let node = start_with_password(folder.path());
    let exchange = |authorization: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", node.port())).unwrap();
        let head = format!("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: {authorization}\r\n\r\n");
        let _ = stream.write_all(head.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    let answer = exchange(&format!("Basic {}", "a".repeat(64 << 10)));
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let answer = exchange(&format!("Basic {}", "a".repeat(10 << 10)));
    assert!(
        answer.starts_with("HTTP/1.1 401") && answer.contains("is too long"),
        "{answer}"
    );
    assert!(
        answer.contains("www-authenticate: Basic realm=\"security\""),
        "{answer}"
    );
    assert!(exchange(&basic("elastic", "correct horse")).starts_with("HTTP/1.1 200"));
}

#[test]
fn who_sends_a_large_body_before_it_listens_hears_why_it_was_refused() {
    let folder = tempfile::tempdir().unwrap();
    let node = start_with_password(folder.path());
    let mut stream = TcpStream::connect(("127.0.0.1", node.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    const BODY_BYTES: usize = 4 << 20;
    let head = format!(
        "POST /_bulk HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-ndjson\r\ncontent-length: {BODY_BYTES}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The refusal is decided on the head alone, long before the body is there.
    std::thread::sleep(Duration::from_millis(200));
    for piece in vec![b'\n'; BODY_BYTES].chunks(256 << 10) {
        stream
            .write_all(piece)
            .expect("the server reads the body that it refuses");
    }
    // The connection goes on, for a request after it.
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 401").count(), 2, "{answers}");
}
