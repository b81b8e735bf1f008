//! Collection of hits in the order of `@timestamp`. It reads first those parts of a segment that may hold the first
//! hits, and stops when enough hits are found.
//!
//! Events arrive roughly in time order, and searches want the newest first. Reading a segment from its first
//! document would replace nearly every retained hit by the next one.

use std::ops::Range;

use firn_model::Result;
use firn_segment::segment::Segment;
use firn_segment::zones::Zones;
use tantivy::DocId;

use super::matching_docs::DocRange;
use super::segment_hits::Hits;
use super::shard_plan::ShardPlan;
use super::shared_state::Shared;
use crate::tenancy::tenant_rows::first_row;

/// Fewest documents of a part: each part opens the query's postings again.
const PART_DOCS: u32 = 1 << 16;
/// Most parts of a segment, for the same reason.
const PARTS_MAX: u32 = 16;
/// Number of rows that are read first if rows are ordered, and the growth factor of each further read. The hits of
/// a page are mostly among the first rows; if the query matches few rows, the end must come soon.
const ORDERED_DOCS_MIN: u32 = 256;
const ORDERED_DOCS_GROWTH: u32 = 4;
/// Documents per call of the collector, best first: few, so that the first hits settle early.
const SLICE: usize = 128;

/// Some documents, and the best key that any of them can have.
struct Part {
    start: DocId,
    end: DocId,
    best: u128,
}

/// Collects the first hits of a segment without counting. The caller has checked that the search needs neither
/// scores nor aggregations. Returns false if the segment does not know where its newest documents are.
pub(crate) fn collect(
    shared: &Shared,
    plan: &ShardPlan,
    segment: &Segment,
    reach: &DocRange,
    hits: &mut Hits,
) -> Result<bool> {
    if let DocRange::Rows(span) = reach
        && span.newest_first
        && hits.first_key().is_ordered_in(&span.rows)
    {
        return collect_ordered(shared, plan, segment, span.rows.clone(), hits).map(|()| true);
    }
    let Some(column) = hits.first_key().time_column() else {
        return Ok(false);
    };
    let Some(zones) = segment.derived.time_zones(column) else {
        return Ok(false);
    };
    for part in parts(&zones, segment.max_doc, hits) {
        if part.best > hits.bound() {
            break;
        }
        if !collect_part(shared, plan, segment, part.start..part.end, hits)? {
            break;
        }
    }
    Ok(true)
}

/// Reads rows that are ordered by time, from the wanted end, until there are enough hits.
fn collect_ordered(
    shared: &Shared,
    plan: &ShardPlan,
    segment: &Segment,
    rows: Range<DocId>,
    hits: &mut Hits,
) -> Result<()> {
    let descending = is_descending(plan);
    let wanted = hits.first_wanted();
    let key_of = |row: DocId, hits: &Hits| hits.first_key().read(row, 0.0);
    let mut left = match descending {
        true => first_row(&rows, |row| key_of(row, hits) >= wanted)..rows.end,
        false => rows.start..first_row(&rows, |row| key_of(row, hits) < wanted),
    };
    let mut docs = ORDERED_DOCS_MIN;
    while !left.is_empty() {
        let best = if descending { left.start } else { left.end - 1 };
        if hits.is_full() && key_of(best, hits) > hits.bound() {
            break;
        }
        let part = match descending {
            true => left.start..left.start.saturating_add(docs).min(left.end),
            false => left.end.saturating_sub(docs).max(left.start)..left.end,
        };
        left = match descending {
            true => part.end..left.end,
            false => left.start..part.start,
        };
        if !collect_part(shared, plan, segment, part, hits)? {
            break;
        }
        docs = docs.saturating_mul(ORDERED_DOCS_GROWTH);
    }
    Ok(())
}

/// Returns the rows that probably hold the first hits, so that a split can prefetch them.
pub(crate) fn first_rows(plan: &ShardPlan, segment: &Segment, reach: &DocRange) -> Option<Range<DocId>> {
    let descending = is_descending(plan);
    if let DocRange::Rows(span) = reach
        && span.newest_first
    {
        let rows = &span.rows;
        return Some(match descending {
            true => rows.start..rows.start.saturating_add(ORDERED_DOCS_MIN).min(rows.end),
            false => rows.end.saturating_sub(ORDERED_DOCS_MIN).max(rows.start)..rows.end,
        });
    }
    let zones = segment.derived.split()?.zones()?;
    let docs = PART_DOCS.max(segment.max_doc.div_ceil(PARTS_MAX));
    let parts = (0..segment.max_doc)
        .step_by(docs as usize)
        .map(|start| start..start.saturating_add(docs).min(segment.max_doc));
    match descending {
        true => parts.max_by_key(|part| zones.bounds(part.start, part.end - 1).1),
        false => parts.min_by_key(|part| zones.bounds(part.start, part.end - 1).0),
    }
}

/// Widens ascending rows to whole parts of the segment, because parts are read whole.
pub(crate) fn widened(rows: &[Range<DocId>], max_doc: DocId) -> Vec<Range<DocId>> {
    let docs = PART_DOCS.max(max_doc.div_ceil(PARTS_MAX));
    let mut parts: Vec<Range<DocId>> = Vec::new();
    for run in rows.iter().filter(|run| !run.is_empty()) {
        let start = run.start / docs * docs;
        let end = run.end.div_ceil(docs).saturating_mul(docs).min(max_doc);
        match parts.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => parts.push(start..end),
        }
    }
    parts
}

fn is_descending(plan: &ShardPlan) -> bool {
    plan.keys.first().is_some_and(|key| key.descending)
}

/// Collects the hits of some rows, the newest or the oldest first. Returns false on timeout.
fn collect_part(
    shared: &Shared,
    plan: &ShardPlan,
    segment: &Segment,
    rows: Range<DocId>,
    hits: &mut Hits,
) -> Result<bool> {
    let Some(mut docs) = shared.in_time(plan.selection.open_within(segment, rows))? else {
        return Ok(false);
    };
    let mut found: Vec<DocId> = Vec::new();
    loop {
        if shared.should_stop()? {
            return Ok(false);
        }
        if !shared.next_in_time(&mut docs, segment)? {
            return Ok(false);
        }
        if docs.finished {
            break;
        }
        found.extend_from_slice(&docs.docs);
    }
    if let Some(times) = &plan.times {
        times.block(found.len());
    }
    // Ordered rows have the newest first; in arrival order, the newest are the last.
    if is_descending(plan) != docs.newest_first {
        for slice in found.rchunks(SLICE) {
            hits.collect(slice, &[])?;
        }
    } else {
        for slice in found.chunks(SLICE) {
            hits.collect(slice, &[])?;
        }
    }
    Ok(true)
}

/// Returns the parts of a segment, best first.
fn parts(zones: &Zones, max_doc: DocId, hits: &Hits) -> Vec<Part> {
    let docs = PART_DOCS.max(max_doc.div_ceil(PARTS_MAX));
    let mut parts: Vec<Part> = (0..max_doc)
        .step_by(docs as usize)
        .map(|start| {
            let end = start.saturating_add(docs).min(max_doc);
            let (min, max) = zones.bounds(start, end - 1);
            Part {
                start,
                end,
                best: hits.first_key().best_within(min, max),
            }
        })
        .collect();
    parts.sort_by_key(|part| part.best);
    parts
}
