//! Cost estimate of a search as reported to a tenant.
//!
//! The reads of a split that tenants share depend on what other tenants wrote (the position of a term in the
//! dictionary, the length of its postings list), and cache misses depend on the searches of other tenants. With
//! exact numbers, a tenant could infer the values of other tenants from repeated requests. So the report is the
//! most that such a search reads from splits with as many documents, independent of their content and of the cache.
//! If events of other tenants are so large that this is too little, the report is the size of the whole part of the
//! splits, rounded up to a power of two: the same for all terms.

use std::sync::Arc;

use firn_engine::RequestContext;
use firn_model::Result;
use firn_query::aggs::AggregationKind;
use firn_query::search::{SearchRequest, SortBy};
use firn_segment::segment::Segment;
use firn_segment::splits::RUN_ROWS;
use firn_segment::splits::dry_run::cold;
use firn_storage::regions::GAP_BYTES_MAX;
use firn_storage::split::PartKind;

use super::super::{SearchLimits, ShardSearch};
use super::documents::{self, DOCUMENT_BYTES};
use super::lookups::Lookups;
use super::{POSTINGS_BYTES, SearchReads, cost};

/// Bytes of the footer of a split with many fields.
const FOOTER_BYTES: u64 = 64 << 10;
/// Bytes of a block of terms: about 6 KB of terms and one term of the maximum length (32 KB), with the places of
/// their postings and the gap that is read along.
const TERMS_BYTES: u64 = (64 << 10) + GAP_BYTES_MAX;
/// Bytes of a packed column value: timestamps take slightly more than one byte.
const VALUE_BYTES: u64 = 2;
/// Requests for a column: its values, the documents that have one, and the dictionary.
const COLUMN_REQUESTS: u64 = 3;
/// Bytes of one of many adjacent documents.
const EVENT_BYTES: u64 = 2 << 10;
/// Least bytes of dictionaries, postings lists and positions, each, per document, if all of them count.
const INDEXED_BYTES_MIN: u64 = 64;
/// Least mean bytes of a document in the report.
const STORED_BYTES_MIN: u64 = 1 << 10;
/// Columns that every search may read: the tenant.
const COLUMNS_OF_ALL: u64 = 1;
/// Terms that every search may look up: the tenant.
const TERMS_OF_ALL: u64 = 1;

/// Requests and bytes by kind, in the order of [`PartKind::ALL`].
type Kinds = [(u64, u64); PartKind::ALL.len()];

/// Splits with known footers only.
#[derive(Debug, Clone, Copy)]
pub struct Unopened {
    /// Number of splits that were not opened.
    pub splits: u64,
    /// Requests and bytes of the footers of all splits, opened or not.
    pub footers: (u64, u64),
}

/// The most that a search reads of a split, according to its request.
struct Words {
    /// Terms that it may look up.
    terms: u64,
    /// It reads whole dictionaries, and the postings of all terms.
    looks_through: bool,
    /// It reads positions.
    has_phrases: bool,
    columns: u64,
    /// Most documents that it shows; `None`: not limited.
    shown: Option<u64>,
    is_scored: bool,
}

/// A tenant's part of a split.
struct Part {
    /// Rows that contain its documents.
    rows: u64,
    own: u64,
    /// Documents of the split, as the next power of two, to hide how many other tenants have.
    docs: u64,
    /// Bytes of a document that is read alone.
    one: u64,
    /// Bytes of each kind in the split, as the next power of two.
    whole: [u64; PartKind::ALL.len()],
}

