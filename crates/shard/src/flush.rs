//! Refresh and flush: buffers become segments, segments become snapshots and commit points.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use firn_model::{Error, ErrorKind, Result};
use firn_segment::commit_point::{
    CommitPoint, CommittedSegment, DeletesFile, SegmentMeta, SourceMark, file_name, numbers, segment_dir, segments_dir,
    write_deletes,
};
use firn_segment::deletes::DeleteSet;
use firn_segment::segment::ShardSnapshot;

use super::buffer::{Buffer, Writer, guarded, tantivy_error};
use super::id_filter::{self, IdFilter};
use super::live_segments::{LiveSegment, OpenSegment, open_reader};
use super::state::State;
use super::{Published, Shard};

/// After this many consecutive failed flushes the shard stops, to be reopened: its memory may differ from
/// its files. A full disk does not count.
const FLUSH_FAILURES_MAX: u64 = 8;

impl Shard {
    /// Stops the shard: its files may differ from its memory.
    pub(super) fn fail(&self, error: Error) -> Error {
        tracing::error!(index = %self.config.index, shard = self.config.shard, %error, "the shard stopped");
        self.state.lock().stop(error.clone());
        error
    }

    /// Turns buffers that exceed their limits into segments.
    pub(super) fn write_out_full_buffers(&self) -> Result<()> {
        let full = {
            let mut state = self.state.lock();
            // Sealed buffers are already being written; counting them would cut new
            // documents into tiny segments.
            let sizes = || {
                let open = state.buffers.iter().filter(|buffer| !buffer.sealed);
                open.map(super::buffer::BufferState::memory_bytes)
            };
            let total: u64 = sizes().sum();
            let largest = sizes().max().unwrap_or(0);
            let too_much = total > self.config.buffer_bytes_max as u64;
            let mut full = Vec::new();
            for buffer in state.buffers.iter_mut().filter(|buffer| !buffer.sealed) {
                let by_docs = buffer.docs >= self.config.segment_docs_max;
                let by_bytes = too_much && buffer.memory_bytes() == largest && buffer.docs > 0 && full.is_empty();
                if by_docs || by_bytes {
                    buffer.sealed = true;
                    full.push(Arc::clone(&buffer.buffer));
                }
            }
            full
        };
        for buffer in full {
            self.finish(&buffer)?;
        }
        Ok(())
    }

    /// Turns a sealed buffer into a segment, unless another thread does; returns when the segment exists.
    pub(super) fn finish(&self, buffer: &Arc<Buffer>) -> Result<()> {
        let mut slot = buffer.writer.lock();
        let Some(mut writer) = slot.take() else {
            return self.state.lock().check_running();
        };
        self.finish_writer(buffer, &mut writer)
            .and_then(|()| guarded("writing a segment", || self.publish_segment(buffer, writer)))
            .map_err(|error| self.fail(error))
    }

    fn finish_writer(&self, buffer: &Buffer, writer: &mut Writer) -> Result<()> {
        self.state.lock().check_running()?;
        buffer.drain_into(writer)
    }

    fn publish_segment(&self, buffer: &Buffer, writer: Writer) -> Result<()> {
        let (meta, hashes) = self.describe(buffer);
        let Writer { tantivy, directory } = writer;
        let mut index = tantivy.finalize().map_err(tantivy_error)?;
        let filter = (!hashes.is_empty()).then(|| IdFilter::build(hashes.iter().copied(), hashes.len()));
        let reader = open_reader(&mut index)?;
        let open = OpenSegment::finish(&self.config, &directory, index, reader, meta, filter)?;
        let mut state = self.state.lock();
        let position = state
            .buffers
            .iter()
            .position(|state| state.buffer.generation == buffer.generation)
            .ok_or_else(|| Error::internal("a write buffer went away"))?;
        let finished = state.buffers.remove(position);
        state.segments.push(LiveSegment {
            open,
            deletes: finished.deletes,
            committed_deletes: None,
            committed: false,
            published: None,
        });
        // Not dirty: the flag is set since the documents were added, or a refresh has them in its cut.
        state.flags.need_commit();
        Ok(())
    }

