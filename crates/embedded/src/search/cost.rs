//! What a search of splits would fetch, by trying it; nothing is fetched, and nothing is searched.

mod asking;
pub(super) mod documents;
pub(super) mod tenant;

use std::sync::Arc;

use firn_engine::RequestContext;
use firn_engine::search::SearchRequest;
use firn_model::Result;
use firn_storage::split::PartKind;

use self::asking::Asking;
use self::documents::{Candidates, SplitDocuments};
use super::execute::is_searched;
use super::guard::{Deadline, Stop};
use super::memory::Memory;
use super::prepare::prepare;
use super::repeat::Asked;
use super::warm::{self, Reading};
use super::{SearchLimits, ShardSearch};
use crate::splits::reads::{Reads, collect};

/// What a search would fetch of some splits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchReads {
    /// Splits that have to be looked at, but for those of which whole copies are here.
    pub splits: u64,
    /// Requests and bytes by kind, in the order of [`PartKind::ALL`]; neighbours are one request.
    pub kinds: [(u64, u64); PartKind::ALL.len()],
    /// Requests that wait for others, one after the other.
    pub rounds: u64,
    /// Bytes of the documents of the splits that were looked into, and how many these are.
    pub stored: (u64, u64),
    /// What showing hits may fetch of each split that was looked into, if anything.
    pub(super) documents: Vec<SplitDocuments>,
    /// What else may be fetched by kind, which depends on the documents that match.
    pub(super) further: [(u64, u64); PartKind::ALL.len()],
}

/// A list of documents is short, or the term is not worth a needle: two pages; a long one takes less than a byte for each
/// document of its segment.
const POSTINGS_BYTES: u64 = 8 << 10;

/// What a search of splits would fetch; nothing is fetched, and nothing is searched.
pub(super) fn cost(
    shards: &[ShardSearch],
    request: &Arc<SearchRequest>,
    ctx: &RequestContext,
    now_ms: i64,
    limits: &SearchLimits,
) -> Result<SearchReads> {
    let memory = Memory::new(limits.memory_bytes_max, limits.node_memory.clone(), ctx.cancel.clone());
    let stop = Stop::new(ctx, Deadline::NONE, &memory);
    let asked = Asked::of(request);
    let reading = Reading::estimated(request);
    // What scores is known only after terms were looked up in all segments: which documents match is not told by it.
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
            let prepared = prepare(shard, request, &asked, now_ms, None, &stop);
            let prepared = prepared.or_else(|error| {
                failure.get_or_insert(error);
                prepare(shard, &unscored, &asked, now_ms, None, &stop)
            });
            let Ok((plan, bounds)) = prepared else {
                continue;
            };
            let segments = shard.snapshot.segments.iter();
            for (segment, split) in segments.filter_map(|segment| Some((segment, segment.derived.split()?))) {
                if is_searched(&plan, segment, bounds) {
                    stored.0 += split.document_bytes();
                    stored.1 += u64::from(segment.max_doc);
                    warm::segment(shard, &plan, segment, &reading);
                    let reach = warm::reach(&plan, segment).ok();
                    candidates.push(Candidates::new(number, segment, &plan, reach.as_ref(), request));
                }
            }
        }
    });
    match failure {
        // What is only not here yet is no failure: it is what was asked for.
        Some(error) if first.is_empty() => return Err(error),
        _ => {}
    }
    documents::leave_possible(&mut candidates, request);
    // Nothing of it is known to be needed, and all of it may be.
    let columns = collect(|| {
        for split in candidates.iter().filter(|_| request.size > 0) {
            split.try_columns(&shards[split.shard], request);
        }
    });
    let terms = Asking::of(request, shards).terms;
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
    /// Requests of all kinds.
    pub fn requests(&self) -> u64 {
        let requests = self.kinds.iter().map(|(requests, _)| *requests);
        requests.fold(0, u64::saturating_add)
    }

    /// Bytes of all kinds.
    pub fn bytes(&self) -> u64 {
        self.kinds.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add)
    }

    /// Adds requests of a kind.
    pub(crate) fn add(&mut self, kind: PartKind, (requests, bytes): (u64, u64)) {
        let sum = &mut self.kinds[kind as usize];
        sum.0 = sum.0.saturating_add(requests);
        sum.1 = sum.1.saturating_add(bytes);
    }

    /// From the reads that a search begins with, and the most that postings take which are known only after some of them. So many
    /// terms are looked up: several may be in the same place.
    fn of(first: Reads, candidates: &[Candidates], asked: u64) -> Self {
        let mut found = Self {
            splits: candidates.iter().filter(|split| split.is_far()).count() as u64,
            ..Self::default()
        };
        for (bytes, wanted) in first.into_wanted() {
            add_up(&mut found.kinds, &bytes.missing_by_kind(&wanted));
            // The postings of its terms come next.
            let terms = wanted.iter().filter(|(kind, _)| *kind == PartKind::Terms).count() as u64;
            if terms > 0 {
                let own = candidates.iter().find(|split| split.reads(&bytes));
                let (all, docs) = own.map_or((u64::MAX, 0), Candidates::postings);
                let lists = terms.max(asked);
                let bytes = lists.saturating_mul(docs.max(POSTINGS_BYTES));
                found.add(PartKind::Postings, (lists, all.min(bytes)));
                found.rounds = 1;
            }
        }
        found.rounds += u64::from(found.requests() > 0);
        found
    }

    /// Adds what depends on the documents that match, at most. Of so many splits nothing is known.
    pub(crate) fn add_unknown(&mut self, unknown: u64, request: &SearchRequest) {
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
