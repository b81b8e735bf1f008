//! Hostile queries whose cost would be unlimited without bounds. Each gets a typed 4xx with Elasticsearch's body or an
//! answer that says what is missing; the server survives within its memory.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use firn_testkit::{Answer, Client, Node, NodeOptions};
use serde_json::{Value, json};

/// Documents of the index for slow searches.
const DOCUMENTS: usize = 24_000;

fn start(settings: &[(&str, &str)]) -> (tempfile::TempDir, Node) {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let options = NodeOptions {
        settings: settings.collect(),
    };
    let node = Node::start(Path::new(env!("CARGO_BIN_EXE_firn")), folder.path(), &options).unwrap();
    (folder, node)
}

fn resident_peak_mb(node: &Node) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// Returns user and system time of the process so far, in steps of 10 ms.
fn processor_time(node: &Node) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", node.pid())).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    Duration::from_millis(10 * ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>())
}

/// Writes events in three segments: a time, a distinct number, a word and some text.
fn fill(client: &Client, index: &str, count: usize) {
    let mappings = json!({"mappings": {"properties": {
        "@timestamp": {"type": "date"}, "number": {"type": "long"}, "word": {"type": "keyword"}, "text": {"type": "text"}
    }}});
    assert_eq!(client.json("PUT", &format!("/{index}"), &mappings).unwrap().status, 200);
    for part in 0..3 {
        let mut lines = String::new();
        for number in (part..count).step_by(3) {
            let time = 1_700_000_000_000_i64 + number as i64 * 60_000;
            let source = json!({"@timestamp": time, "number": number, "word": format!("word-{}", number % 977),
                                "text": format!("{} a quick brown fox {}", "a".repeat(number % 50), number % 100)});
            writeln!(lines, "{{\"index\":{{}}}}\n{source}").unwrap();
        }
        let answer = client
            .bulk(&format!("/{index}/_bulk?refresh=true"), lines.as_bytes())
            .unwrap();
        let (errors, first) = (&answer.json()["errors"], &answer.json()["items"][0]);
        assert_eq!((answer.status, errors), (200, &json!(false)), "{first}");
    }
}

fn search(client: &Client, body: &Value) -> Answer {
    client.json("POST", "/events/_search", body).unwrap()
}

/// Checks that the answer is an error of Elasticsearch's shape with this status and these words.
#[track_caller]
fn refused(answer: &Answer, status: u16, words: &str) {
    let body = answer.json();
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(body["status"], status, "{body}");
    assert!(body["error"]["type"].is_string(), "{body}");
    assert!(body["error"]["root_cause"].is_array(), "{body}");
    assert!(body.to_string().contains(words), "{body} lacks `{words}`");
}

