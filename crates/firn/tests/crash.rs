//! Crash test: kill -9 at random moments under load; after each, every acknowledged write exists exactly once.
//!
//! `FIRN_CRASH_ROUNDS` (200) and `FIRN_CRASH_SECONDS` (170) bound it; `make soak` raises both.
#![allow(clippy::print_stderr, reason = "the test harness shows it with a failure")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use firn_testkit::{Client, Node, NodeOptions, seed};
use serde_json::{Value, json};

/// Rounds per index; then a new one is created and the old one deleted.
const ROUNDS_PER_INDEX: u64 = 8;
/// Documents with explicit ids that are written, changed and deleted over and over.
const KEYS: u64 = 40;

/// Expected state of the data, stored outside the server.
#[derive(Default)]
struct Expected {
    /// Numbers of acknowledged documents with generated ids.
    acknowledged: BTreeSet<u64>,
    /// Numbers sent without an answer: each may exist once, or not.
    unknown: BTreeSet<u64>,
    /// Last acknowledged state of each key: its value, or deleted.
    keys: HashMap<u64, Option<u64>>,
    /// Later states that may have been applied (the request in flight when the kill came).
    maybe: HashMap<u64, Vec<Option<u64>>>,
    /// Indices whose creation was acknowledged.
    indices: Vec<String>,
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// Prints the end of the server's log when the test fails.
struct LogOnPanic(PathBuf);

impl Drop for LogOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(&self.0).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("log:\n{}", lines[lines.len().saturating_sub(25)..].join("\n"));
        }
    }
}

#[test]
fn acknowledged_writes_survive_kill_9() {
    let rounds = number("FIRN_CRASH_ROUNDS", 200);
    let deadline = Instant::now() + Duration::from_secs(number("FIRN_CRASH_SECONDS", 170));
    let mut rng = fastrand::Rng::with_seed(seed("crash"));
    let folder = tempfile::tempdir().unwrap();
    let _log = LogOnPanic(folder.path().join("firn.log"));
    let binary = Path::new(env!("CARGO_BIN_EXE_firn"));
    let options = NodeOptions {
        settings: vec![("search.max_buckets".into(), "65536".into())],
    };
    let counter = AtomicU64::new(0);
    let mut expected = Expected::default();
    let mut index = String::new();
    let mut done = 0;
    let mut start_max = Duration::ZERO;
    let mut acknowledged_total = 0;

    for round in 0..rounds {
        if Instant::now() > deadline {
            break;
        }
        let node = Node::start(binary, folder.path(), &options).expect("firn starts again after a kill");
        start_max = start_max.max(node.start_time);
        if !index.is_empty() {
            verify(node.client(), &index, &mut expected, round);
        }
        if round % ROUNDS_PER_INDEX == 0 {
            acknowledged_total += expected.acknowledged.len();
            if !index.is_empty() {
                let answer = node.client().send("DELETE", &format!("/{index}"), None, b"").unwrap();
                assert_eq!(answer.status, 200, "{}", answer.text());
            }
            expected = Expected::default();
            index = format!("crash-{round}");
            let body = json!({
                "settings": {"number_of_shards": 1 + rng.u32(0..3)},
                "mappings": {"properties": {"n": {"type": "long"}, "word": {"type": "keyword"}}}
            });
            let answer = node.client().json("PUT", &format!("/{index}"), &body).unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        write_until_killed(node, &index, &mut expected, &counter, &mut rng, round);
        done += 1;
    }
    let node = Node::start(binary, folder.path(), &options).expect("firn starts again after the last kill");
    verify(node.client(), &index, &mut expected, done);
    node.stop().expect("firn stops cleanly");
    acknowledged_total += expected.acknowledged.len();
    eprintln!(
        "crash: {done} rounds, {acknowledged_total} acknowledged documents, longest start {} ms",
        start_max.as_millis()
    );
    assert!(done >= 10, "only {done} rounds fitted into the time");
    assert!(acknowledged_total > 0);
}

/// Loads the node from three threads and kills it after a random time.
fn write_until_killed(
    node: Node,
    index: &str,
    expected: &mut Expected,
    counter: &AtomicU64,
    rng: &mut fastrand::Rng,
    round: u64,
) {
    let client = node.client().clone();
    let stop = AtomicBool::new(false);
    let life = Duration::from_millis(rng.u64(5..400));
    let seeds = [rng.u64(..), rng.u64(..), rng.u64(..)];
    std::thread::scope(|scope| {
        let appended = scope.spawn(|| append(&client, index, counter, seeds[0], &stop, round));
        let before = expected.keys.clone();
        let (client, stop) = (&client, &stop);
        let changed = scope.spawn(move || change_keys(client, index, before, counter, seeds[1], stop));
        let maintained = scope.spawn(|| maintain(client, index, seeds[2], stop, round));
        std::thread::sleep(life);
        node.kill9().unwrap();
        stop.store(true, Ordering::Relaxed);
        let (acknowledged, unknown) = appended.join().unwrap();
        expected.acknowledged.extend(acknowledged);
        expected.unknown.extend(unknown);
        let (keys, maybe) = changed.join().unwrap();
        expected.keys.extend(keys);
        expected.maybe = maybe;
        expected.indices.extend(maintained.join().unwrap());
    });
}

/// Sends bulks of documents with generated ids. Returns the acknowledged numbers and those without an answer.
fn append(
    client: &Client,
    index: &str,
    counter: &AtomicU64,
    seed: u64,
    stop: &AtomicBool,
    round: u64,
) -> (Vec<u64>, Vec<u64>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut acknowledged = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let mut body = String::new();
        let numbers: Vec<u64> = (0..rng.u64(1..60))
            .map(|_| counter.fetch_add(1, Ordering::Relaxed))
            .collect();
        for number in &numbers {
            body.push_str("{\"index\":{}}\n");
            // A new field now and then, so that kills coincide with mapping changes too.
            let extra = if rng.u8(..) == 0 {
                format!(",\"f{}_{}\":1", round, rng.u8(..))
            } else {
                String::new()
            };
            body.push_str(&format!("{{\"n\":{number},\"word\":\"w{}\"{extra}}}\n", number % 7));
        }
        let Ok(answer) = client.bulk(&format!("/{index}/_bulk"), body.as_bytes()) else {
            return (acknowledged, numbers);
        };
        assert_eq!(answer.status, 200, "{}", answer.text());
        for (number, item) in numbers.iter().zip(answer.json()["items"].as_array().unwrap()) {
            assert_eq!(item["index"]["status"], 201, "{item}");
            acknowledged.push(*number);
        }
    }
    (acknowledged, Vec::new())
}