    /// Returns the properties of a sealed buffer's segment, and the hashes of its ids.
    fn describe(&self, buffer: &Buffer) -> (SegmentMeta, Vec<u64>) {
        let state = self.state.lock();
        let found = state
            .buffers
            .iter()
            .find(|state| state.buffer.generation == buffer.generation);
        let mut meta = SegmentMeta {
            generation: buffer.generation,
            docs: 0,
            user_ids: 0,
            time_range_ms: None,
            without_time: 0,
            seq_no_range: (0, 0),
            ordered: true,
            is_nanos: false,
            own_tenant: None,
            size_bytes: 0,
            files: Default::default(),
        };
        let Some(found) = found else {
            return (meta, Vec::new());
        };
        let made: u32 = found.runs.iter().map(|run| run.count).sum();
        meta.docs = found.docs;
        meta.user_ids = found.docs - made;
        meta.time_range_ms = found.time_range_ms;
        meta.without_time = found.without_time;
        meta.seq_no_range = found.seq_no_range.unwrap_or((0, 0));
        let hashes = found.ids.keys().map(|id| id_filter::hash(id)).collect();
        (meta, hashes)
    }

    /// Seals every buffer with documents.
    fn seal_all(state: &mut State) -> Vec<Arc<Buffer>> {
        let mut sealed = Vec::new();
        for buffer in state.buffers.iter_mut().filter(|buffer| buffer.docs > 0) {
            buffer.sealed = true;
            sealed.push(Arc::clone(&buffer.buffer));
        }
        sealed
    }

    /// Seals every buffer with documents; fails if the shard is stopped.
    pub(super) fn seal_buffers(&self) -> Result<Vec<Arc<Buffer>>> {
        let mut state = self.state.lock();
        state.check_running()?;
        Ok(Self::seal_all(&mut state))
    }

    pub(super) fn write_out_all(&self) -> Result<()> {
        for buffer in self.seal_buffers()? {
            self.finish(&buffer)?;
        }
        Ok(())
    }

    /// Publishes the segments of a refresh's cut with the deletes of that moment. Later segments
    /// wait for the next refresh: with newer deletes but without the newer segments, an updated
    /// document would not be found at all.
    fn publish(&self, state: &mut State, cut: &HashMap<u64, DeleteSet>) {
        let mut open = Vec::with_capacity(cut.len());
        let mut segments = Vec::with_capacity(cut.len());
        for segment in &mut state.segments {
            if let Some(deletes) = cut.get(&segment.generation()) {
                open.push(Arc::clone(&segment.open));
                segments.push(segment.publish(deletes));
            }
        }
        segments.sort_by_key(|segment| std::cmp::Reverse(segment.time_range_ms.map(|(_, high)| high)));
        let snapshot = ShardSnapshot {
            index: Arc::clone(&self.config.index),
            index_tag: self.config.index_tag,
            shard: self.config.shard,
            tenant_field: self.config.tenant_field.clone(),
            segments,
        };
        self.published.store(Arc::new(Published {
            snapshot: Arc::new(snapshot),
            open,
        }));
    }

