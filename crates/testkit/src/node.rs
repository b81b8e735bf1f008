//! Firn process for one test.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::Client;

/// Free space that stops writes. The default is a share of the disk, and the disk of a machine that runs tests may be
/// nearly full: tests set this variable. A setting of [`NodeOptions`] overrides it.
pub const FLOOD_STAGE: &str = "FIRN_CLUSTER_ROUTING_ALLOCATION_DISK_WATERMARK_FLOOD_STAGE";

/// Start options of a node.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    /// Settings, passed as `-E name=value`.
    pub settings: Vec<(String, String)>,
}

/// `firn serve` on a free port of 127.0.0.1. Killed when dropped; the caller owns its folder.
pub struct Node {
    child: Child,
    client: Client,
    port: u16,
    log: PathBuf,
    /// Time from the spawn of the process to its first answer.
    pub start_time: Duration,
}

impl Node {
    /// Starts `binary` with data under `folder` and waits until it answers and has opened every shard.
    pub fn start(binary: &Path, folder: &Path, options: &NodeOptions) -> Result<Self> {
        let node = Self::start_recovering(binary, folder, options)?;
        // With security on, this request is refused, and the caller must wait itself.
        node.client
            .get("/_cluster/health?wait_for_no_initializing_shards=true&timeout=60s")
            .with_context(|| format!("the node did not open its shards; its log:\n{}", node.log()))?;
        Ok(node)
    }

    /// Like [`Node::start`], on the port of an earlier node that has ended.
    pub fn start_on(port: u16, binary: &Path, folder: &Path, options: &NodeOptions) -> Result<Self> {
        let client = Client::new(format!("http://127.0.0.1:{port}"));
        let node = Self::start_with_client(port, client, binary, folder, options)?;
        node.client
            .get("/_cluster/health?wait_for_no_initializing_shards=true&timeout=60s")?;
        Ok(node)
    }

    /// Like [`Node::start`], but waits only until the node answers: shards with a long write-ahead log are still
    /// opening.
    pub fn start_recovering(binary: &Path, folder: &Path, options: &NodeOptions) -> Result<Self> {
        Self::start_on_free_port(binary, folder, options, |port| {
            Ok(Client::new(format!("http://127.0.0.1:{port}")))
        })
    }

    /// Like [`Node::start_recovering`], with options that set this certificate (PEM): requests use HTTPS.
    pub fn start_with_certificate(
        binary: &Path,
        folder: &Path,
        options: &NodeOptions,
        certificate: &[u8],
    ) -> Result<Self> {
        Self::start_on_free_port(binary, folder, options, |port| {
            Client::trusting(format!("https://127.0.0.1:{port}"), certificate)
        })
    }

    fn start_on_free_port(
        binary: &Path,
        folder: &Path,
        options: &NodeOptions,
        client_of: impl FnOnce(u16) -> Result<Client>,
    ) -> Result<Self> {
        let port = free_port()?;
        Self::start_with_client(port, client_of(port)?, binary, folder, options)
    }

    fn start_with_client(
        port: u16,
        client: Client,
        binary: &Path,
        folder: &Path,
        options: &NodeOptions,
    ) -> Result<Self> {
        let log = folder.join("firn.log");
        let log_file = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
        let mut command = Command::new(binary);
        command.arg("serve").env(FLOOD_STAGE, "100mb");
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
            // With security on, it answers 401.
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

    /// Returns a client of the node.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its log so far, including earlier runs in the same folder.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends SIGKILL: no clean stop.
    pub fn kill9(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends SIGTERM and waits for a clean end.
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
