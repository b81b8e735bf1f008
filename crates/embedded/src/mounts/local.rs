//! Whole copies of splits on this node, of indices that are mounted as `full_copy`.
//!
//! A copy is a file in the folder of its shard, made in the background and used from the moment it is whole. Its pages
//! are verified whenever they are read; one that is damaged is read from the repository, and the copy is made again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::disk::Disk;
use firn_storage::object::Objects;
use firn_storage::split::{SplitRef, pages};

use crate::splits::WholeSplit;

/// Bytes of a split that one request brings, whole pages.
const READ_BYTES: u64 = 2048 * pages::PAGE_BYTES;

/// The copy of one split.
pub(super) struct LocalSplit {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    split: SplitRef,
    whole: ArcSwapOption<WholeSplit>,
    /// A page of it did not fit its checksum.
    damaged: AtomicBool,
}

impl LocalSplit {
    /// The copy in a shard's folder, as an earlier process left it, or none yet.
    pub(super) fn new(folder: &Path, disk: Arc<dyn Disk>, split: &SplitRef) -> Arc<Self> {
        let local = Self {
            path: folder.join(format!("{}.split", split.id)),
            disk,
            split: split.clone(),
            whole: ArcSwapOption::empty(),
            damaged: AtomicBool::new(false),
        };
        // One that cannot be used now is made again.
        if matches!(local.disk.len(&local.path), Ok(len) if len == split.len) {
            let _ = local.open();
        }
        Arc::new(local)
    }

    /// The copy, if it is whole.
    pub(super) fn whole(&self) -> Option<Arc<WholeSplit>> {
        self.whole.load_full()
    }

    /// Bytes of the copy that are there.
    pub(super) fn bytes(&self) -> u64 {
        match self.whole.load().is_some() {
            true => self.split.len,
            false => 0,
        }
    }

    /// Puts a copy that is damaged out of use.
    pub(super) fn is_damaged(&self, error: &Error) {
        if !self.damaged.swap(true, Ordering::AcqRel) {
            tracing::error!(path = %self.path.display(), %error, "the copy of a split is damaged and made again");
        }
        self.whole.store(None);
    }

    fn open(&self) -> std::io::Result<()> {
        let object = self.disk.map(&self.path)?;
        self.whole
            .store(Some(Arc::new(WholeSplit::new(object, self.split.salt))));
        Ok(())
    }

    /// Makes the copy if there is none. The file has its name only once it is whole and durable.
    pub(super) async fn complete(&self, store: &dyn Objects, go_on: &(dyn Fn() -> bool + Sync)) -> Result<()> {
        if self.whole.load().is_some() {
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
        self.damaged.store(false, Ordering::Release);
        Ok(self.open()?)
    }
}
