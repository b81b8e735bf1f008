//! Real S3 server for one test: versitygw over a folder.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::node::free_port;

/// Name of the program, wherever `go install` put it.
const PROGRAM: &str = "versitygw";
/// Access key of the only user, who may read everything in the test's buckets.
const ACCESS_KEY: &str = "firn-test";
const SECRET_KEY: &str = "firn-test-secret";
const START_TIME_MAX: Duration = Duration::from_secs(30);

/// `versitygw` on a free port of 127.0.0.1. Killed when dropped; the caller owns its folder.
#[derive(Debug)]
pub struct Gateway {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Gateway {
    /// Starts a gateway whose buckets are the folders in `folder`, and creates these buckets.
    pub fn start(folder: &Path, buckets: &[&str]) -> Result<Self> {
        let program = program()?;
        for bucket in buckets {
            std::fs::create_dir_all(folder.join(bucket))?;
        }
        let port = free_port()?;
        let child = Command::new(&program)
            .args(["--port", &format!("127.0.0.1:{port}")])
            .args(["--access", ACCESS_KEY, "--secret", SECRET_KEY])
            // Without keep-alive every request needs a new connection.
            .args(["--keep-alive", "--quiet", "posix"])
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let mut gateway = Self {
            child,
            port,
            folder: folder.to_owned(),
        };
        let started = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = gateway.child.try_wait()? {
                bail!("{PROGRAM} ended with {status} before it answered");
            }
            if started.elapsed() > START_TIME_MAX {
                bail!("{PROGRAM} did not answer within {START_TIME_MAX:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(gateway)
    }

    /// Returns its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns its endpoint.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the user's access key.
    pub fn access_key(&self) -> &'static str {
        ACCESS_KEY
    }

    /// Returns the user's secret key.
    pub fn secret_key(&self) -> &'static str {
        SECRET_KEY
    }

    /// Returns the file of an object: tests inspect, damage and remove objects without the server.
    pub fn object_file(&self, bucket: &str, key: &str) -> PathBuf {
        self.folder.join(bucket).join(key)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Finds the program: on the path, or where Go installs programs.
fn program() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let mut folders: Vec<PathBuf> = variable("PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    folders.extend(variable("GOBIN").map(PathBuf::from));
    folders.extend(variable("GOPATH").map(|path| PathBuf::from(path).join("bin")));
    folders.extend(variable("HOME").map(|home| PathBuf::from(home).join("go/bin")));
    let found = folders
        .into_iter()
        .map(|folder| folder.join(PROGRAM))
        .find(|path| path.is_file());
    found.with_context(|| format!("{PROGRAM} is not installed: `scripts/setup.sh test` installs it"))
}
