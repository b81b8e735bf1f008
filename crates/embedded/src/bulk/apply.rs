//! Application of mapped bulk items to their shards, in order.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use firn_engine::Scope;
use firn_engine::document::{BulkItem, BulkItemResponse, Operation, Written};
use firn_model::ids::AutoId;
use firn_model::{Error, ErrorKind, Result};
use firn_scheduler::parallel::run_indexed;
use firn_scheduler::yield_now;
use firn_shard::{BatchTag, Shard, ShardOp};
use firn_storage::wal::Position;
use parking_lot::Mutex;

use super::exactly_once::Marking;
use super::map_window::{Work, WorkItem};
use super::progress::{Progress, WrittenShard, source_of};
use super::service::WriteService;
use super::update::Updating;
use crate::node::state::{IndexState, ShardSlot, add_us};

/// Maximum items of a shard in one batch if their order does not matter:
/// batches of generated ids run on several threads.
const UNORDERED_BATCH: usize = 1024;

/// Maximum operations per step of a shard: about a millisecond of work, after which other requests may
/// run.
const STEP_OPS: usize = 128;

/// Result of one shard's items.
struct Applied {
    index: Arc<IndexState>,
    slot: Arc<ShardSlot>,
    shard: Option<Arc<Shard>>,
    /// Position in the bulk, and the response of the item.
    results: Vec<(usize, BulkItemResponse)>,
    position: Option<Position>,
}

/// Applies all works, those of different shards in parallel.
pub(super) fn apply_groups(
    writes: &Arc<WriteService>,
    scope: &Arc<Scope>,
    items: &Arc<Vec<BulkItem>>,
    works: Vec<Work>,
    progress: &mut Progress,
) {
    let works: Vec<_> = works
        .into_iter()
        .flat_map(|work| split_unordered(items, work))
        .map(|work| Mutex::new(Some(work)))
        .collect();
    let (shared, shared_items, scope) = (Arc::clone(writes), Arc::clone(items), Arc::clone(scope));
    let applied = run_indexed(&writes.pools.write, works.len(), move |number| {
        let work = works[number].lock().take();
        work.map(|work| apply_one(&shared, &scope, &shared_items, work, None))
    });
    for applied in applied.into_iter().flatten() {
        record(applied, progress);
    }
}

/// Applies all works of a bulk with an origin, those of different shards in parallel and those of one shard in order.
pub(super) fn apply_marked(
    writes: &Arc<WriteService>,
    scope: &Arc<Scope>,
    items: &Arc<Vec<BulkItem>>,
    works: Vec<Work>,
    marking: &Arc<Marking>,
    progress: &mut Progress,
) {
    let works: Vec<_> = works.into_iter().map(|work| Mutex::new(Some(work))).collect();
    let (shared, shared_items, scope) = (Arc::clone(writes), Arc::clone(items), Arc::clone(scope));
    let marking = Arc::clone(marking);
    let applied = run_indexed(&writes.pools.write, works.len(), move |number| {
        let work = works[number].lock().take();
        work.map(|work| apply_one(&shared, &scope, &shared_items, work, Some(&marking)))
    });
    for applied in applied.into_iter().flatten() {
        record(applied, progress);
    }
}

/// Splits a work with only generated ids into batches that may run in parallel: no two of its
/// items are of the same document.
fn split_unordered(items: &[BulkItem], mut work: Work) -> Vec<Work> {
    let unordered =
        work.items.len() > UNORDERED_BATCH && work.items.iter().all(|item| items[item.planned.position].id.is_none());
    let mut works = Vec::new();
    while unordered && work.items.len() > UNORDERED_BATCH {
        let rest = work.items.split_off(UNORDERED_BATCH);
        works.push(Work {
            index: Arc::clone(&work.index),
            slot: Arc::clone(&work.slot),
            items: std::mem::replace(&mut work.items, rest),
        });
    }
    works.push(work);
    works
}

fn record(applied: Applied, progress: &mut Progress) {
    let mut positions = Vec::with_capacity(applied.results.len());
    for (position, response) in applied.results {
        positions.push(position);
        progress.responses[position] = Some(response);
    }
    let (Some(shard), Some(position)) = (applied.shard, applied.position) else {
        return;
    };
    let instance = Arc::as_ptr(&shard) as usize;
    let key = (applied.index.metadata.uuid.clone(), applied.slot.number, instance);
    let touched = progress.touched.entry(key).or_insert_with(|| WrittenShard {
        index: applied.index,
        slot: applied.slot,
        shard,
        position,
        items: Vec::new(),
    });
    touched.position = touched.position.max(position);
    touched.items.extend(positions);
}

