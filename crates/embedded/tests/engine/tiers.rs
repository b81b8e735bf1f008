//! Tests of shards that move between devices during searches and writes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firn_embedded::{EmbeddedConfig, TierPaths};
use firn_engine::Engine;
use firn_engine::document::Refresh;
use firn_engine::tiers::Tiers as _;
use firn_model::metadata::Command;
use firn_model::tier::Tier;
use firn_storage::disk::RealDisk;
use firn_testkit::copy_folder;
use serde_json::json;

use crate::node::{Node, add, ctx, index, target};

const SECONDS: Duration = Duration::from_secs(30);

fn devices(folder: &Path) -> impl Fn(&mut EmbeddedConfig) + use<> {
    let folder = folder.to_owned();
    move |config| {
        config.tiers = TierPaths::default()
            .with(Tier::Warm, folder.join("warm"))
            .with(Tier::Cold, folder.join("cold"));
        // The machine that runs the tests may have a full disk.
        config.low_watermark = firn_embedded::Watermark::FreeBytes(0);
        config.flood_stage = firn_embedded::Watermark::FreeBytes(0);
    }
}

fn open(folder: &Arc<tempfile::TempDir>) -> Node {
    Node::open(Arc::clone(folder), Arc::new(RealDisk), devices(folder.path())).unwrap()
}

fn prefer(node: &Node, index: &str, tiers: &str) {
    node.execute(Command::PutSettings {
        names: vec![index.to_owned()],
        settings: json!({"index.routing.allocation.include._tier_preference": tiers}),
        preserve_existing: false,
    })
    .unwrap();
}

/// Waits until the shards of an index are on their target devices; returns the devices.
fn settled(node: &Node, index: &str) -> Vec<Tier> {
    let until = Instant::now() + SECONDS;
    loop {
        let moves = node.run(node.engine.moves(&ctx(), target(index))).unwrap();
        if moves.is_empty() {
            let stats = node.run(node.engine.stats(&ctx(), target(index))).unwrap();
            return stats[0].shards.iter().map(|shard| shard.tier).collect();
        }
        assert!(Instant::now() < until, "the shards do not move: {moves:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn shard_folder(node: &Node, device: &str, index: &str, shard: u32) -> PathBuf {
    let hot = node.shard_dir(index, shard);
    node.path().join(device).join(hot.strip_prefix(node.path()).unwrap())
}

#[test]
fn a_shard_moves_while_it_is_written_to_and_searched() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let node = open(&folder);
    node.create("logs", json!({"settings": {"number_of_shards": 2}}))
        .unwrap();
    for number in 0..200 {
        node.write(index("logs", &format!("{number}"), json!({"n": number})));
    }
    node.refresh("logs");
    let goes_on = AtomicBool::new(true);
    let written = std::thread::scope(|scope| {
        let ends = Ends(&goes_on);
        let writer = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap();
            let mut written = 0u64;
            while goes_on.load(Ordering::Relaxed) {
                let items = (0..20).map(|n| add("logs", json!({"n": n, "late": true}))).collect();
                let request = firn_engine::document::BulkRequest {
                    items,
                    refresh: if written.is_multiple_of(100) {
                        Refresh::Now
                    } else {
                        Refresh::No
                    },
                    timeout: None,
                    origin: None,
                };
                let response = runtime.block_on(node.engine.bulk(&ctx(), request)).unwrap();
                for item in response.items {
                    item.result.unwrap();
                    written += 1;
                }
            }
            written
        });
        for (tiers, tier) in [
            ("data_warm,data_hot", Tier::Warm),
            ("data_cold,data_warm,data_hot", Tier::Cold),
            ("data_hot", Tier::Hot),
            ("data_warm", Tier::Warm),
        ] {
            prefer(&node, "logs", tiers);
            let until = Instant::now() + SECONDS;
            loop {
                // During the move, no search fails or misses earlier documents.
                let body = json!({"query": {"range": {"n": {"gte": 20}}}, "size": 0, "track_total_hits": true});
                let response = node.search("logs", body).unwrap();
                assert!(response.shards.failures.is_empty(), "{:?}", response.shards.failures);
                assert_eq!(response.total.unwrap().value, 180);
                assert_eq!(node.source("logs", "7")["n"], 7);
                let stats = node.run(node.engine.stats(&ctx(), target("logs"))).unwrap();
                if stats[0].shards.iter().all(|shard| shard.tier == tier) {
                    break;
                }
                assert!(Instant::now() < until, "the shards do not move to {tier}");
            }
        }
        drop(ends);
        writer.join().unwrap()
    });
    assert!(written > 0);
    assert_eq!(settled(&node, "logs"), [Tier::Warm, Tier::Warm]);
    assert_eq!(node.count("logs", json!({"match_all": {}})), 200 + written);
    assert!(!node.shard_dir("logs", 0).exists(), "the old files are gone");
    assert!(shard_folder(&node, "warm", "logs", 0).exists());

    // After a kill, the shards are found on their devices, with unflushed writes.
    node.write(index("logs", "last", json!({"n": 0})));
    drop(node);
    let node = open(&folder);
    assert_eq!(node.count("logs", json!({"match_all": {}})), 201 + written);
    assert_eq!(settled(&node, "logs"), [Tier::Warm, Tier::Warm]);
    let warm = shard_folder(&node, "warm", "logs", 0);
    node.execute(Command::DeleteIndices {
        names: vec!["logs".to_owned()],
    })
    .unwrap();
    assert!(!warm.exists(), "a deleted index leaves nothing on any device");
}

