//! `io::Write` adapter for an append-only file.

use std::io;
use std::path::Path;

use super::{AppendFile, Disk};

/// Writer that appends to a file.
#[derive(Debug)]
pub struct AppendWriter(Box<dyn AppendFile>);

impl AppendWriter {
    /// Creates a new file. Fails with `AlreadyExists` if the name is taken.
    pub fn create(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        Ok(Self(disk.create_append(path)?))
    }
}

impl io::Write for AppendWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