fn apply_one(
    writes: &WriteService,
    scope: &Scope,
    items: &[BulkItem],
    work: Work,
    marking: Option<&Marking>,
) -> Applied {
    let started = Instant::now();
    let mut run = Run {
        writes,
        scope,
        index: &work.index,
        slot: &work.slot,
        shard: None,
        results: Vec::with_capacity(work.items.len()),
        batch: Vec::new(),
        batch_items: Vec::new(),
        position: None,
    };
    match work.slot.shard() {
        Ok(_) => match marking {
            None => run.all(items, work.items),
            Some(marking) => run.all_marked(items, work.items, marking),
        },
        Err(error) => {
            for item in &work.items {
                run.fail(&items[item.planned.position], item.planned.position, error.clone());
            }
        }
    }
    let (results, position, shard) = (run.results, run.position, run.shard);
    work.slot.written_ms.store(writes.node.now_ms(), Ordering::Relaxed);
    work.slot.changed.store(true, Ordering::Relaxed);
    add_us(&work.slot.counters.index_us, started);
    Applied {
        index: work.index,
        slot: work.slot,
        shard,
        results,
        position,
    }
}

/// Items of a bulk with an origin that are applied together.
#[derive(Default)]
struct MarkedBatch {
    ops: Vec<ShardOp>,
    /// Position of each operation.
    items: Vec<usize>,
    /// Items that do not fit their mapping.
    rejected: Vec<(usize, Error)>,
}

impl MarkedBatch {
    fn len(&self) -> usize {
        self.items.len() + self.rejected.len()
    }
}

/// Application of one shard's items.
struct Run<'a> {
    writes: &'a WriteService,
    scope: &'a Scope,
    index: &'a IndexState,
    slot: &'a ShardSlot,
    /// The shard of the last batch.
    shard: Option<Arc<Shard>>,
    results: Vec<(usize, BulkItemResponse)>,
    batch: Vec<ShardOp>,
    /// Position and id (if given) of each operation of `batch`.
    batch_items: Vec<(usize, Option<String>)>,
    /// Position in the WAL of `shard`.
    position: Option<Position>,
}

