//! Partial results of aggregations, and their merge.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use firn_model::{Error, ErrorKind, Result};
use indexmap::IndexMap;

use super::{
    AutoDateHistogramPartial, CompositePartial, DateHistogramPartial, DigestPartial, ExtendedStatsPartial,
    HistogramPartial, ListedPartial, MetricPartial, RareTermsPartial, SamplePartial, SignificantTermsPartial,
    StringStatsPartial, TermsPartial, TopHitsPartial, TopMetricsPartial, WeightedAvgPartial, cardinality,
};
use crate::cancel::{Cancel, Watch};

/// Partial results of one level, by aggregation name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Partials(pub IndexMap<String, Partial>);

/// Partial result of one aggregation, from one segment or several merged ones.
#[derive(Debug, Clone, PartialEq)]
pub enum Partial {
    /// `terms`, `multi_terms`, `adjacency_matrix`.
    Terms(TermsPartial),
    /// `date_histogram`.
    DateHistogram(DateHistogramPartial),
    /// `histogram`.
    Histogram(HistogramPartial),
    /// Aggregations whose request lists the buckets, such as `range` and `filters`.
    Listed(ListedPartial),
    /// `auto_date_histogram`.
    AutoDateHistogram(AutoDateHistogramPartial),
    /// `rare_terms`.
    RareTerms(RareTermsPartial),
    /// `composite`.
    Composite(CompositePartial),
    /// `significant_terms`.
    SignificantTerms(SignificantTermsPartial),
    /// `sampler`, `diversified_sampler`: the documents of the future bucket.
    Sample(SamplePartial),
    /// All single-value metrics.
    Metric(MetricPartial),
    /// `extended_stats`.
    ExtendedStats(ExtendedStatsPartial),
    /// Aggregations that need ranks, such as `percentiles`.
    Digest(DigestPartial),
    /// `weighted_avg`.
    WeightedAvg(WeightedAvgPartial),
    /// `string_stats`.
    StringStats(StringStatsPartial),
    /// `top_metrics`.
    TopMetrics(TopMetricsPartial),
    /// `cardinality`.
    Cardinality(cardinality::Sketch),
    /// Aggregations with one bucket, such as `filter`.
    Single(Bucket),
    /// `top_hits`.
    TopHits(TopHitsPartial),
}

/// One bucket.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bucket {
    /// Number of documents.
    pub doc_count: u64,
    /// Results of the sub-aggregations.
    pub sub: Partials,
}

impl Partials {
    /// Merges the results of another part. Associative and commutative.
    pub fn merge(&mut self, other: Partials) -> Result<()> {
        self.merge_within(other, usize::MAX)
    }

    /// Like [`Self::merge`], but stops when `cancel` is raised.
    pub fn merge_watched(&mut self, other: Partials, cancel: &Cancel) -> Result<()> {
        self.fold(other, &mut Room::watched(usize::MAX, cancel))
    }

    /// Merges the results of another part; fails with [`ErrorKind::TooManyBuckets`] if the result has more than
    /// `max_buckets` buckets (of all levels). Walks once over the existing buckets, in addition to the new ones.
    ///
    /// Candidates of `terms` count here, so this limit protects memory and belongs to the executor;
    /// [`crate::aggs::Aggregations::finish`] enforces the limit of an answer (`search.max_buckets`).
    pub fn merge_within(&mut self, other: Partials, max_buckets: usize) -> Result<()> {
        let mut room = Room::new(max_buckets);
        if max_buckets < usize::MAX {
            room.take(self.bucket_count())?;
        }
        self.fold(other, &mut room)
    }

    /// Returns the buckets of all levels; the single bucket of a `filter` counts too.
    pub fn bucket_count(&self) -> usize {
        self.0.values().map(Partial::bucket_count).sum()
    }

