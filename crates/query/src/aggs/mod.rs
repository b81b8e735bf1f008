//! Aggregations: requests, mergeable partial results per segment, and the printed answer.
//!
//! One file per aggregation holds its request (parse, print), its partial result (merge) and its answer. The engine
//! fills a [`Partial`] per segment; [`Partials::merge`] merges them, for any split into segments and shards;
//! [`Aggregations::finish`] prints Elasticsearch's JSON. Sizes are bounded: depth 20 (const), `search.max_buckets`
//! buckets in an answer.

mod adjacency_matrix;
mod auto_date_histogram;
mod avg;
mod boxplot;
pub mod cardinality;
mod composite;
mod date_histogram;
mod date_range;
mod decimal_format;
pub mod digest;
mod diversified_sampler;
mod extended_stats;
mod filter;
mod filters;
mod finish;
mod finished;
mod global;
mod histogram;
mod ip_prefix;
mod ip_range;
mod key;
mod listed;
mod max;
mod median_absolute_deviation;
mod metric;
mod min;
mod missing;
mod multi_terms;
mod order;
mod parse;
mod partial;
mod percentile_ranks;
mod percentiles;
mod percents;
pub mod pipeline;
mod range;
mod ranges;
mod rare_terms;
mod sampler;
mod significant_terms;
mod sort_value;
mod stats;
mod string_stats;
mod sum;
mod terms;
mod top_hits;
mod top_metrics;
mod value_count;
mod weighted_avg;

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::cancel::Cancel;
use finish::Finisher;
use finished::Level;

pub use adjacency_matrix::AdjacencyMatrix;
pub use auto_date_histogram::{AutoDateHistogram, AutoDateHistogramPartial, Ladder};
pub use boxplot::Boxplot;
pub use cardinality::Cardinality;
pub use composite::{Composite, CompositeOrder, CompositePartial, CompositeSource, SourceKind};
pub use date_histogram::{DateHistogram, DateHistogramPartial, Interval};
pub use decimal_format::DecimalFormat;
pub use digest::{Digest, DigestMethod, DigestPartial};
pub use diversified_sampler::DiversifiedSampler;
pub use extended_stats::{ExtendedStats, ExtendedStatsPartial};
pub use filters::Filters;
pub use finish::FinishOptions;
pub use histogram::{DoubleBounds, Histogram, HistogramPartial};
pub use ip_prefix::IpPrefix;
pub use ip_range::{IpBounds, address_of};
pub use key::{Key, KeyBytes, ValueFormat};
pub use listed::ListedPartial;
pub use median_absolute_deviation::MedianAbsoluteDeviation;
pub use metric::{Metric, MetricPartial};
pub use missing::MissingField;
pub use multi_terms::{MultiTerms, MultiTermsSource};
pub use order::TermsOrder;
pub(crate) use parse::inventory;
pub use parse::{COUNT_MAX, DEPTH_MAX};
pub use partial::{Bucket, Partial, Partials, too_many_buckets};
pub use percentile_ranks::PercentileRanks;
pub use percentiles::Percentiles;
pub use pipeline::Pipeline;
pub use ranges::{RangeSpec, Ranges};
pub use rare_terms::{RareTerms, RareTermsPartial};
pub use sampler::{SamplePartial, Sampled, Sampler};
pub use significant_terms::{Heuristic, Sets, SignificantTerms, SignificantTermsPartial};
pub use string_stats::{StringStats, StringStatsPartial};
pub use terms::{StoredCounts, Terms, TermsFilter, TermsPartial, ValueCounts};
pub use top_hits::{FetchHits, TopHits, TopHitsPartial, TopRow, WantedHits};
pub use top_metrics::{MetricsRow, TopMetrics, TopMetricsPartial};
pub use weighted_avg::{Weighed, WeightedAvg, WeightedAvgPartial};

/// Named aggregations of one level, in the order of the request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Aggregations(pub IndexMap<String, Aggregation>);

