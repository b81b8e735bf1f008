//! Fault injection: all faults of an object store, against all operations that use one.
//!
//! The test uses a real S3 server behind a proxy that injects faults. A snapshot, a mount, a search, a restore or a
//! deletion succeeds completely, or it fails with an error of a known type and leaves nothing visible. A flipped bit is
//! never served.

#[path = "faults/mixed.rs"]
mod mixed;
#[path = "faults/reading_back.rs"]
mod reading_back;
mod support;
#[path = "faults/tenants.rs"]
mod tenants;

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use firn_testkit::{Answer, Client, Fault, FaultProxy, Faults, Gateway, Method, Node, NodeOptions, Rule};
use serde_json::{Value, json};

/// Documents of the permanent index: several segments, and several requests for each.
const DOCUMENTS: u64 = 400;
const SEGMENTS: u64 = 4;
/// Share of requests with a fault: high enough that every operation meets it, low enough that retries succeed.
const SHARE: f64 = 0.15;
/// Retries absorb most faults: at most one of this many operations may fail.
const TRIES_OF_A_FAILURE: usize = 4;
/// Timeout for a lost answer.
const READ_TIMEOUT: &str = "700ms";

struct Bed {
    folder: tempfile::TempDir,
    gateway: Gateway,
    proxy: FaultProxy,
    options: NodeOptions,
    node: Node,
}

impl Bed {
    fn start(test: &str) -> Self {
        Self::start_with(test, READ_TIMEOUT)
    }

    /// Starts with this timeout for answers of the store.
    fn start_with(test: &str, read_timeout: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let gateway = Gateway::start(&folder.path().join("s3"), &["bucket"]).expect("a gateway");
        let proxy = FaultProxy::start(gateway.port(), firn_testkit::seed(test)).expect("a proxy");
        let data = folder.path().join("data");
        keep_secret(&data, "s3.client.default.access_key", gateway.access_key());
        keep_secret(&data, "s3.client.default.secret_key", gateway.secret_key());
        let options = NodeOptions {
            settings: [
                ("s3.client.default.endpoint", proxy.endpoint()),
                ("s3.client.default.read_timeout", read_timeout.to_owned()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        };
        let node = Node::start(env!("CARGO_BIN_EXE_firn").as_ref(), folder.path(), &options).expect("a node");
        let bed = Self {
            folder,
            gateway,
            proxy,
            options,
            node,
        };
        bed.fill();
        let settings = json!({"bucket": "bucket", "base_path": "kept"});
        bed.ok("PUT", "/_snapshot/r", &json!({"type": "s3", "settings": settings}));
        bed
    }

    fn client(&self) -> &Client {
        self.node.client()
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        match body {
            Value::Null => self.client().send(method, path, None, &[]),
            body => self.client().json(method, path, body),
        }
        .expect("an answer")
    }

    #[track_caller]
    fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.ask(method, path, body);
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
        answer.json()
    }

    fn fill(&self) {
        for segment in 0..SEGMENTS {
            let lines: String = (0..DOCUMENTS / SEGMENTS)
                .map(|at| {
                    let number = segment * (DOCUMENTS / SEGMENTS) + at;
                    format!(
                        "{{\"index\":{{\"_id\":\"{number}\"}}}}\n{{\"number\":{number},\"text\":\"event {number}\"}}\n"
                    )
                })
                .collect();
            let answer = self.client().bulk("/events/_bulk?refresh=true", lines.as_bytes());
            assert_eq!(answer.expect("an answer").json()["errors"], false);
        }
    }

    /// Sets the faults from now on.
    fn faults(&self, rules: Vec<Rule>) {
        self.proxy.set(Faults {
            silence: Duration::from_secs(2),
            ..Faults::rules(rules)
        });
    }

    fn calm(&self) {
        self.faults(Vec::new());
    }

    /// Checks all documents of an index with their content.
    #[track_caller]
    fn holds_everything(&self, index: &str) {
        let body = json!({"size": DOCUMENTS, "aggs": {"sum": {"sum": {"field": "number"}}}, "sort": ["number"]});
        let found = self.ok("POST", &format!("/{index}/_search"), &body);
        assert_eq!(found["_shards"]["failed"], 0, "{found}");
        assert_eq!(found["hits"]["total"]["value"], DOCUMENTS);
        assert_eq!(
            found["aggregations"]["sum"]["value"],
            (DOCUMENTS * (DOCUMENTS - 1) / 2) as f64
        );
        for (number, hit) in found["hits"]["hits"].as_array().expect("hits").iter().enumerate() {
            assert_eq!(
                hit["_source"],
                json!({"number": number, "text": format!("event {number}")})
            );
        }
    }

    /// Restores a snapshot under another name without faults, and checks all of it.
    #[track_caller]
    fn can_be_restored(&self, snapshot: &str) {
        let name = format!("check-{snapshot}");
        let path = format!("/_snapshot/r/{snapshot}/_restore?wait_for_completion=true");
        let body = json!({"indices": "events", "rename_pattern": "(.+)", "rename_replacement": name});
        let restored = self.ok("POST", &path, &body);
        assert_eq!(restored["snapshot"]["shards"]["failed"], 0, "{restored}");
        self.holds_everything(&name);
        self.ok("DELETE", &format!("/{name}"), &Value::Null);
    }
}

fn keep_secret(data: &std::path::Path, name: &str, value: &str) {
    std::fs::create_dir_all(data).expect("the data folder");
    let data = data.to_str().expect("a path of text");
    let mut keystore = support::command(&["keystore", "--data", data, "add", "--stdin", "--force", name])
        .stdin(Stdio::piped())
        .spawn()
        .expect("firn keystore");
    let line = format!("{value}\n");
    let mut stdin = keystore.stdin.take().expect("its input");
    stdin.write_all(line.as_bytes()).expect("the value is read");
    drop(stdin);
    assert!(keystore.wait().expect("its end").success());
}

/// Checks that the answer is an error of Elasticsearch's shape: with a useful type, and a matching status.
#[track_caller]
fn is_typed(answer: &Answer, what: &str) {
    let error = &answer.json()["error"];
    let (kind, reason) = (error["type"].as_str(), error["reason"].as_str());
    assert!(
        answer.status >= 400 && kind.is_some() && reason.is_some(),
        "{what}: {}",
        answer.text()
    );
    let text = answer.text();
    assert!(
        !text.contains("panicked") && !text.contains("firn-test-secret"),
        "{what}: {text}"
    );
}

/// Returns rules for each fault alone, and for all faults together with a quarter of the share each.
fn matrix() -> Vec<(String, Vec<Rule>)> {
    let shares = Fault::ALL.map(|fault| (format!("{fault:?}").to_lowercase(), vec![Rule::share(fault, SHARE)]));
    let all = Fault::ALL.map(|fault| Rule::share(fault, SHARE / 4.0)).to_vec();
    shares.into_iter().chain([("all".to_owned(), all)]).collect()
}

/// Counts successes under faults: an implementation that always fails cleanly must not pass.
#[derive(Debug, Default)]
struct Tries {
    all: usize,
    failed: Vec<String>,
}

impl Tries {
    fn note(&mut self, what: &str, worked: bool) {
        self.all += 1;
        if !worked {
            self.failed.push(what.to_owned());
        }
    }

