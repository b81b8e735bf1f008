//! Indices that wait for space on another device.

use std::path::Path;

use firn_testkit::{Node, NodeOptions};
use serde_json::{Value, json};

use crate::{ask, at, eventually};

#[test]
fn an_index_that_waits_for_room_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let warm = folder.path().join("warm");
    let options = NodeOptions {
        settings: [
            ("indices.lifecycle.poll_interval", "1s".to_owned()),
            ("path.data.warm", warm.display().to_string()),
            (
                "cluster.routing.allocation.disk.watermark.flood_stage",
                "100mb".to_owned(),
            ),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into(),
    };
    let own = folder.path().join("node");
    std::fs::create_dir_all(&own).unwrap();
    let node = Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), &own, &options).unwrap();
    let client = node.client();
    let low = |value: &str| {
        let settings = json!({"persistent": {"cluster.routing.allocation.disk.watermark.low": value}});
        ask(client, "PUT", "/_cluster/settings", settings);
    };
    // No disk has so much free space.
    low("900000gb");
    let policy = json!({"policy": {"phases": {"warm": {"actions": {"set_priority": {"priority": 5}}}}}});
    ask(client, "PUT", "/_ilm/policy/warm", policy);
    ask(
        client,
        "PUT",
        "/logs",
        json!({"settings": {"index.lifecycle.name": "warm"}}),
    );
    eventually("waiting", || at(client, "logs") == "warm/migrate/check-migration");
    let info = || ask(client, "GET", "/logs/_ilm/explain", Value::Null)["indices"]["logs"]["step_info"].clone();
    eventually("a reason", || info()["reason"].is_string());
    let step_info = info();
    let reason = step_info["reason"].as_str().unwrap();
    for part in [
        warm.display().to_string().as_str(),
        "of tier [warm] has [",
        "bytes free and is above the low watermark cluster.routing.allocation.disk.watermark.low",
    ] {
        assert!(reason.contains(part), "{reason}");
    }
    assert!(step_info["message"].as_str().unwrap().ends_with(reason), "{step_info}");
    assert_eq!(step_info["shards_left_to_allocate"], 1);
    low("0b");
    eventually("the move", || at(client, "logs") == "warm/complete/complete");
    assert_eq!(info(), Value::Null);
}