/// One aggregation with its sub-aggregations.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregation {
    /// Type and parameters.
    pub kind: AggregationKind,
    /// Sub-aggregations; only under bucket aggregations.
    pub sub: Aggregations,
    /// Returned unchanged.
    pub meta: Option<Value>,
}

/// Type and parameters of an aggregation.
#[derive(Debug, Clone, PartialEq)]
// A request has few of these; boxes would only obscure the types.
#[allow(missing_docs, clippy::large_enum_variant)]
pub enum AggregationKind {
    Terms(Terms),
    DateHistogram(DateHistogram),
    Min(Metric),
    Max(Metric),
    Sum(Metric),
    Avg(Metric),
    Stats(Metric),
    ExtendedStats(ExtendedStats),
    Percentiles(Percentiles),
    PercentileRanks(PercentileRanks),
    MedianAbsoluteDeviation(MedianAbsoluteDeviation),
    Boxplot(Boxplot),
    WeightedAvg(Box<WeightedAvg>),
    StringStats(StringStats),
    TopMetrics(TopMetrics),
    ValueCount(Metric),
    Cardinality(Cardinality),
    /// `filter`, with the query of its bucket.
    Filter(Box<crate::query::Query>),
    Filters(Filters),
    Missing(MissingField),
    Range(Ranges),
    DateRange(Ranges),
    IpRange(Ranges),
    Histogram(Histogram),
    TopHits(Box<TopHits>),
    Pipeline(Pipeline),
    AutoDateHistogram(AutoDateHistogram),
    MultiTerms(MultiTerms),
    RareTerms(RareTerms),
    Composite(Composite),
    Global,
    SignificantTerms(SignificantTerms),
    Sampler(Sampler),
    DiversifiedSampler(DiversifiedSampler),
    AdjacencyMatrix(AdjacencyMatrix),
    IpPrefix(IpPrefix),
}

impl Aggregation {
    /// Returns an empty partial result; `None` for pipelines, which have none.
    pub fn empty(&self) -> Option<Partial> {
        Some(match &self.kind {
            AggregationKind::Terms(_) => Partial::Terms(TermsPartial::default()),
            AggregationKind::DateHistogram(_) => Partial::DateHistogram(DateHistogramPartial::default()),
            AggregationKind::Min(_)
            | AggregationKind::Max(_)
            | AggregationKind::Sum(_)
            | AggregationKind::Avg(_)
            | AggregationKind::Stats(_)
            | AggregationKind::ValueCount(_) => Partial::Metric(MetricPartial::default()),
            AggregationKind::Cardinality(cardinality) => Partial::Cardinality(cardinality.sketch()),
            AggregationKind::TopHits(top) => Partial::TopHits(top.empty()),
            AggregationKind::MultiTerms(_) | AggregationKind::AdjacencyMatrix(_) | AggregationKind::IpPrefix(_) => {
                Partial::Terms(TermsPartial::default())
            }
            AggregationKind::SignificantTerms(_) => Partial::SignificantTerms(SignificantTermsPartial::default()),
            AggregationKind::Sampler(_) | AggregationKind::DiversifiedSampler(_) => {
                Partial::Sample(SamplePartial::default())
            }
            AggregationKind::RareTerms(_) => Partial::RareTerms(RareTermsPartial::default()),
            AggregationKind::Composite(_) => Partial::Composite(CompositePartial::default()),
            AggregationKind::AutoDateHistogram(_) => Partial::AutoDateHistogram(AutoDateHistogramPartial::default()),
            AggregationKind::Filter(_) | AggregationKind::Missing(_) | AggregationKind::Global => {
                Partial::Single(Bucket {
                    doc_count: 0,
                    sub: self.sub.empty(),
                })
            }
            AggregationKind::Filters(_)
            | AggregationKind::Range(_)
            | AggregationKind::DateRange(_)
            | AggregationKind::IpRange(_) => Partial::Listed(ListedPartial::default()),
            AggregationKind::Histogram(_) => Partial::Histogram(HistogramPartial::default()),
            AggregationKind::ExtendedStats(_) => Partial::ExtendedStats(ExtendedStatsPartial::default()),
            AggregationKind::Percentiles(part) => Partial::Digest(DigestPartial::new(part.method.digest())),
            AggregationKind::PercentileRanks(part) => Partial::Digest(DigestPartial::new(part.method.digest())),
            AggregationKind::MedianAbsoluteDeviation(part) => Partial::Digest(DigestPartial::new(part.digest())),
            AggregationKind::Boxplot(part) => Partial::Digest(DigestPartial::new(part.digest())),
            AggregationKind::WeightedAvg(_) => Partial::WeightedAvg(WeightedAvgPartial::default()),
            AggregationKind::StringStats(_) => Partial::StringStats(StringStatsPartial::default()),
            AggregationKind::TopMetrics(_) => Partial::TopMetrics(TopMetricsPartial::default()),
            AggregationKind::Pipeline(_) => return None,
        })
    }
}

