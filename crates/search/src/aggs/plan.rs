//! Aggregation tree resolved against the mapping of a shard, and its collectors on a segment.

use std::ops::Range;
use std::sync::Arc;

use firn_model::Result;
use firn_query::aggs::{AggregationKind, Aggregations, Partials};
use firn_segment::distinct::StoredZones;
use firn_segment::segment::Segment;
use tantivy::{DocId, Score};

use super::collector::{Collector, DocumentOrder, Level, Scope};
use super::score_table::ScoreBoard;
use super::{
    adjacency_matrix, auto_date_histogram, cardinality, composite, date_histogram, filter, filters, global, histogram,
    ip_prefix, metric, missing, multi_terms, numbers, ranges, rare_terms, sampler, significant_terms, string_stats,
    terms, top_hits, top_metrics, weighted_avg,
};
use crate::compile::Compiler;
use crate::run::memory::Memory;
use crate::run::profile::{ShardTimes, timed};

/// Aggregations of one level, compiled.
pub(crate) struct Plan(pub(super) Vec<Node>);

pub(super) struct Node {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) sub: Plan,
}

pub(super) enum Kind {
    Terms(terms::TermsPlan),
    DateHistogram(date_histogram::HistogramPlan),
    Metric(metric::MetricPlan),
    Cardinality(cardinality::CardinalityPlan),
    Filter(filter::FilterPlan),
    Filters(filters::FiltersPlan),
    Missing(missing::MissingPlan),
    Ranges(ranges::RangesPlan),
    Histogram(histogram::NumberHistogramPlan),
    TopHits(top_hits::TopHitsPlan),
    Numbers(numbers::NumbersPlan),
    StringStats(string_stats::StringStatsPlan),
    TopMetrics(top_metrics::TopMetricsPlan),
    WeightedAvg(weighted_avg::WeightedAvgPlan),
    AutoDateHistogram(auto_date_histogram::AutoDateHistogramPlan),
    MultiTerms(multi_terms::MultiTermsPlan),
    RareTerms(rare_terms::RareTermsPlan),
    Composite(composite::CompositePlan),
    Global,
    SignificantTerms(significant_terms::SignificantTermsPlan),
    Sampler(sampler::SamplerPlan),
    AdjacencyMatrix(adjacency_matrix::AdjacencyMatrixPlan),
    IpPrefix(ip_prefix::IpPrefixPlan),
}

impl Kind {
    fn wants_scores(&self) -> bool {
        match self {
            Self::TopMetrics(plan) => plan.wants_scores(),
            Self::TopHits(plan) => plan.needs_scores,
            Self::Sampler(_) => true,
            _ => false,
        }
    }
}

