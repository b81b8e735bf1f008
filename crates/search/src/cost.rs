//! Cost estimate of a search of splits, by a dry run: it fetches nothing and searches nothing.

pub(super) mod documents;
mod lookups;
pub(super) mod tenant;

use std::sync::Arc;

use firn_engine::RequestContext;
use firn_model::Result;
use firn_query::search::SearchRequest;
use firn_segment::splits::dry_run::{CollectedReads, collect};
use firn_storage::split::PartKind;

use self::documents::{Candidates, SplitDocuments};
use self::lookups::Lookups;
use super::{SearchLimits, ShardSearch};
use crate::compile::limits::{Deadline, Stop};
use crate::result_cache::cached_segments::RepeatableRequest;
use crate::run::memory::Memory;
use crate::run::prefetch;
use crate::run::prefetch::Reading;
use crate::run::prepare::prepare;

/// The reads that a search of some splits would make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchReads {
    /// Splits that the search opens, without those that have a full local copy.
    pub splits: u64,
    /// Requests and bytes by kind, in the order of [`PartKind::ALL`]; adjacent ranges are one
    /// request.
    pub kinds: [(u64, u64); PartKind::ALL.len()],
    /// Rounds of dependent requests, one after the other.
    pub rounds: u64,
    /// Bytes and number of the documents in the opened splits.
    pub stored: (u64, u64),
    /// Reads that showing hits may need, for each opened split that may have hits.
    pub(super) documents: Vec<SplitDocuments>,
    /// Further possible reads by kind, which depend on the matching documents.
    pub(super) further: [(u64, u64); PartKind::ALL.len()],
}

/// Estimated bytes of one postings list. A short list takes two pages (a longer one does not belong
/// to a needle); a long list takes less than a byte for each document of its segment.
const POSTINGS_BYTES: u64 = 8 << 10;

/// Computes the cost estimate of a search of splits; fetches nothing and searches nothing.
pub(super) fn cost(
    shards: &[ShardSearch],
    request: &Arc<SearchRequest>,
    ctx: &RequestContext,
    now_ms: i64,
    limits: &SearchLimits,
) -> Result<SearchReads> {
    let memory = Memory::new(limits.memory_bytes_max, limits.node_memory.clone(), ctx.cancel.clone());
    let stop = Stop::new(ctx, Deadline::NONE, &memory);
    let repeatable = RepeatableRequest::of(request);
    let reading = Reading::estimated(request);
    // Scores need term lookups in all segments, which the dry run cannot do. The set of matching
    // documents does not depend on them.
    let unscored = SearchRequest {
        sort: documents::in_index_order(),
        search_after: None,
        min_score: None,
        track_scores: false,
        ..SearchRequest::clone(request)
    };
    let mut failure = None;
    let mut stored = (0, 0);
    let mut candidates = Vec::new();
    let first = collect(|| {
        for (number, shard) in shards.iter().enumerate() {
            let prepared = prepare(shard, request, &repeatable, now_ms, None, &stop);
            let prepared = prepared.or_else(|error| {
                failure.get_or_insert(error);
                prepare(shard, &unscored, &repeatable, now_ms, None, &stop)
            });
            let Ok((plan, bounds)) = prepared else {
                continue;
            };
            let segments = shard.snapshot.segments.iter();
            for (segment, split) in segments.filter_map(|segment| Some((segment, segment.derived.split()?))) {
                if plan.must_search(segment, bounds) {
                    stored.0 += split.document_bytes();
                    stored.1 += u64::from(segment.max_doc);
                    prefetch::segment(shard, &plan, segment, &reading);
                    let reach = prefetch::reach(&plan, segment).ok();
                    candidates.push(Candidates::new(number, segment, &plan, reach.as_ref(), request));
                }
            }
        }
    });
    match failure {
        // If bytes are only not local yet, that is no failure: the estimate is about them.
        Some(error) if first.is_empty() => return Err(error),
        _ => {}
    }
    documents::leave_possible(&mut candidates, request);
    // None of these reads is certain, and all of them are possible.
    let columns = collect(|| {
        for split in candidates.iter().filter(|_| request.size > 0) {
            split.try_columns(&shards[split.shard], request);
        }
    });
    let terms = Lookups::of(request, shards).terms;
    let mut reads = SearchReads::of(first, &candidates, terms);
    reads.stored = stored;
    reads.documents = documents::of_splits(&candidates, request);
    for (bytes, wanted) in columns.into_wanted() {
        let missing = bytes.missing_by_kind(&wanted);
        add_up(&mut reads.further, &missing);
    }
    Ok(reads)
}

fn add_up(kinds: &mut [(u64, u64)], more: &[(u64, u64)]) {
    for (kind, (requests, bytes)) in kinds.iter_mut().zip(more) {
        kind.0 = kind.0.saturating_add(*requests);
        kind.1 = kind.1.saturating_add(*bytes);
    }
}

impl SearchReads {
    /// Returns the number of requests of all kinds.
    pub fn requests(&self) -> u64 {
        let requests = self.kinds.iter().map(|(requests, _)| *requests);
        requests.fold(0, u64::saturating_add)
    }

    /// Returns the bytes of all kinds.
    pub fn bytes(&self) -> u64 {
        self.kinds.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add)
    }

    /// Adds requests and bytes of a kind.
    pub fn add(&mut self, kind: PartKind, (requests, bytes): (u64, u64)) {
        let sum = &mut self.kinds[kind as usize];
        sum.0 = sum.0.saturating_add(requests);
        sum.1 = sum.1.saturating_add(bytes);
    }

    /// Builds the estimate from the first reads of a search, and adds the most that the postings
    /// found by them can take. `looked_up` is the number of terms to look up: several of them may be in
    /// the same page.
    fn of(first: CollectedReads, candidates: &[Candidates], looked_up: u64) -> Self {
        let mut found = Self {
            splits: candidates.iter().filter(|split| split.is_far()).count() as u64,
            ..Self::default()
        };
        for (bytes, wanted) in first.into_wanted() {
            add_up(&mut found.kinds, &bytes.missing_by_kind(&wanted));
            // The postings of these terms are read next.
            let terms = wanted.iter().filter(|(kind, _)| *kind == PartKind::Terms).count() as u64;
            if terms > 0 {
                let own = candidates.iter().find(|split| split.reads(&bytes));
                let (all, docs) = own.map_or((u64::MAX, 0), Candidates::postings);
                let lists = terms.max(looked_up);
                let bytes = lists.saturating_mul(docs.max(POSTINGS_BYTES));
                found.add(PartKind::Postings, (lists, all.min(bytes)));
                found.rounds = 1;
            }
        }
        found.rounds += u64::from(found.requests() > 0);
        found
    }

    /// Adds an upper bound of the reads that depend on the matching documents. `unknown` is the
    /// number of splits without any information.
    pub fn add_unknown(&mut self, unknown: u64, request: &SearchRequest) {
        let looked_into = self.splits - unknown;
        let documents = documents::at_most(&self.documents, looked_into, unknown, request);
        let mut more = self.further;
        for kind in &mut more {
            let of_all = |count: u64| u128::from(count) * u128::from(self.splits) / u128::from(looked_into.max(1));
            *kind = (of_all(kind.0) as u64, u64::try_from(of_all(kind.1)).unwrap_or(u64::MAX));
        }
        add_up(&mut more[PartKind::Store as usize..], &[documents]);
        add_up(&mut self.kinds, &more);
        self.rounds += u64::from(more.iter().any(|(_, bytes)| *bytes > 0));
    }
}
