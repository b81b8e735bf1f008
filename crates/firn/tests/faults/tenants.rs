//! Deletion of a tenant while the store with snapshots of its events fails, and the process is killed.

use std::path::Path;
use std::time::{Duration, Instant};

use firn_testkit::{Fault, Faults, Node, Rule};
use serde_json::{Value, json};

use crate::{Bed, DOCUMENTS, SHARE, is_typed};

/// Tenants that are deleted, next to one that stays.
const DELETED: [&str; 3] = ["acme-quux", "globex-quux", "initech-quux"];
const OTHER: &str = "zeta";
/// Events of each tenant in the first snapshot; the second has as many more.
const EVENTS: u64 = 40;

fn write(bed: &Bed, from: u64) {
    let mut lines = String::new();
    for number in from..from + EVENTS {
        for tenant in DELETED.into_iter().chain([OTHER]) {
            let event = json!({"tenant": tenant, "number": number, "text": format!("{tenant} said {number}")});
            lines.push_str(&format!("{{\"create\":{{\"routing\":\"{tenant}\"}}}}\n{event}\n"));
        }
    }
    let answer = bed.client().bulk("/shared/_bulk?refresh=true", lines.as_bytes());
    assert_eq!(answer.expect("an answer").json()["errors"], false);
    bed.ok("POST", "/shared/_flush", &Value::Null);
}

/// Creates two snapshots of an index of several tenants, and mounts of the first.
fn prepare(bed: &Bed) {
    let properties = json!({"tenant": {"type": "keyword"}, "text": {"type": "text"}});
    let index = json!({
        "settings": {"index.tenant.field": "tenant", "number_of_shards": 1}, "mappings": {"properties": properties},
    });
    bed.ok("PUT", "/shared", &index);
    for (from, name) in [(0, "first"), (EVENTS, "second")] {
        write(bed, from);
        let body = json!({"indices": "shared", "include_global_state": false});
        let made = bed.ok("PUT", &format!("/_snapshot/r/{name}?wait_for_completion=true"), &body);
        assert_eq!(made["snapshot"]["state"], "SUCCESS", "{made}");
    }
    for (name, storage) in [("frozen", "shared_cache"), ("cold", "full_copy")] {
        mount(bed, "r", name, storage);
    }
}

fn mount(bed: &Bed, repository: &str, name: &str, storage: &str) {
    let path = format!("/_snapshot/{repository}/first/_mount?wait_for_completion=true&storage={storage}");
    bed.ok("POST", &path, &json!({"index": "shared", "renamed_index": name}));
}

/// Counts the events of each deleted tenant and of the other one; `None`: the answer is incomplete.
fn counts(bed: &Bed, index: &str) -> Option<(Vec<u64>, u64)> {
    let body = json!({"size": 0, "track_total_hits": true, "aggs": {"by": {"terms": {"field": "tenant"}}}});
    let answer = bed.ask("POST", &format!("/{index}/_search"), &body);
    if answer.status != 200 {
        is_typed(&answer, index);
        return None;
    }
    let found = answer.json();
    if found["_shards"]["failed"] != 0 || found["timed_out"] == true {
        return None;
    }
    let buckets = found["aggregations"]["by"]["buckets"].as_array().expect("buckets");
    let of = |tenant: &str| {
        let own = buckets.iter().find(|bucket| bucket["key"] == tenant);
        own.map_or(0, |bucket| bucket["doc_count"].as_u64().expect("a count"))
    };
    Some((DELETED.map(of).to_vec(), of(OTHER)))
}

