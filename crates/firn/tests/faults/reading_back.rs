//! ILM deletes an index only after its snapshot was verified by reading it back.

use std::time::{Duration, Instant};

use firn_testkit::{Fault, Method, Rule};
use serde_json::{Value, json};

use super::Bed;

/// Longer than any step takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(240);

#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A store accepts every split and returns none of them unchanged: the index stays as long as that continues.
#[test]
fn an_index_stays_until_its_snapshot_can_be_read() {
    let bed = Bed::start("faults of reading back");
    let interval = json!({"persistent": {"indices.lifecycle.poll_interval": "1s"}});
    bed.ok("PUT", "/_cluster/settings", &interval);
    bed.faults(vec![Rule::share(Fault::BitFlip, 1.0).of(Method::Get).at("/splits/")]);
    let actions = json!({"searchable_snapshot": {"snapshot_repository": "r"}});
    let policy = json!({"policy": {"phases": {"frozen": {"actions": actions}}}});
    bed.ok("PUT", "/_ilm/policy/freeze", &policy);
    bed.ok("PUT", "/events/_settings", &json!({"index.lifecycle.name": "freeze"}));
    let explained = || bed.ok("GET", "/events/_ilm/explain", &Value::Null)["indices"]["events"].clone();
    for _ in 0..2 {
        let mut index_state = Value::Null;
        eventually("the discovery", || {
            index_state = explained();
            index_state["step_info"]["type"] == "repository_exception"
        });
        let reason = index_state["step_info"]["reason"].as_str().unwrap_or_default();
        for part in [
            "object [splits/",
            "the checksum of the page at offset",
            "stays in place",
        ] {
            assert!(reason.contains(part), "{index_state}");
        }
        assert_eq!(bed.ask("HEAD", "/partial-events", &Value::Null).status, 404);
        bed.holds_everything("events");
        eventually("another try", || explained()["step_info"]["type"].is_null());
    }
    assert!(bed.proxy.stats().met(Fault::BitFlip) > 0);
    bed.calm();
    eventually("the move", || {
        bed.ask("HEAD", "/partial-events", &Value::Null).status == 200
            && bed.ask("GET", "/partial-events/_ilm/explain", &Value::Null).json()["indices"]["partial-events"]["step"]
                == "complete"
    });
    bed.holds_everything("events");
}
