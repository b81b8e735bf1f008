//! Upper bound of the reads of stored documents for showing hits.
//!
//! The matching documents are known only after the whole search. Before it, the estimate knows the rows that the
//! search reads, the largest block of each split and its cached part. If hits are sorted by time and are selected
//! only by rows and time, it also knows the zones of the first hits.

use std::ops::Range;
use std::sync::Arc;

use firn_query::aggs::AggregationKind;
use firn_query::search::{SearchRequest, SortBy, SortKey};
use firn_segment::segment::Segment;
use firn_segment::splits::dry_run::{Rows, on_rows};
use firn_segment::splits::{OpenSplit, SplitBytes};
use firn_storage::regions::GAP_BYTES_MAX;
use tantivy::DocId;

use super::super::ShardSearch;
use crate::run::matching_docs::DocRange;
use crate::run::shard_plan::ShardPlan;
use crate::run::{newest_first, prefetch};

/// Stored units of `@timestamp` per ms: of dates, and of dates with nanoseconds.
const UNITS_PER_MS: [i64; 2] = [1, 1_000_000];
/// Bytes of a hit in a split that was not opened, if no split was opened: usually a block of documents in pages.
pub(super) const DOCUMENT_BYTES: u64 = 20 << 10;

/// The documents of one split that may be hits.
pub(super) struct Candidates {
    /// Position of its shard among the searched shards.
    pub(super) shard: usize,
    segment: Arc<Segment>,
    /// The rows that are read, ascending.
    rows: Vec<Range<DocId>>,
    /// Those of them that are certain to match, unless they are deleted.
    certain: Vec<Range<DocId>>,
    /// Hits are sorted by time alone, newest (true) or oldest first.
    newest_first: Option<bool>,
}

impl Candidates {
    /// Creates the candidates of a segment, of which `reach` must be read; `None`: unknown, so all of it.
    pub(super) fn new(
        shard: usize,
        segment: &Arc<Segment>,
        plan: &ShardPlan,
        reach: Option<&DocRange>,
        request: &SearchRequest,
    ) -> Self {
        let all = || std::iter::once(0..segment.max_doc).collect();
        let is_cut = request.search_after.is_some() || request.min_score.is_some() || request.terminate_after > 0;
        let by_time = !is_cut && plan.may_read_newest_first();
        Self {
            shard,
            segment: Arc::clone(segment),
            rows: reach.map_or_else(all, |reach| reach.docs().unwrap_or_else(all)),
            certain: reach.map_or_else(Vec::new, |reach| plan.selection.certain(reach, segment)),
            newest_first: plan.keys.first().filter(|_| by_time).map(|key| key.descending),
        }
    }

    /// Returns whether these are the bytes of its split.
    pub(super) fn reads(&self, bytes: &Arc<dyn SplitBytes>) -> bool {
        self.segment.derived.split().is_some_and(|split| split.reads(bytes))
    }

    /// Returns whether any part of it may have to be fetched.
    pub(super) fn is_far(&self) -> bool {
        self.segment.derived.split().is_some_and(OpenSplit::is_far)
    }

    /// Returns the bytes that all its postings lists would fetch, and its number of documents.
    pub(super) fn postings(&self) -> (u64, u64) {
        let all = self.segment.derived.split().map_or(0, OpenSplit::missing_postings);
        (all, self.segment.max_doc.into())
    }

    /// Runs a dry run over the columns that showing the first hits may read, beyond those that a search starts
    /// with.
    pub(super) fn try_columns(&self, shard: &ShardSearch, request: &SearchRequest) {
        let rows = match self.newest_first {
            Some(_) => newest_first::widened(&self.rows, self.segment.max_doc),
            None => self.rows.clone(),
        };
        let rows = Rows::Of(rows.into());
        let sorted = request.sort.iter().filter_map(|key| match &key.by {
            SortBy::Field(path) => Some(path),
            _ => None,
        });
        let shown = request.shape.docvalue_fields.iter().map(|spec| &spec.field);
        for path in sorted.chain(shown) {
            let _ = on_rows(&rows, || prefetch::open_column(shard, &self.segment, path));
        }
    }

    /// Returns each zone with its times in ms as `(best, worst)`; a hit with a larger one sorts first.
    fn zones(&self) -> Option<Vec<(Range<DocId>, i64, i64)>> {
        let newest_first = self.newest_first?;
        let zones = self.segment.derived.split()?.zones()?;
        let (first_ms, last_ms) = self.segment.time_range_ms?;
        // Columns store signed numbers in their order.
        let signed = |raw: u64| (raw ^ (1 << 63)).cast_signed();
        let (min, max) = zones.bounds(0, self.segment.max_doc.checked_sub(1)?);
        let is_unit =
            |unit: &&i64| (signed(min).div_euclid(**unit), signed(max).div_euclid(**unit)) == (first_ms, last_ms);
        let unit = UNITS_PER_MS.iter().find(is_unit)?;
        let ms = |raw: u64| signed(raw).div_euclid(*unit);
        let ranked = |(docs, (min, max)): (Range<DocId>, (u64, u64))| match newest_first {
            true => (docs, ms(max), ms(min)),
            false => (docs, -ms(min), -ms(max)),
        };
        Some(zones.iter().map(ranked).collect())
    }
}

