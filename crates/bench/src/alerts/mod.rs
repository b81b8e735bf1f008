//! `firn bench alerts`: time from an event to the mail of its alert.
//!
//! This program starts as a server on a folder of its own, and beside it an SMTP server. Events come by HTTP at a fixed rate. Some raise an
//! alert of a query rule; others come ten at a time with a new key and raise one of a threshold rule; others have a key that
//! never comes again and raise one of an absence rule, which is measured from the end of its window in the time of the events. Each mail
//! has the key in its subject, so that it is known which event it is of.

mod load;
mod mail_server;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firn_tools::client::{Client, Credentials};
use firn_tools::process::Process;
use jiff::Timestamp;
use serde_json::{Value, json};

use self::load::{Sent, Stream, Trigger};
use self::mail_server::MailServer;
use crate::markdown_table::Grid;
use crate::start;

const PIPELINE: &str = "bench-alerts";
/// Events with the same key after which the threshold rule raises an alert.
const THRESHOLD: u64 = 10;
const PAUSE: Duration = Duration::from_millis(50);
/// How long the pipeline may take to run, and the last mail to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Arguments of `firn bench alerts`.
#[derive(Debug, clap::Args)]
pub(crate) struct AlertsArgs {
    /// Folder for the data of the server; must not exist, and is removed at the end
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// Events per second
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    rate: u64,
    /// Duration of the load, in seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Alerts of each rule per second; a channel sends at most 100 mails per second
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=30))]
    alerts_per_second: u64,
    /// Seed of the events
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Most alerts of a rule in a run: a search finds as many.
const ALERTS_MAX: u64 = 10_000;

/// Measures and prints a table.
pub(super) fn run(args: &AlertsArgs) -> anyhow::Result<ExitCode> {
    if args.seconds * args.alerts_per_second > ALERTS_MAX {
        bail!("a run has at most {ALERTS_MAX} alerts of each rule");
    }
    std::fs::create_dir(&args.folder).with_context(|| format!("cannot create {}", args.folder.display()))?;
    let measured = measure(args);
    // The log stays if something failed.
    if measured.is_ok() {
        std::fs::remove_dir_all(&args.folder)?;
    }
    print(args, &measured?)
}

/// What a run found.
struct Measured {
    sent: Sent,
    /// When mails were accepted, by their subjects.
    accepted: HashMap<String, Instant>,
    /// Ends of the windows of the absence rule by the subjects of the mails, as the clock of the mails has them.
    window_ends: HashMap<String, Instant>,
}

fn measure(args: &AlertsArgs) -> anyhow::Result<Measured> {
    let server = MailServer::start()?;
    let node = Node::start(&args.folder)?;
    prepare(&node.client, server.port())?;
    let stream = Stream {
        rate: args.rate,
        seconds: args.seconds,
        alerts_per_second: args.alerts_per_second,
        seed: args.seed,
    };
    let sent = stream.send(&node.client)?;
    let started = Instant::now();
    let is_complete = || {
        let accepted = server.accepted();
        sent.triggers
            .iter()
            .all(|trigger| accepted.contains_key(&trigger.subject))
    };
    while !is_complete() && started.elapsed() < PATIENCE {
        std::thread::sleep(PAUSE);
    }
    Ok(Measured {
        accepted: server.accepted(),
        window_ends: window_ends(&node.client)?,
        sent,
    })
}

/// Returns when the windows of the absence rule ended.
fn window_ends(client: &Client) -> anyhow::Result<HashMap<String, Instant>> {
    client.json("POST", "/.alerts-default/_refresh", None)?;
    let body = json!({
        "size": 10_000, "query": {"term": {"rule.id": "absence"}}, "fields": ["bench.key"],
        "_source": ["firn.alert.window.end"],
    });
    let found = client.json("POST", "/.alerts-default/_search", Some(&body))?;
    let hits = found["hits"]["hits"].as_array().context("a search has hits")?;
    let (now, now_ms) = (Instant::now(), Timestamp::now().as_millisecond());
    let mut ends = HashMap::new();
    for hit in hits {
        let source = &hit["_source"];
        let end = source["firn"]["alert"]["window"]["end"].as_str();
        let end: Timestamp = end.context("an alert has a window")?.parse()?;
        let ago_ms = u64::try_from(now_ms - end.as_millisecond()).unwrap_or(0);
        let subject = hit["fields"]["bench.key"][0].as_str().unwrap_or_default();
        if let Some(end) = now.checked_sub(Duration::from_millis(ago_ms)) {
            ends.insert(subject.to_owned(), end);
        }
    }
    Ok(ends)
}

