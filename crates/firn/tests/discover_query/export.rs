//! Export of all events as a file: complete and in order, or visibly incomplete.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use firn_testkit::{Answer, Client, Node};
use serde_json::{Value, json};

use super::{MIB, TIME, fill, logs, points_in_time, start};

pub(super) fn export(client: &Client, body: &Value) -> Answer {
    let answer = client.ask("POST", "/_firn/discover/export", body).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

#[test]
fn an_export_is_all_of_it_as_it_was_sent_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let client = node.client();
    client.ok("PUT", "/many", &json!({"settings": {"number_of_shards": 3}}));
    let event = |number: usize| {
        let mut event =
            json!({"@timestamp": TIME + number as i64 / 50, "n": number, "word": format!("w{}", number % 7)});
        if number.is_multiple_of(3) {
            event["rank"] = (number % 11).into();
        }
        event
    };
    for start in [0, 2500] {
        fill(
            client,
            "many",
            (start..start + 2500).map(|number| (number.to_string(), event(number))),
        );
    }
    for (sort, key) in [
        (json!([{"n": "asc"}]), "n"),
        // Thousands of events have missing or equal values: each is exported once all the same.
        (json!([{"rank": "desc"}]), "rank"),
        (json!([{"@timestamp": "desc"}, {"_seq_no": "desc"}]), "@timestamp"),
        (json!([{"_doc": "asc"}]), ""),
    ] {
        let answer = export(client, &json!({"index": "many", "sort": sort, "format": "ndjson"}));
        assert_eq!(answer.header("x-firn-total"), Some("5000"));
        assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
        let events: Vec<Value> = answer
            .text()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let numbers: BTreeSet<usize> = events
            .iter()
            .map(|event| event["n"].as_u64().unwrap() as usize)
            .collect();
        assert_eq!((events.len(), numbers.len()), (5000, 5000), "{sort}");
        assert!(
            events
                .iter()
                .all(|found| *found == event(found["n"].as_u64().unwrap() as usize))
        );
        let keys: Vec<Option<i64>> = events.iter().map(|event| event[key].as_i64()).collect();
        match key {
            "n" => assert!(keys.is_sorted()),
            "" => {}
            // Missing values come last, and so does `None` in this order.
            _ => assert!(keys.iter().rev().is_sorted(), "{sort}"),
        }
    }
    let narrowed = json!({
        "index": "many", "time": {"from": TIME, "to": TIME + 9}, "query": {"text": "word: w3 and n > 7"},
        "filters": [{"range": {"n": {"lt": 30}}}], "sort": [{"n": "desc"}], "columns": ["n", "word"], "format": "csv",
    });
    let answer = export(client, &narrowed);
    assert_eq!(answer.text(), "n,word\r\n24,w3\r\n17,w3\r\n10,w3\r\n");
    assert_eq!(
        answer.header("content-type"),
        Some("text/csv; charset=utf-8; header=present")
    );
    let disposition = answer.header("content-disposition").unwrap();
    assert!(
        disposition.starts_with("attachment; filename=\"many-") && disposition.ends_with("Z.csv\""),
        "{disposition}"
    );
    let nothing = export(
        client,
        &json!({"index": "many", "query": {"text": "n > 9999"}, "columns": ["n"], "format": "csv"}),
    );
    assert_eq!(
        (nothing.text().as_str(), nothing.header("x-firn-total")),
        ("n\r\n", Some("0"))
    );
    assert_eq!(points_in_time(client), 0);
}

