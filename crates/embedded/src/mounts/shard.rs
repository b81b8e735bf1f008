//! A shard that reads a snapshot.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use firn_model::Result;
use firn_model::ids::AutoId;
use firn_model::metadata::IndexMetadata;
use firn_model::settings::SnapshotStore;
use firn_storage::disk::Disk;

use super::local::{LocalSplit, copy_name, is_copy};
use super::manifests::{MountedIndex, MountedSegments};
use crate::backoff::Backoff;
use crate::segment::{Segment, ShardSnapshot};

/// A copy that cannot be made, for want of room or of an answer, is tried again at least so often.
const COPY_PAUSE_S_MAX: u64 = 60;

/// What a slot holds of a mounted index. Until somebody asks for the shard that is its name.
pub(crate) struct MountedShard {
    pub(crate) index: Arc<str>,
    pub(crate) uuid: Arc<str>,
    pub(crate) tag: u32,
    pub(crate) number: u32,
    pub(crate) store: Arc<SnapshotStore>,
    tenant_field: Option<Arc<str>>,
    manifest: OnceLock<Arc<MountedIndex>>,
    /// Where whole copies go; `None`: it reads through the shared cache.
    folder: Option<PathBuf>,
    copies: OnceLock<Vec<Arc<LocalSplit>>>,
    /// When the last copy came, ms since epoch UTC; 0: none has come since the start.
    copied_ms: AtomicI64,
    /// When copying may be tried again.
    pub(super) copy_backoff: Backoff,
}

impl MountedShard {
    /// A shard of a mounted index; `dir` is its folder.
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

    /// What it reads, if that is known already.
    pub(crate) fn known(&self) -> Option<&Arc<MountedIndex>> {
        self.manifest.get()
    }

    /// Learns what it reads.
    pub(crate) fn learn(&self, manifest: Arc<MountedIndex>) {
        // Whoever was first learned the same.
        let _ = self.manifest.set(manifest);
    }

    /// Its segments, once they are known; `None` also where the snapshot lacks the shard.
    pub(crate) fn segments(&self) -> Option<&MountedSegments> {
        self.manifest.get()?.shards.get(self.number as usize)
    }

    /// Whole copies of its segments, in their order; empty where it has none.
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

    /// Removes copies of splits from its folder that it does not read.
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

    /// Of each segment of which there is to be a whole copy its bytes, those that came, and whether the copy is here.
    pub(crate) fn copied(&self, disk: &Arc<dyn Disk>) -> Vec<(u64, u64, bool)> {
        let copies = self.copies(disk).iter();
        copies.map(|copy| (copy.len(), copy.came(), copy.is_whole())).collect()
    }

    /// When the last copy came that this process made; `None`: it made none.
    pub(crate) fn copied_ms(&self) -> Option<i64> {
        Some(self.copied_ms.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// Notes that all copies are here now.
    pub(super) fn note_copied(&self, now_ms: i64) {
        self.copied_ms.store(now_ms, Ordering::Relaxed);
    }

    /// What a search sees of it.
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