    pub(super) fn refresh_now(&self) -> Result<bool> {
        let _refreshing = self.refresh_lock.lock();
        if !self.flags.is_dirty() {
            self.state.lock().check_running()?;
            return Ok(false);
        }
        self.show()?;
        self.counters.refreshes.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Publishes the content of a shard that was just opened, changed or not.
    pub(super) fn refresh_all(&self) -> Result<()> {
        let _refreshing = self.refresh_lock.lock();
        self.show()
    }

    /// Runs a refresh. The caller must hold the lock of refreshes: then no merge replaces a segment of the cut.
    fn show(&self) -> Result<()> {
        let (sealed, cut) = {
            let mut state = self.state.lock();
            state.check_running()?;
            let sealed = Self::seal_all(&mut state);
            state.flags.set_showing(true);
            state.flags.set_dirty(false);
            let segments = state
                .segments
                .iter()
                .map(|segment| (segment.generation(), segment.deletes.clone()));
            let buffers = state
                .buffers
                .iter()
                .filter(|buffer| buffer.sealed)
                .map(|buffer| (buffer.buffer.generation, buffer.deletes.clone()));
            let cut: HashMap<u64, DeleteSet> = segments.chain(buffers).collect();
            (sealed, cut)
        };
        let finished = sealed.iter().try_for_each(|buffer| self.finish(buffer));
        let mut state = self.state.lock();
        let shown = finished.and_then(|()| state.check_running());
        match &shown {
            Ok(()) => self.publish(&mut state, &cut),
            Err(_) => state.flags.set_dirty(true),
        }
        state.flags.set_showing(false);
        shown
    }

    pub(super) fn flush_now(&self) -> Result<bool> {
        // A read-only shard has all acknowledged writes in the WAL on disk.
        if self.read_only.is_some() {
            return Ok(false);
        }
        let mut committed = self.commit_lock.lock();
        self.state.lock().check_running()?;
        if !self.flags.has_uncommitted() {
            return Ok(false);
        }
        // Before the shard's lock is taken, so that little remains to sync under it. If the sync fails,
        // the log has failed, and the rotation below returns the error.
        let _ = self.wal().sync_blocking(self.wal().end());
        let mut uncommitted_ops = 0;
        // The cut: everything applied before it is in the segments and sealed buffers of this list,
        // with the deletes of this moment; everything after it is in the WAL from `wal_generation`.
        let cut = {
            let mut state = self.state.lock();
            state.check_running()?;
            // Documents in the queues belong to the cut: they have document ids.
            let sealed = Self::seal_all(&mut state);
            let wal_generation = match self.wal().rotate() {
                Ok(generation) => generation,
                Err(error) => {
                    state.stop(error.clone());
                    return Err(error);
                }
            };
            let (uuid, shard) = (&*self.config.index_uuid, self.config.shard);
            let is_needed = &self.config.is_mark_needed.0;
            state.source_marks.retain(|key, _| is_needed(key, uuid, shard));
            uncommitted_ops += state.flags.uncommitted_ops.swap(0, Ordering::AcqRel);
            state.flags.commit_needed.store(false, Ordering::Release);
            let segments = state
                .segments
                .iter()
                .map(|segment| (segment.generation(), segment.deletes.clone()));
            let buffers = state
                .buffers
                .iter()
                .filter(|buffer| buffer.sealed)
                .map(|buffer| (buffer.buffer.generation, buffer.deletes.clone()));
            FlushPoint {
                parts: segments.chain(buffers).collect(),
                held: state.segments.iter().map(|segment| Arc::clone(&segment.open)).collect(),
                sealed,
                wal_generation,
                next_seq_no: state.next_seq_no,
                next_generation: state.next_generation,
                source_marks: state.source_marks.clone(),
            }
        };
        let result = self.commit(cut, &mut committed);
        if let Err(error) = &result {
            // The segments are in memory and the WAL is complete: the next flush tries again.
            tracing::warn!(index = %self.config.index, shard = self.config.shard, %error, "a flush failed");
            let state = self.state.lock();
            state.flags.need_commit();
            state.flags.uncommitted_ops.fetch_add(uncommitted_ops, Ordering::AcqRel);
            drop(state);
            let is_doubtful = error.kind() != ErrorKind::DiskFull && !self.flags.is_stopped();
            if is_doubtful && self.counters.failed_flushes.fetch_add(1, Ordering::Relaxed) + 1 >= FLUSH_FAILURES_MAX {
                return Err(self.fail(error.clone()));
            }
        } else {
            self.counters.failed_flushes.store(0, Ordering::Relaxed);
        }
        result.map(|()| true)
    }

    fn commit(&self, cut: FlushPoint, committed: &mut CommitPoint) -> Result<()> {
        // A buffer that was sealed earlier may be in use by another thread: `finish` waits for it.
        for buffer in &cut.sealed {
            self.finish(buffer)?;
        }
        let mut point = CommitPoint {
            number: committed.number + 1,
            index_uuid: self.config.index_uuid.to_string(),
            shard: self.config.shard,
            catalog: self.config.noted_catalog(),
            next_seq_no: cut.next_seq_no,
            next_generation: cut.next_generation,
            wal_generation: cut.wal_generation,
            segments: Vec::with_capacity(cut.parts.len()),
            source_marks: cut.source_marks,
        };
        for (generation, deletes) in &cut.parts {
            self.check_not_stopped()?;
            let held = cut.held.iter().find(|open| open.meta.generation == *generation);
            let open = match held {
                Some(open) => Arc::clone(open),
                None => self.open_segment(*generation)?,
            };
            let before = committed
                .segments
                .iter()
                .find(|segment| segment.meta.generation == *generation);
            if before.is_none() {
                // The WAL still has its documents: reopening the shard rebuilds the segment.
                if let Some(damage) = open.damage() {
                    return Err(self.fail(damage.clone()));
                }
                // After a failed sync the system may report lost pages as clean, so a second sync proves
                // nothing: reopening the shard rebuilds the segment from the WAL.
                self.sync_segment(&open.meta).map_err(|error| self.fail(error))?;
            }
            let deletes = self.commit_deletes(&open.meta, deletes, before, point.number)?;
            point.segments.push(CommittedSegment {
                meta: open.meta.clone(),
                deletes,
            });
        }
        let segments = segments_dir(&self.config.dir);
        self.config
            .disk
            .sync_dir(&segments)
            .map_err(|error| self.fail(error.into()))?;
        // Another shard object may take over the files: it waits for this flush, but must not see a new commit point.
        self.check_not_stopped()?;
        point.write(&*self.config.disk, &self.config.dir)?;
        *committed = point;
        if !self.flags.is_stopped() {
            self.after_commit(committed);
        }
        Ok(())
    }

    pub(super) fn check_not_stopped(&self) -> Result<()> {
        match self.flags.is_stopped() {
            true => self.state.lock().check_running(),
            false => Ok(()),
        }
    }

    /// Returns the segment that a buffer of the cut became. If a merge has taken it meanwhile, its
    /// files still exist, because no file is removed while a flush runs.
    pub(super) fn open_segment(&self, generation: u64) -> Result<Arc<OpenSegment>> {
        let state = self.state.lock();
        let merged = self.merged_away.lock();
        state
            .segments
            .iter()
            .map(|segment| &segment.open)
            .chain(merged.iter())
            .find(|open| open.meta.generation == generation)
            .cloned()
            .ok_or_else(|| Error::internal(format!("segment _{generation} went away during a flush")))
    }

    fn sync_segment(&self, meta: &SegmentMeta) -> Result<()> {
        let dir = segment_dir(&self.config.dir, meta.generation);
        for name in meta.files.keys() {
            self.config.disk.sync_file(&dir.join(name))?;
        }
        self.config.disk.sync_dir(&dir)?;
        Ok(())
    }

    fn commit_deletes(
        &self,
        meta: &SegmentMeta,
        deletes: &DeleteSet,
        before: Option<&CommittedSegment>,
        number: u64,
    ) -> Result<Option<DeletesFile>> {
        if deletes.count() == 0 {
            return Ok(None);
        }
        // Deletes only grow, so equal counts mean equal sets.
        match before.and_then(|before| before.deletes.clone()) {
            Some(file) if file.count == deletes.count() => Ok(Some(file)),
            _ => write_deletes(&*self.config.disk, &self.config.dir, meta.generation, number, deletes).map(Some),
        }
    }

    /// Records what is durable, and removes files that neither a commit point nor a live segment needs.
    fn after_commit(&self, point: &CommitPoint) {
        let (live, below) = {
            let mut state = self.state.lock();
            for committed in &point.segments {
                let generation = committed.meta.generation;
                if let Some(segment) = state
                    .segments
                    .iter_mut()
                    .find(|segment| segment.generation() == generation)
                {
                    segment.committed = true;
                    segment.committed_deletes.clone_from(&committed.deletes);
                }
            }
            let segments = state.segments.iter().map(LiveSegment::generation);
            let buffers = state.buffers.iter().map(|buffer| buffer.buffer.generation);
            let live: HashSet<u64> = segments
                .chain(buffers)
                .chain(state.merging_into.iter().copied())
                .chain(point.segments.iter().map(|segment| segment.meta.generation))
                .collect();
            // Folders of future buffers and merges are not in this list.
            (live, state.next_generation)
        };
        self.counters.flushes.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = self.wal().trim(point.wal_generation) {
            tracing::warn!(index = %self.config.index, shard = self.config.shard, %error, "cannot trim the WAL");
        }
        self.merged_away
            .lock()
            .retain(|open| live.contains(&open.meta.generation));
        if let Err(error) = self.remove_unneeded(point, &live, below) {
            tracing::warn!(index = %self.config.index, shard = self.config.shard, %error, "cannot remove old files");
        }
    }

    /// Removes files that `point` does not name, and folders of generations less than `below` that
    /// are not in `live`.
    pub(super) fn remove_unneeded(&self, point: &CommitPoint, live: &HashSet<u64>, below: u64) -> Result<()> {
        let disk = &*self.config.disk;
        let dir = &self.config.dir;
        for number in numbers(disk, dir)? {
            if number < point.number {
                disk.remove_file(&dir.join(file_name(number)))?;
            }
        }
        let folder = segments_dir(dir);
        let deletes: HashSet<&str> = point
            .segments
            .iter()
            .filter_map(|segment| segment.deletes.as_ref())
            .map(|file| file.name.as_str())
            .collect();
        for entry in disk.list(&folder)? {
            let generation = entry.name.strip_prefix('_').and_then(|name| name.parse().ok());
            let path = folder.join(&entry.name);
            match generation {
                Some(generation) if entry.is_dir && generation < below && !live.contains(&generation) => {
                    disk.remove_dir_all(&path)?;
                }
                None if !entry.is_dir && !deletes.contains(entry.name.as_str()) => disk.remove_file(&path)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Data that a flush makes durable.
struct FlushPoint {
    parts: Vec<(u64, DeleteSet)>,
    /// The segments at the cut; a merge may replace them meanwhile.
    held: Vec<Arc<OpenSegment>>,
    sealed: Vec<Arc<Buffer>>,
    wal_generation: u64,
    next_seq_no: u64,
    next_generation: u64,
    source_marks: BTreeMap<String, SourceMark>,
}