/// Checks that the server answers and still has all its data.
#[track_caller]
fn lives(node: &Node, peak_mb: u64) {
    let answer = search(node.client(), &json!({"size": 0, "track_total_hits": true}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["_shards"]["failed"], 0);
    let peak = resident_peak_mb(node);
    assert!(peak < peak_mb, "the process grew to {peak} MB");
}

/// Returns many aggregations over every document: seconds of work, few buckets, little memory.
fn slow() -> Value {
    let mut aggs = serde_json::Map::new();
    for number in 0..1500 {
        let histogram = json!({"field": "@timestamp", "calendar_interval": "month", "time_zone": "Europe/Berlin"});
        aggs.insert(format!("h{number}"), json!({"date_histogram": histogram}));
    }
    json!({"size": 0, "aggs": aggs})
}

#[test]
fn events_that_nest_deep_fail_alone() {
    let (_folder, node) = start(&[]);
    let client = node.client();
    fill(client, "events", 30);
    let template = json!({"index_patterns": ["deep*"], "data_stream": {},
                          "template": {"settings": {"index.tenant.field": "tenant", "index.period": "day"}}});
    assert_eq!(
        client.json("PUT", "/_index_template/deep", &template).unwrap().status,
        200
    );
    let event = |rest: &str| format!("{{\"@timestamp\":\"2026-01-05T00:00:00Z\",\"tenant\":\"a\",\"n\":{rest}}}");
    for (stream, action) in [("deep", "create"), ("plain", "index")] {
        for levels in [2_000, 100_000, 1_000_000] {
            let mut lines = String::new();
            let sources = [
                event(&("[".repeat(levels) + &"]".repeat(levels))),
                event(&"[".repeat(levels)),
                "{\"a\":".repeat(levels) + "1" + &"}".repeat(levels),
                "[".repeat(levels),
                event("1"),
            ];
            for source in &sources {
                writeln!(lines, "{{\"{action}\":{{}}}}\n{source}").unwrap();
            }
            let answer = client.bulk(&format!("/{stream}/_bulk"), lines.as_bytes()).unwrap();
            assert_eq!(answer.status, 200, "{stream} {levels}: {}", answer.text());
            let answer = answer.json();
            let statuses: Vec<_> = answer["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item[action]["status"].as_u64().unwrap())
                .collect();
            assert_eq!(statuses, [400, 400, 400, 400, 201], "{stream} {levels}");
            for source in &sources[..4] {
                let path = format!("/{stream}/_doc");
                let answer = client
                    .send("POST", &path, Some("application/json"), source.as_bytes())
                    .unwrap();
                assert_eq!(answer.status, 400, "{stream} {levels}: {}", answer.text());
            }
        }
    }
    lives(&node, 1200);
}

#[test]
fn deep_nesting_is_refused() {
    let (_folder, node) = start(&[]);
    let client = node.client();
    fill(client, "events", 30);
    let post = |body: &str| {
        client
            .send("POST", "/events/_search", Some("application/json"), body.as_bytes())
            .unwrap()
    };
    let nest = |open: &str, close: &str, depth: usize, inner: &str| {
        format!("{{\"query\":{}{inner}{}}}", open.repeat(depth), close.repeat(depth))
    };
    let all = "{\"match_all\":{}}";
    for depth in [101, 1000, 10_000] {
        for (open, close) in [
            ("{\"bool\":{\"must\":[", "]}}"),
            ("{\"bool\":{\"must_not\":", "}}"),
            ("{\"constant_score\":{\"filter\":", "}}"),
            ("{\"dis_max\":{\"queries\":[", "]}}"),
        ] {
            let answer = post(&nest(open, close, depth, all));
            assert_eq!(answer.status, 400, "{open} {depth}: {}", answer.text());
            assert!(answer.json()["error"]["root_cause"].is_array(), "{}", answer.text());
        }
    }
    for depth in [101, 10_000, 100_000] {
        let text = format!("{}fox{}", "(".repeat(depth), ")".repeat(depth));
        let answer = search(client, &json!({"query": {"query_string": {"query": text}}}));
        refused(&answer, 400, "query");
        let answer = search(client, &json!({"query": {"simple_query_string": {"query": text}}}));
        assert!(matches!(answer.status, 200 | 400), "{}", answer.text());
        let answer = search(
            client,
            &json!({"query": {"query_string": {"query": "NOT ".repeat(depth) + "fox"}}}),
        );
        assert!(matches!(answer.status, 200 | 400), "{}", answer.text());
    }
    // Aggregations a hundred and ten thousand levels deep.
    for depth in [100, 10_000] {
        let open = "{\"a\":{\"filter\":{\"match_all\":{}},\"aggs\":";
        let body = format!("{{\"aggs\":{}{{}}{}}}", open.repeat(depth), "}}".repeat(depth));
        let answer = post(&body);
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
    refused(
        &post(&format!("{{\"sort\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000))),
        400,
        "",
    );
    lives(&node, 600);
}

#[test]
fn patterns_that_explode_are_refused_or_end() {
    let (_folder, node) = start(&[]);
    let client = node.client();
    fill(client, "events", 3000);
    let long = "a".repeat(100_000);
    let patterns = [
        "((((a{1,100}){1,100}){1,100}){1,100})".to_owned(),
        "(a*)*(a*)*(a*)*(a*)*b".to_owned(),
        "(a|aa)+(a|aa)+(a|aa)+$".to_owned(),
        "[a-z]{1000}[a-z]{1000}".to_owned(),
        ".*a.{200}".to_owned(),
        "((".to_owned(),
        "(".repeat(900),
        "a?".repeat(400) + &"a".repeat(100),
        long.clone(),
    ];
    for pattern in &patterns {
        for field in ["word", "text"] {
            let queries = [
                json!({"regexp": {field: {"value": pattern}}}),
                json!({"query_string": {"query": format!("{field}:/{}/", pattern.replace('/', ""))}}),
            ];
            for query in queries {
                let started = Instant::now();
                let answer = search(client, &json!({"query": query}));
                assert!(matches!(answer.status, 200 | 400), "{query}: {}", answer.text());
                assert!(
                    started.elapsed() < Duration::from_secs(20),
                    "{query} took {:?}",
                    started.elapsed()
                );
            }
        }
        let answer = search(
            client,
            &json!({"size": 0, "aggs": {"t": {"terms": {"field": "word", "include": pattern}}}}),
        );
        assert!(matches!(answer.status, 200 | 400), "{pattern:.80}: {}", answer.text());
    }
    for pattern in [
        "*a".repeat(450),
        "?*".repeat(450),
        "*".repeat(900),
        long,
        "a*".repeat(50) + "b",
    ] {
        for field in ["word", "text"] {
            let started = Instant::now();
            let answer = search(client, &json!({"query": {"wildcard": {field: {"value": pattern}}}}));
            assert!(matches!(answer.status, 200 | 400), "{pattern:.80}: {}", answer.text());
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "{pattern:.80} took {:?}",
                started.elapsed()
            );
        }
    }
    lives(&node, 600);
}

#[test]
fn too_many_clauses_are_refused() {
    let (_folder, node) = start(&[]);
    let client = node.client();
    fill(client, "events", 30);
    let words: Vec<String> = (0..100_000).map(|number| format!("w{number}")).collect();
    for joined in [
        words.join(" "),
        words.join(" OR "),
        words.join(" AND NOT "),
        words.join("* "),
    ] {
        let answer = search(client, &json!({"query": {"query_string": {"query": joined}}}));
        refused(&answer, 400, "more than 65536 tokens");
        let answer = search(client, &json!({"query": {"simple_query_string": {"query": joined}}}));
        refused(&answer, 400, "");
    }
    // Each word is searched in both fields.
    let some = words[..10_000].join(" ");
    for name in ["query_string", "simple_query_string"] {
        let answer = search(
            client,
            &json!({"query": {name: {"query": some, "fields": ["word", "text"]}}}),
        );
        assert!(matches!(answer.status, 200 | 400), "{}", answer.text());
    }
    let many: Vec<Value> = words.iter().map(|word| json!({"term": {"word": word}})).collect();
    refused(
        &search(client, &json!({"query": {"bool": {"should": many}}})),
        400,
        "too many",
    );
    let answer = search(client, &json!({"query": {"terms": {"word": words}}}));
    refused(&answer, 400, "65536");
    lives(&node, 600);
}

#[test]
fn pages_past_the_window_are_refused() {
    let (_folder, node) = start(&[]);
    let client = node.client();
    fill(client, "events", 30);
    refused(&search(client, &json!({"size": 1_000_000_000})), 400, "10000");
    refused(
        &search(client, &json!({"size": 1, "from": 1_000_000_000})),
        400,
        "10000",
    );
    refused(&search(client, &json!({"size": 100, "from": 9901})), 400, "10000");
    refused(&search(client, &json!({"size": 99_999_999_999_i64})), 400, "size");
    refused(&search(client, &json!({"size": i64::MIN})), 400, "size");
    refused(&search(client, &json!({"from": -1})), 400, "from");
    refused(&client.get("/events/_search?size=1000000000").unwrap(), 400, "10000");
    refused(
        &client.get("/events/_search?scroll=1m&size=1000000000").unwrap(),
        400,
        "10000",
    );
    refused(
        &search(
            client,
            &json!({"size": 0, "aggs": {"h": {"top_hits": {"size": 1_000_000}}}}),
        ),
        400,
        "100",
    );
    assert_eq!(search(client, &json!({"size": 100, "from": 9900})).status, 200);
    lives(&node, 400);
}

#[test]
fn buckets_are_bounded() {
    let (_folder, node) = start(&[]);
    let client = node.client();
    fill(client, "events", DOCUMENTS);
    let aggs = [
        json!({"date_histogram": {"field": "@timestamp", "fixed_interval": "100ms"}}),
        json!({"date_histogram": {"field": "@timestamp", "fixed_interval": "1d",
                                  "extended_bounds": {"min": "0001-01-01", "max": "9999-12-31"}}}),
        json!({"histogram": {"field": "number", "interval": 0.001}}),
        json!({"histogram": {"field": "number", "interval": 1, "extended_bounds": {"min": -1e9, "max": 1e9}}}),
        json!({"terms": {"field": "number", "size": 10_000_000},
               "aggs": {"w": {"terms": {"field": "word", "size": 1000}, "aggs": {"n": {"terms": {"field": "number"}}}}}}),
        json!({"composite": {"size": 10_000_000, "sources": [{"n": {"terms": {"field": "number"}}}]}}),
    ];
    for aggregation in aggs {
        let started = Instant::now();
        let answer = search(client, &json!({"size": 0, "aggs": {"a": aggregation}}));
        refused(&answer, 400, "65536");
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "{aggregation} took {:?}",
            started.elapsed()
        );
    }
    // Invalid and extreme intervals.
    for interval in [0.0, -1.0, 1e-300, 1e300] {
        let body = json!({"size": 0, "aggs": {"a": {"histogram": {"field": "number", "interval": interval}}}});
        let answer = search(client, &body);
        assert!(matches!(answer.status, 200 | 400), "{interval}: {}", answer.text());
    }
    lives(&node, 900);
}

#[test]
fn values_out_of_range_are_refused_or_find_nothing() {
    let (_folder, node) = start(&[]);
    let client = node.client();
    fill(client, "events", 30);
    for bound in [
        json!("292278995-01-01T00:00:00Z"),
        json!("-292278995-01-01T00:00:00Z"),
        json!("now+999999999y"),
        json!("now-99999999999999999999d"),
        json!("2024-13-45"),
        json!("2024-01-01||+1000000000M/w"),
        json!(9.3e18),
        json!(i64::MAX),
        json!(u64::MAX),
        json!("|"),
        json!("||/d"),
        json!(""),
    ] {
        for side in ["gte", "lt"] {
            let answer = search(client, &json!({"query": {"range": {"@timestamp": {side: bound}}}}));
            assert!(matches!(answer.status, 200 | 400), "{bound}: {}", answer.text());
        }
        let histogram = json!({"field": "@timestamp", "calendar_interval": "year", "min_doc_count": 1,
                               "hard_bounds": {"min": bound, "max": bound}, "missing": bound});
        let answer = search(
            client,
            &json!({"size": 0, "aggs": {"a": {"date_histogram": histogram}}}),
        );
        assert!(matches!(answer.status, 200 | 400), "{bound}: {}", answer.text());
        let ranges = json!({"field": "@timestamp", "ranges": [{"from": bound}, {"to": bound}]});
        let answer = search(client, &json!({"size": 0, "aggs": {"a": {"date_range": ranges}}}));
        assert!(matches!(answer.status, 200 | 400), "{bound}: {}", answer.text());
        let answer = search(
            client,
            &json!({"sort": [{"@timestamp": {"missing": bound}}], "search_after": [bound]}),
        );
        assert!(matches!(answer.status, 200 | 400), "{bound}: {}", answer.text());
    }
    for zone in ["+99:00", "Mars/Olympus", "+0", ""] {
        let answer = search(
            client,
            &json!({"query": {"range": {"@timestamp": {"gte": "2024-01-01", "time_zone": zone}}}}),
        );
        assert!(matches!(answer.status, 200 | 400), "{zone}: {}", answer.text());
    }
    refused(
        &search(client, &json!({"sort": ["text"]})),
        400,
        "Fielddata is disabled on [text]",
    );
    refused(
        &search(client, &json!({"size": 0, "aggs": {"a": {"terms": {"field": "text"}}}})),
        400,
        "Fielddata is disabled on [text]",
    );
    lives(&node, 400);
}

#[test]
fn unclosed_scrolls_are_bounded_and_expire() {
    let (_folder, node) = start(&[
        ("search.max_open_scroll_context", "20"),
        ("search.max_open_pit_context", "5"),
    ]);
    let client = node.client();
    fill(client, "events", 300);
    let open = |keep: &str| {
        client
            .send("POST", &format!("/events/_search?scroll={keep}&size=1"), None, b"")
            .unwrap()
    };
    let ids: Vec<String> = (0..20)
        .map(|_| {
            let answer = open("1s");
            assert_eq!(answer.status, 200, "{}", answer.text());
            answer.json()["_scroll_id"].as_str().unwrap().to_owned()
        })
        .collect();
    refused(&open("1s"), 429, "scroll");
    // They expire, and their slots are free again.
    let started = Instant::now();
    while open("1s").status != 200 {
        assert!(started.elapsed() < Duration::from_secs(30), "no scroll has expired");
        std::thread::sleep(Duration::from_millis(100));
    }
    let next = client
        .json("POST", "/_search/scroll", &json!({"scroll_id": ids[0], "scroll": "1m"}))
        .unwrap();
    refused(&next, 404, "search_context_missing_exception");
    refused(&open("10000h"), 400, "keep");
    let next = client
        .json("POST", "/_search/scroll", &json!({"scroll_id": "bm9uc2Vuc2U="}))
        .unwrap();
    assert!(matches!(next.status, 400 | 404), "{}", next.text());

    let pit = || client.send("POST", "/events/_pit?keep_alive=1m", None, b"").unwrap();
    for _ in 0..5 {
        assert_eq!(pit().status, 200);
    }
    refused(&pit(), 429, "");
    lives(&node, 400);
}

#[test]
fn time_is_up_and_says_so() {
    let (_folder, node) = start(&[]);
    let client = node.client();
    fill(client, "events", DOCUMENTS);
    let mut body = slow();
    body["timeout"] = json!("1ms");
    let started = Instant::now();
    let answer = search(client, &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["timed_out"], true);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let answer = client
        .json("POST", "/events/_search?allow_partial_search_results=false", &body)
        .unwrap();
    assert!(
        answer.status >= 400,
        "a part was requested not to be answered: {}",
        answer.text()
    );

    let answer = search(
        client,
        &json!({"size": 1, "terminate_after": 10, "track_total_hits": true}),
    );
    assert_eq!(answer.json()["terminated_early"], true, "{}", answer.text());
    assert!(answer.json()["hits"]["total"]["value"].as_u64().unwrap() < DOCUMENTS as u64);
    lives(&node, 600);
}

#[test]
fn an_index_goes_while_it_is_searched() {
    let (_folder, node) = start(&[]);
    let client = node.client().clone();
    fill(&client, "events", 30);
    fill(&client, "gone", DOCUMENTS);
    let searches: Vec<_> = (0..4)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || client.json("POST", "/gone/_search", &slow()).unwrap())
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(client.send("DELETE", "/gone", None, b"").unwrap().status, 200);
    for search in searches {
        let answer = search.join().unwrap();
        // Started before the deletion: answered completely, or not at all.
        assert!(matches!(answer.status, 200 | 404), "{}", answer.text());
    }
    refused(
        &client.json("POST", "/gone/_search", &json!({})).unwrap(),
        404,
        "no such index [gone]",
    );
    lives(&node, 800);
}

/// Sends a search and does not wait for the answer.
fn ask_and_leave(node: &Node, body: &Value) -> TcpStream {
    let body = body.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", node.port())).unwrap();
    let head = format!(
        "POST /events/_search HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    stream
}

fn running_searches(client: &Client) -> usize {
    let tasks = client.get("/_tasks?actions=*search*").unwrap().json();
    let nodes = tasks["nodes"].as_object().into_iter().flatten();
    nodes
        .map(|(_, node)| node["tasks"].as_object().map_or(0, |tasks| tasks.len()))
        .sum()
}

#[test]
fn the_work_of_clients_that_leave_stops() {
    let (_folder, node) = start(&[]);
    let client = node.client();
    fill(client, "events", DOCUMENTS);
    let streams: Vec<TcpStream> = (0..4).map(|_| ask_and_leave(&node, &slow())).collect();
    let started = Instant::now();
    while running_searches(client) == 0 {
        assert!(started.elapsed() < Duration::from_secs(10), "no search has begun");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(streams);
    let left = Instant::now();
    while running_searches(client) > 0 {
        // 100 ms on a quiet machine; tests share theirs.
        assert!(left.elapsed() < Duration::from_secs(2), "abandoned searches continue");
        std::thread::sleep(Duration::from_millis(5));
    }
    // The threads are free: little work was done after the clients left.
    let spent = processor_time(&node);
    assert_eq!(search(client, &json!({"size": 1})).status, 200);
    std::thread::sleep(Duration::from_millis(500));
    let more = processor_time(&node) - spent;
    assert!(
        more < Duration::from_millis(400),
        "{more:?} of work for abandoned searches"
    );
    lives(&node, 600);
}

#[test]
fn a_thousand_heavy_searches_at_once_are_answered_or_sent_away() {
    let (_folder, node) = start(&[("thread_pool.search.queue_size", "100")]);
    let client = node.client();
    fill(client, "events", 3000);
    let heavy = json!({"size": 0, "timeout": "20s", "aggs": {
        "w": {"terms": {"field": "word", "size": 1000}, "aggs": {"n": {"terms": {"field": "number", "size": 50}}}},
        "c": {"cardinality": {"field": "number", "precision_threshold": 40_000}},
        "d": {"date_histogram": {"field": "@timestamp", "fixed_interval": "1h"}}
    }});
    let answers: Vec<_> = std::thread::scope(|scope| {
        let searches: Vec<_> = (0..1000)
            .map(|_| {
                let (node, heavy) = (&node, &heavy);
                let thread = std::thread::Builder::new().stack_size(256 << 10);
                thread.spawn_scoped(scope, move || exchange(node, heavy)).unwrap()
            })
            .collect();
        searches.into_iter().map(|search| search.join().unwrap()).collect()
    });
    let count = |wanted: u16| answers.iter().filter(|(status, _)| *status == wanted).count();
    for (status, body) in &answers {
        assert!(matches!(status, 200 | 429), "{status}: {body}");
        if *status == 429 {
            assert!(
                body.contains("rejected_execution_exception") || body.contains("circuit_breaking_exception"),
                "{body}"
            );
        }
    }
    assert!(count(200) > 0, "none was answered");
    assert!(count(429) > 0, "none was sent away: the queue holds a hundred");
    lives(&node, 1200);
}

/// Sends one request on a separate connection; returns its status and body.
fn exchange(node: &Node, body: &Value) -> (u16, String) {
    let body = body.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", node.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let head = format!(
        "POST /events/_search HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).unwrap_or_default().parse().unwrap_or(0);
    (status, answer)
}
