//! Bulks with an origin: each event of a source is stored once, through retries, kills, power losses and failing disks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_engine::document::{BulkItemResponse, BulkRequest, Effect, Refresh};
use firn_engine::origin::{Origin, SourcePosition, SourceTotals};
use firn_engine::{Engine, ErrorKind, RequestContext, Result, Scope};
use firn_model::metadata::Command;
use firn_model::tenant::TenantId;
use firn_storage::sim::{Failure, SimDisk};
use serde_json::{Value, json};

use crate::catalog_crash::sim_disk;
use crate::node::{Node, add, ctx, index};

const SOURCE: &str = "pipeline";
const PARTITION: &str = "topic/0";

/// Whether the index rejects the event with this offset.
fn is_invalid(offset: u64) -> bool {
    offset % 17 == 5
}

fn event(offset: u64) -> Value {
    match is_invalid(offset) {
        true => json!({"n": offset, "unknown": offset}),
        false => json!({"n": offset, "tenant": format!("t{}", offset % 3)}),
    }
}

fn send_to(node: &Node, name: &str, partition: &str, first: u64, last: u64) -> Result<Vec<BulkItemResponse>> {
    let request = BulkRequest {
        items: (first..=last).map(|offset| add(name, event(offset))).collect(),
        refresh: Refresh::No,
        timeout: None,
        origin: Some(Origin {
            source: SOURCE.into(),
            partition: partition.into(),
            first_offset: first,
            last_offset: last,
            offsets: (first..=last).collect(),
            dead_letters: 0,
            filtered: 0,
            more_follows: false,
            note: None,
        }),
    };
    Ok(node.run(node.engine.bulk(&ctx(), request))?.items)
}

fn send(node: &Node, first: u64, last: u64) -> Result<Vec<BulkItemResponse>> {
    send_to(node, "events", PARTITION, first, last)
}

fn create(node: &Node, settings: Value) {
    let body = json!({"settings": settings, "mappings": {"dynamic": "strict", "properties": {"n": {"type": "long"}, "tenant": {"type": "keyword"}}}});
    node.create("events", body).unwrap();
}

fn position(node: &Node) -> Option<SourcePosition> {
    let positions = node.run(node.engine.source_positions(&ctx(), SOURCE)).unwrap();
    positions.known().unwrap().pop()
}

fn totals(node: &Node) -> SourceTotals {
    position(node).unwrap().totals
}

/// Returns how often each offset below `end` is stored, as the missing and the repeated ones.
fn wrong(node: &Node, name: &str, end: u64) -> (Vec<u64>, Vec<u64>) {
    node.refresh(name);
    let body = json!({"size": 10_000, "query": {"match_all": {}}, "track_total_hits": true});
    let response = node.search(name, body).unwrap();
    let (mut seen, mut repeated) = (BTreeSet::new(), Vec::new());
    for hit in &response.hits {
        let source: Value = serde_json::from_slice(hit.source.as_deref().unwrap()).unwrap();
        let n = source["n"].as_u64().unwrap();
        if !seen.insert(n) {
            repeated.push(n);
        }
    }
    let missing = (0..end).filter(|n| !is_invalid(*n) && !seen.contains(n)).collect();
    (missing, repeated)
}

#[test]
fn a_bulk_that_is_sent_again_is_stored_once() {
    let node = Node::new();
    create(&node, json!({"number_of_shards": 3}));
    assert_eq!(position(&node), None);
    let first = send(&node, 0, 99).unwrap();
    let rejected = |items: &[BulkItemResponse]| items.iter().filter(|item| item.result.is_err()).count();
    assert_eq!(rejected(&first), 6);
    let again = send(&node, 0, 99).unwrap();
    assert_eq!(rejected(&again), 6, "the same events are rejected again");
    let noops = again.iter().filter_map(|item| item.result.as_ref().ok());
    assert!(noops.clone().count() == 94 && noops.clone().all(|written| written.effect == Effect::Noop));
    // Other bounds than before.
    send(&node, 50, 149).unwrap();
    assert_eq!(wrong(&node, "events", 150), (Vec::new(), Vec::new()));
    let at = position(&node).unwrap();
    // The source has not said that it wrote the dead letters of the rejected events.
    assert_eq!(
        (at.resume_offset, at.complete_offset, at.totals.read()),
        (50, None, 200)
    );
    let node = node.reopen();
    send(&node, 50, 119).unwrap();
    send(&node, 120, 199).unwrap();
    assert_eq!(wrong(&node, "events", 200), (Vec::new(), Vec::new()));
    // Older offsets than those of the last bulk are stored.
    send(&node, 0, 210).unwrap();
    assert_eq!(wrong(&node, "events", 211), (Vec::new(), Vec::new()));
}