#[test]
fn files_of_a_move_that_crashed_are_removed_at_the_next_start() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let node = open(&folder);
    for name in ["stays", "moved"] {
        node.create(name, json!({})).unwrap();
        node.write(index(name, "1", json!({"n": 1})));
    }
    prefer(&node, "moved", "data_warm");
    assert_eq!(settled(&node, "moved"), [Tier::Warm]);
    let (hot, warm) = (node.shard_dir("stays", 0), shard_folder(&node, "warm", "stays", 0));
    let (old, new) = (node.shard_dir("moved", 0), shard_folder(&node, "warm", "moved", 0));
    drop(node);
    // One unfinished copy, and one finished copy whose old files were not removed yet.
    for (from, to) in [(&hot, &warm), (&new, &old)] {
        copy_folder(from, to);
    }
    let node = open(&folder);
    assert!(hot.exists() && !warm.exists());
    assert!(new.exists() && !old.exists());
    for name in ["stays", "moved"] {
        assert_eq!(node.source(name, "1")["n"], 1);
    }
}

#[test]
fn a_missing_device_is_reported_and_nothing_is_lost() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let node = open(&folder);
    node.create("logs", json!({})).unwrap();
    node.write(index("logs", "1", json!({"n": 1})));
    prefer(&node, "logs", "data_cold");
    assert_eq!(settled(&node, "logs"), [Tier::Cold]);
    drop(node);
    let node = Node::open(Arc::clone(&folder), Arc::new(RealDisk), |_| {}).unwrap();
    let report = node.engine.recovery_report();
    let reason = report.damaged[0].error.reason().to_owned();
    assert!(
        reason.contains("is on tier [cold], but this node has no [path.data.cold]"),
        "{reason}"
    );
    drop(node);
    let node = open(&folder);
    assert_eq!(node.source("logs", "1")["n"], 1);
}

#[test]
fn nothing_moves_to_a_device_that_is_nearly_full() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let with_low = |low| {
        let base = devices(folder.path());
        move |config: &mut EmbeddedConfig| {
            base(config);
            config.low_watermark = low;
        }
    };
    let full = firn_embedded::Watermark::FreeBytes(u64::MAX);
    let node = Node::open(Arc::clone(&folder), Arc::new(RealDisk), with_low(full)).unwrap();
    node.create("logs", json!({})).unwrap();
    node.write(index("logs", "1", json!({"n": 1})));
    prefer(&node, "logs", "data_warm");
    std::thread::sleep(Duration::from_millis(2500));
    let stats = node.run(node.engine.stats(&ctx(), target("logs"))).unwrap();
    let moves = node.run(node.engine.moves(&ctx(), target("logs"))).unwrap();
    assert_eq!((stats[0].shards[0].tier, moves[0].to), (Tier::Hot, Tier::Warm));
    let why = moves[0].waits_for.clone().expect("a reason");
    let path = folder.path().join("warm").display().to_string();
    assert!(
        why.starts_with(&format!("data path [{path}] of tier [warm] has [")),
        "{why}"
    );
    assert!(why.contains("is above the low watermark"), "{why}");
    // An operator may change the setting.
    node.execute(Command::PutClusterSettings {
        settings: json!({"cluster.routing.allocation.disk.watermark.low": "0b"}),
    })
    .unwrap();
    assert_eq!(settled(&node, "logs"), [Tier::Warm]);
    assert_eq!(node.run(node.engine.moves(&ctx(), target("logs"))).unwrap(), []);
    let devices = node.run(node.engine.devices(&ctx())).unwrap();
    let shards: Vec<_> = devices.iter().map(|device| (device.tier, device.shards)).collect();
    assert_eq!(shards, [(Tier::Hot, 0), (Tier::Warm, 1), (Tier::Cold, 0)]);
}

/// Ends the writer thread, also if the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[test]
fn a_snapshot_does_not_depend_on_the_devices_of_its_node() {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let repositories = tempfile::tempdir().unwrap();
    let with_repositories = |config: &mut EmbeddedConfig| {
        devices(folder.path())(config);
        crate::snapshots::reach(repositories.path(), config);
    };
    let node = Node::open(Arc::clone(&folder), Arc::new(RealDisk), with_repositories).unwrap();
    crate::snapshots::register(&node, json!({"location": "backups"})).unwrap();
    node.create("logs", json!({})).unwrap();
    node.write(index("logs", "1", json!({"n": 1})));
    prefer(&node, "logs", "data_cold");
    assert_eq!(settled(&node, "logs"), [Tier::Cold]);
    crate::snapshots::snapshot(&node, "s", "logs").unwrap();

    // Another node, with one device.
    let other = Node::with(|config| crate::snapshots::reach(repositories.path(), config));
    crate::snapshots::register(&other, json!({"location": "backups"})).unwrap();
    crate::snapshots::restore(&other, crate::snapshots::restore_request("s", &["logs"])).unwrap();
    assert_eq!(other.source("logs", "1")["n"], 1);
    assert_eq!(settled(&other, "logs"), [Tier::Hot]);
}