impl AggregationKind {
    /// Whether it has exactly one bucket; only such aggregations may be in the path of an order.
    pub(crate) fn is_single_bucket(&self) -> bool {
        matches!(
            self,
            Self::Filter(_) | Self::Missing(_) | Self::Global | Self::Sampler(_) | Self::DiversifiedSampler(_)
        )
    }

    /// Whether it has buckets, one or several.
    pub(crate) fn is_bucketing(&self) -> bool {
        parse::has_buckets(self.name())
    }

    /// Returns the minimum documents of a bucket, for aggregations whose buckets form a sequence with equal distances.
    fn sequence_min_doc_count(&self) -> Option<u64> {
        match self {
            Self::DateHistogram(histogram) => Some(histogram.min_doc_count),
            Self::Histogram(histogram) => Some(histogram.min_doc_count),
            Self::AutoDateHistogram(_) => Some(0),
            _ => None,
        }
    }

    /// Returns the name in requests.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Terms(_) => terms::NAME,
            Self::DateHistogram(_) => date_histogram::NAME,
            Self::Min(_) => min::NAME,
            Self::Max(_) => max::NAME,
            Self::Sum(_) => sum::NAME,
            Self::Avg(_) => avg::NAME,
            Self::Stats(_) => stats::NAME,
            Self::ExtendedStats(_) => extended_stats::NAME,
            Self::Percentiles(_) => percentiles::NAME,
            Self::PercentileRanks(_) => percentile_ranks::NAME,
            Self::MedianAbsoluteDeviation(_) => median_absolute_deviation::NAME,
            Self::Boxplot(_) => boxplot::NAME,
            Self::WeightedAvg(_) => weighted_avg::NAME,
            Self::StringStats(_) => string_stats::NAME,
            Self::TopMetrics(_) => top_metrics::NAME,
            Self::ValueCount(_) => value_count::NAME,
            Self::Cardinality(_) => cardinality::NAME,
            Self::Filter(_) => filter::NAME,
            Self::Filters(_) => filters::NAME,
            Self::Missing(_) => missing::NAME,
            Self::Range(_) => range::NAME,
            Self::DateRange(_) => date_range::NAME,
            Self::IpRange(_) => ip_range::NAME,
            Self::Histogram(_) => histogram::NAME,
            Self::TopHits(_) => top_hits::NAME,
            Self::Pipeline(pipeline) => pipeline.name(),
            Self::AutoDateHistogram(_) => auto_date_histogram::NAME,
            Self::MultiTerms(_) => multi_terms::NAME,
            Self::RareTerms(_) => rare_terms::NAME,
            Self::Composite(_) => composite::NAME,
            Self::Global => global::NAME,
            Self::SignificantTerms(_) => significant_terms::NAME,
            Self::Sampler(_) => sampler::NAME,
            Self::DiversifiedSampler(_) => diversified_sampler::NAME,
            Self::AdjacencyMatrix(_) => adjacency_matrix::NAME,
            Self::IpPrefix(_) => ip_prefix::NAME,
        }
    }

    /// Returns the prefix for `typed_keys`; aggregations with several buckets set it in their result, because it
    /// depends on the type of the keys.
    fn type_name(&self) -> &'static str {
        match self {
            Self::Percentiles(part) => part.type_name(),
            Self::PercentileRanks(part) => part.type_name(),
            Self::Pipeline(pipeline) => pipeline.type_name(),
            _ => self.name(),
        }
    }

    fn print(&self) -> Value {
        match self {
            Self::Terms(terms) => terms.print(),
            Self::DateHistogram(histogram) => histogram.print(),
            Self::Min(metric)
            | Self::Max(metric)
            | Self::Sum(metric)
            | Self::Avg(metric)
            | Self::Stats(metric)
            | Self::ValueCount(metric) => metric.print(),
            Self::Cardinality(cardinality) => cardinality.print(),
            Self::Filter(query) => query.print(),
            Self::Filters(filters) => filters.print(),
            Self::Missing(missing) => missing.print(),
            Self::Range(ranges) | Self::DateRange(ranges) | Self::IpRange(ranges) => ranges.print(),
            Self::Histogram(histogram) => histogram.print(),
            Self::TopHits(top) => top.print(),
            Self::ExtendedStats(part) => part.print(),
            Self::Percentiles(part) => part.print(),
            Self::PercentileRanks(part) => part.print(),
            Self::MedianAbsoluteDeviation(part) => part.print(),
            Self::Boxplot(part) => part.print(),
            Self::WeightedAvg(part) => part.print(),
            Self::StringStats(part) => part.print(),
            Self::TopMetrics(part) => part.print(),
            Self::Pipeline(pipeline) => pipeline.print(),
            Self::AutoDateHistogram(auto) => auto.print(),
            Self::MultiTerms(terms) => terms.print(),
            Self::RareTerms(rare) => rare.print(),
            Self::Composite(composite) => composite.print(),
            Self::Global => global::print(),
            Self::SignificantTerms(terms) => terms.print(),
            Self::Sampler(sampler) => sampler.print(),
            Self::DiversifiedSampler(sampler) => sampler.print(),
            Self::AdjacencyMatrix(matrix) => matrix.print(),
            Self::IpPrefix(prefix) => prefix.print(),
        }
    }

    /// Returns the queries that select documents for its buckets.
    pub fn queries(&self) -> Vec<&crate::query::Query> {
        match self {
            Self::Filter(query) => vec![query],
            Self::Filters(part) => part.filters.iter().map(|(_, query)| query).collect(),
            Self::AdjacencyMatrix(part) => part.filters.iter().map(|(_, query)| query).collect(),
            Self::SignificantTerms(part) => part.background_filter.iter().map(|query| &**query).collect(),
            Self::Terms(_)
            | Self::DateHistogram(_)
            | Self::Min(_)
            | Self::Max(_)
            | Self::Sum(_)
            | Self::Avg(_)
            | Self::Stats(_)
            | Self::ExtendedStats(_)
            | Self::Percentiles(_)
            | Self::PercentileRanks(_)
            | Self::MedianAbsoluteDeviation(_)
            | Self::Boxplot(_)
            | Self::WeightedAvg(_)
            | Self::StringStats(_)
            | Self::TopMetrics(_)
            | Self::ValueCount(_)
            | Self::Cardinality(_)
            | Self::Missing(_)
            | Self::Range(_)
            | Self::DateRange(_)
            | Self::IpRange(_)
            | Self::Histogram(_)
            | Self::TopHits(_)
            | Self::Pipeline(_)
            | Self::AutoDateHistogram(_)
            | Self::MultiTerms(_)
            | Self::RareTerms(_)
            | Self::Composite(_)
            | Self::Global
            | Self::Sampler(_)
            | Self::DiversifiedSampler(_)
            | Self::IpPrefix(_) => Vec::new(),
        }
    }

    fn fields(&self, fields: &mut BTreeSet<String>) {
        match self {
            Self::Terms(Terms { field, .. })
            | Self::DateHistogram(DateHistogram { field, .. })
            | Self::Histogram(Histogram { field, .. })
            | Self::AutoDateHistogram(AutoDateHistogram { field, .. })
            | Self::Range(Ranges { field, .. })
            | Self::DateRange(Ranges { field, .. })
            | Self::IpRange(Ranges { field, .. })
            | Self::IpPrefix(IpPrefix { field, .. })
            | Self::RareTerms(RareTerms { field, .. })
            | Self::DiversifiedSampler(DiversifiedSampler { field, .. })
            | Self::Missing(MissingField { field, .. })
            | Self::Cardinality(Cardinality { field, .. })
            | Self::StringStats(StringStats { field, .. })
            | Self::Min(Metric { field, .. })
            | Self::Max(Metric { field, .. })
            | Self::Sum(Metric { field, .. })
            | Self::Avg(Metric { field, .. })
            | Self::Stats(Metric { field, .. })
            | Self::ValueCount(Metric { field, .. }) => {
                fields.insert(field.clone());
            }
            Self::ExtendedStats(ExtendedStats { metric, .. })
            | Self::Percentiles(Percentiles { metric, .. })
            | Self::PercentileRanks(PercentileRanks { metric, .. })
            | Self::MedianAbsoluteDeviation(MedianAbsoluteDeviation { metric, .. })
            | Self::Boxplot(Boxplot { metric, .. }) => {
                fields.insert(metric.field.clone());
            }
            Self::Filter(query) => fields.extend(query.fields()),
            Self::Filters(filters) => filters.fields(fields),
            Self::TopHits(top) => top.fields(fields),
            Self::WeightedAvg(part) => part.fields(fields),
            Self::TopMetrics(part) => part.fields(fields),
            Self::MultiTerms(terms) => terms.fields(fields),
            Self::Composite(composite) => composite.fields(fields),
            Self::SignificantTerms(terms) => terms.fields(fields),
            Self::AdjacencyMatrix(matrix) => matrix.fields(fields),
            Self::Global | Self::Sampler(_) | Self::Pipeline(_) => {}
        }
    }
}

