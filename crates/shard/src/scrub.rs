//! Scrub of segments: verification against checksums in parts, so that damage is found in data that is not searched.

use std::sync::Arc;

use firn_model::{Error, Result};
use firn_segment::block_checksums::{CHECKSUMS_FILE, Checksums};
use firn_segment::commit_point::segment_dir;

use super::live_segments::OpenSegment;
use super::{Shard, checksums};

/// Bytes of a file read at once: a multiple of a block.
const PART_BYTES: u64 = 4 << 20;

/// Position of the scrub in a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubPosition {
    /// Index of the file, in the order of names.
    file: usize,
    /// Bytes of the file already read.
    offset: u64,
}

/// Result of a step of a scrub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes read.
    pub bytes: u64,
    /// Position for the next step; `None`: the segment is done, or was removed.
    pub next: Option<ScrubPosition>,
}

impl Shard {
    /// Returns the generations of the segments, with their sizes in bytes.
    pub fn segments_to_scrub(&self) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        let segments = state.segments.iter();
        segments
            .map(|segment| (segment.generation(), segment.open.meta.size_bytes))
            .collect()
    }

    /// Verifies the next part of a segment against its checksums, from the disk. A segment of an older build is read in
    /// one step and gets a file of checksums. [`firn_model::ErrorKind::ShardDamaged`] names the file.
    pub fn scrub(&self, generation: u64, position: &ScrubPosition) -> Result<Scrubbed> {
        let segment = {
            let state = self.state.lock();
            state.check_running()?;
            let mut segments = state.segments.iter();
            let found = segments.find(|segment| segment.generation() == generation);
            found.map(|segment| Arc::clone(&segment.open))
        };
        let Some(segment) = segment else {
            return Ok(Scrubbed { bytes: 0, next: None });
        };
        let scrubbed = match segment.directory.has_checksums() {
            true => scrub_part(&segment, position),
            false => self.add_checksums(&segment),
        };
        // A flush removes the files of a segment that a merge replaced meanwhile.
        let is_there = || {
            let state = self.state.lock();
            state.segments.iter().any(|segment| segment.generation() == generation)
        };
        match scrubbed {
            Err(_) if segment.damage().is_none() && !is_there() => Ok(Scrubbed { bytes: 0, next: None }),
            scrubbed => scrubbed,
        }
    }

    fn add_checksums(&self, segment: &OpenSegment) -> Result<Scrubbed> {
        let mut made = Checksums::new();
        for (name, sum) in checksums::files(&segment.meta) {
            let go_on = || self.check_not_stopped();
            made.insert(name.clone(), segment.directory.measure(name, *sum, &go_on)?);
        }
        // While this lock is held, no flush removes the folder.
        let _commit = self.commit_lock.lock();
        self.check_not_stopped()?;
        let dir = segment_dir(&self.config.dir, segment.meta.generation);
        if self.config.disk.exists(&dir)? {
            checksums::write(&self.config, &dir, &made)?;
        }
        segment.directory.learn(made);
        Ok(Scrubbed {
            bytes: segment.meta.size_bytes,
            next: None,
        })
    }

    /// Returns the damaged segments found so far, each with its first error.
    pub fn damage(&self) -> Vec<(u64, Error)> {
        let state = self.state.lock();
        let segments = state.segments.iter();
        segments
            .filter_map(|segment| Some((segment.generation(), segment.open.damage()?.clone())))
            .collect()
    }
}

fn scrub_part(segment: &OpenSegment, position: &ScrubPosition) -> Result<Scrubbed> {
    let files = segment.meta.files.iter();
    let Some((name, sum)) = files.clone().nth(position.file) else {
        return Ok(Scrubbed { bytes: 0, next: None });
    };
    let bytes = match name == CHECKSUMS_FILE {
        true => segment.directory.verify(name, *sum).map(|()| sum.len)?,
        false => segment.directory.verify_part(name, position.offset, PART_BYTES)?,
    };
    let end = position.offset + bytes;
    let next = match end < sum.len && bytes > 0 {
        true => ScrubPosition {
            file: position.file,
            offset: end,
        },
        false => ScrubPosition {
            file: position.file + 1,
            offset: 0,
        },
    };
    let is_last = next.file >= files.len();
    Ok(Scrubbed {
        bytes,
        next: (!is_last).then_some(next),
    })
}
