//! Damaged segments of a shard that is not open, exchanged for the same segments out of a snapshot.
//!
//! The files of a segment never change and its number in the repository is its own, so a split that was made from it holds
//! what it held, document for document. It is written beside the damaged one; the next commit point names it instead.
//! Deletes are the shard's own and stay. Until that commit point is there nothing has happened.

use std::sync::Arc;

use firn_model::{Error, ErrorKind, Result};
use firn_storage::split::SplitRef;

use super::Shard;
use super::commit::{CommitPoint, SegmentMeta, read_deletes, segment_dir, segments_dir, write_deletes};
use super::config::ShardConfig;
use crate::block_checksums::{CHECKSUMS_FILE, FileSum};
use crate::splits::{SplitBytes, restore_segment};

/// A committed segment of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedId {
    /// The name of its folder.
    pub generation: u64,
    /// What no other segment is ever called.
    pub segment: String,
}

/// A segment out of a snapshot, for one that is damaged.
pub struct Replacement {
    /// What it replaces.
    pub generation: u64,
    /// What the manifest says of it.
    pub split: SplitRef,
    /// Where it is read from.
    pub bytes: Arc<dyn SplitBytes>,
}

impl Shard {
    /// The segments of a shard that is not open, by its last commit point.
    pub fn committed_segments(config: &ShardConfig) -> Result<Vec<CommittedId>> {
        let point = CommitPoint::read_newest(&*config.disk, &config.dir)?;
        let segments = point.into_iter().flat_map(|point| point.segments);
        let named = |meta: SegmentMeta| {
            Some(CommittedId {
                generation: meta.generation,
                segment: segment_id(&meta)?,
            })
        };
        Ok(segments.filter_map(|segment| named(segment.meta)).collect())
    }

    /// Reads all files of a shard that is not open and names the segments that are damaged, by their generations. `stop`
    /// ends it by failing.
    pub fn find_damaged(config: &ShardConfig, stop: &dyn Fn() -> Result<()>) -> Result<Vec<u64>> {
        let point = CommitPoint::read_newest(&*config.disk, &config.dir)?;
        let mut damaged = Vec::new();
        for segment in point.iter().flat_map(|point| &point.segments) {
            let dir = segment_dir(&config.dir, segment.meta.generation);
            let is_intact = |(name, sum): (&String, &FileSum)| -> Result<bool> {
                stop()?;
                match config.disk.map(&dir.join(name)) {
                    // Opening the shard makes it anew.
                    _ if name == CHECKSUMS_FILE => Ok(true),
                    Ok(bytes) => Ok(FileSum::of(&bytes) == *sum),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
                    Err(error) => Err(error.into()),
                }
            };
            for file in &segment.meta.files {
                if !is_intact(file)? {
                    damaged.push(segment.meta.generation);
                    break;
                }
            }
        }
        Ok(damaged)
    }

    /// Exchanges segments of a shard that is not open, all or none. Opening it removes what they replace.
    pub fn replace_segments(
        config: &ShardConfig,
        replacements: &[Replacement],
        stop: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let disk = &*config.disk;
        let Some(mut point) = CommitPoint::read_newest(disk, &config.dir)? else {
            return Err(Error::new(ErrorKind::ShardDamaged, "the shard has no commit point"));
        };
        point.number += 1;
        for replacement in replacements {
            stop()?;
            let mut segments = point.segments.iter_mut();
            let own = segments.find(|own| own.meta.generation == replacement.generation);
            let own = own.filter(|own| segment_id(&own.meta).as_ref() == Some(&replacement.split.segment));
            let Some(own) = own else {
                return Err(Error::internal("a segment that was to be repaired is gone"));
            };
            let generation = point.next_generation;
            let dir = segment_dir(&config.dir, generation);
            // An attempt before this one may have left something there.
            if disk.exists(&dir)? {
                disk.remove_dir_all(&dir)?;
            }
            let bytes = Arc::clone(&replacement.bytes);
            let mut meta = restore_segment(&replacement.split, bytes, Arc::clone(&config.disk), dir.clone(), stop)?;
            if (meta.docs, meta.seq_no_range) != (own.meta.docs, own.meta.seq_no_range) {
                return Err(Error::new(
                    ErrorKind::Repository,
                    format!("split [{}] is not the segment that it names", replacement.split.id),
                ));
            }
            meta.generation = generation;
            for name in meta.files.keys() {
                disk.sync_file(&dir.join(name))?;
            }
            disk.sync_dir(&dir)?;
            if let Some(file) = &own.deletes {
                let deletes = read_deletes(disk, &config.dir, file, meta.docs)?;
                let written = write_deletes(disk, &config.dir, generation, point.number, &deletes)?;
                own.deletes = Some(written);
            }
            own.meta = SegmentMeta {
                files: meta.files,
                size_bytes: meta.size_bytes,
                generation,
                ..own.meta.clone()
            };
            point.next_generation += 1;
        }
        disk.sync_dir(&segments_dir(&config.dir))?;
        point.write(disk, &config.dir)
    }
}

/// The files of a segment are called by its id.
fn segment_id(meta: &SegmentMeta) -> Option<String> {
    let store = meta.files.keys().find_map(|name| name.strip_suffix(".store"))?;
    Some(store.to_owned())
}