#[test]
fn a_source_continues_behind_a_complete_bulk() {
    let node = Node::new();
    create(&node, json!({"number_of_shards": 2}));
    // No event of these is invalid.
    send(&node, 6, 20).unwrap();
    let at = position(&node).unwrap();
    assert_eq!(
        (at.resume_offset, at.complete_offset, at.totals.indexed),
        (21, Some(20), 15)
    );
    // After a kill the last bulk may be incomplete, and its events come again.
    let node = node.reopen();
    let at = position(&node).unwrap();
    assert_eq!((at.resume_offset, at.complete_offset), (6, None));
    send(&node, 6, 12).unwrap();
    assert_eq!(
        position(&node).unwrap().resume_offset,
        13,
        "the bulk was cut: the rest must come"
    );
    send(&node, 13, 21).unwrap();
    let at = position(&node).unwrap();
    assert_eq!((at.resume_offset, at.totals.indexed), (22, 16));
    assert_eq!(node.count("events", json!({"match_all": {}})), 16);
}

#[test]
fn partitions_do_not_meet() {
    let node = Node::new();
    create(&node, json!({}));
    send_to(&node, "events", "one", 0, 9).unwrap();
    send_to(&node, "events", "two", 0, 9).unwrap();
    assert_eq!(node.count("events", json!({"match_all": {}})), 18);
    node.flush("events");
    let node = node.restart();
    for partition in ["one", "two"] {
        send_to(&node, "events", partition, 0, 9).unwrap();
    }
    assert_eq!(node.count("events", json!({"match_all": {}})), 18);
    let positions = node.run(node.engine.source_positions(&ctx(), SOURCE)).unwrap();
    let names = positions
        .known()
        .unwrap()
        .into_iter()
        .map(|at| (at.partition, at.totals.read()));
    assert_eq!(
        names.collect::<Vec<_>>(),
        [("one".to_owned(), 10), ("two".to_owned(), 10)]
    );
}

#[test]
fn only_operators_forget_positions_and_forgotten_partitions_start_anew() {
    let node = Node::new();
    create(&node, json!({}));
    for partition in ["one", "one#alerts", "two"] {
        send_to(&node, "events", partition, 6, 9).unwrap();
    }
    let names = |node: &Node| -> Vec<String> {
        let positions = node.run(node.engine.source_positions(&ctx(), SOURCE)).unwrap();
        let positions = positions.known().unwrap().into_iter();
        positions.map(|at| at.partition).collect()
    };
    let known = |node: &Node, partition: &str| {
        let position = node.run(node.engine.source_position(&ctx(), SOURCE, partition));
        position.unwrap().known().unwrap().map(|at| at.resume_offset)
    };
    assert_eq!((known(&node, "one"), known(&node, "three")), (Some(10), None));
    let forget = |node: &Node, ctx: &RequestContext, source: &str, partition: &str| {
        let partitions = [partition.to_owned()];
        let forgotten = node.run(node.engine.forget_source_positions(ctx, source, &partitions));
        forgotten.map(|forgotten| forgotten.known().unwrap())
    };
    let tenant = RequestContext {
        scope: Arc::new(Scope::tenant(TenantId::parse("t0").unwrap())),
        ..ctx()
    };
    let refused = forget(&node, &tenant, SOURCE, "one").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Forbidden);
    assert_eq!(names(&node), ["one", "one#alerts", "two"]);
    assert_eq!(forget(&node, &ctx(), SOURCE, "three").unwrap(), 0);
    assert_eq!(forget(&node, &ctx(), "other", "one").unwrap(), 0);
    assert_eq!(names(&node), ["one", "one#alerts", "two"]);
    // The last bulk may still hold its partition when it is answered.
    let started = Instant::now();
    while forget(&node, &ctx(), SOURCE, "one").unwrap() == 0 {
        assert!(started.elapsed() < Duration::from_secs(20), "it stays");
    }
    assert_eq!((names(&node), known(&node, "one")), (vec!["two".to_owned()], None));
    let node = node.restart();
    assert_eq!(names(&node), ["two"]);
    // What is read again after all is stored anew; of the other partition nothing is.
    send_to(&node, "events", "one", 6, 9).unwrap();
    send_to(&node, "events", "two", 6, 9).unwrap();
    assert_eq!(node.count("events", json!({"match_all": {}})), 16);
    assert_eq!(known(&node, "one"), Some(10));
}

