//! Tests of bit flips in the files of shards: answers stay the same, or fail and name the file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use firn_embedded::EmbeddedConfig;
use firn_engine::admin::ScrubStats;
use firn_engine::{Engine, ErrorKind};
use firn_model::metadata::Command;
use firn_storage::RealDisk;
use firn_testkit::copy_folder;
use serde_json::{Value, json};

use crate::mount_damage::files_below;
use crate::node::{Node, add, ctx, delete, index, target, update};
use crate::snapshots::{reach, register_unverified, restore, restore_request, snapshot};

/// Number of single-bit flips.
const FLIPS: u64 = 200;
const SEED: u64 = 0x5eed_0017;
/// Events of a segment: enough for several blocks of stored documents, columns and terms each.
const EVENTS: u64 = 1000;
/// More than the maximum delay of a repair or the scrub.
const TIME_MAX: Duration = Duration::from_secs(60);
const DAY_MS: i64 = 24 * 3600 * 1000;

fn event(number: u64) -> Value {
    let mut random = fastrand::Rng::with_seed(number);
    let words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"];
    let text: Vec<&str> = (0..8).map(|_| words[random.usize(0..words.len())]).collect();
    let noise: String = (0..20).map(|_| random.alphanumeric()).collect();
    let payload: String = (0..160).map(|_| random.alphanumeric()).collect();
    json!({
        "@timestamp": 1_700_000_000_000 + number * 61_000,
        "host": format!("host-{}", random.u32(0..12)),
        "bytes": random.u32(0..100_000),
        "ratio": f64::from(random.u32(0..1000)) / 7.0,
        "text": format!("{} {noise}", text.join(" ")),
        "address": format!("10.0.{}.{}", random.u8(..), random.u8(..)),
        "flag": random.bool(),
        "payload": payload,
    })
}

fn fill(node: &Node, name: &str) {
    let mappings = json!({"properties": {
        "@timestamp": {"type": "date"}, "host": {"type": "keyword"}, "bytes": {"type": "long"},
        "ratio": {"type": "double"}, "text": {"type": "text"}, "address": {"type": "ip"}, "flag": {"type": "boolean"},
        "payload": {"type": "keyword"},
    }});
    node.create(name, json!({"settings": {"number_of_shards": 1}, "mappings": mappings}))
        .unwrap();
    for segment in 0..2 {
        let numbers = segment * EVENTS..(segment + 1) * EVENTS;
        let written = node.bulk(
            numbers
                .map(|n| match n % 2 {
                    0 => index(name, &format!("id-{n}"), event(n)),
                    _ => add(name, event(n)),
                })
                .collect(),
        );
        assert!(written.iter().all(|item| item.result.is_ok()));
        node.flush(name);
    }
    let deleted = (0..EVENTS).step_by(50).map(|n| delete(name, &format!("id-{n}")));
    assert!(node.bulk(deleted.collect()).iter().all(|item| item.result.is_ok()));
    node.flush(name);
    node.refresh(name);
}

fn questions() -> Vec<Value> {
    let aggs = |aggs: Value| json!({"size": 0, "track_total_hits": true, "aggs": aggs});
    let query = |query: Value| json!({"size": 20, "track_total_hits": true, "query": query});
    vec![
        json!({"size": 30, "sort": [{"bytes": "desc"}, {"@timestamp": "asc"}], "track_total_hits": true}),
        json!({"size": 30, "sort": [{"host": "asc"}, {"@timestamp": "desc"}], "_source": ["host"]}),
        json!({"size": 1000, "sort": [{"@timestamp": "desc"}]}),
        query(json!({"term": {"host": "host-3"}})),
        query(json!({"match": {"text": "alpha zeta"}})),
        query(json!({"match_phrase": {"text": "beta gamma"}})),
        query(json!({"wildcard": {"host": "*-1*"}})),
        query(json!({"range": {"ratio": {"gte": 20, "lt": 60}}})),
        query(json!({"term": {"address": "10.0.0.0/17"}})),
        query(json!({"prefix": {"payload": "a"}})),
        query(json!({"bool": {"must": [{"exists": {"field": "flag"}}], "must_not": [{"term": {"flag": true}}]}})),
        aggs(json!({"hosts": {"terms": {"field": "host"}, "aggs": {"sum": {"sum": {"field": "bytes"}}}}})),
        aggs(
            json!({"hours": {"date_histogram": {"field": "@timestamp", "fixed_interval": "1h"},
            "aggs": {"ratio": {"avg": {"field": "ratio"}}}}}),
        ),
        aggs(json!({"hosts": {"cardinality": {"field": "address"}}, "p": {"percentiles": {"field": "bytes"}}})),
    ]
}

