//! `POST /_firn/discover` over HTTP, against the real process: two tenants share a data stream, and the tests count the
//! events independently.

mod counts;
mod disagreeing;
mod failing;
mod field_hints;
mod frozen;
mod frozen_export;
mod limits;
mod marking;
mod odd_values;
mod over_time;
mod running;
mod tailing;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_testkit::{Client, Node, NodeOptions};
use serde_json::{Value, json};

const PASSWORD: &str = "correct horse battery staple";
/// 2026-01-05T00:00:00Z, a Monday.
const BEGIN_MS: i64 = 1_767_571_200_000;
const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Events of each tenant, ten minutes apart.
const EVENTS: usize = 600;

/// Client of one user.
struct Party {
    client: Client,
    authorization: String,
    port: u16,
}

struct World {
    _folder: tempfile::TempDir,
    node: Node,
    operator: Party,
    alpha: Party,
    bravo: Party,
}

impl World {
    /// Starts a node with two tenants and no events.
    fn empty(settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let password = folder.path().join("password");
        std::fs::write(&password, format!("{PASSWORD}\n")).unwrap();
        let mut all: Vec<(String, String)> = vec![
            ("xpack.security.enabled".to_owned(), "true".to_owned()),
            ("operator.password_file".to_owned(), password.display().to_string()),
            // The disk of the machine that runs the tests may be full.
            (
                "cluster.routing.allocation.disk.watermark.flood_stage".to_owned(),
                "100mb".to_owned(),
            ),
            ("path.repo".to_owned(), folder.path().join("repo").display().to_string()),
            (
                "xpack.searchable.snapshot.shared_cache.size".to_owned(),
                "64mb".to_owned(),
            ),
        ];
        all.extend(
            settings
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        let options = NodeOptions { settings: all };
        let node = Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder.path(), &options).unwrap();
        let party = |authorization: String| Party {
            client: node.client().authorized(authorization.clone()),
            authorization,
            port: node.port(),
        };
        let operator = party(format!("Basic {}", STANDARD.encode(format!("elastic:{PASSWORD}"))));
        let template = json!({
            "index_patterns": ["events"],
            "data_stream": {},
            "template": {
                "settings": {"index.tenant.field": "tenant", "number_of_shards": 2},
                "mappings": {"properties": {
                    "event_class": {"type": "keyword"}, "src_ip": {"type": "ip"}, "status": {"type": "long"},
                    "tags": {"type": "keyword"}, "message": {"type": "text"}, "rare": {"type": "keyword"},
                    "took": {"type": "double"}, "ok": {"type": "boolean"},
                }},
            },
        });
        operator.ok("PUT", "/_index_template/events", &template);
        operator.ok("PUT", "/_data_stream/events", &Value::Null);
        let tenant = |name: &str| {
            operator.ok("PUT", &format!("/_firn/tenants/{name}"), &json!({}));
            let body = json!({"name": name, "metadata": {"tenant": name}});
            let key = operator.ok("POST", "/_security/api_key", &body);
            party(format!("ApiKey {}", key["encoded"].as_str().unwrap()))
        };
        let (alpha, bravo) = (tenant("alpha"), tenant("bravo"));
        Self {
            _folder: folder,
            node,
            operator,
            alpha,
            bravo,
        }
    }

    /// Creates an index that tenants share, with these fields in addition to `@timestamp`.
    fn index(&self, name: &str, settings: Value, fields: Value) {
        let mut body = json!({"settings": settings, "mappings": {"properties": fields}});
        body["settings"]["index.tenant.field"] = json!("tenant");
        body["mappings"]["properties"]["@timestamp"] = json!({"type": "date"});
        self.operator.ok("PUT", &format!("/{name}"), &body);
    }

    /// Starts a node with events of both tenants.
    fn new(settings: &[(&str, &str)]) -> Self {
        let world = Self::empty(settings);
        for (party, name) in [(&world.alpha, "alpha"), (&world.bravo, "bravo")] {
            party.write("events", (0..EVENTS).map(|number| event(name, number)));
        }
        world
    }
}

/// Returns the event of a number. Every seventh has two tags, every fiftieth a rare value.
fn event(tenant: &str, number: usize) -> Value {
    let shift = tenant.len() + usize::from(tenant == "bravo");
    let class = ["firewall", "dns", "web", "auth", "audit"][(number * 7 + number / 11 + shift) % 5];
    let status = [200, 200, 200, 301, 404, 500][number * 5 % 6];
    let mut event = json!({
        "@timestamp": BEGIN_MS + number as i64 * 10 * MINUTE_MS,
        "event_class": class,
        "src_ip": format!("10.0.{}.{}", number % 3, number * 13 % 40),
        "status": status,
        "took": (number % 17) as f64 * 1.5,
        "ok": !number.is_multiple_of(4),
        "message": format!("{tenant} says {number}"),
    });
    if number.is_multiple_of(7) {
        event["tags"] = json!(["seventh", format!("tag-{}", number % 3)]);
    }
    if number.is_multiple_of(50) {
        event["rare"] = json!(format!("{tenant}-{number}"));
    }
    event
}

