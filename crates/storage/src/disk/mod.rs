//! Disk abstraction: the file operations that firn needs, and what they guarantee after a power loss.
//!
//! Contents and names become durable separately, as in POSIX: [`AppendFile::sync`] makes a file's bytes durable,
//! [`Disk::sync_dir`] makes the names in a directory durable. If a file is created, renamed or removed and its
//! directory is not synced, a power loss may leave either state.

mod overlay;
mod real;
mod sparse_file;
mod writer;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;

use bytes::Bytes;

pub use overlay::{OverlayBudget, OverlayDisk};
pub use real::RealDisk;
pub use writer::AppendWriter;

/// Append-only file. Dropping it closes the file and makes nothing durable.
pub trait AppendFile: Send + Sync + fmt::Debug {
    /// Appends all of `bytes`. After an error an unknown part of them is written, and [`len`](Self::len) returns the
    /// current length of the file.
    ///
    /// Only one thread at a time may append. A [`sync`](Self::sync) may run concurrently.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Makes all bytes appended before the call durable (`fdatasync`), but not the file's name.
    ///
    /// After an error, bytes appended since the last successful sync have no guarantee, even if a later sync succeeds:
    /// the kernel drops pages that it could not write.
    fn sync(&self) -> io::Result<()>;

    /// Returns the length in bytes, durable or not.
    fn len(&self) -> u64;

    /// Returns whether the file is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// File that is overwritten in place and opened by this process alone. Dropping it closes it and makes nothing durable.
///
/// After a power loss, any part and any mixture of the writes since the last successful [`sync`](Self::sync) is on the
/// disk, and a single write may be torn. All methods may be called concurrently, even for the same bytes; a reader then
/// gets any mixture.
pub trait RandomFile: Send + Sync + fmt::Debug {
    /// Fills `bytes` up to the end of the file and returns the number of bytes read.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes` and extends the file if needed. After an error an unknown part of them is written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Truncates the file, or extends it with zeros to `len`.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Returns whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Makes the bytes and the length durable, but not the file's name. After an error the same holds as after an error
    /// of [`AppendFile::sync`].
    fn sync(&self) -> io::Result<()>;

    /// Frees the disk space of a range; the range then reads as zeros.
    fn release(&self, range: Range<u64>) -> io::Result<()>;

    /// Returns whether disk space is allocated and freed per page. If not, [`release`](Self::release) does nothing.
    fn is_sparse(&self) -> bool;

    /// Returns the disk space that the file occupies, in bytes.
    fn taken_bytes(&self) -> io::Result<u64>;
}

/// Entry of a directory listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Name without its directory. Listings omit names that are not UTF-8.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Length in bytes; 0 for a directory.
    pub len: u64,
}

/// File system interface. All methods may be called concurrently.
///
/// Errors preserve the operating system's [`io::ErrorKind`] (`NotFound`, `StorageFull`, …) and name the path.
/// `firn_model::Error::from` maps `StorageFull` to [`DiskFull`](firn_model::ErrorKind::DiskFull).
pub trait Disk: Send + Sync + fmt::Debug {
    /// Creates an empty file. Fails with `AlreadyExists` if the name is taken.
    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>>;

    /// Opens an existing file for appending at its end. Fails with `NotFound` if the file does not exist.
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>>;

    /// Opens a file for writes in place and creates an empty one if it does not exist. Fails with
    /// [`io::ErrorKind::ResourceBusy`] if this or another process already has it open this way.
    fn open_random(&self, path: &Path) -> io::Result<Box<dyn RandomFile>>;

    /// Truncates a file, or extends it with zeros to `len`. Durable after [`sync_file`](Self::sync_file).
    fn set_len(&self, path: &Path, len: u64) -> io::Result<()>;

    /// Returns the whole file, copied into memory.
    fn read(&self, path: &Path) -> io::Result<Bytes>;

    /// Returns the bytes of a half-open range, copied into memory. The result is shorter if the file ends earlier.
    fn read_range(&self, path: &Path, range: Range<u64>) -> io::Result<Bytes>;

    /// Returns the whole file without a copy, memory-mapped. The file must not be changed or truncated while the bytes
    /// are in use; it may be removed.
    fn map(&self, path: &Path) -> io::Result<Bytes>;

    /// Returns the approximate maximum number of files that may be mapped at once.
    fn maps_max(&self) -> u64 {
        u64::MAX
    }

    /// Replaces or creates a file atomically: after a power loss either the old or the new content is there, complete.
    /// Writes `<name>.tmp` beside it, syncs, renames, syncs the directory.
    ///
    /// After an error either content may be there, and a `.tmp` file may remain.
    fn write_atomic(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Renames a file or directory and replaces a file of the new name. Durable after [`sync_dir`](Self::sync_dir) of
    /// the new name's directory and of the old one's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name. Open files and memory maps of it stay readable.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and everything in it; not atomic. Fails with `NotFound` if it does not exist.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Creates a directory and its missing parents. Durable after [`sync_dir`](Self::sync_dir) of each parent that got
    /// a new name.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Returns the entries of a directory, sorted by name. Fails with `NotFound` if the directory does not exist.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;

    /// Returns whether a file or directory of that name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Returns the length of a file in bytes.
    fn len(&self, path: &Path) -> io::Result<u64>;

    /// Makes the names in a directory durable: created, renamed and removed ones.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Makes a file's bytes durable; for files that are not open for appending.
    fn sync_file(&self, path: &Path) -> io::Result<()>;

    /// Makes a file's bytes from offset `from` durable even if an earlier sync of them failed, possibly in a process
    /// that has ended. Reads them, writes them again in place and syncs. A plain sync would succeed without writing,
    /// because the kernel considers their pages clean.
    fn rewrite_and_sync(&self, path: &Path, from: u64) -> io::Result<()>;

    /// Returns the bytes that an unprivileged process may still write to the file system of `path`, which must exist.
    fn available_bytes(&self, path: &Path) -> io::Result<u64>;

    /// Returns the size in bytes of the file system of `path`, which must exist.
    fn total_bytes(&self, path: &Path) -> io::Result<u64>;
}
