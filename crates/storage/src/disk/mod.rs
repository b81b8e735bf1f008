//! The file operations that firn needs, with what they promise after a power loss.
//!
//! Contents and names become durable apart, as POSIX has it: [`AppendFile::sync`] makes a file's
//! bytes durable, [`Disk::sync_dir`] makes the names in a directory durable. Creating, renaming or
//! removing a file and not syncing its directory means that either state may come back.

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

/// A file that only grows. Dropping it closes it and makes nothing durable.
pub trait AppendFile: Send + Sync + fmt::Debug {
    /// Writes `bytes` at the end, all of them or an error; after an error an unknown part of them
    /// was written and [`len`](Self::len) says how many bytes the file has.
    ///
    /// One thread at a time may append; a [`sync`](Self::sync) may run meanwhile.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Makes everything appended before the call durable (`fdatasync`), the file's name not.
    ///
    /// After an error nothing may be assumed about bytes appended since the last successful sync,
    /// not even if a later sync succeeds: the kernel drops pages that it could not write.
    fn sync(&self) -> io::Result<()>;

    /// Bytes in the file, durable or not.
    fn len(&self) -> u64;

    /// Whether the file holds no byte.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A file that is overwritten in place, open for this process alone. Dropping it closes it and makes nothing durable.
///
/// What was written since the last successful [`sync`](Self::sync) is on the disk after a power loss in any part and
/// mixture, a write of some bytes half of it too. All methods may be called concurrently, for the same bytes too: then a
/// reader gets any mixture.
pub trait RandomFile: Send + Sync + fmt::Debug {
    /// Fills `bytes` as far as the file goes and says how far that was.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes`; lengthens the file where needed. After an error an unknown part of them was written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Cuts the file, or fills it with zeros up to `len`.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Where the file ends.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file holds no byte.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Makes the bytes and the length durable, the file's name not. After an error the same holds as after one of
    /// [`AppendFile::sync`].
    fn sync(&self) -> io::Result<()>;

    /// Gives the disk space of a range back; it reads as zeros then.
    fn release(&self, range: Range<u64>) -> io::Result<()>;

    /// Whether space is taken and given back by the page. If not, [`release`](Self::release) does nothing.
    fn is_sparse(&self) -> bool;

    /// Bytes of the disk that it takes.
    fn taken_bytes(&self) -> io::Result<u64>;
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without its directory. Names that are not UTF-8 are left out of listings.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Bytes, 0 for a directory.
    pub len: u64,
}

/// A file system. All methods may be called concurrently.
///
/// Errors keep the operating system's [`io::ErrorKind`] (`NotFound`, `StorageFull`, …) and name the
/// path; `firn_model::Error::from` makes [`DiskFull`](firn_model::ErrorKind::DiskFull) of
/// `StorageFull`.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Creates an empty file; `AlreadyExists` if the name is taken.
    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>>;

    /// Opens an existing file to go on at its end; `NotFound` if there is none.
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>>;

    /// Opens a file to be written in place, and makes an empty one if there is none; [`io::ErrorKind::ResourceBusy`] if
    /// it is open that way already, here or in another process.
    fn open_random(&self, path: &Path) -> io::Result<Box<dyn RandomFile>>;

    /// Cuts a file to `len` bytes, or fills it with zeros up to `len`. Durable after
    /// [`sync_file`](Self::sync_file).
    fn set_len(&self, path: &Path, len: u64) -> io::Result<()>;

    /// The whole file, copied into memory.
    fn read(&self, path: &Path) -> io::Result<Bytes>;

    /// The bytes of a half-open range, copied into memory; cut short at the end of the file.
    fn read_range(&self, path: &Path, range: Range<u64>) -> io::Result<Bytes>;

    /// The whole file without a copy, as the operating system pages it in. The file must not be
    /// changed or cut while the bytes live; it may be removed.
    fn map(&self, path: &Path) -> io::Result<Bytes>;

    /// How many files may be mapped at once, about.
    fn maps_max(&self) -> u64 {
        u64::MAX
    }

    /// Replaces or creates a file so that after a power loss the old or the new content is there,
    /// whole: writes `<name>.tmp` beside it, syncs, renames, syncs the directory.
    ///
    /// After an error either content may be there. A left-over `.tmp` file may stay behind.
    fn write_atomic(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Renames a file or directory, replacing a file of the new name. Durable after
    /// [`sync_dir`](Self::sync_dir) of the new name's directory (and the old one's).
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name. Open files and maps of it stay readable.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and everything in it; not atomic. `NotFound` if there is none.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Creates a directory and its missing parents. Durable after [`sync_dir`](Self::sync_dir) of
    /// each parent that got a new name.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, sorted by name. `NotFound` if there is no such directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;

    /// Whether a file or directory of that name exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Bytes in a file.
    fn len(&self, path: &Path) -> io::Result<u64>;

    /// Makes the names in a directory durable: created, renamed and removed ones.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Makes a file's bytes durable, for files that are not open for appending.
    fn sync_file(&self, path: &Path) -> io::Result<()>;

    /// Makes a file's bytes from `from` on durable even if a sync of them failed before, perhaps in
    /// a process that is no more: writes them again as they read, in place, then syncs. A plain sync
    /// would succeed without doing anything, because the kernel takes their pages for clean.
    fn rewrite_and_sync(&self, path: &Path, from: u64) -> io::Result<()>;

    /// Bytes that an unprivileged process may still write to the file system of `path`, which must
    /// exist.
    fn available_bytes(&self, path: &Path) -> io::Result<u64>;

    /// Size in bytes of the file system of `path`, which must exist.
    fn total_bytes(&self, path: &Path) -> io::Result<u64>;
}