impl Party {
    /// Sends JSON, or no body for `Null`; the answer must be successful.
    #[track_caller]
    fn ok(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask(method, path, body);
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let answer = match body {
            Value::Null => self.client.send(method, path, None, b""),
            body => self.client.json(method, path, body),
        };
        let answer = answer.unwrap();
        (answer.status, answer.json())
    }

    #[track_caller]
    fn write(&self, index: &str, events: impl IntoIterator<Item = Value>) {
        let lines: String = events
            .into_iter()
            .map(|event| format!("{{\"create\":{{}}}}\n{event}\n"))
            .collect();
        let answer = self
            .client
            .bulk(&format!("/{index}/_bulk?refresh=true"), lines.as_bytes())
            .unwrap();
        assert_eq!(answer.json()["errors"], false, "{}", answer.text());
    }

    /// Returns all events of an answer.
    #[track_caller]
    fn discover(&self, body: &Value) -> DiscoverEvents {
        let answer = self.client.json("POST", "/_firn/discover", body).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
        DiscoverEvents::read(&answer.text())
    }

    /// Returns the result of one stage over all events of `index`.
    #[track_caller]
    fn stage(&self, index: &str, stage: &Value) -> Value {
        let events = self.discover(&json!({"index": index, "time": {"from": 0}, "stages": [stage]}));
        events.result(stage["stage"].as_str().unwrap()).clone()
    }

    /// Sends a request and returns the streamed answer.
    fn stream(&self, path: &str, accept: &str, body: &Value) -> Stream {
        let body = body.to_string();
        let mut connection = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let method = if body == "null" { "GET" } else { "POST" };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: firn\r\nauthorization: {}\r\naccept: {accept}\r\n",
            self.authorization
        );
        let rest = match method {
            "GET" => "\r\n".to_owned(),
            _ => format!(
                "content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ),
        };
        connection.write_all(format!("{head}{rest}").as_bytes()).unwrap();
        let mut reader = BufReader::new(connection);
        let mut status = String::new();
        reader.read_line(&mut status).unwrap();
        assert!(status.contains(" 200 "), "{status}");
        Stream { reader }
    }

    /// Returns the actions of running Discover tasks.
    fn tasks(&self) -> Vec<String> {
        let tasks = self.ok("GET", "/_tasks?actions=*discover*&group_by=none", &Value::Null);
        let tasks = tasks["tasks"].as_array().unwrap();
        tasks
            .iter()
            .map(|task| task["action"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// Streamed events. Dropping it closes the connection.
struct Stream {
    reader: BufReader<TcpStream>,
}

impl Stream {
    /// Returns the next event, of JSON lines or of server-sent events; `None`: the end.
    fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line).unwrap();
            let line = line.trim_end();
            if let Some(json) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(json).unwrap());
            }
            if line.starts_with('{') {
                return Some(serde_json::from_str(line).unwrap());
            }
            // The last chunk.
            if line == "0" {
                return None;
            }
        }
    }

    /// Returns the next event with this name.
    #[track_caller]
    fn until(&mut self, event: &str) -> Value {
        loop {
            let next = self.next().unwrap_or_else(|| panic!("[{event}] never came"));
            if next["event"] == event {
                return next;
            }
        }
    }

    fn rest(mut self) -> DiscoverEvents {
        DiscoverEvents(std::iter::from_fn(|| self.next()).collect())
    }
}

/// Events of a Discover response.
struct DiscoverEvents(Vec<Value>);

impl DiscoverEvents {
    fn read(lines: &str) -> Self {
        Self(lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    /// Returns the last event of a stage. `name` may have a field, as in `top_values:tags`.
    #[track_caller]
    fn end_of(&self, name: &str) -> &Value {
        let (stage, field) = name.split_once(':').unwrap_or((name, ""));
        let of_stage = |event: &&Value| event["stage"] == stage && (field.is_empty() || event["field"] == field);
        self.0
            .iter()
            .rfind(of_stage)
            .unwrap_or_else(|| panic!("nothing of [{name}]: {:?}", self.0))
    }

    #[track_caller]
    fn result(&self, name: &str) -> &Value {
        let end = self.end_of(name);
        assert_eq!(end["event"], "done", "{end}");
        assert_eq!(end["partial"], false, "{end}");
        &end["result"]
    }
}

/// Waits until a condition holds, and returns how long that took.
#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
    started.elapsed()
}
