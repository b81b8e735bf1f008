//! Bulks with an origin: each event is stored once, however often its source sends it.
//!
//! 1. The bulk waits for its turn in its partition. If the bulk before it did not complete, or the node was restarted, the
//!    marks in the shards of its intent tell which events are stored; those are answered and left out.
//! 2. The other events are planned, and an intent with their shards becomes durable.
//! 3. The events are applied, in the order of their offsets in each shard; each batch of the shard's log carries a mark with
//!    its last offset. A failure that may pass ends the work of a shard at its event, so that the mark stays below it.
//! 4. The bulk is complete once every shard is on disk, also where an index demands less. With rejected events it is not: their
//!    source writes dead letters, and if it is interrupted, it must meet the rejections again. Nor is it if the source stores more
//!    of its events, such as their alerts.
//!
//! A retry is a new attempt with its own number: marks of earlier attempts do not count for it, so its events may go to other
//! shards than before.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use firn_engine::document::{
    BulkItem, BulkItemResponse, BulkRequest, BulkResponse, Effect, Operation, Refresh, Written,
};
use firn_engine::origin::{Origin, SourceTotals};
use firn_engine::{RequestContext, Scope};
use firn_model::{Error, ErrorKind, Result};
use firn_scheduler::Flow;
use firn_shard::SourceMark;
use firn_storage::wal::Position;
use tokio::sync::oneshot;

use super::progress::Progress;
use super::service::WriteService;
use super::{apply, complete, map_window, plan, pressure};
use crate::node::pools::panicked;
use crate::positions::{Intent, Settled, ShardOutcome, TargetShard, Turn, mark_key};

/// Maximum items of one bulk with an origin: they are planned, recorded and mapped as a whole.
const ITEMS_MAX: usize = 10_000;

/// What the shards need to know of a bulk with an origin.
pub(super) struct Marking {
    /// Source and partition.
    pub(super) key: String,
    /// Number of the attempt.
    pub(super) epoch: u64,
    pub(super) first_offset: u64,
    /// By position in the bulk.
    pub(super) offsets: Vec<u64>,
}

impl Marking {
    /// Returns a mark without rejections.
    pub(super) fn mark(&self, last_offset: u64) -> SourceMark {
        SourceMark {
            epoch: self.epoch,
            first_offset: self.first_offset,
            last_offset,
            rejected: Vec::new(),
        }
    }
}

/// A bulk between its steps.
struct Attempt {
    writes: Arc<WriteService>,
    scope: Arc<Scope>,
    items: Arc<Vec<BulkItem>>,
    origin: Origin,
    turn: Turn,
    progress: Progress,
    refresh: Refresh,
    answer: Box<dyn FnOnce(Result<BulkResponse>) + Send>,
}

/// Groups of a bulk, and its intent in the log.
struct Planned {
    groups: Vec<plan::Group>,
    marking: Marking,
    recorded: Position,
}

/// Runs a bulk with an origin.
pub(super) async fn bulk(
    writes: &Arc<WriteService>,
    ctx: &RequestContext,
    request: BulkRequest,
    origin: Origin,
) -> Result<BulkResponse> {
    check(&request, &origin)?;
    let flow = Flow::of(&ctx.scope);
    let bytes = request.items.iter().map(pressure::item_bytes).sum();
    let permit = writes.pressure.admit(&flow, bytes)?;
    let turn = writes.positions.turn(&origin).await?;
    writes.gates.wait_for_writes(ctx, &request.items).await?;
    let (sender, receiver) = oneshot::channel();
    let answer = move |response: Result<BulkResponse>| {
        drop(permit);
        // The receiver is gone if the client disconnected.
        let _ = sender.send(response);
    };
    let attempt = Attempt {
        writes: Arc::clone(writes),
        scope: Arc::clone(&ctx.scope),
        progress: Progress {
            responses: (0..request.items.len()).map(|_| None).collect(),
            touched: BTreeMap::new(),
        },
        items: Arc::new(request.items),
        refresh: request.refresh,
        origin,
        turn,
        answer: Box::new(answer),
    };
    writes.pools.write.spawn(&flow, move || {
        attempt.writes.devices.hot.look_if_near();
        attempt.start();
    })?;
    receiver.await.map_err(|_| panicked())?
}

fn check(request: &BulkRequest, origin: &Origin) -> Result<()> {
    let refuse = |reason: &str| Err(Error::illegal_argument(format!("a bulk with an origin {reason}")));
    let offsets = &origin.offsets;
    if request.items.len() > ITEMS_MAX {
        return refuse("has at most [10000] items");
    }
    if offsets.len() != request.items.len() || !offsets.is_sorted_by(|one, next| one < next) {
        return refuse("needs one offset for each item, in ascending order");
    }
    let covered = origin.first_offset..=origin.last_offset;
    if origin.first_offset > origin.last_offset || !offsets.iter().all(|offset| covered.contains(offset)) {
        return refuse("must cover the offsets of its items");
    }
    let is_plain = |item: &BulkItem| {
        item.id.is_none() && matches!(item.operation, Operation::Index { .. } | Operation::Create { .. })
    };
    match request.items.iter().all(is_plain) {
        true => Ok(()),
        false => refuse("adds documents without ids"),
    }
}

