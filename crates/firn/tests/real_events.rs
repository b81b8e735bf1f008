//! Real Windows events with fields of mixed type: none is lost, both kinds of value are found.
//!
//! The file is outside the repository (`../shared/data`); without it the test prints that it is skipped, and passes.
#![allow(clippy::print_stderr, reason = "a test that cannot run here says so")]

use std::path::Path;
use std::process::Command;

use firn_testkit::{Node, NodeOptions};
use serde_json::json;

#[test]
fn every_windows_event_is_indexed_and_mixed_fields_are_found() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/windows-events.ndjson.gz");
    if !file.exists() {
        eprintln!("skipped: {} is not here", file.display());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_firn"));
    let node = Node::start(binary, folder.path(), &NodeOptions::default()).unwrap();
    let output = Command::new(binary)
        .arg("ingest")
        .arg(&file)
        .args(["--url", node.client().base(), "--index", "windows"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{text}\n{}", node.log());

    let client = node.client();
    client.send("POST", "/windows/_refresh", None, b"").unwrap();
    let count = |query: serde_json::Value| {
        let answer = client
            .json("POST", "/windows/_count", &json!({"query": query}))
            .unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["count"].as_u64().unwrap()
    };
    assert_eq!(count(json!({"match_all": {}})), 96_150);
    // `Task` is 12 in 35,578 events and "12" in 8,017.
    assert_eq!(count(json!({"term": {"Task": 12}})), 43_595);
    // `Keywords` is 0 in 4,483 events; "0x8000000000000000" fits no number and occurs in 23,453.
    assert_eq!(count(json!({"term": {"Keywords": 0}})), 4_483);
    assert_eq!(count(json!({"match": {"Keywords": "0x8000000000000000"}})), 23_453);
    // As in Elasticsearch, a value that did not fit does not exist in the field, but the field is listed as ignored.
    assert_eq!(count(json!({"exists": {"field": "Keywords"}})), 71_898);
    assert_eq!(count(json!({"term": {"_ignored": "Keywords"}})), 24_252);
    node.stop().unwrap();
}
