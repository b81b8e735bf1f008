//! Enrich policies of the running server: their records after kill -9, and executions that fail.

use std::path::Path;

use firn_testkit::{Client, Node, NodeOptions};
use serde_json::{Value, json};

fn start(folder: &Path) -> Node {
    Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder, &NodeOptions::default()).unwrap()
}

fn enriched(client: &Client, id: u32) -> Value {
    let path = format!("/events/_doc/{id}?pipeline=owners");
    client.ok("PUT", &path, &json!({"host": "h1500"}));
    client.ok("GET", &format!("/events/_source/{id}"), &Value::Null)["owner"]["name"].clone()
}

fn indices(client: &Client) -> Vec<String> {
    let listed = client.ok(
        "GET",
        "/_cat/indices/.enrich-*?format=json&expand_wildcards=all",
        &Value::Null,
    );
    let names = listed.as_array().unwrap().iter();
    names.map(|index| index["index"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn records_survive_kills_and_failed_executions() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let client = node.client();
    // More records than are read at a time.
    let hosts: String = (0..5000)
        .map(|n| {
            format!(
                "{{\"index\":{{}}}}\n{}\n",
                json!({"host": format!("h{n}"), "name": format!("owner of {n}")})
            )
        })
        .collect();
    let written = client.bulk("/hosts/_bulk?refresh=true", hosts.as_bytes()).unwrap();
    assert_eq!(written.json()["errors"], json!(false));
    let policy = json!({"match": {"indices": "hosts", "match_field": "host", "enrich_fields": "name"}});
    client.ok("PUT", "/_enrich/policy/owners", &policy);
    let processor = json!({"enrich": {"policy_name": "owners", "field": "host", "target_field": "owner"}});
    client.ok("PUT", "/_ingest/pipeline/owners", &json!({"processors": [processor]}));
    client.ok("POST", "/_enrich/policy/owners/_execute", &Value::Null);
    assert_eq!(enriched(client, 1), json!("owner of 1500"));
    let first = indices(client);
    assert_eq!(first.len(), 1, "{first:?}");
    node.kill9().unwrap();
    let node = start(folder.path());
    let client = node.client();
    assert_eq!(enriched(client, 2), json!("owner of 1500"));
    // The indices of the policy are gone: the execution fails, and leaves everything as it is.
    client.ok("DELETE", "/hosts", &Value::Null);
    let failed = client
        .send("POST", "/_enrich/policy/owners/_execute", None, b"")
        .unwrap();
    assert_eq!(failed.status, 404, "{}", failed.text());
    assert_eq!(
        (indices(client), enriched(client, 3)),
        (first.clone(), json!("owner of 1500"))
    );
    // Another execution, in the background, replaces the records, and removes the index before.
    let host = json!({"host": "h1500", "name": "another"});
    client.ok("PUT", "/hosts/_doc/1?refresh=true", &host);
    let task = client.ok(
        "POST",
        "/_enrich/policy/owners/_execute?wait_for_completion=false",
        &Value::Null,
    );
    let path = format!("/_tasks/{}?wait_for_completion=true", task["task"].as_str().unwrap());
    let done = client.ok("GET", &path, &Value::Null);
    assert_eq!(done["response"]["phase"], "COMPLETE", "{done}");
    assert_eq!(enriched(client, 4), json!("another"));
    let second = indices(client);
    assert!(second.len() == 1 && second != first, "{second:?}");
    client.ok("DELETE", "/_ingest/pipeline/owners", &Value::Null);
    client.ok("DELETE", "/_enrich/policy/owners", &Value::Null);
    assert!(indices(client).is_empty());
    node.stop().unwrap();
}
