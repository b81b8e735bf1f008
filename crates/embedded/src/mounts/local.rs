//! Whole copies of splits on this node, of indices that are mounted as `full_copy`.
//!
//! A copy is a file in the folder of its shard, made in the background and used from the moment it is whole. Its pages
//! are verified whenever they are read; one that is damaged or gone is read from the repository, and the copy is made
//! again.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::disk::Disk;
use firn_storage::object::Objects;
use firn_storage::split::{SplitRef, pages};

/// Bytes of a split that one request brings, whole pages.
const READ_BYTES: u64 = 2048 * pages::PAGE_BYTES;

/// The copy of one split.
pub(super) struct LocalSplit {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    split: SplitRef,
    /// The file is there, as far as anybody knows.
    whole: AtomicBool,
}

impl LocalSplit {
    /// The copy in a shard's folder, as an earlier process left it, or none yet.
    pub(super) fn new(folder: &Path, disk: Arc<dyn Disk>, split: &SplitRef) -> Arc<Self> {
        let path = folder.join(format!("{}.split", split.id));
        // One that cannot be used is made again.
        let whole = matches!(disk.len(&path), Ok(len) if len == split.len);
        Arc::new(Self {
            path,
            disk,
            split: split.clone(),
            whole: AtomicBool::new(whole),
        })
    }

    /// Whether the copy can be read.
    pub(super) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }

    /// Bytes of a whole copy.
    pub(super) fn len(&self) -> u64 {
        self.split.len
    }

    /// Bytes of the copy that are there.
    pub(super) fn bytes(&self) -> u64 {
        match self.is_whole() {
            true => self.split.len,
            false => 0,
        }
    }

    /// Verified bytes; `None`: there is no copy, or it is damaged here, and will be made again.
    pub(super) fn read(&self, logical: &Range<u64>) -> Option<Bytes> {
        if !self.is_whole() {
            return None;
        }
        match self.read_pages(logical) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                if self.whole.swap(false, Ordering::AcqRel) {
                    tracing::error!(path = %self.path.display(), %error, "the copy of a split is damaged and made again");
                }
                None
            }
        }
    }

    /// Read, not mapped: a file that was cut, or a sector that cannot be read, is then an error of one read and not a
    /// signal that ends the process.
    fn read_pages(&self, logical: &Range<u64>) -> Result<Bytes> {
        let physical = pages::physical(logical);
        let bytes = self.disk.read_range(&self.path, physical.clone())?;
        if (bytes.len() as u64) < physical.end - physical.start {
            return Err(damaged("it is cut"));
        }
        pages::verify(self.split.salt, physical.start, &bytes).map_err(|damage| damaged(&damage.to_string()))?;
        Ok(pages::payload(physical.start, &bytes, logical))
    }

    /// Makes the copy if there is none. The file has its name only once it is whole and durable.
    pub(super) async fn complete(&self, store: &dyn Objects, go_on: &(dyn Fn() -> bool + Sync)) -> Result<()> {
        if self.is_whole() {
            return Ok(());
        }
        let part = self.path.with_extension("part");
        let folder = self.path.parent().unwrap_or(Path::new("."));
        self.disk.create_dir_all(folder)?;
        match self.disk.remove_file(&part) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let file = self.disk.create_append(&part)?;
        let key = self.split.key();
        for start in (0..self.split.len).step_by(READ_BYTES as usize) {
            if !go_on() {
                return Err(Error::new(ErrorKind::Cancelled, "the index is gone, or the node stops"));
            }
            let end = self.split.len.min(start + READ_BYTES);
            let bytes = store.read(&key, start..end).await?;
            pages::verify(self.split.salt, start, &bytes)
                .map_err(|damage| Error::new(ErrorKind::Repository, format!("object [{key}] is damaged: {damage}")))?;
            file.append(&bytes)?;
        }
        file.sync()?;
        drop(file);
        self.disk.rename(&part, &self.path)?;
        self.disk.sync_dir(folder)?;
        self.whole.store(true, Ordering::Release);
        Ok(())
    }
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Repository, format!("a split is damaged: {what}"))
}