impl Plan {
    /// Compiles aggregations; fails for fields that they cannot read.
    pub(crate) fn compile(compiler: &Compiler, aggregations: &Aggregations) -> Result<Self> {
        let mut nodes = Vec::with_capacity(aggregations.0.len());
        for (name, aggregation) in &aggregations.0 {
            let kind = match &aggregation.kind {
                AggregationKind::Terms(terms) => Kind::Terms(terms::TermsPlan::compile(compiler, name, terms)?),
                AggregationKind::DateHistogram(part) => {
                    Kind::DateHistogram(date_histogram::HistogramPlan::compile(compiler, part)?)
                }
                AggregationKind::Min(part)
                | AggregationKind::Max(part)
                | AggregationKind::Sum(part)
                | AggregationKind::Avg(part)
                | AggregationKind::Stats(part) => Kind::Metric(metric::MetricPlan::compile(
                    compiler,
                    part,
                    aggregation.kind.name(),
                    false,
                )?),
                AggregationKind::ValueCount(part) => Kind::Metric(metric::MetricPlan::compile(
                    compiler,
                    part,
                    aggregation.kind.name(),
                    true,
                )?),
                AggregationKind::ExtendedStats(part) => {
                    Kind::Numbers(numbers::NumbersPlan::extended_stats(compiler, part)?)
                }
                AggregationKind::Percentiles(part) => Kind::Numbers(numbers::NumbersPlan::percentiles(compiler, part)?),
                AggregationKind::PercentileRanks(part) => {
                    Kind::Numbers(numbers::NumbersPlan::percentile_ranks(compiler, part)?)
                }
                AggregationKind::MedianAbsoluteDeviation(part) => {
                    Kind::Numbers(numbers::NumbersPlan::median_absolute_deviation(compiler, part)?)
                }
                AggregationKind::Boxplot(part) => Kind::Numbers(numbers::NumbersPlan::boxplot(compiler, part)?),
                AggregationKind::StringStats(part) => {
                    Kind::StringStats(string_stats::StringStatsPlan::compile(compiler, part)?)
                }
                AggregationKind::TopMetrics(part) => {
                    Kind::TopMetrics(top_metrics::TopMetricsPlan::compile(compiler, part)?)
                }
                AggregationKind::WeightedAvg(part) => {
                    Kind::WeightedAvg(weighted_avg::WeightedAvgPlan::compile(compiler, part)?)
                }
                // Pipeline aggregations run over the finished results.
                AggregationKind::Pipeline(_) => continue,
                AggregationKind::Cardinality(part) => {
                    Kind::Cardinality(cardinality::CardinalityPlan::compile(compiler, part)?)
                }
                AggregationKind::TopHits(top) => Kind::TopHits(top_hits::TopHitsPlan::compile(compiler, top)?),
                AggregationKind::AutoDateHistogram(part) => {
                    Kind::AutoDateHistogram(auto_date_histogram::AutoDateHistogramPlan::compile(compiler, part)?)
                }
                AggregationKind::MultiTerms(part) => {
                    Kind::MultiTerms(multi_terms::MultiTermsPlan::compile(compiler, part)?)
                }
                AggregationKind::RareTerms(part) => {
                    Kind::RareTerms(rare_terms::RareTermsPlan::compile(compiler, name, part)?)
                }
                AggregationKind::Composite(part) => Kind::Composite(composite::CompositePlan::compile(compiler, part)?),
                AggregationKind::Global => Kind::Global,
                AggregationKind::SignificantTerms(part) => {
                    Kind::SignificantTerms(significant_terms::SignificantTermsPlan::compile(compiler, name, part)?)
                }
                AggregationKind::IpPrefix(part) => Kind::IpPrefix(ip_prefix::IpPrefixPlan::compile(compiler, part)?),
                AggregationKind::Sampler(part) => Kind::Sampler(sampler::SamplerPlan::plain(part)),
                AggregationKind::DiversifiedSampler(part) => {
                    Kind::Sampler(sampler::SamplerPlan::diversified(compiler, part)?)
                }
                AggregationKind::AdjacencyMatrix(part) => {
                    Kind::AdjacencyMatrix(adjacency_matrix::AdjacencyMatrixPlan::compile(compiler, part)?)
                }
                AggregationKind::Filter(query) => Kind::Filter(filter::FilterPlan::compile(compiler, query)?),
                AggregationKind::Filters(part) => Kind::Filters(filters::FiltersPlan::compile(compiler, part)?),
                AggregationKind::Missing(part) => Kind::Missing(missing::MissingPlan::compile(compiler, part)?),
                AggregationKind::Range(part) => Kind::Ranges(ranges::RangesPlan::numbers(compiler, part)?),
                AggregationKind::DateRange(part) => Kind::Ranges(ranges::RangesPlan::dates(compiler, part)?),
                AggregationKind::IpRange(part) => Kind::Ranges(ranges::RangesPlan::addresses(compiler, part)?),
                AggregationKind::Histogram(part) => {
                    Kind::Histogram(histogram::NumberHistogramPlan::compile(compiler, part)?)
                }
            };
            nodes.push(Node {
                name: name.clone(),
                kind,
                sub: Self::compile(compiler, &aggregation.sub)?,
            });
        }
        Ok(Self(nodes))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether some aggregation reads scores; then the caller must [put](SegmentAggs::put_scores) them
    /// before each block.
    pub(crate) fn wants_scores(&self) -> bool {
        self.0
            .iter()
            .any(|node| node.kind.wants_scores() || node.sub.wants_scores())
    }

    /// Returns whether some aggregation shows values that no document of the query has. Then segments without
    /// matches are read as well.
    pub(crate) fn wants_zeros(&self) -> bool {
        self.0.iter().any(|node| {
            let zeros = matches!(&node.kind, Kind::Terms(terms) if terms.wants_zeros());
            zeros || node.sub.wants_zeros()
        })
    }

    /// Returns whether several collectors can each collect some of the documents of a segment, and then
    /// [absorb](SegmentAggs::absorb) each other.
    pub(crate) fn is_divisible(&self) -> bool {
        let is_divisible = |node: &Node| matches!(&node.kind, Kind::Terms(terms) if terms.is_divisible());
        !self.is_empty() && self.0.iter().all(|node| is_divisible(node) && node.sub.is_empty())
    }

    /// Returns whether some aggregation reads all documents, independent of the query.
    pub(crate) fn has_global(&self) -> bool {
        self.0.iter().any(|node| matches!(node.kind, Kind::Global))
    }

    /// Returns whether some aggregation needs a second run after all segments were searched.
    pub(crate) fn looks_twice(&self) -> bool {
        self.has_global() || self.has_samples() || self.has_backgrounds()
    }

    /// Opens the columns of date histograms only to record their reads, in a dry-run prefetch: they may need less
    /// than the whole field.
    pub(crate) fn try_date_histograms(&self, segment: &Segment) {
        for node in &self.0 {
            if let Kind::DateHistogram(plan) = &node.kind {
                // An error occurs again in the search, where it counts.
                let _ = plan.try_reading(segment);
            }
            node.sub.try_date_histograms(segment);
        }
    }

    /// Opens the collectors of a segment.
    pub(crate) fn open(
        &self,
        segment: &Segment,
        order: u32,
        memory: &Memory,
        manner: DocumentOrder,
    ) -> Result<SegmentAggs> {
        let scores = Arc::new(ScoreBoard::default());
        let scope = Scope {
            segment,
            memory,
            manner,
            order,
            scores: &scores,
        };
        Ok(SegmentAggs {
            level: self.level(scope)?,
            scores: self.wants_scores().then_some(scores),
        })
    }

    /// Opens the collectors of the aggregations over all documents.
    pub(crate) fn open_everything(&self, segment: &Segment, order: u32, memory: &Memory) -> Result<SegmentAggs> {
        let scores = Arc::new(ScoreBoard::default());
        let scope = Scope {
            segment,
            memory,
            manner: DocumentOrder::default(),
            order,
            scores: &scores,
        };
        let mut collectors: Vec<(String, Box<dyn Collector>)> = Vec::new();
        for node in self.0.iter().filter(|node| matches!(node.kind, Kind::Global)) {
            collectors.push((node.name.clone(), global::open(scope, node.sub.level(scope)?)));
        }
        Ok(SegmentAggs {
            level: Level::new(collectors, scope),
            scores: self.wants_scores().then_some(scores),
        })
    }

    pub(super) fn level(&self, scope: Scope) -> Result<Level> {
        let mut collectors = Vec::with_capacity(self.0.len());
        for node in &self.0 {
            let sub = match &node.kind {
                // Their sub-aggregations receive documents later.
                Kind::Global | Kind::Sampler(_) => Level::none(),
                _ => node.sub.level(scope)?,
            };
            let collector: Box<dyn Collector> = match &node.kind {
                Kind::Terms(plan) => plan.open(scope, sub)?,
                Kind::DateHistogram(plan) => plan.open(scope, sub)?,
                Kind::Metric(plan) => plan.open(scope)?,
                Kind::Numbers(plan) => plan.open(scope)?,
                Kind::StringStats(plan) => plan.open(scope)?,
                Kind::TopMetrics(plan) => plan.open(scope)?,
                Kind::WeightedAvg(plan) => plan.open(scope)?,
                Kind::Cardinality(plan) => plan.open(scope)?,
                Kind::Filter(plan) => plan.open(scope, sub)?,
                Kind::Filters(plan) => plan.open(scope, sub)?,
                Kind::Missing(plan) => plan.open(scope, sub)?,
                Kind::Ranges(plan) => plan.open(scope, sub)?,
                Kind::Histogram(plan) => plan.open(scope, sub)?,
                Kind::TopHits(plan) => plan.open(scope)?,
                Kind::AutoDateHistogram(plan) => plan.open(scope, sub)?,
                Kind::MultiTerms(plan) => plan.open(scope, sub)?,
                Kind::RareTerms(plan) => plan.open(scope, sub)?,
                Kind::Composite(plan) => plan.open(scope, sub, node.sub.wants_scores())?,
                Kind::Global => global::open_placeholder(),
                Kind::SignificantTerms(plan) => plan.open(scope, sub)?,
                Kind::Sampler(plan) => plan.open(scope)?,
                Kind::AdjacencyMatrix(plan) => plan.open(scope, sub)?,
                Kind::IpPrefix(plan) => plan.open(scope, sub)?,
            };
            collectors.push((node.name.clone(), collector));
        }
        Ok(Level::new(collectors, scope))
    }
}

/// The collectors of a segment.
pub(crate) struct SegmentAggs {
    level: Level,
    /// Only if an aggregation reads scores.
    scores: Option<Arc<ScoreBoard>>,
}

impl SegmentAggs {
    /// Provides the scores of the next block; without `scores`, all documents score `same`.
    pub(crate) fn put_scores(&self, docs: &[DocId], scores: &[Score], same: Score) {
        if let Some(board) = &self.scores {
            board.put(docs, scores, same);
        }
    }

