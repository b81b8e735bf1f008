//! Deletes by query against the real process: interruptions, rights, and limits.

use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_testkit::{Client, Node, NodeOptions};
use serde_json::{Value, json};

fn start(folder: &Path, settings: &[(&str, String)]) -> Node {
    let settings = settings.iter();
    let settings = settings.map(|(name, value)| ((*name).to_owned(), value.clone()));
    let options = NodeOptions {
        settings: settings.collect(),
    };
    Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder, &options).unwrap()
}

/// Indexes events with `n` from 0, every third of them with `retained`.
fn fill(client: &Client, index: &str, count: u64) {
    let lines: String = (0..count)
        .map(|n| format!("{{\"index\":{{}}}}\n{{\"n\":{n},\"retained\":{}}}\n", n % 3 == 0))
        .collect();
    let answer = client
        .bulk(&format!("/{index}/_bulk?refresh=true"), lines.as_bytes())
        .unwrap();
    assert_eq!(answer.json()["errors"], false, "{}", answer.text());
}

fn count(client: &Client, index: &str, query: &Value) -> u64 {
    let answer = client.ok("POST", &format!("/{index}/_count"), &json!({"query": query}));
    answer["count"].as_u64().unwrap()
}

fn retained(yes: bool) -> Value {
    json!({"term": {"retained": yes}})
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the running deletes by query with their progress.
fn running(client: &Client) -> Vec<Value> {
    let path = "/_tasks?actions=*byquery&detailed&group_by=none";
    let tasks = client.ok("GET", path, &Value::Null);
    tasks["tasks"].as_array().unwrap().clone()
}

fn open_contexts(client: &Client) -> u64 {
    let open = client.ok("GET", "/_search/point_in_time/_all", &Value::Null);
    open["pits"].as_array().unwrap().len() as u64
}

#[test]
fn after_kill_9_asking_again_deletes_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let count_all = 9000;
    fill(node.client(), "killed", count_all);
    let path = "/killed/_delete_by_query?scroll_size=20&wait_for_completion=false&slices=auto";
    node.client().ok("POST", path, &json!({"query": retained(false)}));
    let deleted = || {
        running(node.client())
            .first()
            .map(|task| task["status"]["deleted"].as_u64())
    };
    wait_until("it deletes", || {
        deleted().is_none_or(|deleted| deleted.is_some_and(|deleted| deleted >= 200))
    });
    node.kill9().unwrap();
    let node = start(folder.path(), &[]);
    let client = node.client();
    client.ok("POST", "/killed/_refresh", &Value::Null);
    let left = count(client, "killed", &retained(false));
    assert!(left <= 6000 - 200, "what was counted as deleted came back: {left}");
    assert!(left > 0, "it was done before it was killed");
    assert_eq!(count(client, "killed", &retained(true)), 3000);
    assert!(running(client).is_empty());
    let again = client.ok(
        "POST",
        "/killed/_delete_by_query?refresh=true",
        &json!({"query": retained(false)}),
    );
    assert_eq!(
        (&again["deleted"], &again["version_conflicts"]),
        (&json!(left), &json!(0)),
        "{again}"
    );
    assert_eq!(count(client, "killed", &retained(false)), 0);
    assert_eq!(count(client, "killed", &retained(true)), 3000);
}

#[test]
fn it_ends_with_a_client_that_goes_away() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let client = node.client();
    fill(client, "left", 300);
    let body = json!({"query": retained(false)}).to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", node.port())).unwrap();
    let head = format!(
        "POST /left/_delete_by_query?scroll_size=10&requests_per_second=20 HTTP/1.1\r\nhost: firn\r\ncontent-type: \
         application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    wait_until("it says how far it is", || {
        let tasks = running(client);
        tasks.first().is_some_and(|task| {
            let status = &task["status"];
            status["total"] == 200 && status["deleted"].as_u64() > Some(0) && status["requests_per_second"] == 20.0
        })
    });
    assert_eq!(open_contexts(client), 1);
    drop(stream);
    wait_until("it ends", || running(client).is_empty() && open_contexts(client) == 0);
    client.ok("POST", "/left/_refresh", &Value::Null);
    let left = count(client, "left", &retained(false));
    assert!(0 < left && left < 200, "{left}");
    std::thread::sleep(Duration::from_millis(700));
    client.ok("POST", "/left/_refresh", &Value::Null);
    assert_eq!(count(client, "left", &retained(false)), left);
}

#[test]
fn no_more_run_in_the_background_than_there_is_room_for() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let client = node.client();
    fill(client, "many", 200);
    let path =
        "/many/_delete_by_query?wait_for_completion=false&scroll_size=1&requests_per_second=0.001&conflicts=proceed";
    let body = json!({"query": {"match_all": {}}});
    for _ in 0..64 {
        client.ok("POST", path, &body);
    }
    let refused = client.json("POST", path, &body).unwrap();
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert!(
        refused
            .text()
            .contains("[64] deletes by query already run in the background"),
        "{}",
        refused.text()
    );
    assert_eq!(running(client).len(), 64);
    client.ok("POST", "/_tasks/_cancel?actions=*byquery", &Value::Null);
    wait_until("they end", || running(client).is_empty() && open_contexts(client) == 0);
    client.ok("POST", path, &body);
}

