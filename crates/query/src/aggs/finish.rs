//! Conversion of merged partial results into the answer.

use firn_model::{Error, ErrorKind, Result};
use serde_json::Value;

use super::finished::{Finished, Level};
use super::partial::Room;
use super::{
    Aggregation, AggregationKind, Aggregations, Bucket, Partial, Partials, adjacency_matrix, auto_date_histogram, avg,
    boxplot, cardinality, composite, date_histogram, date_range, extended_stats, filter, filters, histogram, ip_prefix,
    ip_range, max, median_absolute_deviation, min, percentile_ranks, percentiles, pipeline, range, rare_terms,
    significant_terms, stats, string_stats, sum, terms, top_metrics, value_count, weighted_avg,
};
use crate::cancel::Cancel;
use crate::expression::Steps;

/// Maximum bytes of an answer: the number of buckets has a separate limit; this one bounds their contents.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// Approximate bytes of one finished aggregation without its name, metadata and buckets, in memory and printed.
const FINISHED_BYTES: usize = 256;

/// Options for finishing an answer.
#[derive(Debug, Clone)]
pub struct FinishOptions {
    /// Maximum buckets of all levels together (`search.max_buckets`).
    pub max_buckets: usize,
    /// Prefix each name with its type: `sterms#name`.
    pub typed_keys: bool,
    /// Value of `now` in the bounds of a date histogram, ms since epoch UTC. Without it such bounds are refused.
    pub now_ms: Option<i64>,
    /// Stops the work when the client no longer waits.
    pub cancel: Cancel,
}

impl FinishOptions {
    /// Returns options with plain names and without `now`.
    pub fn new(max_buckets: usize) -> Self {
        Self {
            max_buckets,
            typed_keys: false,
            now_ms: None,
            cancel: Cancel::default(),
        }
    }
}

/// Builder of the finished tree, level by level; it counts buckets.
pub(super) struct Finisher<'a> {
    options: &'a FinishOptions,
    room: Room,
    steps: Steps,
    /// Bytes used of [`ANSWER_BYTES_MAX`].
    bytes: usize,
}

impl<'a> Finisher<'a> {
    pub(super) fn new(options: &'a FinishOptions) -> Self {
        Self {
            options,
            room: Room::watched(options.max_buckets, &options.cancel),
            steps: Steps::default(),
            bytes: 0,
        }
    }