fn print(args: &AlertsArgs, measured: &Measured) -> anyhow::Result<ExitCode> {
    let Measured {
        sent,
        accepted,
        window_ends,
    } = measured;
    let head = [
        "alerts of",
        "mails",
        "measured from",
        "p50, ms",
        "p90, ms",
        "p99, ms",
        "max, ms",
    ];
    let mut grid = Grid::new(head.map(str::to_owned));
    let mut missing = 0;
    let mut add = |rule: &str, label: &str, from: &str, start: &dyn Fn(&Trigger) -> Option<Instant>| {
        let mut times = Vec::new();
        for trigger in sent.triggers.iter().filter(|trigger| trigger.subject.starts_with(rule)) {
            match (accepted.get(&trigger.subject), start(trigger)) {
                (Some(mail), Some(start)) => times.push(mail.saturating_duration_since(start)),
                _ => missing += 1,
            }
        }
        times.sort_unstable();
        let at = |part: f64| {
            let place = ((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1));
            let time = times.get(place);
            time.map_or_else(String::new, |time| format!("{:.0}", time.as_secs_f64() * 1000.0))
        };
        let mut row = [label, &times.len().to_string(), from].map(str::to_owned).to_vec();
        row.extend([0.5, 0.9, 0.99, 1.0].map(at));
        grid.rows.push(row);
    };
    for (rule, label) in [("query", "a query rule"), ("threshold", "a threshold rule")] {
        add(rule, label, "event sent", &|trigger| Some(trigger.sent));
        add(rule, label, "event acknowledged", &|trigger| Some(trigger.acknowledged));
    }
    let end = |trigger: &Trigger| window_ends.get(&trigger.subject).copied();
    add("absence", "an absence rule", "end of its window", &end);
    print!("{}", grid.markdown());
    println!(
        "\n{} events at {} events/s; a batch was sent at most {:.0} ms too late.",
        sent.events,
        args.rate,
        sent.late_max.as_secs_f64() * 1000.0,
    );
    match missing {
        0 => Ok(ExitCode::SUCCESS),
        missing => bail!("{missing} mails did not come within {PATIENCE:?}"),
    }
}

/// Stores the channel, the rules and the pipeline, and waits until the pipeline evaluates the rules.
fn prepare(client: &Client, smtp_port: u16) -> anyhow::Result<()> {
    let channel = json!({
        "type": "email", "host": "127.0.0.1", "port": smtp_port, "tls": "none", "from": "firn <firn@example.com>",
        "to": ["ann@example.com"], "subject": "{{bench.key}}", "max_per_minute": 6000,
    });
    let query = json!({
        "type": "query", "name": "Query", "query": "event.action: query", "severity": "high", "channels": ["mail"],
    });
    let threshold = json!({
        "type": "threshold", "name": "Threshold", "query": "event.action: threshold", "severity": "high", "channels": ["mail"],
        "group_by": ["bench.key"], "window": "10s", "threshold": {"count": THRESHOLD},
    });
    let absence = json!({
        "type": "absence", "name": "Absence", "query": "event.action: heartbeat", "severity": "high", "channels": ["mail"],
        "group_by": ["bench.key"], "after": "10s",
    });
    let pipeline = json!({"source": {"type": "http"}, "index": PIPELINE});
    for (path, body) in [
        ("/_firn/channels/mail", channel),
        ("/_firn/rules/query", query),
        ("/_firn/rules/threshold", threshold),
        ("/_firn/rules/absence", absence),
        (&*format!("/_firn/pipelines/{PIPELINE}"), pipeline),
    ] {
        client.json("PUT", path, Some(&body))?;
    }
    let started = Instant::now();
    let is_ready = || -> Option<bool> {
        let stats = client
            .json("GET", &format!("/_firn/pipelines/{PIPELINE}/stats"), None)
            .ok()?;
        let channels = client.json("GET", "/_firn/channels/_stats", None).ok()?;
        let evaluated: &Value = &stats["rules"]["evaluated"];
        Some(stats["running"] == json!(true) && evaluated == &json!(3) && channels.get("mail").is_some())
    };
    while is_ready() != Some(true) {
        if started.elapsed() > PATIENCE {
            bail!("the pipeline does not run");
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// This program as a server.
struct Node {
    child: Child,
    client: Client,
}

impl Node {
    fn start(folder: &Path) -> anyhow::Result<Self> {
        let port = start::free_port()?;
        let log = folder.join("firn.log");
        let child = Command::new(std::env::current_exe().context("cannot find this program's file")?)
            .arg("serve")
            .args(["-E", &format!("http.port={port}"), "-E"])
            .arg(format!("path.data={}", folder.join("data").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .context("cannot start a server")?;
        let url = format!("http://127.0.0.1:{port}");
        let mut node = Self {
            child,
            client: Client::new(&url, &Credentials::default(), false)?,
        };
        start::wait_for_answer(&node.client, Instant::now(), Some(&mut node.child))
            .with_context(|| format!("see {}", log.display()))?;
        Ok(node)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if Process(self.child.id()).terminate(Duration::from_secs(30)).is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
