//! Copy of a shard to another device while the shard serves writes.
//!
//! Segments are immutable, so those of a commit point can be copied without a lock; meanwhile the shard gets a few new
//! ones, which are copied next, and so on until little remains. Only for the rest the shard must stop writes:
//! [`ShardCopy::finish`] copies it, and writes the commit point last, which turns the folder into a shard. Until then
//! the folder is ignored, and the next attempt starts with an empty one. Every byte is verified while it is copied:
//! otherwise damage would move to the other device and be found after the original is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use firn_model::Result;
use firn_segment::block_checksums::FileSum;
use firn_segment::commit_point::{CommitPoint, CommittedSegment, damaged, read_deletes, segment_dir, segments_dir};

use super::Shard;
use super::config::ShardConfig;
use super::live_segments::OpenSegment;
use super::recovery::open_wal;

/// Bytes written between two checks for cancellation.
const CHUNK_BYTES: usize = 4 << 20;
/// First generation of a WAL: the copy starts a new log, as the segments hold all operations.
const FIRST_WAL: u64 = 1;

/// Check that cancels a copy by returning an error; called regularly.
pub(super) type Stop<'a> = &'a dyn Fn() -> Result<()>;

/// Copy that is not complete yet.
pub struct ShardCopy {
    target: ShardConfig,
    /// Copied generations, durable except for their directory entries.
    copied: BTreeSet<u64>,
}

/// Segment of a commit point with open files: a merge may replace it meanwhile.
struct Held {
    segment: CommittedSegment,
    files: BTreeMap<String, Bytes>,
    _open: Arc<OpenSegment>,
}

impl ShardCopy {
    /// Starts with an empty folder; existing content is removed.
    pub fn begin(target: ShardConfig) -> Result<Self> {
        let disk = &*target.disk;
        if disk.exists(&target.dir)? {
            disk.remove_dir_all(&target.dir)?;
        }
        disk.create_dir_all(&segments_dir(&target.dir))?;
        Ok(Self {
            target,
            copied: BTreeSet::new(),
        })
    }

    /// Flushes the shard and copies the segments that the copy lacks. Returns the number of copied bytes.
    pub fn catch_up(&mut self, shard: &Shard, stop: Stop<'_>) -> Result<u64> {
        shard.flush_now()?;
        let (_, missing) = self.missing(shard)?;
        self.copy(&missing, stop)
    }

    /// Copies the rest of a shard that was flushed and takes no writes ([`Shard::abandon`] and
    /// [`Shard::quiesce`]), and completes the copy as an independent shard.
    pub fn finish(mut self, shard: &Shard, stop: Stop<'_>) -> Result<()> {
        let (committed, missing) = self.missing(shard)?;
        self.copy(&missing, stop)?;
        let (disk, dir) = (&*self.target.disk, &self.target.dir);
        let segments = segments_dir(dir);
        let mut needed = BTreeSet::new();
        for segment in &committed.segments {
            needed.insert(segment.meta.generation);
            if let Some(file) = &segment.deletes {
                read_deletes(&*shard.config.disk, &shard.config.dir, file, segment.meta.docs)?;
                let from = segments_dir(&shard.config.dir).join(&file.name);
                let bytes = shard.config.disk.read(&from)?;
                disk.write_atomic(&segments.join(&file.name), &bytes)?;
            }
        }
        for merged_away in self.copied.difference(&needed) {
            disk.remove_dir_all(&segment_dir(dir, *merged_away))?;
        }
        disk.sync_dir(&segments)?;
        // The log is created before the commit point that names it: without a log the copy would be taken for damaged.
        drop(open_wal(&self.target, 0, &mut |_, _| Ok(()))?);
        let point = CommitPoint {
            wal_generation: FIRST_WAL,
            ..committed
        };
        point.write(disk, dir)?;
        for dir in dir.ancestors().take(3).filter(|dir| !dir.as_os_str().is_empty()) {
            disk.sync_dir(dir)?;
        }
        Ok(())
    }

    /// Returns the last commit point of a shard, and those of its segments that the copy lacks.
    fn missing(&self, shard: &Shard) -> Result<(CommitPoint, Vec<Held>)> {
        // While this lock is held, no flush removes a file of the commit point.
        let committed = shard.commit_lock.lock();
        let mut missing = Vec::new();
        for segment in &committed.segments {
            let generation = segment.meta.generation;
            if self.copied.contains(&generation) {
                continue;
            }
            let dir = segment_dir(&shard.config.dir, generation);
            let names = segment.meta.files.keys();
            missing.push(Held {
                segment: segment.clone(),
                files: names
                    .map(|name| Ok((name.clone(), shard.config.disk.map(&dir.join(name))?)))
                    .collect::<Result<_>>()?,
                _open: shard.open_segment(generation)?,
            });
        }
        Ok((committed.clone(), missing))
    }

    fn copy(&mut self, missing: &[Held], stop: Stop<'_>) -> Result<u64> {
        let disk = &*self.target.disk;
        let mut bytes = 0;
        for held in missing {
            let meta = &held.segment.meta;
            let dir = segment_dir(&self.target.dir, meta.generation);
            disk.create_dir_all(&dir)?;
            for (name, sum) in &meta.files {
                let Some(file) = held.files.get(name) else { continue };
                self.copy_file(file, sum, &dir.join(name), stop)?;
                bytes += file.len() as u64;
            }
            disk.sync_dir(&dir)?;
            self.copied.insert(meta.generation);
        }
        Ok(bytes)
    }

    fn copy_file(&self, from: &[u8], sum: &FileSum, to: &Path, stop: Stop<'_>) -> Result<()> {
        let file = self.target.disk.create_append(to)?;
        let mut crc = 0;
        for chunk in from.chunks(CHUNK_BYTES) {
            stop()?;
            crc = crc32c::crc32c_append(crc, chunk);
            file.append(chunk)?;
        }
        if from.len() as u64 != sum.len || crc != sum.crc {
            return Err(damaged(to, "the source of the copy does not match its checksum"));
        }
        file.sync()?;
        Ok(())
    }
}
