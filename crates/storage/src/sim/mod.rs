//! Simulated disk in memory that loses unsynced data on a crash, for tests.
//!
//! It is stricter than most file systems. A synced file may vanish if its directory was not synced. Of the name changes
//! since the last directory sync any subset may survive. After a failed sync, the bytes that it covered read back until
//! the crash; after the crash they have their previous content or are zeros, even if a later sync succeeds, as on
//! Linux. In a file that is written in place, each unsynced sector has its old or its new content, so a write of
//! several sectors may be torn.

mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::disk::{AppendFile, DirEntry, Disk, RandomFile};
use state::{InodeId, State};

/// Kind of a disk step; reading is not a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Creates a file or a directory.
    Create,
    /// Appends bytes.
    Append,
    /// Writes bytes in place.
    Write,
    /// Truncates or extends a file.
    SetLen,
    /// Changes a name.
    Rename,
    /// Removes a name.
    Remove,
    /// Makes a file's bytes durable.
    SyncFile,
    /// Makes a directory's names durable.
    SyncDir,
}

/// Planned failure of a future step.
#[derive(Debug, Clone, Copy)]
pub struct Failure {
    /// Steps that still succeed before it.
    pub after: u64,
    /// Only steps of this kind count and fail; `None`: all kinds.
    pub only: Option<Operation>,
    /// Error kind that the failing step returns.
    pub kind: io::ErrorKind,
    /// Whether all later steps fail too (until [`SimDisk::heal`]) or only this one.
    pub lasting: bool,
}

/// Function that runs before each step. No lock is held: it may read the disk and call [`SimDisk::crash`].
pub type Hook = Arc<dyn Fn(&SimDisk, Operation) + Send + Sync>;

/// Simulated disk in memory. Clones share the disk.
#[derive(Clone)]
pub struct SimDisk(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    hook: Mutex<Option<Hook>>,
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SimDisk").finish_non_exhaustive()
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    /// Creates an empty disk with a root directory, without failures and of unlimited size.
    pub fn new() -> Self {
        Self::from_state(State::new())
    }

    fn from_state(state: State) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            hook: Mutex::new(None),
        }))
    }

    /// Returns a new disk in the state after a power loss now: everything durable, and of the rest a part chosen by
    /// `seed`: some unsynced bytes, torn at 512-byte sectors, zeros or garbage in their place, any of the unsynced
    /// names. This disk does not change.
    pub fn crash(&self, seed: u64) -> SimDisk {
        Self::from_state(self.0.state.lock().crash(&mut fastrand::Rng::with_seed(seed)))
    }

    /// Returns a new disk in the state after a process kill now: everything written is there, and nothing became
    /// durable by the kill. This disk does not change.
    pub fn kill(&self) -> SimDisk {
        Self::from_state(self.0.state.lock().kill())
    }

    /// Plans a failure and replaces an earlier plan.
    pub fn fail(&self, failure: Failure) {
        self.0.state.lock().failure = Some(failure);
    }

    /// Cancels the planned failure.
    pub fn heal(&self) {
        self.0.state.lock().failure = None;
    }

    /// Sets the capacity of all files together, in bytes. Steps beyond it fail with `StorageFull`.
    pub fn set_capacity(&self, bytes: u64) {
        self.0.state.lock().capacity = bytes;
    }

    /// Sets or removes the function that runs before each step.
    pub fn set_hook(&self, hook: Option<Hook>) {
        *self.0.hook.lock() = hook;
    }

    /// Returns the number of steps that succeeded so far.
    pub fn operation_count(&self) -> u64 {
        self.0.state.lock().operation_count
    }

    /// Returns the number of syncs that succeeded so far, of files and directories.
    pub fn sync_count(&self) -> u64 {
        self.0.state.lock().sync_count
    }

    /// Returns the bytes of all files together.
    pub fn used_bytes(&self) -> u64 {
        self.0.state.lock().used_bytes()
    }

    /// Damages a file durably: changes its bytes without a step.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.0.state.lock().damage(path, change)
    }

    /// Runs one step: calls the hook, fails if a failure is planned, and counts.
    fn step<T>(
        &self,
        operation: Operation,
        run: impl FnOnce(&mut State, Option<io::Error>) -> io::Result<T>,
    ) -> io::Result<T> {
        let hook = self.0.hook.lock().clone();
        if let Some(hook) = hook {
            hook(self, operation);
        }
        let mut state = self.0.state.lock();
        let failure = state.planned_failure(operation);
        let done = run(&mut state, failure)?;
        state.operation_count += 1;
        if matches!(operation, Operation::SyncFile | Operation::SyncDir) {
            state.sync_count += 1;
        }
        Ok(done)
    }

    fn simple_step<T>(&self, operation: Operation, run: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        self.step(operation, |state, failure| match failure {
            Some(error) => Err(error),
            None => run(state),
        })
    }

    /// Returns the sorted paths of all non-empty files that are completely durable, or are not if `unsynced`.
    pub fn files(&self, unsynced: bool) -> Vec<PathBuf> {
        self.0.state.lock().files(unsynced)
    }

    fn file(&self, inode: InodeId) -> Box<dyn AppendFile> {
        Box::new(SimFile {
            disk: self.clone(),
            inode,
        })
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: InodeId,
}

