//! Data folder whose copies get damaged: a small instance of everything that firn writes.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_testkit::{Client, Node, NodeOptions, copy_folder};
use serde_json::{Value, json};

pub const PASSWORD: &str = "correct horse";
/// Events of the shared stream of two tenants, before the kill and after it.
const EVENTS: usize = 600;
const LATER_EVENTS: usize = 60;
/// Events of an index, each with a value of its own.
const MANY_VALUES: usize = 4500;
/// Folder of firn's data in a copy.
pub const DATA: &str = "data";
pub const WARM: &str = "warm";

/// Credentials of the clients.
#[derive(Debug, Clone)]
pub struct Keys {
    pub operator: String,
    pub alpha: String,
    pub bravo: String,
}

impl Keys {
    fn write(&self, folder: &Path) {
        let text = [&self.operator, &self.alpha, &self.bravo]
            .map(String::as_str)
            .join("\n");
        std::fs::write(folder.join("keys"), text).unwrap();
    }

    pub fn read(folder: &Path) -> Self {
        let text = std::fs::read_to_string(folder.join("keys")).unwrap();
        let keys: Vec<&str> = text.lines().collect();
        Self {
            operator: keys[0].to_owned(),
            alpha: keys[1].to_owned(),
            bravo: keys[2].to_owned(),
        }
    }
}

/// Returns `Authorization` of a user.
pub fn basic(user: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{PASSWORD}")))
}

/// Starts a node on a prepared folder or a copy of one. Authentication is on because there are users, as on a server
/// whose settings do not mention it.
pub fn start(folder: &Path, more: &[(&str, &str)]) -> Result<Node> {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut settings: Vec<(String, String)> = vec![
        ("path.data.warm".into(), path(WARM)),
        ("path.repo".into(), path("repositories")),
        // Records of requests would differ from run to run.
        ("xpack.security.audit.enabled".into(), "false".into()),
        ("traffic.enabled".into(), "false".into()),
        ("xpack.searchable.snapshot.shared_cache.size".into(), "16mb".into()),
        // The disk of the machine that runs the tests may be full.
        (
            "cluster.routing.allocation.disk.watermark.flood_stage".into(),
            "100mb".into(),
        ),
    ];
    settings.extend(
        more.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder, &NodeOptions { settings })
}

/// Creates the prepared folders `stopped` and `killed` below `root`: the same data after a clean stop, and with more of
/// it after kill -9.
pub fn prepare(root: &Path) {
    let folder = root.join("made");
    std::fs::create_dir_all(folder.join("repositories")).unwrap();
    std::fs::create_dir_all(folder.join(DATA)).unwrap();
    let password = root.join("password");
    std::fs::write(&password, format!("{PASSWORD}\n")).unwrap();
    put_secret(&folder.join(DATA));
    let secure = [
        ("xpack.security.enabled", "true"),
        ("operator.password_file", password.to_str().unwrap()),
    ];
    let node = start(&folder, &secure).unwrap();
    let operator = node.client().authorized(basic("elastic"));
    let keys = fill(&node, &operator);
    keys.write(&folder);
    node.stop().unwrap();
    // Started again, so that mounts open from disk and the caches are filled.
    let node = start(&folder, &[]).unwrap();
    let operator = node.client().authorized(&keys.operator);
    warm_up(&operator);
    node.stop().unwrap();
    std::fs::remove_file(folder.join("firn.log")).unwrap();
    copy_folder(&folder, &root.join("stopped"));

    let node = start(&folder, &[]).unwrap();
    let operator = node.client().authorized(basic("elastic"));
    let (alpha, bravo) = (
        node.client().authorized(&keys.alpha),
        node.client().authorized(&keys.bravo),
    );
    warm_up(&operator);
    write_later(&operator, &alpha, &bravo);
    node.kill9().unwrap();
    std::fs::remove_file(folder.join("firn.log")).unwrap();
    copy_folder(&folder, &root.join("killed"));
}

fn put_secret(data: &Path) {
    let data = data.to_str().unwrap();
    let run = |arguments: &[&str], input: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(["keystore", "--data", data])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{arguments:?}");
    };
    run(&["create"], "");
    run(&["add", "--stdin", "s3.client.default.secret_key"], "a secret\n");
}