impl Run<'_> {
    fn all(&mut self, items: &[BulkItem], work: Vec<WorkItem>) {
        for WorkItem { planned, document } in work {
            if self.batch.len() >= STEP_OPS {
                self.apply_batch();
                yield_now();
            }
            let item = &items[planned.position];
            match (&item.operation, document) {
                (Operation::Update(changes), _) => {
                    // An update reads what earlier items of the bulk wrote.
                    self.apply_batch();
                    let id = item.id.clone().unwrap_or_default();
                    let _held = self.slot.hold();
                    let shard = match self.shard_of_now() {
                        Ok(shard) => shard,
                        Err(error) => {
                            self.answer(planned.position, id, Err(error));
                            continue;
                        }
                    };
                    let updating = Updating {
                        writes: self.writes,
                        scope: self.scope,
                        index: self.index,
                        shard: &shard,
                        id: &id,
                        key: planned.key.as_deref().unwrap_or(&id),
                        routing: planned.routing.as_deref(),
                        update: changes,
                    };
                    let outcome = updating.run(item.expect);
                    match outcome {
                        Ok(updated) => {
                            self.position = self.position.max(updated.position);
                            self.answer(planned.position, id, Ok(updated.written));
                        }
                        Err(error) => self.answer(planned.position, id, Err(error)),
                    }
                }
                (Operation::Delete, _) => {
                    let id = item.id.clone().unwrap_or_default();
                    self.batch_items.push((planned.position, Some(id.clone())));
                    self.batch.push(ShardOp::Delete {
                        id: planned.key.unwrap_or(id),
                        expect: item.expect,
                        routing: planned.routing,
                    });
                }
                (_, Some(Ok(document))) => {
                    self.batch_items.push((planned.position, item.id.clone()));
                    self.batch.push(ShardOp::Index {
                        id: planned.key.or_else(|| item.id.clone()),
                        create: matches!(item.operation, Operation::Create { .. }),
                        document: Box::new(document),
                        expect: item.expect,
                        routing: planned.routing,
                    });
                }
                (_, Some(Err(error))) => self.fail(item, planned.position, error),
                (_, None) => {
                    debug_assert!(source_of(item).is_some(), "every whole source was mapped");
                    self.fail(item, planned.position, Error::internal("the document was not mapped"));
                }
            }
        }
        self.apply_batch();
    }

    /// Applies items without ids, each batch with the mark of its last offset. The first failure that may pass ends the work:
    /// nothing behind it is applied.
    fn all_marked(&mut self, items: &[BulkItem], work: Vec<WorkItem>, marking: &Marking) {
        let mut batch = MarkedBatch::default();
        let mut failure: Option<Error> = None;
        for WorkItem { planned, document } in work {
            let (position, item) = (planned.position, &items[planned.position]);
            if failure.is_none() && batch.len() >= STEP_OPS {
                failure = self.apply_marked(&mut batch, marking);
                yield_now();
            }
            if let Some(error) = &failure {
                self.fail(item, position, error.clone());
                continue;
            }
            match document {
                Some(Ok(document)) => {
                    batch.items.push(position);
                    batch.ops.push(ShardOp::Index {
                        id: None,
                        create: matches!(item.operation, Operation::Create { .. }),
                        document: Box::new(document),
                        expect: item.expect,
                        routing: planned.routing,
                    });
                }
                Some(Err(error)) if error.kind().is_of_document() => batch.rejected.push((position, error)),
                failed => {
                    let error = failed.and_then(Result::err);
                    let error = error.unwrap_or_else(|| Error::internal("the document was not mapped"));
                    failure = self.apply_marked(&mut batch, marking).or(Some(error.clone()));
                    self.fail(item, position, error);
                }
            }
        }
        // After a failure the batch is empty.
        self.apply_marked(&mut batch, marking);
    }

    /// Applies a batch and empties it. Returns the failure of the whole batch.
    fn apply_marked(&mut self, batch: &mut MarkedBatch, marking: &Marking) -> Option<Error> {
        let MarkedBatch { ops, items, rejected } = std::mem::take(batch);
        let last = items
            .iter()
            .chain(rejected.iter().map(|(position, _)| position))
            .max()?;
        let offset = |position: usize| marking.offsets[position];
        let mut mark = marking.mark(offset(*last));
        mark.rejected = rejected.iter().map(|(position, _)| offset(*position)).collect();
        let tag = BatchTag {
            key: marking.key.clone(),
            mark,
        };
        let offsets = items.iter().map(|position| offset(*position)).collect();
        let _held = self.slot.hold();
        match self
            .shard_of_now()
            .and_then(|shard| shard.apply_tagged(ops, tag, offsets))
        {
            Ok(applied) => {
                self.position = self.position.max(applied.durable);
                for (position, result) in items.into_iter().zip(applied.results) {
                    let id = result
                        .as_ref()
                        .map_or_else(|_| String::new(), |written| self.made_id(written.seq_no));
                    self.answer(position, id, result);
                }
                for (position, error) in rejected {
                    self.answer(position, String::new(), Err(error));
                }
                None
            }
            Err(error) => {
                let error = match error.kind() {
                    ErrorKind::IndexClosed => self.slot.shard().err().unwrap_or(error),
                    _ => error,
                };
                let failed = items
                    .into_iter()
                    .chain(rejected.into_iter().map(|(position, _)| position));
                for position in failed {
                    self.answer(position, String::new(), Err(error.clone()));
                }
                Some(error)
            }
        }
    }

    /// Returns the current shard; the caller holds the slot. Writes to the shard before a replacement are
    /// durable.
    fn shard_of_now(&mut self) -> Result<Arc<Shard>> {
        let now = self.slot.shard()?;
        if self.shard.as_ref().is_none_or(|before| !Arc::ptr_eq(before, &now)) {
            self.position = None;
        }
        self.shard = Some(Arc::clone(&now));
        Ok(now)
    }

    fn apply_batch(&mut self) {
        let ops = std::mem::take(&mut self.batch);
        let batch_items = std::mem::take(&mut self.batch_items);
        if ops.is_empty() {
            return;
        }
        let _held = self.slot.hold();
        match self.shard_of_now().and_then(|shard| shard.apply(ops)) {
            Ok(applied) => {
                self.position = self.position.max(applied.durable);
                for ((position, id), result) in batch_items.into_iter().zip(applied.results) {
                    let id = match (id, &result) {
                        (Some(id), _) => id,
                        (None, Ok(written)) => self.made_id(written.seq_no),
                        (None, Err(_)) => String::new(),
                    };
                    self.answer(position, id, result);
                }
            }
            Err(error) => {
                // The shard was closed during the batch: its slot has the reason (the index was
                // deleted, the node is stopping).
                let error = match error.kind() {
                    ErrorKind::IndexClosed => self.slot.shard().err().unwrap_or(error),
                    _ => error,
                };
                for (position, id) in batch_items {
                    self.answer(position, id.unwrap_or_default(), Err(error.clone()));
                }
            }
        }
    }

    fn made_id(&self, seq_no: u64) -> String {
        AutoId {
            index_tag: self.index.tag,
            shard: self.slot.number as u16,
            seq_no,
        }
        .encode()
    }

    fn fail(&mut self, item: &BulkItem, position: usize, error: Error) {
        self.answer(position, item.id.clone().unwrap_or_default(), Err(error));
    }

    fn answer(&mut self, position: usize, id: String, result: Result<Written>) {
        let index = self.index.name.to_string();
        self.results.push((position, BulkItemResponse { index, id, result }));
    }
}