#[test]
fn a_table_has_what_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let client = node.client();
    let mapping = json!({"mappings": {"properties": {
        "@timestamp": {"type": "date"}, "never": {"type": "keyword"}, "code": {"type": "keyword", "ignore_above": 3},
        "same": {"type": "alias", "path": "code"}, "kind": {"type": "constant_keyword", "value": "table"},
    }}});
    client.ok("PUT", "/table", &mapping);
    let odd = json!({"@timestamp": "2026-01-01T00:00:00Z", "code": "longer than three", "text": "a,\"b\"\n<b>é😀</b>", "list": ["x", 1.50], "of": {"it": -0.0}});
    fill(
        client,
        "table",
        [
            ("1".to_owned(), odd),
            ("2".to_owned(), json!({"@timestamp": 5, "code": "=A1"})),
        ],
    );
    let all = export(
        client,
        &json!({"index": "table", "time": {}, "sort": [{"@timestamp": "desc"}], "format": "csv"}),
    )
    .text();
    let expect = "@timestamp,code,kind,list,of.it,text\r\n\
                  2026-01-01T00:00:00Z,longer than three,table,\"[\"\"x\"\",1.5]\",-0.0,\"a,\"\"b\"\"\n<b>é😀</b>\"\r\n\
                  5,=A1,table,,,\r\n";
    assert_eq!(all, expect);
    let columns = json!(["_id", "_index", "same", "kind", "text.keyword", "no.such", "l*"]);
    let named = json!({"index": "table", "sort": [{"@timestamp": "asc"}], "columns": columns, "format": "csv"});
    let named = export(client, &named).text();
    let lines: Vec<&str> = named.split("\r\n").collect();
    assert_eq!(lines[0], "_id,_index,same,kind,text.keyword,no.such,list");
    assert_eq!(lines[1], "2,table,=A1,table,,,");
    for (body, reason) in [
        (json!({"index": "table", "format": "xls"}), "[format] must be one of"),
        (json!({"index": "table", "query": {"text": "a: ("}}), "Expected"),
        (json!({"index": "no-such"}), "no such index"),
        (
            json!({"index": "table", "sort": [{"nothing": "asc"}]}),
            "No mapping found for [nothing]",
        ),
        (json!({"index": "table", "sort": [{"text": "asc"}]}), "text"),
        (json!({"index": "table", "stages": []}), "unexpected field [stages]"),
    ] {
        let answer = client.ask("POST", "/_firn/discover/export", &body).unwrap();
        assert!(
            answer.status >= 400 && answer.text().contains(reason),
            "{}",
            answer.text()
        );
    }
}

#[test]
fn a_browser_downloads_by_a_form() {
    let folder = tempfile::tempdir().unwrap();
    let node = start(folder.path(), &[]);
    let client = node.client();
    logs(client);
    let request = json!({"index": "logs", "query": {"text": "message: \"é😀\""}, "columns": ["host"], "format": "csv"});
    let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let post = |body: &str| {
        // As browsers do.
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            (
                "accept",
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            ),
        ];
        client
            .with_headers("POST", "/_firn/discover/export", &headers, body.as_bytes())
            .unwrap()
    };
    let answer = post(&format!("csrf=x&request={}", encode(&request.to_string())));
    assert_eq!((answer.status, answer.text().as_str()), (200, "host\r\ndb-1\r\n"));
    for (body, expect) in [
        ("csrf=x".to_owned(), "in its field [request]"),
        ("request=5".to_owned(), "expected a JSON object"),
        ("request=%7B".to_owned(), "EOF"),
        ("request=%f".to_owned(), "invalid escape"),
    ] {
        let answer = post(&body);
        assert!(
            answer.status == 400 && answer.text().contains(expect),
            "{body}: {}",
            answer.text()
        );
    }
    // No other endpoint accepts a form, and this one accepts only the two fields.
    let form = [("content-type", "application/x-www-form-urlencoded")];
    for (path, expect) in [("/_firn/discover/fields", 406), ("/_search", 406)] {
        let answer = client.with_headers("POST", path, &form, b"request=%7B%7D").unwrap();
        assert_eq!(answer.status, expect, "{path}: {}", answer.text());
    }
    let lines = client
        .send("POST", "/_firn/discover/export", Some("application/x-ndjson"), b"{}")
        .unwrap();
    assert_eq!(lines.status, 406);
}

/// Starts a node with more data than fits into the buffers between a server and a client that does not read: 48 events
/// of 1 MB.
fn heavy(folder: &Path) -> Node {
    let node = start(folder, &[]);
    let client = node.client();
    let mapping = json!({"mappings": {"properties": {"blob": {"type": "text", "index": false}}}});
    client.ok("PUT", "/heavy", &mapping);
    for start in [0, 12, 24, 36] {
        let event = |number: usize| json!({"n": number, "blob": format!("{number:02}").repeat(MIB / 2)});
        fill(
            client,
            "heavy",
            (start..start + 12).map(|number| (number.to_string(), event(number))),
        );
    }
    node
}

/// Sends a request and reads the beginning of the answer.
fn begin(node: &Node, format: &str) -> (TcpStream, Vec<u8>) {
    let body =
        json!({"index": "heavy", "sort": [{"n": "asc"}], "columns": ["n", "blob"], "format": format}).to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", node.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!(
        "POST /_firn/discover/export HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut begun = vec![0; 100_000];
    stream.read_exact(&mut begun).unwrap();
    let text = String::from_utf8_lossy(&begun).into_owned();
    assert!(
        text.starts_with("HTTP/1.1 200") && text.contains("x-firn-total: 48"),
        "{}",
        &text[..500]
    );
    (stream, begun)
}

