//! A copy of a shard on another device, made while the shard is at work.
//!
//! Segments never change, so those of a commit point can be copied at leisure; by the time they are, the shard has a few
//! others, which are copied next, and so on until little is left. Only for that rest the shard has to stand still:
//! [`ShardCopy::finish`] brings it over, and its commit point, which makes a shard of the folder, comes last. Until then
//! the folder is nothing, and the next attempt begins with an empty one. Every byte is checked on its way: damage is not
//! carried to another device, where it would be found when the whole copy is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use firn_model::Result;

use super::Shard;
use super::commit::{CommitPoint, CommittedSegment, damaged, read_deletes, segment_dir, segments_dir};
use super::config::ShardConfig;
use super::live::OpenSegment;
use super::recovery::open_wal;
use crate::block_checksums::FileSum;

/// Bytes that are written between two looks whether to go on.
const CHUNK_BYTES: usize = 4 << 20;
/// The first generation of a WAL: that of the copy begins anew, as segments hold everything.
const FIRST_WAL: u64 = 1;

/// Ends a copy by failing; called now and then.
pub(super) type Stop<'a> = &'a dyn Fn() -> Result<()>;

/// A copy that is not whole yet.
pub struct ShardCopy {
    target: ShardConfig,
    /// Generations that are there, durable but for their names.
    copied: BTreeSet<u64>,
}

/// A segment of a commit point, its files open: a merge may take it away meanwhile.
struct Held {
    segment: CommittedSegment,
    files: BTreeMap<String, Bytes>,
    _open: Arc<OpenSegment>,
}

impl ShardCopy {
    /// Begins with an empty folder, whatever was there.
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

    /// Flushes the shard and copies the segments that the copy lacks. Returns how many bytes that were.
    pub fn catch_up(&mut self, shard: &Shard, stop: Stop<'_>) -> Result<u64> {
        shard.flush_now()?;
        let (_, missing) = self.missing(shard)?;
        self.copy(&missing, stop)
    }

    /// Brings over what is left of a shard that was flushed and stands still ([`Shard::abandon`] and
    /// [`Shard::quiesce`]), and makes the copy a shard of its own.
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
        // The log is there before the commit point that names it: without one the copy would be taken for damaged.
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

    /// The last commit point of a shard, and those of its segments that the copy lacks.
    fn missing(&self, shard: &Shard) -> Result<(CommitPoint, Vec<Held>)> {
        // While this is held no flush removes a file of the commit point.
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
            return Err(damaged(to, "what it was to be copied from does not match its checksum"));
        }
        file.sync()?;
        Ok(())
    }
}