/// Returns a node's answers to all questions, or the errors.
fn answers(node: &Node, name: &str) -> Vec<Result<String, String>> {
    let mut answers = Vec::new();
    for question in questions() {
        let answer = node.search(name, question).map_err(|error| error.to_string());
        answers.push(answer.and_then(|found| match found.shards.failures.first() {
            Some((_, _, error)) => Err(error.to_string()),
            None => {
                let hits: Vec<String> = found
                    .hits
                    .iter()
                    .map(|hit| format!("{} {:?} {:?} {:?}", hit.id, hit.source, hit.score, hit.sort))
                    .collect();
                Ok(format!("{:?} {hits:?} {:?}", found.total, found.aggregations))
            }
        }));
    }
    for n in (0..2 * EVENTS).step_by(198) {
        let got = node.try_get(name, &format!("id-{n}"));
        answers.push(got.map(|got| format!("{got:?}")).map_err(|error| error.to_string()));
    }
    answers
}

fn flip(path: &Path, position: usize, bit: u32) {
    let mut bytes = fs::read(path).unwrap();
    bytes[position] ^= 1 << bit;
    fs::write(path, bytes).unwrap();
}

/// Returns the first file below a folder with this ending.
fn file_ending(folder: &Path, ending: &str) -> PathBuf {
    let mut files: Vec<PathBuf> = files_below(folder)
        .into_iter()
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    files.into_iter().next().expect("a file ends so")
}

/// Opens a node on a folder, which must not be open.
fn open(folder: &Arc<tempfile::TempDir>, change: impl FnOnce(&mut EmbeddedConfig)) -> Node {
    Node::open(Arc::clone(folder), Arc::new(RealDisk), change).unwrap()
}

fn closed(node: Node) -> Arc<tempfile::TempDir> {
    node.run(node.engine.close()).unwrap();
    Arc::clone(&node.folder)
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < TIME_MAX, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn failure(node: &Node) -> Option<String> {
    let stats = node.run(node.engine.stats(&ctx(), target("logs"))).unwrap();
    stats[0].shards[0].failure.clone()
}

fn scrub_stats(node: &Node) -> ScrubStats {
    node.run(node.engine.node_stats(&ctx())).unwrap().scrub
}

#[test]
fn a_flipped_bit_changes_no_answer() {
    let node = Node::new();
    fill(&node, "logs");
    let expected = answers(&node, "logs");
    assert!(expected.iter().all(Result::is_ok), "{expected:?}");
    let shard = node.shard_dir("logs", 0);
    let folder = closed(node);
    let saved = tempfile::tempdir().unwrap();
    copy_folder(&shard, saved.path());
    let mut files: Vec<PathBuf> = files_below(saved.path())
        .into_iter()
        .filter(|path| !path.to_string_lossy().contains("/wal/") && fs::metadata(path).unwrap().len() > 0)
        .map(|path| path.strip_prefix(saved.path()).unwrap().to_path_buf())
        .collect();
    files.sort();
    let has = |ending: &str| files.iter().any(|path| path.to_string_lossy().ends_with(ending));
    for ending in [
        ".fast",
        ".store",
        ".term",
        ".idx",
        ".pos",
        ".fieldnorm",
        "meta.json",
        "ids.filter",
        "checksums.bin",
    ] {
        assert!(has(ending), "{ending}: {files:?}");
    }
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut reported: BTreeMap<String, u64> = BTreeMap::new();
    for number in 0..FLIPS {
        // All files in rotation, so that small ones are damaged as often as large ones.
        let file = &files[number as usize % files.len()];
        fs::remove_dir_all(&shard).unwrap();
        copy_folder(saved.path(), &shard);
        let path = shard.join(file);
        let position = random.usize(0..fs::metadata(&path).unwrap().len() as usize);
        let bit = random.u32(0..8);
        flip(&path, position, bit);
        let node = open(&folder, |_| {});
        let name = file.file_name().unwrap().to_str().unwrap();
        // Two rounds: the second uses the caches that the first one filled.
        for round in 0..2 {
            for (question, (answer, expected)) in answers(&node, "logs").into_iter().zip(&expected).enumerate() {
                let flipped = format!(
                    "seed {SEED:#x}: {} at {position}.{bit}, question {question}, round {round}",
                    file.display()
                );
                match answer {
                    Ok(answer) => assert_eq!(Ok(answer), *expected, "{flipped}"),
                    Err(error) => {
                        assert!(error.contains(name), "{flipped}: {error}");
                        *reported.entry(name.rsplit('.').next().unwrap().to_owned()).or_default() += 1;
                        assert!(
                            failure(&node).is_some_and(|failure| failure.contains(name)),
                            "{flipped}"
                        );
                    }
                }
            }
        }
        drop(node);
    }
    for kind in ["fast", "store", "term", "idx"] {
        assert!(
            reported.contains_key(kind),
            "damage of .{kind} was never seen: {reported:?}"
        );
    }
}

#[test]
fn a_damaged_block_costs_neither_writes_nor_other_segments() {
    let node = Node::new();
    fill(&node, "logs");
    let store = file_ending(&node.shard_dir("logs", 0), ".store");
    let folder = closed(node);
    flip(&store, 100, 3);
    let node = open(&folder, |_| {});
    let damaged: Vec<u64> = (0..2 * EVENTS)
        .filter(|n| n % 2 == 0)
        .filter(|n| node.try_get("logs", &format!("id-{n}")).is_err())
        .collect();
    assert!(
        !damaged.is_empty() && damaged.len() < EVENTS as usize,
        "{}",
        damaged.len()
    );
    let lost = format!("id-{}", damaged[0]);
    let error = node.try_get("logs", &lost).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShardDamaged);
    assert!(error.to_string().contains("offset 0"), "{error}");
    // An update reads the document first.
    let error = node.write_error(update("logs", &lost, json!({"flag": true})));
    assert_eq!(error.kind(), ErrorKind::ShardDamaged);
    node.write(index("logs", "new", json!({"host": "new"})));
    node.write(index("logs", &lost, json!({"host": "written again"})));
    assert_eq!(node.count("logs", json!({"term": {"host": "new"}})), 1);
    node.flush("logs");
    let merged = node.run(node.engine.force_merge(
        &ctx(),
        firn_engine::admin::ForceMergeRequest {
            target: target("logs"),
            max_num_segments: Some(1),
            only_expunge_deletes: false,
            flush: true,
        },
    ));
    let merged = merged.unwrap();
    assert!(
        merged.failures[0].2.to_string().contains(".store"),
        "{:?}",
        merged.failures
    );
    assert!(failure(&node).unwrap().contains(".store"));
    // A crash loses no acknowledged write either.
    let node = node.reopen();
    assert_eq!(node.source("logs", &lost), json!({"host": "written again"}));
    assert_eq!(node.source("logs", "new"), json!({"host": "new"}));
}

