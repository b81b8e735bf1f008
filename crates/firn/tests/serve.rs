//! Server process: ready and pid files, logs, clean shutdown, and the demo.

mod support;

use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use firn_testkit::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

struct Running {
    child: Child,
    client: Client,
}

impl Running {
    /// Starts a command that takes the settings of `serve` and waits until `ready` returns its URL.
    fn start(folder: &Path, arguments: &[&str], ready: impl Fn(&Path) -> Option<String>) -> Self {
        let output = std::fs::File::create(folder.join("output")).expect("a file");
        let child = support::command(arguments)
            .current_dir(folder)
            .args(["-E", "http.port=0", "-E", "path.data=data"])
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a second handle"))
            .stderr(output)
            .spawn()
            .expect("firn runs");
        // Created first, so that the process ends with the test in every case.
        let mut running = Self {
            child,
            client: Client::new(""),
        };
        let started = Instant::now();
        loop {
            if let Some(url) = ready(folder) {
                running.client = Client::new(url);
                return running;
            }
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "not ready: {}",
                output_of(folder)
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn serve(folder: &Path, more: &[&str]) -> Self {
        let _ = std::fs::remove_file(folder.join("ready"));
        let mut arguments = vec!["serve", "--ready-file", "ready", "--pid-file", "pid"];
        arguments.extend(more);
        Self::start(folder, &arguments, |folder| {
            let url = std::fs::read_to_string(folder.join("ready")).ok()?;
            Some(url.trim().to_owned())
        })
    }

    fn demo(folder: &Path) -> Self {
        let syslog = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let syslog = syslog.expect("a free port").to_string();
        Self::demo_with(folder, &["--fill", "2000", "--live", "50", "--syslog", &syslog])
    }

    fn demo_with(folder: &Path, more: &[&str]) -> Self {
        let arguments = [&["demo", "--tenants", "5"], more].concat();
        Self::start(folder, &arguments, |folder| {
            let output = output_of(folder);
            let (_, rest) = output.split_once("firn answers on ")?;
            Some(rest.split_whitespace().next()?.to_owned())
        })
    }

    fn stop(mut self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("small")).expect("positive");
        kill_process(pid, signal).expect("a signal");
        let status = self.child.wait().expect("an end");
        assert_eq!(status.code(), Some(0));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn output_of(folder: &Path) -> String {
    let mut text = String::new();
    if let Ok(mut file) = std::fs::File::open(folder.join("output")) {
        let _ = file.read_to_string(&mut text);
    }
    text
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let started = Instant::now();
    while !there() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what} did not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn serves_stops_cleanly_and_finds_its_data_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = [
        "-E",
        "logger.format=json",
        "-E",
        "cluster.name=blue",
        "-E",
        "node.name=one",
    ];
    let running = Running::serve(folder.path(), &settings);
    let pid = std::fs::read_to_string(folder.path().join("pid")).expect("a pid file");
    assert_eq!(pid.trim(), running.child.id().to_string());
    let root = running.client.get("/").expect("an answer").json();
    assert_eq!((&root["cluster_name"], &root["name"]), (&json!("blue"), &json!("one")));
    let answer = running
        .client
        .json("PUT", "/a/_doc/1", &json!({"n": 1}))
        .expect("an answer");
    assert_eq!(answer.status, 201, "{}", answer.text());
    let metrics = running.client.get("/metrics").expect("an answer").text();
    assert!(metrics.contains("process_resident_memory_bytes "), "{metrics}");
    running.stop(Signal::TERM);

    for line in output_of(folder.path()).lines() {
        let record: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(record["level"].is_string() && record["message"].is_string(), "{line}");
    }
    assert!(!folder.path().join("pid").exists());

    let running = Running::serve(folder.path(), &[]);
    let found = running.client.get("/a/_doc/1").expect("an answer").json();
    assert_eq!(found["_source"], json!({"n": 1}));
    running.stop(Signal::INT);
}

#[test]
fn a_taken_port_and_a_taken_folder_are_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let running = Running::serve(folder.path(), &[]);
    let address = running.client.base().strip_prefix("http://").expect("a URL").to_owned();
    let port = address.rsplit_once(':').expect("a port").1;
    let check = |port: &str, data: &str, part: &str| {
        let output = support::command(&["serve", "--port", port, "--data", data])
            .current_dir(folder.path())
            .output()
            .expect("firn runs");
        assert_eq!(output.status.code(), Some(1));
        assert!(support::stderr(&output).contains(part), "{}", support::stderr(&output));
    };
    check(port, "other", &format!("cannot listen on {address}"));
    check("0", "data", "cannot open the data in data");
    running.stop(Signal::TERM);
}

#[test]
fn the_demo_fills_once_and_keeps_events_coming() {
    let folder = tempfile::tempdir().expect("a folder");
    let count = |running: &Running| {
        let _ = running.client.json("POST", "/events-demo/_refresh", &json!({}));
        let answer = running.client.get("/events-demo/_count").ok()?;
        answer.json()["count"].as_u64()
    };
    let running = Running::demo(folder.path());
    wait_for("the live stream", || count(&running).is_some_and(|count| count > 2000));
    let output = output_of(folder.path());
    assert!(output.contains("2,000 of 2,000 events indexed"), "{output}");
    let tries: Vec<&str> = output.lines().filter(|line| line.starts_with("curl ")).collect();
    assert_eq!(tries.len(), 3, "{output}");
    for line in tries {
        let answer = std::process::Command::new("sh")
            .args(["-c", line])
            .output()
            .expect("sh runs");
        let body: Value = serde_json::from_slice(&answer.stdout).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(body["hits"]["total"]["value"].as_u64() > Some(0), "{line}: {body}");
    }
    // Other sources than `_bulk`: an event of each, and one by the command that the demo prints.
    let found = |index: &str, query: &str| {
        let _ = running.client.json("POST", &format!("/{index}/_refresh"), &json!({}));
        let answer = running.client.get(&format!("/{index}/_count?q={query}")).ok()?;
        answer.json()["count"].as_u64().filter(|count| *count > 0)
    };
    wait_for("an event by syslog", || {
        found("logs-firewall-demo", "destination.ip:10.0.0.0%5C/16").is_some()
    });
    wait_for("an event by HTTP", || {
        found("logs-web-demo", "user_agent.original:*").is_some()
    });
    let echo = output
        .lines()
        .find(|line| line.starts_with("echo "))
        .expect("a command");
    wait_for("the command's event", || {
        let sent = std::process::Command::new("bash").args(["-c", echo]).status();
        assert!(sent.expect("bash runs").success());
        found("logs-firewall-demo", "rule.name:Hello").is_some()
    });
    for rule in ["demo-port-scan", "demo-impossible-travel"] {
        wait_for(rule, || found(".alerts-default", &format!("rule.id:{rule}")).is_some());
    }
    running.stop(Signal::INT);

    let running = Running::demo(folder.path());
    wait_for("the second start", || {
        output_of(folder.path()).contains("from an earlier run")
    });
    let before = count(&running).expect("a count");
    assert!((2000..4000).contains(&before), "filled again: {before}");
    wait_for("the live stream", || {
        count(&running).is_some_and(|count| count > before)
    });
    running.stop(Signal::INT);
}

#[test]
fn the_demo_goes_on_at_the_pace_of_its_history() {
    const HOUR_MS: u64 = 3_600_000;
    /// Of the history's 20,000 events in a day.
    const AN_HOUR: f64 = 20_000.0 / 24.0;
    let folder = tempfile::tempdir().expect("a folder");
    let since = |from_ms: u64| json!({"query": {"range": {"@timestamp": {"gte": from_ms}}}});
    let count = |running: &Running, from_ms: u64| {
        let _ = running.client.json("POST", "/events-demo/_refresh", &json!({}));
        let answer = running
            .client
            .json("POST", "/events-demo/_count", &since(from_ms))
            .ok()?;
        answer.json()["count"].as_u64()
    };
    let history = ["--fill", "20000", "--days", "1"];
    let running = Running::demo_with(folder.path(), &[&history[..], &["--live", "0"]].concat());
    wait_for("the history", || output_of(folder.path()).contains("events indexed in"));
    // As if it had been stopped an hour ago.
    let stopped_ms = now_ms() - HOUR_MS;
    let path = "/events-demo/_delete_by_query?refresh=true";
    let deleted = running
        .client
        .json("POST", path, &since(stopped_ms))
        .expect("an answer");
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    running.stop(Signal::INT);

    let started_ms = now_ms();
    let running = Running::demo_with(folder.path(), &history);
    // Current events arrive, and the time in which the demo did not run is filled.
    wait_for("the live stream", || {
        count(&running, started_ms).is_some_and(|count| count > 0)
    });
    assert!(output_of(folder.path()).contains("Sending new events at the rate of the history"));
    let hours = (now_ms() - stopped_ms) as f64 / HOUR_MS as f64;
    let found = count(&running, stopped_ms).expect("a count") as f64;
    // The quietest hour of a Saturday has 0.19 of an average hour of the Friday before, the busiest of a Monday 3.5 of
    // the Sunday before; bursts are added.
    let expected = 0.1 * AN_HOUR * hours..8.0 * AN_HOUR * hours;
    assert!(
        expected.contains(&found),
        "{found} events in {hours} hours, not {expected:?}"
    );
    running.stop(Signal::INT);
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("a clock").as_millis() as u64
}

/// Returns the lines of the slow-query log from a log of JSON lines.
fn slow_searches(folder: &Path) -> Vec<Value> {
    let output = output_of(folder);
    let lines = output
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["target"] == "firn::slowlog").collect()
}

