//! CEF lines that servers parse, enrich, store durably and make searchable: a firn by an event pipeline, and beside it an OpenSearch by
//! an ingest pipeline with `grok`, `kv`, `date` and `geoip`. CPU time is that of the server's process, by its own statistics, from the
//! first request until a refresh and a flush are done.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firn_tools::client::{Client, Credentials};
use serde_json::{Value, json};

use super::PipelineArgs;
use super::workload;
use crate::markdown_table::Grid;

const INDEX: &str = "bench-pipeline-cef";
const PIPELINE: &str = "bench-pipeline-cef";
const LINES: usize = 20_000;
const BATCH: usize = 1000;
const SENDERS: usize = 4;
const PAUSE: Duration = Duration::from_millis(50);
const START_TIME_MAX: Duration = Duration::from_secs(30);

/// What one server did.
struct Stored {
    seconds: f64,
    cpu_seconds: f64,
    bytes: u64,
}

/// Measures the servers of the arguments and prints a table.
pub(super) fn run(args: &PipelineArgs) -> anyhow::Result<()> {
    let Some(url) = &args.url else { return Ok(()) };
    let mut rng = fastrand::Rng::with_seed(args.seed);
    let lines: Vec<String> = (0..LINES).map(|_| workload::cef(&mut rng)).collect();
    let head = [
        "server",
        "events",
        "seconds",
        "events/s",
        "CPU seconds",
        "events per CPU second",
        "stored MB",
    ];
    let mut grid = Grid::new(head.map(str::to_owned));
    let mut measure = |name: &str, url: &str, is_firn: bool| -> anyhow::Result<()> {
        let client = Client::new(url, &Credentials::default(), false)?;
        let stored = store(args, &client, is_firn, &lines).with_context(|| name.to_owned())?;
        let events = f64::from(args.stored_events);
        grid.rows.push(vec![
            name.to_owned(),
            args.stored_events.to_string(),
            format!("{:.1}", stored.seconds),
            format!("{:.0}", events / stored.seconds),
            format!("{:.1}", stored.cpu_seconds),
            format!("{:.0}", events / stored.cpu_seconds),
            format!("{:.1}", stored.bytes as f64 / 1e6),
        ]);
        Ok(())
    };
    measure("firn", url, true)?;
    if let Some(peer) = &args.peer_url {
        measure("OpenSearch", peer, false)?;
    }
    println!();
    print!("{}", grid.markdown());
    Ok(())
}

fn store(args: &PipelineArgs, client: &Client, is_firn: bool, lines: &[String]) -> anyhow::Result<Stored> {
    prepare(args, client, is_firn)?;
    let before = cpu_seconds(client)?;
    let started = Instant::now();
    send_all(client, is_firn, lines, u64::from(args.stored_events))?;
    let seconds = started.elapsed().as_secs_f64();
    client.json("POST", &format!("/{INDEX}/_refresh"), None)?;
    client.json("POST", &format!("/{INDEX}/_flush"), None)?;
    let cpu_seconds = cpu_seconds(client)? - before;
    let count = client.json("GET", &format!("/{INDEX}/_count"), None)?["count"].as_u64();
    if count != Some(u64::from(args.stored_events)) {
        bail!("{count:?} of {} events are stored", args.stored_events);
    }
    let stats = client.json("GET", &format!("/{INDEX}/_stats/store"), None)?;
    Ok(Stored {
        seconds,
        cpu_seconds,
        bytes: stats["_all"]["primaries"]["store"]["size_in_bytes"]
            .as_u64()
            .unwrap_or(0),
    })
}

