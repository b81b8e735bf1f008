//! `firn bench core`: the same work on one or two servers, alternating, and its cost on each.
//!
//! The two halves: [`crate::writing`] loads events and measures the stored data, [`crate::reading`] queries the loaded
//! indices.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use firn_tools::client::{Client, Credentials};
use firn_tools::generate::{Kind, WeblogShape};
use firn_tools::process::{Hardware, Process};
use serde_json::Value;

use super::report::{Report, Row, Server};
use super::{events, reading, start, writing};

/// Arguments of `firn bench core`.
#[derive(Debug, clap::Args)]
pub(crate) struct CoreArgs {
    /// URL of the first server
    #[arg(long, value_name = "A")]
    url: String,
    /// URL of the server to compare with
    #[arg(long, value_name = "B")]
    vs: Option<String>,
    /// Number of events to load
    #[arg(long, default_value_t = 1_000_000)]
    pub(super) events: u64,
    /// Kind of events
    #[arg(long, value_enum, default_value_t = Kind::Weblog)]
    pub(super) kind: Kind,
    #[command(flatten)]
    pub(super) weblog: WeblogShape,
    /// Number of tenants [default: 13; --profile unique: 200; --kind events: 40]
    #[arg(long)]
    pub(super) tenants: Option<usize>,
    /// Load the events of this file instead (NDJSON, plain, gzip or zstd), with dynamic mapping
    #[arg(long, value_name = "FILE", conflicts_with_all = ["events", "kind", "profile", "tenants"])]
    pub(super) file: Option<PathBuf>,
    /// Seed: the same seed gives the same events
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// The index is PREFIX-KIND or PREFIX-weblog-PROFILE; an existing index with this name is deleted first
    #[arg(long, value_name = "PREFIX", default_value = "bench")]
    pub(super) index_prefix: String,
    /// Concurrent bulk requests, to one server at a time
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) parallel: u16,
    /// Size of a bulk request in bytes of NDJSON
    #[arg(long, default_value_t = 5_000_000)]
    pub(super) batch_bytes: usize,
    /// Seconds without requests before the idle memory is read
    #[arg(long, default_value_t = 30)]
    pub(super) idle_seconds: u64,
    /// Keep the indices after the run
    #[arg(long)]
    pub(super) keep: bool,
    /// Query the segments after loading, without a merge
    #[arg(long)]
    pub(super) no_merge: bool,
    /// Load nothing: query the indices that an earlier run with --keep and the same events left
    #[arg(long, conflicts_with = "no_merge")]
    reads_only: bool,
    /// Rounds of queries; each round runs every query five times
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(super) rounds: u16,
    /// Warm-up rounds that are not measured
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(super) warm_up_rounds: u16,
    /// Process of A, if it is not the one that listens on the port of its URL
    #[arg(long)]
    pid_a: Option<u32>,
    /// Process of B
    #[arg(long)]
    pid_b: Option<u32>,
    /// Shell command that starts A again: stops A with SIGTERM and measures the time to its first response
    #[arg(long, value_name = "COMMAND")]
    start_cmd_a: Option<String>,
    /// Shell command that starts B again
    #[arg(long, value_name = "COMMAND")]
    start_cmd_b: Option<String>,
    /// Used for both servers; the URL of one of them may contain another user
    #[command(flatten)]
    credentials: Credentials,
    /// Write all results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the table to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// One of the servers.
pub(super) struct Side {
    pub(super) client: Client,
    pub(super) server: Server,
    /// `None`: on another machine; CPU and memory stay unknown.
    pub(super) process: Option<Process>,
    start_command: Option<String>,
}

