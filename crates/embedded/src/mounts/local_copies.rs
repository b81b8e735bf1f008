//! Full copies of splits on this node, for indices mounted as `full_copy`.
//!
//! A copy is a file in the folder of its shard. It is made in the background and used as soon as it is complete. Its
//! pages are verified at every read. If the copy is damaged or missing, the read goes to the repository, and the copy
//! is made again.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::disk::Disk;
use firn_storage::object::Objects;
use firn_storage::split::{SplitRef, pages};

use super::split_bytes::failed;

/// Bytes of one request for a split, whole pages.
const READ_BYTES: u64 = 2048 * pages::PAGE_BYTES;

/// The copy of one split.
pub(super) struct LocalSplit {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    split: SplitRef,
    /// The file is complete, as far as this node knows.
    whole: AtomicBool,
    /// Bytes downloaded of the copy in progress.
    came: AtomicU64,
}

/// Returns the file name of a split's copy.
pub(super) fn copy_name(split: &SplitRef) -> String {
    format!("{}.split", split.id)
}

/// Whether a file name is that of a copy.
pub(super) fn is_copy(name: &str) -> bool {
    name.ends_with(".split")
}

impl LocalSplit {
    /// Finds the copy in a shard's folder, as an earlier process left it, if there is one.
    pub(super) fn new(folder: &Path, disk: Arc<dyn Disk>, split: &SplitRef) -> Arc<Self> {
        let path = folder.join(copy_name(split));
        // If the file turns out to be unusable, it is made again.
        let whole = matches!(disk.len(&path), Ok(len) if len == split.len);
        Arc::new(Self {
            path,
            disk,
            split: split.clone(),
            whole: AtomicBool::new(whole),
            came: AtomicU64::new(0),
        })
    }

    /// Whether the copy can be read.
    pub(super) fn is_whole(&self) -> bool {
        self.whole.load(Ordering::Acquire)
    }

    /// Returns the bytes of a complete copy.
    pub(super) fn len(&self) -> u64 {
        self.split.len
    }

    /// Returns the bytes of the copy on this node.
    pub(super) fn bytes(&self) -> u64 {
        match self.is_whole() {
            true => self.split.len,
            false => 0,
        }
    }

    /// Returns the downloaded bytes, also of a copy in progress.
    pub(super) fn came(&self) -> u64 {
        match self.is_whole() {
            true => self.split.len,
            false => self.came.load(Ordering::Relaxed),
        }
    }

    /// Returns verified bytes; `None`: there is no copy, or it is damaged and will be made again.
    pub(super) fn read(&self, logical: &Range<u64>) -> Option<Bytes> {
        if !self.is_whole() {
            return None;
        }
        match self.read_pages(logical) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                if self.whole.swap(false, Ordering::AcqRel) {
                    tracing::error!(path = %self.path.display(), %error, "a copy of a split is damaged; copying again");
                }
                None
            }
        }
    }

    /// Uses reads instead of a mapping: a truncated file or an unreadable sector is then an error of one read, and not
    /// a signal that kills the process.
    fn read_pages(&self, logical: &Range<u64>) -> Result<Bytes> {
        let physical = pages::physical(logical);
        let bytes = self.disk.read_range(&self.path, physical.clone())?;
        if (bytes.len() as u64) < physical.end - physical.start {
            return Err(damaged("it is too short"));
        }
        pages::verify(self.split.salt, physical.start, &bytes).map_err(|damage| damaged(&damage.to_string()))?;
        Ok(pages::payload(physical.start, &bytes, logical))
    }

    /// Makes the copy if there is none. The file gets its name only when it is complete and durable; an incomplete file
    /// is removed.
    pub(super) async fn complete(&self, store: &dyn Objects, go_on: &(dyn Fn() -> Result<()> + Sync)) -> Result<()> {
        if self.is_whole() {
            return Ok(());
        }
        let part = PartialCopy {
            path: self.path.with_extension("part"),
            disk: &*self.disk,
        };
        let folder = self.path.parent().unwrap_or(Path::new("."));
        self.disk.create_dir_all(folder)?;
        part.remove()?;
        if let Err(error) = self.write(&part.path, store, go_on).await {
            self.came.store(0, Ordering::Relaxed);
            return Err(error);
        }
        self.disk.rename(&part.path, &self.path)?;
        self.disk.sync_dir(folder)?;
        self.whole.store(true, Ordering::Release);
        Ok(())
    }

    async fn write(&self, path: &Path, store: &dyn Objects, go_on: &(dyn Fn() -> Result<()> + Sync)) -> Result<()> {
        let file = self.disk.create_append(path)?;
        let key = self.split.key();
        self.came.store(0, Ordering::Relaxed);
        for start in (0..self.split.len).step_by(READ_BYTES as usize) {
            go_on()?;
            let end = self.split.len.min(start + READ_BYTES);
            let bytes = store.read(&key, start..end).await.map_err(failed)?;
            pages::verify(self.split.salt, start, &bytes)
                .map_err(|damage| Error::new(ErrorKind::Repository, format!("object [{key}] is damaged: {damage}")))?;
            file.append(&bytes)?;
            self.came.fetch_add(end - start, Ordering::Relaxed);
        }
        Ok(file.sync()?)
    }
}