#[test]
fn slow_searches_are_logged_with_their_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let threshold = "index.search.slowlog.threshold.query.warn";
    let settings = ["-E", "logger.format=json", "-E", &format!("{threshold}=0ms")];
    let node = Running::serve(folder.path(), &settings);
    let answer = node.client.json("POST", "/slow/_doc?refresh=true", &json!({"a": 1}));
    assert_eq!(answer.expect("an answer").status, 201);
    assert_eq!(
        slow_searches(folder.path()),
        Vec::<Value>::new(),
        "writes are no searches"
    );

    let long = "x".repeat(5000);
    let body = json!({"query": {"bool": {"must_not": {"term": {"a": long}}}}});
    let answer = node.client.json("POST", "/slow/_search", &body).expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let failing = json!({"aggs": {"a": {"terms": {"field": "_id"}}}});
    assert_eq!(
        node.client
            .json("POST", "/slow/_search", &failing)
            .expect("an answer")
            .status,
        400
    );
    wait_for("the log of two searches", || slow_searches(folder.path()).len() == 2);
    let [first, second] = &slow_searches(folder.path())[..] else {
        panic!("two lines");
    };
    assert_eq!(
        (
            &first["level"],
            &first["indices"],
            &first["total_hits"],
            &first["error"]
        ),
        (&json!("WARN"), &json!("slow"), &json!(1), &Value::Null),
        "{first}"
    );
    assert!(first["took_ms"].is_u64() && first["timestamp"].is_string(), "{first}");
    // Of a long body only the beginning, and its length.
    let source = first["source"].as_str().expect("a source");
    assert!(
        source.starts_with(r#"{"query":{"bool""#) && source.len() == 2048,
        "{source}"
    );
    assert_eq!(first["source_bytes"], body.to_string().len());
    assert!(
        second["error"].as_str().is_some_and(|error| error.contains("_id")),
        "{second}"
    );
    node.stop(Signal::TERM);

    let node = Running::serve(
        folder.path(),
        &["-E", "logger.format=json", "-E", &format!("{threshold}=-1")],
    );
    let logged = slow_searches(folder.path()).len();
    assert_eq!(
        node.client
            .json("POST", "/slow/_search", &json!({}))
            .expect("an answer")
            .status,
        200
    );
    node.stop(Signal::TERM);
    assert!(slow_searches(folder.path()).len() <= logged, "-1 is never");
}
