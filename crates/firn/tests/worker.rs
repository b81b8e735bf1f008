//! `firn pipeline run`: a worker that writes to another firn, through kills, lost answers, and a data stream that rolls over.

#![allow(clippy::print_stderr, reason = "what was skipped belongs into a test's output")]

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use firn_testkit::{Client, Fault, FaultProxy, Faults, Node, NodeOptions, Rule};
use serde_json::{Value, json};
use worker::Worker;

#[path = "support/worker.rs"]
mod worker;

const POSITIONS: &str = "firn-pipeline-positions";
/// One line of so many is no JSON, and one has a field that the index refuses.
const DEAD_EVERY: u64 = 50;

fn start(folder: &Path) -> Node {
    Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder, &NodeOptions::default()).unwrap()
}

fn line(number: u64) -> String {
    match number % DEAD_EVERY {
        3 => format!("line {number}\n"),
        5 => format!("{}\n", json!({"n": number, "other": 1})),
        _ => format!("{}\n", json!({"n": number})),
    }
}

fn count(client: &Client, index: &str) -> u64 {
    client.ok("POST", &format!("/{index}/_refresh"), &Value::Null);
    client.ok("POST", &format!("/{index}/_count"), &json!({}))["count"]
        .as_u64()
        .unwrap()
}

/// Returns the sums over all partitions: read, dead-lettered.
fn account(client: &Client, by_ids: bool) -> (u64, u64) {
    let partitions = match by_ids {
        true => {
            client
                .json("POST", &format!("/{POSITIONS}/_refresh"), &Value::Null)
                .unwrap();
            let body = json!({"size": 1000});
            let found = client
                .json("POST", &format!("/{POSITIONS}/_search"), &body)
                .unwrap()
                .json();
            let hits = found["hits"]["hits"].as_array().cloned().unwrap_or_default();
            hits.into_iter().map(|hit| hit["_source"].clone()).collect()
        }
        false => {
            let found = client.get("/_firn/positions/lines").unwrap().json();
            found["partitions"].as_array().cloned().unwrap_or_default()
        }
    };
    // Letters of rejected events are counted with their events.
    let of_events = partitions
        .iter()
        .filter(|at| !at["partition"].as_str().unwrap().contains('#'));
    of_events.fold((0, 0), |(read, dead), at| {
        let of = |name: &str| at[name].as_u64().unwrap();
        (
            read + of("indexed") + of("filtered") + of("dead_lettered"),
            dead + of("dead_lettered"),
        )
    })
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Asks a worker; `None`: it does not answer.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: worker\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn settings(host: &str, by_ids: bool, path: &Path) -> Value {
    json!({
        "destination": {"hosts": [host], "by_ids": by_ids},
        "pipelines": {"lines": {"source": {"type": "file", "paths": [path]}, "index": "logs-lines"}},
    })
}

/// The record of what is stored is the destination's own.
#[test]
fn a_firn_stores_each_line_once_through_kills_lost_answers_and_rollovers() {
    let seed = firn_testkit::seed("a_firn_stores_each_line_once_through_kills_lost_answers_and_rollovers");
    stores_in_firn_once(seed, false);
}

/// As in front of OpenSearch and Elasticsearch: by the ids of events, and a record for each partition in the destination.
#[test]
fn ids_store_each_line_once_through_kills_lost_answers_and_rollovers() {
    let seed = firn_testkit::seed("ids_store_each_line_once_through_kills_lost_answers_and_rollovers");
    stores_in_firn_once(seed, true);
}

/// The destination is killed in some rounds, too.
fn stores_in_firn_once(seed: u64, by_ids: bool) {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path());
    let (client, port) = (node.client().clone(), node.port());
    let mut node = Some(node);
    stores_each_line_once(seed, &client, by_ids, || {
        node.take().unwrap().kill9().unwrap();
        let binary = Path::new(env!("CARGO_BIN_EXE_firn"));
        node = Some(Node::start_on(port, binary, folder.path(), &NodeOptions::default()).unwrap());
    });
    node.unwrap().stop().unwrap();
}

