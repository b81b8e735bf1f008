//! Reading segments against their checksums, part by part, so that damage is found where nothing is searched.

use std::sync::Arc;

use firn_model::{Error, Result};

use super::commit::segment_dir;
use super::live::OpenSegment;
use super::{Shard, checksums};
use crate::block_checksums::{CHECKSUMS_FILE, Checksums};

/// Bytes of a file that are read at once: a multiple of a block.
const PART_BYTES: u64 = 4 << 20;

/// Where the scrub of a segment goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubPosition {
    /// The file, in the order of names.
    file: usize,
    /// Bytes of it that were read.
    offset: u64,
}

/// What a step of a scrub did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes read.
    pub bytes: u64,
    /// Where the next step goes on; `None`: the segment is done, or gone.
    pub next: Option<ScrubPosition>,
}

impl Shard {
    /// The segments there are, with their bytes.
    pub fn segments_to_scrub(&self) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        let segments = state.segments.iter();
        segments
            .map(|segment| (segment.generation(), segment.open.meta.size_bytes))
            .collect()
    }

    /// Reads the next part of a segment against its checksums, from the disk. A segment of an older build is read in
    /// one step and gets its file of checksums. [`firn_model::ErrorKind::ShardDamaged`] names the file.
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
        // Nothing removes the folder under the write.
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

    /// Damage that was found in its segments so far, each with what was found first.
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
