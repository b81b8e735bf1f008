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
pub(super) const SITES_INDEX: &str = "logs-sites-demo";
const FIREWALL: &str = "demo-firewall";
const WEB: &str = "demo-web";
const SITES: &str = "demo-sites";
const TEMPLATE: &str = "/_index_template/firn-demo-logs";
const STEP: Duration = Duration::from_secs(1);
/// Pause before a source that cannot be reached is tried again.
const PAUSE: Duration = Duration::from_secs(5);
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
/// Most lines of one source in one step.
const LINES_MAX: u64 = 4;
const DATE_OF_ACCESS_LOGS: &str = "dd/MMM/yyyy:HH:mm:ss Z";

/// Steps after which the incidents of the demo come again.
const CYCLE: u64 = 300;
/// Steps of a cycle in which they happen.
const SCAN_AT: u64 = 6;
const TRAVEL_AT: [u64; 2] = [10, 14];
const SILENT: std::ops::Range<u64> = 20..150;
/// Steps between the heartbeats of a site.
const HEARTBEAT_EVERY: u64 = 5;
/// Site that falls silent.
const SILENT_SITE: &str = "harbour";
const SITE_NAMES: [&str; 4] = ["airport", SILENT_SITE, "office", "warehouse"];
const SCANNED_PORTS: u64 = 30;