fn delete_logs(node: &Node) {
    node.execute(Command::DeleteIndices {
        names: vec!["logs".to_owned()],
    })
    .unwrap();
}

#[test]
fn a_shard_repairs_itself_from_an_older_snapshot() {
    let repositories = tempfile::tempdir().unwrap();
    let node = Node::with(|config| reach(repositories.path(), config));
    register_unverified(&node, json!({"location": "backups"}));
    fill(&node, "logs");
    let expected = answers(&node, "logs");
    snapshot(&node, "older", "logs").unwrap();
    // The newest snapshot holds an index of this name with other segments.
    delete_logs(&node);
    node.create("logs", json!({})).unwrap();
    node.write(index("logs", "another", json!({"host": "another"})));
    snapshot(&node, "newest", "logs").unwrap();
    delete_logs(&node);
    restore(&node, restore_request("older", &["logs"])).unwrap();
    let store = file_ending(&node.shard_dir("logs", 0), ".store");
    let folder = closed(node);
    flip(&store, 100, 3);
    let node = open(&folder, |config| reach(repositories.path(), config));
    assert!(answers(&node, "logs").iter().any(Result::is_err));
    eventually("the shard is repaired", || {
        scrub_stats(&node).repaired > 0 && failure(&node).is_none()
    });
    assert_eq!(answers(&node, "logs"), expected);
}

