//! Differential test of tenant isolation: the answers to `alpha` do not depend on whether `bravo` exists. It sends the
//! same random requests to a server with the data of both and to one with only `alpha`'s, and compares the answers.
//!
//! `FIRN_ISOLATION_CASES=N` runs more cases, `FIRN_SEED=N` repeats a run. Only what docs/operate/tenants.md lists may
//! differ: scores, sequence numbers, sizes of shards, and durations.

use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use firn_testkit::random::Random;
use firn_testkit::{Answer, Client, Node, NodeOptions, reference};
use serde_json::{Value, json};

use super::MARK;

/// Default number of requests: some seconds.
const CASES: usize = 400;
/// Requests per state of the data.
const QUESTIONS: usize = 40;
/// Number of ids for writes: few enough that many documents are replaced or deleted, and that a page of hits has all.
const IDS: usize = 40;
/// Targets with events of both tenants.
const SHARED: &[&str] = &["events", "stream"];

/// Server and its clients.
struct Server {
    _node: Node,
    _folder: tempfile::TempDir,
    operator: Client,
    alpha: Client,
    bravo: Option<Client>,
}

impl Server {
    fn start(has_bravo: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let password = folder.path().join("password");
        std::fs::write(&password, "correct horse\n").unwrap();
        let settings = [
            ("xpack.security.enabled", "true".to_owned()),
            ("operator.password_file", password.display().to_string()),
            ("search.max_buckets", "1000000".to_owned()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let binary = Path::new(env!("CARGO_BIN_EXE_firn"));
        let node = Node::start(binary, folder.path(), &NodeOptions { settings }).unwrap();
        let basic = format!("Basic {}", STANDARD.encode("elastic:correct horse"));
        let operator = node.client().authorized(basic);
        let template = |name: &str, is_stream: bool| {
            // With one shard both tenants share it, with several perhaps.
            let shards = if is_stream { 3 } else { 1 };
            let mut body = json!({
                "index_patterns": [name],
                "template": {
                    "settings": {
                        "index.tenant.field": "tenant", "number_of_shards": shards, "number_of_replicas": 0,
                        "refresh_interval": "-1", "index.mapping.ignore_malformed": true,
                    },
                    "mappings": reference::mappings(),
                },
            });
            if is_stream {
                body["data_stream"] = json!({});
            }
            body
        };
        for (name, is_stream) in [("events", false), ("stream", true)] {
            operator.ok("PUT", &format!("/_index_template/{name}"), &template(name, is_stream));
        }
        operator.ok("PUT", "/events", &Value::Null);
        operator.ok("PUT", "/_data_stream/stream", &Value::Null);
        let client_of = |tenant: &str| {
            operator.ok("PUT", &format!("/_firn/tenants/{tenant}"), &json!({}));
            let key = json!({"name": tenant, "metadata": {"tenant": tenant}});
            let key = operator.ok("POST", "/_security/api_key", &key);
            node.client()
                .authorized(format!("ApiKey {}", key["encoded"].as_str().unwrap()))
        };
        let own = json!({"settings": {"number_of_shards": 1}, "mappings": reference::mappings()});
        let alpha = client_of("alpha");
        alpha.ok("PUT", "/own", &own);
        let bravo = has_bravo.then(|| client_of("bravo"));
        if let Some(bravo) = &bravo {
            bravo.ok("PUT", "/own", &own);
            bravo.ok("PUT", &format!("/{MARK}-own"), &own);
        }
        Self {
            _node: node,
            _folder: folder,
            operator,
            alpha,
            bravo,
        }
    }
}

/// Builds the lines of a bulk: new documents, replacements and deletes; with a mark those of `bravo`.
fn writes(random: &mut Random, sequence: &mut u64, index: &str, mark: Option<&str>) -> String {
    let mut lines = String::new();
    for _ in 0..1 + random.below(25) {
        let id = format!("d{}", random.below(IDS));
        *sequence += 1;
        let mut source = random.document(*sequence);
        // Distinct times: equal ones would be ordered by sequence numbers, which count the writes of all tenants.
        let (month, day, hour) = (1 + random.below(12), 1 + random.below(28), random.below(24));
        let (minute, second) = (*sequence / 60 % 60, *sequence % 60);
        source["@timestamp"] = json!(format!("2024-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"));
        if let Some(mark) = mark {
            marked(random, &mut source, mark);
        }
        let is_stream = index == "stream";
        match (is_stream, random.chance(20)) {
            (true, _) => writeln!(
                lines,
                "{}\n{source}",
                json!({"create": {"_index": index, "_id": format!("s{sequence}")}})
            ),
            (false, true) => writeln!(lines, "{}", json!({"delete": {"_index": index, "_id": id}})),
            (false, false) => writeln!(lines, "{}\n{source}", json!({"index": {"_index": index, "_id": id}})),
        }
        .unwrap();
    }
    lines
}

/// Changes a document of `bravo`: some values are common with `alpha`, others get the mark, and it has an extra field.
fn marked(random: &mut Random, source: &mut Value, mark: &str) {
    for field in ["kw", "tags", "lower", "wild", "msg"] {
        if random.chance(50) {
            source[field] = json!(format!("{mark} {}", random.below(50)));
        }
    }
    source[format!("{mark}_field")] = json!({"inner": random.below(9), "text": format!("{mark} text")});
}

/// Writes `alpha`'s events to both servers in the same bulks; one also gets `bravo`'s, in between.
fn write(random: &mut Random, sequence: &mut u64, alone: &Server, both: &Server) {
    let bravo = both.bravo.as_ref().unwrap();
    let bulk = |client: &Client, lines: &str, refresh: bool| {
        let answer = client
            .bulk(&format!("/_bulk?refresh={refresh}"), lines.as_bytes())
            .unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer
    };
    for _ in 0..2 + random.below(4) {
        let index = random.pick(&["events", "events", "stream", "own"]);
        if random.chance(70) {
            let lines = writes(random, sequence, index, Some(MARK));
            bulk(bravo, &lines, random.chance(50));
        }
        let (lines, refresh) = (writes(random, sequence, index, None), random.chance(50));
        let [one, two] = [alone, both].map(|server| bulk(&server.alpha, &lines, refresh));
        same("POST /_bulk", &lines, &one, &two);
        for server in [alone, both] {
            server.operator.ok("POST", "/_refresh", &Value::Null);
        }
        match random.below(12) {
            0 => [alone, both].map(|server| server.operator.ok("POST", "/_flush", &Value::Null)),
            1 => [alone, both].map(|server| {
                server
                    .operator
                    .ok("POST", "/events/_forcemerge?max_num_segments=1", &Value::Null)
            }),
            2 => [alone, both].map(|server| server.operator.ok("POST", "/_cache/clear", &Value::Null)),
            _ => continue,
        };
        for server in [alone, both] {
            server.operator.ok("POST", "/_refresh", &Value::Null);
        }
    }
}

/// Returns whether a key may differ between two servers or two runs.
fn is_ignored(key: &str) -> bool {
    matches!(
        key,
        "took"
            | "took_ms"
            | "_score"
            | "max_score"
            | "pit_id"
            | "_scroll_id"
            | "scroll_id"
            | "id"
            | "_seq_no"
            | "seq_no"
            | "_node"
            | "node"
            | "uuid"
            | "index_uuid"
            | "creation_date"
            | "created"
            | "start_time_in_millis"
            | "expiration_time_in_millis"
            | "completion_time_in_millis"
            | "timestamp"
            | "epoch"
            | "cached"
            | "maximum_timestamp"
            | "store_size_bytes"
            | "profile"
    ) || key.ends_with("_bytes")
        || key.ends_with("in_millis")
        || key.ends_with("time_ms")
        || key.ends_with("_ms")
}

/// Removes from an answer what may differ.
fn normal(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(key, _)| !is_ignored(key))
            .map(|(key, value)| (key, normal(value)))
            .collect(),
        Value::Array(elements) => elements.into_iter().map(normal).collect(),
        other => other,
    }
}

