//! Disk wrapper for merges: its writes fail once the shard is stopped.
//!
//! The segment library has no cancellation, but it gives up when a write fails.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use firn_storage::disk::{AppendFile, DirEntry, Disk, RandomFile};

use super::state::Flags;

/// Disk whose writes fail once a shard is stopped.
pub(super) struct StoppableDisk {
    disk: Arc<dyn Disk>,
    flags: Arc<Flags>,
}

impl std::fmt::Debug for StoppableDisk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.disk.fmt(formatter)
    }
}

struct StoppableFile {
    file: Box<dyn AppendFile>,
    flags: Arc<Flags>,
}

fn check(flags: &Flags) -> io::Result<()> {
    match flags.is_stopped() {
        true => Err(io::Error::other("the shard was stopped")),
        false => Ok(()),
    }
}

impl StoppableDisk {
    pub(super) fn new(disk: Arc<dyn Disk>, flags: Arc<Flags>) -> Self {
        Self { disk, flags }
    }

    fn wrap(&self, file: Box<dyn AppendFile>) -> Box<dyn AppendFile> {
        Box::new(StoppableFile {
            file,
            flags: Arc::clone(&self.flags),
        })
    }
}

impl AppendFile for StoppableFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        check(&self.flags)?;
        self.file.append(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        check(&self.flags)?;
        self.file.sync()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl std::fmt::Debug for StoppableFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(formatter)
    }
}
impl Disk for StoppableDisk {
    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        check(&self.flags)?;
        self.disk.create_append(path).map(|file| self.wrap(file))
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        check(&self.flags)?;
        self.disk.open_append(path).map(|file| self.wrap(file))
    }

    /// Merges do not write such files, so reads of an open file are not stopped.
    fn open_random(&self, path: &Path) -> io::Result<Box<dyn RandomFile>> {
        check(&self.flags)?;
        self.disk.open_random(path)
    }

    fn set_len(&self, path: &Path, len: u64) -> io::Result<()> {
        check(&self.flags)?;
        self.disk.set_len(path, len)
    }

    fn read(&self, path: &Path) -> io::Result<Bytes> {
        self.disk.read(path)
    }

    fn read_range(&self, path: &Path, range: Range<u64>) -> io::Result<Bytes> {
        self.disk.read_range(path, range)
    }

    fn map(&self, path: &Path) -> io::Result<Bytes> {
        self.disk.map(path)
    }

    fn write_atomic(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        check(&self.flags)?;
        self.disk.write_atomic(path, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        check(&self.flags)?;
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        check(&self.flags)?;
        self.disk.remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        check(&self.flags)?;
        self.disk.remove_dir_all(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        check(&self.flags)?;
        self.disk.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.disk.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        self.disk.len(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        check(&self.flags)?;
        self.disk.sync_dir(dir)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        check(&self.flags)?;
        self.disk.sync_file(path)
    }

    fn rewrite_and_sync(&self, path: &Path, from: u64) -> io::Result<()> {
        check(&self.flags)?;
        self.disk.rewrite_and_sync(path, from)
    }

    fn available_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.available_bytes(path)
    }

    fn total_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.total_bytes(path)
    }
}
