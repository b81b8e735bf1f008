//! A shard of a mounted index.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use firn_model::Result;
use firn_model::ids::AutoId;
use firn_model::metadata::IndexMetadata;
use firn_model::settings::SnapshotStore;
use firn_segment::segment::{Segment, ShardSnapshot};
use firn_storage::disk::Disk;

use super::local_copies::{LocalSplit, copy_name, is_copy};
use super::manifests::{MountedIndex, MountedSegments};
use crate::backoff::Backoff;

/// Maximum pause before a failed copy is tried again, for example after a full disk or an unavailable store.
const COPY_PAUSE_S_MAX: u64 = 60;

/// Content of a slot of a mounted index. Until the first search it is little more than a name.
pub(crate) struct MountedShard {
    pub(crate) index: Arc<str>,
    pub(crate) uuid: Arc<str>,
    pub(crate) tag: u32,
    pub(crate) number: u32,
    pub(crate) store: Arc<SnapshotStore>,
    tenant_field: Option<Arc<str>>,
    manifest: OnceLock<Arc<MountedIndex>>,
    /// Folder of the full copies; `None`: the shard reads through the shared cache.
    folder: Option<PathBuf>,
    copies: OnceLock<Vec<Arc<LocalSplit>>>,
    /// When the last copy was completed, ms since epoch UTC; 0: none since the start.
    copied_ms: AtomicI64,
    /// When copying may be tried again.
    pub(super) copy_backoff: Backoff,
}

impl MountedShard {
    /// Creates a shard of a mounted index; `dir` is its folder.
    pub(crate) fn new(index: &IndexMetadata, store: &Arc<SnapshotStore>, number: u32, dir: PathBuf) -> Self {
        Self {
            index: index.name.as_str().into(),
            uuid: index.uuid.as_str().into(),
            tag: AutoId::tag_of(index.ids_of()),
            number,
            store: Arc::clone(store),
            tenant_field: index.settings.tenant_field.as_deref().map(Arc::from),
            manifest: OnceLock::new(),
            folder: (!store.partial).then_some(dir),
            copies: OnceLock::new(),
            copied_ms: AtomicI64::new(0),
            copy_backoff: Backoff::new(COPY_PAUSE_S_MAX),
        }
    }

    /// Returns the manifest, if it is known already.
    pub(crate) fn known(&self) -> Option<&Arc<MountedIndex>> {
        self.manifest.get()
    }

    /// Sets the manifest.
    pub(crate) fn learn(&self, manifest: Arc<MountedIndex>) {
        // If another thread was first, it set the same manifest.
        let _ = self.manifest.set(manifest);
    }

    /// Returns the segments; `None`: the manifest is unknown, or the snapshot lacks the shard.
    pub(crate) fn segments(&self) -> Option<&MountedSegments> {
        self.manifest.get()?.shards.get(self.number as usize)
    }

    /// Returns the full copies of the segments, in the order of the segments; empty if the shard uses the shared cache.
    pub(super) fn copies(&self, disk: &Arc<dyn Disk>) -> &[Arc<LocalSplit>] {
        let (Some(folder), Some(segments)) = (&self.folder, self.segments()) else {
            return &[];
        };
        self.copies.get_or_init(|| {
            let copy = |segment: &Arc<_>| -> Arc<LocalSplit> {
                let segment: &Arc<firn_storage::repository::SnapshotSegment> = segment;
                LocalSplit::new(folder, Arc::clone(disk), &segment.split)
            };
            segments.segments.iter().map(copy).collect()
        })
    }

    /// Removes copies of splits from the folder that the shard does not read.
    pub(super) fn remove_other_copies(&self, disk: &Arc<dyn Disk>) -> Result<()> {
        let (Some(folder), Some(segments)) = (&self.folder, self.segments()) else {
            return Ok(());
        };
        let own: HashSet<String> = segments
            .segments
            .iter()
            .map(|segment| copy_name(&segment.split))
            .collect();
        let listed = match disk.list(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            listed => listed?,
        };
        let others = listed.into_iter().map(|entry| entry.name);
        for name in others.filter(|name| is_copy(name) && !own.contains(name)) {
            disk.remove_file(&folder.join(name))?;
        }
        Ok(disk.sync_dir(folder)?)
    }

    /// Returns for each segment with a full copy its bytes, the downloaded bytes, and whether the copy is complete.
    pub(crate) fn copied(&self, disk: &Arc<dyn Disk>) -> Vec<(u64, u64, bool)> {
        let copies = self.copies(disk).iter();
        copies.map(|copy| (copy.len(), copy.came(), copy.is_whole())).collect()
    }

    /// Returns when this process completed the last copy; `None`: it completed none.
    pub(crate) fn copied_ms(&self) -> Option<i64> {
        Some(self.copied_ms.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// Records that all copies are complete now.
    pub(super) fn note_copied(&self, now_ms: i64) {
        self.copied_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Returns the view of the shard for a search.
    pub(crate) fn snapshot(&self, segments: Vec<Arc<Segment>>) -> Arc<ShardSnapshot> {
        Arc::new(ShardSnapshot {
            index: Arc::clone(&self.index),
            index_tag: self.tag,
            shard: self.number,
            tenant_field: self.tenant_field.clone(),
            segments,
        })
    }
}
