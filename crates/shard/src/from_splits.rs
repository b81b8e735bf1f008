//! Restore of a shard: writes a shard from splits, which is then opened as any other.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use firn_segment::commit_point::{CommitPoint, CommittedSegment, segment_dir, segments_dir, write_deletes};
use firn_segment::deletes::DeleteSet;
use firn_segment::splits::{SplitBytes, restore_segment};
use firn_storage::split::SplitRef;

use super::Shard;
use super::config::ShardConfig;

/// Segment to restore.
pub struct RestoredSegment {
    /// Entry in the manifest.
    pub split: SplitRef,
    /// Source of the bytes.
    pub bytes: Arc<dyn SplitBytes>,
    /// Deletes from [`firn_segment::frozen_segment::FrozenSegment::deletes`]; `None`: no document is deleted.
    pub deletes: Option<Bytes>,
}

/// Number of the commit point that a restore writes.
const FIRST_COMMIT: u64 = 1;
/// First generation of a WAL.
const FIRST_WAL: u64 = 1;

impl Shard {
    /// Writes segments into the folder of a new shard durably; [`Shard::open`] opens it. All or
    /// nothing: the commit point is written last, a folder without one is not a shard, and the next
    /// attempt starts with an empty one. `next_seq_no` is higher than all numbers in the segments. `stop` is called
    /// regularly and cancels by returning an error.
    pub fn restore(
        config: &ShardConfig,
        segments: &[RestoredSegment],
        next_seq_no: u64,
        stop: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let disk = &*config.disk;
        if Self::exists(disk, &config.dir)? {
            return Err(Error::new(
                ErrorKind::ResourceAlreadyExists,
                format!("folder [{}] holds a shard already", config.dir.display()),
            ));
        }
        if disk.exists(&config.dir)? {
            disk.remove_dir_all(&config.dir)?;
        }
        disk.create_dir_all(&segments_dir(&config.dir))?;
        let mut committed = Vec::with_capacity(segments.len());
        let mut seen = HashSet::new();
        for (generation, segment) in (1..).zip(segments) {
            stop()?;
            if !seen.insert(&segment.split.segment) {
                return Err(Error::new(
                    ErrorKind::Repository,
                    "a shard of a snapshot names a segment twice",
                ));
            }
            let dir = segment_dir(&config.dir, generation);
            let disk = Arc::clone(&config.disk);
            let bytes = Arc::clone(&segment.bytes);
            let mut meta = restore_segment(&segment.split, bytes, disk, dir.clone(), stop)?;
            meta.generation = generation;
            for name in meta.files.keys() {
                config.disk.sync_file(&dir.join(name))?;
            }
            config.disk.sync_dir(&dir)?;
            let deletes = match &segment.deletes {
                None => None,
                Some(bytes) => {
                    let deletes = DeleteSet::from_bytes(bytes, meta.docs)
                        .ok_or_else(|| Error::new(ErrorKind::Repository, "the deletes do not match the split"))?;
                    Some(write_deletes(
                        &*config.disk,
                        &config.dir,
                        generation,
                        FIRST_COMMIT,
                        &deletes,
                    )?)
                }
            };
            committed.push(CommittedSegment { meta, deletes });
        }
        disk.sync_dir(&segments_dir(&config.dir))?;
        let highest = committed.iter().map(|segment| segment.meta.seq_no_range.1 + 1).max();
        let point = CommitPoint {
            number: FIRST_COMMIT,
            index_uuid: config.index_uuid.to_string(),
            shard: config.shard,
            // The catalog does not name the shard yet.
            catalog: None,
            next_seq_no: next_seq_no.max(highest.unwrap_or_default()),
            next_generation: committed.len() as u64 + 1,
            wal_generation: FIRST_WAL,
            segments: committed,
            source_marks: BTreeMap::new(),
        };
        point.write(disk, &config.dir)?;
        for dir in config.dir.ancestors().take(3).filter(|dir| !dir.as_os_str().is_empty()) {
            disk.sync_dir(dir)?;
        }
        Ok(())
    }
}
