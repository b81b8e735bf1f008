//! Batch apply: version checks, sequence numbers, WAL append, buffer slots, indexing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use firn_engine::document::{Effect, Expectation, Written};
use firn_model::{Error, ErrorKind, Result};

use super::buffer::{Buffer, BufferedId, StoredOp};
use super::live_segments::made_seq_no;
use super::state::{State, TOMBSTONES_MAX};
use super::versions::{Found, Tombstone, check};
use super::wal_record::BatchTag;
use super::{Applied, Shard, ShardOp};
use crate::mapper::MappedDocument;

/// Bytes of sources that a buffer retains so that reads by id need no refresh.
const RETAINED_BYTES_MAX: usize = 16 << 20;

impl Shard {
    /// Applies a batch. Operations of a tagged batch that fail are added to the rejected ones of its tag; `offsets` are those
    /// of the operations.
    pub(super) fn apply_batch(&self, ops: Vec<ShardOp>, mut tagged: Option<(BatchTag, Vec<u64>)>) -> Result<Applied> {
        self.check_writable()?;
        let mut results = Vec::with_capacity(ops.len());
        let mut documents = Vec::with_capacity(ops.len());
        let mut state = self.state.lock();
        state.check_running()?;
        if let Some(error) = self.wal().failure() {
            return Err(error);
        }
        let target = state.pick_buffer(&self.config)?;
        let mut record = std::mem::take(&mut state.record);
        record.clear();
        for op in ops {
            let result = match op {
                ShardOp::Index {
                    id,
                    create,
                    document,
                    expect,
                    routing,
                } => {
                    let write = IndexWrite {
                        id,
                        create,
                        expect,
                        routing,
                    };
                    self.index(&mut state, target, write, *document, &mut record, &mut documents)
                }
                ShardOp::Delete { id, expect, routing: _ } => self.delete(&mut state, &id, expect, &mut record),
            };
            results.push(result);
        }
        if let Some((tag, offsets)) = &mut tagged {
            let results = results.iter().zip(&*offsets);
            let failed = results.filter(|(result, _)| result.is_err()).map(|(_, offset)| *offset);
            tag.mark.rejected.extend(failed);
            record.tag(tag);
        }
        let durable = if record.is_empty() {
            None
        } else {
            match self.wal().append(&[record.bytes()]) {
                Ok(position) => Some(position),
                Err(error) => {
                    // Sequence numbers and document ids are assigned: only a replay can restore a consistent state.
                    state.stop(error.clone());
                    return Err(error);
                }
            }
        };
        state.record = record;
        if let Some((tag, _)) = tagged {
            state.mark_source(tag);
        }
        let written = results.iter().filter(|result| result.is_ok()).count() as u64;
        state.flags.uncommitted_ops.fetch_add(written, Ordering::AcqRel);
        let buffer = Arc::clone(&state.buffers[target].buffer);
        self.hand_over(state, &buffer, documents)?;
        Ok(Applied { results, durable })
    }

    /// Queues documents that have document ids, releases the shard's lock, and indexes them.
    pub(super) fn hand_over(
        &self,
        state: parking_lot::MutexGuard<'_, State>,
        buffer: &Arc<Buffer>,
        documents: Vec<MappedDocument>,
    ) -> Result<()> {
        state.flags.set_dirty(true);
        if documents.is_empty() {
            return Ok(());
        }
        buffer.busy.fetch_add(1, Ordering::Relaxed);
        // Under the shard's lock, so that the queue has the order of the document ids.
        buffer.queue.lock().push_back(documents);
        drop(state);
        let drained = buffer.drain();
        buffer.busy.fetch_sub(1, Ordering::Relaxed);
        drained.map_err(|error| self.fail(error))?;
        self.write_out_full_buffers()
    }

    fn index(
        &self,
        state: &mut State,
        target: usize,
        write: IndexWrite,
        mut document: MappedDocument,
        record: &mut super::wal_record::RecordWriter,
        documents: &mut Vec<MappedDocument>,
    ) -> Result<Written> {
        let (found, version) = match &write.id {
            None => (None, 1),
            Some(id) => self.check_index(state, id, &write)?,
        };
        let seq_no = state.next_seq_no;
        state.next_seq_no += 1;
        record.index(
            seq_no,
            version,
            write.id.as_deref(),
            write.routing.as_deref(),
            document.source(),
        );
        let effect = if found.is_some() {
            Effect::Updated
        } else {
            Effect::Created
        };
        place(
            state,
            target,
            found,
            write.id,
            write.routing,
            seq_no,
            version,
            &mut document,
        );
        documents.push(document);
        state.index_total += 1;
        Ok(written(effect, version, seq_no))
    }