/// Creates the index and the pipeline anew.
fn prepare(args: &PipelineArgs, client: &Client, is_firn: bool) -> anyhow::Result<()> {
    let delete = |path: String| {
        client
            .send("DELETE", &path, None)
            .map_err(|failure| anyhow::anyhow!("{failure}"))
    };
    delete(format!("/{INDEX}"))?;
    let ip = json!({"type": "ip"});
    let index = json!({
        "settings": {"index.number_of_shards": 1, "index.number_of_replicas": 0},
        "mappings": {
            "dynamic_templates": [{"texts": {"match_mapping_type": "string", "mapping": {"type": "keyword", "ignore_above": 1024}}}],
            "properties": {
                "@timestamp": {"type": "date"},
                "message": {"type": "text"},
                "event": {"properties": {"original": {"type": "keyword", "index": false, "doc_values": false}}},
                "source": {"properties": {"ip": ip}},
                "destination": {"properties": {"ip": ip}},
            },
        },
    });
    client.json("PUT", &format!("/{INDEX}"), Some(&index))?;
    if !is_firn {
        client.json(
            "PUT",
            &format!("/_ingest/pipeline/{PIPELINE}"),
            Some(&ingest_pipeline()),
        )?;
        return Ok(());
    }
    let path = format!("/_firn/pipelines/{PIPELINE}");
    delete(path.clone())?;
    let mut tables = json!({});
    for (name, file) in [("geoip-city", &args.geoip_city), ("geoip-asn", &args.geoip_asn)] {
        if let Some(file) = file {
            tables[name] = json!(file.canonicalize().with_context(|| file.display().to_string())?);
        }
    }
    let definition = json!({"source": {"type": "http"}, "pack": "cef", "tables": tables, "index": INDEX});
    client.json("PUT", &path, Some(&definition))?;
    let started = Instant::now();
    while client
        .json("GET", &format!("{path}/stats"), None)
        .ok()
        .is_none_or(|stats| stats["running"] != json!(true))
    {
        if started.elapsed() > START_TIME_MAX {
            bail!("the pipeline does not run");
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// The same fields as the pack `cef` gives them, as far as OpenSearch's processors can.
pub(crate) fn ingest_pipeline() -> Value {
    let mut processors = vec![
        json!({"grok": {"field": "message", "patterns": [
            "^CEF:%{NUMBER:cef.version}\\|%{DATA:observer.vendor}\\|%{DATA:observer.product}\\|%{DATA:observer.version}\\|\
             %{DATA:event.code}\\|%{DATA:rule.name}\\|%{NUMBER:event.severity:int}\\|%{GREEDYDATA:cef.text}$"]}}),
        json!({"kv": {"field": "cef.text", "target_field": "cef.fields", "field_split": " (?=[a-zA-Z0-9]+=)", "value_split": "="}}),
        json!({"remove": {"field": "cef.text"}}),
        json!({"rename": {"field": "message", "target_field": "event.original"}}),
        json!({"date": {"field": "cef.fields.rt", "formats": ["UNIX_MS"]}}),
        json!({"remove": {"field": "cef.fields.rt"}}),
    ];
    for (from, to) in [
        ("src", "source.ip"),
        ("dst", "destination.ip"),
        ("proto", "network.transport"),
        ("act", "event.action"),
        ("suser", "user.name"),
        ("shost", "source.domain"),
        ("dhost", "destination.domain"),
        ("app", "network.protocol"),
        ("deviceExternalId", "observer.serial_number"),
        ("outcome", "event.outcome"),
        ("request", "url.original"),
        ("msg", "message"),
        ("fname", "file.name"),
        ("cs1", "cef.extensions.Policy"),
    ] {
        processors.push(
            json!({"rename": {"field": format!("cef.fields.{from}"), "target_field": to, "ignore_missing": true}}),
        );
    }
    for (from, to) in [
        ("spt", "source.port"),
        ("dpt", "destination.port"),
        ("in", "source.bytes"),
        ("out", "destination.bytes"),
        ("cnt", "cef.extensions.cnt"),
    ] {
        let field = format!("cef.fields.{from}");
        processors
            .push(json!({"convert": {"field": field, "target_field": to, "type": "long", "ignore_missing": true}}));
        processors.push(json!({"remove": {"field": field, "ignore_missing": true}}));
    }
    for side in ["source", "destination"] {
        let field = format!("{side}.ip");
        processors
            .push(json!({"geoip": {"field": field, "target_field": format!("{side}.geo"), "ignore_missing": true}}));
    }
    json!({ "processors": processors })
}

/// Sends this many lines, with several requests at a time.
fn send_all(client: &Client, is_firn: bool, lines: &[String], events: u64) -> anyhow::Result<()> {
    let next = AtomicU64::new(0);
    let failure: Mutex<Option<anyhow::Error>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..SENDERS {
            scope.spawn(|| {
                loop {
                    let start = next.fetch_add(BATCH as u64, Ordering::Relaxed);
                    let is_failed = failure.lock().is_ok_and(|failure| failure.is_some());
                    if start >= events || is_failed {
                        return;
                    }
                    let count = (events - start).min(BATCH as u64) as usize;
                    let part = lines.iter().cycle().skip(start as usize % lines.len()).take(count);
                    if let Err(error) = send(client, is_firn, part)
                        && let Ok(mut failure) = failure.lock()
                    {
                        failure.get_or_insert(error);
                    }
                }
            });
        }
    });
    match failure.into_inner() {
        Ok(Some(error)) => Err(error),
        _ => Ok(()),
    }
}

fn send<'a>(client: &Client, is_firn: bool, lines: impl Iterator<Item = &'a String>) -> anyhow::Result<()> {
    let mut body = String::new();
    for line in lines {
        if is_firn {
            body.push_str(line);
        } else {
            body.push_str("{\"create\":{}}\n");
            body.push_str(&json!({ "message": line }).to_string());
        }
        body.push('\n');
    }
    let path = match is_firn {
        true => format!("/_firn/pipelines/{PIPELINE}/_events"),
        false => format!("/{INDEX}/_bulk?pipeline={PIPELINE}&filter_path=errors,items.*.error"),
    };
    loop {
        let sent = client.send("POST", &path, Some(("application/x-ndjson", body.as_bytes())));
        let answer = sent.map_err(|failure| anyhow::anyhow!("{failure}"))?;
        match answer.status {
            200 => {
                let parsed: Value = serde_json::from_slice(&answer.body)?;
                if parsed["errors"] == json!(true) || parsed["dead_lettered"].as_u64().is_some_and(|dead| dead > 0) {
                    bail!("some events were refused: {}", answer.problem());
                }
                return Ok(());
            }
            429 => std::thread::sleep(PAUSE),
            _ => bail!("{}", answer.problem()),
        }
    }
}

pub(crate) fn cpu_seconds(client: &Client) -> anyhow::Result<f64> {
    let stats = client.json("GET", "/_nodes/stats/process", None)?;
    let nodes = stats["nodes"]
        .as_object()
        .context("the server has no statistics of its process")?;
    let times = nodes
        .values()
        .map(|node| node["process"]["cpu"]["total_in_millis"].as_f64());
    let sum = times
        .sum::<Option<f64>>()
        .context("the server does not say what CPU time it has used")?;
    Ok(sum / 1000.0)
}
