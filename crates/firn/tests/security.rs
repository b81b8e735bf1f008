//! Security of the real process: the operator of the first start, users, API keys and their limits, refused callers,
//! and the permissions of the files that firn writes.

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

/// Returns the password from the start message.
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

    // From now on authentication is on without a setting, and no password is printed any more.
    let node = start(folder.path(), &[]);
    let operator = node.client().authorized(basic("elastic", &password));
    assert_eq!(
        (status(&operator, "GET", "/"), status(node.client(), "GET", "/")),
        (200, 401)
    );
    assert_eq!(node.log().matches(&password).count(), 1);
    node.stop().unwrap();

    // Other users cannot read the store of users.
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
    // An operator without the password sets another one.
    let node = start_with_password(folder.path());
    check(&node, "correct horse", 200);
    check(&node, "out of a file", 401);
    let settings = node.client().authorized(basic("elastic", "correct horse"));
    let shown = settings.get("/_cluster/settings?include_defaults=true").unwrap().text();
    assert!(!shown.contains("correct horse"), "{shown}");
    node.stop().unwrap();
}

#[test]
fn a_disabled_operator_comes_back_with_the_same_password() {
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
    assert_eq!(status(&elastic, "GET", "/"), 401, "no password was given");
    node.stop().unwrap();

    let node = start_with_password(folder.path());
    let elastic = node.client().authorized(basic("elastic", "correct horse"));
    assert_eq!(status(&elastic, "GET", "/"), 200);
    assert!(node.log().contains("enabled the disabled operator"), "{}", node.log());
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
    let short = key(json!({"name": "short", "expiration": "5s", "metadata": {"tenant": "acme"}}));
    let made = Instant::now();
    assert_eq!(status(&node.client().authorized(&short), "GET", "/"), 200);
    node.kill9().unwrap();

    let node = start(folder.path(), &[]);
    let by = |key: &str| node.client().authorized(key);
    let me = by(&long).ok("GET", "/_security/_authenticate", &Value::Null);
    assert_eq!(me["metadata"]["tenant"], "acme");
    std::thread::sleep(Duration::from_millis(5100).saturating_sub(made.elapsed()));
    let refused = by(&short).get("/").unwrap();
    assert_eq!(refused.status, 401);
    assert!(refused.text().contains("api key is expired"), "{}", refused.text());

    // Without the privilege the answer is the same whether or not the index exists.
    let operator = by(&basic("elastic", "correct horse"));
    operator.ok("PUT", "/there", &Value::Null);
    let there = by(&long).send("DELETE", "/there", None, b"").unwrap();
    let nowhere = by(&long).send("DELETE", "/nowhere", None, b"").unwrap();
    let body = there.text().replace("[there]", "[nowhere]");
    assert_eq!((there.status, body), (403, nowhere.text()));
    node.stop().unwrap();
}