fn fill(node: &Node, operator: &Client) -> Keys {
    let key = |body: Value| {
        let key = operator.ok("POST", "/_security/api_key", &body);
        format!("ApiKey {}", key["encoded"].as_str().unwrap())
    };
    let of_tenant = |tenant: &str| {
        operator.ok(
            "PUT",
            &format!("/_firn/tenants/{tenant}"),
            &json!({"display_name": tenant}),
        );
        key(json!({"name": tenant, "metadata": {"tenant": tenant}}))
    };
    let keys = Keys {
        operator: key(json!({"name": "operator"})),
        alpha: of_tenant("alpha"),
        bravo: of_tenant("bravo"),
    };
    let role = json!({"indices": [{"names": ["plain*"], "privileges": ["read"]}]});
    operator.ok("PUT", "/_security/role/plain_reader", &role);
    let user = json!({"password": PASSWORD, "roles": ["tenant_admin"], "metadata": {"tenant": "alpha"}});
    operator.ok("PUT", "/_security/user/ann", &user);
    let policy = json!({"policy": {"phases": {"delete": {"min_age": "3000d", "actions": {"delete": {}}}}}});
    operator.ok("PUT", "/_ilm/policy/long", &policy);
    let component = json!({"template": {"settings": {"index.number_of_replicas": 0}}});
    operator.ok("PUT", "/_component_template/base", &component);
    let template = json!({
        "index_patterns": ["events"],
        "data_stream": {},
        "composed_of": ["base"],
        "template": {
            "settings": {"index.tenant.field": "tenant", "index.lifecycle.name": "long"},
            "mappings": {"properties": {"class": {"type": "keyword"}, "n": {"type": "long"}}},
        },
    });
    operator.ok("PUT", "/_index_template/events", &template);
    operator.ok("PUT", "/_data_stream/events", &Value::Null);
    let (alpha, bravo) = (
        node.client().authorized(&keys.alpha),
        node.client().authorized(&keys.bravo),
    );
    write_events(&alpha, 0..EVENTS / 2);
    operator.ok("POST", "/events/_flush", &Value::Null);
    write_events(&bravo, 0..EVENTS / 4);
    operator.ok("POST", "/events/_flush", &Value::Null);
    write_events(&alpha, EVENTS / 2..EVENTS);
    for number in 0..3 {
        let saved = json!({"title": format!("of alpha {number}"), "state": {"search": format!("q=n:{number}")}});
        alpha.ok("PUT", &format!("/_firn/saved/search/s{number}"), &saved);
    }
    let saved = json!({"title": "of the operators", "state": {"panels": [1, 2, 3]}});
    operator.ok("PUT", "/_firn/saved/dashboard/all", &saved);

    let mappings = mappings();
    let body = json!({"settings": {"number_of_shards": 2}, "mappings": mappings, "aliases": {"both": {}}});
    operator.ok("PUT", "/plain", &body);
    write_plain(operator, "plain", 0..200);
    operator.ok("POST", "/plain/_flush", &Value::Null);
    write_plain(operator, "plain", 200..320);
    operator.ok("POST", "/plain/_forcemerge?max_num_segments=1", &Value::Null);
    write_plain(operator, "plain", 320..400);
    delete_plain(operator, (0..400).step_by(7));
    operator.ok("POST", "/plain/_flush", &Value::Null);
    let body = json!({
        "settings": {"index.routing.allocation.include._tier_preference": "data_warm,data_hot"},
        "mappings": mappings,
    });
    operator.ok("PUT", "/plain-warm", &body);
    write_plain(operator, "plain-warm", 0..100);
    operator.ok("POST", "/plain-warm/_flush", &Value::Null);
    let actions = json!({"actions": [{"add": {"index": "plain-warm", "alias": "both"}}]});
    operator.ok("POST", "/_aliases", &actions);

    // Enough values for a file of prepared hashes.
    let properties = json!({"key": {"type": "keyword"}, "n": {"type": "long"}});
    operator.ok("PUT", "/many", &json!({"mappings": {"properties": properties}}));
    let lines: String = (0..MANY_VALUES)
        .map(|number| format!("{{\"index\":{{}}}}\n{{\"key\":\"k{number}\",\"n\":{number}}}\n"))
        .collect();
    bulk(operator, "/many/_bulk?refresh=true", &lines);
    operator.ok("POST", "/many/_forcemerge?max_num_segments=1", &Value::Null);

    // Source of later mounts, with deletes, in two snapshots.
    let body = json!({"mappings": mappings});
    operator.ok("PUT", "/source", &body);
    write_plain(operator, "source", 0..1500);
    operator.ok("POST", "/source/_flush", &Value::Null);
    let ids: Vec<String> = (0..1500).step_by(11).map(|number| number.to_string()).collect();
    let query = json!({"query": {"ids": {"values": ids}}});
    operator.ok("POST", "/source/_delete_by_query?refresh=true", &query);
    operator.ok("POST", "/source/_flush", &Value::Null);
    let repository = json!({"type": "fs", "settings": {"location": "objects"}});
    operator.ok("PUT", "/_snapshot/objects", &repository);
    for (snapshot, indices) in [("first", "source"), ("second", "source,plain,events")] {
        let path = format!("/_snapshot/objects/{snapshot}?wait_for_completion=true");
        let made = operator.ok("PUT", &path, &json!({"indices": indices}));
        assert_eq!(made["snapshot"]["state"], "SUCCESS", "{made}");
    }
    for (storage, name) in [("full_copy", "cold"), ("shared_cache", "frozen")] {
        let path = format!("/_snapshot/objects/second/_mount?wait_for_completion=true&storage={storage}");
        operator.ok("POST", &path, &json!({"index": "source", "renamed_index": name}));
    }
    operator.ok("DELETE", "/source", &Value::Null);
    keys
}