/// Runs all measurements and writes the report.
pub(super) fn run(args: &CoreArgs) -> anyhow::Result<std::process::ExitCode> {
    let mut sides = vec![Side::connect(
        &args.url,
        &args.credentials,
        args.pid_a,
        args.start_cmd_a.clone(),
    )?];
    if let Some(url) = &args.vs {
        sides.push(Side::connect(
            url,
            &args.credentials,
            args.pid_b,
            args.start_cmd_b.clone(),
        )?);
    }
    let index = format!("{}-{}", args.index_prefix, events::name(args));
    let written = if args.reads_only {
        writing::look(&sides, &index)?
    } else {
        writing::run(args, &sides, &index)?
    };
    let (mut rows, mut notes) = (written.rows, written.notes);
    let mut questions = Vec::new();
    if args.rounds > 0 {
        let read = reading::run(args, &sides, &index)?;
        rows.push(read.resident_row());
        questions = read.questions;
        notes.extend(read.notes);
    }
    rows.push(start_row(&sides)?);
    if !args.keep && !args.reads_only {
        writing::clean_up(&sides, &index)?;
    }

    let mut servers = sides.into_iter().map(|side| side.server);
    let report = Report {
        command: command_line(),
        time: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
        hardware: Hardware::read(),
        a: servers.next().context("there is always a first server")?,
        b: servers.next(),
        what: events::name(args),
        profile: args.weblog.profile,
        events: written.events,
        ndjson_bytes: written.ndjson_bytes,
        notes,
        rows,
        questions,
    };
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    match &args.markdown {
        Some(path) => {
            std::fs::write(path, report.markdown()).with_context(|| format!("cannot write {}", path.display()))?
        }
        None => print!("{}", report.markdown()),
    }
    Ok(std::process::ExitCode::SUCCESS)
}

impl Side {
    pub(super) fn connect(
        url: &str,
        credentials: &Credentials,
        pid: Option<u32>,
        start_command: Option<String>,
    ) -> anyhow::Result<Self> {
        let client = Client::new(url, credentials, false)?;
        let root = client.json("GET", "/", None)?;
        let process = match pid {
            Some(pid) => Some(Process(pid)),
            None => find_process(client.base())?,
        };
        Ok(Self {
            server: Server {
                url: client.base().to_owned(),
                version: version(&root),
            },
            client,
            process,
            start_command,
        })
    }

    /// Stops the server and measures its start, if there is a start command.
    fn restart_seconds(&self) -> anyhow::Result<Option<f64>> {
        let (Some(command), Some(process)) = (&self.start_command, self.process) else {
            return Ok(None);
        };
        eprintln!("stopping and starting {}", self.server.version);
        process.terminate(start::PATIENCE)?;
        // Wait until the port is free again.
        std::thread::sleep(Duration::from_millis(200));
        let started = Instant::now();
        let mut child = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run `{command}`"))?;
        start::wait_for_answer(&self.client, started, Some(&mut child)).map(|time| Some(time.as_secs_f64()))
    }
}

fn start_row(sides: &[Side]) -> anyhow::Result<Row> {
    let mut seconds = Vec::new();
    for side in sides {
        seconds.push(side.restart_seconds()?);
    }
    Ok(Row::new(
        "start with the data in place",
        "s",
        super::report::Better::Lower,
        seconds[0],
        seconds.get(1).copied().flatten(),
    ))
}

/// Returns the process behind a URL of this machine.
fn find_process(base: &str) -> anyhow::Result<Option<Process>> {
    let authority = base.split_once("://").map_or(base, |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or(authority);
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, "9200"));
    let local = matches!(host, "localhost" | "[::1]") || host.starts_with("127.");
    if !local {
        eprintln!("{base} is not on this machine: its CPU time and memory are unknown");
        return Ok(None);
    }
    let port = port.parse().with_context(|| format!("{base} has no port number"))?;
    Process::listening_on(port).map(Some)
}

/// Returns name and version from `GET /`.
fn version(root: &Value) -> String {
    let text = |pointer: &str| root.pointer(pointer).and_then(Value::as_str);
    if let Some(firn) = text("/version/firn") {
        return format!("firn {firn}");
    }
    let name = text("/version/distribution").unwrap_or("elasticsearch");
    format!("{name} {}", text("/version/number").unwrap_or("of unknown version"))
}

/// Returns the command line without the path of the program.
pub(super) fn command_line() -> String {
    let arguments = std::env::args().skip(1).map(|argument| {
        let plain = argument
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_./:=,".contains(c));
        if plain { argument } else { format!("'{argument}'") }
    });
    std::iter::once("firn".to_owned())
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}