#[test]
fn pages_and_batches_miss_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let client = node.client();
    let settings = json!({"settings": {"number_of_shards": 3, "index.max_result_window": 700}});
    client.ok("PUT", "/paged", &settings);
    fill(client, "paged", 6000);
    let delete = |parameters: &str, body: &Value| {
        let answer = client
            .json(
                "POST",
                &format!("/paged/_delete_by_query?refresh=true&{parameters}"),
                body,
            )
            .unwrap();
        (answer.status, answer.json())
    };
    // Fewer than the maximum of one search: several searches.
    let (status, answer) = delete(
        "scroll_size=300",
        &json!({"query": retained(true), "sort": [{"n": "desc"}]}),
    );
    assert_eq!(
        (status, &answer["deleted"], &answer["total"]),
        (200, &json!(2000), &json!(2000)),
        "{answer}"
    );
    assert_eq!(count(client, "paged", &retained(true)), 0);
    // More than the maximum of one search.
    let (status, answer) = delete("scroll_size=701", &json!({"query": retained(false)}));
    assert_eq!(status, 400, "{answer}");
    let (_, answer) = delete("max_docs=1001&scroll_size=100", &json!({"query": retained(false)}));
    assert_eq!(
        (&answer["deleted"], &answer["batches"]),
        (&json!(1001), &json!(11)),
        "{answer}"
    );
    let (_, answer) = delete("scroll_size=700", &json!({"query": {"match_all": {}}}));
    assert_eq!(answer["deleted"], 2999, "{answer}");
    assert_eq!(count(client, "paged", &json!({"match_all": {}})), 0);
}

#[test]
fn what_is_mounted_is_not_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let repositories = folder.path().join("repositories");
    let node = start(folder.path(), &[("path.repo", repositories.display().to_string())]);
    let client = node.client();
    fill(client, "mounted", 30);
    let repository = json!({"type": "fs", "settings": {"location": repositories.join("r").display().to_string()}});
    client.ok("PUT", "/_snapshot/r", &repository);
    client.ok(
        "PUT",
        "/_snapshot/r/s?wait_for_completion=true",
        &json!({"indices": "mounted"}),
    );
    client.ok("DELETE", "/mounted", &Value::Null);
    for storage in ["full_copy", "shared_cache"] {
        let path = format!("/_snapshot/r/s/_mount?wait_for_completion=true&storage={storage}");
        let body = json!({"index": "mounted", "renamed_index": storage});
        client.ok("POST", &path, &body);
        let path = format!("/{storage}/_delete_by_query?conflicts=proceed");
        let answer = client.json("POST", &path, &json!({"query": retained(false)})).unwrap();
        assert_eq!(answer.status, 403, "{}", answer.text());
        let answer = answer.json();
        assert_eq!(
            (&answer["total"], &answer["deleted"]),
            (&json!(20), &json!(0)),
            "{answer}"
        );
        assert_eq!(
            answer["failures"][0]["cause"]["type"], "cluster_block_exception",
            "{answer}"
        );
        assert_eq!(count(client, storage, &retained(false)), 20);
    }
}

#[test]
fn it_takes_reading_and_writing() {
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, "correct horse\n").unwrap();
    let settings = [
        ("xpack.security.enabled", "true".to_owned()),
        ("operator.password_file", password.display().to_string()),
    ];
    let node = start(folder.path(), &settings);
    let operator = node
        .client()
        .authorized(format!("Basic {}", STANDARD.encode("elastic:correct horse")));
    for index in ["both", "read-only", "write-only"] {
        fill(&operator, index, 6);
    }
    operator.ok("PUT", "/both/_alias/named", &Value::Null);
    let grants = json!([
        {"names": ["both", "read-only"], "privileges": ["read"]},
        {"names": ["both", "write-only"], "privileges": ["write", "refresh"]},
    ]);
    let client_of = |name: &str, grants: &Value| {
        operator.ok("PUT", &format!("/_security/role/{name}"), &json!({"indices": grants}));
        let user = json!({"password": "staple battery", "roles": [name]});
        operator.ok("PUT", &format!("/_security/user/{name}"), &user);
        node.client()
            .authorized(format!("Basic {}", STANDARD.encode(format!("{name}:staple battery"))))
    };
    let some = client_of("some", &grants);
    let readers = client_of("readers", &json!([{"names": ["*"], "privileges": ["read"]}]));
    let writers = client_of("writers", &json!([{"names": ["*"], "privileges": ["write"]}]));
    let query = json!({"query": retained(true)});
    for (client, path) in [
        (&readers, "/both/_delete_by_query"),
        (&writers, "/both/_delete_by_query"),
        (&writers, "/both/_delete_by_query?wait_for_completion=false"),
        (&some, "/read-only/_delete_by_query"),
        (&some, "/write-only/_delete_by_query"),
        (&some, "/both,read-only/_delete_by_query"),
    ] {
        let answer = client.json("POST", path, &query).unwrap();
        assert_eq!(answer.status, 403, "{path}: {}", answer.text());
        assert_eq!(answer.json()["error"]["type"], "security_exception");
    }
    let answer = some.ok("POST", "/*/_delete_by_query?refresh=true", &query);
    assert_eq!(
        (&answer["total"], &answer["deleted"]),
        (&json!(2), &json!(2)),
        "{answer}"
    );
    for (index, left) in [("both", 0), ("read-only", 2), ("write-only", 2)] {
        assert_eq!(count(&operator, index, &retained(true)), left, "{index}");
    }
    // A caller with rights on the alias only gets an error about the index behind it.
    let named = client_of("named", &json!([{"names": ["named"], "privileges": ["read", "write"]}]));
    let answer = named
        .json("POST", "/named/_delete_by_query", &json!({"query": retained(false)}))
        .unwrap();
    let left = count(&operator, "both", &retained(false));
    let deleted = answer.json()["deleted"].as_u64().unwrap_or(0);
    assert_eq!(left + deleted, 4, "{}", answer.text());
    assert!(answer.status == 200 || deleted == 0, "{}", answer.text());
}