/// The reads of one split for hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SplitDocuments {
    /// Requests and bytes for all possible hits.
    all: (u64, u64),
    /// Bytes of a single hit.
    one: u64,
}

/// Returns the index order, which needs no reads.
pub(super) fn in_index_order() -> Vec<SortKey> {
    vec![SortKey::new(SortBy::Doc)]
}

/// Removes rows that cannot be hits because of the order of hits.
pub(super) fn leave_possible(candidates: &mut [Candidates], request: &SearchRequest) {
    if !shows_beside_hits(request) {
        leave_first_hits(candidates, (request.from as u64).saturating_add(request.size as u64));
    }
}

/// Returns the possible reads of each split for the hits of a request.
pub(super) fn of_splits(candidates: &[Candidates], request: &SearchRequest) -> Vec<SplitDocuments> {
    if shown(request) == Some(0) {
        return Vec::new();
    }
    let of_split = |split: &Candidates| {
        let documents = split.segment.derived.split()?;
        Some(SplitDocuments {
            all: documents.missing_documents(&split.rows),
            one: documents.document_bytes_max() + GAP_BYTES_MAX,
        })
    };
    let of_splits = candidates.iter().filter_map(of_split);
    of_splits.filter(|split| split.all.1 > 0).collect()
}

/// Removes rows that cannot be among the first hits, because enough others sort before them.
fn leave_first_hits(candidates: &mut [Candidates], keep: u64) {
    let zones: Vec<_> = candidates.iter().map(Candidates::zones).collect();
    let mut needed = keep;
    let mut sure: Vec<(i64, u64)> = Vec::new();
    for (split, zones) in candidates.iter().zip(&zones) {
        let Some(zones) = zones.as_ref().filter(|_| !split.certain.is_empty()) else {
            continue;
        };
        needed = needed.saturating_add(split.segment.deleted_count.into());
        for (docs, _, worst) in zones {
            let count = within(docs, &split.certain)
                .map(|docs| u64::from(docs.end - docs.start))
                .sum();
            sure.push((*worst, count));
        }
    }
    sure.sort_unstable_by_key(|(worst, _)| std::cmp::Reverse(*worst));
    let mut counted = 0u64;
    let last = sure.into_iter().find(|(_, count)| {
        counted = counted.saturating_add(*count);
        counted >= needed
    });
    let Some((last, _)) = last else {
        return;
    };
    for (split, zones) in candidates.iter_mut().zip(zones) {
        let Some(zones) = zones else { continue };
        let first = zones.iter().filter(|(_, best, _)| *best >= last);
        let rows = first.flat_map(|(docs, ..)| within(docs, &split.rows));
        split.rows = rows.collect();
    }
}

/// Returns the parts of ascending runs that are within these documents.
fn within<'a>(docs: &'a Range<DocId>, runs: &'a [Range<DocId>]) -> impl Iterator<Item = Range<DocId>> + 'a {
    let first = runs.partition_point(|run| run.end <= docs.start);
    let touching = runs[first..].iter().take_while(|run| run.start < docs.end);
    touching.map(|run| run.start.max(docs.start)..run.end.min(docs.end))
}

/// Returns how many documents are read to show the hits of a request; `None`: not limited.
pub(super) fn shown(request: &SearchRequest) -> Option<u64> {
    let shape = &request.shape;
    let reads = !shape.no_stored_fields
        || !shape.fields.is_empty()
        || !shape.stored_fields.is_empty()
        || shape.highlight.is_some();
    match shows_beside_hits(request) {
        true => None,
        false if reads => Some(request.size as u64),
        false => Some(0),
    }
}

/// Returns whether the request shows documents other than the hits of the page.
fn shows_beside_hits(request: &SearchRequest) -> bool {
    let mut top_hits = false;
    request.aggs.visit(&mut |_, aggregation| {
        top_hits |= matches!(aggregation.kind, AggregationKind::TopHits(_));
    });
    let collapse = request.collapse.as_ref();
    top_hits || request.size > 0 && collapse.is_some_and(|collapse| !collapse.inner_hits.is_empty())
}