impl AppendFile for SimFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.disk.step(Operation::Append, |state, failure| {
            state.append(self.inode, bytes, failure)
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.step(Operation::SyncFile, |state, failure| {
            state.sync_file(self.inode, failure)
        })
    }

    fn len(&self) -> u64 {
        self.disk.0.state.lock().file_len(self.inode)
    }
}

/// File that is written in place. Dropping it releases the exclusive open.
#[derive(Debug)]
struct SimRandomFile {
    disk: SimDisk,
    inode: InodeId,
}

impl RandomFile for SimRandomFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.0.state.lock().read_at(self.inode, bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.step(Operation::Write, |state, failure| {
            state.write_at(self.inode, bytes, offset, failure)
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk
            .simple_step(Operation::SetLen, |state| state.set_file_len(self.inode, len))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.0.state.lock().file_len(self.inode))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.step(Operation::SyncFile, |state, failure| {
            state.sync_file(self.inode, failure)
        })
    }

    fn release(&self, _: Range<u64>) -> io::Result<()> {
        Ok(())
    }

    fn is_sparse(&self) -> bool {
        false
    }

    fn taken_bytes(&self) -> io::Result<u64> {
        self.len()
    }
}

impl Drop for SimRandomFile {
    fn drop(&mut self) {
        self.disk.0.state.lock().open_random.remove(&self.inode);
    }
}

impl Disk for SimDisk {
    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let inode = self.simple_step(Operation::Create, |state| state.create_file(path))?;
        Ok(self.file(inode))
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let inode = self.0.state.lock().find_file(path)?;
        Ok(self.file(inode))
    }

    fn open_random(&self, path: &Path) -> io::Result<Box<dyn RandomFile>> {
        if !self.exists(path)? {
            self.simple_step(Operation::Create, |state| state.create_file(path))?;
        }
        let mut state = self.0.state.lock();
        let inode = state.find_file(path)?;
        if !state.begin_random(inode)? {
            let reason = format!("[{}] is in use by another process", path.display());
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, reason));
        }
        drop(state);
        Ok(Box::new(SimRandomFile {
            disk: self.clone(),
            inode,
        }))
    }

    fn set_len(&self, path: &Path, len: u64) -> io::Result<()> {
        self.simple_step(Operation::SetLen, |state| state.set_len(path, len))
    }

    fn read(&self, path: &Path) -> io::Result<Bytes> {
        self.read_range(path, 0..u64::MAX)
    }

    fn read_range(&self, path: &Path, range: Range<u64>) -> io::Result<Bytes> {
        self.0.state.lock().read(path, range).map(Bytes::from)
    }

    fn map(&self, path: &Path) -> io::Result<Bytes> {
        self.read(path)
    }

    fn write_atomic(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".tmp");
        let temporary = path.with_file_name(name);
        if self.exists(&temporary)? {
            self.remove_file(&temporary)?;
        }
        let file = self.create_append(&temporary)?;
        if let Err(error) = file.append(bytes).and_then(|()| file.sync()) {
            let _ = self.remove_file(&temporary);
            return Err(error);
        }
        self.rename(&temporary, path)?;
        self.sync_dir(path.parent().unwrap_or(Path::new("")))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.simple_step(Operation::Rename, |state| state.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.simple_step(Operation::Remove, |state| state.remove_file(path))
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.simple_step(Operation::Remove, |state| state.remove_dir_all(path))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.simple_step(Operation::Create, |state| state.create_dir_all(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.state.lock().list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.0.state.lock().find(path).is_ok())
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        let state = self.0.state.lock();
        let inode = state.find_file(path)?;
        Ok(state.file_len(inode))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.simple_step(Operation::SyncDir, |state| state.sync_dir(dir))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.step(Operation::SyncFile, |state, failure| {
            let inode = state.find_file(path)?;
            state.sync_file(inode, failure)
        })
    }

    fn rewrite_and_sync(&self, path: &Path, from: u64) -> io::Result<()> {
        self.step(Operation::Append, |state, failure| match failure {
            Some(error) => Err(error),
            None => state.rewrite(path, from),
        })?;
        self.sync_file(path)
    }

    fn available_bytes(&self, path: &Path) -> io::Result<u64> {
        let state = self.0.state.lock();
        state.find(path)?;
        Ok(state.capacity.saturating_sub(state.used_bytes()))
    }

    fn total_bytes(&self, path: &Path) -> io::Result<u64> {
        let state = self.0.state.lock();
        state.find(path)?;
        Ok(state.capacity)
    }
}
