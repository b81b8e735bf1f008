//! The search of one segment: reads its matching documents block by block and passes them to the count, the hits
//! and the aggregations.

use std::ops::Range;
use std::sync::atomic::Ordering;

use firn_model::Result;
use firn_query::aggs::Partials;
use firn_query::search::TrackTotalHits;
use firn_segment::columns::column::failed;
use firn_segment::segment::Segment;
use tantivy::DocId;
use tantivy::query::Scorer;

use super::best_first;
use super::matching_docs::{BLOCK, DocRange, Docs};
use super::newest_first;
use super::profile::{Part, Stopwatch};
use super::segment_hits::Hits;
use super::segment_parts::PartRead;
use super::shard_plan::ShardPlan;
use super::shared_state::Shared;
use crate::aggs::{Background, BackgroundCount, Counted, DocumentOrder, SegmentAggs};
use crate::result_cache::Found;
use crate::tenancy::tenant_rows::count_alive;

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
    let all_needed = !plan.aggs.is_empty() || shared.min_score.is_some() || shared.terminate_after > 0;
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
    if alone && let Some(partials) = from_statistics(shared, plan, segment, order, &reach)? {
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
    if let Some(own) = &mut hits
        && !all_needed
        && plan.may_read_best_first()
        && best_first::collect(shared, plan, segment, &reach, own)?
    {
        watch.lap(Part::Match);
        if let Some(hits) = hits {
            hits.finish(shared, plan, segment)?;
        }
        watch.lap(Part::Collect);
        return Ok(None);
    }
    let repeatable = plan.repeatable.as_ref().filter(|_| alone);
    let coverage = reach.coverage();
    let Some(mut reader) = SegmentReading::open(shared, plan, segment, order, reach, hits)? else {
        return Ok(None);
    };
    watch.lap(Part::Open);
    reader.read(&mut watch)?;
    watch.lap(Part::Match);
    if let Some(hits) = reader.hits {
        hits.finish(shared, plan, segment)?;
        watch.lap(Part::Collect);
    }
    let partials = reader.aggs.map(SegmentAggs::finish).transpose()?;
    let is_whole = !shared.note_late() && reader.docs.finished;
    if let (Some(repeatable), Some(partials), Some(coverage), true) = (repeatable, &partials, coverage, is_whole) {
        repeatable.put(segment, coverage, plan.single_segment, reader.matched, partials);
    }
    watch.lap(Part::Finish);
    Ok(partials)
}

/// Computes the aggregations from the order of rows or from stored totals, and counts the hits; `None`: documents must
/// be read.
fn from_statistics(
    shared: &Shared,
    plan: &ShardPlan,
    segment: &Segment,
    order: u32,
    reach: &DocRange,
) -> Result<Option<Partials>> {
    let from_statistics = |hits: u64| {
        if let Some(times) = &plan.times {
            times.segment_from_statistics();
        }
        shared.count(hits);
    };
    if let Some(rows) = plan.selection.rows(reach)
        && let Some(partials) = plan.aggs.count_rows(segment, rows, &shared.memory)?
    {
        from_statistics(count_alive(segment, rows.rows.clone()));
        return Ok(Some(partials));
    }
    if plan.selection.is_whole(reach, segment)
        && let Some(whole) = plan.aggs.of_whole(segment)?
    {
        from_statistics(segment.max_doc.into());
        return whole
            .finish(segment, order, &shared.memory, plan.single_segment)
            .map(Some);
    }
    Ok(None)
}

/// Reading of the matching documents of a segment, block by block.
struct SegmentReading<'a> {
    shared: &'a Shared,
    plan: &'a ShardPlan,
    segment: &'a Segment,
    docs: Docs,
    aggs: Option<SegmentAggs>,
    post_filter: Option<Box<dyn Scorer>>,
    hits: Option<Hits>,
    /// Aggregations or limits need every matching document.
    all_needed: bool,
    /// Matching documents so far.
    matched: u64,
}

impl<'a> SegmentReading<'a> {
    /// Opens the documents; `None` if the timeout came first.
    fn open(
        shared: &'a Shared,
        plan: &'a ShardPlan,
        segment: &'a Segment,
        order: u32,
        reach: DocRange,
        hits: Option<Hits>,
    ) -> Result<Option<Self>> {
        match shared.in_time(plan.selection.open_reach(segment, reach, plan.scoring))? {
            Some(docs) => Self::of_docs(shared, plan, segment, order, docs, hits),
            None => Ok(None),
        }
    }

