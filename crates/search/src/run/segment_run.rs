//! The search of one segment: reads its matching documents block by block and passes them to the count, the hits
//! and the aggregations.

use std::cmp::Ordering as Order;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_engine::RequestContext;
use firn_model::{ErrorKind, Result};
use firn_query::aggs::Partials;
use firn_query::search::TrackTotalHits;
use firn_scheduler::yield_now;
use firn_segment::columns::column::failed;
use firn_segment::segment::Segment;
use firn_segment::splits::dry_run::catch;
use parking_lot::Mutex;
use tantivy::query::Weight;
use tantivy::{DocId, DocSet, Score};

use super::collapse::{Group, GroupField, SegmentGroups};
use super::matching_docs::{BLOCK, DocRange, Docs, Selection};
use super::memory::Memory;
use super::newest_first;
use super::profile::{Part, ShardTimes, Stopwatch};
use super::progress::Reporter;
use super::top_k::{Entry, TopK};
use crate::After;
use crate::aggs::{Background, BackgroundCount, Counted, DocumentOrder, Plan};
use crate::compile::limits::Deadline;
use crate::result_cache::Found;
use crate::result_cache::cached_segments::Repeatable;
use crate::sort::{SegmentKey, ShardKey, SortValue};
use crate::tenancy::tenant_rows::count_alive;

/// Approximate bytes of a hit that is retained until the end.
const ROW_BYTES: usize = 96;

/// The compiled search of one shard, the same for all of its segments.
pub(crate) struct ShardPlan {
    /// The matching documents.
    pub(crate) selection: Selection,
    /// The score of every hit, if it is the same for all.
    pub(crate) constant_score: Option<Score>,
    /// The search needs scores, and they differ.
    pub(crate) scoring: bool,
    /// Sort keys, most significant first; never empty.
    pub(crate) keys: Vec<ShardKey>,
    /// The position after which hits start.
    pub(crate) after: Option<After>,
    /// Aggregations.
    pub(crate) aggs: Plan,
    /// All visible documents, for aggregations that read past the query.
    pub(crate) everything: Selection,
    /// Cache key for the partial aggregation results of segments, or, without aggregations, for their hit counts;
    /// `None`: they are not cached.
    pub(crate) repeatable: Option<Repeatable>,
    /// The field of `collapse`: one hit for each of its values.
    pub(crate) collapse: Option<GroupField>,
    /// The `post_filter`: hits must match it in addition to the query, aggregations ignore it.
    pub(crate) post_filter: Option<Box<dyn Weight>>,
    /// The measurements of `profile`, if requested.
    pub(crate) times: Option<ShardTimes>,
    /// The shard has only one segment to search.
    pub(crate) single_segment: bool,
    /// Documents collected so far, for `terminate_after`.
    pub(crate) collected: AtomicU64,
}

impl ShardPlan {
    /// Returns whether the first hits can be found without reading all matches in index order.
    pub(crate) fn may_read_newest_first(&self) -> bool {
        let by_time = self.keys.first().is_some_and(ShardKey::is_timestamp);
        by_time && !self.scoring && self.collapse.is_none() && self.post_filter.is_none()
    }
}

/// A hit before it is fetched.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) values: Vec<SortValue>,
    pub(crate) score: Score,
    /// The group that it represents, if hits are collapsed.
    pub(crate) group: Option<Group>,
    /// The segment's number in the search.
    pub(crate) order: u32,
    pub(crate) doc: DocId,
}

/// The state that all segments of a search share.
pub(crate) struct Shared {
    pub(crate) ctx: RequestContext,
    pub(crate) deadline: Deadline,
    /// Most segments that are searched at the same time.
    pub(crate) threads_max: usize,
    pub(crate) memory: Memory,
    pub(crate) track_total_hits: TrackTotalHits,
    pub(crate) min_score: Option<f32>,
    /// 0: no limit.
    pub(crate) terminate_after: u64,
    /// Number of hits to retain: `from + size`.
    pub(crate) keep: usize,
    /// Hits counted so far.
    pub(crate) total: AtomicU64,
    /// Some hits were not counted.
    pub(crate) total_cut: AtomicBool,
    /// The search timed out and something is missing. Local data is still searched, see [`Deadline`].
    pub(crate) timed_out: AtomicBool,
    pub(crate) terminated: AtomicBool,
    pub(crate) top: Mutex<Top>,
    /// Reports progress, if the request asked for it.
    pub(crate) reporter: Option<Reporter>,
}