    pub(super) fn fold(&mut self, other: Partials, room: &mut Room) -> Result<()> {
        for (name, theirs) in other.0 {
            match self.0.get_mut(&name) {
                Some(own) => own.fold(&name, theirs, room)?,
                None => {
                    room.take_with(|| theirs.bucket_count())?;
                    self.0.insert(name, theirs);
                }
            }
        }
        Ok(())
    }
}

impl Partial {
    /// Returns the buckets of all levels.
    pub fn bucket_count(&self) -> usize {
        match self {
            Self::Terms(terms) => count(terms.buckets.values()),
            Self::DateHistogram(histogram) => count(histogram.buckets.values()),
            Self::Histogram(histogram) => count(histogram.buckets.values()),
            Self::AutoDateHistogram(histogram) => count(histogram.buckets.values()),
            Self::RareTerms(rare) => count(rare.buckets.values()),
            Self::Composite(composite) => count(composite.buckets.values()),
            Self::SignificantTerms(terms) => count(terms.buckets.values()),
            Self::Sample(_) => 1,
            Self::Listed(listed) => count(&listed.buckets),
            Self::Metric(_)
            | Self::ExtendedStats(_)
            | Self::Digest(_)
            | Self::WeightedAvg(_)
            | Self::StringStats(_)
            | Self::TopMetrics(_)
            | Self::Cardinality(_)
            | Self::TopHits(_) => 0,
            Self::Single(bucket) => bucket.bucket_count(),
        }
    }

    /// Returns the buckets of this aggregation, without those of sub-aggregations, unordered.
    pub fn buckets_mut(&mut self) -> Vec<&mut Bucket> {
        match self {
            Self::Terms(terms) => terms.buckets.values_mut().collect(),
            Self::DateHistogram(histogram) => histogram.buckets.values_mut().collect(),
            Self::Histogram(histogram) => histogram.buckets.values_mut().collect(),
            Self::AutoDateHistogram(histogram) => histogram.buckets.values_mut().collect(),
            Self::RareTerms(rare) => rare.buckets.values_mut().collect(),
            Self::Composite(composite) => composite.buckets.values_mut().collect(),
            Self::SignificantTerms(terms) => terms.buckets.values_mut().collect(),
            Self::Sample(_) => Vec::new(),
            Self::Listed(listed) => listed.buckets.iter_mut().collect(),
            Self::Metric(_)
            | Self::ExtendedStats(_)
            | Self::Digest(_)
            | Self::WeightedAvg(_)
            | Self::StringStats(_)
            | Self::TopMetrics(_)
            | Self::Cardinality(_)
            | Self::TopHits(_) => Vec::new(),
            Self::Single(bucket) => vec![bucket],
        }
    }