/// Returns the rest of an answer, and whether it ended regularly.
fn rest(mut stream: TcpStream, mut read: Vec<u8>) -> (Vec<u8>, bool) {
    // An aborted connection may be an error here.
    let _ = stream.read_to_end(&mut read);
    let is_whole = read.ends_with(b"\r\n0\r\n\r\n");
    (read, is_whole)
}

#[test]
fn a_large_export_is_complete_and_as_fast_as_its_client() {
    let folder = tempfile::tempdir().unwrap();
    let node = heavy(folder.path());
    let (stream, begun) = begin(&node, "csv");
    // A client that does not read gets no further data, and the sent data waits for it.
    std::thread::sleep(Duration::from_secs(1));
    let (read, is_whole) = rest(stream, begun);
    assert!(is_whole && read.len() > 48 * MIB, "{} bytes", read.len());
    let text = String::from_utf8_lossy(&read);
    for number in 0..48 {
        assert!(
            text.contains(&format!("\n{number},{number:02}{number:02}")),
            "event {number}"
        );
    }
    assert_eq!(points_in_time(node.client()), 0);
}

/// Returns the last line, which must be in a separate chunk.
fn last_line(read: &[u8]) -> String {
    let text = String::from_utf8_lossy(&read[read.len() - 5000..]).into_owned();
    text.trim_end().rsplit('\n').next().unwrap().to_owned()
}

#[test]
fn an_index_that_is_deleted_on_the_way_is_the_last_line() {
    for format in ["csv", "ndjson"] {
        let folder = tempfile::tempdir().unwrap();
        let node = heavy(folder.path());
        let (stream, begun) = begin(&node, format);
        node.client().ok("DELETE", "/heavy", &Value::Null);
        let (read, is_whole) = rest(stream, begun);
        // Without the line, the client still sees an answer without an end.
        assert!(!is_whole && read.len() < 48 * MIB, "{} bytes", read.len());
        let line = last_line(&read);
        match format {
            "csv" => {
                let begins = "# the export broke off after ";
                let line = line.trim_start_matches('"');
                assert!(line.starts_with(begins) && line.contains(" of 48 events: "), "{line}");
                assert!(
                    line.contains("index_not_found_exception: no such index [heavy]"),
                    "{line}"
                );
            }
            _ => {
                let line: Value = serde_json::from_str(&line).unwrap();
                assert_eq!((&line["event"], &line["total"]), (&json!("failed"), &json!(48)));
                assert!(
                    line["error"]["reason"].is_string() && line["status"].as_u64() >= Some(400),
                    "{line}"
                );
                let reported = line["events"].as_u64().unwrap();
                // The events before it are complete, and their number is right.
                let text = String::from_utf8_lossy(&read);
                let events = (0..48).filter(|number| text.contains(&format!("\"{number:02}{number:02}")));
                assert_eq!(events.count() as u64, reported, "{line}");
            }
        }
        assert!(node.log().contains("an export broke off"), "{}", node.log());
        assert_eq!(points_in_time(node.client()), 0);
    }
}

#[test]
fn a_client_that_goes_away_leaves_nothing_open() {
    let folder = tempfile::tempdir().unwrap();
    let node = heavy(folder.path());
    let (stream, _) = begin(&node, "csv");
    let open = node.client().ok("GET", "/_search/point_in_time/_all", &Value::Null);
    assert_eq!(
        open["pits"].as_array().unwrap().len(),
        1,
        "it is read from a point in time"
    );
    drop(stream);
    assert_eq!(points_in_time(node.client()), 0);
}

#[test]
fn what_fails_on_the_way_is_not_taken_for_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let node = heavy(folder.path());
    let (stream, begun) = begin(&node, "csv");
    node.client().ok("DELETE", "/_search/point_in_time/_all", &Value::Null);
    let (read, is_whole) = rest(stream, begun);
    assert!(!is_whole, "{} bytes", read.len());
    assert!(
        last_line(&read).contains("search_context_missing_exception"),
        "{}",
        last_line(&read)
    );
    assert!(node.log().contains("an export broke off"), "{}", node.log());
}
