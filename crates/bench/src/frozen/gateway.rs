//! Object store of a run: an existing S3 server, or versitygw, started for the run.

use std::net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::proxy::Proxy;
use crate::start::free_port;

/// The bucket of a store that the run starts.
const BUCKET: &str = "frozen";
/// Its keys. It listens only on this machine and ends with the run.
const KEYS: (&str, &str) = ("firn-bench", "firn-bench-secret");
/// It starts in a fifth of a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// A store behind a proxy.
pub(super) struct Store {
    pub(super) proxy: Proxy,
    bucket: String,
    keys: (String, String),
    started: Option<Child>,
}

impl Store {
    /// Starts versitygw on a folder.
    pub(super) fn start(folder: &Path) -> anyhow::Result<Self> {
        // In this store a folder is a bucket.
        let bucket = folder.join(BUCKET);
        std::fs::create_dir_all(&bucket).with_context(|| format!("cannot create {}", bucket.display()))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let mut child = Command::new("versitygw")
            .args(["--port", &address.to_string(), "--keep-alive", "--quiet"])
            .args(["--access", KEYS.0, "--secret", KEYS.1, "posix"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context(
                "cannot start versitygw: put it on the PATH (go install github.com/versity/versitygw/cmd/versitygw@v1.8.0), \
                 or name an S3 server with --s3-url",
            )?;
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = child.try_wait()? {
                bail!("versitygw ended with {status}");
            }
            ensure!(started.elapsed() < PATIENCE, "versitygw does not listen on {address}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self {
            proxy: Proxy::start(address)?,
            bucket: BUCKET.to_owned(),
            keys: (KEYS.0.to_owned(), KEYS.1.to_owned()),
            started: Some(child),
        })
    }

    /// Uses a running server: `http://host:port`, without TLS, because the proxy must read requests. The keys are those
    /// of the environment.
    pub(super) fn at(url: &str, bucket: &str) -> anyhow::Result<Self> {
        let host = url
            .strip_prefix("http://")
            .with_context(|| format!("{url} does not begin with http://"))?
            .trim_end_matches('/');
        let host = match host.contains(':') {
            true => host.to_owned(),
            false => format!("{host}:80"),
        };
        let address = host
            .to_socket_addrs()
            .with_context(|| format!("cannot find {host}"))?
            .next()
            .with_context(|| format!("{host} has no address"))?;
        let variable = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
        Ok(Self {
            proxy: Proxy::start(address)?,
            bucket: bucket.to_owned(),
            keys: (variable("AWS_ACCESS_KEY_ID")?, variable("AWS_SECRET_ACCESS_KEY")?),
            started: None,
        })
    }

    /// Returns access key and secret key.
    pub(super) fn keys(&self) -> (&str, &str) {
        (&self.keys.0, &self.keys.1)
    }

    /// Returns a repository in this store, as the body of `PUT _snapshot/{name}`.
    pub(super) fn repository(&self, base_path: &str) -> Value {
        json!({
            "type": "s3",
            "settings": {
                "bucket": self.bucket,
                "base_path": base_path,
                "endpoint": format!("http://{}", self.proxy.address()),
                "protocol": "http",
                "path_style_access": true,
                "region": "us-east-1",
            },
        })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(child) = &mut self.started {
            // Its data is not needed after the run.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