impl Attempt {
    fn start(mut self) {
        let planned = match self.plan() {
            Ok(planned) => planned,
            Err(error) => return self.fail(error),
        };
        let (positions, writes) = (Arc::clone(&self.writes.positions), Arc::clone(&self.writes));
        let flow = Flow::of(&self.scope);
        positions.wait_durable(
            planned.recorded,
            Box::new(move |durable| {
                writes.pools.write.spawn_admitted(&flow, move || match durable {
                    Ok(()) => self.apply(planned.groups, &Arc::new(planned.marking)),
                    Err(error) => self.fail(error),
                });
            }),
        );
    }

    /// Answers what is settled, plans the rest and appends the intent to the log.
    fn plan(&mut self) -> Result<Planned> {
        self.writes.positions.rewrite_if_large()?;
        let mut intent = self.intent_before()?;
        for (position, offset) in self.origin.offsets.iter().enumerate() {
            let Some(settled) = intent.settled(*offset) else {
                continue;
            };
            self.progress.responses[position] = Some(BulkItemResponse {
                index: self.items[position].index.clone(),
                id: String::new(),
                result: match settled {
                    Settled::Applied => Ok(stored_before()),
                    Settled::Rejected => Err(rejected_before()),
                },
            });
        }
        let open: Vec<usize> = (0..self.items.len())
            .filter(|position| self.progress.responses[*position].is_none())
            .collect();
        let targets = plan::Targets::new(&self.writes, &self.scope, &self.items);
        let mut rounds = plan::Rounds::new(&self.writes);
        let (writes, progress) = (&self.writes, &mut self.progress);
        let groups = plan::plan(writes, &self.scope, &self.items, &open, &targets, &mut rounds, progress);
        self.record_refusals(&open, &mut intent)?;
        record_groups(&groups, &self.origin, &mut intent);
        let marking = Marking {
            key: mark_key(&self.origin),
            epoch: intent.epoch,
            first_offset: intent.first_offset,
            offsets: self.origin.offsets.clone(),
        };
        let recorded = self.writes.positions.record(&self.turn, intent)?;
        Ok(Planned {
            groups,
            marking,
            recorded,
        })
    }

    /// Returns the intent of this attempt without targets: what earlier attempts at the same offsets settled.
    fn intent_before(&self) -> Result<Intent> {
        let last = self.turn.last();
        let origin = &self.origin;
        let fresh = |epoch: u64, totals: SourceTotals| Intent {
            source: origin.source.to_string(),
            partition: origin.partition.to_string(),
            epoch,
            first_offset: origin.first_offset,
            last_offset: origin.last_offset,
            totals_before: (totals.indexed, totals.filtered, totals.dead_lettered),
            note: origin.note.as_deref().map(str::to_owned),
            ..Intent::default()
        };
        let Some(before) = last.intent else {
            return Ok(fresh(1, last.totals));
        };
        if origin.first_offset > before.last_offset {
            // With rejected events a bulk is not complete, and its source writes their dead letters before it goes on.
            if last.complete_to != Some(before.last_offset) && !last.is_stored {
                tracing::warn!(
                    source = &*origin.source,
                    partition = &*origin.partition,
                    "the source skips offsets [{}] to [{}], which may be stored in part",
                    before.first_offset,
                    before.last_offset
                );
            }
            return Ok(fresh(before.epoch, last.totals));
        }
        let marks = before
            .shards
            .iter()
            .map(|shard| self.outcome(&before, shard))
            .collect::<Result<Vec<_>>>()?;
        let mut settled = before.next_attempt(&marks);
        settled.add_applied(before.complete_to.map(|last| (before.first_offset, last)));
        if origin.first_offset < before.first_offset {
            // Bulks come one after another: what is before the last one is stored.
            settled.add_applied([(origin.first_offset, before.first_offset - 1)]);
        }
        // The same bulk is counted anew.
        let totals = match origin.first_offset == before.first_offset {
            true => before.totals_before(),
            false => last.totals,
        };
        Ok(Intent {
            applied: settled.applied,
            rejected: settled.rejected,
            last_offset: origin.last_offset.max(before.last_offset),
            ..fresh(settled.epoch, totals)
        })
    }