/// Returns the files below a folder that contain some bytes.
fn files_with(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(content) = std::fs::read(&path)
                && content.windows(bytes.len()).any(|window| window == bytes)
            {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

fn deletion(bed: &Bed, tenant: &str) -> Value {
    bed.ok("GET", &format!("/_firn/tenants/{tenant}/deletion"), &Value::Null)
}

#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn deleted_tenants_leave_a_store_that_fails_all_the_time_under_a_process_that_is_killed() {
    let mut bed = Bed::start("faults of deletions of tenants");
    let mut random = fastrand::Rng::with_seed(firn_testkit::seed("kills while tenants are deleted"));
    prepare(&bed);
    let bucket = bed.gateway.object_file("bucket", "kept");
    for tenant in DELETED {
        assert!(!files_with(&bucket, tenant.as_bytes()).is_empty(), "manifests name it");
    }
    bed.faults(Fault::ALL.map(|fault| Rule::share(fault, SHARE / 4.0)).to_vec());
    for tenant in DELETED {
        bed.ok("DELETE", &format!("/_firn/tenants/{tenant}"), &Value::Null);
    }
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(random.u64(200..2500)));
        bed = bed.killed();
        for name in ["frozen", "cold"] {
            // The answer is right; it may be incomplete.
            if let Some((deleted, other)) = counts(&bed, name) {
                assert_eq!(other, EVENTS, "{name}");
                assert!(deleted.iter().all(|count| [0, EVENTS].contains(count)), "{deleted:?}");
            }
        }
    }
    eventually("the end of deletions under faults", || {
        DELETED.iter().all(|tenant| deletion(&bed, tenant)["status"] == "done")
    });
    bed.calm();
    for tenant in DELETED {
        let done = deletion(&bed, tenant);
        assert_eq!(
            (&done["error"], &done["snapshots"]),
            (&Value::Null, &json!([])),
            "{done}"
        );
    }
    for name in ["frozen", "cold"] {
        eventually("a whole answer", || counts(&bed, name).is_some());
        assert_eq!(counts(&bed, name), Some((vec![0; 3], EVENTS)), "{name}");
    }
    assert_eq!(counts(&bed, "shared"), Some((vec![0; 3], 2 * EVENTS)));
    for tenant in DELETED {
        assert_eq!(files_with(&bucket, tenant.as_bytes()), Vec::<String>::new(), "{tenant}");
    }
    // Bytes are compressed, so a text search proves nothing: unreferenced objects must not exist either.
    let cleaned = bed.ok("POST", "/_snapshot/r/_cleanup", &Value::Null);
    assert_eq!(cleaned["results"]["deleted_blobs"], 0, "{cleaned}");
    for (name, each) in [("first", EVENTS), ("second", 2 * EVENTS)] {
        let body =
            json!({"indices": "shared", "rename_pattern": "(.+)", "rename_replacement": format!("restored-{name}")});
        let restored = bed.ok(
            "POST",
            &format!("/_snapshot/r/{name}/_restore?wait_for_completion=true"),
            &body,
        );
        assert_eq!(restored["snapshot"]["shards"]["failed"], 0, "{restored}");
        assert_eq!(counts(&bed, &format!("restored-{name}")), Some((vec![0; 3], each)));
    }
}

/// A mount of a read-only repository blocks a deletion, and the deletion retries with backoff.
#[test]
fn a_blocked_deletion_retries_with_backoff() {
    let bed = Bed::start("a deletion that is held up");
    prepare(&bed);
    for name in ["frozen", "cold"] {
        bed.ok("DELETE", &format!("/{name}"), &Value::Null);
    }
    bed.ok("DELETE", "/_snapshot/r", &Value::Null);
    let settings = json!({"bucket": "bucket", "base_path": "kept", "readonly": true});
    bed.ok("PUT", "/_snapshot/mirror", &json!({"type": "s3", "settings": settings}));
    mount(&bed, "mirror", "frozen", "shared_cache");
    let tenant = DELETED[0];
    bed.ok("DELETE", &format!("/_firn/tenants/{tenant}"), &Value::Null);
    let is_held_up = || {
        let error = &deletion(&bed, tenant)["error"];
        error.as_str().is_some_and(|error| error.contains("[frozen]"))
    };
    eventually("a reason", is_held_up);
    // It was tried now, and is after 2, 6, 14 seconds; each time the log and a manifest are read.
    bed.proxy.reset();
    std::thread::sleep(Duration::from_secs(12));
    let requests = bed.proxy.stats().requests;
    assert!(is_held_up() && (1..=12).contains(&requests), "{requests} requests");
    bed.ok("DELETE", "/frozen", &Value::Null);
    eventually("the end", || deletion(&bed, tenant)["status"] == "done");
    let done = deletion(&bed, tenant);
    assert_eq!(done["snapshots"].as_array().map(Vec::len), Some(2), "{done}");
}

/// Hanging document reads: more than there are threads that read documents.
const HUNG_READS: u64 = 6;

