//! Repair of a closed shard: damaged segments are replaced by the same segments from a snapshot.
//!
//! The files of a segment never change and its id is globally unique, so a split made from it has
//! exactly the same documents. The replacement is written beside the damaged segment; the next commit point names it
//! instead. The deletes of the shard stay. Until that commit point is written, nothing has changed.

use std::sync::Arc;

use firn_model::{Error, ErrorKind, Result};
use firn_segment::block_checksums::{CHECKSUMS_FILE, FileSum};
use firn_segment::commit_point::{CommitPoint, SegmentMeta, read_deletes, segment_dir, segments_dir, write_deletes};
use firn_segment::splits::{SplitBytes, restore_segment};
use firn_storage::split::SplitRef;

use super::Shard;
use super::config::ShardConfig;

/// Committed segment of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedId {
    /// Name of its folder.
    pub generation: u64,
    /// Globally unique id of the segment.
    pub segment: String,
}

/// Segment from a snapshot that replaces a damaged one.
pub struct Replacement {
    /// Generation of the damaged segment.
    pub generation: u64,
    /// Entry in the manifest.
    pub split: SplitRef,
    /// Source of the bytes.
    pub bytes: Arc<dyn SplitBytes>,
}

impl Shard {
    /// Returns the segments of a closed shard, from its last commit point.
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

    /// Verifies all files of a closed shard and returns the generations of damaged segments. `stop` cancels by
    /// returning an error.
    pub fn find_damaged(config: &ShardConfig, stop: &dyn Fn() -> Result<()>) -> Result<Vec<u64>> {
        let point = CommitPoint::read_newest(&*config.disk, &config.dir)?;
        let mut damaged = Vec::new();
        for segment in point.iter().flat_map(|point| &point.segments) {
            let dir = segment_dir(&config.dir, segment.meta.generation);
            let is_intact = |(name, sum): (&String, &FileSum)| -> Result<bool> {
                stop()?;
                match config.disk.map(&dir.join(name)) {
                    // Opening the shard rebuilds this file.
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

    /// Replaces segments of a closed shard, all or none. Opening the shard removes the replaced ones.
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
                return Err(Error::internal("a segment to repair is missing from the commit point"));
            };
            let generation = point.next_generation;
            let dir = segment_dir(&config.dir, generation);
            // An earlier attempt may have left files there.
            if disk.exists(&dir)? {
                disk.remove_dir_all(&dir)?;
            }
            let bytes = Arc::clone(&replacement.bytes);
            let mut meta = restore_segment(&replacement.split, bytes, Arc::clone(&config.disk), dir.clone(), stop)?;
            if (meta.docs, meta.seq_no_range) != (own.meta.docs, own.meta.seq_no_range) {
                return Err(Error::new(
                    ErrorKind::Repository,
                    format!("split [{}] holds a different segment", replacement.split.id),
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

/// Returns the segment id: the files of a segment are named after it.
fn segment_id(meta: &SegmentMeta) -> Option<String> {
    let store = meta.files.keys().find_map(|name| name.strip_suffix(".store"))?;
    Some(store.to_owned())
}
