//! `firn ingest` against a misbehaving server: no event may be lost silently.

mod support;

use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use support::{Reply, Request, firn, serve, stderr};
use tempfile::TempDir;

/// Number of times that each source was indexed.
type Stored = Arc<Mutex<HashMap<String, usize>>>;

/// Starts a server that stores events; `disturb` may answer a bulk, `item` decides the status of an item by its source.
fn server(
    disturb: impl Fn(usize, &Request) -> Option<Reply> + Send + Sync + 'static,
    item: impl Fn(usize, &str) -> u16 + Send + Sync + 'static,
) -> (SocketAddr, Stored) {
    let stored = Stored::default();
    let calls = AtomicUsize::new(0);
    let inner = Arc::clone(&stored);
    let address = serve(move |request| {
        if !request.path.ends_with("/_bulk") {
            return Reply::Json(200, "{}".to_owned());
        }
        let call = calls.fetch_add(1, Ordering::SeqCst);
        if let Some(reply) = disturb(call, request) {
            return reply;
        }
        let mut items = Vec::new();
        for (action, source) in request.events() {
            let operation = if action.starts_with("{\"create\"") {
                "create"
            } else {
                "index"
            };
            let status = item(call, &source);
            let mut outcome = json!({"status": status});
            if status >= 300 {
                outcome["error"] = json!({
                    "type": "document_parsing_exception",
                    "reason": format!("status {status} for this one"),
                    "caused_by": {"reason": "because"},
                });
            } else {
                *inner.lock().expect("no panic").entry(source).or_default() += 1;
            }
            items.push(json!({operation: outcome}));
        }
        Reply::Json(200, json!({"errors": true, "items": items}).to_string())
    });
    (address, stored)
}

struct Input {
    folder: TempDir,
    file: PathBuf,
}

impl Input {
    fn new(lines: &[String]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("events.ndjson");
        std::fs::write(&file, lines.join("\n")).expect("a written file");
        Self { folder, file }
    }

    fn numbered(count: usize) -> Self {
        let lines: Vec<String> = (1..=count).map(|number| format!("{{\"n\":{number}}}")).collect();
        Self::new(&lines)
    }

    fn path(&self) -> &str {
        self.file.to_str().expect("a path in UTF-8")
    }

    fn rejected(&self) -> Option<Vec<Value>> {
        let text = std::fs::read_to_string(self.folder.path().join("events.ndjson.rejected.ndjson")).ok()?;
        Some(
            text.lines()
                .map(|line| serde_json::from_str(line).expect("JSON"))
                .collect(),
        )
    }
}

fn all_once(stored: &Stored, count: usize) {
    let stored = stored.lock().expect("no panic");
    assert_eq!(stored.len(), count);
    assert!(stored.values().all(|&times| times == 1), "{stored:?}");
}