/// Computes the estimate that a tenant may see for a search of these shards, and of splits that were not opened.
pub(crate) fn cost_for_tenant(
    shards: &[ShardSearch],
    request: &Arc<SearchRequest>,
    ctx: &RequestContext,
    now_ms: i64,
    limits: &SearchLimits,
    unopened: Unopened,
) -> Result<SearchReads> {
    let mut real = cold(|| cost(shards, request, ctx, now_ms, limits))?;
    real.add_unknown(0, request);
    let mut parts: Vec<Part> = shards.iter().flat_map(parts).collect();
    let words = Words::of(request, shards);
    let all = parts.len() as u64 + unopened.splits;
    if all == 0 {
        return Ok(SearchReads::default());
    }
    if parts.is_empty() {
        parts.push(Part::unknown());
    }
    let known = parts.len() as u64;
    let own = parts.iter().map(|part| part.own).sum();
    let scaled = |count: u64| u64::try_from(u128::from(count) * u128::from(all) / u128::from(known));
    let scaled = |count: u64| scaled(count).unwrap_or(u64::MAX);
    let mut kinds = words
        .of_parts(&parts, &real.kinds)
        .map(|(requests, bytes)| (scaled(requests), scaled(bytes)));
    // The request limits the number of shown documents, over all splits.
    let one = parts.iter().map(|part| part.one).max().unwrap_or_default();
    let shown = words.shown.unwrap_or(u64::MAX).min(scaled(own));
    let of_shown = (shown.saturating_add(all), shown.saturating_add(all).saturating_mul(one));
    let store = &mut kinds[PartKind::Store as usize];
    *store = (store.0.min(of_shown.0), store.1.min(of_shown.1));
    kinds[PartKind::Footer as usize] = (
        all.max(unopened.footers.0),
        at_least(all * FOOTER_BYTES, unopened.footers.1),
    );
    let (stored, docs) = real.stored;
    let mean = (stored / docs.max(1)).max(STORED_BYTES_MIN).next_power_of_two();
    let rounds = [words.terms > 0, words.terms > 0, true, true, words.shown != Some(0)];
    Ok(SearchReads {
        splits: all,
        kinds,
        rounds: rounds.iter().filter(|is_made| **is_made).count() as u64,
        stored: (own.saturating_mul(mean), own),
        ..SearchReads::default()
    })
}

/// Returns the reported bytes, unless the real ones are more.
fn at_least(reported: u64, real: u64) -> u64 {
    match reported < real {
        true => power_of_two(real),
        false => reported,
    }
}

/// Returns the reported requests and bytes of a kind, unless the real ones are more; `whole` is the size of the
/// kind in the splits.
fn at_least_whole(reported: (u64, u64), real: (u64, u64), whole: u64) -> (u64, u64) {
    let requests = match reported.0 < real.0.min(pieces(whole)) {
        true => pieces(whole),
        false => reported.0,
    };
    let bytes = match reported.1 < real.1.min(whole) {
        true => whole,
        false => reported.1,
    };
    (requests, bytes)
}

/// Returns the most requests for this many bytes: ranges with a smaller gap are one request.
fn pieces(bytes: u64) -> u64 {
    bytes / GAP_BYTES_MAX + 1
}

fn power_of_two(bytes: u64) -> u64 {
    bytes.checked_next_power_of_two().unwrap_or(u64::MAX)
}

/// Returns a tenant's parts of the remote splits of a shard.
fn parts(shard: &ShardSearch) -> Vec<Part> {
    let of_segment = |segment: &Arc<Segment>| {
        let split = segment.derived.split().filter(|split| split.is_far())?;
        let docs = u64::from(segment.max_doc);
        let part = Part {
            rows: docs,
            own: docs,
            docs: power_of_two(docs),
            one: power_of_two(DOCUMENT_BYTES.max(split.document_bytes_max()) + GAP_BYTES_MAX),
            whole: PartKind::ALL.map(|kind| power_of_two(split.kind_bytes(kind) + GAP_BYTES_MAX)),
        };
        let (Some(tenant), Some(tenants)) = (&shard.tenant, &segment.tenants) else {
            return Some(part);
        };
        let own = tenants.get(tenant.tenant.as_str())?;
        Some(Part {
            rows: (own.rows.end - own.rows.start).into(),
            own: own.docs.into(),
            ..part
        })
    };
    shard.snapshot.segments.iter().filter_map(of_segment).collect()
}

impl Part {
    /// Returns an assumed part for a split without any information.
    fn unknown() -> Self {
        Self {
            rows: RUN_ROWS.into(),
            own: RUN_ROWS.into(),
            docs: 1 << 20,
            one: power_of_two(DOCUMENT_BYTES + GAP_BYTES_MAX),
            whole: Default::default(),
        }
    }
}

impl Words {
    fn of(request: &SearchRequest, shards: &[ShardSearch]) -> Self {
        let mut fields = request.query.fields();
        fields.extend(request.aggs.fields());
        fields.extend(request.sort.iter().filter_map(|key| match &key.by {
            SortBy::Field(path) => Some(path.clone()),
            _ => None,
        }));
        fields.extend(request.collapse.iter().map(|collapse| collapse.field.clone()));
        fields.extend(request.shape.docvalue_fields.iter().map(|spec| spec.field.clone()));
        fields.sort_unstable();
        fields.dedup();
        let asking = Lookups::of(request, shards);
        Self {
            terms: asking.terms.saturating_add(TERMS_OF_ALL),
            looks_through: asking.looks_through,
            has_phrases: asking.has_phrases,
            columns: COLUMNS_OF_ALL + fields.len() as u64,
            shown: documents::shown(request),
            is_scored: is_scored(request),
        }
    }