#[test]
fn a_failure_that_may_pass_loses_nothing() {
    let node = Node::new();
    create(&node, json!({"number_of_shards": 2}));
    send(&node, 0, 9).unwrap();
    let block = |blocked: bool| {
        let command = Command::PutSettings {
            names: vec!["events".to_owned()],
            settings: json!({"index.blocks.write": blocked}),
            preserve_existing: false,
        };
        node.execute(command).unwrap();
    };
    block(true);
    for _ in 0..3 {
        let refused = send(&node, 10, 29);
        let kind = refused.map_or_else(
            |error| error.kind(),
            |items| items[0].result.as_ref().unwrap_err().kind(),
        );
        assert_eq!(kind, ErrorKind::IndexBlocked);
        assert_eq!(totals(&node).read(), 10, "a bulk that failed is not counted");
    }
    block(false);
    send(&node, 10, 29).unwrap();
    assert_eq!(wrong(&node, "events", 30), (Vec::new(), Vec::new()));
    assert_eq!(totals(&node).read(), 30);
}

#[test]
fn events_are_on_disk_even_if_the_index_demands_less() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let disk = sim_disk(folder.path());
    let node = Node::open(Arc::clone(&folder), Arc::new(disk.clone()), |_| {}).unwrap();
    create(
        &node,
        json!({"index.translog.durability": "async", "index.translog.sync_interval": "1h"}),
    );
    send(&node, 0, 49).unwrap();
    send(&node, 50, 99).unwrap();
    let after = disk.crash(7);
    drop(node);
    let node = Node::open(folder, Arc::new(after), |_| {}).unwrap();
    let resume = position(&node).unwrap().resume_offset;
    assert_eq!(resume, 50);
    assert_eq!(wrong(&node, "events", 100), (Vec::new(), Vec::new()));
}

#[test]
fn an_index_that_is_deleted_meanwhile_gets_the_open_bulk_again() {
    let node = Node::new();
    create(&node, json!({}));
    send(&node, 0, 9).unwrap();
    node.execute(Command::DeleteIndices {
        names: vec!["events".to_owned()],
    })
    .unwrap();
    create(&node, json!({}));
    let node = node.reopen();
    send(&node, 0, 19).unwrap();
    assert_eq!(wrong(&node, "events", 20), (Vec::new(), Vec::new()));
}

