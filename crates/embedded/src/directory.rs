//! Tantivy's files on firn's disk abstraction.
//!
//! One [`DiskDirectory`] is the folder of one segment. What surprises: it never syncs. A segment
//! is made durable by the flush that names it in a commit point; until then its documents are in
//! the WAL, and syncing at every refresh would buy nothing. Lengths and checksums of the files are
//! taken while they are written, for that commit point.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use firn_storage::disk::{AppendFile, Disk};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use stable_deref_trait::StableDeref;
use tantivy::directory::error::{DeleteError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, Directory, FileHandle, OwnedBytes, TerminatingWrite, WatchCallback, WatchHandle, WritePtr,
};

/// Bytes gathered before they are handed to the operating system.
const WRITE_BUFFER_BYTES: usize = 128 << 10;

/// Stands in the message of every failure to write for want of space, because Tantivy drops kinds.
pub(crate) const NO_SPACE: &str = "no storage space is left";

/// Length and checksum of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileSum {
    /// Bytes.
    pub(crate) len: u64,
    /// CRC32C of all of them.
    pub(crate) crc: u32,
}

/// The folder of one segment.
#[derive(Clone, Debug)]
pub(crate) struct DiskDirectory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Files written whole by now.
    written: Mutex<BTreeMap<String, FileSum>>,
    /// Small files that Tantivy replaces several times while it writes (its metadata); written to
    /// the disk once, by [`DiskDirectory::finish`].
    metadata: Mutex<HashMap<PathBuf, Vec<u8>>>,
}

impl DiskDirectory {
    /// An existing folder.
    pub(crate) fn open(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        Self {
            shared: Arc::new(Shared {
                disk,
                dir,
                written: Mutex::default(),
                metadata: Mutex::default(),
            }),
        }
    }

    /// A new, empty folder.
    pub(crate) fn create(disk: Arc<dyn Disk>, dir: PathBuf) -> io::Result<Self> {
        disk.create_dir_all(&dir)?;
        Ok(Self::open(disk, dir))
    }

    /// Writes the metadata and says what the folder holds.
    pub(crate) fn finish(&self) -> io::Result<BTreeMap<String, FileSum>> {
        let shared = &self.shared;
        let meta = Path::new("meta.json");
        let bytes = shared.metadata.lock().get(meta).cloned().unwrap_or_default();
        let file = shared.disk.create_append(&shared.dir.join(meta))?;
        file.append(&bytes)?;
        let sum = FileSum {
            len: bytes.len() as u64,
            crc: crc32c::crc32c(&bytes),
        };
        let mut written = shared.written.lock();
        written.insert("meta.json".to_owned(), sum);
        Ok(written.clone())
    }

    /// Writes a small file of firn's own beside Tantivy's; call before [`Self::finish`].
    pub(crate) fn write_small(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = self.shared.disk.create_append(&self.shared.dir.join(name))?;
        file.append(bytes)?;
        let sum = FileSum {
            len: bytes.len() as u64,
            crc: crc32c::crc32c(bytes),
        };
        self.shared.written.lock().insert(name.to_owned(), sum);
        Ok(())
    }
}

/// A mapped file.
struct Mapped(Bytes);

impl Deref for Mapped {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

// SAFETY: `Bytes` points at memory that it shares and never moves, not at memory inside itself.
#[allow(unsafe_code, reason = "Tantivy asks for this promise of every owner of bytes")]
unsafe impl StableDeref for Mapped {}

struct Writer {
    shared: Arc<Shared>,
    name: String,
    file: Box<dyn AppendFile>,
    buffer: Vec<u8>,
    sum: FileSum,
}

impl Writer {
    fn write_out(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.file.append(&self.buffer).map_err(|error| match error.kind() {
                io::ErrorKind::StorageFull => io::Error::new(error.kind(), format!("{NO_SPACE}: {error}")),
                _ => error,
            })?;
            self.sum.len += self.buffer.len() as u64;
            self.sum.crc = crc32c::crc32c_append(self.sum.crc, &self.buffer);
            self.buffer.clear();
        }
        Ok(())
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > WRITE_BUFFER_BYTES {
            self.write_out()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TerminatingWrite for Writer {
    fn terminate_ref(&mut self, _: AntiCallToken) -> io::Result<()> {
        self.write_out()?;
        self.buffer = Vec::new();
        self.shared
            .written
            .lock()
            .insert(std::mem::take(&mut self.name), self.sum);
        Ok(())
    }
}

fn read_error(error: io::Error, path: &Path) -> OpenReadError {
    if error.kind() == io::ErrorKind::NotFound {
        OpenReadError::FileDoesNotExist(path.to_path_buf())
    } else {
        OpenReadError::wrap_io_error(error, path.to_path_buf())
    }
}

impl Directory for DiskDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        let bytes = self
            .shared
            .disk
            .map(&self.shared.dir.join(path))
            .map_err(|error| read_error(error, path))?;
        Ok(Arc::new(OwnedBytes::new(Mapped(bytes))))
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        self.shared
            .disk
            .remove_file(&self.shared.dir.join(path))
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => DeleteError::FileDoesNotExist(path.to_path_buf()),
                _ => DeleteError::IoError {
                    io_error: Arc::new(error),
                    filepath: path.to_path_buf(),
                },
            })
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        if self.shared.metadata.lock().contains_key(path) {
            return Ok(true);
        }
        self.shared
            .disk
            .exists(&self.shared.dir.join(path))
            .map_err(|error| read_error(error, path))
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let file = self
            .shared
            .disk
            .create_append(&self.shared.dir.join(path))
            .map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => OpenWriteError::FileAlreadyExists(path.to_path_buf()),
                _ => OpenWriteError::wrap_io_error(error, path.to_path_buf()),
            })?;
        let writer = Writer {
            shared: Arc::clone(&self.shared),
            name: path.to_string_lossy().into_owned(),
            file,
            buffer: Vec::new(),
            sum: FileSum { len: 0, crc: 0 },
        };
        Ok(WritePtr::new(Box::new(writer)))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        if let Some(bytes) = self.shared.metadata.lock().get(path) {
            return Ok(bytes.clone());
        }
        self.shared
            .disk
            .read(&self.shared.dir.join(path))
            .map(|bytes| bytes.to_vec())
            .map_err(|error| read_error(error, path))
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        self.shared.metadata.lock().insert(path.to_path_buf(), data.to_vec());
        Ok(())
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }

    fn watch(&self, _: WatchCallback) -> tantivy::Result<WatchHandle> {
        Ok(WatchHandle::empty())
    }
}
