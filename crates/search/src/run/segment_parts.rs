//! Parts of a large segment, which several threads read for the same aggregations.
//!
//! Each part has its own collectors. The thread that finishes a part takes the collectors of a finished part that
//! waits, adds them to its own, and leaves the sum in their place; the thread that has the sum of all parts computes the
//! result.

use std::ops::Range;

use firn_model::Result;
use firn_query::aggs::Partials;
use firn_segment::segment::Segment;
use parking_lot::Mutex;
use tantivy::DocId;

use super::segment_run;
use super::shard_plan::ShardPlan;
use super::shared_state::Shared;
use crate::aggs::SegmentAggs;
use crate::result_cache::Coverage;

/// Fewest rows of a part. One thread counts that many rows in about a millisecond; a part costs some microseconds for
/// waking a thread, and its collectors and their sum. Small in tests, so that they read parts.
const PART_ROWS_MIN: u64 = if cfg!(test) { 500 } else { 1 << 18 };
/// Most parts of a segment: each one takes the memory of a collector, and a thread adds it to the others.
const PARTS_MAX: u64 = 8;

/// See the module.
pub(crate) struct SegmentParts {
    rows: Vec<Range<DocId>>,
    coverage: Option<Coverage>,
    /// The sum of some finished parts, and how many they are.
    waiting: Mutex<Option<(PartRead, usize)>>,
}

/// The result of reading one part, or the sum of several.
pub(crate) struct PartRead {
    /// `None`: the timeout came before any document.
    pub(crate) aggs: Option<SegmentAggs>,
    /// Documents that were collected.
    pub(crate) matched: u64,
    /// All documents were collected.
    pub(crate) is_whole: bool,
}

/// The result of a part.
pub(crate) enum PartOutcome {
    /// Other parts of the segment are being read.
    Waits,
    /// The result of the segment.
    Finished(Option<Partials>),
}

impl SegmentParts {
    /// Returns the parts of a segment for at most `threads` threads; `None`: one thread has to read it, or is as fast.
    pub(crate) fn of(shared: &Shared, plan: &ShardPlan, segment: &Segment, threads: usize) -> Result<Option<Self>> {
        let only_aggregates = shared.keep == 0
            && plan.post_filter.is_none()
            && shared.min_score.is_none()
            && shared.terminate_after == 0
            && plan.times.is_none();
        // The reads of a split are recorded for the whole segment, by one thread.
        let is_local = segment.derived.split().is_none();
        if !only_aggregates || !is_local || plan.scoring || !plan.aggs.is_divisible() {
            return Ok(None);
        }
        let reach = plan.selection.reach(segment)?;
        let part_count = (reach.row_count(segment) / PART_ROWS_MIN)
            .min(threads as u64)
            .min(PARTS_MAX);
        if part_count < 2 || !plan.selection.matches_rows(&reach) {
            return Ok(None);
        }
        let whole = || std::iter::once(0..segment.max_doc).collect();
        let runs = reach.docs().unwrap_or_else(whole);
        Ok(Some(Self {
            rows: divide(&runs, part_count),
            coverage: reach.coverage(),
            waiting: Mutex::new(None),
        }))
    }

    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Reads a part, and computes the result of the segment if it is the last one.
    pub(crate) fn run(
        &self,
        shared: &Shared,
        plan: &ShardPlan,
        segment: &Segment,
        order: u32,
        number: usize,
    ) -> Result<PartOutcome> {
        if number == 0 {
            shared.read_segment(None);
        }
        let mut own = segment_run::read_part(shared, plan, segment, order, self.rows[number].clone())?;
        let mut part_count = 1;
        // The lock is not held while counts are added: that takes a while and yields to other work.
        loop {
            let (theirs, their_count) = {
                let mut waiting = self.waiting.lock();
                match waiting.take() {
                    Some(theirs) => theirs,
                    None if part_count < self.rows.len() => {
                        *waiting = Some((own, part_count));
                        return Ok(PartOutcome::Waits);
                    }
                    None => break,
                }
            };
            own.absorb(theirs)?;
            part_count += their_count;
        }
        let partials = own.aggs.map(SegmentAggs::finish).transpose()?;
        let is_whole = !shared.note_late() && own.is_whole;
        if let (Some(repeatable), Some(partials), Some(coverage), true) =
            (&plan.repeatable, &partials, self.coverage, is_whole)
        {
            repeatable.put(segment, coverage, plan.single_segment, own.matched, partials);
        }
        Ok(PartOutcome::Finished(partials))
    }
}

impl PartRead {
    fn absorb(&mut self, other: Self) -> Result<()> {
        self.matched += other.matched;
        self.is_whole &= other.is_whole;
        if let Some(theirs) = other.aggs {
            match &mut self.aggs {
                Some(own) => return own.absorb(theirs),
                None => self.aggs = Some(theirs),
            }
        }
        Ok(())
    }
}

/// Divides ascending runs of rows into `count` ranges of about as many rows each.
fn divide(runs: &[Range<DocId>], count: u64) -> Vec<Range<DocId>> {
    let length = |run: &Range<DocId>| u64::from(run.end - run.start);
    let total: u64 = runs.iter().map(length).sum();
    let mut parts = Vec::with_capacity(count as usize);
    let mut start = runs.first().map_or(0, |run| run.start);
    let (mut before, mut runs_left) = (0, runs.iter());
    let mut run = runs_left.next();
    for number in 1..count {
        // The row before which this many rows are.
        let wanted = total * number / count;
        while let Some(own) = run
            && before + length(own) <= wanted
        {
            before += length(own);
            run = runs_left.next();
        }
        if let Some(own) = run {
            let end = own.start + (wanted - before) as DocId;
            parts.push(start..end);
            start = end;
        }
    }
    parts.push(start..runs.last().map_or(start, |run| run.end));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_equal_rows() {
        let ranges = |bounds: &[(DocId, DocId)]| -> Vec<Range<DocId>> {
            bounds.iter().map(|(start, end)| *start..*end).collect()
        };
        let check = |runs: &[(DocId, DocId)], count: u64, expect: &[(DocId, DocId)]| {
            assert_eq!(divide(&ranges(runs), count), ranges(expect), "{runs:?}");
        };
        check(&[(0, 10)], 2, &[(0, 5), (5, 10)]);
        check(&[(3, 10)], 3, &[(3, 5), (5, 7), (7, 10)]);
        check(&[(0, 2), (100, 104), (200, 202)], 2, &[(0, 102), (102, 202)]);
        check(&[(0, 4), (100, 104)], 2, &[(0, 100), (100, 104)]);
        check(&[(5, 6)], 1, &[(5, 6)]);
    }
}
