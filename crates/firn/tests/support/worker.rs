//! A process of `firn pipeline run`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A running worker; killed when dropped.
pub(crate) struct Worker {
    child: Child,
    log: PathBuf,
}

impl Worker {
    /// Starts a worker with these settings; JSON is YAML. Its log in `folder` goes on from earlier runs.
    pub(crate) fn start(folder: &Path, name: &str, settings: &Value) -> Self {
        let config = folder.join(format!("{name}.yml"));
        fs::write(&config, settings.to_string()).unwrap();
        let log = folder.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(["pipeline", "run", "-c"])
            .arg(config)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        Self { child, log }
    }

    /// Sends SIGKILL.
    pub(crate) fn kill9(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM and waits for a clean end.
    pub(crate) fn stop(mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(30) {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "{status}: {}", self.log());
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the worker did not end within 30 s of SIGTERM: {}", self.log());
    }

    /// Returns the log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
