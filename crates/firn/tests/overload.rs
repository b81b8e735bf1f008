//! Overload: more searches than the queue holds, and abandoned searches. The server refuses, stops the work, and
//! answers other requests.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use firn_testkit::{Client, Node, NodeOptions};
use serde_json::{Value, json};

/// Documents of the index, each with a distinct user: enough for searches that take seconds in a debug build, few
/// enough to be indexed in as many.
const COUNT: usize = 30_000;

fn start(settings: &[(&str, &str)]) -> (tempfile::TempDir, Node) {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let options = NodeOptions { settings };
    let node = Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder.path(), &options).unwrap();
    let mappings =
        json!({"properties": {"user": {"type": "keyword"}, "group": {"type": "keyword"}, "n": {"type": "long"}}});
    // Cached responses would leave no work.
    let index =
        json!({"mappings": mappings, "settings": {"refresh_interval": "-1", "index.requests.cache.enable": false}});
    assert_eq!(node.client().json("PUT", "/heavy", &index).unwrap().status, 200);
    for start in (0..COUNT).step_by(10_000) {
        let lines: String = (start..start + 10_000)
            .map(|n| {
                format!(
                    "{{\"index\":{{}}}}\n{{\"user\":\"u{n}\",\"group\":\"g{}\",\"n\":{n}}}\n",
                    n % 7
                )
            })
            .collect();
        let answer = node.client().bulk("/heavy/_bulk", lines.as_bytes()).unwrap();
        assert_eq!(answer.json()["errors"], false);
    }
    assert_eq!(
        node.client().send("POST", "/heavy/_refresh", None, b"").unwrap().status,
        200
    );
    (folder, node)
}

/// Path of a search that bypasses the cache.
const UNCACHED: &str = "/heavy/_search?request_cache=false";

/// Returns a search with a bucket for every document, twice over.
fn heavy() -> Value {
    let most = json!({"most": {"max": {"field": "n"}}});
    let groups = json!({"groups": {"terms": {"field": "group"}, "aggs": most}});
    json!({"size": 0, "aggs": {"users": {"terms": {"field": "user", "size": 1000}, "aggs": groups}}})
}

/// Sends a request and does not read the answer.
fn send(node: &Node, path: &str, content_type: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", node.port())).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: firn\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    stream
}

/// Reads status and body of an answer.
fn receive(stream: &mut TcpStream) -> (u16, Value) {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut bytes = Vec::new();
    let mut part = [0; 64 << 10];
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length: usize = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .unwrap()
                .parse()
                .unwrap();
            if body.len() >= length {
                let status = head.split(' ').nth(1).unwrap().parse().unwrap();
                return (status, serde_json::from_str(body).unwrap());
            }
        }
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "the server closed without an answer");
        bytes.extend_from_slice(&part[..count]);
    }
}

/// Returns the running and the queued searches, and the number of read tasks.
fn busy(client: &Client) -> (u64, u64, usize) {
    let stats = client.get("/_nodes/stats/thread_pool").unwrap().json();
    let pool = &stats["nodes"].as_object().unwrap().values().next().unwrap()["thread_pool"]["search"];
    let tasks = client
        .get("/_tasks?actions=indices:data/read/*&group_by=none")
        .unwrap()
        .json();
    (
        pool["active"].as_u64().unwrap(),
        pool["queue"].as_u64().unwrap(),
        tasks["tasks"].as_array().unwrap().len(),
    )
}

