//! Events of other sources beside `_bulk`: a firewall that speaks CEF by syslog, and a web server whose log comes by HTTP. Each has an
//! event pipeline, which maps its records onto common fields.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context;
use firn_model::dates::{DateFormat, Zone};
use firn_tools::generate::Random;
use serde_json::{Value, json};

use super::Demo;
use crate::clock::now_ms;

pub(super) const FIREWALL_INDEX: &str = "logs-firewall-demo";
pub(super) const WEB_INDEX: &str = "logs-web-demo";
const FIREWALL: &str = "demo-firewall";
const WEB: &str = "demo-web";
const TEMPLATE: &str = "/_index_template/firn-demo-logs";
const STEP: Duration = Duration::from_secs(1);
/// Pause before a source that cannot be reached is tried again.
const PAUSE: Duration = Duration::from_secs(5);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
/// Most lines of one source in one step.
const LINES_MAX: u64 = 4;
const DATE_OF_ACCESS_LOGS: &str = "dd/MMM/yyyy:HH:mm:ss Z";

/// Creates the pipelines and sends to them until the server stops.
pub(super) fn keep_coming(demo: &Demo<'_>, syslog: SocketAddr) {
    let mut random = Random::new(now_ms() as u64);
    let mut stream = None;
    let mut is_failing = false;
    while demo.sleep(STEP) {
        let sent = create(demo, syslog, is_failing).and_then(|()| send(demo, &mut random, syslog, &mut stream));
        match sent {
            Ok(()) => is_failing = false,
            Err(error) => {
                if !is_failing && !demo.is_stopping() {
                    tracing::warn!("cannot send the events of the demo's sources, trying again: {error:#}");
                }
                is_failing = true;
                stream = None;
                demo.sleep(PAUSE);
            }
        }
    }
}

/// Creates the pipelines at the first step, and again after a failure: they may have been deleted.
fn create(demo: &Demo<'_>, syslog: SocketAddr, again: bool) -> anyhow::Result<()> {
    if !again && demo.has_pipelines.swap(true, std::sync::atomic::Ordering::Relaxed) {
        return Ok(());
    }
    let address = json!({"type": "ip"});
    let mapping = json!({
        "dynamic_templates": [{"texts": {"match_mapping_type": "string", "mapping": {"type": "keyword", "ignore_above": 1024}}}],
        "properties": {
            "@timestamp": {"type": "date"},
            "message": {"type": "text"},
            "event": {"properties": {"original": {"type": "keyword", "index": false, "doc_values": false}}},
            "source": {"properties": {"ip": address}},
            "destination": {"properties": {"ip": address}},
        },
    });
    let template = json!({
        "index_patterns": [FIREWALL_INDEX, WEB_INDEX],
        "data_stream": {},
        "template": {"settings": {"index.number_of_shards": 1}, "mappings": mapping},
    });
    put(demo, TEMPLATE, &template)?;
    let firewall = json!({
        "description": "Firewall of the demo, CEF by syslog",
        "source": {"type": "syslog", "udp": syslog, "tcp": syslog},
        "pack": "cef",
        "index": FIREWALL_INDEX,
    });
    put(demo, &format!("/_firn/pipelines/{FIREWALL}"), &firewall)?;
    let web = json!({
        "description": "Web server of the demo, its access log by HTTP",
        "source": {"type": "http"},
        "pack": "nginx",
        "index": WEB_INDEX,
    });
    put(demo, &format!("/_firn/pipelines/{WEB}"), &web)
}

fn put(demo: &Demo<'_>, path: &str, body: &Value) -> anyhow::Result<()> {
    demo.client.json("PUT", path, Some(body)).map(drop)
}

fn send(
    demo: &Demo<'_>,
    random: &mut Random,
    syslog: SocketAddr,
    stream: &mut Option<TcpStream>,
) -> anyhow::Result<()> {
    let mut lines = String::new();
    for _ in 0..random.below(LINES_MAX + 1) {
        access_line(random, &mut lines)?;
    }
    if !lines.is_empty() {
        let body = Some(("application/x-ndjson", lines.as_bytes()));
        let path = format!("/_firn/pipelines/{WEB}/_events");
        let sent = demo.client.send("POST", &path, body);
        let answer = sent.map_err(|failure| anyhow::anyhow!("by HTTP: {failure}"))?;
        if answer.status != 200 {
            anyhow::bail!("by HTTP: {}", answer.problem());
        }
    }
    lines.clear();
    for _ in 0..random.below(LINES_MAX + 1) {
        cef_line(random, &mut lines);
    }
    if stream.is_none() {
        // The port may be another program's, which must not get these lines.
        let stats = demo
            .client
            .json("GET", &format!("/_firn/pipelines/{FIREWALL}/stats"), None)?;
        if stats["running"] != json!(true) || !stats["error"].is_null() {
            let reason = stats["error"].as_str().unwrap_or("it does not listen yet");
            anyhow::bail!("the pipeline [{FIREWALL}]: {reason}");
        }
        *stream = Some(TcpStream::connect_timeout(&syslog, CONNECT_TIME_MAX).context("by syslog")?);
    }
    if let Some(stream) = stream {
        stream.write_all(lines.as_bytes()).context("by syslog")?;
    }
    Ok(())
}

fn pick<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    from[random.below(from.len() as u64) as usize]
}

/// An address outside of the company: of the ranges that are set aside for examples.
fn public_address(random: &mut Random) -> String {
    let range = pick(random, &["192.0.2", "198.51.100", "203.0.113"]);
    format!("{range}.{}", random.below(255))
}

fn cef_line(random: &mut Random, out: &mut String) {
    let is_blocked = random.below(5) == 0;
    let (name, severity, action) = match is_blocked {
        true => ("Connection blocked", 7, "blocked"),
        false => ("Connection allowed", 2, "allowed"),
    };
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "<134>CEF:0|Example|Firewall|7.1|{}|{name}|{severity}|rt={} src={} spt={} dst=10.0.{}.{} dpt={} proto={} act={action} \
         suser={} out={}",
        if is_blocked { 101 } else { 100 },
        now_ms(),
        public_address(random),
        1024 + random.below(60_000),
        random.below(8),
        random.below(255),
        pick(random, &["443", "443", "443", "80", "22", "53"]),
        pick(random, &["TCP", "TCP", "UDP"]),
        pick(random, &["ann", "bob", "carol", "dave"]),
        random.below(90_000),
    );
}

fn access_line(random: &mut Random, out: &mut String) -> anyhow::Result<()> {
    let time = DateFormat::new(DATE_OF_ACCESS_LOGS)?.print_ms(now_ms(), &Zone::utc());
    writeln!(
        out,
        "{} - - [{time}] \"GET {} HTTP/1.1\" {} {} \"-\" \"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\"",
        public_address(random),
        pick(random, &["/", "/login", "/search?q=coat", "/cart", "/images/logo.svg"]),
        pick(random, &["200", "200", "200", "200", "304", "404", "500"]),
        200 + random.below(50_000),
    )?;
    Ok(())
}