/// Parses a stream of stages and returns the last event of each. The last sort value of a hit is its sequence number.
fn last_of_stages(text: &str) -> Value {
    let mut last = std::collections::BTreeMap::new();
    for line in text.lines() {
        let Ok(mut line) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        // Both come after a time, if a stage is not done by then.
        if line["event"] == "partial" || line["event"] == "progress" {
            continue;
        }
        if let Some(hits) = line.pointer_mut("/result/hits").and_then(Value::as_array_mut) {
            hits.iter_mut()
                .for_each(|hit| drop(hit.as_object_mut().and_then(|hit| hit.remove("sort"))));
        }
        last.insert(format!("{} {}", line["event"], line["stage"]), normal(line));
    }
    json!(last)
}

fn shape(path: &str, answer: &Answer) -> (u16, Value) {
    let text = answer.text();
    let mut body = match serde_json::from_str::<Value>(&text) {
        Ok(json) if !path.contains("/_cat/") => normal(json),
        _ if path.contains("_firn/discover") && answer.status == 200 && !path.contains("export") => {
            last_of_stages(&text)
        }
        _ => json!(text),
    };
    if path.contains("/_firn/discover/fields")
        && let Some(members) = body.as_object_mut()
    {
        // The suggested columns come from the newest 100 events; of equally new ones, those that are stored first count.
        members.remove("columns");
    }
    (answer.status, body)
}