/// Returns requests and bytes for the hits of a request, for any distribution of the hits over splits.
/// `looked_into` splits are known, `unknown` others are not: those may hold all hits, and count as the mean if the
/// number of hits is not limited.
pub(super) fn at_most(
    splits: &[SplitDocuments],
    looked_into: u64,
    unknown: u64,
    request: &SearchRequest,
) -> (u64, u64) {
    let Some(mut left) = shown(request) else {
        let sum = |(requests, bytes): (u64, u64), split: &SplitDocuments| {
            (requests.saturating_add(split.all.0), bytes.saturating_add(split.all.1))
        };
        let (requests, bytes) = splits.iter().fold((0, 0), sum);
        let of_all = u128::from(looked_into + unknown);
        let scaled = |count: u64| u128::from(count) * of_all / u128::from(looked_into.max(1));
        return (
            scaled(requests) as u64,
            u64::try_from(scaled(bytes)).unwrap_or(u64::MAX),
        );
    };
    let mut splits = splits.to_vec();
    if unknown > 0 {
        let one = splits.iter().map(|split| split.one).max();
        splits.push(SplitDocuments {
            all: (unknown, u64::MAX),
            one: one.unwrap_or(DOCUMENT_BYTES + GAP_BYTES_MAX),
        });
    }
    // The splits with the largest documents come first.
    splits.sort_unstable_by_key(|split| std::cmp::Reverse(split.one));
    let (mut requests, mut bytes) = (0u64, 0u64);
    for split in splits {
        if left == 0 {
            break;
        }
        requests = requests.saturating_add(split.all.0.min(left));
        bytes = bytes.saturating_add(split.all.1.min(left.saturating_mul(split.one)));
        // The remainder of a split beyond whole documents counts as no hit, so no distribution of hits reads more.
        left = left.saturating_sub(split.all.1 / split.one);
    }
    (requests, bytes)
}

#[cfg(test)]
mod tests {
    use firn_query::search::IndexTarget;
    use serde_json::{Value, json};

    use super::*;

    fn request(body: Value) -> SearchRequest {
        SearchRequest::parse(IndexTarget::default(), Some(&body)).unwrap()
    }

    fn split(requests: u64, bytes: u64, one: u64) -> SplitDocuments {
        SplitDocuments {
            all: (requests, bytes),
            one,
        }
    }

    #[test]
    fn hits_are_assumed_where_they_cost_the_most() {
        let splits = [split(2, 1000, 10), split(3, 45, 20)];
        let bytes = |size: usize| at_most(&splits, 2, 0, &request(json!({"size": size})));
        assert_eq!(bytes(0), (0, 0));
        assert_eq!(bytes(1), (1, 20));
        // Two hits of the second split and its remainder; the other hits are in the first split.
        assert_eq!(bytes(3), (3 + 1, 45 + 10));
        assert_eq!(bytes(10_000), (5, 1045));
        assert_eq!(at_most(&[], 2, 0, &request(json!({"size": 10}))), (0, 0));
    }

    #[test]
    fn each_unknown_split_may_hold_all_hits() {
        let known = [split(1, 45, 20)];
        let ten = request(json!({"size": 10}));
        assert_eq!(at_most(&known, 1, 3, &ten), (3 + 1, 45 + 10 * 20 - 2 * 20));
        assert_eq!(at_most(&[], 0, 3, &ten), (3, 10 * (DOCUMENT_BYTES + GAP_BYTES_MAX)));
    }

    #[test]
    fn some_requests_show_documents_other_than_hits() {
        let splits = [split(2, 1000, 10)];
        let top_hits = json!({"size": 0, "aggs": {"a": {"terms": {"field": "a"}, "aggs": {"b": {"top_hits": {}}}}}});
        assert_eq!(at_most(&splits, 1, 0, &request(top_hits.clone())), (2, 1000));
        assert_eq!(at_most(&splits, 1, 4, &request(top_hits)), (10, 5000));
        let none = |body: Value| at_most(&splits, 1, 0, &request(body));
        assert_eq!(none(json!({"stored_fields": "_none_"})), (0, 0));
        assert_eq!(
            none(json!({"stored_fields": "_none_", "_source": false, "fields": ["a"], "size": 1})),
            (1, 10)
        );
        let collapse = json!({"collapse": {"field": "a", "inner_hits": {"name": "i"}}, "size": 1});
        assert_eq!(none(collapse), (2, 1000));
    }

    #[test]
    fn runs_are_cut_to_documents() {
        let runs = [2..5, 7..9, 12..20];
        let cut = |docs: Range<DocId>| within(&docs, &runs).collect::<Vec<_>>();
        assert_eq!(cut(0..2), []);
        assert_eq!(cut(4..13), [4..5, 7..9, 12..13]);
        assert_eq!(cut(9..12), []);
    }
}
