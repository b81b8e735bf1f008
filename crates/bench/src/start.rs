//! `firn bench start`: time to the first response with existing data.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firn_tools::client::{Client, Credentials};
use firn_tools::process::Process;

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
    /// Number of starts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
}

/// Starts and stops this program on the folder.
pub(super) fn run(args: &StartArgs) -> anyhow::Result<std::process::ExitCode> {
    if !args.data.is_dir() {
        bail!("{} is not a folder", args.data.display());
    }
    let mut times = Vec::new();
    for _ in 0..args.runs {
        times.push(start_once(args)?.as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let listed: Vec<String> = times.iter().map(|time| format!("{time:.3}")).collect();
    println!("median {:.3} s ({})", times[times.len() / 2], listed.join(", "));
    Ok(std::process::ExitCode::SUCCESS)
}

fn start_once(args: &StartArgs) -> anyhow::Result<Duration> {
    let port = free_port()?;
    let binary = std::env::current_exe().context("cannot find this program's file")?;
    let started = Instant::now();
    let mut child = Command::new(binary)
        .arg("serve")
        .args(["-E", &format!("http.port={port}"), "-E"])
        .arg(format!("path.data={}", args.data.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start the server")?;
    let client = Client::new(&format!("http://127.0.0.1:{port}"), &Credentials::default(), false)?;
    let waited = wait_for_answer(&client, started, Some(&mut child));
    Process(child.id()).terminate(PATIENCE)?;
    child.wait()?;
    waited
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