    /// Returns how far an attempt came on a shard; `None`: nothing of it is there. Fails if the shard cannot tell now.
    fn outcome(&self, intent: &Intent, shard: &TargetShard) -> Result<Option<ShardOutcome>> {
        let state = self.writes.node.state();
        let index = state.indices.get(shard.index.as_str());
        let Some(index) = index.filter(|index| index.metadata.uuid == shard.index_uuid) else {
            // It was deleted with the events that it had.
            tracing::warn!(
                index = shard.index,
                source = &*self.origin.source,
                partition = &*self.origin.partition,
                "an index was deleted before a bulk to it was complete: its events are stored again"
            );
            return Ok(None);
        };
        let Some(slot) = index.shards.get(shard.shard as usize) else {
            return Err(Error::internal(format!(
                "index [{}] has no shard [{}]",
                shard.index, shard.shard
            )));
        };
        let shard = slot.shard()?;
        // Its memory has marks that are not on disk; it is opened again soon.
        if let Some(failure) = shard.failure() {
            return Err(failure);
        }
        let mark = shard.source_mark(&mark_key(&self.origin));
        let of_attempt = mark.filter(|mark| mark.epoch == intent.epoch && mark.first_offset == intent.first_offset);
        Ok(of_attempt.map(|mark| ShardOutcome {
            last_offset: mark.last_offset,
            rejected: mark.rejected,
        }))
    }

    /// Records items that were refused for good before a shard was found. A failure that may pass fails the bulk.
    fn record_refusals(&self, open: &[usize], intent: &mut Intent) -> Result<()> {
        for position in open {
            let Some(Err(error)) = self.progress.responses[*position]
                .as_ref()
                .map(|response| &response.result)
            else {
                continue;
            };
            if !error.kind().is_of_document() {
                return Err(error.clone());
            }
            intent.rejected.push(self.origin.offsets[*position]);
        }
        intent.rejected.sort_unstable();
        Ok(())
    }

    fn apply(mut self, groups: Vec<plan::Group>, marking: &Arc<Marking>) {
        self.turn.recorded();
        let works = map_window::map_groups(&self.writes, &self.scope, &self.items, groups);
        let progress = &mut self.progress;
        apply::apply_marked(&self.writes, &self.scope, &self.items, works, marking, progress);
        self.writes.merges.share_merging(self.progress.touched.values());
        let Self {
            writes,
            origin,
            turn,
            progress,
            answer,
            refresh,
            ..
        } = self;
        let answer = move |response: BulkResponse| {
            if let Some((totals, rejected)) = totals_after(&turn.totals(), &origin, &response) {
                let is_complete = rejected == 0 && !origin.more_follows;
                turn.complete(is_complete.then_some(origin.last_offset), totals);
            }
            drop(turn);
            answer(Ok(response));
        };
        complete::complete_synced(&writes, refresh, progress, Box::new(answer));
    }

    fn fail(self, error: Error) {
        drop(self.turn);
        (self.answer)(Err(error));
    }
}

/// Records which event goes to which shard.
fn record_groups(groups: &[plan::Group], origin: &Origin, intent: &mut Intent) {
    let mut shard_of: HashMap<usize, u32> = HashMap::new();
    for (number, group) in groups.iter().enumerate() {
        intent.shards.push(TargetShard {
            index_uuid: group.index.metadata.uuid.clone(),
            index: group.index.name.to_string(),
            shard: group.slot.number,
        });
        shard_of.extend(group.items.iter().map(|item| (item.position, number as u32)));
    }
    for (position, offset) in origin.offsets.iter().enumerate() {
        if let Some(shard) = shard_of.get(&position) {
            intent.add(*offset, *shard);
        }
    }
}

/// Returns the totals after a bulk, and the number of rejected events; `None`: some item failed and may succeed later.
fn totals_after(before: &SourceTotals, origin: &Origin, response: &BulkResponse) -> Option<(SourceTotals, u64)> {
    let errors = response.items.iter().filter_map(|item| item.result.as_ref().err());
    let mut rejected = 0;
    for error in errors {
        if !error.kind().is_of_document() {
            return None;
        }
        rejected += 1;
    }
    let stored = response.items.len() as u64 - rejected;
    let dead_letters = origin.dead_letters.min(stored);
    let totals = SourceTotals {
        indexed: before.indexed + stored - dead_letters,
        filtered: before.filtered + origin.filtered,
        dead_lettered: before.dead_lettered + dead_letters + rejected,
    };
    Some((totals, rejected))
}

fn rejected_before() -> Error {
    Error::new(
        ErrorKind::DocumentParsing,
        "the index rejected the event in an earlier attempt, whose reason is not recorded",
    )
}

fn stored_before() -> Written {
    Written {
        effect: Effect::Noop,
        version: 1,
        seq_no: 0,
        primary_term: 1,
        forced_refresh: false,
        get: None,
    }
}