/// A copy in progress, removed on drop: its space is counted nowhere, and it matters most when the disk is full.
struct PartialCopy<'a> {
    path: PathBuf,
    disk: &'a dyn Disk,
}

impl PartialCopy<'_> {
    fn remove(&self) -> Result<()> {
        match self.disk.remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

impl Drop for PartialCopy<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the incomplete copy of a split");
        }
    }
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Repository, format!("a split is damaged: {what}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use firn_storage::object::{Guard, Guarded, Limit, MemoryObjects, PutMode, RetryPolicy};
    use firn_storage::sim::SimDisk;
    use firn_storage::split::pages::PageWriter;

    use super::*;

    /// Returns a store, a split with `pages` pages that is not yet in the store, and the split's bytes.
    fn store_and_split(pages: u64) -> (Guarded, SplitRef, Bytes) {
        let mut writer = PageWriter::new(Vec::new(), 7);
        writer
            .write_all(&vec![5; (pages * pages::PAYLOAD_BYTES) as usize])
            .unwrap();
        let (bytes, len) = writer.finish().unwrap();
        let split = SplitRef {
            id: "ab".repeat(32),
            len,
            salt: 7,
            footer: 0..len,
            segment: "s".to_owned(),
            docs: 1,
            time_range_ms: None,
            without_time: 1,
            seq_no_range: (0, 0),
            segment_bytes: len,
            tenants: None,
            filters: Vec::new(),
        };
        let store = Arc::new(MemoryObjects::new());
        let guard = Guard::new(Limit::new(4), RetryPolicy::new(0, 7));
        (Guarded::new(store, guard), split, bytes.into())
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(future)
    }

    #[test]
    fn of_a_copy_that_was_not_made_nothing_stays() {
        let (store, split, object) = store_and_split(3);
        let disk = SimDisk::new();
        let folder = Path::new("/indices/u/0");
        let copy = LocalSplit::new(folder, Arc::new(disk.clone()), &split);
        let files = || {
            disk.list(folder)
                .unwrap()
                .into_iter()
                .map(|entry| entry.name)
                .collect::<Vec<_>>()
        };
        let go_on = || Ok(());
        let complete = |go_on: &(dyn Fn() -> Result<()> + Sync)| block_on(copy.complete(&store, go_on));

        let error = complete(&go_on).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Repository, "the store lacks it: {error}");
        assert!(files().is_empty(), "{:?}", files());

        block_on(store.write(&split.key(), object, PutMode::Create)).unwrap();
        let gone = || Err(Error::new(ErrorKind::Cancelled, "the index was deleted"));
        assert_eq!(complete(&gone).unwrap_err().kind(), ErrorKind::Cancelled);
        assert!(files().is_empty(), "{:?}", files());

        disk.set_capacity(disk.used_bytes() + pages::PAGE_BYTES);
        complete(&go_on).unwrap_err();
        assert!(files().is_empty(), "{:?}", files());
        assert!(!copy.is_whole() && copy.read(&(0..10)).is_none());
        assert_eq!(copy.came(), 0);

        disk.set_capacity(u64::MAX);
        complete(&go_on).unwrap();
        assert_eq!(files(), [format!("{}.split", split.id)]);
        assert_eq!(copy.read(&(0..3)).unwrap(), &[5; 3][..]);
    }

    #[test]
    fn a_copy_reports_its_progress() {
        let (store, split, object) = store_and_split(READ_BYTES / pages::PAGE_BYTES + 1);
        block_on(store.write(&split.key(), object, PutMode::Create)).unwrap();
        let copy = LocalSplit::new(Path::new("/indices/u/0"), Arc::new(SimDisk::new()), &split);
        let reported = parking_lot::Mutex::new(Vec::new());
        let go_on = || {
            reported.lock().push(copy.came());
            Ok(())
        };
        block_on(copy.complete(&store, &go_on)).unwrap();
        assert_eq!(*reported.lock(), [0, READ_BYTES]);
        assert_eq!(copy.came(), READ_BYTES + pages::PAGE_BYTES);
    }
}
