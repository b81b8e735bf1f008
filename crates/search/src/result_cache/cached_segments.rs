//! Cache keys for the partial results of segments.
//!
//! A dashboard panel that is refreshed sends the same request for nearly the same segments; only new segments and
//! those at the edge of its window are read. The segment result cache ([`crate::result_cache`]) stores the partial
//! result of a part of a segment in the form in which segments are merged. Its key is the query without its window,
//! the aggregations, and the part of the segment that the window covers.

use std::sync::Arc;

use firn_model::mapping::Mapping;
use firn_query::aggs::{AggregationKind, Aggregations, Partial, Partials};
use firn_query::query::{Query, Rewrite};
use firn_query::search::SearchRequest;
use firn_query::search::cache_key::CacheKeyWriter;
use firn_segment::segment::Segment;

use crate::result_cache::{Answer, CacheKey, CachedRequest, Coverage, Found, Part, ShardCache};
use crate::run::matching_docs::DocRange;

/// Approximate bytes of a cached bucket: key, count and hash table slot.
const BUCKET_BYTES: usize = 200;

/// Cache key of the aggregations of a request; `None` if its results cannot be cached.
pub(crate) struct RepeatableRequest(Option<Arc<[u8]>>);

impl RepeatableRequest {
    pub(crate) fn of(request: &SearchRequest) -> Self {
        // If hits are requested, only their count is cached.
        let counts_only = request.aggs.0.is_empty();
        let is_whole = request.post_filter.is_none() && request.slice.is_none();
        let is_cached = is_whole && (request.size == 0 || counts_only) && is_repeatable(&request.aggs);
        if !is_cached || !request.aggs.properties().is_repeatable() {
            return Self(None);
        }
        Self(CacheKeyWriter::default().aggregations(&request.aggs).finish())
    }
}

/// Cache key of a request whose result for the same part of a segment is always the same.
pub(crate) struct Repeatable {
    question: CachedRequest,
    cache: ShardCache,
}

impl Repeatable {
    /// Creates a key; `None`: the result depends on more than the segment. `query` and `filters` are the parts
    /// without the conditions on time and tenant.
    pub(crate) fn of(
        cache: &ShardCache,
        request: &RepeatableRequest,
        query: &Query,
        filters: &[Query],
        tenant: Option<&Arc<str>>,
        mapping: &Arc<Mapping>,
    ) -> Option<Self> {
        let aggregations = request.0.as_ref()?;
        let key = match (query, filters) {
            (Query::MatchAll(_), []) => Arc::clone(aggregations),
            _ => {
                let mut key = CacheKeyWriter::default().key(aggregations);
                for query in std::iter::once(query).chain(filters) {
                    if !reads_only_the_segment(query) || !query.properties().is_repeatable() {
                        return None;
                    }
                    key = key.query(query);
                }
                key.finish()?
            }
        };
        let tenant = tenant.map_or_else(|| Arc::from(""), Arc::clone);
        Some(Self {
            question: CachedRequest::new(key, tenant, mapping),
            cache: cache.clone(),
        })
    }

    pub(crate) fn question(&self) -> &CachedRequest {
        &self.question
    }

    pub(crate) fn cache(&self) -> &ShardCache {
        &self.cache
    }

    fn name(&self, segment: &Segment, coverage: Coverage, whole_shard: bool) -> CacheKey {
        CacheKey::of_segment(&self.question, Part::new(segment, coverage), whole_shard)
    }

    /// Returns the cached partial result.
    pub(crate) fn get(&self, segment: &Segment, reach: &DocRange, whole_shard: bool) -> Option<Arc<Answer>> {
        self.cache.get(&self.name(segment, reach.coverage()?, whole_shard))
    }

    /// Caches a partial result.
    pub(crate) fn put(&self, segment: &Segment, coverage: Coverage, whole_shard: bool, total: u64, found: &Partials) {
        if holds_counts(found) {
            return;
        }
        let answer = Answer {
            total,
            bytes: bytes_of(found),
            found: Found::Partials(found.clone()),
        };
        self.cache.watch(segment);
        self.cache.put(self.name(segment, coverage, whole_shard), answer);
    }
}

/// Returns whether all aggregations are of the kinds that dashboards use, and read only the segment.
fn is_repeatable(aggregations: &Aggregations) -> bool {
    aggregations.0.values().all(|aggregation| {
        let own = match &aggregation.kind {
            AggregationKind::Filter(query) => reads_only_the_segment(query),
            AggregationKind::Filters(part) => part.filters.iter().all(|(_, query)| reads_only_the_segment(query)),
            AggregationKind::Terms(_)
            | AggregationKind::MultiTerms(_)
            | AggregationKind::DateHistogram(_)
            | AggregationKind::Histogram(_)
            | AggregationKind::Range(_)
            | AggregationKind::DateRange(_)
            | AggregationKind::IpRange(_)
            | AggregationKind::Missing(_)
            | AggregationKind::Min(_)
            | AggregationKind::Max(_)
            | AggregationKind::Sum(_)
            | AggregationKind::Avg(_)
            | AggregationKind::Stats(_)
            | AggregationKind::ExtendedStats(_)
            | AggregationKind::ValueCount(_)
            | AggregationKind::Cardinality(_)
            | AggregationKind::Pipeline(_) => true,
            _ => false,
        };
        own && is_repeatable(&aggregation.sub)
    })
}

/// Returns whether the matching documents of a segment depend only on the segment and the mapping. Queries that
/// expand to terms do so over all segments of a shard.
fn reads_only_the_segment(query: &Query) -> bool {
    match query {
        Query::MatchAll(_) | Query::MatchNone => true,
        Query::Term(_) | Query::Terms(_) | Query::Range(_) | Query::Exists(_) | Query::Ids(_) => true,
        Query::Prefix(part) | Query::Wildcard(part) => part.rewrite == Rewrite::Constant,
        Query::Regexp(part) => part.pattern.rewrite == Rewrite::Constant,
        Query::ConstantScore(part) => reads_only_the_segment(&part.filter),
        Query::Named(part) => reads_only_the_segment(&part.query),
        Query::Bool(part) => {
            let clauses = [&part.must, &part.filter, &part.should, &part.must_not];
            clauses.into_iter().flatten().all(reads_only_the_segment)
        }
        _ => false,
    }
}

/// Returns whether a result has counts whose terms are not resolved yet: those hold the files of their segment
/// open, and memory of their request.
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
        Partial::Histogram(histogram) => histogram.buckets.values().map(|bucket| below(&bucket.sub)).sum(),
        Partial::Listed(listed) => listed.buckets.iter().map(|bucket| below(&bucket.sub)).sum(),
        Partial::Single(bucket) => below(&bucket.sub),
        Partial::Cardinality(sketch) => sketch.size_bytes(),
        _ => BUCKET_BYTES,
    }
}
