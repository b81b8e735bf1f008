//! Hits in the order of `@timestamp`: those parts of a segment are read first whose instants come
//! first, and once enough hits are kept the rest is left alone.
//!
//! Events come roughly in the order of time and are asked for newest first, so that reading a
//! segment from its first document on would replace nearly every hit it keeps by the next one.

use firn_model::Result;
use tantivy::DocId;

use super::segment_run::{Hits, ShardPlan, Shared};
use crate::derived::Zones;
use crate::segment::Segment;

/// Documents of a part at least: for each the query's lists are opened again.
const PART_DOCS: u32 = 1 << 16;
/// Parts of a segment at most, for the same reason.
const PARTS_MAX: u32 = 16;
/// Documents handed on at once, the first ones first: as few as make the first hits settle early.
const SLICE: usize = 128;

/// Some documents and the best key that any of them can have.
struct Part {
    start: DocId,
    end: DocId,
    best: u128,
}

/// Collects the first hits of a segment without counting. The caller has seen that neither scores
/// nor aggregations are wanted. False: the segment does not know its zones of time.
pub(super) fn collect(shared: &Shared, plan: &ShardPlan, segment: &Segment, hits: &mut Hits) -> Result<bool> {
    let Some(column) = hits.first_key().time_column() else {
        return Ok(false);
    };
    let Some(zones) = segment.derived.time_zones(column) else {
        return Ok(false);
    };
    let descending = plan.keys.first().is_some_and(|key| key.descending);
    let parts = parts(&zones, segment.max_doc, hits);
    let mut found: Vec<DocId> = Vec::new();
    for part in parts {
        if part.best > hits.bound() {
            break;
        }
        found.clear();
        let Some(mut docs) = shared.in_time(plan.selection.open_within(segment, part.start..part.end))? else {
            return Ok(true);
        };
        loop {
            if shared.should_stop()? {
                return Ok(true);
            }
            docs.next(segment);
            if docs.finished {
                break;
            }
            found.extend_from_slice(&docs.docs);
        }
        if descending {
            for slice in found.rchunks(SLICE) {
                hits.collect(slice, &[])?;
            }
        } else {
            for slice in found.chunks(SLICE) {
                hits.collect(slice, &[])?;
            }
        }
    }
    Ok(true)
}

/// The parts of a segment, best first.
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
