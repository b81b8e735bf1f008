//! Rejects file: the lines that were not indexed.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use parking_lot::Mutex;
use serde_json::json;

/// One rejects file. It is created with the first rejected line, so that no file means no rejects. Several threads may
/// write to it.
pub(super) struct Rejects {
    path: PathBuf,
    file: Mutex<Option<BufWriter<File>>>,
}

impl Rejects {
    /// Creates a rejects file at `path`. Removes the file of an earlier run, because the file describes this run.
    pub(super) fn new(path: PathBuf) -> anyhow::Result<Self> {
        match std::fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot replace the rejects file {}", path.display()));
            }
        }
        Ok(Self {
            path,
            file: Mutex::new(None),
        })
    }

    /// Adds a line: its number in the input, the server's status if there is one, Elasticsearch's error type, the
    /// reason, and the original line.
    pub(super) fn write(
        &self,
        line: u64,
        status: Option<u16>,
        error_type: &str,
        reason: &str,
        raw: &[u8],
    ) -> anyhow::Result<()> {
        let record = json!({
            "line": line,
            "status": status,
            "type": error_type,
            "reason": reason,
            "raw": String::from_utf8_lossy(raw),
        });
        let mut file = self.file.lock();
        if file.is_none() {
            let created = File::create(&self.path).with_context(|| self.cannot_write())?;
            *file = Some(BufWriter::new(created));
        }
        let file = file.as_mut().expect("it was just made");
        writeln!(file, "{record}").with_context(|| self.cannot_write())
    }

    /// Flushes the file; returns its path, if it exists.
    pub(super) fn finish(&self) -> anyhow::Result<Option<&Path>> {
        match self.file.lock().as_mut() {
            Some(file) => {
                file.flush().with_context(|| self.cannot_write())?;
                Ok(Some(&self.path))
            }
            None => Ok(None),
        }
    }

    fn cannot_write(&self) -> String {
        format!("cannot write rejected lines to {}", self.path.display())
    }
}
