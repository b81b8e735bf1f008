//! Tests of lifecycles in a simulated world without disks, where the test controls the clock and the end of the
//! process.

mod verifying;
mod world;

use std::sync::atomic::Ordering;

use firn_model::ilm::{OperationMode, StepKey};
use firn_model::metadata::{Command, IlmCommand, SlmCommand};
use serde_json::{Value, json};

use self::world::{HOUR_MS, World, now};
use super::WaitEnd;
use super::decide::{Decision, decide};

/// Example of the documentation, with a retention short enough for a test.
fn example() -> Value {
    json!({
        "hot": {"actions": {
            "rollover": {"max_age": "24h", "max_primary_shard_size": "50gb"},
            "forcemerge": {"max_num_segments": 1},
        }},
        "frozen": {"min_age": "1h", "actions": {"searchable_snapshot": {"snapshot_repository": "objects"}}},
        "delete": {"min_age": "20d", "actions": {"delete": {}}},
    })
}

#[test]
fn a_month_goes_from_hot_to_frozen_to_nothing() {
    let world = World::new();
    world.put_policy("example", example());
    world.create_stream("events", "example");
    let ilm = world.process();
    for hour in 0..31 * 24 {
        world.write("events", 100);
        world.run(&ilm);
        let retained_hours = 22 * 24;
        if hour < 20 * 24 {
            assert_eq!(world.found_in("events"), 100 * (hour + 1), "hour {hour}");
        } else {
            assert!(world.found_in("events") <= 100 * retained_hours, "hour {hour}");
        }
        world.pass(HOUR_MS);
    }
    let metadata = world.state();
    let stream = &metadata.data_streams["events"];
    let (frozen, hot): (Vec<&String>, Vec<&String>) = stream
        .indices
        .iter()
        .partition(|name| name.starts_with("partial-.ds-events-"));
    assert!((20..=22).contains(&frozen.len()), "{frozen:?}");
    assert!(hot.len() <= 2, "{hot:?}");
    for name in &frozen {
        assert_eq!(world.at(name), "frozen/complete/complete");
        assert!(metadata.indices[*name].rolled_over_ms.is_some());
    }
    assert_eq!(metadata.indices.len(), stream.indices.len(), "nothing else is left");
    assert_eq!(world.snapshots.lock().len(), frozen.len(), "nor in the repository");
    assert!(metadata.ilm.orphans.is_empty());
}

/// Runs the example over some days, ends the process after `moments` of each run, and continues.
fn days_with_ends(moments: i64) -> bool {
    let world = World::new();
    world.put_policy("example", example());
    world.create_stream("events", "example");
    let mut written = 0;
    let mut has_ended = false;
    for hour in 0..52 {
        world.write("events", 10);
        written += 10;
        world.end_after(moments);
        world.run(&world.process());
        has_ended |= world.restart();
        assert_eq!(
            world.found_in("events"),
            written,
            "hour {hour}, ended after {moments} moments"
        );
        world.run(&world.process());
        assert_eq!(
            world.found_in("events"),
            written,
            "hour {hour}, ended after {moments} moments, went on"
        );
        world.pass(HOUR_MS);
    }
    let metadata = world.state();
    let frozen = metadata.data_streams["events"]
        .indices
        .iter()
        .filter(|name| name.starts_with("partial-"));
    let frozen: Vec<&String> = frozen.collect();
    assert_eq!(frozen.len(), 2, "ended after {moments} moments");
    assert_eq!(
        world.snapshots.lock().len(),
        2,
        "one snapshot each, ended after {moments} moments"
    );
    // The deletion, with an end at the same place.
    world.pass(30 * 24 * HOUR_MS);
    for _ in 0..4 {
        world.end_after(moments);
        world.run(&world.process());
        world.restart();
        world.run(&world.process());
    }
    let metadata = world.state();
    assert!(frozen.iter().all(|name| !metadata.indices.contains_key(name)));
    assert!(metadata.ilm.orphans.is_empty(), "ended after {moments} moments");
    let snapshots = world.snapshots.lock();
    let left: Vec<_> = snapshots
        .keys()
        .filter(|(_, name)| {
            frozen
                .iter()
                .any(|index| name.contains(index.trim_start_matches("partial-")))
        })
        .collect();
    assert!(left.is_empty(), "{left:?}, ended after {moments} moments");
    has_ended
}