/// The first hits so far.
#[derive(Default)]
pub(crate) struct Top {
    /// In order; at most `keep` hits.
    pub(crate) rows: Vec<Row>,
    pub(crate) max_score: Option<Score>,
}

impl Shared {
    /// Returns whether enough hits are counted.
    fn counted_enough(&self) -> bool {
        match self.track_total_hits {
            TrackTotalHits::Exact => false,
            TrackTotalHits::No => true,
            TrackTotalHits::UpTo(limit) => self.total.load(Ordering::Relaxed) > limit,
        }
    }

    /// Records that rows of a segment are read.
    fn read_segment(&self, times: Option<&ShardTimes>) {
        self.ctx.work.add_segment();
        if let Some(times) = times {
            times.segment_read();
        }
    }

    pub(crate) fn count(&self, hits: u64) {
        self.total.fetch_add(hits, Ordering::Relaxed);
    }

    /// Returns the last retained hit, once there are enough hits.
    fn threshold(&self) -> Option<SortValue> {
        let top = self.top.lock();
        if self.keep == 0 || top.rows.len() < self.keep {
            return None;
        }
        top.rows.last().and_then(|row| row.values.first().cloned())
    }

    /// Returns an opened value; `None` if the timeout came first, which is no failure.
    pub(crate) fn in_time<T>(&self, opened: Result<T>) -> Result<Option<T>> {
        match opened {
            Err(error) if error.kind() == ErrorKind::Timeout => {
                self.timed_out.store(true, Ordering::Relaxed);
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// Reads the next block; returns false if the timeout came first, which is no failure.
    pub(crate) fn next_in_time(&self, docs: &mut Docs, segment: &Segment) -> Result<bool> {
        let read = catch(|| {
            docs.next(segment);
            Ok(())
        });
        Ok(self.in_time(read)?.is_some())
    }

    /// Returns whether some aggregation stopped midway because of the timeout.
    pub(crate) fn note_late(&self) -> bool {
        let is_late = self.memory.ended_late();
        if is_late {
            self.timed_out.store(true, Ordering::Relaxed);
        }
        is_late
    }

    /// Returns whether the work must stop with its results so far; fails if the client disconnected. It yields to
    /// other work, so the caller must not hold a lock.
    pub(crate) fn should_stop(&self) -> Result<bool> {
        yield_now();
        self.ctx.check()?;
        let is_over = self.deadline.is_over(&self.ctx);
        if is_over {
            self.timed_out.store(true, Ordering::Relaxed);
        }
        Ok(is_over)
    }
}

/// Searches one segment. It adds hits and counts to `shared` and returns the aggregations.
pub(crate) fn run(shared: &Shared, plan: &ShardPlan, segment: &Segment, order: u32) -> Result<Option<Partials>> {
    if shared.should_stop()? || plan.selection.is_none() && !plan.aggs.wants_zeros() {
        return Ok(None);
    }
    let times = plan.times.as_ref();
    let mut watch = Stopwatch::start(times);
    let mut hits = match shared.keep {
        0 => None,
        keep => Hits::open(shared, plan, segment, order, keep)?,
    };
    let reach = plan.selection.reach(segment)?;
    watch.lap(Part::Open);
    let has_aggs = !plan.aggs.is_empty();
    let all_needed = has_aggs || shared.min_score.is_some() || shared.terminate_after > 0;
    if hits.is_none() && !all_needed {
        let is_known = plan.selection.counts_at_once(&reach);
        match times {
            _ if shared.keep == 0 && !is_known => shared.read_segment(times),
            Some(times) if shared.keep == 0 => times.segment_from_statistics(),
            Some(times) => times.segment_passed_over(),
            None => {}
        }
        count_only(shared, plan, segment, reach)?;
        watch.lap(Part::Match);
        return Ok(None);
    }
    let alone =
        hits.is_none() && plan.post_filter.is_none() && shared.min_score.is_none() && shared.terminate_after == 0;
    if alone
        && let Some(rows) = plan.selection.rows(&reach)
        && let Some(partials) = plan.aggs.count_rows(segment, rows, &shared.memory)?
    {
        if let Some(times) = times {
            times.segment_from_statistics();
        }
        shared.count(count_alive(segment, rows.rows.clone()));
        watch.lap(Part::Aggregate);
        return Ok(Some(partials));
    }
    if alone
        && plan.selection.is_whole(&reach, segment)
        && let Some(whole) = plan.aggs.of_whole(segment)?
    {
        if let Some(times) = times {
            times.segment_from_statistics();
        }
        shared.count(segment.max_doc.into());
        let partials = whole.finish(segment, order, &shared.memory, plan.single_segment)?;
        watch.lap(Part::Aggregate);
        return Ok(Some(partials));
    }
    shared.read_segment(times);
    if let Some(own) = &mut hits
        && !all_needed
        && plan.may_read_newest_first()
        && newest_first::collect(shared, plan, segment, &reach, own)?
    {
        watch.lap(Part::Collect);
        count_only(shared, plan, segment, reach)?;
        watch.lap(Part::Match);
        if let Some(hits) = hits {
            hits.finish(shared, plan, segment)?;
        }
        watch.lap(Part::Collect);
        return Ok(None);
    }
    let repeatable = plan.repeatable.as_ref().filter(|_| alone);
    let coverage = reach.coverage();
    let Some(mut docs) = shared.in_time(plan.selection.open_reach(segment, reach, plan.scoring))? else {
        return Ok(None);
    };
    let mut aggs = match has_aggs {
        true => {
            let manner = DocumentOrder {
                whole_shard: plan.single_segment,
                newest_first: docs.newest_first,
            };
            Some(plan.aggs.open(segment, order, &shared.memory, manner)?)
        }
        false => None,
    };
    let mut post_filter = match &plan.post_filter {
        Some(weight) => match shared.in_time(weight.scorer(&segment.reader, 1.0).map_err(failed))? {
            Some(scorer) => Some(scorer),
            None => return Ok(None),
        },
        None => None,
    };
    if !all_needed
        && shared.counted_enough()
        && let Some(hits) = &hits
        && hits.first_doc > 0
    {
        docs.skip_to(hits.first_doc);
        shared.total_cut.store(true, Ordering::Relaxed);
    }
    let zeros = [0u32; BLOCK];
    let mut matched = 0;
    watch.lap(Part::Open);
    loop {
        if shared.should_stop()? {
            break;
        }
        if !shared.next_in_time(&mut docs, segment)? || docs.finished {
            break;
        }
        if let Some(min_score) = shared.min_score {
            docs.keep_scores(min_score, plan.constant_score);
        }
        let stop = shared.terminate_after > 0 && terminate(&mut docs, shared, plan);
        watch.lap(Part::Match);
        if docs.docs.is_empty() && !stop {
            continue;
        }
        if let Some(times) = times {
            times.block(docs.docs.len());
        }
        if let Some(aggs) = &mut aggs {
            aggs.put_scores(&docs.docs, &docs.scores, plan.constant_score.unwrap_or_default());
            let collected = match times {
                Some(times) => aggs.collect_timed(&docs.docs, &zeros[..docs.docs.len()], times),
                None => aggs.collect(&docs.docs, &zeros[..docs.docs.len()]),
            };
            watch.lap(Part::Aggregate);
            // The timeout came in the middle of a block; its results so far are retained.
            if shared.in_time(collected)?.is_none() {
                break;
            }
        }
        if let Some(filter) = &mut post_filter {
            docs.keep(|doc, _| {
                let at = filter.doc();
                doc == if at < doc { filter.seek(doc) } else { at }
            });
        }
        matched += docs.docs.len() as u64;
        shared.count(docs.docs.len() as u64);
        let mut hits_done = true;
        if let Some(hits) = &mut hits {
            hits.collect(&docs.docs, &docs.scores)?;
            hits_done = hits.is_complete();
            watch.lap(Part::Collect);
        }
        if stop {
            shared.terminated.store(true, Ordering::Relaxed);
            break;
        }
        if hits_done && !all_needed {
            if shared.counted_enough() {
                shared.total_cut.store(true, Ordering::Relaxed);
                break;
            }
            if let Some(rest) = docs.rest_count(segment).filter(|_| post_filter.is_none()) {
                shared.count(rest);
                break;
            }
        }
    }
    watch.lap(Part::Match);
    if let Some(hits) = hits {
        hits.finish(shared, plan, segment)?;
        watch.lap(Part::Collect);
    }
    let partials = aggs.map(|aggs| aggs.finish()).transpose()?;
    let is_whole = !shared.note_late() && docs.finished;
    if let (Some(repeatable), Some(partials), Some(coverage), true) = (repeatable, &partials, coverage, is_whole) {
        repeatable.put(segment, coverage, plan.single_segment, matched, partials);
    }
    watch.lap(Part::Finish);
    Ok(partials)
}

/// The result of the cache lookup for a segment.
pub(crate) enum SegmentFacts {
    /// The cached partial result; its hits are already counted.
    Partials(Partials),
    /// Approximate number of rows to read.
    RowCount(u64),
}

/// Looks up the cached partial result of a segment.
pub(crate) fn run_again(shared: &Shared, plan: &ShardPlan, segment: &Segment) -> Result<SegmentFacts> {
    let reach = plan.selection.reach(segment)?;
    let has_aggs = !plan.aggs.is_empty();
    let is_plain = shared.keep == 0 && has_aggs && shared.min_score.is_none() && shared.terminate_after == 0;
    let repeatable = plan.repeatable.as_ref().filter(|_| is_plain);
    if let Some(answer) = repeatable.and_then(|repeatable| repeatable.get(segment, &reach, plan.single_segment))
        && let Found::Partials(partials) = &answer.found
    {
        shared.memory.take(answer.bytes)?;
        shared.count(answer.total);
        if let Some(times) = &plan.times {
            times.segment_from_cache();
        }
        return Ok(SegmentFacts::Partials(partials.clone()));
    }
    let rows = reach.row_count(segment);
    let stops_early = !has_aggs && plan.may_read_newest_first() && plan.selection.rows(&reach).is_some();
    Ok(SegmentFacts::RowCount(match stops_early {
        true => rows.min(shared.keep as u64),
        false => rows,
    }))
}

/// Passes every document of a segment to the aggregations that ignore the query.
pub(crate) fn run_everything(shared: &Shared, plan: &ShardPlan, segment: &Segment, order: u32) -> Result<Partials> {
    let mut aggs = plan.aggs.open_everything(segment, order, &shared.memory)?;
    let mut docs = plan.everything.open(segment, false)?;
    let zeros = [0u32; BLOCK];
    while !shared.should_stop()? {
        docs.next(segment);
        if docs.finished {
            break;
        }
        aggs.put_scores(&docs.docs, &[], 1.0);
        aggs.collect(&docs.docs, &zeros[..docs.docs.len()])?;
    }
    aggs.finish()
}

/// Counts the background with which some aggregations compare the query's documents.
pub(crate) fn run_background(
    shared: &Shared,
    plan: &ShardPlan,
    segment: &Segment,
    wanted: &[BackgroundCount],
) -> Result<Vec<Counted>> {
    let mut backgrounds = plan.aggs.open_backgrounds(segment, wanted)?;
    let mut docs = plan.everything.open(segment, false)?;
    while !shared.should_stop()? {
        docs.next(segment);
        if docs.finished {
            break;
        }
        for background in &mut backgrounds {
            background.collect(&docs.docs);
        }
    }
    Ok(backgrounds.into_iter().map(Background::counted).collect())
}

/// Counts the hits of a segment, if the request needs nothing else.
fn count_only(shared: &Shared, plan: &ShardPlan, segment: &Segment, reach: DocRange) -> Result<()> {
    if shared.counted_enough() {
        shared.total_cut.store(true, Ordering::Relaxed);
        return Ok(());
    }
    let at_once = plan.selection.counts_at_once(&reach);
    let repeatable = plan.repeatable.as_ref().filter(|_| !at_once && plan.aggs.is_empty());
    if let Some(answer) = repeatable.and_then(|repeatable| repeatable.get(segment, &reach, false)) {
        shared.count(answer.total);
        return Ok(());
    }
    let coverage = reach.coverage();
    let Some(mut docs) = shared.in_time(plan.selection.open_reach(segment, reach, plan.scoring))? else {
        return Ok(());
    };
    let mut matched = 0;
    if let Some(rest) = docs.rest_count(segment) {
        shared.count(rest);
        return Ok(());
    }
    loop {
        if shared.should_stop()? {
            return Ok(());
        }
        if !shared.next_in_time(&mut docs, segment)? {
            return Ok(());
        }
        if docs.finished {
            break;
        }
        matched += docs.docs.len() as u64;
        shared.count(docs.docs.len() as u64);
        if shared.counted_enough() {
            shared.total_cut.store(true, Ordering::Relaxed);
            return Ok(());
        }
    }
    if let (Some(repeatable), Some(coverage)) = (repeatable, coverage) {
        repeatable.put(segment, coverage, false, matched, &Partials::default());
    }
    Ok(())
}

/// Truncates the block at the shard's `terminate_after`; returns true if the limit is reached.
fn terminate(docs: &mut Docs, shared: &Shared, plan: &ShardPlan) -> bool {
    let before = plan.collected.fetch_add(docs.docs.len() as u64, Ordering::Relaxed);
    let left = shared.terminate_after.saturating_sub(before);
    if (docs.docs.len() as u64) < left {
        return false;
    }
    // It does not check for further documents: reaching the limit is the early end.
    docs.truncate(left as usize);
    true
}

/// The first hits of a segment.
pub(crate) struct Hits {
    keys: Vec<SegmentKey>,
    /// The position after which hits start.
    after: Option<EncodedAfter>,
    /// All documents before this one sort before `after`.
    first_doc: DocId,
    /// Hits whose first key is larger are not among the first hits of the search.
    bound: u128,
    kept: TopK,
    groups: Option<SegmentGroups>,
    keep: usize,
    order: u32,
    constant_score: Option<Score>,
    max_score: Option<Score>,
    firsts: Vec<u128>,
    scratch: Vec<u64>,
}

/// An [`After`] encoded for a segment.
struct EncodedAfter {
    keys: Vec<u128>,
    tie: Option<(u32, DocId)>,
}

impl Hits {
    /// Opens the keys on a segment; `None`: no document of the segment can be among the first hits of the search.
    fn open(shared: &Shared, plan: &ShardPlan, segment: &Segment, order: u32, keep: usize) -> Result<Option<Self>> {
        let keys = plan
            .keys
            .iter()
            .map(|key| key.open(segment, order))
            .collect::<Result<Vec<_>>>()?;
        let Some(first) = keys.first() else {
            return Ok(None);
        };
        let bound = match shared.threshold() {
            Some(value) => first.encode(&value)?,
            None => u128::MAX,
        };
        if first.best(segment).is_some_and(|best| best > bound) {
            return Ok(None);
        }
        let mut first_doc = 0;
        let after = match &plan.after {
            Some(after) => {
                let encoded: Result<Vec<_>> = keys
                    .iter()
                    .zip(&after.values)
                    .map(|(key, value)| key.encode(value))
                    .collect();
                let encoded = encoded?;
                if first.worst(segment).is_some_and(|worst| worst < encoded[0]) {
                    return Ok(None);
                }
                first_doc = first.first_doc_after(&after.values[0]).min(segment.max_doc);
                Some(EncodedAfter {
                    keys: encoded,
                    tie: after.tie,
                })
            }
            None => None,
        };
        shared.memory.take(keep.min(segment.max_doc as usize) * ROW_BYTES)?;
        Ok(Some(Self {
            keys,
            after,
            first_doc,
            bound,
            kept: TopK::new(plan.collapse.is_some(), keep, keep.min(BLOCK)),
            groups: plan
                .collapse
                .as_ref()
                .map(|field| field.open(segment, order))
                .transpose()?,
            keep,
            order,
            constant_score: plan.constant_score,
            max_score: None,
            firsts: Vec::with_capacity(BLOCK),
            scratch: Vec::with_capacity(BLOCK),
        }))
    }

    /// Returns the most significant sort key.
    pub(crate) fn first_key(&self) -> &SegmentKey {
        &self.keys[0]
    }

    /// Returns the largest first key that may still be among the first hits.
    pub(crate) fn bound(&self) -> u128 {
        self.bound.min(self.kept.bound())
    }

    /// Returns the smallest first key that a hit may have, because of `after`.
    pub(crate) fn first_wanted(&self) -> u128 {
        self.after.as_ref().map_or(0, |after| after.keys[0])
    }

    /// Returns whether there are enough hits.
    pub(crate) fn is_full(&self) -> bool {
        self.kept.is_full()
    }

    /// Adds a block of matching documents.
    pub(crate) fn collect(&mut self, docs: &[DocId], scores: &[Score]) -> Result<()> {
        if docs.is_empty() {
            return Ok(());
        }
        for &score in scores {
            if self.max_score.is_none_or(|max| score > max) {
                self.max_score = Some(score);
            }
        }
        // A score that all hits share is not read with them.
        if scores.is_empty() && self.constant_score.is_some() && self.keys.iter().any(SegmentKey::is_score) {
            let same = vec![self.constant_score.unwrap_or_default(); docs.len()];
            return self.collect(docs, &same);
        }
        let Some((first_key, rest_keys)) = self.keys.split_first() else {
            return Ok(());
        };
        let mut firsts = std::mem::take(&mut self.firsts);
        first_key.read_block(docs, scores, &mut self.scratch, &mut firsts);
        let mut bound = self.bound();
        for (position, &first) in firsts.iter().enumerate() {
            if first > bound {
                continue;
            }
            let doc = docs[position];
            let score = scores
                .get(position)
                .copied()
                .unwrap_or(self.constant_score.unwrap_or_default());
            let rest: Vec<u128> = rest_keys.iter().map(|key| key.read(doc, score)).collect();
            if let Some(EncodedAfter { keys: after, tie }) = &self.after {
                let behind = first.cmp(&after[0]).then_with(|| rest.as_slice().cmp(&after[1..]));
                let behind = behind.then(tie.map_or(Order::Equal, |tie| (self.order, doc).cmp(&tie)));
                if behind.is_le() {
                    continue;
                }
            }
            let group = match &self.groups {
                Some(groups) => groups.read(doc)?,
                None => None,
            };
            self.kept.push(Entry {
                first,
                rest,
                doc,
                score_bits: score.to_bits(),
                group,
            });
            bound = self.bound.min(self.kept.bound());
        }
        self.firsts = firsts;
        Ok(())
    }

    /// Returns whether no later document of the segment can be among the first hits.
    fn is_complete(&self) -> bool {
        self.kept.is_full() && self.keys.first().is_some_and(SegmentKey::is_ascending_doc)
    }

    fn finish(self, shared: &Shared, plan: &ShardPlan, segment: &Segment) -> Result<()> {
        let kept = self.kept.into_sorted();
        let mut rows = Vec::with_capacity(kept.len());
        for entry in kept {
            let score = f32::from_bits(entry.score_bits);
            let values = self
                .keys
                .iter()
                .map(|key| key.value(entry.doc, score))
                .collect::<Result<Vec<_>>>()?;
            rows.push(Row {
                values,
                score,
                group: match &self.groups {
                    Some(groups) => Some(groups.group(entry.doc)?),
                    None => None,
                },
                order: self.order,
                doc: entry.doc,
            });
        }
        let mut top = shared.top.lock();
        if let Some(score) = self.max_score {
            top.max_score = Some(top.max_score.map_or(score, |max: f32| max.max(score)));
        }
        top.merge(rows, &plan.keys, shared.keep);
        shared.memory.give(self.keep.min(segment.max_doc as usize) * ROW_BYTES);
        Ok(())
    }
}

impl Top {
    fn merge(&mut self, rows: Vec<Row>, keys: &[ShardKey], keep: usize) {
        if rows.is_empty() {
            return;
        }
        self.rows.extend(rows);
        self.rows.sort_by(|a, b| {
            for ((key, a), b) in keys.iter().zip(&a.values).zip(&b.values) {
                let order = key.compare(a, b);
                if order.is_ne() {
                    return order;
                }
            }
            (a.order, a.doc).cmp(&(b.order, b.doc))
        });
        let mut seen = HashSet::new();
        self.rows.retain(|row| match &row.group {
            Some(group) => seen.insert(group.clone()),
            None => true,
        });
        self.rows.truncate(keep);
    }
}

/// Returns whether an error concerns the whole request rather than one shard.
pub(crate) fn fails_request(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Cancelled | ErrorKind::CircuitBreaking | ErrorKind::TooManyBuckets | ErrorKind::Rejected
    )
}