#[test]
fn guessing_gets_slow_and_blocks_no_other_client() {
    let folder = tempfile::tempdir().unwrap();
    let node = start_with_password(folder.path());
    let operator = node.client().authorized(basic("elastic", "correct horse"));
    assert_eq!(status(&operator, "GET", "/"), 200);
    let started = Instant::now();
    for number in 0..9 {
        let guess = node.client().authorized(basic("elastic", &format!("guess {number}")));
        assert_eq!(status(&guess, "GET", "/"), 401);
    }
    // Five attempts are free; then the delays are 0.1, 0.2, 0.4 s.
    assert!(
        started.elapsed() >= Duration::from_millis(650),
        "{:?}",
        started.elapsed()
    );
    // Another client guesses over many connections at once: some wait, few at a time, and the rest is refused.
    let (sender, receiver) = std::sync::mpsc::channel();
    for number in 0..48 {
        let client = node.client().authorized(basic("elastic", &format!("flood {number}")));
        let sender = sender.clone();
        std::thread::spawn(move || {
            let _ = client.get("/").map(|answer| sender.send(answer));
        });
    }
    // Sixteen can wait, with growing delays; a slow machine may accept a few more, one after the other.
    let mut sent_away = 0;
    while sent_away < 48 - 2 * 16 {
        let answer = receiver.recv_timeout(Duration::from_secs(60)).expect("sent away");
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
fn heads_that_are_too_large_are_refused_before_authentication() {
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
fn a_client_that_sends_a_large_body_first_sees_the_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let node = start_with_password(folder.path());
    let mut stream = TcpStream::connect(("127.0.0.1", node.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    const BODY_BYTES: usize = 4 << 20;
    let head = format!(
        "POST /_bulk HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-ndjson\r\ncontent-length: {BODY_BYTES}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The refusal depends only on the head, long before the body arrives.
    std::thread::sleep(Duration::from_millis(200));
    for piece in vec![b'\n'; BODY_BYTES].chunks(256 << 10) {
        stream
            .write_all(piece)
            .expect("the server reads the body that it refuses");
    }
    // The connection stays usable for the next request.
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 401").count(), 2, "{answers}");
}

/// Regression test of issue 17: a narrow or expiring key created a `tenant_admin`, and set another user's password.
#[test]
fn keys_make_nothing_that_outranks_or_outlives_them() {
    let folder = tempfile::tempdir().unwrap();
    let node = start_with_password(folder.path());
    let operator = node.client().authorized(basic("elastic", "correct horse"));
    operator.ok("PUT", "/_firn/tenants/acme", &json!({}));
    let of_acme = |roles: &[&str]| json!({"password": "correct horse", "roles": roles, "metadata": {"tenant": "acme"}});
    operator.ok("PUT", "/_security/user/ann", &of_acme(&["tenant_admin"]));
    operator.ok("PUT", "/_security/user/bob", &of_acme(&["tenant_reader"]));
    operator.ok(
        "PUT",
        "/_security/role/small",
        &json!({"indices": [{"names": ["a"], "privileges": ["read"]}]}),
    );
    let ann = node.client().authorized(basic("ann", "correct horse"));
    let key_of = |maker: &Client, body: Value| {
        let made = maker.ok("POST", "/_security/api_key", &body);
        let client = node
            .client()
            .authorized(format!("ApiKey {}", made["encoded"].as_str().unwrap()));
        (made["id"].as_str().unwrap().to_owned(), client)
    };
    let (victim, victim_client) = key_of(&ann, json!({"name": "victim"}));
    let narrow =
        json!({"r": {"cluster": ["manage_own_api_key"], "indices": [{"names": ["a"], "privileges": ["read"]}]}});
    let named =
        json!({"r": {"cluster": ["all", "manage_security"], "indices": [{"names": ["*"], "privileges": ["all"]}]}});
    let before = operator.ok("GET", "/_security/user", &Value::Null);
    let roles_before = operator.ok("GET", "/_security/role", &Value::Null);
    for maker in [&operator, &ann] {
        for body in [
            json!({"name": "inherits"}),
            json!({"name": "expires", "expiration": "1h"}),
            json!({"name": "narrow", "role_descriptors": narrow}),
            json!({"name": "narrow and expires", "role_descriptors": narrow, "expiration": "1h"}),
            json!({"name": "named and expires", "role_descriptors": named, "expiration": "1h"}),
        ] {
            let (_, key) = key_of(maker, body.clone());
            let password = json!({"password": "another password"});
            let role = json!({"indices": [{"names": ["*"], "privileges": ["all"]}]});
            for (method, path, sent) in [
                ("PUT", "/_security/user/eve", of_acme(&["tenant_admin"])),
                ("POST", "/_security/user/bob", of_acme(&["tenant_admin"])),
                ("PUT", "/_security/user/ann/_password", password.clone()),
                ("PUT", "/_security/user/bob/_password", password.clone()),
                ("POST", "/_security/user/_password", password.clone()),
                ("PUT", "/_security/user/elastic/_password", password),
                ("PUT", "/_security/user/bob/_disable", Value::Null),
                ("DELETE", "/_security/user/bob", Value::Null),
                ("PUT", "/_security/role/small", role.clone()),
                ("PUT", "/_security/role/large", role),
                ("DELETE", "/_security/role/small", Value::Null),
                ("POST", "/_security/api_key", json!({"name": "child"})),
                (
                    "POST",
                    "/_security/api_key",
                    json!({"name": "child", "role_descriptors": named}),
                ),
                ("POST", "/_firn/session/view", json!({"tenant": "acme", "reason": "x"})),
                ("PUT", "/_firn/tenants/acme/x", json!({})),
            ] {
                let answer = key.ask(method, path, &sent).unwrap();
                assert!(
                    (400..500).contains(&answer.status),
                    "{body}: {method} {path}: {} {}",
                    answer.status,
                    answer.text()
                );
            }
            let check = json!({"cluster": ["manage_security"]});
            let has = key.ok("POST", "/_security/user/_has_privileges", &check);
            assert_eq!(has["has_all_requested"], false, "{body}: {has}");
            if body["name"] != "named and expires" {
                key.ask("DELETE", "/_security/api_key", &json!({"ids": [victim]}))
                    .unwrap();
            }
        }
    }
    assert_eq!(operator.ok("GET", "/_security/user", &Value::Null), before);
    assert_eq!(operator.ok("GET", "/_security/role", &Value::Null), roles_before);
    for (name, expect) in [("ann", 200), ("bob", 200), ("elastic", 200), ("eve", 401)] {
        let client = node.client().authorized(basic(name, "correct horse"));
        assert_eq!(status(&client, "GET", "/"), expect, "{name}");
    }
    assert_eq!(status(&victim_client, "GET", "/"), 200, "no key ended it");

    // A key with the privilege by name and without expiry can grant its own privileges.
    let (_, key) = key_of(&ann, json!({"name": "provisions", "role_descriptors": named}));
    key.ok("PUT", "/_security/user/eve", &of_acme(&["tenant_admin"]));
    let own = key
        .json(
            "PUT",
            "/_security/user/_password",
            &json!({"password": "another password"}),
        )
        .unwrap();
    assert_eq!(own.status, 403, "{}", own.text());
    assert_eq!(own.json()["error"]["type"], "security_exception", "{}", own.text());
    key.ok("DELETE", "/_security/api_key", &json!({"ids": [victim]}));
    assert_eq!(status(&victim_client, "GET", "/"), 401);
    node.stop().unwrap();
}

/// Returns each path below a folder, the folder first, with its mode.
fn modes(folder: &Path) -> Vec<(std::path::PathBuf, u32, bool)> {
    use std::os::unix::fs::PermissionsExt as _;
    let metadata = std::fs::symlink_metadata(folder).unwrap();
    let mut found = vec![(
        folder.to_owned(),
        metadata.permissions().mode() & 0o777,
        metadata.is_dir(),
    )];
    if metadata.is_dir() {
        for entry in std::fs::read_dir(folder).unwrap() {
            found.extend(modes(&entry.unwrap().path()));
        }
    }
    found
}

#[track_caller]
fn are_private(folder: &Path, files_min: usize) {
    let found = modes(folder);
    for (path, mode, is_dir) in &found {
        let expect = if *is_dir { 0o700 } else { 0o600 };
        assert_eq!(*mode, expect, "{}: {mode:o}", path.display());
    }
    assert!(found.len() >= files_min, "{found:?}");
}

#[test]
fn data_folders_are_for_the_user_of_the_process_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let settings = [
        ON,
        ("path.repo", &path("backups")),
        ("path.data.cold", &path("cold")),
        ("path.data.frozen", &path("frozen")),
        ("xpack.searchable.snapshot.shared_cache.size", "16mb"),
    ];
    let password = folder.path().join("password");
    std::fs::write(&password, "correct horse\n").unwrap();
    let mut settings = settings.to_vec();
    settings.push(("operator.password_file", password.to_str().unwrap()));
    let node = start(folder.path(), &settings);
    let operator = node.client().authorized(basic("elastic", "correct horse"));
    operator.ok("PUT", "/one/_doc/1?refresh=true", &json!({"a": "b"}));
    operator.ok("POST", "/_flush", &Value::Null);
    operator.ok("PUT", "/_firn/saved/search/s", &json!({"title": "s", "state": {}}));
    operator.ok(
        "PUT",
        "/_snapshot/r",
        &json!({"type": "fs", "settings": {"location": "r"}}),
    );
    let left = std::fs::read_dir(folder.path().join("backups/r")).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(
        !left.into_iter().any(|name| name.starts_with("tests-")),
        "registering leaves nothing behind"
    );
    operator.ok(
        "PUT",
        "/_snapshot/r/s1?wait_for_completion=true",
        &json!({"indices": "one"}),
    );
    let mount = json!({"index": "one", "renamed_index": "mounted"});
    operator.ok(
        "POST",
        "/_snapshot/r/s1/_mount?wait_for_completion=true&storage=shared_cache",
        &mount,
    );
    operator.ok("POST", "/mounted/_search", &json!({"query": {"match": {"a": "b"}}}));
    operator.ok("PUT", "/two/_doc/1", &json!({"a": "b"}));
    for name in ["data", "cold", "frozen"] {
        are_private(&folder.path().join(name), 2);
    }
    // Repositories are shared with other machines: their mode follows the umask of the start.
    let (_, mode, _) = modes(&folder.path().join("backups/r"))[0];
    assert_eq!(mode & 0o700, 0o700);
    node.stop().unwrap();

    // The mode that older builds left.
    for name in ["data", "cold", "frozen"] {
        for (path, _, is_dir) in modes(&folder.path().join(name)) {
            let mode = if is_dir { 0o755 } else { 0o644 };
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    }
    let node = start(folder.path(), &settings);
    for name in ["data", "cold", "frozen"] {
        are_private(&folder.path().join(name), 2);
    }
    let log = node.log();
    assert_eq!(
        log.matches("other users could read the data folder").count(),
        3,
        "{log}"
    );
    let operator = node.client().authorized(basic("elastic", "correct horse"));
    assert_eq!(operator.ok("GET", "/one/_count", &Value::Null)["count"], 1);
    node.stop().unwrap();
    let node = start(folder.path(), &settings);
    assert_eq!(
        node.log().matches("other users could read the data folder").count(),
        3,
        "once only: {}",
        node.log()
    );
    node.stop().unwrap();
}

#[test]
fn links_below_path_repo_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (backups, outside) = (folder.path().join("backups"), folder.path().join("outside"));
    for path in [&backups, &outside] {
        std::fs::create_dir(path).unwrap();
    }
    std::os::unix::fs::symlink(&outside, backups.join("evil")).unwrap();
    let node = start(folder.path(), &[("path.repo", backups.to_str().unwrap())]);
    let client = node.client();
    for (kind, settings) in [
        ("fs", json!({"location": "evil"})),
        ("fs", json!({"location": "evil/deeper"})),
        ("fs", json!({"location": "evil", "readonly": true})),
        ("url", json!({"url": format!("file://{}/evil", backups.display())})),
    ] {
        let answer = client
            .json("PUT", "/_snapshot/r", &json!({"type": kind, "settings": settings}))
            .unwrap();
        assert_eq!(
            (answer.status, &answer.json()["error"]["type"]),
            (500, &json!("repository_exception")),
            "{}",
            answer.text()
        );
        assert!(answer.text().contains("is a symbolic link"), "{}", answer.text());
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    client.ok(
        "PUT",
        "/_snapshot/r",
        &json!({"type": "fs", "settings": {"location": "r"}}),
    );
    client.ok("PUT", "/one/_doc/1?refresh=true", &json!({"a": "b"}));
    // The data folder, replaced by a link after the registration.
    let names: Vec<_> = std::fs::read_dir(backups.join("r"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    for path in names {
        match path.is_dir() {
            true => std::fs::remove_dir_all(path).unwrap(),
            false => std::fs::remove_file(path).unwrap(),
        }
    }
    std::fs::remove_dir(backups.join("r")).unwrap();
    std::os::unix::fs::symlink(&outside, backups.join("r")).unwrap();
    let answer = client
        .json(
            "PUT",
            "/_snapshot/r/s1?wait_for_completion=true",
            &json!({"indices": "one"}),
        )
        .unwrap();
    assert!(
        answer.status >= 400 || answer.text().contains("FAILED"),
        "{}",
        answer.text()
    );
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "{}", answer.text());
    node.stop().unwrap();
}

#[test]
fn names_that_paths_cannot_have_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let backups = folder.path().join("backups");
    let node = start_with_settings_for_names(folder.path(), &backups);
    let operator = node.client().authorized(basic("elastic", "correct horse"));
    operator.ok("PUT", "/_firn/tenants/acme", &json!({}));
    operator.ok(
        "PUT",
        "/_snapshot/r",
        &json!({"type": "fs", "settings": {"location": "r"}}),
    );
    let fs = json!({"type": "fs", "settings": {"location": "x"}});
    let template = json!({"index_patterns": ["x*"]});
    let policy = json!({"policy": {"phases": {"hot": {"actions": {}}}}});
    let slm = json!({"schedule": "0 0 1 * * ?", "name": "a", "repository": "r"});
    let role = json!({"cluster": ["monitor"]});
    let user = json!({"password": "correct horse", "roles": []});
    let saved = json!({"title": "x", "state": {}});
    let long = "x".repeat(600);
    for name in ["%2E", "%2E%2E", "a%00b", "a%0Ab", long.as_str()] {
        for (path, body) in [
            ("/_snapshot/NAME", &fs),
            ("/_snapshot/r/NAME", &Value::Null),
            ("/_index_template/NAME", &template),
            ("/_component_template/NAME", &json!({"template": {}})),
            ("/_ilm/policy/NAME", &policy),
            ("/_slm/policy/NAME", &slm),
            ("/_data_stream/NAME", &Value::Null),
            ("/NAME", &Value::Null),
            ("/_firn/tenants/NAME", &json!({})),
            ("/_firn/saved/search/NAME", &saved),
            ("/_security/user/NAME", &user),
            ("/_security/role/NAME", &role),
        ] {
            let path = path.replace("NAME", name);
            let answer = operator.ask("PUT", &path, body).unwrap();
            assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        }
    }
    let listed = operator.ok("GET", "/_snapshot", &Value::Null);
    assert_eq!(listed.as_object().unwrap().len(), 1, "{listed}");
    node.stop().unwrap();
}

fn start_with_settings_for_names(folder: &Path, backups: &Path) -> Node {
    let file = folder.join("password");
    std::fs::write(&file, "correct horse\n").unwrap();
    let settings = [
        ON,
        ("operator.password_file", file.to_str().unwrap()),
        ("path.repo", backups.to_str().unwrap()),
    ];
    start(folder, &settings)
}
