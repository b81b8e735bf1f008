//! Aggregations over whole segments that were asked before.
//!
//! A panel that is drawn again asks the same of nearly the same segments; only those at the edge of
//! its window, and new ones, are read. What matched a segment as a whole, with nothing deleted, is
//! kept ([`crate::segment_cache`]) in the form in which segments are merged.

use std::sync::Arc;

use firn_engine::aggs::{AggregationKind, Aggregations, Partial, Partials};
use firn_model::mapping::Mapping;

use crate::segment::Segment;
use crate::segment_cache::{CACHE, CacheKey};

/// Rough bytes of a bucket that is kept: key, count and place in a hash table.
const BUCKET_BYTES: usize = 200;

/// Aggregations whose answer over a segment is always the same.
pub(super) struct Repeatable {
    /// The request's, printed.
    printed: String,
    /// What they were resolved against; another one may resolve them otherwise.
    mapping: Arc<Mapping>,
}

/// An entry of the cache.
struct Kept {
    mapping: Arc<Mapping>,
    partials: Partials,
    bytes: usize,
}

impl Repeatable {
    /// `None`: there are none, or they depend on more than the segment.
    pub(super) fn of(aggregations: &Aggregations, mapping: &Arc<Mapping>) -> Option<Self> {
        if aggregations.0.is_empty() || !is_repeatable(aggregations) {
            return None;
        }
        let printed = aggregations.print().to_string();
        // Date math may name the time of the request.
        (!printed.contains("now")).then(|| Self {
            printed,
            mapping: Arc::clone(mapping),
        })
    }

    /// `whole_shard`: the segment is all that its shard has to say, so `terms` were cut.
    fn key(&self, segment: &Segment, whole_shard: bool) -> CacheKey {
        CacheKey {
            segment: segment.reader.segment_id(),
            name: format!("aggs {whole_shard} {}", self.printed).into(),
        }
    }

    /// What was found before, and its bytes.
    pub(super) fn get(&self, segment: &Segment, whole_shard: bool) -> Option<(Partials, usize)> {
        let kept = CACHE.get::<Kept>(&self.key(segment, whole_shard))?;
        Arc::ptr_eq(&kept.mapping, &self.mapping).then(|| (kept.partials.clone(), kept.bytes))
    }

    /// Keeps what was found.
    pub(super) fn put(&self, segment: &Segment, whole_shard: bool, partials: &Partials) {
        let key = self.key(segment, whole_shard);
        if holds_counts(partials) {
            return;
        }
        let bytes = bytes_of(partials) + 2 * key.name.len();
        if bytes > CACHE.entry_bytes_max() {
            return;
        }
        let kept = Kept {
            mapping: Arc::clone(&self.mapping),
            partials: partials.clone(),
            bytes,
        };
        CACHE.put(key, Arc::new(kept), bytes);
    }
}

/// The kinds that dashboards are made of, and that read nothing but the segment.
fn is_repeatable(aggregations: &Aggregations) -> bool {
    aggregations.0.values().all(|aggregation| {
        let own = matches!(
            aggregation.kind,
            AggregationKind::Terms(_)
                | AggregationKind::DateHistogram(_)
                | AggregationKind::Min(_)
                | AggregationKind::Max(_)
                | AggregationKind::Sum(_)
                | AggregationKind::Avg(_)
                | AggregationKind::Stats(_)
                | AggregationKind::ValueCount(_)
                | AggregationKind::Cardinality(_)
                | AggregationKind::Pipeline(_)
        );
        own && is_repeatable(&aggregation.sub)
    })
}

/// Counts that are not named yet hold the files of their segment open.
fn holds_counts(partials: &Partials) -> bool {
    let is_stored = |partial: &Partial| matches!(partial, Partial::Terms(terms) if !terms.stored.0.is_empty());
    partials.0.values().any(is_stored)
}

fn bytes_of(partials: &Partials) -> usize {
    partials.0.values().map(bytes_of_one).sum::<usize>() + BUCKET_BYTES
}

fn bytes_of_one(partial: &Partial) -> usize {
    let below = |sub: &Partials| BUCKET_BYTES + if sub.0.is_empty() { 0 } else { bytes_of(sub) };
    match partial {
        Partial::Terms(terms) => terms.buckets.values().map(|bucket| below(&bucket.sub)).sum(),
        Partial::DateHistogram(histogram) => histogram.buckets.values().map(|bucket| below(&bucket.sub)).sum(),
        Partial::Cardinality(sketch) => sketch.size_bytes(),
        _ => BUCKET_BYTES,
    }
}
