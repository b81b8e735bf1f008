//! Queries of a real PostgreSQL.

use std::path::Path;
use std::time::Duration;

use firn_pipeline::tables::{PostgresqlDefinition, TableQuery};
use firn_postgresql::PostgresqlQuery;
use firn_testkit::Postgresql;
use serde_json::{Value, json};

fn query(folder: &Path, members: Value) -> Box<dyn TableQuery> {
    let mut body = json!({"connection_file": folder.join("connection"), "query": "SELECT 1 AS key, 2 AS n"});
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    let definition: PostgresqlDefinition = serde_json::from_value(body).unwrap();
    PostgresqlQuery::of_definition(&definition).unwrap()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), future).await.unwrap() })
}

#[test]
fn rows_have_the_types_of_their_columns() {
    let folder = tempfile::tempdir().unwrap();
    let server = Postgresql::start(folder.path(), None).unwrap();
    std::fs::write(folder.path().join("connection"), server.connection_string("disable")).unwrap();
    let sql = "SELECT '192.0.2.1'::inet AS address, 7 AS level, 1.5::numeric AS weight, true AS vip, NULL AS team, \
               timestamptz '2026-01-01 00:00:00+00' AT TIME ZONE 'UTC' AS since -- the only row";
    let rows = run(query(folder.path(), json!({ "query": sql })).rows()).unwrap();
    let row: Value = serde_json::from_str(&rows[0]).unwrap();
    let expect = json!({"address": "192.0.2.1", "level": 7, "weight": 1.5, "vip": true, "team": null, "since": "2026-01-01T00:00:00"});
    assert_eq!((rows.len(), row), (1, expect));
}

#[test]
fn failures_name_their_reason_and_never_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let server = Postgresql::start(folder.path(), None).unwrap();
    let connection = folder.path().join("connection");
    let failure = |members: Value| run(query(folder.path(), members).rows()).unwrap_err();

    assert!(failure(json!({})).contains("cannot read"));
    std::fs::write(&connection, "host=127.0.0.1 pasword=secret-word").unwrap();
    let refused = failure(json!({}));
    assert!(
        refused.contains("no connection string") && !refused.contains("secret"),
        "{refused}"
    );
    std::fs::write(&connection, server.connection_string("disable")).unwrap();
    server.sql("CREATE TABLE hosts (name text)").unwrap();
    for (sql, reason) in [
        ("SELECT nothing FROM hosts", "column \"nothing\" does not exist"),
        (
            "WITH gone AS (DELETE FROM hosts RETURNING name) SELECT name FROM gone",
            "",
        ),
        ("SELECT 1) x; DROP TABLE hosts; SELECT (2", "multiple commands"),
    ] {
        let refused = failure(json!({ "query": sql }));
        assert!(refused.contains(reason), "{sql}: {refused}");
    }
    assert_eq!(server.sql("SELECT count(*) FROM hosts").unwrap(), "0");
    // Over a function that writes: the transaction is read only.
    server
        .sql("CREATE FUNCTION add() RETURNS text LANGUAGE sql AS 'INSERT INTO hosts VALUES (''a'') RETURNING name'")
        .unwrap();
    let refused = failure(json!({"query": "SELECT add() AS key, 1 AS n"}));
    assert!(refused.contains("read-only transaction"), "{refused}");

    let wrong = server
        .connection_string("disable")
        .replace("password=", "password=not-");
    std::fs::write(&connection, &wrong).unwrap();
    let refused = failure(json!({}));
    assert!(
        refused.contains("password authentication failed") && !refused.contains("not-for"),
        "{refused}"
    );
    drop(server);
    assert!(failure(json!({})).contains("refused"));
}

#[test]
fn a_notification_is_heard_also_after_the_server_was_away() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Postgresql::start(folder.path(), None).unwrap();
    std::fs::write(folder.path().join("connection"), server.connection_string("disable")).unwrap();
    server.sql("CREATE TABLE hosts (name text, owner text)").unwrap();
    let mut table = query(
        folder.path(),
        json!({"query": "SELECT * FROM hosts", "listen": "Hosts \"changed\""}),
    );
    run(async {
        assert_eq!(table.rows().await, Ok(vec![]));
        let quiet = tokio::time::timeout(Duration::from_millis(300), table.changed()).await;
        assert!(quiet.is_err(), "nothing was announced");
        server
            .sql("INSERT INTO hosts VALUES ('web1', 'ann'); NOTIFY \"Hosts \"\"changed\"\"\"")
            .unwrap();
        table.changed().await;
        assert_eq!(table.rows().await.unwrap().len(), 1);
        server.stop();
        // The connection ended: notifications may be missed.
        table.changed().await;
        assert!(table.rows().await.is_err());
        server.start_again().unwrap();
        table.changed().await;
        assert_eq!(table.rows().await.unwrap().len(), 1);
        server.sql("NOTIFY \"Hosts \"\"changed\"\"\"").unwrap();
        table.changed().await;
    });
}

#[test]
fn tls_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let certificate = made.cert.pem();
    let server = Postgresql::start(
        &folder.path().join("server"),
        Some((&certificate, &made.signing_key.serialize_pem())),
    )
    .unwrap();
    std::fs::write(folder.path().join("connection"), server.connection_string("require")).unwrap();
    std::fs::write(folder.path().join("ca.pem"), &certificate).unwrap();
    let trusted = json!({"certificate_authority": folder.path().join("ca.pem"),
        "query": "SELECT 'tls' AS key, ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"});
    let rows = run(query(folder.path(), trusted).rows()).unwrap();
    assert_eq!(rows, ["{\"key\":\"tls\",\"ssl\":true}"]);
    let refused = run(query(folder.path(), json!({})).rows()).unwrap_err();
    assert!(refused.contains("certificate"), "{refused}");
}
