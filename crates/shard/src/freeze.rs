//! Freezing of a shard: its committed segments, held open for a snapshot.

use std::collections::BTreeMap;

use firn_model::Result;
use firn_segment::block_checksums::CHECKSUMS_FILE;
use firn_segment::commit_point::{read_deletes, segment_dir};
use firn_segment::deletes::DeleteSet;
use firn_segment::distinct::DISTINCT_FILE;
use firn_segment::frozen_segment::FrozenSegment;

use super::Shard;

impl Shard {
    /// Makes all acknowledged writes durable and returns the segments that contain them.
    pub fn freeze(&self) -> Result<Vec<FrozenSegment>> {
        self.check_writable()?;
        self.flush_now()?;
        // While this lock is held, no flush removes a file of the commit point.
        let committed = self.commit_lock.lock();
        let mut frozen = Vec::with_capacity(committed.segments.len());
        for segment in &committed.segments {
            let generation = segment.meta.generation;
            let open = self.open_segment(generation)?;
            let dir = segment_dir(&self.config.dir, generation);
            let mut meta = segment.meta.clone();
            // A split has page checksums, and a restore rebuilds these files.
            meta.files.remove(CHECKSUMS_FILE);
            meta.files.remove(DISTINCT_FILE);
            let mut files = BTreeMap::new();
            for name in meta.files.keys() {
                files.insert(name.clone(), self.config.disk.map(&dir.join(name))?);
            }
            let deletes = match &segment.deletes {
                Some(file) => read_deletes(&*self.config.disk, &self.config.dir, file, segment.meta.docs)?,
                None => DeleteSet::default(),
            };
            frozen.push(FrozenSegment {
                meta,
                reader: open.reader.clone(),
                files,
                tenants: open.tenants.clone(),
                deletes,
            });
        }
        Ok(frozen)
    }
}
