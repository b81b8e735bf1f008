//! Upload of a segment: builds the file of a split, then uploads it, and reports progress meanwhile.

use std::io::{self, BufWriter, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use firn_model::{Error, Result};
use firn_segment::frozen_segment::FrozenSegment;
use firn_segment::splits::write_split;
use firn_storage::disk::AppendWriter;
use firn_storage::repository::Repository;
use firn_storage::split::SplitRef;

use super::create::Scratch;
use super::running_snapshots::{Running, aborted};
use super::service::SnapshotService;

/// Write buffer of a split file, in bytes. Progress is reported once per buffer.
const WRITE_BUFFER_BYTES: usize = 1 << 20;

impl SnapshotService {
    /// Uploads a segment of a shard to the repository. Reports its progress as processed bytes.
    pub(super) fn upload_split(
        &self,
        repository: &Repository,
        segment: &FrozenSegment,
        running: &Running,
        (index, shard): (&str, u32),
    ) -> Result<SplitRef> {
        let progress = Progress {
            bytes: segment.size_bytes(),
            reported_bytes: AtomicU64::new(0),
            report: &|bytes| running.note(index, shard, |status| status.processed.bytes += bytes),
        };
        let scratch = Scratch::new(
            &self.node.config.disk,
            &self.node.config.path_data,
            &self.repositories.fresh_uuid(),
        )?;
        self.devices.hot.check(&running.name)?;
        let counted = Counted {
            file: scratch.create()?,
            written: 0,
            progress: &progress,
        };
        let mut out = BufWriter::with_capacity(WRITE_BUFFER_BYTES, counted);
        let stop = || running.cancel.check().map_err(|_| aborted(running));
        let split = write_split(segment, &mut out, &stop)?;
        out.flush()?;
        drop(out);
        let sent = AtomicU64::new(0);
        let uploaded = repository.store();
        let note = |bytes| progress.uploaded(sent.fetch_add(bytes, Ordering::Relaxed) + bytes, split.len);
        let uploaded =
            self.repositories
                .io()?
                .block_on(uploaded.upload_reporting(&split.key(), &scratch.file(), &note));
        uploaded.map_err(|error| {
            let reason = format!("[{}:{}] cannot write a split", running.repository, running.name);
            Error::new(Error::from(error.clone()).kind(), reason).caused_by(error)
        })?;
        progress.reach(segment.size_bytes());
        running.note(index, shard, |status| status.processed.files += 1);
        Ok(split)
    }
}

/// Progress of one segment: half of its bytes when its split is built, all when the split is uploaded.
struct Progress<'a> {
    /// Bytes of the segment.
    bytes: u64,
    /// Bytes reported so far.
    reported_bytes: AtomicU64,
    report: &'a (dyn Fn(u64) + Sync),
}

impl Progress<'_> {
    /// Reports bytes of the split that are written. The final size is unknown here; it is about that of the segment.
    fn built(&self, written: u64) {
        self.reach(written.min(self.bytes) / 2);
    }

    /// Reports that `sent` of `all` bytes of the split are uploaded.
    fn uploaded(&self, sent: u64, all: u64) {
        let half = self.bytes / 2;
        let rest = u128::from(self.bytes - half) * u128::from(sent.min(all)) / u128::from(all.max(1));
        self.reach(half + rest as u64);
    }

    fn reach(&self, bytes: u64) {
        let before = self.reported_bytes.fetch_max(bytes, Ordering::Relaxed);
        if bytes > before {
            (self.report)(bytes - before);
        }
    }
}

/// A file that reports how much was written to it.
struct Counted<'a> {
    file: AppendWriter,
    written: u64,
    progress: &'a Progress<'a>,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        self.progress.built(self.written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use firn_storage::sim::SimDisk;
    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn one_half_is_building_and_the_other_uploading() {
        let reported_bytes = Mutex::new(Vec::new());
        let progress = Progress {
            bytes: 101,
            reported_bytes: AtomicU64::new(0),
            report: &|bytes| reported_bytes.lock().push(bytes),
        };
        let mut file = Counted {
            file: AppendWriter::create(&SimDisk::new(), Path::new("split")).unwrap(),
            written: 0,
            progress: &progress,
        };
        for _ in 0..3 {
            // More than the bytes of the segment.
            file.write_all(&[0; 40]).unwrap();
        }
        assert_eq!(*reported_bytes.lock(), [20, 20, 10]);
        progress.uploaded(30, 120);
        // Parts may arrive in any order, and everything has been reported already.
        progress.uploaded(120, 120);
        progress.uploaded(90, 120);
        progress.reach(101);
        assert_eq!(*reported_bytes.lock(), [20, 20, 10, 12, 39]);
        assert_eq!(reported_bytes.lock().iter().sum::<u64>(), 101);
    }
}
