//! Tantivy directory on firn's disk abstraction.
//!
//! One [`DiskDirectory`] is the folder of one segment. What surprises: it never syncs. A segment becomes durable by the
//! flush that names it in a commit point; until then its documents are in the WAL, and a sync at every refresh would
//! gain nothing. Lengths and checksums of the files are computed while they are written, for that commit point and for
//! readers.
//!
//! Each block of a file is verified at its first read after the segment was opened. Tantivy unwraps errors of some
//! reads and drops others, so a read of a damaged block does not return an error: it unwinds with
//! [`ReadFailed`](crate::splits::dry_run::ReadFailed), which [`dry_run::catch`] converts to an error.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, Write};
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use firn_model::{Error, Result};
use firn_storage::disk::{AppendFile, Disk};
use parking_lot::Mutex;
use stable_deref_trait::StableDeref;
use tantivy::HasLen;
use tantivy::directory::error::{DeleteError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, Directory, FileHandle, OwnedBytes, TerminatingWrite, WatchCallback, WatchHandle, WritePtr,
};

use crate::block_checksums::{self, BlockVerifier, CHECKSUMS_FILE, ChecksumWriter, Checksums, FileChecksums, FileSum};
use crate::commit_point::damaged;
use crate::splits::dry_run;

/// Write buffer in bytes.
const WRITE_BUFFER_BYTES: usize = 128 << 10;

/// Part of the message of every write error caused by missing space, because Tantivy drops the kind of an error.
pub const NO_SPACE: &str = "no storage space is left";

/// Bytes of one read of a file of an older build.
const MEASURE_BYTES: u64 = 1 << 20;
/// Tantivy's list of the segments of a folder.
const META_FILE: &str = "meta.json";

/// The folder of one segment.
#[derive(Clone, Debug)]
pub struct DiskDirectory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Checksums of the files that are completely written, or of the files of an existing folder. Files of older builds
    /// have none.
    checksums: Mutex<Checksums>,
    /// Length and checksum of the existing files, from the commit point.
    sums: BTreeMap<String, FileSum>,
    /// Verified blocks of open files.
    verifiers: Mutex<HashMap<String, (u64, Arc<BlockVerifier>)>>,
    /// The first damage that was found.
    damage: OnceLock<Error>,
    /// Small files that Tantivy replaces several times while it writes (its metadata); [`DiskDirectory::finish`] writes
    /// them to the disk once.
    metadata: Mutex<HashMap<PathBuf, Vec<u8>>>,
}

impl Shared {
    /// Records damage. Only the first one is stored.
    fn note(&self, name: &str, what: &str) -> Error {
        let path = self.dir.join(name);
        let error = damaged(&path, what);
        if self.damage.set(error.clone()).is_ok() {
            tracing::error!(%error, "a segment is damaged");
        }
        error
    }

    fn note_block(&self, name: &str, offset: u64) -> Error {
        self.note(
            name,
            &format!("the block at offset {offset} does not match its checksum"),
        )
    }

    fn verifier(&self, name: &str, len: u64) -> Arc<BlockVerifier> {
        let mut verifiers = self.verifiers.lock();
        match verifiers.get(name) {
            Some((known, verifier)) if *known == len => Arc::clone(verifier),
            _ => {
                let blocks = self.checksums.lock().get(name).map(|file| Arc::clone(&file.blocks));
                let verifier = Arc::new(BlockVerifier::new(len, blocks));
                verifiers.insert(name.to_owned(), (len, Arc::clone(&verifier)));
                verifier
            }
        }
    }
}