#[test]
fn everything_arrives_once_and_the_exit_code_is_0() {
    let (address, stored) = server(|_, _| None, |_, _| 201);
    let input = Input::numbered(1000);
    let url = format!("http://user:secret@{address}");
    let output = firn(&[
        "ingest",
        input.path(),
        "--url",
        &url,
        "--index",
        "a",
        "--batch-docs",
        "64",
        "--gzip",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("1,000 of 1,000 events indexed"),
        "{}",
        stderr(&output)
    );
    all_once(&stored, 1000);
    assert!(input.rejected().is_none());
}

#[test]
fn a_bulk_is_repeated_on_a_busy_server() {
    // First the whole request is refused, then single events.
    let (address, stored) = server(
        |call, _| (call < 3).then(|| Reply::Json(429, json!({"error": {"reason": "queue full"}}).to_string())),
        |call, source| if call < 8 && source.ends_with("7}") { 429 } else { 201 },
    );
    let input = Input::numbered(500);
    let url = format!("http://{address}");
    let output = firn(&[
        "ingest",
        input.path(),
        "--url",
        &url,
        "--index",
        "a",
        "--batch-docs",
        "100",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    all_once(&stored, 500);
}

#[test]
fn giving_up_is_a_loss() {
    let (address, _) = server(|_, _| Some(Reply::Json(429, "{}".to_owned())), |_, _| 201);
    let input = Input::numbered(3);
    let url = format!("http://{address}");
    let output = firn(&[
        "ingest",
        input.path(),
        "--url",
        &url,
        "--index",
        "a",
        "--give-up-after",
        "300ms",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let rejected = input.rejected().expect("a side file");
    assert_eq!(rejected.len(), 3);
    assert_eq!(rejected[0]["type"], "not_sent");
}

#[test]
fn rejected_lines_are_saved_with_number_and_reason() {
    let (address, stored) = server(|_, _| None, |_, source| if source.contains("bad") { 400 } else { 201 });
    let lines: Vec<String> = [
        "{\"time\":\"x\",\"n\":1}",
        "",
        "{\"time\":\"bad\"}",
        "not json",
        "{\"n\":2}",
        "{\"time\":3}",
    ]
    .iter()
    .map(|&line| line.to_owned())
    .collect();
    let input = Input::new(&lines);
    let url = format!("http://{address}");
    let arguments = [
        "ingest",
        input.path(),
        "--url",
        &url,
        "--data-stream",
        "a",
        "--timestamp-field",
        "time",
    ];
    let output = firn(&arguments);
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert!(
        error.contains("2 of 5 events indexed") && error.contains("3 rejected"),
        "{error}"
    );
    let mut rejected = input.rejected().expect("a side file");
    rejected.sort_by_key(|record| record["line"].as_u64());
    let found: Vec<_> = rejected
        .iter()
        .map(|record| (record["line"].clone(), record["raw"].clone()))
        .collect();
    assert_eq!(
        found,
        vec![
            (json!(3), json!("{\"time\":\"bad\"}")),
            (json!(4), json!("not json")),
            (json!(5), json!("{\"n\":2}")),
        ]
    );
    assert_eq!(rejected[0]["status"], 400);
    assert_eq!(rejected[0]["reason"], "status 400 for this one: because");
    assert!(
        rejected[2]["reason"]
            .as_str()
            .expect("a reason")
            .contains("[time] of --timestamp-field is missing")
    );
    let stored = stored.lock().expect("no panic");
    assert!(
        stored.contains_key("{\"@timestamp\":\"x\",\"time\":\"x\",\"n\":1}"),
        "{stored:?}"
    );
}

#[test]
fn a_broken_answer_without_ids_is_reported_and_not_repeated() {
    let (address, stored) = server(|call, _| (call == 1).then_some(Reply::Hang), |_, _| 201);
    let input = Input::numbered(30);
    let url = format!("http://{address}");
    let arguments = [
        "ingest",
        input.path(),
        "--url",
        &url,
        "--index",
        "a",
        "--batch-docs",
        "10",
        "--parallel",
        "1",
    ];
    let output = firn(&arguments);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("10 with unknown outcome"),
        "{}",
        stderr(&output)
    );
    all_once(&stored, 20);
    let rejected = input.rejected().expect("a side file");
    assert_eq!(rejected.len(), 10);
    assert_eq!(
        (&rejected[0]["type"], &rejected[0]["line"]),
        (&json!("unknown_outcome"), &json!(11))
    );
}

#[test]
fn a_broken_answer_with_ids_is_repeated() {
    let (address, stored) = server(
        |call, _| (call == 1).then_some(Reply::Hang),
        // The failed attempt had stored its events.
        |call, source| {
            if call == 2 && source.contains("\"n\":1") {
                409
            } else {
                201
            }
        },
    );
    let input = Input::numbered(30);
    let url = format!("http://{address}");
    let arguments = [
        "ingest",
        input.path(),
        "--url",
        &url,
        "--data-stream",
        "a",
        "--batch-docs",
        "10",
        "--parallel",
        "1",
        "--id-field",
        "n",
    ];
    let output = firn(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    // 11 to 19 were answered with 409.
    all_once(&stored, 21);
    assert!(input.rejected().is_none());
}

#[test]
fn a_request_that_is_too_large_is_halved() {
    let (address, stored) = server(
        |_, request| (request.events().len() > 3).then(|| Reply::Json(413, "{}".to_owned())),
        |_, _| 201,
    );
    let input = Input::numbered(50);
    let url = format!("http://{address}");
    let output = firn(&["ingest", input.path(), "--url", &url, "--index", "a"]);
    assert!(output.status.success(), "{}", stderr(&output));
    all_once(&stored, 50);
}

#[test]
fn a_server_that_refuses_us_stops_the_run() {
    let (address, _) = server(
        |_, _| {
            Some(Reply::Json(
                403,
                json!({"error": {"reason": "not allowed"}}).to_string(),
            ))
        },
        |_, _| 201,
    );
    let input = Input::numbered(5);
    let url = format!("http://{address}");
    let output = firn(&["ingest", input.path(), "--url", &url, "--index", "a"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("status 403: not allowed"),
        "{}",
        stderr(&output)
    );
    assert_eq!(input.rejected().expect("a side file").len(), 5);
}

#[test]
fn reads_standard_input_and_sends_the_requested_options() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let inner = Arc::clone(&seen);
    let address = serve(move |request| {
        let mut seen = inner.lock().expect("no panic");
        seen.push(format!("{} {}", request.method, request.path));
        seen.push(request.header("authorization").unwrap_or_default().to_owned());
        seen.extend(request.events().into_iter().map(|(action, _)| action));
        let items = vec![json!({"create": {"status": 201}}); request.events().len()];
        Reply::Json(200, json!({"errors": false, "items": items}).to_string())
    });
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("http://{address}/prefix/");
    let mut child = support::command(&[
        "ingest",
        "-",
        "--url",
        &url,
        "--data-stream",
        "logs-a",
        "--api-key",
        "KEY",
        "--tenant-field",
        "t",
    ])
    .current_dir(folder.path())
    .stdin(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .expect("firn runs");
    let input = zstd::encode_all(&b"{\"t\":\"acme\"}\n"[..], 1).expect("memory");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(&input)
        .expect("a written line");
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        *seen.lock().expect("no panic"),
        [
            "GET /prefix/",
            "ApiKey KEY",
            "HEAD /prefix/logs-a",
            "ApiKey KEY",
            "POST /prefix/logs-a/_bulk",
            "ApiKey KEY",
            "{\"create\":{\"routing\":\"acme\"}}",
        ]
    );
}

#[test]
fn mistakes_are_explained() {
    let check = |arguments: &[&str], part: &str| {
        let output = firn(arguments);
        assert!(!output.status.success());
        assert!(stderr(&output).contains(part), "{arguments:?}: {}", stderr(&output));
    };
    check(&["ingest", "x"], "--index");
    check(
        &["ingest", "x", "--index", "a", "--data-stream", "b"],
        "cannot be used with",
    );
    check(&["ingest", "x", "--index", "a", "--batch-bytes", "lots"], "lots");
    let input = Input::numbered(1);
    check(
        &["ingest", input.path(), "--index", "a", "--url", "http://127.0.0.1:1"],
        "the server does not answer",
    );
    let (address, _) = server(|_, _| None, |_, _| 201);
    let url = format!("http://{address}");
    check(
        &["ingest", "/nowhere/at/all", "--index", "a", "--url", &url],
        "/nowhere/at/all",
    );
}

#[test]
fn a_write_only_key_sends_to_a_data_stream_that_it_may_not_read() {
    let stored = Stored::default();
    let inner = Arc::clone(&stored);
    let address = serve(move |request| match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/") => Reply::Json(200, "{}".to_owned()),
        ("POST", path) if path.ends_with("/_bulk") => {
            let mut items = Vec::new();
            for (_, source) in request.events() {
                *inner.lock().expect("no panic").entry(source.to_owned()).or_default() += 1;
                items.push(json!({"create": {"status": 201}}));
            }
            Reply::Json(200, json!({"took": 1, "errors": false, "items": items}).to_string())
        }
        _ => Reply::Json(403, String::new()),
    });
    let input = Input::numbered(50);
    let url = format!("http://{address}");
    let output = firn(&["ingest", input.path(), "--url", &url, "--data-stream", "logs"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("may not read logs"), "{}", stderr(&output));
    all_once(&stored, 50);
}
