//! Write-ahead log of one shard: acknowledged operations that are not yet in a durable segment.
//!
//! The log is a directory of files `wal-<generation>.log`. Records are appended at the end, and whole files are trimmed
//! from the front. The log does not interpret record payloads. `docs/formats/wal.md` describes the format and how a
//! torn tail differs from damage. What surprises: every file stores the length of the file before it, so a file with an
//! unwritable tail stays unchanged and never needs a repair in place.

mod durable_notes;
mod format;
mod log;
mod open;
mod reader;
mod syncer;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firn_model::Result;

use crate::disk::Disk;
use log::Log;

pub use syncer::Syncer;

/// Largest record in bytes; larger than any request body that firn accepts.
pub const RECORD_BYTES_MAX: usize = 512 << 20;

/// Options of a WAL.
#[derive(Debug, Clone)]
pub struct WalOptions {
    /// Buffered bytes that trigger a write to the operating system. Syncs write them earlier. The buffer comes from a
    /// pool shared with other WALs, and returns to it when it is empty.
    pub buffer_bytes: usize,
    /// `Some`: maximum time between append and sync of a record, even without a waiter (`index.translog.durability:
    /// async`). `None`: the log syncs only for waiters.
    pub sync_interval: Option<Duration>,
    /// First generation to replay. All earlier generations are in durable segments; they are removed unread. Must be 0
    /// (nothing known) or a generation that [`Wal::rotate`] returned: if its file is missing, the log is damaged.
    pub keep_from_generation: u64,
}

impl Default for WalOptions {
    fn default() -> Self {
        Self {
            buffer_bytes: 256 << 10,
            sync_interval: None,
            keep_from_generation: 0,
        }
    }
}

/// Position in the log: the end of a record. Later records have greater positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Number of the file.
    pub generation: u64,
    /// Bytes from the start of the file to the end of the record.
    pub offset: u64,
    /// Number of heals of the log before the record was appended.
    epoch: u64,
}

/// Record as replay returns it.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Number of the file.
    pub generation: u64,
    /// Bytes from the start of the file to the start of the record's frame.
    pub offset: u64,
    /// Bytes that were appended.
    pub payload: &'a [u8],
}

/// Callback that runs once: when a position becomes durable, or when it can no longer become durable.
pub type DurableCallback = Box<dyn FnOnce(Result<()>) + Send>;

/// Write-ahead log of one shard. All methods may be called concurrently; records have the order of the `append` calls.
pub struct Wal(Arc<Log>);

impl std::fmt::Debug for Wal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Wal")
            .field("dir", &self.0.dir)
            .finish_non_exhaustive()
    }
}

impl Wal {
    /// Opens or creates the log in `dir` and passes every record to `replay`, in order. Creates `dir` if it is missing;
    /// its parent must be durable.
    ///
    /// `identity` ties the files to their shard. A torn tail of the last file (bytes that were never acknowledged) is
    /// truncated and logged. Fails with [`ShardDamaged`](firn_model::ErrorKind::ShardDamaged) if acknowledged bytes are
    /// damaged or missing; the error names file and offset, and nothing has changed. Fails with `replay`'s error if it
    /// returns one. On failure, `replay` may have received a part of the records.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        identity: u64,
        options: WalOptions,
        syncer: &Syncer,
        replay: &mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> Result<Self> {
        open::open(disk, dir, identity, &options, syncer, replay).map(|log| Self(Arc::new(log)))
    }

    /// Returns whether the files in `dir` hold no record. Checks sync marks, not the checksums of records. Returns
    /// false if it cannot tell, and true if the folder does not exist. Changes nothing.
    pub fn holds_no_record(disk: &dyn Disk, dir: &Path) -> Result<bool> {
        reader::holds_no_record(disk, dir)
    }

    /// Appends one record made of `parts` back to back (one copy into the buffer) and returns its end position.
    ///
    /// Nothing is durable yet. Fails with `IllegalArgument` if the record is empty or larger than [`RECORD_BYTES_MAX`].
    /// Fails with the earlier failure (`DiskFull` or `Internal`) if a write or sync failed and the log was not healed.
    pub fn append(&self, parts: &[&[u8]]) -> Result<Position> {
        self.0.append(parts)
    }

    /// Calls `callback` once everything up to `position` is durable, or with the error if it can no longer become
    /// durable. Calls it in this thread if the outcome is already known or the [`Syncer`] has no threads; otherwise in
    /// a thread of the syncer, never in a thread that appends, syncs or rotates. One sync serves all waiters. The
    /// callback must not block.
    pub fn wait_durable(&self, position: Position, callback: DurableCallback) {
        self.0.wait_durable(position, callback);
    }

    /// Blocks until everything up to `position` is durable. Syncs in this thread if no other sync runs.
    pub fn sync_blocking(&self, position: Position) -> Result<()> {
        self.0.sync_blocking(position)
    }

    /// Returns the end of the last appended record. A clean stop passes it to [`sync_blocking`](Self::sync_blocking) to
    /// make everything durable.
    pub fn end(&self) -> Position {
        self.0.end_position()
    }

    /// Changes the interval of asynchronous durability; see [`WalOptions::sync_interval`].
    pub fn set_sync_interval(&self, interval: Option<Duration>) {
        self.0.set_sync_interval(interval);
    }

    /// Returns the failed write or sync that makes appends fail now; `None` if the log works.
    pub fn failure(&self) -> Option<firn_model::Error> {
        self.0.state.lock().failure.clone()
    }

    /// Heals a failed log: truncates the unacknowledged bytes and continues in a new generation, which it returns.
    /// Records whose `append` or wait failed are lost. If the log has not failed, it does nothing and returns the
    /// current generation.
    pub fn try_heal(&self) -> Result<u64> {
        self.0.try_heal()
    }

    /// Syncs all appended records, if the log has not failed, and releases the files permanently. After it returns, no
    /// thread writes or syncs the files, so that another log may open them. From now on appends, waits for non-durable
    /// positions, [`try_heal`](Self::try_heal) and [`trim`](Self::trim) fail with `reason`, or with the earlier failure
    /// of the log.
    pub fn close(&self, reason: firn_model::Error) {
        self.0.close(reason);
    }

    /// As [`close`](Self::close), but without a sync: records that no sync covers may be lost, as if the process were
    /// killed.
    pub fn abandon(&self, reason: firn_model::Error) {
        self.0.abandon(reason);
    }

    /// Makes everything durable and continues in a new file, whose generation it returns: later records go to it or to
    /// later files. If the current file holds no record yet, it stays the current one. If the rotation fails, the log
    /// has failed. This thread does not run callbacks of [`wait_durable`](Self::wait_durable).
    pub fn rotate(&self) -> Result<u64> {
        self.0.rotate()
    }

    /// Removes the files below `keep_from_generation`, but never the current one.
    pub fn trim(&self, keep_from_generation: u64) -> Result<()> {
        self.0.trim(keep_from_generation)
    }

    /// Returns the bytes in all files and in the buffer.
    pub fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    /// Returns the number of records in all files and in the buffer.
    pub fn operations(&self) -> u64 {
        self.0.operations()
    }

    /// Returns the number of the current file; the first is 1.
    pub fn generation(&self) -> u64 {
        self.0.state.lock().generation
    }
}