#[test]
fn an_end_at_any_moment_loses_nothing_and_doubles_nothing() {
    let mut moments = 0;
    while days_with_ends(moments) {
        moments += 1;
        assert!(moments < 500, "a run has fewer moments");
    }
    assert!(moments > 30, "only {moments} moments were cut");
}

#[test]
fn an_alias_is_rolled_over_as_a_stream_is() {
    let world = World::new();
    world.put_policy(
        "p",
        json!({"hot": {"actions": {"rollover": {"max_docs": 5}, "set_priority": {"priority": 9}}}}),
    );
    let settings = json!({"index.lifecycle.name": "p", "index.lifecycle.rollover_alias": "logs"});
    world.create_index("logs-000001", settings, Some(json!({"logs": {"is_write_index": true}})));
    let ilm = world.process();
    world.run(&ilm);
    assert_eq!(world.at("logs-000001"), "hot/rollover/check-rollover-ready");
    world.write("logs-000001", 5);
    world.run(&ilm);
    assert_eq!(world.at("logs-000001"), "hot/complete/complete");
    let metadata = world.state();
    let old = &metadata.indices["logs-000001"];
    assert!(old.is_indexing_complete());
    assert_eq!(old.settings.typed["index.priority"], json!(9));
    assert_eq!(
        metadata.indices["logs-000002"].aliases["logs"].is_write_index,
        Some(true)
    );
}

#[test]
fn an_empty_index_is_as_good_as_a_new_one() {
    let world = World::new();
    world.put_policy("p", json!({"hot": {"actions": {"rollover": {"max_age": "1h"}}}}));
    world.create_stream("s", "p");
    let ilm = world.process();
    world.pass(5 * HOUR_MS);
    world.run(&ilm);
    assert_eq!(world.state().data_streams["s"].indices.len(), 1);
    world
        .apply(Command::PutClusterSettings {
            settings: json!({"indices.lifecycle.rollover.only_if_has_documents": false}),
        })
        .unwrap();
    world.run(&ilm);
    assert_eq!(world.state().data_streams["s"].indices.len(), 2);
}

#[test]
fn failures_are_reported_and_retried() {
    let world = World::new();
    world.put_policy("p", json!({"hot": {"actions": {"rollover": {"max_docs": 1}}}}));
    world.create_index("logs", json!({"index.lifecycle.name": "p"}), None);
    let ilm = world.process();
    world.run(&ilm);
    assert_eq!(world.at("logs"), "hot/rollover/ERROR");
    assert_eq!(
        world.info("logs"),
        json!({
            "type": "an_exception",
            "reason": "setting [index.lifecycle.rollover_alias] for index [logs] is empty or not defined",
        })
    );
    world.run(&ilm);
    let metadata = world.state();
    let execution = metadata.indices["logs"].execution.as_ref().unwrap();
    assert_eq!(execution.failed_step.as_deref(), Some("check-rollover-ready"));
    assert_eq!(execution.retries, 1);
    let names = vec!["logs".to_owned()];
    world
        .apply(Command::PutSettings {
            names: names.clone(),
            settings: json!({"index.lifecycle.indexing_complete": true}),
            preserve_existing: false,
        })
        .unwrap();
    world.apply(Command::Ilm(IlmCommand::Retry { names })).unwrap();
    world.run(&ilm);
    assert_eq!(world.at("logs"), "hot/complete/complete");
}

#[test]
fn a_policy_that_is_missing_is_named() {
    let world = World::new();
    world.create_index("logs", json!({"index.lifecycle.name": "absent"}), None);
    let ilm = world.process();
    world.run(&ilm);
    assert_eq!(world.info("logs")["reason"], "policy [absent] does not exist");
    let version = world.state().version;
    world.run(&ilm);
    assert_eq!(world.state().version, version, "said once");
    world.put_policy("absent", json!({"delete": {"actions": {"delete": {}}}}));
    world.run(&ilm);
    assert!(!world.state().indices.contains_key("logs"));
}