#[test]
fn bulks_that_break_the_rules_are_refused() {
    let node = Node::new();
    create(&node, json!({}));
    let origin = |first, last, offsets: Vec<u64>| Origin {
        source: SOURCE.into(),
        partition: PARTITION.into(),
        first_offset: first,
        last_offset: last,
        offsets,
        dead_letters: 0,
        filtered: 0,
        more_follows: false,
        note: None,
    };
    let events = |count: u64| (0..count).map(|n| add("events", json!({"n": n}))).collect();
    for (items, origin, words) in [
        (events(2), origin(0, 1, vec![0]), "one offset for each item"),
        (events(2), origin(0, 1, vec![1, 0]), "ascending"),
        (events(2), origin(0, 1, vec![1, 1]), "ascending"),
        (events(2), origin(1, 2, vec![0, 1]), "cover"),
        (events(1), origin(2, 1, vec![2]), "cover"),
        (
            vec![index("events", "a", json!({}))],
            origin(0, 0, vec![0]),
            "without ids",
        ),
        (events(10_001), origin(0, 10_000, (0..10_001).collect()), "10000"),
    ] {
        let request = BulkRequest {
            items,
            origin: Some(origin),
            ..BulkRequest::default()
        };
        let error = node.run(node.engine.bulk(&ctx(), request)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IllegalArgument);
        assert!(error.reason().contains(words), "{}", error.reason());
    }
    // A bulk of dropped events moves the position.
    let request = BulkRequest {
        origin: Some(Origin {
            filtered: 5,
            ..origin(0, 4, Vec::new())
        }),
        ..BulkRequest::default()
    };
    node.run(node.engine.bulk(&ctx(), request)).unwrap();
    let at = position(&node).unwrap();
    assert_eq!((at.resume_offset, at.totals.filtered, at.totals.read()), (5, 5, 5));
}

/// Sends the events of a partition in bulks of random sizes to an index of several shards, on a disk that fails at a random
/// operation; then the power is cut or the process is killed, and the source continues where the engine says.
fn run(seed: u64, end: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let mut disk = sim_disk(folder.path());
    let open = |disk: &SimDisk| {
        Node::open(Arc::clone(&folder), Arc::new(disk.clone()), |config| {
            config.ticks = false
        })
    };
    let mut node = open(&disk).unwrap();
    create(&node, json!({"number_of_shards": random.u32(1..4)}));
    let (mut next, mut faults) = (0, 0);
    while next < end {
        disk.fail(Failure {
            after: random.u64(0..40),
            only: None,
            kind: std::io::ErrorKind::Other,
            lasting: random.bool(),
        });
        for _ in 0..6 {
            let last = (next + random.u64(0..300)).min(end - 1);
            match send(&node, next, last) {
                Ok(items) if items.iter().all(|item| !may_pass(item)) => next = last + 1,
                _ => {
                    faults += 1;
                    break;
                }
            }
            if random.u8(0..4) == 0 {
                let _ = node.run(node.engine.flush(&ctx(), crate::node::target("events")));
            }
            if next >= end {
                break;
            }
        }
        if random.u8(0..4) == 0 {
            // The disk works again, and the process lives.
            disk.heal();
            next = position(&node).map_or(0, |at| at.resume_offset);
            continue;
        }
        let cut = match random.bool() {
            true => disk.crash(random.u64(..)),
            false => disk.clone(),
        };
        drop(node);
        cut.heal();
        disk = cut;
        node = open(&disk).unwrap();
        next = position(&node).map_or(0, |at| at.resume_offset);
    }
    disk.heal();
    // Without a clean stop: a shard whose disk failed is opened again.
    drop(node);
    let node = open(&disk).unwrap();
    let next = position(&node).map_or(0, |at| at.resume_offset);
    send(&node, next, end - 1).unwrap();
    let (missing, repeated) = wrong(&node, "events", end);
    assert!(missing.is_empty(), "seed {seed}: {missing:?} are missing");
    assert!(repeated.is_empty(), "seed {seed}: {repeated:?} are stored twice");
    let invalid = (0..end).filter(|offset| is_invalid(*offset)).count() as u64;
    let expected = SourceTotals {
        indexed: end - invalid,
        filtered: 0,
        dead_lettered: invalid,
    };
    assert_eq!(totals(&node), expected, "seed {seed}: the account is not balanced");
    faults
}

fn may_pass(item: &BulkItemResponse) -> bool {
    matches!(&item.result, Err(error) if !error.kind().is_of_document())
}

#[test]
fn no_fault_of_the_disk_loses_or_repeats_an_event() {
    let first = firn_testkit::seed("no_fault_of_the_disk_loses_or_repeats_an_event");
    let faults: u64 = (0..12)
        .map(|run_number| run(first.wrapping_add(run_number), 2000))
        .sum();
    assert!(faults > 50, "only {faults} bulks failed");
}
