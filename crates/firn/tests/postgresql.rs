//! Event pipelines whose table is a query of a real PostgreSQL.

use std::path::Path;
use std::time::{Duration, Instant};

use firn_testkit::{Client, Node, NodeOptions, Postgresql};
use serde_json::{Value, json};

const ID: &str = "logins";

fn start(folder: &Path) -> Node {
    Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder, &NodeOptions::default()).unwrap()
}

fn stats(client: &Client) -> Value {
    client.get(&format!("/_firn/pipelines/{ID}/stats")).unwrap().json()
}

fn table(client: &Client) -> Value {
    stats(client)["tables"][0].clone()
}

#[track_caller]
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come within 60 s");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn wait_until_running(client: &Client) {
    wait_for("the pipeline", || stats(client)["running"] == json!(true));
}

fn pipeline(folder: &Path) -> Value {
    let pack = json!({
        "name": "logins", "version": 1, "prefix": "login", "parser": "json",
        "fields": {"h": "host.name", "u": "user.name"},
        "lookups": [{"table": "hosts", "key": "host.name", "columns": {"owner": "organization.name", "level": "event.severity"}}],
    });
    json!({
        "source": {"type": "http"}, "index": "logins", "pack": pack,
        "tables": {"hosts": {"type": "postgresql", "connection_file": folder.join("connection"), "listen": "hosts_changed",
            "query": "SELECT name, owner, level FROM hosts", "refresh": "1h"}},
    })
}

/// Stores an event of the host `web1`, and returns it.
fn send(client: &Client, user: &str) -> Value {
    let line = json!({"h": "web1", "u": user}).to_string();
    let sent = client
        .send(
            "POST",
            &format!("/_firn/pipelines/{ID}/_events"),
            Some("application/x-ndjson"),
            line.as_bytes(),
        )
        .unwrap();
    assert_eq!(sent.json()["indexed"], 1, "{}", sent.json());
    client.ok("POST", "/logins/_refresh", &Value::Null);
    let found = client.ok(
        "POST",
        "/logins/_search",
        &json!({"query": {"term": {"user.name.keyword": user}}}),
    );
    found["hits"]["hits"][0]["_source"].clone()
}

#[test]
fn a_query_is_a_table_that_changes_and_never_disappears() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Postgresql::start(&folder.path().join("postgresql"), None).unwrap();
    std::fs::write(folder.path().join("connection"), server.connection_string("disable")).unwrap();
    server
        .sql("CREATE TABLE hosts (name text, owner text, level int); INSERT INTO hosts VALUES ('web1', 'Ann Ltd', 3), ('web2', 'Bob Ltd', 5)")
        .unwrap();
    let node = start(folder.path());
    let client = node.client();

    // What a record becomes can be seen before the pipeline is there.
    let simulated = client.ok(
        "POST",
        "/_firn/pipelines/_simulate",
        &json!({"pipeline": pipeline(folder.path()), "records": [{"h": "web2", "u": "eve"}]}),
    );
    assert_eq!(
        simulated["records"][0]["document"]["organization"]["name"], "Bob Ltd",
        "{simulated}"
    );

    client.ok("PUT", &format!("/_firn/pipelines/{ID}"), &pipeline(folder.path()));
    wait_until_running(client);
    let first = send(client, "one");
    assert_eq!(
        (&first["organization"]["name"], &first["event"]["severity"]),
        (&json!("Ann Ltd"), &json!(3)),
        "{first}"
    );
    let version = table(client)["version"].as_str().unwrap().to_owned();
    assert_eq!(
        first["firn"]["mapping"]["tables"],
        json!([format!("hosts@{version}")]),
        "{first}"
    );

    // The same rows in another order are the same version.
    server
        .sql("UPDATE hosts SET level = level WHERE name = 'web1'; NOTIFY hosts_changed")
        .unwrap();
    server
        .sql("UPDATE hosts SET owner = 'Zoe Ltd' WHERE name = 'web1'; NOTIFY hosts_changed")
        .unwrap();
    wait_for("the next version", || table(client)["version"] != json!(version));
    assert_eq!(send(client, "two")["organization"]["name"], "Zoe Ltd");
    let version = table(client)["version"].clone();

    // The database goes away: the last version stays, and the stats say so.
    server.stop();
    wait_for("the failure", || !table(client)["error"].is_null());
    assert_eq!(send(client, "three")["organization"]["name"], "Zoe Ltd");
    assert_eq!(table(client)["version"], version);
    let age = table(client)["age_in_millis"].as_i64().unwrap();
    wait_for("an age that grows", || {
        table(client)["age_in_millis"].as_i64().unwrap() > age
    });

    // It comes back without rows, which is no table.
    server.start_again().unwrap();
    wait_for("its return", || table(client)["error"].is_null());
    server.sql("DELETE FROM hosts; NOTIFY hosts_changed").unwrap();
    wait_for("the refusal", || {
        table(client)["error"]
            .as_str()
            .is_some_and(|error| error.contains("no rows"))
    });
    assert_eq!(send(client, "four")["organization"]["name"], "Zoe Ltd");
}

#[test]
fn a_pipeline_waits_for_its_table_and_holds_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Postgresql::start(&folder.path().join("postgresql"), None).unwrap();
    std::fs::write(folder.path().join("connection"), server.connection_string("disable")).unwrap();
    server
        .sql("CREATE TABLE hosts (name text, owner text, level int); INSERT INTO hosts VALUES ('web1', 'Ann Ltd', 3)")
        .unwrap();
    server.stop();
    let node = start(folder.path());
    let client = node.client();
    client.ok("PUT", &format!("/_firn/pipelines/{ID}"), &pipeline(folder.path()));
    client.ok(
        "PUT",
        "/_firn/pipelines/plain",
        &json!({"source": {"type": "http"}, "index": "plain"}),
    );
    wait_for("the reason", || {
        let now = stats(client);
        let reason = now["error"].as_str().unwrap_or_default();
        now["running"] == json!(false) && reason.contains("table [hosts]") && reason.contains("refused")
    });
    wait_for("the other pipeline", || {
        client.get("/_firn/pipelines/plain/stats").unwrap().json()["running"] == json!(true)
    });
    let sent = client
        .send(
            "POST",
            &format!("/_firn/pipelines/{ID}/_events"),
            Some("application/x-ndjson"),
            b"{}",
        )
        .unwrap();
    assert_eq!(sent.status, 503, "{}", sent.json());
    server.start_again().unwrap();
    wait_until_running(client);
    assert_eq!(send(client, "one")["organization"]["name"], "Ann Ltd");
    // The password of the connection string is nowhere to be read.
    let shown = client.get("/_firn/pipelines").unwrap().json().to_string() + &stats(client).to_string();
    assert!(!shown.contains("for-tests-only"), "{shown}");
}