#[test]
fn a_stopped_lifecycle_stands_still() {
    let world = World::new();
    world.put_policy("p", json!({"delete": {"actions": {"delete": {}}}}));
    world.create_index("logs", json!({"index.lifecycle.name": "p"}), None);
    let mode = |mode| Command::Ilm(IlmCommand::SetMode { mode });
    world.apply(mode(OperationMode::Stopping)).unwrap();
    let ilm = world.process();
    world.run(&ilm);
    assert!(world.state().indices.contains_key("logs"));
    assert_eq!(world.state().ilm.mode, OperationMode::Stopped);
    world.apply(mode(OperationMode::Running)).unwrap();
    world.run(&ilm);
    assert!(!world.state().indices.contains_key("logs"));
}

/// An index one step before its searchable snapshot is created.
fn about_to_freeze() -> (std::sync::Arc<World>, super::Ilm) {
    let world = World::new();
    let mount = json!({"searchable_snapshot": {"snapshot_repository": "objects"}});
    world.put_policy("p", json!({"frozen": {"actions": mount}}));
    world.create_index("logs", json!({"index.lifecycle.name": "p"}), Some(json!({"all": {}})));
    world.write("logs", 7);
    let ilm = world.process();
    (world, ilm)
}

#[test]
fn a_broken_snapshot_takes_no_place() {
    let (world, ilm) = about_to_freeze();
    world.is_next_snapshot_broken.store(true, Ordering::Relaxed);
    world.run(&ilm);
    assert_eq!(world.at("logs"), "frozen/searchable_snapshot/ERROR");
    assert!(!world.state().indices.contains_key("partial-logs"));
    world.run(&ilm);
    let metadata = world.state();
    assert!(!metadata.indices.contains_key("logs"));
    let aliases: Vec<&String> = metadata.indices["partial-logs"].aliases.keys().collect();
    assert_eq!(aliases, ["all", "logs"]);
    assert_eq!(world.snapshots.lock().len(), 1, "the broken one is gone");
}

#[test]
fn a_mounted_index_that_lacks_events_takes_no_place() {
    let (world, ilm) = about_to_freeze();
    world.lost_in_mounts.store(1, Ordering::Relaxed);
    world.run(&ilm);
    assert_eq!(world.at("logs"), "frozen/searchable_snapshot/ERROR");
    let reason = world.info("logs")["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("has [7] events, but [partial-logs]"), "{reason}");
    assert!(world.state().indices.contains_key("logs"));
    assert!(!world.state().indices.contains_key("partial-logs"));
    let first: Vec<_> = world.snapshots.lock().keys().cloned().collect();
    // And again from a new snapshot, which may be complete.
    world.lost_in_mounts.store(0, Ordering::Relaxed);
    world.run(&ilm);
    assert_eq!(world.at("partial-logs"), "frozen/complete/complete");
    assert!(!world.state().indices.contains_key("logs"));
    let second: Vec<_> = world.snapshots.lock().keys().cloned().collect();
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first, second, "the one before is gone, and its name is not used again");
}

/// Executes the steps of `logs` until it is at a given step.
fn run_up_to(world: &World, ilm: &super::Ilm, step: &str) {
    for _ in 0..20 {
        if world.at("logs") == format!("frozen/searchable_snapshot/{step}") {
            return;
        }
        let index = world.state().indices["logs"].clone();
        let execution = match decide(&index, &world.state().ilm, world::START_MS, WaitEnd::Poll) {
            Decision::Record(to) => {
                now(ilm.record(&index, *to)).unwrap();
                continue;
            }
            Decision::Perform(execution) => execution,
            other => panic!("{other:?}"),
        };
        now(ilm.take_step(&index, &execution)).unwrap();
    }
    panic!("it is at {}", world.at("logs"));
}

#[test]
fn a_removed_mounted_index_is_created_again() {
    for step in ["wait-for-index-color", "swap-aliases"] {
        let (world, ilm) = about_to_freeze();
        run_up_to(&world, &ilm, step);
        let names = vec!["partial-logs".to_owned()];
        world.apply(Command::DeleteIndices { names }).unwrap();
        world.run(&ilm);
        assert_eq!(world.at("logs"), "frozen/searchable_snapshot/ERROR", "{step}");
        world.run(&ilm);
        assert_eq!(world.at("partial-logs"), "frozen/complete/complete", "{step}");
        assert_eq!(world.snapshots.lock().len(), 1, "{step}");
    }
}

