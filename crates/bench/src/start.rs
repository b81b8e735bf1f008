//! `firn bench start`: time to the first response with existing data, or after a kill -9 under load.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firn_tools::client::{Client, Credentials};
use firn_tools::generate::{Generator, WeblogShape};
use firn_tools::process::Process;

use super::events::endless_weblog;

/// Seed of the events that are sent before a kill.
const SEED: u64 = 17;
const EVENTS_A_BULK: u64 = 2_000;
/// Bulk requests at a time.
const SENDERS: u64 = 4;
/// Interval between checks whether the server answers.
const POLL: Duration = Duration::from_millis(2);
/// Maximum time to wait for a start.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);

/// Arguments of `firn bench start`.
#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    /// Data folder of a stopped server
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Kill the server with SIGKILL before each start, once it has acknowledged this many further events; they go to the index `bench-start`
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u64).range(1..))]
    kill_after: Option<u64>,
    /// Number of starts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
}

/// Starts and stops this program on the folder.
pub(super) fn run(args: &StartArgs) -> anyhow::Result<std::process::ExitCode> {
    if !args.data.is_dir() {
        bail!("{} is not a folder", args.data.display());
    }
    let mut load = args.kill_after.map(Load::new).transpose()?;
    let (mut first, mut all) = (Vec::new(), Vec::new());
    for run in 0..args.runs {
        if let Some(load) = &mut load {
            let mut server = Server::start(args)?;
            load.send(&server.client, run)?;
            server.child.kill()?;
        }
        let started = Instant::now();
        let mut server = Server::start(args)?;
        first.push(server.first_answer.as_secs_f64());
        let health = server.client.json(
            "GET",
            "/_cluster/health?wait_for_no_initializing_shards=true&timeout=300s",
            None,
        )?;
        if health["timed_out"] != false || health["status"] == "red" {
            bail!("not all shards were opened: {health}");
        }
        all.push(started.elapsed().as_secs_f64());
        Process(server.child.id()).terminate(PATIENCE)?;
        server.child.wait()?;
    }
    print("the first answer", &mut first);
    print("all shards open", &mut all);
    Ok(std::process::ExitCode::SUCCESS)
}

fn print(what: &str, seconds: &mut [f64]) {
    seconds.sort_by(f64::total_cmp);
    let listed: Vec<String> = seconds.iter().map(|time| format!("{time:.3}")).collect();
    println!(
        "{what}: median {:.3} s ({})",
        seconds[seconds.len() / 2],
        listed.join(", ")
    );
}

/// This program as a server on the folder.
struct Server {
    child: Child,
    client: Client,
    first_answer: Duration,
}

impl Server {
    fn start(args: &StartArgs) -> anyhow::Result<Self> {
        let port = free_port()?;
        let binary = std::env::current_exe().context("cannot find this program's file")?;
        let started = Instant::now();
        let child = Command::new(binary)
            .arg("serve")
            .args(["-E", &format!("http.port={port}"), "-E"])
            .arg(format!("path.data={}", args.data.display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start the server")?;
        let mut server = Self {
            child,
            client: Client::new(&format!("http://127.0.0.1:{port}"), &Credentials::default(), false)?,
            first_answer: Duration::ZERO,
        };
        server.first_answer = wait_for_answer(&server.client, started, Some(&mut server.child))?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Of one that has ended there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Events that are sent before a kill.
struct Load {
    generator: Generator,
    events: u64,
}

impl Load {
    fn new(events: u64) -> anyhow::Result<Self> {
        let generator = endless_weblog(SEED, WeblogShape::default())?;
        Ok(Self { generator, events })
    }

    /// Sends the events, several bulks at a time, and returns once they are acknowledged.
    fn send(&mut self, client: &Client, run: u32) -> anyhow::Result<()> {
        let mut sent = 0;
        while sent < self.events {
            let mut lines = Vec::new();
            let batches: Vec<Vec<u8>> = (0..SENDERS)
                .map(|_| {
                    let mut body = Vec::new();
                    for _ in 0..EVENTS_A_BULK {
                        lines.clear();
                        self.generator.fill(&mut lines, 1, 0);
                        body.extend_from_slice(b"{\"create\":{}}\n");
                        body.extend_from_slice(&lines);
                    }
                    body
                })
                .collect();
            std::thread::scope(|scope| {
                let send = |body: &Vec<u8>| {
                    let answer = client
                        .send("POST", "/bench-start/_bulk", Some(("application/x-ndjson", body)))
                        .map_err(|failure| anyhow::anyhow!("a bulk request failed: {failure}"))?;
                    match answer.status {
                        200 => Ok(()),
                        _ => bail!("a bulk request failed: {}", answer.problem()),
                    }
                };
                let senders: Vec<_> = batches.iter().map(|body| scope.spawn(move || send(body))).collect();
                senders
                    .into_iter()
                    .try_for_each(|sender| sender.join().unwrap_or_else(|_| bail!("a sender panicked")))
            })?;
            sent += EVENTS_A_BULK * SENDERS;
        }
        let count = client.json("GET", "/bench-start/_stats/docs", None)?;
        println!(
            "run {run}: killed with {} documents",
            count["_all"]["primaries"]["docs"]["count"]
        );
        Ok(())
    }
}

/// Returns the time from `started` to the first 200 on `/`.
pub(super) fn wait_for_answer(
    client: &Client,
    started: Instant,
    mut child: Option<&mut Child>,
) -> anyhow::Result<Duration> {
    loop {
        if client.send("GET", "/", None).is_ok_and(|answer| answer.status == 200) {
            return Ok(started.elapsed());
        }
        if let Some(child) = &mut child
            && let Some(status) = child.try_wait()?
            && !status.success()
        {
            bail!("the server ended with {status} before it answered");
        }
        if started.elapsed() > PATIENCE {
            bail!("no response from {} within {PATIENCE:?}", client.base());
        }
        std::thread::sleep(POLL);
    }
}

/// Returns a port that no process listens on now.
pub(super) fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