/// A batch may be larger than a request of the destination may be.
#[test]
fn a_batch_that_is_too_large_is_stored_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let options = NodeOptions {
        settings: vec![("http.max_content_length".to_owned(), "64kb".to_owned())],
    };
    let data = tempfile::tempdir().unwrap();
    let node = Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), data.path(), &options).unwrap();
    let client = node.client();
    let properties = json!({"@timestamp": {"type": "date"}, "n": {"type": "long"}, "filler": {"type": "keyword"}});
    client.ok(
        "PUT",
        "/logs-lines",
        &json!({"mappings": {"dynamic": "strict", "properties": properties}}),
    );
    let path = folder.path().join("lines.log");
    let filler = "x".repeat(200);
    let mut text: String = (0..3000)
        .map(|number| match number % DEAD_EVERY {
            3 => format!("line {number}\n"),
            5 => format!("{}\n", json!({"n": number, "filler": filler, "other": 1})),
            _ => format!("{}\n", json!({"n": number, "filler": filler})),
        })
        .collect();
    text += &format!("{}\n", json!({"n": 3000, "filler": "x".repeat(40_000)}));
    std::fs::write(&path, text).unwrap();
    let host = format!("http://127.0.0.1:{}", node.port());
    let worker = Worker::start(folder.path(), "one", &settings(&host, false, &path));
    let deadline = Instant::now() + Duration::from_secs(60);
    while account(client, false) != (3001, 120) {
        assert!(
            Instant::now() < deadline,
            "{:?}: {}",
            account(client, false),
            worker.log()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(
        (count(client, "logs-lines"), count(client, "dead-letters")),
        (2881, 120)
    );
    let numbers = json!({"size": 0, "aggs": {"n": {"cardinality": {"field": "n", "precision_threshold": 40000}}}});
    let found = client.ok("POST", "/logs-lines/_search", &numbers);
    assert_eq!(found["aggregations"]["n"]["value"], 2881, "{found}");
    worker.stop();
    node.stop().unwrap();
}

/// `make test-peers` sets the address; without one the test is skipped.
#[test]
fn an_opensearch_stores_each_line_once_through_kills_lost_answers_and_rollovers() {
    let Ok(url) = std::env::var("OPENSEARCH_URL") else {
        eprintln!("SKIPPED: OPENSEARCH_URL names no OpenSearch to write to (see `make test-peers`)");
        return;
    };
    let seed = firn_testkit::seed("an_opensearch_stores_each_line_once_through_kills_lost_answers_and_rollovers");
    let client = Client::new(url);
    // Of an earlier run.
    for path in [
        "/_data_stream/logs-lines",
        "/_data_stream/dead-letters",
        "/firn-pipeline-positions",
    ] {
        client.send("DELETE", path, None, b"").unwrap();
    }
    stores_each_line_once(seed, &client, false, || ());
}

fn stores_each_line_once(seed: u64, client: &Client, by_ids: bool, mut kill_destination: impl FnMut()) {
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let port = client.base().rsplit(':').next().unwrap().parse().unwrap();
    let has_records = by_ids || client.get("/").unwrap().json()["version"]["firn"].is_null();
    let mapping = json!({"dynamic": "strict", "properties": {"@timestamp": {"type": "date"}, "n": {"type": "long"}}});
    client.ok(
        "PUT",
        "/_index_template/lines",
        &json!({"index_patterns": ["logs-lines"], "data_stream": {}, "template": {"mappings": mapping}}),
    );
    client.ok("PUT", "/_data_stream/logs-lines", &Value::Null);
    let proxy = FaultProxy::start(port, seed).unwrap();
    let path = folder.path().join("lines.log");
    let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
    let settings = settings(&proxy.endpoint(), by_ids, &path);
    let listens = [free_address(), free_address()];
    let run = |place: usize| {
        let mut settings = settings.clone();
        settings["listen"] = listens[place].to_string().into();
        Worker::start(folder.path(), ["one", "two"][place], &settings)
    };
    let mut workers = vec![run(0)];
    let mut next = 0;
    for round in 0..12 {
        let lost = [Fault::TimeoutAfterSuccess, Fault::SlowDown, Fault::Reset][round % 3];
        let mut faults = Faults::rules([Rule::share(lost, 0.3)]);
        faults.silence = Duration::from_millis(20);
        proxy.set(faults);
        for _ in 0..random.u64(2..6) {
            let end = next + random.u64(1..400);
            file.write_all((next..end).map(line).collect::<String>().as_bytes())
                .unwrap();
            next = end;
            std::thread::sleep(Duration::from_millis(random.u64(50..500)));
        }
        if random.u8(0..3) == 0 {
            kill_destination();
        }
        if round % 4 == 0 || random.bool() {
            client.ok("POST", "/logs-lines/_rollover", &Value::Null);
        }
        // In some rounds two workers read the same file, and take it from each other.
        while workers.len() > random.usize(0..2) {
            workers.pop().unwrap().kill9();
        }
        let place = workers.len();
        workers.push(run(place));
    }
    proxy.set(Faults::default());
    workers.truncate(1);
    // The first worker learns from its next write that the second one had taken the file over.
    std::thread::sleep(Duration::from_millis(300));
    file.write_all(line(next).as_bytes()).unwrap();
    next += 1;
    let started = Instant::now();
    while account(client, has_records).0 < next {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{:?} of {next}: {:?}\n{}",
            account(client, has_records),
            listens
                .iter()
                .filter_map(|address| get(*address, "/_firn/pipelines/_stats"))
                .collect::<Vec<_>>(),
            workers[0].log()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    let dead = (0..next).filter(|number| matches!(number % DEAD_EVERY, 3 | 5)).count() as u64;
    assert_eq!(
        account(client, has_records),
        (next, dead),
        "the account of {next} lines"
    );
    assert_eq!(count(client, "logs-lines"), next - dead);
    // An event that its index rejects is counted before its letter is written.
    let started = Instant::now();
    while count(client, "dead-letters") < dead && started.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(count(client, "dead-letters"), dead);
    let repeated = json!({"size": 0, "aggs": {"n": {"terms": {"field": "n", "min_doc_count": 2, "size": 10}}}});
    let twice = client.ok("POST", "/logs-lines/_search", &repeated);
    assert_eq!(twice["aggregations"]["n"]["buckets"], json!([]));
    let streams = client.ok("GET", "/_data_stream/logs-lines", &Value::Null);
    let generations = streams["data_streams"][0]["indices"].as_array().unwrap().len();
    assert!(
        generations > 2,
        "the data stream was rolled over only {generations} times"
    );
    workers.into_iter().for_each(Worker::stop);
}

#[test]
fn a_worker_waits_for_its_destination_and_shows_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines.log");
    std::fs::write(&path, line(1)).unwrap();
    let address = free_address();
    let mut settings = settings(&format!("http://{}", free_address()), true, &path);
    settings["listen"] = address.to_string().into();
    let worker = Worker::start(folder.path(), "worker", &settings);
    let started = Instant::now();
    while !worker.log().contains("does not answer") {
        assert!(started.elapsed() < Duration::from_secs(20), "{}", worker.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    worker.stop();
    let node = start(folder.path());
    // The first host does not answer.
    settings["destination"]["hosts"] = json!([format!("http://{}", free_address()), node.client().base()]);
    let worker = Worker::start(folder.path(), "worker", &settings);
    let get = |path: &str| get(address, path);
    let started = Instant::now();
    while !get("/_firn/pipelines/_stats").is_some_and(|answer| answer.contains("\"indexed\":1")) {
        assert!(started.elapsed() < Duration::from_secs(30), "{}", worker.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    let metrics = get("/metrics").unwrap();
    let expected = "firn_pipeline_events_total{pipeline=\"lines\",outcome=\"indexed\"} 1";
    assert!(metrics.contains(expected), "{metrics}");
    assert!(get("/_search").unwrap().starts_with("HTTP/1.1 404"));
    // What was stored is in the record without another event.
    let started = Instant::now();
    while account(node.client(), true).0 < 1 {
        assert!(started.elapsed() < Duration::from_secs(10), "{}", worker.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    worker.stop();
    node.stop().unwrap();
}

#[test]
fn settings_that_a_worker_cannot_use_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("worker.yml");
    let check = |settings: &Value, expected: &str| {
        std::fs::write(&config, settings.to_string()).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(["pipeline", "run", "--check", "-c"])
            .arg(&config)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(expected), "{text}");
        output.status.success()
    };
    let valid = settings("https://127.0.0.1:9200", false, Path::new("/var/log/events"));
    assert!(check(&valid, "1 pipelines"));
    let with = |pointer: &str, member: &str, value: Value| {
        let mut changed = valid.clone();
        changed.pointer_mut(pointer).unwrap()[member] = value;
        changed
    };
    for (changed, expected) in [
        (with("/destination", "hosts", json!([])), "[hosts]"),
        (
            with("/destination", "hosts", json!(["localhost:9200"])),
            "must start with https://",
        ),
        (
            with("/destination", "hosts", json!(["https://ann:secret@es:9200"])),
            "must not hold credentials",
        ),
        (
            with("/destination", "password", json!("secret")),
            "unknown field `password`",
        ),
        (
            with("/destination", "username", json!("ann")),
            "[username] and [password_file]",
        ),
        (
            with("/destination", "api_key_file", json!("/no/such/file")),
            "/no/such/file",
        ),
        (with("/destination", "positions_index", json!("UPPER")), "UPPER"),
        (with("", "pipelines", json!({})), "[pipelines] is empty"),
        (with("/pipelines/lines", "source", json!({"type": "http"})), "[lines]"),
        (with("/pipelines/lines", "tenant", json!("acme")), "[tenant]"),
    ] {
        assert!(!check(&changed, expected), "{changed}");
    }
}