fn wait_until(what: &str, done: impl Fn() -> bool) -> Duration {
    let started = Instant::now();
    while !done() {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "timeout while waiting until {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    started.elapsed()
}

#[test]
fn work_ends_when_the_client_goes_away() {
    let (_folder, node) = start(&[("thread_pool.search.size", "2")]);
    let client = node.client();
    let heavy = heavy().to_string();
    let started = Instant::now();
    assert_eq!(
        client
            .send("POST", "/heavy/_search", Some("application/json"), heavy.as_bytes())
            .unwrap()
            .status,
        200
    );
    let whole = started.elapsed();
    let many = format!("{{\"index\":\"heavy\",\"request_cache\":false}}\n{heavy}\n").repeat(20);
    let scroll = heavy.replacen("\"size\":0", "\"size\":10", 1);
    for (path, content_type, body) in [
        (UNCACHED, "application/json", &heavy),
        ("/_msearch", "application/x-ndjson", &many),
        ("/heavy/_search?scroll=1m", "application/json", &scroll),
    ] {
        for part in [4, 2] {
            let stream = send(&node, path, content_type, body);
            wait_until("the search runs", || busy(client).0 > 0);
            std::thread::sleep(whole / part);
            drop(stream);
            // Without cancellation the many searches would take twenty times as long; the bound allows for a debug
            // build on a busy machine.
            let took = wait_until("nothing runs", || busy(client) == (0, 0, 0));
            assert!(
                took < Duration::from_secs(3),
                "{path} went on for {took:?}, of {whole:?}"
            );
        }
    }
    // Scrolls whose first page was not delivered are closed.
    wait_until("no context is open", || {
        let stats = client.get("/_nodes/stats/indices").unwrap().json();
        let search = &stats["nodes"].as_object().unwrap().values().next().unwrap()["indices"]["search"];
        search["open_contexts"] == 0
    });
}

#[test]
fn a_thousand_heavy_searches_at_once() {
    let (_folder, node) = start(&[
        ("thread_pool.search.size", "2"),
        ("thread_pool.search.queue_size", "8"),
        ("indices.breaker.request.limit", "64mb"),
        ("indices.breaker.total.limit", "64mb"),
    ]);
    let client = node.client();
    let heavy = heavy().to_string();
    let mut streams: Vec<TcpStream> = (0..1000)
        .map(|_| send(&node, UNCACHED, "application/json", &heavy))
        .collect();
    let started = Instant::now();
    assert_eq!(client.get("/_cluster/health").unwrap().status, 200);
    assert_eq!(client.get("/_tasks").unwrap().status, 200);
    let health = started.elapsed();
    assert!(health < Duration::from_secs(5), "health took {health:?}");
    let mut answered = 0;
    for stream in &mut streams {
        let (status, body) = receive(stream);
        match status {
            200 => answered += 1,
            429 => {
                let kind = body["error"]["type"].as_str().unwrap();
                assert!(
                    matches!(kind, "es_rejected_execution_exception" | "circuit_breaking_exception"),
                    "{body}"
                );
                assert!(body["error"]["root_cause"].is_array());
            }
            _ => panic!("{status}: {body}"),
        }
    }
    assert!((1..=900).contains(&answered), "{answered} were answered");
    drop(streams);
    wait_until("nothing runs", || busy(client) == (0, 0, 0));
    let stats = client.get("/_nodes/stats/breaker,thread_pool").unwrap().json();
    let node_stats = stats["nodes"].as_object().unwrap().values().next().unwrap();
    assert_eq!(
        node_stats["breakers"]["parent"]["estimated_size_in_bytes"], 0,
        "all memory was given back"
    );
    assert!(node_stats["thread_pool"]["search"]["rejected"].as_u64().unwrap() > 0);
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let peak_mb = peak.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024;
    assert!(peak_mb < 1024, "{peak_mb} MB resident");
}

/// Every search is answered before its client gives up: it runs, or it is refused.
#[test]
fn a_search_that_waits_too_long_is_refused() {
    let (_folder, node) = start(&[
        ("thread_pool.search.size", "1"),
        ("thread_pool.search.queue_wait_max", "500ms"),
    ]);
    let heavy = heavy().to_string();
    let mut streams: Vec<TcpStream> = (0..100)
        .map(|_| send(&node, UNCACHED, "application/json", &heavy))
        .collect();
    let (mut answered, mut refused) = (0, 0);
    for stream in &mut streams {
        let (status, body) = receive(stream);
        match status {
            200 => answered += 1,
            429 => {
                assert_eq!(body["error"]["type"], "es_rejected_execution_exception", "{body}");
                let reason = body["error"]["reason"].as_str().unwrap();
                assert!(reason.contains("thread_pool.search.queue_wait_max"), "{reason}");
                refused += 1;
            }
            _ => panic!("{status}: {body}"),
        }
    }
    assert!(answered >= 1 && refused >= 50, "{answered} answered, {refused} refused");
    let client = node.client();
    wait_until("nothing runs", || busy(client) == (0, 0, 0));
    let stats = client.get("/_nodes/stats/thread_pool").unwrap().json();
    let pool = &stats["nodes"].as_object().unwrap().values().next().unwrap()["thread_pool"]["search"];
    assert_eq!(pool["rejected"], refused);
}

/// Each fuzzy word is an automaton that walks the dictionary: their number is checked before the first is built.
#[test]
fn too_many_fuzzy_words_are_refused_at_once() {
    let (_folder, node) = start(&[]);
    let client = node.client();
    let words: Vec<String> = (0..2000).map(|n| format!("user:u{n}abc~2")).collect();
    let query = |kind: &str| json!({"query": {kind: {"query": words.join(" ")}}});
    let fuzzy: Vec<Value> = (0..2000)
        .map(|n| json!({"fuzzy": {"user": format!("u{n}abc")}}))
        .collect();
    for body in [
        query("query_string"),
        json!({"query": {"simple_query_string": {"query": words.join(" ").replace("user:", ""), "fields": ["user"]}}}),
        json!({"query": {"bool": {"should": fuzzy}}}),
        json!({"query": {"match": {"user": {"query": "word ".repeat(2000), "fuzziness": 2}}}}),
    ] {
        let started = Instant::now();
        let answer = client.json("POST", "/heavy/_search", &body).unwrap();
        let took = started.elapsed();
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains("too many fuzzy clauses"), "{}", answer.text());
        assert!(took < Duration::from_secs(2), "the refusal took {took:?}");
    }
}