/// Sorts hits by id: without a sort their order follows the scores, which may differ.
fn by_id(body: &mut Value) {
    if let Some(hits) = body.pointer_mut("/hits/hits").and_then(Value::as_array_mut) {
        hits.sort_by_key(|hit| (hit["_index"].to_string(), hit["_id"].to_string()));
    }
}

/// Removes the last sort value of the hits of a point in time, which firn adds: the position of the document in the
/// shard of all tenants.
fn without_tie(answer: &Answer, body: &Value) -> Answer {
    let keys = body["sort"].as_array().map_or(0, Vec::len);
    let mut page = answer.json();
    for hit in page
        .pointer_mut("/hits/hits")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(values) = hit.get_mut("sort").and_then(Value::as_array_mut) {
            values.truncate(keys);
        }
    }
    Answer {
        body: page.to_string().into_bytes(),
        ..answer.clone()
    }
}

/// Returns the first place where two values differ.
fn difference(path: &str, one: &Value, two: &Value) -> Option<String> {
    match (one, two) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            let at =
                |map: &serde_json::Map<String, Value>, key: &str| map.get(key).cloned().unwrap_or(json!("(absent)"));
            keys.into_iter()
                .find_map(|key| difference(&format!("{path}.{key}"), &at(left, key), &at(right, key)))
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => left
            .iter()
            .zip(right)
            .enumerate()
            .find_map(|(at, (one, two))| difference(&format!("{path}[{at}]"), one, two)),
        // Sums and means may differ by the order of additions.
        (Value::Number(left), Value::Number(right)) if left != right => {
            let (left, right) = (left.as_f64()?, right.as_f64()?);
            let is_close = (left - right).abs() <= 1e-9 * left.abs().max(right.abs()).max(1e-3);
            (!is_close).then(|| format!("{path}: {left} alone, {right} with the other tenant"))
        }
        _ if one == two => None,
        _ => Some(format!("{path}: {one} alone, {two} with the other tenant")),
    }
}

/// Compares two answers.
#[track_caller]
fn same(path: &str, body: &str, one: &Answer, two: &Answer) {
    let (mut alone, mut both) = (shape(path, one), shape(path, two));
    let is_sorted = serde_json::from_str::<Value>(body).is_ok_and(|body| body.get("sort").is_some());
    for (_, answer) in [&mut alone, &mut both] {
        if is_sorted {
            continue;
        }
        by_id(answer);
        if let Some(responses) = answer.get_mut("responses").and_then(Value::as_array_mut) {
            responses.iter_mut().for_each(by_id);
        }
        answer.get_mut("response").into_iter().for_each(by_id);
    }
    let difference = match alone.0 == both.0 {
        true => difference("", &alone.1, &both.1),
        false => Some(format!("status {} alone, {} with the other tenant", alone.0, both.0)),
    };
    if let Some(difference) = difference {
        panic!(
            "{path}\n{body}\n{difference}\nalone: {}\nboth:  {}",
            one.text(),
            two.text()
        );
    }
    assert!(alone.0 < 500, "{path}\n{body}\n{}", one.text());
    let request = format!("{path} {body}");
    if !request.contains(MARK) {
        let shown = super::shown(two);
        assert!(!shown.contains(MARK), "{path}\n{body}\n{shown}");
    }
}