impl Aggregations {
    /// Parses the value of `aggs`.
    pub fn parse(value: &Value) -> firn_model::Result<Self> {
        parse::level(value, 1, &mut 0)
    }

    /// Returns JSON that parses to these aggregations.
    pub fn print(&self) -> Value {
        parse::print(self)
    }

    /// Returns empty partial results of all aggregations.
    pub fn empty(&self) -> Partials {
        let entries = self.0.iter();
        Partials(
            entries
                .filter_map(|(name, aggregation)| Some((name.clone(), aggregation.empty()?)))
                .collect(),
        )
    }

    /// Cuts every `terms` on all levels to the buckets that one shard reports ([`TermsPartial::cut`]). Call it once per
    /// shard, after its segments are merged and before shards are merged. Without it the answer is exact and needs more
    /// memory.
    pub fn cut_shard(&self, partials: &mut Partials, cancel: &Cancel) -> firn_model::Result<()> {
        self.cut(partials, false, cancel)
    }

    /// Cuts for a search of a single shard, by `shard_size` alone: its buckets are the answer, and
    /// `shard_min_doc_count` matters only if other shards can add documents.
    pub fn cut_lone_shard(&self, partials: &mut Partials, cancel: &Cancel) -> firn_model::Result<()> {
        self.cut(partials, true, cancel)
    }