    /// Accounts for one finished aggregation of one parent bucket.
    fn take_bytes(&mut self, name: &str, aggregation: &Aggregation) -> Result<()> {
        let meta = aggregation.meta.as_ref().map_or(0, bytes_of);
        self.bytes = self.bytes.saturating_add(FINISHED_BYTES + 2 * (name.len() + meta));
        if self.bytes <= ANSWER_BYTES_MAX {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::CircuitBreaking,
            format!(
                "[request] Data too large, data for [<agg [{name}]>] would be [{}b], which is larger than the limit of \
                 [{ANSWER_BYTES_MAX}b]",
                self.bytes
            ),
        ))
    }

    pub(super) fn now_ms(&self) -> Option<i64> {
        self.options.now_ms
    }

    /// Checks for cancellation; loops over buckets call it.
    pub(super) fn tick(&mut self) -> Result<()> {
        self.room.watch.tick()
    }

    /// Accounts for buckets before they are created.
    pub(super) fn count(&mut self, buckets: usize) -> Result<()> {
        self.room.take(buckets)
    }

    /// Refuses a page size above the maximum number of buckets, even if fewer buckets exist.
    pub(super) fn check_size(&self, size: usize) -> Result<()> {
        let max = self.options.max_buckets;
        if size <= max {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::TooManyBuckets,
            format!(
                "Trying to create too many buckets. Must be less than or equal to: [{max}] but was [{size}]. This limit \
                 can be set by changing the [search.max_buckets] cluster level setting."
            ),
        ))
    }

    /// Finishes one level, in the order of the request. An aggregation that no segment reported is empty.
    pub(super) fn level(&mut self, aggregations: &Aggregations, mut partials: Partials) -> Result<Level> {
        self.tick()?;
        let mut level = Level(Vec::with_capacity(aggregations.0.len()));
        for (name, aggregation) in &aggregations.0 {
            self.take_bytes(name, aggregation)?;
            // A pipeline has no partial result; its answer is computed after the rest of the level.
            let finished = match partials.0.swap_remove(name).or_else(|| aggregation.empty()) {
                Some(partial) => self.one(name, aggregation, partial)?,
                None => Finished::Absent,
            };
            level.0.push(self.with_pipelines(aggregation, finished)?);
        }
        Ok(level)
    }

    /// Runs the pipelines inside an aggregation.
    fn with_pipelines(&mut self, aggregation: &Aggregation, mut finished: Finished) -> Result<Finished> {
        match &mut finished {
            Finished::Buckets(buckets) => pipeline::in_buckets(&aggregation.sub, buckets, &mut self.steps)?,
            Finished::Single(bucket) => pipeline::in_level(&aggregation.sub, &mut bucket.sub)?,
            Finished::Metric(_) | Finished::Hits(_) | Finished::Absent => {}
        }
        Ok(finished)
    }

    fn one(&mut self, name: &str, aggregation: &Aggregation, partial: Partial) -> Result<Finished> {
        let sub = &aggregation.sub;
        Ok(match (&aggregation.kind, partial) {
            (AggregationKind::Terms(terms), Partial::Terms(partial)) => {
                Finished::Buckets(terms::answer(self, &terms.selection(), sub, partial)?)
            }
            (AggregationKind::MultiTerms(terms), Partial::Terms(partial)) => {
                Finished::Buckets(terms::answer(self, &terms.selection(), sub, partial)?)
            }
            (AggregationKind::RareTerms(_), Partial::RareTerms(partial)) => {
                Finished::Buckets(rare_terms::answer(self, sub, partial)?)
            }
            (AggregationKind::Composite(composite), Partial::Composite(partial)) => {
                Finished::Buckets(composite::answer(self, composite, sub, partial)?)
            }
            (AggregationKind::AutoDateHistogram(auto), Partial::AutoDateHistogram(partial)) => {
                Finished::Buckets(auto_date_histogram::answer(self, auto, sub, partial)?)
            }
            (AggregationKind::DateHistogram(histogram), Partial::DateHistogram(partial)) => {
                Finished::Buckets(date_histogram::answer(self, name, histogram, sub, partial)?)
            }
            (AggregationKind::SignificantTerms(terms), Partial::SignificantTerms(partial)) => {
                Finished::Buckets(significant_terms::answer(self, terms, sub, partial)?)
            }
            (AggregationKind::AdjacencyMatrix(_), Partial::Terms(partial)) => {
                Finished::Buckets(adjacency_matrix::answer(self, sub, partial)?)
            }
            (AggregationKind::IpPrefix(prefix), Partial::Terms(partial)) => {
                Finished::Buckets(ip_prefix::answer(self, prefix, sub, partial)?)
            }
            (kind, Partial::Sample(_)) if kind.is_single_bucket() => {
                Finished::Single(filter::answer(self, sub, Bucket::default())?)
            }
            (kind, Partial::Single(bucket)) if kind.is_single_bucket() => {
                Finished::Single(filter::answer(self, sub, bucket)?)
            }
            (AggregationKind::Filters(filters), Partial::Listed(partial)) => {
                Finished::Buckets(filters::answer(self, filters, sub, partial)?)
            }
            (AggregationKind::Range(ranges), Partial::Listed(partial)) => {
                Finished::Buckets(range::answer(self, ranges, sub, partial)?)
            }
            (AggregationKind::DateRange(ranges), Partial::Listed(partial)) => {
                Finished::Buckets(date_range::answer(self, ranges, sub, partial)?)
            }
            (AggregationKind::IpRange(ranges), Partial::Listed(partial)) => {
                Finished::Buckets(ip_range::answer(self, ranges, sub, partial)?)
            }
            (AggregationKind::Histogram(part), Partial::Histogram(partial)) => {
                Finished::Buckets(histogram::answer(self, part, sub, partial)?)
            }
            (AggregationKind::TopHits(top), Partial::TopHits(partial)) => Finished::Hits(top.answer(partial)),
            (AggregationKind::Cardinality(_), Partial::Cardinality(sketch)) => {
                Finished::Metric(cardinality::answer(&sketch))
            }
            (AggregationKind::ExtendedStats(part), Partial::ExtendedStats(partial)) => {
                Finished::Metric(extended_stats::answer(&partial, part.sigma))
            }
            (kind, Partial::Digest(partial)) => Finished::Metric(match kind {
                AggregationKind::Percentiles(part) => percentiles::answer(part, partial),
                AggregationKind::PercentileRanks(part) => percentile_ranks::answer(part, partial),
                AggregationKind::MedianAbsoluteDeviation(_) => median_absolute_deviation::answer(partial),
                AggregationKind::Boxplot(_) => boxplot::answer(partial),
                _ => return Err(mismatch(name, kind)),
            }),
            (AggregationKind::WeightedAvg(_), Partial::WeightedAvg(partial)) => {
                Finished::Metric(weighted_avg::answer(&partial))
            }
            (AggregationKind::StringStats(part), Partial::StringStats(partial)) => {
                Finished::Metric(string_stats::answer(part, &partial)?)
            }
            (AggregationKind::TopMetrics(part), Partial::TopMetrics(partial)) => {
                Finished::Metric(top_metrics::answer(part, partial))
            }
            (kind, Partial::Metric(partial)) => Finished::Metric(match kind {
                AggregationKind::Min(_) => min::answer(&partial),
                AggregationKind::Max(_) => max::answer(&partial),
                AggregationKind::Sum(_) => sum::answer(&partial),
                AggregationKind::Avg(_) => avg::answer(&partial),
                AggregationKind::Stats(_) => stats::answer(&partial),
                AggregationKind::ValueCount(_) => value_count::answer(&partial),
                _ => return Err(mismatch(name, kind)),
            }),
            (kind, _) => return Err(mismatch(name, kind)),
        })
    }
}

/// Returns the approximate printed bytes of a JSON value.
fn bytes_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(values) => values.iter().map(|value| bytes_of(value) + 1).sum::<usize>() + 2,
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| name.len() + bytes_of(value) + 4);
            members.sum::<usize>() + 2
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

fn mismatch(name: &str, kind: &AggregationKind) -> Error {
    Error::internal(format!(
        "partial result of aggregation [{name}] is not one of [{}]",
        kind.name()
    ))
}