/// Removes limits of `terms` that may cut differently: some have few candidates per shard, and orders without an error
/// bound.
fn cut_terms(random: &mut Random, body: &mut Value) {
    match body {
        Value::Object(members) => {
            // Estimates depend on the order of the values.
            for estimate in [
                "percentiles",
                "percentile_ranks",
                "boxplot",
                "median_absolute_deviation",
            ] {
                if let Some(metric) = members.remove(estimate) {
                    members.insert("avg".to_owned(), json!({"field": metric["field"]}));
                }
            }
            for (key, value) in members.iter_mut() {
                if matches!(key.as_str(), "terms" | "multi_terms") && value.get("shard_size").is_some() {
                    if random.chance(60) {
                        let size = 1 + random.below(4);
                        value["size"] = json!(size);
                        value["shard_size"] = json!(size + random.below(3));
                    }
                    if random.chance(30) {
                        value["show_term_doc_count_error"] = json!(true);
                    }
                }
                cut_terms(random, value);
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| cut_terms(random, element)),
        _ => {}
    }
}

fn target(random: &mut Random) -> String {
    let targets = [
        "events",
        "events",
        "stream",
        "own",
        "*",
        "_all",
        "ev*,own",
        "events,stream",
        "missing*,events",
    ];
    random.pick(&targets).to_owned()
}

fn field(random: &mut Random) -> &'static str {
    random.pick(&[
        "kw",
        "tags",
        "lower",
        "wild",
        "msg",
        "msg.raw",
        "num",
        "ip",
        "flag",
        "obj.name",
        "@timestamp",
        "tenant",
        "env",
        "nowhere",
    ])
}

fn search(random: &mut Random) -> Value {
    let mut body = random.search();
    if random.chance(25) {
        body = random.about_tenant(body, &["alpha", "bravo"]);
    }
    if body.get("sort").is_none() && body["size"] != 0 {
        // The best hits depend on their scores.
        body["size"] = json!(1000);
    }
    cut_terms(random, &mut body);
    // Below another bucket, empty terms come only from segments with documents in that bucket.
    for aggregation in body
        .get_mut("aggs")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(|all| all.values_mut())
    {
        if let Some(terms) = aggregation
            .get_mut("terms")
            .filter(|terms| terms.get("missing").is_none())
            && random.chance(30)
        {
            terms["min_doc_count"] = json!(0);
        }
    }
    if random.chance(20) {
        body["aggs"]["rare"] = json!({"significant_terms": {"field": field(random), "min_doc_count": 1}});
    }
    if random.chance(10) {
        body["aggs"]["everything"] =
            json!({"global": {}, "aggs": {"t": {"terms": {"field": field(random), "size": 5}}}});
    }
    if random.chance(20) {
        body["fields"] = json!(["*"]);
    }
    if random.chance(10) {
        body["highlight"] = json!({"fields": {"msg": {}, "kw": {}}});
    }
    if random.chance(10) && body.get("sort").is_some() {
        body["collapse"] = json!({"field": random.pick(&["small", "obj.count"])});
    }
    body
}

fn query(random: &mut Random) -> Value {
    json!({"query": random.query(2)})
}

