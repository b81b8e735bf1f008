//! The write-ahead log of one shard: acknowledged operations that are in no durable segment yet.
//!
//! A directory of files `wal-<generation>.log`, appended to and trimmed from the front. The log
//! knows nothing of what a record says. Format, and what counts as a torn tail and what as damage:
//! `docs/formats/wal.md`. What surprises: every file says how long the file before it is, so a file
//! whose tail could not be written is left as it is and never has to be repaired in place.

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

/// The most bytes one record may have: more than any request body that firn takes.
pub const RECORD_BYTES_MAX: usize = 512 << 20;

/// How a WAL behaves.
#[derive(Debug, Clone)]
pub struct WalOptions {
    /// Bytes gathered in memory before they are handed to the operating system. Syncs write them
    /// earlier. The memory is shared with other WALs and given back when nothing is gathered.
    pub buffer_bytes: usize,
    /// `Some`: records are synced at the latest this long after they were appended, whether or not
    /// someone waits (`index.translog.durability: async`). `None`: only when someone waits.
    pub sync_interval: Option<Duration>,
    /// Generations below are known to be in durable segments: they are not read but removed. Must
    /// be 0 (nothing known) or a generation that [`Wal::rotate`] returned before: if its file is
    /// missing, the log is damaged.
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

/// A place in the log: the end of a record. Later records have greater positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The file's number.
    pub generation: u64,
    /// Bytes from the start of the file to the end of the record.
    pub offset: u64,
    /// How often the log had been healed when the record was appended.
    epoch: u64,
}

/// A record as it is read back.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// The file's number.
    pub generation: u64,
    /// Bytes from the start of the file to the start of the record's frame.
    pub offset: u64,
    /// What was appended.
    pub payload: &'a [u8],
}

/// Called once when a position is durable, or will never be.
pub type DurableCallback = Box<dyn FnOnce(Result<()>) + Send>;

/// The write-ahead log of one shard. All methods may be called concurrently; records stand in the
/// order in which `append` was called.
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
    /// Opens or creates the log in `dir` and hands every record to `replay`, in order. `dir` is
    /// created if missing; its parent must be durable.
    ///
    /// `identity` ties the files to their shard. A torn tail of the last file (bytes that were never
    /// acknowledged) is cut and logged. Fails with
    /// [`ShardDamaged`](firn_model::ErrorKind::ShardDamaged), naming file and offset and having
    /// changed nothing, if acknowledged bytes are damaged or missing; with `replay`'s error if it
    /// returns one. On failure, `replay` may have seen a part of the records.
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

    /// Whether the files in `dir` hold no record, as far as their frames tell without a look at checksums. False if that
    /// cannot be told; true if there is no such folder. Changes nothing.
    pub fn holds_no_record(disk: &dyn Disk, dir: &Path) -> Result<bool> {
        reader::holds_no_record(disk, dir)
    }

    /// Appends one record made of `parts` back to back (one copy into the buffer) and says where it ends.
    ///
    /// Nothing is durable yet. Fails if the record is empty or above [`RECORD_BYTES_MAX`]
    /// (`IllegalArgument`), or if a write or sync failed before and the log was not healed (the kind
    /// of that failure: `DiskFull` or `Internal`).
    pub fn append(&self, parts: &[&[u8]]) -> Result<Position> {
        self.0.append(parts)
    }

    /// Calls `callback` once everything up to `position` is durable, or with the error if it will
    /// never be: in this thread if that is known already or the [`Syncer`] has no threads, else from
    /// one of its threads, never from one that appends, syncs or rotates. One sync serves everyone
    /// who waits. The callback must not block.
    pub fn wait_durable(&self, position: Position, callback: DurableCallback) {
        self.0.wait_durable(position, callback);
    }

    /// Blocks until everything up to `position` is durable, syncing in this thread if none does.
    pub fn sync_blocking(&self, position: Position) -> Result<()> {
        self.0.sync_blocking(position)
    }

    /// The end of the last record appended; pass it to [`sync_blocking`](Self::sync_blocking) to
    /// make everything durable, as a clean stop does.
    pub fn end(&self) -> Position {
        self.0.end_position()
    }

    /// Changes the interval of asynchronous durability; see [`WalOptions::sync_interval`].
    pub fn set_sync_interval(&self, interval: Option<Duration>) {
        self.0.set_sync_interval(interval);
    }

    /// Why appends fail since the last failed write or sync; `None`: all is well.
    pub fn failure(&self) -> Option<firn_model::Error> {
        self.0.state.lock().failure.clone()
    }

    /// Tries to get a failed log going: cuts what was never acknowledged and goes on in a new
    /// generation, which it returns. Records whose `append` or wait failed are gone for good.
    /// `Ok(current generation)` without doing anything if the log is well.
    pub fn try_heal(&self) -> Result<u64> {
        self.0.try_heal()
    }

    /// Makes what was appended durable, if the log is well, and lets go of the files for good: when
    /// this returns, no thread writes or syncs them and none will, so that another log may open
    /// them. From now on appends and waits for what is not durable fail with `reason`, or with the
    /// failure the log had before; [`try_heal`](Self::try_heal) and [`trim`](Self::trim) too.
    pub fn close(&self, reason: firn_model::Error) {
        self.0.close(reason);
    }

    /// Makes everything durable and goes on in a new file, whose generation it returns: records
    /// appended from now on are in it or in later ones. A file that holds no record yet is as good
    /// as a new one. A failure fails the log. Callbacks of
    /// [`wait_durable`](Self::wait_durable) are not called by this thread.
    pub fn rotate(&self) -> Result<u64> {
        self.0.rotate()
    }

    /// Removes the files below `keep_from_generation`, never the current one.
    pub fn trim(&self, keep_from_generation: u64) -> Result<()> {
        self.0.trim(keep_from_generation)
    }

    /// Bytes in all files and in the buffer.
    pub fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    /// Records in all files and in the buffer.
    pub fn operations(&self) -> u64 {
        self.0.operations()
    }

    /// The current file's number; counts up from 1.
    pub fn generation(&self) -> u64 {
        self.0.state.lock().generation
    }
}
