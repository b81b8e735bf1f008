//! Tests of verification: a snapshot is read back before its index is deleted.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_engine::snapshot::DamagedObject;
use firn_model::ilm::OperationMode;
use firn_model::metadata::{Command, IlmCommand};
use serde_json::json;

use super::super::{Ilm, Lane, WaitEnd};
use super::world::{SNAPSHOT_BYTES, World, now};
use super::{about_to_freeze, run_up_to};

const AT_IT: &str = "frozen/searchable_snapshot/verify-snapshot";

/// One check between two polls, as the timer makes one each second.
fn look(ilm: &Ilm) {
    let due = now(ilm.due(WaitEnd::Between)).unwrap();
    for (name, lane) in due {
        now(ilm.advance(&name, lane, WaitEnd::Between));
    }
}

/// An index whose snapshot is being verified, a tenth at each check.
fn reading() -> (Arc<World>, Ilm) {
    let (world, ilm) = about_to_freeze();
    world.read_back_speed.store(SNAPSHOT_BYTES / 10, Ordering::Relaxed);
    run_up_to(&world, &ilm, "verify-snapshot");
    look(&ilm);
    assert_eq!(world.at("logs"), AT_IT);
    assert_eq!(world.info("logs")["bytes_verified"], SNAPSHOT_BYTES / 10);
    (world, ilm)
}

#[test]
fn progress_is_shown_and_nothing_is_deleted_before_the_end() {
    let (world, ilm) = reading();
    for tenth in 2..10 {
        look(&ilm);
        assert_eq!(world.at("logs"), AT_IT);
        assert!(!world.state().indices.contains_key("partial-logs"), "not even mounted");
        let info = world.info("logs");
        assert_eq!(info["bytes_verified"], tenth * SNAPSHOT_BYTES / 10);
        assert_eq!(info["bytes_total"], SNAPSHOT_BYTES);
        let message = info["message"].as_str().unwrap();
        assert!(message.contains("of [1000] bytes are verified"), "{message}");
    }
    look(&ilm);
    assert_eq!(world.at("partial-logs"), "frozen/complete/complete");
    look(&ilm);
    assert_eq!(world.ended.lock().len(), 1, "what was read is forgotten");
}

#[test]
fn hardly_any_progress_costs_no_transaction() {
    let (world, ilm) = reading();
    world.read_back_speed.store(1, Ordering::Relaxed);
    let version = world.state().version;
    for _ in 0..19 {
        look(&ilm);
    }
    assert_eq!(world.state().version, version);
    look(&ilm);
    assert_eq!(world.info("logs")["bytes_verified"], SNAPSHOT_BYTES / 10 + 20);
}

#[test]
fn others_go_on_meanwhile() {
    let (world, ilm) = reading();
    world.create_index("other", json!({"index.lifecycle.name": "p"}), None);
    world.write("other", 3);
    for _ in 0..3 {
        look(&ilm);
    }
    assert_eq!(world.at("logs"), AT_IT);
    assert_eq!(world.at("other"), AT_IT);
    assert_eq!(world.info("other")["bytes_verified"], SNAPSHOT_BYTES / 10 * 2);
}

#[test]
fn what_is_damaged_is_named_and_written_again() {
    let (world, ilm) = about_to_freeze();
    let object = |number: u32| DamagedObject {
        key: format!("splits/{number}.split"),
        reason: "it is missing".to_owned(),
    };
    run_up_to(&world, &ilm, "verify-snapshot");
    *world.damage.lock() = (0..5).map(object).collect();
    let first: Vec<_> = world.snapshots.lock().keys().cloned().collect();
    world.run(&ilm);
    assert_eq!(world.at("logs"), "frozen/searchable_snapshot/ERROR");
    let reason = world.info("logs")["reason"].as_str().unwrap().to_owned();
    for part in [
        "repository [objects] has damaged objects of snapshot",
        "index [logs], which stays in place",
        "object [splits/0.split]: it is missing; object [splits/1.split]",
        "and [2] more",
    ] {
        assert!(reason.contains(part), "{reason}");
    }
    assert!(!world.state().indices.contains_key("partial-logs"));
    // The retry creates another snapshot, which writes the damaged objects.
    world.run(&ilm);
    assert_eq!(world.at("partial-logs"), "frozen/complete/complete");
    let second: Vec<_> = world.snapshots.lock().keys().cloned().collect();
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first, second);
}

/// After a restart the verification is unknown, and the snapshot may have been rewritten since.
#[test]
fn an_unverified_snapshot_replaces_no_index() {
    for step in ["mount-snapshot", "wait-for-index-color", "swap-aliases"] {
        let (world, ilm) = about_to_freeze();
        run_up_to(&world, &ilm, step);
        drop(ilm);
        world.read_back_speed.store(SNAPSHOT_BYTES / 10, Ordering::Relaxed);
        let ilm = world.process();
        now(ilm.advance("logs", Lane::Heavy, WaitEnd::Poll));
        assert_eq!(world.at("logs"), AT_IT, "{step}");
        assert!(world.state().indices.contains_key("logs"));
        assert!(world.info("logs").get("type").is_none(), "nothing is wrong");
        world.run(&ilm);
        assert_eq!(world.at("partial-logs"), "frozen/complete/complete", "{step}");
    }
}

/// An older firn mounted snapshots without a verification.
#[test]
fn a_mount_of_what_is_damaged_goes() {
    let (world, ilm) = about_to_freeze();
    run_up_to(&world, &ilm, "wait-for-index-color");
    drop(ilm);
    *world.damage.lock() = vec![DamagedObject {
        key: "splits/0.split".to_owned(),
        reason: "it is missing".to_owned(),
    }];
    let ilm = world.process();
    now(ilm.advance("logs", Lane::Heavy, WaitEnd::Poll));
    assert_eq!(world.at("logs"), "frozen/searchable_snapshot/ERROR");
    assert!(!world.state().indices.contains_key("partial-logs"));
    assert!(world.state().indices.contains_key("logs"));
    world.run(&ilm);
    assert_eq!(world.at("partial-logs"), "frozen/complete/complete");
}

#[test]
fn an_unneeded_verification_is_ended() {
    type Change = (&'static str, fn(&World));
    let changes: [Change; 4] = [
        ("the index goes", |world| {
            let names = vec!["logs".to_owned()];
            world.apply(Command::DeleteIndices { names }).unwrap();
        }),
        ("it has no policy any more", |world| {
            let names = vec!["logs".to_owned()];
            world.apply(Command::Ilm(IlmCommand::Remove { names })).unwrap();
        }),
        ("lifecycles stop", |world| {
            let mode = OperationMode::Stopping;
            world.apply(Command::Ilm(IlmCommand::SetMode { mode })).unwrap();
        }),
        ("another index has its name", |world| {
            let names = vec!["logs".to_owned()];
            world.apply(Command::DeleteIndices { names }).unwrap();
            world.create_index("logs", json!({}), None);
        }),
    ];
    for (what, change) in changes {
        let (world, ilm) = reading();
        change(&world);
        look(&ilm);
        look(&ilm);
        assert_eq!(world.ended.lock().len(), 1, "{what}");
    }
}

#[test]
fn a_snapshot_that_goes_while_it_is_read_is_made_anew() {
    let (world, ilm) = reading();
    world.snapshots.lock().clear();
    look(&ilm);
    assert_eq!(world.at("logs"), "frozen/searchable_snapshot/ERROR");
    world.read_back_speed.store(0, Ordering::Relaxed);
    world.run(&ilm);
    assert_eq!(world.at("partial-logs"), "frozen/complete/complete");
}