#[test]
fn a_shard_repairs_itself_from_a_snapshot() {
    let repositories = tempfile::tempdir().unwrap();
    let mut node = Node::with(|config| reach(repositories.path(), config));
    register_unverified(&node, json!({"location": "backups"}));
    fill(&node, "logs");
    // Without percentiles: rewritten documents are in another segment.
    let aggregations = |node: &Node| answers(node, "logs")[11..13].to_vec();
    let expected = aggregations(&node);
    let shard = node.shard_dir("logs", 0);
    // One that a search finds, and one that the opening of the shard finds.
    for (number, ending) in [".store", ".fast"].into_iter().enumerate() {
        snapshot(&node, &format!("snapshot-{number}"), "logs").unwrap();
        // Deletes and writes after the snapshot must survive the repair.
        node.write(delete("logs", "id-2"));
        node.write(index("logs", "new", json!({"host": "new"})));
        let folder = closed(node);
        let file = file_ending(&shard, ending);
        let len = fs::metadata(&file).unwrap().len() as usize;
        flip(&file, if number == 0 { len / 3 } else { len - 3 }, 5);
        node = open(&folder, |config| reach(repositories.path(), config));
        // The repair may be complete already.
        let all = json!({"size": 3 * EVENTS, "sort": [{"@timestamp": "desc"}]});
        if let Err(error) = node.search("logs", all.clone()) {
            assert_eq!(error.kind(), ErrorKind::ShardDamaged);
        }
        // While segments are being replaced, a write is refused, and is retried.
        eventually("a write is taken", || {
            let mut written = node.bulk(vec![index("logs", "meanwhile", json!({"host": "meanwhile"}))]);
            written.pop().unwrap().result.is_ok()
        });
        eventually("the shard is repaired", || {
            scrub_stats(&node).repaired > 0 && failure(&node).is_none()
        });
        assert_eq!(
            (scrub_stats(&node).damaged, scrub_stats(&node).repaired),
            (1, 1),
            "{ending}"
        );
        node.refresh("logs");
        assert!(node.search("logs", all).unwrap().shards.failures.is_empty());
        assert_eq!(node.source("logs", "new"), json!({"host": "new"}));
        assert_eq!(node.source("logs", "meanwhile"), json!({"host": "meanwhile"}));
        assert!(node.get("logs", "id-2").is_none());
        for id in ["meanwhile", "new"] {
            node.write(delete("logs", id));
        }
        node.write(index("logs", "id-2", event(2)));
        node.flush("logs");
        node.refresh("logs");
        assert_eq!(aggregations(&node), expected, "{ending}");
    }
}

#[test]
fn the_scrub_finds_damage_in_data_that_is_not_read() {
    let node = Node::with(|config| config.scrub_period_ms = Some(DAY_MS as u64));
    fill(&node, "logs");
    let shard = node.shard_dir("logs", 0);
    let pass = |node: &Node| {
        let passes = scrub_stats(node).passes;
        eventually("a pass of the scrub", || {
            node.advance_ms(DAY_MS / 4);
            scrub_stats(node).passes > passes
        });
    };
    pass(&node);
    pass(&node);
    let clean = scrub_stats(&node);
    assert!(clean.bytes > 0 && clean.damaged == 0, "{clean:?}");
    assert_eq!(failure(&node), None);
    let store = file_ending(&shard, ".store");
    // Written in place: the file is open.
    let byte = fs::read(&store).unwrap()[200];
    let file = fs::OpenOptions::new().write(true).open(&store).unwrap();
    file.write_all_at(&[byte ^ 1], 200).unwrap();
    pass(&node);
    pass(&node);
    eventually("damage is reported", || {
        failure(&node).is_some_and(|failure| failure.contains(".store"))
    });
    eventually("damage is counted", || scrub_stats(&node).damaged == 1);
}

/// Removes block checksums from a shard, as in an earlier build.
fn forget_checksums(shard: &Path) {
    let commit = file_ending(shard, ".json");
    let commit = match commit.file_name().unwrap().to_string_lossy().starts_with("commit-") {
        true => commit,
        false => unreachable!("commit points sort first"),
    };
    let text = fs::read_to_string(&commit).unwrap();
    let (_, body) = text.split_once('\n').unwrap();
    let mut point: Value = serde_json::from_str(body).unwrap();
    for segment in point["segments"].as_array_mut().unwrap() {
        let files = segment["files"].as_object_mut().unwrap();
        assert!(files.remove("checksums.bin").is_some());
    }
    let body = serde_json::to_string(&point).unwrap();
    let header = format!("firn-shard 1 {:08x} {}\n", crc32c::crc32c(body.as_bytes()), body.len());
    fs::write(&commit, header + &body).unwrap();
    for path in files_below(shard) {
        if path.ends_with("checksums.bin") {
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn the_scrub_gives_older_segments_their_checksums() {
    let node = Node::new();
    fill(&node, "logs");
    let expected = answers(&node, "logs");
    let shard = node.shard_dir("logs", 0);
    let folder = closed(node);
    forget_checksums(&shard);
    let node = open(&folder, |config| config.scrub_period_ms = Some(DAY_MS as u64));
    assert_eq!(answers(&node, "logs"), expected);
    eventually("the first pass has begun", || {
        node.advance_ms(DAY_MS);
        scrub_stats(&node).passes > 0
    });
    let made = || {
        files_below(&shard)
            .iter()
            .filter(|path| path.ends_with("checksums.bin"))
            .count()
    };
    assert_eq!(made(), 2);
    assert_eq!(answers(&node, "logs"), expected);
    closed(node);
    let store = file_ending(&shard, ".store");
    flip(&store, 100, 1);
    let node = open(&folder, |_| {});
    let error = node.try_get("logs", "id-2").unwrap_err();
    assert!(error.to_string().contains(".store"), "{error}");
}