#[test]
fn documents_of_a_store_that_hangs_delay_no_others() {
    use std::io::{Read as _, Write as _};

    let bed = Bed::start_with("documents of a store that hangs", "60s");
    bed.ok(
        "PUT",
        "/_snapshot/r/s?wait_for_completion=true",
        &json!({"indices": "events"}),
    );
    let mount = json!({"index": "events", "renamed_index": "far"});
    let path = "/_snapshot/r/s/_mount?storage=shared_cache&wait_for_completion=true";
    bed.ok("POST", path, &mount);
    let text = |number: u64| json!({"number": number, "text": format!("event {number}")});
    assert_eq!(bed.ok("GET", "/far/_doc/7", &Value::Null)["_source"], text(7));
    bed.ok("POST", "/far/_searchable_snapshots/cache/clear", &Value::Null);
    bed.proxy.set(Faults::latency(Duration::from_secs(60)));
    let bed = &bed;
    let active = || {
        let stats = bed.ok("GET", "/_nodes/stats/thread_pool", &Value::Null);
        let node = stats["nodes"]
            .as_object()
            .and_then(|nodes| nodes.values().next().cloned());
        node.expect("a node")["thread_pool"]["search"]["active"].as_u64()
    };
    std::thread::scope(|scope| {
        let mut left = Vec::new();
        // Of a segment that was not read before.
        for number in DOCUMENTS - HUNG_READS..DOCUMENTS {
            left.push(scope.spawn(move || {
                let mut connection =
                    std::net::TcpStream::connect(("127.0.0.1", bed.node.port())).expect("a connection");
                let patience = Some(Duration::from_secs(4));
                connection.set_read_timeout(patience).expect("a timeout");
                let path = ["_doc", "_source"][number as usize % 2];
                let request = format!("GET /far/{path}/{number} HTTP/1.1\r\nhost: localhost\r\n\r\n");
                connection.write_all(request.as_bytes()).expect("it is sent");
                let mut answer = [0; 1000];
                match connection.read(&mut answer) {
                    Ok(len) => Some(String::from_utf8_lossy(&answer[..len]).into_owned()),
                    Err(_) => None,
                }
            }));
        }
        left.push(scope.spawn(move || {
            let ids = json!({"ids": ["1", "397"]});
            let status = bed.client().json_within(Duration::from_secs(4), "/far/_mget", &ids);
            status.map(|status| status.to_string())
        }));
        std::thread::sleep(Duration::from_millis(500));
        for number in 0..10 {
            let since = Instant::now();
            assert_eq!(
                bed.ok("GET", &format!("/events/_doc/{number}"), &Value::Null)["_source"],
                text(number)
            );
            let found = bed.ok("POST", "/events/_mget", &json!({"ids": [number.to_string()]}));
            assert_eq!(found["docs"][0]["found"], true);
            let took = since.elapsed();
            assert!(took < Duration::from_secs(2), "documents that are here waited {took:?}");
        }
        assert!(active() > Some(0), "those that hang are under way");
        for read in left {
            assert_eq!(
                read.join().expect("a thread"),
                None,
                "a document of a store that hangs came"
            );
        }
    });
    // The disconnected clients hold no resources.
    let since = Instant::now();
    while active() > Some(0) {
        assert!(since.elapsed() < Duration::from_secs(10), "abandoned reads continue");
        std::thread::sleep(Duration::from_millis(100));
    }
    bed.calm();
    let ids: Vec<String> = (0..5).map(|number| number.to_string()).collect();
    let docs = json!({"docs": ids.iter().flat_map(|id| ["far", "events"].map(|index| json!({"_index": index, "_id": id})))
        .collect::<Vec<_>>()});
    let found = bed.ok("POST", "/_mget", &docs);
    let found = found["docs"].as_array().expect("documents");
    for (place, document) in found.iter().enumerate() {
        let index = ["far", "events"][place % 2];
        assert_eq!(
            (&document["_index"], &document["_source"]),
            (&json!(index), &text(place as u64 / 2))
        );
    }
    assert_eq!(found.len(), 10);
}

impl Bed {
    /// Restarts the process after a kill.
    pub(crate) fn killed(self) -> Self {
        let node = self.node;
        node.kill9().expect("it is killed");
        let node = Node::start(env!("CARGO_BIN_EXE_firn").as_ref(), self.folder.path(), &self.options).expect("a node");
        Self { node, ..self }
    }
}