    #[track_caller]
    fn mostly_worked(&self) {
        let most = self.all / TRIES_OF_A_FAILURE;
        assert!(self.all > TRIES_OF_A_FAILURE && self.failed.len() <= most, "{self:?}");
    }
}

#[test]
fn a_snapshot_holds_everything_or_is_not_there() {
    let bed = Bed::start("faults of snapshots");
    let mut tries = Tries::default();
    for (name, rules) in matrix() {
        let snapshot = format!("s-{name}");
        let path = format!("/_snapshot/r/{snapshot}");
        bed.faults(rules);
        let body = json!({"indices": "events", "include_global_state": false});
        let made = bed.ask("PUT", &format!("{path}?wait_for_completion=true"), &body);
        bed.calm();
        let is_whole = made.status == 200 && made.json()["snapshot"]["state"] == "SUCCESS";
        tries.note(&name, is_whole);
        if is_whole {
            bed.can_be_restored(&snapshot);
        } else if made.status == 200 {
            // It reports what it lacks, and its restore is refused.
            let state = &made.json()["snapshot"];
            assert!(state["shards"]["failed"].as_u64() > Some(0), "{name}: {state}");
        } else {
            is_typed(&made, &name);
        }
        // A further snapshot is not blocked by the failed one.
        let again = format!("/_snapshot/r/again-{name}?wait_for_completion=true");
        let made = bed.ok(
            "PUT",
            &again,
            &json!({"indices": "events", "include_global_state": false}),
        );
        assert_eq!(made["snapshot"]["state"], "SUCCESS", "{name}: {made}");
        bed.can_be_restored(&format!("again-{name}"));
    }
    bed.holds_everything("events");
    tries.mostly_worked();
}

#[test]
fn a_restore_brings_everything_or_nothing() {
    let bed = Bed::start("faults of restores");
    let body = json!({"indices": "events", "include_global_state": false});
    let made = bed.ok("PUT", "/_snapshot/r/s?wait_for_completion=true", &body);
    assert_eq!(made["snapshot"]["state"], "SUCCESS", "{made}");
    let mut tries = Tries::default();
    for (name, rules) in matrix() {
        let index = format!("restored-{name}");
        bed.faults(rules);
        let body = json!({"indices": "events", "rename_pattern": "(.+)", "rename_replacement": index});
        let restored = bed.ask("POST", "/_snapshot/r/s/_restore?wait_for_completion=true", &body);
        bed.calm();
        let is_whole = restored.status == 200 && restored.json()["snapshot"]["shards"]["failed"] == 0;
        tries.note(&name, is_whole);
        if is_whole {
            bed.holds_everything(&index);
        } else if restored.status == 200 {
            // A shard that could not be restored serves no data.
            let answer = bed.ask("POST", &format!("/{index}/_search"), &json!({}));
            let is_honest = answer.status >= 400 || answer.json()["_shards"]["failed"].as_u64() > Some(0);
            assert!(is_honest, "{name}: {}", answer.text());
        } else {
            is_typed(&restored, &name);
            let answer = bed.client().get(&format!("/{index}")).expect("an answer");
            assert_eq!(answer.status, 404, "{name}: {}", answer.text());
        }
    }
    bed.can_be_restored("s");
    tries.mostly_worked();
}

#[test]
fn a_mounted_index_answers_right_or_says_what_it_lacks() {
    let bed = Bed::start("faults of mounts");
    let body = json!({"indices": "events", "include_global_state": false});
    bed.ok("PUT", "/_snapshot/r/s?wait_for_completion=true", &body);
    for storage in ["shared_cache", "full_copy"] {
        let (mut mounts, mut answers) = (Tries::default(), Tries::default());
        for (name, rules) in matrix() {
            let index = format!("mounted-{}-{name}", storage.replace('_', "-"));
            let path = format!("/_snapshot/r/s/_mount?wait_for_completion=true&storage={storage}");
            let body = json!({"index": "events", "renamed_index": index});
            bed.faults(rules);
            let mounted = bed.ask("POST", &path, &body);
            mounts.note(&name, mounted.status == 200);
            if mounted.status != 200 {
                is_typed(&mounted, &name);
                bed.calm();
                bed.ok("POST", &path, &body);
                continue;
            }
            for number in [7, 123, 398] {
                let body =
                    json!({"query": {"term": {"number": number}}, "aggs": {"sum": {"sum": {"field": "number"}}}});
                let answer = bed.ask("POST", &format!("/{index}/_search"), &body);
                let found = answer.json();
                let is_whole = answer.status == 200 && found["_shards"]["failed"] == 0;
                answers.note(&name, is_whole);
                if answer.status != 200 {
                    is_typed(&answer, &name);
                } else if is_whole {
                    assert_eq!(found["hits"]["total"]["value"], 1, "{name}: {found}");
                    assert_eq!(found["hits"]["hits"][0]["_source"]["text"], format!("event {number}"));
                    assert_eq!(found["aggregations"]["sum"]["value"], f64::from(number));
                }
            }
            bed.calm();
            bed.holds_everything(&index);
            bed.ok("DELETE", &format!("/{index}"), &Value::Null);
        }
        mounts.mostly_worked();
        answers.mostly_worked();
    }
    bed.can_be_restored("s");
}

#[test]
fn a_deletion_takes_one_snapshot_and_nothing_of_another() {
    let bed = Bed::start("faults of deletions");
    let body = json!({"indices": "events", "include_global_state": false});
    bed.ok("PUT", "/_snapshot/r/kept?wait_for_completion=true", &body);
    let mut tries = Tries::default();
    for (name, rules) in matrix() {
        let path = format!("/_snapshot/r/gone-{name}");
        let made = bed.ok("PUT", &format!("{path}?wait_for_completion=true"), &body);
        assert_eq!(made["snapshot"]["state"], "SUCCESS", "{name}: {made}");
        bed.faults(rules);
        let deleted = bed.ask("DELETE", &path, &Value::Null);
        bed.calm();
        tries.note(&name, deleted.status == 200);
        if deleted.status != 200 {
            is_typed(&deleted, &name);
            // The snapshot still exists, or is gone; then a second deletion finds nothing.
            let again = bed.ask("DELETE", &path, &Value::Null);
            assert!(matches!(again.status, 200 | 404), "{name}: {}", again.text());
        }
        let answer = bed.client().get(&path).expect("an answer");
        assert_eq!(answer.status, 404, "{name}: {}", answer.text());
        bed.can_be_restored("kept");
    }
    bed.ok("POST", "/_snapshot/r/_cleanup", &Value::Null);
    bed.can_be_restored("kept");
    tries.mostly_worked();
}

/// Behaviour of a repository while the store does not answer, and after it answers again.
#[test]
fn a_missing_store_is_reported_and_found_again() {
    let bed = Bed::start("a store that is gone");
    let body = json!({"indices": "events", "include_global_state": false});
    bed.ok("PUT", "/_snapshot/r/s?wait_for_completion=true", &body);
    bed.faults(vec![Rule::share(Fault::SlowDown, 1.0)]);
    let settings = json!({"bucket": "bucket", "base_path": "other", "max_retries": 1});
    let refused = bed.ask("PUT", "/_snapshot/other", &json!({"type": "s3", "settings": settings}));
    is_typed(&refused, "registering");
    assert!(refused.text().contains("SlowDown"), "{}", refused.text());
    // Local data need no store.
    bed.holds_everything("events");
    bed.calm();
    bed.ok("PUT", "/_snapshot/other", &json!({"type": "s3", "settings": settings}));
    bed.can_be_restored("s");
}

/// Report of a sound store, and of one with forbidden faults.
#[test]
fn an_analysis_tells_what_a_store_breaks() {
    let bed = Bed::start("faults of analyses");
    let path = "/_snapshot/r/_analyze?blob_count=12&max_blob_size=64kb&max_total_data_size=400kb&timeout=120s";
    let report = bed.ok("POST", path, &Value::Null);
    assert_eq!(report["issues_detected"], json!([]), "{report}");
    assert_eq!(report["blob_count"], 12);
    assert!(
        report["requests"]["conditional_write"]["count"].as_u64() > Some(30),
        "{report}"
    );
    bed.faults(vec![Rule::next(Fault::BitFlip, 1).of(Method::Get).at("blob-")]);
    let report = bed.ok("POST", path, &Value::Null);
    bed.calm();
    let issues = report["issues_detected"].as_array().expect("issues");
    assert_eq!(issues.len(), 1, "{report}");
    assert!(
        issues[0].as_str().is_some_and(|issue| issue.contains("differ")),
        "{report}"
    );
}

/// Concurrent searches of each kind: more than one tenant may start on a small machine.
const HUNG_SEARCHES: usize = 6;

#[test]
fn a_store_that_hangs_costs_a_search_in_time_only_the_hits_that_lie_there() {
    /// Too large to be fetched together with other parts of its split.
    const WIDE: u64 = 2_000;
    const NEAR: usize = 10;
    let bed = Bed::start_with("hangs-fetching", "60s");
    let unsearched = json!({"mappings": {"properties": {"filling": {"type": "object", "enabled": false}}}});
    bed.ok("PUT", "/wide", &unsearched);
    let mut state = firn_testkit::seed("hangs-fetching") | 1;
    let mut filling = || {
        (0..24).fold(String::new(), |text, _| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            text + &format!("{state:016x}")
        })
    };
    let lines: String = (0..WIDE)
        .map(|number| {
            let text = filling();
            format!("{{\"index\":{{}}}}\n{{\"number\":{number},\"filling\":{{\"text\":\"{text}\"}}}}\n")
        })
        .collect();
    let answer = bed.client().bulk("/wide/_bulk?refresh=true", lines.as_bytes());
    assert_eq!(answer.expect("an answer").json()["errors"], false);
    for number in 0..NEAR {
        let body = json!({"number": number});
        let answer = bed.ask("PUT", &format!("/near/_doc/{number}?refresh=true"), &body);
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    let snapshot = "/_snapshot/r/wide?wait_for_completion=true";
    bed.ok("PUT", snapshot, &json!({"indices": "wide"}));
    let mount = json!({"index": "wide", "renamed_index": "far"});
    let path = "/_snapshot/r/wide/_mount?storage=shared_cache&wait_for_completion=true";
    bed.ok("POST", path, &mount);
    // The data for finding the hits is cached, the hits are not.
    let sum = json!({"size": 0, "aggs": {"sum": {"sum": {"field": "number"}}}});
    bed.ok("POST", "/far/_search", &sum);
    bed.proxy.set(Faults::latency(Duration::from_secs(60)));
    let ask = |path: &str, body: &Value| {
        let since = std::time::Instant::now();
        let found = bed.ok("POST", path, body);
        let took = since.elapsed();
        assert!(took < Duration::from_secs(8), "{took:?}");
        assert_eq!(found["timed_out"], true, "{found}");
        assert_eq!(found["_shards"]["failed"], 0, "{found}");
        found
    };
    let hits = |found: &Value| found["hits"]["hits"].as_array().cloned().expect("hits");
    let alone = ask("/far/_search?timeout=1s", &json!({"size": 3}));
    assert_eq!(alone["hits"]["total"]["value"], WIDE, "{alone}");
    assert_eq!(hits(&alone), Vec::<Value>::new());
    let both = ask("/far,near/_search?timeout=1s", &json!({"size": 5_000}));
    let of_near = hits(&both).iter().filter(|hit| hit["_index"] == "near").count();
    assert_eq!(of_near, NEAR, "hits on local disk were lost");
    assert!(hits(&both).len() < WIDE as usize);
    let top = json!({"size": 0, "aggs": {"top": {"top_hits": {"size": 3}}}});
    ask("/far/_search?timeout=1s", &top);
    bed.calm();
    let found = bed.ok("POST", "/far,near/_search?timeout=60s", &json!({"size": 5_000}));
    assert_eq!(found["timed_out"], false);
    assert_eq!(hits(&found).len(), WIDE as usize + NEAR);
}

#[test]
fn a_store_that_hangs_holds_nothing_but_what_reads_it() {
    let bed = Bed::start_with("hangs", "60s");
    bed.ok(
        "PUT",
        "/_snapshot/r/s?wait_for_completion=true",
        &json!({"indices": "events"}),
    );
    let mount = json!({"index": "events", "renamed_index": "far"});
    bed.ok(
        "POST",
        "/_snapshot/r/s/_mount?storage=shared_cache&wait_for_completion=true",
        &mount,
    );
    let everything = json!({"size": 0});
    bed.ok("POST", "/far/_search", &everything);
    bed.ok("POST", "/far/_searchable_snapshots/cache/clear", &Value::Null);
    bed.proxy.set(Faults::latency(Duration::from_secs(60)));
    let bed = &bed;
    std::thread::scope(|scope| {
        let mut late = Vec::new();
        let mut left = Vec::new();
        for number in 0..HUNG_SEARCHES {
            let body = json!({"size": 3, "query": {"match": {"text": number.to_string()}}});
            let (early, never) = (body.clone(), body);
            late.push(scope.spawn(move || {
                let since = std::time::Instant::now();
                let answer = bed.ask("POST", "/far/_search?timeout=1s", &early);
                (since.elapsed(), answer)
            }));
            // These have no timeout, and their clients disconnect.
            left.push(scope.spawn(move || {
                let answered = bed.client().json_within(Duration::from_secs(4), "/far/_search", &never);
                answered.is_none()
            }));
        }
        std::thread::sleep(Duration::from_millis(300));
        for number in 0..10 {
            let since = std::time::Instant::now();
            bed.ok(
                "POST",
                "/events/_search",
                &json!({"size": 1, "query": {"match": {"text": "event"}}}),
            );
            let written = bed.ask("PUT", &format!("/hot/_doc/{number}"), &json!({"number": number}));
            assert_eq!(written.status, 201, "{}", written.text());
            let took = since.elapsed();
            assert!(took < Duration::from_secs(2), "hot events waited {took:?}");
        }
        for search in late {
            let (took, answer) = search.join().expect("a thread");
            let found = answer.json();
            assert!(took < Duration::from_secs(8), "{took:?}: {found}");
            let is_said = found["timed_out"] == true || answer.status >= 500;
            assert!(is_said, "{found}");
        }
        for search in left {
            assert!(
                search.join().expect("a thread"),
                "a search of a store that hangs came back"
            );
        }
    });
    // The disconnected clients hold no resources.
    let since = std::time::Instant::now();
    loop {
        let tasks = bed.ok("GET", "/_tasks?actions=*search*", &Value::Null);
        let nodes = tasks["nodes"].as_object().expect("nodes");
        if nodes
            .values()
            .all(|node| node["tasks"].as_object().is_none_or(|tasks| tasks.is_empty()))
        {
            break;
        }
        assert!(since.elapsed() < Duration::from_secs(10), "{tasks}");
        std::thread::sleep(Duration::from_millis(100));
    }
    bed.calm();
    bed.holds_everything("far");
}