#[test]
fn a_thousand_cheap_searches_in_one_request() {
    let (_folder, node) = start(&[]);
    let part =
        |n: usize| format!("{{\"index\":\"heavy\"}}\n{{\"size\":1,\"query\":{{\"term\":{{\"user\":\"u{n}\"}}}}}}\n");
    let body: String = (0..1000).map(part).collect();
    let started = Instant::now();
    let client = node.client();
    let answer = client
        .send("POST", "/_msearch", Some("application/x-ndjson"), body.as_bytes())
        .unwrap();
    let took = started.elapsed();
    assert_eq!(answer.status, 200);
    let answer = answer.json();
    let responses = answer["responses"].as_array().unwrap();
    assert_eq!(responses.len(), 1000);
    for (n, response) in responses.iter().enumerate() {
        assert_eq!(response["hits"]["hits"][0]["_source"]["n"], n, "{response}");
    }
    // Half a second in a debug build on two free cores.
    assert!(took < Duration::from_secs(20), "a thousand searches took {took:?}");
}

#[test]
fn limits_of_one_search() {
    let (_folder, node) = start(&[("indices.breaker.request.limit", "1mb"), ("search.max_buckets", "1000")]);
    let client = node.client();
    let check = |path: &str, body: &Value, status: u16, words: &str| {
        let answer = client.json("POST", path, body).unwrap();
        assert_eq!(answer.status, status, "{path} {body}: {}", answer.text());
        assert!(answer.text().contains(words), "{} lacks {words}", answer.text());
    };
    check(
        "/heavy/_search",
        &json!({"size": 1_000_000_000}),
        400,
        "Result window is too large",
    );
    check("/heavy/_search", &json!({"from": 9_995, "size": 6}), 400, "was [10001]");
    check(
        "/heavy/_search?scroll=1m",
        &json!({"size": 10_001}),
        400,
        "Batch size is too large",
    );
    check("/heavy/_search", &heavy(), 429, "circuit_breaking_exception");
    let buckets = json!({"size": 0, "query": {"range": {"n": {"lt": 1500}}}, "aggs": {"u": {"terms": {"field": "user", "size": 1500}}}});
    check("/heavy/_search", &buckets, 400, "too_many_buckets_exception");
    let wide = "{\"index\":\"heavy\"}\n{\"size\":0}\n".repeat(1001);
    let answer = client.bulk("/_msearch", wide.as_bytes()).unwrap();
    assert_eq!(answer.status, 400, "{}", answer.text());
    // Timed out, with partial results.
    let body = json!({"size": 3, "query": {"match_all": {}}});
    let late = client.json("POST", "/heavy/_search?timeout=0ms", &body).unwrap().json();
    assert_eq!((&late["timed_out"], late.get("error")), (&json!(true), None), "{late}");
    let early = client
        .json("POST", "/heavy/_search?terminate_after=10&track_total_hits=true", &body)
        .unwrap()
        .json();
    assert_eq!(
        (&early["terminated_early"], &early["hits"]["total"]["value"]),
        (&json!(true), &json!(10))
    );
    let never = client
        .json("POST", "/heavy/_search?terminate_after=100000", &body)
        .unwrap()
        .json();
    assert_eq!(never["terminated_early"], false);
}

#[test]
fn an_index_deleted_in_mid_search() {
    let (_folder, node) = start(&[("thread_pool.search.size", "2")]);
    let client = node.client();
    let heavy = heavy().to_string();
    let mut streams: Vec<TcpStream> = (0..4)
        .map(|_| send(&node, UNCACHED, "application/json", &heavy))
        .collect();
    let pit = client
        .json("POST", "/heavy/_pit?keep_alive=1m", &json!({}))
        .unwrap()
        .json();
    wait_until("a search runs", || busy(client).0 > 0);
    assert_eq!(client.send("DELETE", "/heavy", None, b"").unwrap().status, 200);
    for stream in &mut streams {
        let (status, body) = receive(stream);
        match status {
            200 => assert_eq!(body["aggregations"]["users"]["buckets"].as_array().unwrap().len(), 1000),
            404 => assert!(body.to_string().contains("no such index [heavy]"), "{body}"),
            _ => panic!("{status}: {body}"),
        }
    }
    let gone = client
        .json("POST", "/_search", &json!({"pit": {"id": pit["id"]}}))
        .unwrap();
    assert_eq!(gone.status, 404, "{}", gone.text());
    assert!(
        gone.text().contains("search_context_missing_exception"),
        "{}",
        gone.text()
    );
    assert_eq!(client.get("/_cluster/health").unwrap().json()["status"], "green");
}