#[test]
fn a_snapshot_that_a_user_mounted_is_not_deleted() {
    let (world, ilm) = about_to_freeze();
    world.lost_in_mounts.store(1, Ordering::Relaxed);
    world.run(&ilm);
    let (repository, snapshot) = world.snapshots.lock().keys().next().cloned().unwrap();
    let other = super::MountedAs {
        repository,
        snapshot,
        index: "logs".to_owned(),
        name: "mine".to_owned(),
        partial: true,
    };
    now(ilm.parts.effects.mount(other)).unwrap();
    world.lost_in_mounts.store(0, Ordering::Relaxed);
    world.run(&ilm);
    assert_eq!(world.at("partial-logs"), "frozen/complete/complete");
    assert!(world.state().indices.contains_key("mine"));
    assert_eq!(world.snapshots.lock().len(), 2);
}

#[test]
fn what_asks_a_repository_is_in_the_lane_of_those_that_may_hang() {
    let lane = |action, step| super::Lane::of(Some(&StepKey::new("frozen", action, step)));
    for step in [
        "cleanup-snapshot",
        "create-snapshot",
        "verify-snapshot",
        "mount-snapshot",
        "wait-for-index-color",
        "swap-aliases",
    ] {
        assert_eq!(lane("searchable_snapshot", step), super::Lane::Heavy, "{step}");
    }
    assert_eq!(lane("wait_for_snapshot", "wait-for-snapshot"), super::Lane::Heavy);
    assert_eq!(lane("delete", "cleanup-snapshot"), super::Lane::Light);
    assert_eq!(lane("rollover", "attempt-rollover"), super::Lane::Light);
}

#[test]
fn a_heavy_step_that_is_tried_again_is_tried_at_once() {
    let world = World::new();
    let actions = json!({"wait_for_snapshot": {"policy": "nightly"}, "delete": {}});
    world.put_policy("p", json!({"delete": {"actions": actions}}));
    world.create_index("logs", json!({"index.lifecycle.name": "p"}), None);
    let ilm = world.process();
    world.run(&ilm);
    assert_eq!(world.at("logs"), "delete/wait_for_snapshot/ERROR");
    let repository = Command::PutRepository {
        name: "objects".to_owned(),
        repository: Default::default(),
    };
    world.apply(repository).unwrap();
    let policy = json!({"schedule": "30m", "name": "s", "repository": "objects"});
    let id = "nightly".to_owned();
    world.apply(Command::Slm(SlmCommand::PutPolicy { id, policy })).unwrap();
    world.run(&ilm);
    assert_eq!(world.at("logs"), "delete/wait_for_snapshot/wait-for-snapshot");
    let message = world.info("logs")["message"].as_str().unwrap_or_default().to_owned();
    assert!(
        message.starts_with("waiting for policy 'nightly' to be executed"),
        "{message}"
    );
}

#[test]
fn a_cold_index_is_frozen_from_the_same_snapshot() {
    let world = World::new();
    let mount = json!({"searchable_snapshot": {"snapshot_repository": "objects"}});
    world.put_policy(
        "p",
        json!({
            "cold": {"actions": mount},
            "frozen": {"min_age": "1h", "actions": mount},
            "delete": {"min_age": "2h", "actions": {"delete": {}}},
        }),
    );
    world.create_index("logs", json!({"index.lifecycle.name": "p"}), None);
    world.write("logs", 7);
    let ilm = world.process();
    world.run(&ilm);
    assert_eq!(world.at("restored-logs"), "cold/complete/complete");
    world.pass(HOUR_MS);
    world.run(&ilm);
    assert_eq!(world.at("partial-logs"), "frozen/complete/complete");
    assert_eq!(world.snapshots.lock().len(), 1);
    assert_eq!(world.state().indices.len(), 1);
    world.pass(HOUR_MS);
    world.run(&ilm);
    assert!(world.state().indices.is_empty());
    assert!(world.snapshots.lock().is_empty());
}