type KeyStates = HashMap<u64, Option<u64>>;

/// Writes, updates and deletes documents by id. Returns the acknowledged state of each key and the
/// states of the last request if it had no answer.
fn change_keys(
    client: &Client,
    index: &str,
    before: KeyStates,
    counter: &AtomicU64,
    seed: u64,
    stop: &AtomicBool,
) -> (KeyStates, HashMap<u64, Vec<Option<u64>>>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut states = before;
    while !stop.load(Ordering::Relaxed) {
        let mut body = String::new();
        let mut sent: Vec<(u64, Option<u64>)> = Vec::new();
        for _ in 0..rng.usize(1..12) {
            let key = rng.u64(0..KEYS);
            if rng.u8(0..4) == 0 {
                body.push_str(&format!("{{\"delete\":{{\"_id\":\"k{key}\"}}}}\n"));
                sent.push((key, None));
            } else {
                let value = counter.fetch_add(1, Ordering::Relaxed);
                body.push_str(&format!(
                    "{{\"index\":{{\"_id\":\"k{key}\"}}}}\n{{\"value\":{value}}}\n"
                ));
                sent.push((key, Some(value)));
            }
        }
        let Ok(answer) = client.bulk(&format!("/{index}/_bulk"), body.as_bytes()) else {
            let mut maybe: HashMap<u64, Vec<Option<u64>>> = HashMap::new();
            for (key, state) in sent {
                maybe.entry(key).or_default().push(state);
            }
            return (states, maybe);
        };
        assert_eq!(answer.status, 200, "{}", answer.text());
        for ((key, state), item) in sent.iter().zip(answer.json()["items"].as_array().unwrap()) {
            let outcome = item.as_object().unwrap().values().next().unwrap();
            assert!(matches!(outcome["status"].as_u64(), Some(200 | 201 | 404)), "{item}");
            states.insert(*key, *state);
        }
    }
    (states, HashMap::new())
}