    /// Collects matching documents; `zeros` has as many zeros.
    pub(crate) fn collect(&mut self, docs: &[DocId], zeros: &[u32]) -> Result<()> {
        self.level.collect(docs, zeros)
    }

    /// Returns the zones of documents that all aggregations take at once; `None`: some aggregation must read documents.
    pub(crate) fn zones(&self) -> Option<StoredZones> {
        self.level.zones()
    }

    /// Collects a zone, none of whose documents is deleted.
    pub(crate) fn collect_zone(&mut self, documents: &Range<DocId>) -> Result<()> {
        self.level.collect_zone(documents)
    }

    /// Collects, and measures each top-level aggregation.
    pub(crate) fn collect_timed(&mut self, docs: &[DocId], zeros: &[u32], times: &ShardTimes) -> Result<()> {
        for (number, (_, collector)) in self.level.0.iter_mut().enumerate() {
            timed(times.aggregation(number), || collector.collect(docs, zeros))?;
        }
        Ok(())
    }

    /// Adds what other collectors of a [divisible](Plan::is_divisible) plan have collected from other documents of the
    /// segment.
    pub(crate) fn absorb(&mut self, other: Self) -> Result<()> {
        self.level.absorb(other.level)
    }

    /// Returns the partial result.
    pub(crate) fn finish(self) -> Result<Partials> {
        Ok(self.level.finish(1)?.pop().unwrap_or_default())
    }
}