    fn cut(&self, partials: &mut Partials, is_lone: bool, cancel: &Cancel) -> firn_model::Result<()> {
        for (name, aggregation) in &self.0 {
            let sub = &aggregation.sub;
            let Some(found) = partials.0.get_mut(name) else {
                continue;
            };
            match (&aggregation.kind, &mut *found) {
                (AggregationKind::Terms(terms), Partial::Terms(partial)) => {
                    partial.cut(&terms.selection().of_shard(is_lone), sub, cancel)?
                }
                (AggregationKind::MultiTerms(terms), Partial::Terms(partial)) => {
                    partial.cut(&terms.selection().of_shard(is_lone), sub, cancel)?
                }
                (AggregationKind::SignificantTerms(terms), Partial::SignificantTerms(partial)) if !is_lone => {
                    partial.cut(terms);
                }
                _ => {}
            }
            if !sub.0.is_empty() {
                for bucket in found.buckets_mut() {
                    sub.cut(&mut bucket.sub, is_lone, cancel)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the answer. `max_buckets` limits all buckets together ([`firn_model::ErrorKind::TooManyBuckets`]).
    pub fn finish(&self, partials: Partials, max_buckets: usize) -> firn_model::Result<Value> {
        self.finish_with(partials, &FinishOptions::new(max_buckets))
    }

    /// Returns the answer with these options, for aggregations without documents: `top_hits` here is a bug of the
    /// caller.
    pub fn finish_with(&self, partials: Partials, options: &FinishOptions) -> firn_model::Result<Value> {
        self.finish_fetching(partials, options, &|_| {
            Err(firn_model::Error::internal(
                "hits of an aggregation cannot be fetched here",
            ))
        })
    }

    /// Returns the answer with these options. `fetch` is called at most once, for the documents in the answer.
    pub fn finish_fetching(
        &self,
        partials: Partials,
        options: &FinishOptions,
        fetch: &FetchHits<'_>,
    ) -> firn_model::Result<Value> {
        let mut level = self.finished(partials, options)?;
        top_hits::fetch(self, &mut level, fetch)?;
        let mut answer = Map::new();
        level.print(self, options.typed_keys, &mut answer);
        Ok(Value::Object(answer))
    }

    /// Calls `visit` with each aggregation of all levels and its name.
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a str, &'a Aggregation)) {
        for (name, aggregation) in &self.0 {
            visit(name, aggregation);
            aggregation.sub.visit(visit);
        }
    }

    /// Returns the whole tree, pipelines included, before it is printed.
    fn finished(&self, partials: Partials, options: &FinishOptions) -> firn_model::Result<Level> {
        let mut finisher = Finisher::new(options);
        let mut level = finisher.level(self, partials)?;
        pipeline::in_level(self, &mut level)?;
        Ok(level)
    }

    /// Returns every field path that the aggregations read, sorted.
    pub fn fields(&self) -> Vec<String> {
        let mut fields = BTreeSet::new();
        self.collect_fields(&mut fields);
        fields.into_iter().collect()
    }

    /// Returns every field path that aggregations other than date histograms read, sorted; for a date histogram, a part
    /// of its field may suffice.
    pub fn fields_beside_date_histograms(&self) -> Vec<String> {
        let mut fields = BTreeSet::new();
        self.collect_fields_beside(&mut fields);
        fields.into_iter().collect()
    }

    fn collect_fields_beside(&self, fields: &mut BTreeSet<String>) {
        for aggregation in self.0.values() {
            if !matches!(aggregation.kind, AggregationKind::DateHistogram(_)) {
                aggregation.kind.fields(fields);
            }
            aggregation.sub.collect_fields_beside(fields);
        }
    }

    fn collect_fields(&self, fields: &mut BTreeSet<String>) {
        for aggregation in self.0.values() {
            aggregation.kind.fields(fields);
            aggregation.sub.collect_fields(fields);
        }
    }
}

#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tests;
