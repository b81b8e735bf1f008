//! Disk reserve: a file that reserves space for the time when the disk is full.
//!
//! `path.data/reserve` is created at the start if there is space, and removed when the disk is full. Then an index can
//! still be deleted, the catalog opened and the node stopped. Writes of events are refused until the file exists again.
//! It contains only zeros and may be removed at any time.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Bytes of one write.
const CHUNK_BYTES: usize = 1 << 20;

/// State of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserve {
    /// The file exists.
    Held,
    /// The file was removed because the disk was full, or there was no space for it from the start.
    Released,
}

/// The reserve of a data folder.
#[derive(Debug)]
pub(crate) struct DiskReserve {
    path: PathBuf,
    bytes: u64,
    state: Reserve,
}

impl DiskReserve {
    /// Finds the file; removes it if it has another size.
    pub(crate) fn open(path_data: &Path, bytes: u64) -> Self {
        let path = path_data.join("reserve");
        let is_whole = std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() == bytes);
        if !is_whole {
            let _ = std::fs::remove_file(&path);
        }
        Self {
            path,
            bytes,
            state: if is_whole { Reserve::Held } else { Reserve::Released },
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_held(&self) -> bool {
        self.state == Reserve::Held
    }

    /// Removes the file, so that the file system has its space again.
    pub(crate) fn release(&mut self) -> io::Result<()> {
        self.state = Reserve::Released;
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Creates the file again.
    pub(crate) fn make(&mut self) -> io::Result<()> {
        let beside = self.path.with_extension("tmp");
        let made = write_zeros(&beside, self.bytes).and_then(|()| std::fs::rename(&beside, &self.path));
        match made {
            Ok(()) => self.state = Reserve::Held,
            Err(_) => {
                let _ = std::fs::remove_file(&beside);
            }
        }
        made
    }
}

/// Writes zeros instead of setting the length: the file system must allocate the blocks.
fn write_zeros(path: &Path, bytes: u64) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    let zeros = vec![0; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let count = left.min(CHUNK_BYTES as u64);
        file.write_all(&zeros[..count as usize])?;
        left -= count;
    }
    // Some file systems allocate blocks only now.
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_released_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("reserve");
        let mut reserve = DiskReserve::open(folder.path(), 3_000_000);
        assert!(!reserve.is_held());
        reserve.make().unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().len(), 3_000_000);
        assert!(DiskReserve::open(folder.path(), 3_000_000).is_held());
        reserve.release().unwrap();
        assert!(!file.exists() && !reserve.is_held());
        reserve.release().unwrap();
        std::fs::write(&file, b"short").unwrap();
        assert!(!DiskReserve::open(folder.path(), 3_000_000).is_held());
        assert!(!file.exists(), "an incomplete file is removed");
    }
}