/// Creates the pipelines and sends to them until the server stops.
pub(super) fn keep_coming(demo: &Demo<'_>, syslog: SocketAddr) {
    let mut random = Random::new(now_ms() as u64);
    let mut stream = None;
    let mut is_failing = false;
    for step in 0.. {
        if !demo.sleep(STEP) {
            return;
        }
        let sent = create(demo, syslog, is_failing)
            .and_then(|()| send(demo, &mut random, syslog, &mut stream, step % CYCLE))
            .and_then(|()| send_of_sites(demo, &mut random, step % CYCLE));
        match sent {
            Ok(()) => is_failing = false,
            Err(error) => {
                if !is_failing && !demo.is_stopping() {
                    tracing::warn!("cannot send the events of the demo's sources, retrying: {error:#}");
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
    // First: a pipeline starts anew when it gets rules that count its events.
    create_rules(demo)?;
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
        "index_patterns": [FIREWALL_INDEX, WEB_INDEX, SITES_INDEX],
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
    put(demo, &format!("/_firn/pipelines/{WEB}"), &web)?;
    let sites = json!({
        "description": "Heartbeats and logons of the demo's sites, by HTTP",
        "source": {"type": "http"},
        "index": SITES_INDEX,
    });
    put(demo, &format!("/_firn/pipelines/{SITES}"), &sites)?;
    // The server notices new pipelines within a second.
    demo.sleep(STEP);
    Ok(())
}

/// Creates the rules of the incidents that the demo makes.
fn create_rules(demo: &Demo<'_>) -> anyhow::Result<()> {
    for (id, rule) in [
        (
            "demo-port-scan",
            json!({
                "type": "threshold", "name": "Port scan", "severity": "medium", "tags": ["attack.discovery", "attack.t1046"],
                "description": "One address was blocked on many ports within a minute.",
                "pipelines": [FIREWALL], "query": "event.action: blocked", "group_by": ["source.ip"],
                "window": "1m", "threshold": {"distinct": "destination.port", "at_least": 20},
            }),
        ),
        (
            "demo-impossible-travel",
            json!({
                "type": "threshold", "name": "Impossible travel", "severity": "high",
                "tags": ["attack.initial-access", "attack.t1078"],
                "description": "A user signed in from two countries within an hour.",
                "pipelines": [SITES], "query": "event.action: logon", "group_by": ["user.name"],
                "window": "1h", "threshold": {"distinct": "source.geo.country_iso_code", "at_least": 2},
            }),
        ),
        (
            "demo-silent-site",
            json!({
                "type": "absence", "name": "Silent site", "severity": "high",
                "description": "A site has sent no heartbeat for a minute.",
                "pipelines": [SITES], "query": "event.action: heartbeat", "group_by": ["observer.name"], "after": "1m",
            }),
        ),
    ] {
        put(demo, &format!("/_firn/rules/{id}"), &rule)?;
    }
    Ok(())
}

fn put(demo: &Demo<'_>, path: &str, body: &Value) -> anyhow::Result<()> {
    demo.client.json("PUT", path, Some(body)).map(drop)
}

fn send(
    demo: &Demo<'_>,
    random: &mut Random,
    syslog: SocketAddr,
    stream: &mut Option<TcpStream>,
    step: u64,
) -> anyhow::Result<()> {
    let mut lines = String::new();
    for _ in 0..random.below(LINES_MAX + 1) {
        access_line(random, &mut lines)?;
    }
    post(demo, WEB, &lines)?;
    lines.clear();
    if step == SCAN_AT {
        let address = public_address(random);
        for port in 0..SCANNED_PORTS {
            firewall_line(random, &address, &port.to_string(), true, &mut lines);
        }
    }
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

/// Sends lines to a pipeline by HTTP.
fn post(demo: &Demo<'_>, pipeline: &str, lines: &str) -> anyhow::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let body = Some(("application/x-ndjson", lines.as_bytes()));
    let sent = demo
        .client
        .send("POST", &format!("/_firn/pipelines/{pipeline}/_events"), body);
    let answer = sent.map_err(|failure| anyhow::anyhow!("by HTTP: {failure}"))?;
    match answer.status {
        200 => Ok(()),
        _ => anyhow::bail!("by HTTP: {}", answer.problem()),
    }
}

/// Sends the heartbeats and logons of a step.
fn send_of_sites(demo: &Demo<'_>, random: &mut Random, step: u64) -> anyhow::Result<()> {
    let now = DateFormat::default_millis().print_ms(now_ms(), &Zone::utc());
    let mut lines = String::new();
    let mut add = |event: Value| {
        // Writing to a string does not fail.
        let _ = writeln!(lines, "{event}");
    };
    if step.is_multiple_of(HEARTBEAT_EVERY) {
        let sending = SITE_NAMES
            .iter()
            .filter(|site| **site != SILENT_SITE || !SILENT.contains(&step));
        for site in sending {
            add(json!({"@timestamp": now, "event": {"action": "heartbeat"}, "observer": {"name": site}}));
        }
    }
    let mut logon = |user: &str, country: &str, address: String| {
        add(json!({
            "@timestamp": now, "event": {"action": "logon", "outcome": "success"}, "user": {"name": user},
            "source": {"ip": address, "geo": {"country_iso_code": country}}, "message": format!("{user} signed in from {country}"),
        }));
    };
    if random.below(8) == 0 {
        let (user, country) = [("ann", "NO"), ("bob", "DE"), ("carol", "FR")][random.below(3) as usize];
        logon(user, country, public_address(random));
    }
    if let Some(place) = TRAVEL_AT.iter().position(|at| *at == step) {
        logon("dave", ["NO", "BR"][place], public_address(random));
    }
    post(demo, SITES, &lines)
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
    let (address, is_blocked) = (public_address(random), random.below(5) == 0);
    let port = pick(random, &["443", "443", "443", "80", "22", "53"]);
    firewall_line(random, &address, port, is_blocked, out);
}

fn firewall_line(random: &mut Random, address: &str, port: &str, is_blocked: bool, out: &mut String) {
    let (name, severity, action) = match is_blocked {
        true => ("Connection blocked", 7, "blocked"),
        false => ("Connection allowed", 2, "allowed"),
    };
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "<134>CEF:0|Example|Firewall|7.1|{}|{name}|{severity}|rt={} src={address} spt={} dst=10.0.{}.{} dpt={port} proto={} \
         act={action} suser={} out={}",
        if is_blocked { 101 } else { 100 },
        now_ms(),
        1024 + random.below(60_000),
        random.below(8),
        random.below(255),
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
