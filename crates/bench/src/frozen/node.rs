//! firn processes of a run: each measurement starts on a node with empty memory and cache.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firn_tools::client::{Client, Credentials, Failure};
use firn_tools::process::{Process, ThreadTimes};
use serde_json::{Value, json};

use super::gateway::Store;
use crate::start;
use crate::start::free_port;

/// The name of the repository on every node.
pub(super) const REPOSITORY: &str = "frozen";

/// A running node.
pub(super) struct Node {
    child: Child,
    pub(super) client: Client,
    pub(super) process: Process,
}

impl Node {
    /// Starts this program on a separate folder, with the repository at `base_path` registered.
    pub(super) fn start(
        folder: &Path,
        store: &Store,
        base_path: &str,
        settings: &[(&str, String)],
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let log = File::create(folder.join("firn.log"))?;
        let port = free_port()?;
        let (access, secret) = store.keys();
        let mut command = Command::new(std::env::current_exe().context("cannot find this program's file")?);
        command
            .arg("serve")
            .args(["-E", &format!("http.port={port}"), "-E"])
            .arg(format!("path.data={}", folder.join("data").display()));
        for (name, value) in settings {
            command.args(["-E", &format!("{name}={value}")]);
        }
        let child = command
            .env("AWS_ACCESS_KEY_ID", access)
            .env("AWS_SECRET_ACCESS_KEY", secret)
            .env("AWS_REGION", "us-east-1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start a node")?;
        let url = format!("http://{}:{port}", Ipv4Addr::LOCALHOST);
        let mut node = Self {
            process: Process(child.id()),
            child,
            client: Client::new(&url, &Credentials::default(), false)?,
        };
        start::wait_for_answer(&node.client, Instant::now(), Some(&mut node.child))
            .with_context(|| format!("see {}", folder.join("firn.log").display()))?;
        let path = format!("/_snapshot/{REPOSITORY}");
        node.client.json("PUT", &path, Some(&store.repository(base_path)))?;
        Ok(node)
    }

    /// Mounts an index of a snapshot under a name.
    pub(super) fn mount(&self, mount: &Mount<'_>) -> anyhow::Result<()> {
        let path = format!(
            "/_snapshot/{REPOSITORY}/{}/_mount?wait_for_completion=true&storage={}",
            mount.snapshot, mount.storage
        );
        let body = json!({"index": mount.index, "renamed_index": mount.name});
        self.client.json("POST", &path, Some(&body)).map(drop)
    }

    /// Returns the CPU times so far.
    pub(super) fn thread_times(&self) -> anyhow::Result<ThreadTimes> {
        self.process.thread_times()
    }

    /// Sends a query; returns the response and its time in ms.
    pub(super) fn ask(&self, path: &str, body: &Ask<'_>) -> anyhow::Result<(Value, f64)> {
        ask(&self.client, path, body)
    }

    /// As [`Node::ask`], for a response that is not a single JSON object.
    pub(super) fn send(&self, path: &str, body: &Ask<'_>) -> anyhow::Result<(Vec<u8>, f64)> {
        send(&self.client, path, body)
    }
}

/// Parameters of a mount.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mount<'a> {
    pub(super) snapshot: &'a str,
    pub(super) index: &'a str,
    pub(super) name: &'a str,
    /// `full_copy` or `shared_cache`.
    pub(super) storage: &'static str,
}

/// A request body and its format.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ask<'a> {
    Json(&'a Value),
    /// Of `_msearch`.
    Lines(&'a str),
}

/// Sends a query to a server; returns the response and its time in ms.
pub(super) fn ask(client: &Client, path: &str, body: &Ask<'_>) -> anyhow::Result<(Value, f64)> {
    let (answer, ms) = send(client, path, body)?;
    Ok((serde_json::from_slice(&answer)?, ms))
}

fn send(client: &Client, path: &str, body: &Ask<'_>) -> anyhow::Result<(Vec<u8>, f64)> {
    let text;
    let body = match body {
        Ask::Json(value) => {
            text = value.to_string();
            ("application/json", text.as_bytes())
        }
        Ask::Lines(lines) => ("application/x-ndjson", lines.as_bytes()),
    };
    let started = Instant::now();
    let answer = client
        .send("POST", path, Some(body))
        .map_err(|failure: Failure| anyhow::anyhow!("{path}: {failure}"))?;
    let ms = started.elapsed().as_secs_f64() * 1000.0;
    if answer.status != 200 {
        bail!("{path}: {}", answer.problem());
    }
    Ok((answer.body, ms))
}

impl Drop for Node {
    fn drop(&mut self) {
        // All its data was created for the run.
        if self.process.terminate(Duration::from_secs(30)).is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