    fn fold(&mut self, name: &str, other: Self, room: &mut Room) -> Result<()> {
        match (self, other) {
            (Self::Terms(own), Self::Terms(theirs)) => own.fold(theirs, room),
            (Self::DateHistogram(own), Self::DateHistogram(theirs)) => own.fold(theirs, room),
            (Self::Histogram(own), Self::Histogram(theirs)) => own.fold(theirs, room),
            (Self::Listed(own), Self::Listed(theirs)) => own.fold(theirs, room),
            (Self::AutoDateHistogram(own), Self::AutoDateHistogram(theirs)) => own.fold(theirs, room),
            (Self::RareTerms(own), Self::RareTerms(theirs)) => own.fold(theirs, room),
            (Self::Composite(own), Self::Composite(theirs)) => own.fold(theirs, room),
            (Self::SignificantTerms(own), Self::SignificantTerms(theirs)) => own.fold(theirs, room),
            (Self::Sample(own), Self::Sample(theirs)) => {
                own.fold(theirs);
                Ok(())
            }
            // An empty sample, merged with samples that are buckets already.
            (own @ Self::Sample(_), theirs @ Self::Single(_)) => {
                *own = theirs;
                Ok(())
            }
            (Self::Single(_), Self::Sample(_)) => Ok(()),
            (Self::Metric(own), Self::Metric(theirs)) => {
                own.merge(&theirs);
                Ok(())
            }
            (Self::ExtendedStats(own), Self::ExtendedStats(theirs)) => {
                own.merge(&theirs);
                Ok(())
            }
            (Self::Digest(own), Self::Digest(theirs)) => {
                own.merge(theirs);
                Ok(())
            }
            (Self::WeightedAvg(own), Self::WeightedAvg(theirs)) => {
                own.merge(&theirs);
                Ok(())
            }
            (Self::StringStats(own), Self::StringStats(theirs)) => {
                own.merge(&theirs);
                Ok(())
            }
            (Self::TopMetrics(own), Self::TopMetrics(theirs)) => {
                own.merge(theirs);
                Ok(())
            }
            (Self::Cardinality(own), Self::Cardinality(theirs)) => {
                own.merge(&theirs);
                Ok(())
            }
            (Self::Single(own), Self::Single(theirs)) => own.fold(theirs, room),
            (Self::TopHits(own), Self::TopHits(theirs)) => {
                own.merge(theirs);
                Ok(())
            }
            _ => Err(Error::internal(format!(
                "cannot merge partial results of aggregation [{name}]: they are of different kinds"
            ))),
        }
    }
}

/// Merges buckets by key.
pub(super) fn fold_buckets<K: Eq + Hash>(
    own: &mut HashMap<K, Bucket>,
    others: impl IntoIterator<Item = (K, Bucket)>,
    room: &mut Room,
) -> Result<()> {
    for (key, bucket) in others {
        match own.entry(key) {
            Entry::Occupied(mut own) => own.get_mut().fold(bucket, room)?,
            Entry::Vacant(vacant) => {
                room.take_with(|| bucket.bucket_count())?;
                vacant.insert(bucket);
            }
        }
    }
    Ok(())
}

fn count<'a>(buckets: impl IntoIterator<Item = &'a Bucket>) -> usize {
    buckets.into_iter().map(Bucket::bucket_count).sum()
}

impl Bucket {
    /// Returns the number of buckets, this one and those of all levels below.
    pub fn bucket_count(&self) -> usize {
        1 + self.sub.bucket_count()
    }

    pub(super) fn fold(&mut self, other: Self, room: &mut Room) -> Result<()> {
        room.watch.tick()?;
        self.doc_count += other.doc_count;
        self.sub.fold(other.sub, room)
    }
}

/// Bucket limit and cancellation of a merge.
pub(super) struct Room {
    max: usize,
    used: usize,
    pub(super) watch: Watch,
}

impl Room {
    pub(super) fn new(max: usize) -> Self {
        Self::watched(max, &Cancel::default())
    }

    pub(super) fn watched(max: usize, cancel: &Cancel) -> Self {
        Self {
            max,
            used: 0,
            watch: Watch::new(cancel),
        }
    }

    /// Takes as many buckets from the limit as `count` returns; without a limit it does not count.
    pub(super) fn take_with(&mut self, count: impl FnOnce() -> usize) -> Result<()> {
        self.watch.tick()?;
        if self.max == usize::MAX {
            return Ok(());
        }
        self.take(count())
    }

    /// Takes buckets from the limit, or fails.
    pub(super) fn take(&mut self, count: usize) -> Result<()> {
        self.used = self.used.saturating_add(count);
        if self.used > self.max {
            return Err(too_many_buckets(self.max));
        }
        Ok(())
    }
}

/// Returns the error of a request that would hold or return more buckets than allowed.
pub fn too_many_buckets(max: usize) -> Error {
    Error::new(
        ErrorKind::TooManyBuckets,
        format!(
            "Trying to create too many buckets. Must be less than or equal to: [{max}] but this number of buckets was \
             exceeded. This limit can be set by changing the [search.max_buckets] cluster level setting."
        ),
    )
}
