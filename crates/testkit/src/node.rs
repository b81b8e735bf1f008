//! A firn process of a test's own.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::Client;

/// How a node starts.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    /// Settings given as `-E name=value`.
    pub settings: Vec<(String, String)>,
}

/// `firn serve` on a free port of 127.0.0.1. Killed when dropped; its folder is the caller's.
pub struct Node {
    child: Child,
    client: Client,
    port: u16,
    log: PathBuf,
    /// From spawning the process to its first answer.
    pub start_time: Duration,
}

impl Node {
    /// Starts `binary` with data under `folder` and waits until it answers and has opened every shard.
    pub fn start(binary: &Path, folder: &Path, options: &NodeOptions) -> Result<Self> {
        let node = Self::start_recovering(binary, folder, options)?;
        // Where security is on, this is refused, and the caller does its own waiting.
        node.client
            .get("/_cluster/health?wait_for_no_initializing_shards=true&timeout=60s")
            .with_context(|| format!("it said that it was ready; its log:\n{}", node.log()))?;
        Ok(node)
    }

    /// The same, but only waits until it answers: shards with a long write-ahead log are still being opened.
    pub fn start_recovering(binary: &Path, folder: &Path, options: &NodeOptions) -> Result<Self> {
        Self::start_asked_by(binary, folder, options, |port| {
            Ok(Client::new(format!("http://127.0.0.1:{port}")))
        })
    }

    /// The same with options that make it show this certificate (PEM): it is asked through HTTPS.
    pub fn start_with_certificate(
        binary: &Path,
        folder: &Path,
        options: &NodeOptions,
        certificate: &[u8],
    ) -> Result<Self> {
        Self::start_asked_by(binary, folder, options, |port| {
            Client::trusting(format!("https://127.0.0.1:{port}"), certificate)
        })
    }

    fn start_asked_by(
        binary: &Path,
        folder: &Path,
        options: &NodeOptions,
        client_of: impl FnOnce(u16) -> Result<Client>,
    ) -> Result<Self> {
        let port = free_port()?;
        let client = client_of(port)?;
        let log = folder.join("firn.log");
        let log_file = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
        let mut command = Command::new(binary);
        command.arg("serve");
        let own = [
            ("http.port".to_owned(), port.to_string()),
            ("path.data".to_owned(), folder.join("data").display().to_string()),
        ];
        for (name, value) in own.iter().chain(&options.settings) {
            command.arg("-E").arg(format!("{name}={value}"));
        }
        let started = Instant::now();
        let child = command
            .stdin(Stdio::null())
            .stdout(log_file.try_clone()?)
            .stderr(log_file)
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let mut node = Self {
            child,
            client,
            port,
            log,
            start_time: Duration::ZERO,
        };
        loop {
            // Where security is on, it answers that it knows nobody.
            if node
                .client
                .get("/")
                .is_ok_and(|answer| matches!(answer.status, 200 | 401))
            {
                node.start_time = started.elapsed();
                return Ok(node);
            }
            if let Some(status) = node.child.try_wait()? {
                bail!("firn ended with {status} before it answered:\n{}", node.log());
            }
            if started.elapsed() > Duration::from_secs(60) {
                bail!("firn did not answer within 60 s:\n{}", node.log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A client of it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All it has logged so far, earlier runs in the same folder included.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// SIGKILL: no chance to tidy up.
    pub fn kill9(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// SIGTERM, then waits for a clean end.
    pub fn stop(mut self) -> Result<()> {
        let pid = Pid::from_raw(self.child.id() as i32).context("the process id is positive")?;
        kill_process(pid, Signal::TERM)?;
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(60) {
            if let Some(status) = self.child.try_wait()? {
                if status.success() {
                    return Ok(());
                }
                bail!("firn ended with {status} after SIGTERM:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("firn did not end within 60 s of SIGTERM:\n{}", self.log())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