impl DiskDirectory {
    /// Opens an existing folder with the known checksums of its files.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        sums: BTreeMap<String, FileSum>,
        checksums: Option<Checksums>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                disk,
                dir,
                checksums: Mutex::new(checksums.unwrap_or_default()),
                sums,
                verifiers: Mutex::default(),
                damage: OnceLock::new(),
                metadata: Mutex::default(),
            }),
        }
    }

    /// Creates a new, empty folder.
    pub fn create(disk: Arc<dyn Disk>, dir: PathBuf) -> io::Result<Self> {
        disk.create_dir_all(&dir)?;
        Ok(Self::open(disk, dir, BTreeMap::new(), None))
    }

    /// Writes the metadata and the checksums of all files, and returns the files of the folder.
    pub fn finish(&self) -> io::Result<BTreeMap<String, FileSum>> {
        let meta = self.shared.metadata.lock().get(Path::new(META_FILE)).cloned();
        self.write_small(META_FILE, &meta.unwrap_or_default())?;
        let checksums = self.shared.checksums.lock();
        let bytes = block_checksums::encode(&checksums);
        let file = self.shared.disk.create_append(&self.shared.dir.join(CHECKSUMS_FILE))?;
        file.append(&bytes)?;
        let mut sums: BTreeMap<String, FileSum> = checksums
            .iter()
            .map(|(name, file)| (name.clone(), file.whole))
            .collect();
        sums.insert(CHECKSUMS_FILE.to_owned(), FileSum::of(&bytes));
        Ok(sums)
    }

    /// Writes a small file of firn beside Tantivy's; must be called before [`Self::finish`].
    pub fn write_small(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = self.shared.disk.create_append(&self.shared.dir.join(name))?;
        file.append(bytes)?;
        let checksums = FileChecksums::of(bytes);
        self.shared.checksums.lock().insert(name.to_owned(), checksums);
        Ok(())
    }

    /// Whether the segment has a file of this name.
    pub fn has_file(&self, name: &str) -> bool {
        self.shared.sums.contains_key(name) || self.shared.checksums.lock().contains_key(name)
    }

    /// Returns the first damage that any read found in its files.
    pub fn damage(&self) -> Option<&Error> {
        self.shared.damage.get()
    }

    /// Whether reads verify the blocks of its files.
    pub fn has_checksums(&self) -> bool {
        !self.shared.checksums.lock().is_empty()
    }

    /// Sets the checksums of files of an older build: from now on reads verify them.
    pub fn learn(&self, checksums: Checksums) {
        // First, so that a file that is opened meanwhile has them.
        self.shared.checksums.lock().clone_from(&checksums);
        for (name, (_, verifier)) in &*self.shared.verifiers.lock() {
            if let Some(file) = checksums.get(name) {
                verifier.learn(Arc::clone(&file.blocks));
            }
        }
    }

    /// Reads every byte of a file and verifies its checksum.
    pub fn verify(&self, name: &str, sum: FileSum) -> Result<()> {
        let shared = &*self.shared;
        let bytes = shared.disk.map(&shared.dir.join(name))?;
        if bytes.len() as u64 != sum.len {
            let what = format!("it has {} bytes instead of {}", bytes.len(), sum.len);
            return Err(shared.note(name, &what));
        }
        let checksums = shared.checksums.lock().get(name).cloned();
        match checksums {
            Some(file) => match file.find_damage(0, &bytes) {
                Some(offset) => return Err(shared.note_block(name, offset)),
                None => shared.verifier(name, sum.len).set_whole(),
            },
            None if crc32c::crc32c(&bytes) != sum.crc => {
                return Err(shared.note(name, "its checksum does not match"));
            }
            None => {}
        }
        Ok(())
    }

    /// Reads a part of a file from the disk and verifies the checksums of its blocks; `start` is the start of a block.
    /// Returns the number of bytes read.
    pub fn verify_part(&self, name: &str, start: u64, len: u64) -> Result<u64> {
        let shared = &*self.shared;
        let Some(file) = shared.checksums.lock().get(name).cloned() else {
            return Ok(0);
        };
        let end = (start + len).min(file.whole.len);
        let bytes = shared.disk.read_range(&shared.dir.join(name), start..end)?;
        if bytes.len() as u64 != end - start {
            return Err(shared.note(name, &format!("it ends before offset {end}")));
        }
        let first = (start / block_checksums::BLOCK_BYTES as u64) as usize;
        match file.find_damage(first, &bytes) {
            Some(offset) => Err(shared.note_block(name, offset)),
            None => Ok(bytes.len() as u64),
        }
    }

    /// Computes the block checksums of a file of an older build, and verifies the checksum of the whole file on the
    /// way.
    pub fn measure(&self, name: &str, sum: FileSum, go_on: &dyn Fn() -> Result<()>) -> Result<FileChecksums> {
        let shared = &*self.shared;
        let path = shared.dir.join(name);
        let mut writer = ChecksumWriter::default();
        let mut start = 0;
        while start < sum.len {
            go_on()?;
            let end = sum.len.min(start + MEASURE_BYTES);
            writer.update(&shared.disk.read_range(&path, start..end)?);
            start = end;
        }
        let checksums = writer.finish();
        match checksums.whole == sum && shared.disk.len(&path)? == sum.len {
            true => Ok(checksums),
            false => Err(shared.note(name, "its checksum does not match")),
        }
    }
}

/// A mapped file whose blocks are verified at their first read.
struct VerifiedFile {
    shared: Arc<Shared>,
    name: String,
    bytes: OwnedBytes,
    verifier: Arc<BlockVerifier>,
}

impl fmt::Debug for VerifiedFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "VerifiedFile({})", self.name)
    }
}

impl HasLen for VerifiedFile {
    fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl FileHandle for VerifiedFile {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        if let Err(offset) = self.verifier.verify(&self.bytes, &range) {
            dry_run::fail(self.shared.note_block(&self.name, offset));
        }
        Ok(self.bytes.slice(range))
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
    checksums: ChecksumWriter,
}

impl Writer {
    fn write_out(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.file.append(&self.buffer).map_err(|error| match error.kind() {
                io::ErrorKind::StorageFull => io::Error::new(error.kind(), format!("{NO_SPACE}: {error}")),
                _ => error,
            })?;
            self.checksums.update(&self.buffer);
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
        let checksums = std::mem::take(&mut self.checksums).finish();
        self.shared
            .checksums
            .lock()
            .insert(std::mem::take(&mut self.name), checksums);
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
        let name = path.to_string_lossy().into_owned();
        Ok(Arc::new(VerifiedFile {
            verifier: self.shared.verifier(&name, bytes.len() as u64),
            shared: Arc::clone(&self.shared),
            name,
            bytes: OwnedBytes::new(Mapped(bytes)),
        }))
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
            checksums: ChecksumWriter::default(),
        };
        Ok(WritePtr::new(Box::new(writer)))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        if let Some(bytes) = self.shared.metadata.lock().get(path) {
            return Ok(bytes.clone());
        }
        let bytes = self
            .shared
            .disk
            .read(&self.shared.dir.join(path))
            .map_err(|error| read_error(error, path))?;
        let name = path.to_string_lossy();
        if self
            .shared
            .sums
            .get(&*name)
            .is_some_and(|sum| *sum != FileSum::of(&bytes))
        {
            dry_run::fail(self.shared.note(&name, "its checksum does not match"));
        }
        Ok(bytes.to_vec())
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