    /// Opens the aggregations over some documents; `None` if the timeout came first.
    fn of_docs(
        shared: &'a Shared,
        plan: &'a ShardPlan,
        segment: &'a Segment,
        order: u32,
        mut docs: Docs,
        hits: Option<Hits>,
    ) -> Result<Option<Self>> {
        let has_aggs = !plan.aggs.is_empty();
        let all_needed = has_aggs || shared.min_score.is_some() || shared.terminate_after > 0;
        let manner = DocumentOrder {
            whole_shard: plan.single_segment,
            newest_first: docs.newest_first,
        };
        let open_aggs = || plan.aggs.open(segment, order, &shared.memory, manner);
        let aggs = has_aggs.then(open_aggs).transpose()?;
        let post_filter = match &plan.post_filter {
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
        Ok(Some(Self {
            shared,
            plan,
            segment,
            docs,
            aggs,
            post_filter,
            hits,
            all_needed,
            matched: 0,
        }))
    }

    /// Passes the zones all of whose documents match to aggregations that take zones at once.
    fn pass_zones(&mut self, watch: &mut Stopwatch) -> Result<()> {
        let (shared, plan, segment) = (self.shared, self.plan, self.segment);
        let alone = self.hits.is_none()
            && self.post_filter.is_none()
            && shared.min_score.is_none()
            && shared.terminate_after == 0
            && segment.deleted_count == 0
            && segment.alive.is_none();
        let Some(aggs) = self.aggs.as_mut().filter(|_| alone) else {
            return Ok(());
        };
        let Some(zones) = aggs.zones() else {
            return Ok(());
        };
        for zone in self.docs.take_zones(zones) {
            if shared.should_stop()? {
                break;
            }
            let count = zone.end - zone.start;
            if let Some(times) = &plan.times {
                times.block(count as usize);
            }
            if shared.in_time(aggs.collect_zone(&zone))?.is_none() {
                break;
            }
            self.matched += u64::from(count);
            shared.count(count.into());
        }
        watch.lap(Part::Aggregate);
        Ok(())
    }

    /// Reads blocks until the end, or until the search needs no more.
    fn read(&mut self, watch: &mut Stopwatch) -> Result<()> {
        let zeros = [0u32; BLOCK];
        self.pass_zones(watch)?;
        while !self.shared.should_stop()? {
            if !self.shared.next_in_time(&mut self.docs, self.segment)? || self.docs.finished {
                break;
            }
            if self.pass_block(&zeros, watch)? {
                break;
            }
        }
        Ok(())
    }

    /// Passes a block to the aggregations, the count and the hits. Returns true if the search needs no further block.
    fn pass_block(&mut self, zeros: &[u32; BLOCK], watch: &mut Stopwatch) -> Result<bool> {
        let (shared, plan) = (self.shared, self.plan);
        if let Some(min_score) = shared.min_score {
            self.docs.keep_scores(min_score, plan.constant_score);
        }
        let stop = shared.terminate_after > 0 && terminate(&mut self.docs, shared, plan);
        watch.lap(Part::Match);
        if self.docs.docs.is_empty() && !stop {
            return Ok(false);
        }
        if let Some(times) = &plan.times {
            times.block(self.docs.docs.len());
        }
        if !self.aggregate(zeros, watch)? {
            return Ok(true);
        }
        if let Some(filter) = &mut self.post_filter {
            self.docs.keep(|doc, _| {
                let at = filter.doc();
                doc == if at < doc { filter.seek(doc) } else { at }
            });
        }
        self.matched += self.docs.docs.len() as u64;
        shared.count(self.docs.docs.len() as u64);
        let mut hits_done = true;
        if let Some(hits) = &mut self.hits {
            hits.collect(&self.docs.docs, &self.docs.scores)?;
            hits_done = hits.is_complete();
            watch.lap(Part::Collect);
        }
        if stop {
            shared.terminated.store(true, Ordering::Relaxed);
            return Ok(true);
        }
        Ok(hits_done && !self.all_needed && self.count_rest())
    }

    /// Passes the block to the aggregations. Returns false if the timeout came in the middle of it; the results so far
    /// are retained.
    fn aggregate(&mut self, zeros: &[u32; BLOCK], watch: &mut Stopwatch) -> Result<bool> {
        let Some(aggs) = &mut self.aggs else {
            return Ok(true);
        };
        let docs = &self.docs.docs;
        aggs.put_scores(docs, &self.docs.scores, self.plan.constant_score.unwrap_or_default());
        let collected = match &self.plan.times {
            Some(times) => aggs.collect_timed(docs, &zeros[..docs.len()], times),
            None => aggs.collect(docs, &zeros[..docs.len()]),
        };
        watch.lap(Part::Aggregate);
        Ok(self.shared.in_time(collected)?.is_some())
    }

    /// Counts the remaining hits without reading them; returns false if that is impossible.
    fn count_rest(&self) -> bool {
        if self.shared.counted_enough() {
            self.shared.total_cut.store(true, Ordering::Relaxed);
            return true;
        }
        match self
            .docs
            .rest_count(self.segment)
            .filter(|_| self.post_filter.is_none())
        {
            Some(rest) => {
                self.shared.count(rest);
                true
            }
            None => false,
        }
    }
}

/// Reads some rows of a segment for the aggregations, if the request needs nothing else.
pub(crate) fn read_part(
    shared: &Shared,
    plan: &ShardPlan,
    segment: &Segment,
    order: u32,
    rows: Range<DocId>,
) -> Result<PartRead> {
    let mut part = PartRead {
        aggs: None,
        matched: 0,
        is_whole: false,
    };
    if shared.should_stop()? {
        return Ok(part);
    }
    let Some(docs) = shared.in_time(plan.selection.open_within(segment, rows))? else {
        return Ok(part);
    };
    if let Some(mut reader) = SegmentReading::of_docs(shared, plan, segment, order, docs, None)? {
        reader.read(&mut Stopwatch::start(None))?;
        part.is_whole = reader.docs.finished;
        part.matched = reader.matched;
        part.aggs = reader.aggs;
    }
    Ok(part)
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
    // A lower limit is mostly reached long before the end of the column.
    if shared.track_total_hits == TrackTotalHits::Exact {
        let mut go_on = || Ok(!shared.should_stop()?);
        let counted = docs.count_by_column(segment, &mut go_on);
        if let Some(counted) = shared.in_time(counted)?.flatten() {
            shared.count(counted);
            return Ok(());
        }
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