    /// Returns requests and bytes by kind, without footers; never less than the real ones.
    fn of_parts(&self, parts: &[Part], real: &Kinds) -> Kinds {
        let mut kinds = Kinds::default();
        let mut whole = [0u64; PartKind::ALL.len()];
        for part in parts {
            for (kind, (requests, bytes)) in self.of_part(part) {
                let sum = &mut kinds[kind as usize];
                sum.0 = sum.0.saturating_add(requests);
                sum.1 = sum.1.saturating_add(bytes);
            }
            for (sum, bytes) in whole.iter_mut().zip(part.whole) {
                *sum = sum.saturating_add(bytes);
            }
        }
        kinds[PartKind::Store as usize] = self.documents(parts);
        for ((kind, real), whole) in kinds.iter_mut().zip(real).zip(whole) {
            *kind = at_least_whole(*kind, *real, whole);
        }
        kinds
    }

    fn of_part(&self, part: &Part) -> [(PartKind, (u64, u64)); 5] {
        let whole = |kind: PartKind| {
            let bytes = part.whole[kind as usize].max(part.docs.saturating_mul(INDEXED_BYTES_MIN));
            (pieces(bytes), bytes)
        };
        let each = |bytes: u64| (self.terms, self.terms.saturating_mul(bytes));
        let (terms, postings) = match self.looks_through {
            true => (whole(PartKind::Terms), whole(PartKind::Postings)),
            false => (each(TERMS_BYTES), each(part.docs.max(POSTINGS_BYTES) + GAP_BYTES_MAX)),
        };
        let positions = match self.has_phrases {
            true => whole(PartKind::Positions),
            false => (0, 0),
        };
        // The first row may be anywhere in its run.
        let runs = part.rows.div_ceil(RUN_ROWS.into()) + 1;
        let rows = part.docs.min(runs * u64::from(RUN_ROWS));
        let column = rows * VALUE_BYTES + COLUMN_REQUESTS * GAP_BYTES_MAX;
        let lengths = if self.is_scored { self.columns } else { 0 };
        [
            (PartKind::Terms, terms),
            (PartKind::Postings, postings),
            (PartKind::Positions, positions),
            (
                PartKind::Columns,
                (
                    self.columns.saturating_mul(COLUMN_REQUESTS),
                    self.columns.saturating_mul(column),
                ),
            ),
            (
                PartKind::Lengths,
                (lengths, lengths.saturating_mul(part.docs + GAP_BYTES_MAX)),
            ),
        ]
    }

    /// Returns requests and bytes of the shown documents: a block for each, or all blocks around the tenant's
    /// documents.
    fn documents(&self, parts: &[Part]) -> (u64, u64) {
        let own: u64 = parts.iter().map(|part| part.own).sum();
        let shown = self.shown.unwrap_or(u64::MAX).min(own);
        if shown == 0 {
            return (0, 0);
        }
        let one = parts.iter().map(|part| part.one).max().unwrap_or_default();
        let around = parts.iter().map(|part| part.rows * EVENT_BYTES + part.one);
        let requests = shown.saturating_add(parts.len() as u64);
        let bytes = requests.saturating_mul(one).min(around.clone().sum());
        (requests.min(around.map(pieces).sum()), bytes)
    }
}

/// Returns whether the request may read field lengths.
fn is_scored(request: &SearchRequest) -> bool {
    let by_score = request.sort.is_empty() || request.sort.iter().any(|key| key.by == SortBy::Score);
    let mut is_scored = by_score && request.size > 0 || request.track_scores || request.min_score.is_some();
    request.aggs.visit(&mut |_, aggregation| {
        is_scored |= matches!(
            aggregation.kind,
            AggregationKind::TopHits(_)
                | AggregationKind::TopMetrics(_)
                | AggregationKind::Sampler(_)
                | AggregationKind::DiversifiedSampler(_)
        );
    });
    is_scored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reported_estimate_is_no_less_than_the_real_one() {
        assert_eq!(at_least(100, 100), 100);
        assert_eq!(at_least(100, 101), 128);
        assert_eq!(at_least(0, u64::MAX), u64::MAX);
        assert_eq!(at_least_whole((1, 100), (1, 100), 4096), (1, 100));
        assert_eq!(at_least_whole((1, 100), (1, 101), 4096), (1, 4096));
        assert_eq!(at_least_whole((1, 100), (1, 200), 64), (1, 100), "it has no more");
    }
}