#[test]
fn a_snapshot_with_another_mount_is_not_deleted() {
    let (world, ilm) = about_to_freeze();
    world.run(&ilm);
    let (repository, snapshot) = world.snapshots.lock().keys().next().cloned().unwrap();
    let other = super::MountedAs {
        repository,
        snapshot,
        index: "logs".to_owned(),
        name: "mine".to_owned(),
        partial: true,
    };
    now(ilm.parts.effects.mount(other)).unwrap();
    world.put_policy("p", json!({"delete": {"actions": {"delete": {}}}}));
    world.run(&ilm);
    let metadata = world.state();
    assert!(!metadata.indices.contains_key("partial-logs") && metadata.indices.contains_key("mine"));
    assert!(metadata.ilm.orphans.is_empty());
    assert_eq!(world.snapshots.lock().len(), 1);
}

#[test]
fn the_last_index_of_a_stream_takes_the_stream_with_it() {
    let world = World::new();
    world.put_policy("p", json!({"delete": {"min_age": "1h", "actions": {"delete": {}}}}));
    world.create_stream("s", "p");
    let ilm = world.process();
    world.run(&ilm);
    world.pass(HOUR_MS);
    world.run(&ilm);
    assert!(world.state().data_streams.is_empty());
    world.create_stream("s", "p");
    let rollover = Command::Rollover {
        target: "s".to_owned(),
        new_index: None,
        conditions: Default::default(),
        body: Value::Null,
        dry_run: false,
        facts: Default::default(),
    };
    world.pass(HOUR_MS);
    world.apply(rollover).unwrap();
    world.pass(HOUR_MS);
    let first = world.state().data_streams["s"].indices[0].clone();
    let second = world.state().data_streams["s"].indices[1].clone();
    let due = now(ilm.due(WaitEnd::Poll)).unwrap();
    assert_eq!(due.len(), 2);
    for _ in 0..2 {
        now(ilm.advance(&second, super::Lane::Light, WaitEnd::Poll));
    }
    let reason = world.info(&second)["reason"].as_str().unwrap_or_default().to_owned();
    assert!(
        reason.contains("a data stream's write index cannot be deleted"),
        "{reason}"
    );
    assert!(world.state().indices.contains_key(&first));
}

#[test]
fn a_phase_goes_on_once_its_shards_lie_where_they_belong() {
    let world = World::new();
    world.put_policy(
        "tiers",
        json!({
            "warm": {"min_age": "0ms", "actions": {"forcemerge": {"max_num_segments": 1}}},
            "cold": {"min_age": "1d", "actions": {"allocate": {"require": {"data": "cold"}}}},
        }),
    );
    world.create_index("logs", json!({"index.lifecycle.name": "tiers"}), None);
    let ilm = world.process();
    let setting = |name: &str| world.state().indices["logs"].text_setting(name).map(str::to_owned);
    world.shards_to_move.store(2, Ordering::Relaxed);
    world.run(&ilm);
    assert_eq!(world.at("logs"), "warm/migrate/check-migration");
    assert_eq!(world.info("logs")["shards_left_to_allocate"], 2);
    let message = world.info("logs")["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("preference configuration is [data_warm, data_hot]"),
        "{message}"
    );
    assert!(world.info("logs").get("reason").is_none());
    *world.move_waits_for.lock() = Some("no room".to_owned());
    world.run(&ilm);
    assert_eq!(world.info("logs")["reason"], "no room");
    let message = world.info("logs")["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with("is [data_warm, data_hot]): no room"), "{message}");
    *world.move_waits_for.lock() = None;
    world.shards_to_move.store(0, Ordering::Relaxed);
    world.run(&ilm);
    assert_eq!(world.at("logs"), "warm/complete/complete");

    world.shards_to_move.store(1, Ordering::Relaxed);
    world.pass(25 * HOUR_MS);
    world.run(&ilm);
    assert_eq!(world.at("logs"), "cold/allocate/check-allocation");
    assert_eq!(
        setting("index.routing.allocation.require.data").as_deref(),
        Some("cold")
    );
    world.shards_to_move.store(0, Ordering::Relaxed);
    world.run(&ilm);
    assert_eq!(world.at("logs"), "cold/complete/complete");
}