/// Refreshes, flushes, merges and creates indices. Returns the indices whose creation was acknowledged.
fn maintain(client: &Client, index: &str, seed: u64, stop: &AtomicBool, round: u64) -> Vec<String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut created = Vec::new();
    let mut step = 0;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(rng.u64(0..30)));
        step += 1;
        let answer = match rng.u8(0..8) {
            0..=3 => client.send("POST", &format!("/{index}/_refresh"), None, b""),
            4 | 5 => client.send("POST", &format!("/{index}/_flush"), None, b""),
            6 => client.send("POST", &format!("/{index}/_forcemerge?max_num_segments=1"), None, b""),
            _ => {
                let name = format!("side-{round}-{step}");
                let answer = client.send("PUT", &format!("/{name}"), None, b"");
                if answer.as_ref().is_ok_and(|answer| answer.status == 200) {
                    created.push(name);
                }
                answer
            }
        };
        match answer {
            Ok(answer) => assert_eq!(answer.status, 200, "{}", answer.text()),
            Err(_) => break,
        }
    }
    created
}

fn verify(client: &Client, index: &str, expected: &mut Expected, round: u64) {
    let answer = client.send("POST", &format!("/{index}/_refresh"), None, b"").unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["_shards"]["failed"], 0, "{}", answer.text());

    let mut found: BTreeMap<u64, u64> = BTreeMap::new();
    let mut after: Option<Value> = None;
    loop {
        let mut body = json!({
            "size": 5000, "query": {"exists": {"field": "n"}}, "sort": [{"n": "asc"}, "_doc"], "_source": ["n"]
        });
        if let Some(after) = &after {
            body["search_after"] = after.clone();
        }
        let answer = client.json("POST", &format!("/{index}/_search"), &body).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = answer.json();
        assert_eq!(answer["_shards"]["failed"], 0, "{answer}");
        let hits = answer["hits"]["hits"].as_array().unwrap();
        for hit in hits {
            *found.entry(hit["_source"]["n"].as_u64().unwrap()).or_default() += 1;
        }
        match hits.last() {
            Some(last) if hits.len() == 5000 => after = Some(last["sort"].clone()),
            _ => break,
        }
    }
    let twice: Vec<_> = found.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "round {round}: documents are there twice: {twice:?}");
    let lost: Vec<_> = expected
        .acknowledged
        .iter()
        .filter(|number| !found.contains_key(number))
        .collect();
    assert!(
        lost.is_empty(),
        "round {round}: acknowledged documents are lost: {lost:?}"
    );
    for number in found.keys() {
        assert!(
            expected.acknowledged.contains(number) || expected.unknown.contains(number),
            "round {round}: document {number} was never sent to this index"
        );
    }
    // The result of unanswered requests is now known.
    let settled: Vec<u64> = expected
        .unknown
        .iter()
        .copied()
        .filter(|number| found.contains_key(number))
        .collect();
    expected.acknowledged.extend(settled);
    expected.unknown.clear();

    for key in 0..KEYS {
        let answer = client.get(&format!("/{index}/_doc/k{key}")).unwrap();
        let state = match answer.status {
            200 => answer.json()["_source"]["value"].as_u64(),
            404 => None,
            other => panic!("round {round}: status {other} for key {key}: {}", answer.text()),
        };
        let last = expected.keys.get(&key).copied().flatten();
        let maybe = expected.maybe.remove(&key).unwrap_or_default();
        assert!(
            state == last || maybe.contains(&state),
            "round {round}: key {key} is {state:?}, acknowledged was {last:?}, in flight {maybe:?}"
        );
        let body = json!({"query": {"ids": {"values": [format!("k{key}")]}}});
        let hits = client.json("POST", &format!("/{index}/_search"), &body).unwrap().json();
        assert_eq!(
            hits["hits"]["total"]["value"],
            u64::from(state.is_some()),
            "round {round}: key {key} is {state:?} by id, but a search finds {hits}"
        );
        expected.keys.insert(key, state);
    }
    for name in &expected.indices {
        let answer = client.send("HEAD", &format!("/{name}"), None, b"").unwrap();
        assert_eq!(
            answer.status, 200,
            "round {round}: index {name} was created and is gone"
        );
    }
    for name in expected.indices.drain(..) {
        client.send("DELETE", &format!("/{name}"), None, b"").unwrap();
    }
}