    fn check_index(&self, state: &State, id: &str, write: &IndexWrite) -> Result<(Option<Found>, u64)> {
        let shown = self.config.shown_id(id);
        if id.len() > self.config.key_bytes_max() {
            return Err(Error::illegal_argument(format!(
                "id [{}…] is too long, must be no longer than {} bytes but was: {}",
                shown.chars().take(40).collect::<String>(),
                self.config.key_bytes_max(),
                id.len()
            )));
        }
        if made_seq_no(&self.config, id).is_some_and(|seq_no| seq_no >= state.next_seq_no) {
            return Err(Error::illegal_argument(format!(
                "id [{shown}] has the form of a generated id that this index has not assigned yet"
            )));
        }
        let found = state.find(&self.config, id)?;
        let version = check(&self.config, id, write.expect, found, state.tombstones.get(id).copied())?;
        match found {
            Some(found) if write.create => {
                let reason = format!(
                    "[{shown}]: version conflict, document already exists (current version [{}])",
                    found.version
                );
                Err(Error::new(ErrorKind::VersionConflict, reason).with_index(&*self.config.index))
            }
            _ => Ok((found, version)),
        }
    }

    fn delete(
        &self,
        state: &mut State,
        id: &str,
        expect: Expectation,
        record: &mut super::wal_record::RecordWriter,
    ) -> Result<Written> {
        let found = state.find(&self.config, id)?;
        let version = check(&self.config, id, expect, found, state.tombstones.get(id).copied())?;
        let seq_no = state.next_seq_no;
        state.next_seq_no += 1;
        record.delete(seq_no, version, id);
        bury(state, found, id, seq_no, version);
        state.delete_total += 1;
        let effect = if found.is_some() {
            Effect::Deleted
        } else {
            Effect::NotFound
        };
        Ok(written(effect, version, seq_no))
    }
}

/// Version check of an index operation.
struct IndexWrite {
    id: Option<String>,
    create: bool,
    expect: Expectation,
    routing: Option<String>,
}

fn written(effect: Effect, version: u64, seq_no: u64) -> Written {
    Written {
        effect,
        version,
        seq_no,
        primary_term: 1,
        forced_refresh: false,
        get: None,
    }
}

/// Deletes the replaced document and assigns the new one a document id in a buffer.
#[allow(clippy::too_many_arguments, reason = "the parts of one write, used in two places")]
pub(super) fn place(
    state: &mut State,
    target: usize,
    replaces: Option<Found>,
    id: Option<String>,
    routing: Option<String>,
    seq_no: u64,
    version: u64,
    document: &mut MappedDocument,
) {
    if let Some(found) = replaces {
        state.delete(found);
    }
    document.place(id.as_deref(), routing.as_deref(), seq_no, version);
    let buffer = &mut state.buffers[target];
    let doc = buffer.add(seq_no, document.time_range_ms());
    let Some(id) = id else {
        buffer.add_run(seq_no, doc);
        return;
    };
    let size = document.source().len();
    let retained = (buffer.retained_bytes + size <= RETAINED_BYTES_MAX).then(|| {
        buffer.retained_bytes += size;
        Arc::new(StoredOp {
            // A copy: a slice would keep the whole bulk body in memory.
            source: Bytes::copy_from_slice(document.source()),
            routing: routing.map(Into::into),
            ignored: document.ignored(),
        })
    });
    let entry = BufferedId {
        doc,
        seq_no,
        version,
        retained,
    };
    if let Some(old) = buffer.ids.insert(id.as_str().into(), entry)
        && let Some(retained) = old.retained
    {
        buffer.retained_bytes -= retained.source.len();
    }
    state.tombstones.remove(id.as_str());
}

/// Deletes a document and stores a tombstone with its version.
pub(super) fn bury(state: &mut State, found: Option<Found>, id: &str, seq_no: u64, version: u64) {
    if let Some(found) = found {
        state.delete(found);
    }
    state.flags.need_commit();
    if state.tombstones.len() >= TOMBSTONES_MAX {
        state.forget_old_tombstones();
    }
    state.tombstones.insert(id.into(), Tombstone { version, seq_no });
}