/// Sends requests to both servers, one after the other; an answer may lead to further requests.
fn ask(random: &mut Random, alone: &Server, both: &Server) {
    let json_of = |method: &str, path: &str, body: &Value| {
        let answers = [alone, both].map(|server| server.alpha.ask(method, path, body).unwrap());
        same(path, &body.to_string(), &answers[0], &answers[1]);
        answers
    };
    let index = target(random);
    match random.below(26) {
        0..=8 => {
            let body = search(random);
            json_of("POST", &format!("/{index}/_search"), &body);
            // Now the answer is cached.
            json_of("POST", &format!("/{index}/_search"), &body);
        }
        9 => {
            json_of("POST", &format!("/{index}/_count"), &query(random));
        }
        10 => {
            let body = json!({
                "field": field(random), "string": random.pick(&["", "a", "r", "g", "z", MARK]), "size": 1 + random.below(20),
                "case_insensitive": random.chance(50),
            });
            json_of("POST", &format!("/{index}/_terms_enum"), &body);
        }
        11 => {
            let fields = random.pick(&["*", "k*,t*", "*field*", "obj.*"]);
            let unmapped = random.pick(&["", "&include_unmapped=true", "&include_empty_fields=false"]);
            json_of(
                "GET",
                &format!("/{index}/_field_caps?fields={fields}{unmapped}"),
                &Value::Null,
            );
        }
        12 => {
            let mut lines = String::new();
            for _ in 0..1 + random.below(3) {
                writeln!(lines, "{}\n{}", json!({"index": target(random)}), search(random)).unwrap();
            }
            let answers = [alone, both].map(|server| server.alpha.bulk("/_msearch", lines.as_bytes()).unwrap());
            same("/_msearch", &lines, &answers[0], &answers[1]);
        }
        13 => {
            let body = search(random);
            let path = format!("/{index}/_async_search?keep_on_completion=true&wait_for_completion_timeout=30s");
            let submitted = json_of("POST", &path, &body);
            let ids = submitted.map(|answer| answer.json()["id"].as_str().map(str::to_owned));
            if let [Some(one), Some(two)] = ids {
                let stored = [(alone, one), (both, two)].map(|(server, id)| {
                    let path = format!("/_async_search/{id}");
                    let answer = server.alpha.get(&path).unwrap();
                    server.alpha.ok("DELETE", &path, &Value::Null);
                    answer
                });
                same("/_async_search/ID", &body.to_string(), &stored[0], &stored[1]);
            }
        }
        14 => {
            let mut body = query(random);
            body["size"] = json!(1 + random.below(7));
            body["sort"] = random.sort();
            let mut answers = json_of("POST", &format!("/{index}/_search?scroll=1m"), &body);
            for _ in 0..4 {
                let pages = [alone, both].map(|server| {
                    let at = usize::from(server.bravo.is_some());
                    let next = json!({"scroll_id": answers[at].json()["_scroll_id"], "scroll": "1m"});
                    server.alpha.json("POST", "/_search/scroll", &next).unwrap()
                });
                same("/_search/scroll", &body.to_string(), &pages[0], &pages[1]);
                answers = pages;
            }
            for server in [alone, both] {
                server
                    .alpha
                    .json("DELETE", "/_search/scroll", &json!({"scroll_id": "_all"}))
                    .unwrap();
            }
        }
        15 => {
            let opened = [alone, both].map(|server| {
                server
                    .alpha
                    .ask("POST", &format!("/{index}/_pit?keep_alive=1m"), &Value::Null)
                    .unwrap()
            });
            if opened.iter().any(|answer| answer.status != 200) {
                return same("/_pit", "", &opened[0], &opened[1]);
            }
            let mut body = query(random);
            body["sort"] = random.sort();
            body["size"] = json!(1 + random.below(9));
            let mut after = Value::Null;
            for _ in 0..3 {
                if !after.is_null() {
                    body["search_after"] = after.take();
                }
                let pages = [(alone, &opened[0]), (both, &opened[1])].map(|(server, pit)| {
                    let mut body = body.clone();
                    body["pit"] = json!({"id": pit.json()["id"]});
                    without_tie(&server.alpha.json("POST", "/_search", &body).unwrap(), &body)
                });
                same("/_search by a point in time", &body.to_string(), &pages[0], &pages[1]);
                let hits = pages[0].json()["hits"]["hits"].as_array().cloned().unwrap_or_default();
                let Some(last) = hits.last() else { break };
                after = last["sort"].clone();
            }
            for (server, pit) in [(alone, &opened[0]), (both, &opened[1])] {
                server.alpha.ok("DELETE", "/_pit", &json!({"id": pit.json()["id"]}));
            }
        }
        16 | 17 => {
            let body = json!({
                "index": index, "time": {"from": "2023-01-01", "to": "2025-01-01"},
                "query": {"language": "lucene", "text": random.pick(&["*", "kw:red", "msg:error OR tags:blue", "small:>3"])},
                "stages": [
                    {"stage": "sample", "size": 1000},
                    {"stage": "histogram", "split_by": "kw", "split_values": 3},
                    {"stage": "cardinality"},
                    {"stage": "top_values", "field": field(random), "size": 1 + random.below(8)},
                ],
            });
            json_of("POST", "/_firn/discover", &body);
        }
        18 => {
            json_of("POST", "/_firn/discover/fields", &json!({"index": index}));
        }
        19 => {
            let text = format!("{}: ", random.pick(&["kw", "tags", "obj.name", "msg"]));
            json_of(
                "POST",
                "/_firn/discover/suggest",
                &json!({"index": index, "query": {"text": text}, "size": 20, "timeout": "20s"}),
            );
        }
        20 => {
            let docs: Vec<Value> = (0..6)
                .map(|_| json!({"_index": "events", "_id": format!("d{}", random.below(IDS))}))
                .collect();
            json_of("POST", "/_mget", &json!({"docs": docs}));
            json_of("GET", &format!("/events/_doc/d{}", random.below(IDS)), &Value::Null);
        }
        21 => {
            let body = query(random);
            // An explanation prints the time of its request.
            let explain = !body.to_string().contains("now");
            let path = format!(
                "/{index}/_validate/query?explain={explain}&rewrite={}",
                random.chance(50)
            );
            json_of("POST", &path, &body);
        }
        22 => {
            let path = random.pick(&[
                "/INDEX",
                "/INDEX/_mapping",
                "/INDEX/_settings",
                "/INDEX/_alias",
                "/_resolve/index/INDEX",
                "/INDEX/_mapping/field/*",
                "/_data_stream",
                "/_cluster/health",
                "/_cluster/health/INDEX?timeout=0s",
            ]);
            json_of("GET", &path.replace("INDEX", &index), &Value::Null);
        }
        23 => {
            let path = random.pick(&[
                "/_cat/count/INDEX?h=count",
                "/_cat/indices/INDEX?h=index,health,docs.count&s=index",
                "/_cat/aliases",
                "/_cat/shards/INDEX?h=index,shard,prirep,state,docs&s=index,shard",
                "/INDEX/_stats/docs",
                "/_data_stream/_stats",
                "/_firn/discover/sources",
            ]);
            json_of("GET", &path.replace("INDEX", &index), &Value::Null);
        }
        24 => {
            let body = json!({"index": index, "format": random.pick(&["csv", "ndjson"]), "columns": ["kw", "tags", "seq"], "sort": [{"seq": "asc"}]});
            json_of("POST", "/_firn/discover/export", &body);
        }
        _ => {
            let body = json!({"query": random.query(2), "size": 0, "suggest": {"s": {"text": "errr quik", "term": {"field": "msg"}}}});
            json_of("POST", &format!("/{index}/_search"), &body);
        }
    }
}

#[test]
fn answers_do_not_depend_on_other_tenants() {
    let cases = std::env::var("FIRN_ISOLATION_CASES")
        .ok()
        .and_then(|text| text.parse().ok());
    let cases: usize = cases.unwrap_or(CASES);
    let mut random = Random::new(firn_testkit::seed("isolation (differential)"));
    let (alone, both) = (Server::start(false), Server::start(true));
    let (mut requests, mut sequence) = (0, 0);
    while requests < cases {
        write(&mut random, &mut sequence, &alone, &both);
        for _ in 0..QUESTIONS {
            ask(&mut random, &alone, &both);
            requests += 1;
        }
    }
    // Without data of the other tenant the test would prove nothing.
    for index in SHARED {
        let count =
            |server: &Server| server.operator.ok("GET", &format!("/{index}/_count"), &Value::Null)["count"].as_u64();
        assert!(count(&both) > count(&alone), "[{index}] has events of both");
    }
}