fn mappings() -> Value {
    json!({"properties": {
        "word": {"type": "keyword"}, "text": {"type": "text"}, "n": {"type": "long"}, "share": {"type": "double"},
        "at": {"type": "date"}, "ip": {"type": "ip"}, "ok": {"type": "boolean"},
    }})
}

/// Reads all mounts and waits for the full copy.
fn warm_up(operator: &Client) {
    let body = json!({"size": 2000, "query": {"match_all": {}}, "aggs": {"w": {"terms": {"field": "word"}}}});
    for index in ["frozen", "cold"] {
        operator.ok("POST", &format!("/{index}/_search"), &body);
    }
    let started = std::time::Instant::now();
    loop {
        let files = operator.ok("GET", "/_cat/recovery?format=json&h=index,stage", &Value::Null);
        let is_done = |row: &Value| row["index"] != "cold" || row["stage"] == "done";
        if files.as_array().unwrap().iter().all(is_done) {
            return;
        }
        assert!(started.elapsed().as_secs() < 60, "{files}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Writes the content of the log and the catalog at the time of the kill.
fn write_later(operator: &Client, alpha: &Client, bravo: &Client) {
    write_events(bravo, EVENTS..EVENTS + LATER_EVENTS);
    write_plain(operator, "plain", 400..420);
    delete_plain(operator, (1..100).step_by(9));
    operator.ok("PUT", "/plain-late", &json!({"mappings": mappings()}));
    write_plain(operator, "plain-late", 0..30);
    for first in (EVENTS + LATER_EVENTS..).step_by(5).take(8) {
        // Several records and marks in the log.
        write_events(alpha, first..first + 5);
    }
    let saved = json!({"title": "changed", "state": {"search": "q=late"}});
    alpha.ok("PUT", "/_firn/saved/search/s1", &saved);
}

fn write_events(client: &Client, numbers: std::ops::Range<usize>) {
    let mut body = String::new();
    for number in numbers {
        let event = json!({
            "@timestamp": 1_767_225_600_000_i64 + number as i64 * 61_000,
            "class": format!("c{}", number % 13),
            "n": number,
            "message": format!("event {number} of class {} says {}", number % 13, word(number * 3)),
            "client": {"ip": format!("10.0.{}.{}", number % 4, number % 251)},
        });
        body += &format!("{{\"create\":{{\"_id\":\"e{number}\"}}}}\n{event}\n");
    }
    bulk(client, "/events/_bulk?refresh=true", &body);
}

fn write_plain(client: &Client, index: &str, numbers: std::ops::Range<usize>) {
    let mut body = String::new();
    for number in numbers {
        let event = json!({
            "n": number,
            "word": format!("{}-{}", word(number), number % 50),
            "text": format!("{} {} {} number{number}", word(number), word(number / 3), word(number / 7)),
            "share": number as f64 / 8.0,
            "at": 1_767_225_600_000_i64 + number as i64 * 3_600_000,
            "ip": format!("192.168.{}.{}", number % 8, number % 255),
            "ok": number % 3 == 0,
        });
        body += &format!("{{\"index\":{{\"_id\":\"{number}\"}}}}\n{event}\n");
    }
    bulk(client, &format!("/{index}/_bulk?refresh=true"), &body);
}

fn delete_plain(client: &Client, numbers: impl Iterator<Item = usize>) {
    let lines: String = numbers
        .map(|number| format!("{{\"delete\":{{\"_id\":\"{number}\"}}}}\n"))
        .collect();
    let answer = client.bulk("/plain/_bulk?refresh=true", lines.as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn bulk(client: &Client, path: &str, body: &str) {
    let answer = client.bulk(path, body.as_bytes()).unwrap();
    assert_eq!(answer.json()["errors"], false, "{}", answer.text());
}

fn word(number: usize) -> &'static str {
    const WORDS: [&str; 11] = [
        "alder", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "willow",
    ];
    WORDS[number % WORDS.len()]
}
