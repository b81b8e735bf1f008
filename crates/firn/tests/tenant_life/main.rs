//! Lifecycle of events by time and tenant in the real process: retention, placement and deletion of tenants.

mod anew;
mod deletion;
mod placement;
mod retention;
mod snapshots;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_testkit::{Answer, Client, Node, NodeOptions};
use serde_json::{Value, json};

/// Starts a node that applies retention every second.
fn start(folder: &Path) -> Node {
    start_with(folder, None)
}

/// Starts a node that may also have repositories in a folder.
fn start_with(folder: &Path, repositories: Option<&Path>) -> Node {
    let repositories = repositories.map(|path| ("path.repo", path.display().to_string()));
    start_set(folder, repositories)
}

/// Starts a node with authentication; returns it with a client of its operator.
fn start_secure(folder: &Path) -> (Node, Client) {
    let password = folder.join("password");
    std::fs::write(&password, "correct horse\n").unwrap();
    let settings = [
        ("xpack.security.enabled", "true".to_owned()),
        ("operator.password_file", password.display().to_string()),
    ];
    let node = start_set(folder, settings);
    let operator = format!("Basic {}", STANDARD.encode("elastic:correct horse"));
    let operator = node.client().authorized(operator);
    (node, operator)
}

fn start_set(folder: &Path, settings: impl IntoIterator<Item = (&'static str, String)>) -> Node {
    let usual = [
        ("data_streams.lifecycle.poll_interval", "1s".to_owned()),
        // The disk of the machine that runs the tests may be full.
        (
            "cluster.routing.allocation.disk.watermark.flood_stage",
            "100mb".to_owned(),
        ),
    ];
    let options = NodeOptions {
        settings: settings
            .into_iter()
            .chain(usual)
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    };
    Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder, &options).unwrap()
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// Sends a request that must succeed; `null` is no body.
fn ask(client: &Client, method: &str, path: &str, body: Value) -> Value {
    let answer = try_to(client, method, path, body);
    assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text());
    answer.json()
}

/// Sends a request that may be refused.
fn try_to(client: &Client, method: &str, path: &str, body: Value) -> Answer {
    match body {
        Value::Null => client.send(method, path, None, &[]).unwrap(),
        body => client.json(method, path, &body).unwrap(),
    }
}

/// Creates a template for data streams `events-*` with storage by tenant and an index per period.
fn put_template(client: &Client, period: &str, shards: u32) {
    let settings = json!({"index": {"tenant": {"field": "tenant"}, "period": period, "number_of_shards": shards}});
    let body = json!({"index_patterns": ["events-*"], "data_stream": {}, "template": {"settings": settings}});
    ask(client, "PUT", "/_index_template/events", body);
}

/// Writes one event for each tenant and age; returns the answer.
fn write<'a>(client: &Client, events: impl IntoIterator<Item = (&'a str, u64)>) -> Value {
    let mut body = String::new();
    let mut random = fastrand::Rng::with_seed(1);
    for (number, (tenant, days_old)) in events.into_iter().enumerate() {
        let at = now_ms() - days_old * 86_400_000;
        // Incompressible text, so that bytes are in proportion to events.
        let text: String = std::iter::repeat_with(|| random.alphanumeric()).take(300).collect();
        let event = json!({"@timestamp": at, "tenant": tenant, "n": number, "text": text});
        body.push_str(&format!("{{\"create\":{{}}}}\n{event}\n"));
    }
    let answer = client.bulk("/events-app/_bulk?refresh=true", body.as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Creates an index with storage by tenant; `owner`: its only tenant.
fn put_shared(client: &Client, index: &str, owner: Option<&str>) {
    let settings = match owner {
        Some(owner) => json!({"index.tenant.field": "tenant", "index.tenant.owner": owner}),
        None => json!({"index.tenant.field": "tenant"}),
    };
    let mappings = json!({"properties": {"tenant": {"type": "keyword"}, "@timestamp": {"type": "date"}}});
    ask(
        client,
        "PUT",
        &format!("/{index}"),
        json!({"settings": settings, "mappings": mappings}),
    );
}

/// Writes events of a tenant with this age.
fn fill(client: &Client, index: &str, tenant: &str, events: u64, days_old: u64) {
    let at = now_ms() - days_old * 86_400_000;
    let event = json!({"@timestamp": at, "tenant": tenant});
    let body = format!("{{\"index\":{{}}}}\n{event}\n").repeat(usize::try_from(events).unwrap());
    let answer = client
        .bulk(&format!("/{index}/_bulk?refresh=true"), body.as_bytes())
        .unwrap();
    assert_eq!(answer.json()["errors"], json!(false), "{}", answer.text());
}

fn count(client: &Client, index: &str, tenant: &str) -> u64 {
    ask(client, "POST", &format!("/{index}/_refresh"), Value::Null);
    let query = json!({"query": {"term": {"tenant": tenant}}});
    ask(client, "POST", &format!("/{index}/_count"), query)["count"]
        .as_u64()
        .unwrap()
}

/// Waits until a condition holds.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(90), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(100));
    }
}
