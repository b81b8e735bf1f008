//! Pipelines: aggregations over the results of other aggregations.
//!
//! They run over the finished tree ([`crate::aggs::finished`]), innermost level first. A *parent* pipeline is in the `aggs`
//! of an aggregation with several buckets and processes those buckets: it adds a value to each (`derivative`), or drops
//! and orders them (`bucket_sort`). A *sibling* pipeline is next to such an aggregation and summarizes its buckets
//! (`avg_bucket`). Pipelines of one level run in the order of the request, but after those they depend on.

mod avg_bucket;
mod bucket_script;
mod bucket_selector;
mod bucket_sort;
mod common;
mod cumulative_sum;
mod derivative;
mod extended_stats_bucket;
mod gap;
mod max_bucket;
mod min_bucket;
mod moving_fn;
mod normalize;
mod path;
mod percentiles_bucket;
mod run;
mod scripted;
mod serial_diff;
mod sibling;
mod stats_bucket;
mod sum_bucket;

use firn_model::Result;
use serde_json::{Map, Value};

use super::finished::Buckets;
use super::parse::Request;
use super::{AggregationKind, Aggregations};
use crate::expression::Steps;

pub use bucket_script::BucketScript;
pub use bucket_selector::BucketSelector;
pub use bucket_sort::BucketSort;
pub use common::Common;
pub use cumulative_sum::CumulativeSum;
pub use derivative::Derivative;
pub use extended_stats_bucket::ExtendedStatsBucket;
pub use gap::GapPolicy;
pub use moving_fn::MovingFn;
pub use normalize::{Method as NormalizeMethod, Normalize};
pub use path::BucketsPath;
pub use percentiles_bucket::PercentilesBucket;
pub(crate) use scripted::Scripted;
pub use serial_diff::SerialDiff;
pub use sibling::Sibling;

pub(super) use run::{check, in_buckets, in_level};

/// A pipeline aggregation.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Pipeline {
    Derivative(Derivative),
    CumulativeSum(CumulativeSum),
    MovingFn(MovingFn),
    SerialDiff(SerialDiff),
    BucketSort(BucketSort),
    BucketSelector(BucketSelector),
    BucketScript(BucketScript),
    Normalize(Normalize),
    AvgBucket(Sibling),
    MinBucket(Sibling),
    MaxBucket(Sibling),
    SumBucket(Sibling),
    StatsBucket(Sibling),
    ExtendedStatsBucket(ExtendedStatsBucket),
    PercentilesBucket(PercentilesBucket),
}

/// Parser of a pipeline.
pub(super) type Parse = fn(&Request<'_>) -> Result<Pipeline>;

/// One line per pipeline.
pub(super) const KINDS: &[(&str, Parse)] = &[
    (derivative::NAME, derivative::parse),
    (cumulative_sum::NAME, cumulative_sum::parse),
    (moving_fn::NAME, moving_fn::parse),
    (serial_diff::NAME, serial_diff::parse),
    (bucket_sort::NAME, bucket_sort::parse),
    (bucket_selector::NAME, bucket_selector::parse),
    (bucket_script::NAME, bucket_script::parse),
    (normalize::NAME, normalize::parse),
    (avg_bucket::NAME, avg_bucket::parse),
    (min_bucket::NAME, min_bucket::parse),
    (max_bucket::NAME, max_bucket::parse),
    (sum_bucket::NAME, sum_bucket::parse),
    (stats_bucket::NAME, stats_bucket::parse),
    (extended_stats_bucket::NAME, extended_stats_bucket::parse),
    (percentiles_bucket::NAME, percentiles_bucket::parse),
];

/// Pipeline over the buckets of its parent aggregation.
trait Parent {
    /// Returns the required kind of parent.
    fn needs(&self) -> Needs;

    /// Changes the buckets; an answer goes to index `place` of each bucket's level, which holds the results of `sub`.
    fn apply(&self, place: usize, sub: &Aggregations, buckets: &mut Buckets, steps: &mut Steps) -> Result<()>;
}

/// Requirement of a parent pipeline for its parent aggregation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Several buckets.
    Buckets,
    /// Buckets of a histogram, in order and without gaps.
    Sequence,
}

/// Summary of the buckets of a sibling aggregation.
trait Summary {
    fn common(&self) -> &Common;

    /// Returns the answer for the values; `name` returns the name of a value's bucket.
    fn answer(&self, values: &[f64], name: &dyn Fn(usize) -> String) -> Map<String, Value>;
}

impl Pipeline {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Derivative(_) => derivative::NAME,
            Self::CumulativeSum(_) => cumulative_sum::NAME,
            Self::MovingFn(_) => moving_fn::NAME,
            Self::SerialDiff(_) => serial_diff::NAME,
            Self::BucketSort(_) => bucket_sort::NAME,
            Self::BucketSelector(_) => bucket_selector::NAME,
            Self::BucketScript(_) => bucket_script::NAME,
            Self::Normalize(_) => normalize::NAME,
            Self::AvgBucket(_) => avg_bucket::NAME,
            Self::MinBucket(_) => min_bucket::NAME,
            Self::MaxBucket(_) => max_bucket::NAME,
            Self::SumBucket(_) => sum_bucket::NAME,
            Self::StatsBucket(_) => stats_bucket::NAME,
            Self::ExtendedStatsBucket(_) => extended_stats_bucket::NAME,
            Self::PercentilesBucket(_) => percentiles_bucket::NAME,
        }
    }

    /// Returns the prefix for `typed_keys`.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Derivative(_) => derivative::NAME,
            Self::MinBucket(_) | Self::MaxBucket(_) => "bucket_metric_value",
            Self::StatsBucket(_) => stats_bucket::NAME,
            Self::ExtendedStatsBucket(_) => extended_stats_bucket::NAME,
            Self::PercentilesBucket(_) => percentiles_bucket::NAME,
            _ => "simple_value",
        }
    }

    pub(super) fn print(&self) -> Value {
        let mut body = Map::new();
        match self {
            Self::Derivative(part) => part.print(&mut body),
            Self::CumulativeSum(part) => part.common.print(&mut body),
            Self::MovingFn(part) => part.print(&mut body),
            Self::SerialDiff(part) => part.print(&mut body),
            Self::BucketSort(part) => part.print(&mut body),
            Self::BucketSelector(part) => part.0.print(&mut body),
            Self::BucketScript(part) => part.print(&mut body),
            Self::Normalize(part) => part.print(&mut body),
            Self::AvgBucket(part)
            | Self::MinBucket(part)
            | Self::MaxBucket(part)
            | Self::SumBucket(part)
            | Self::StatsBucket(part) => part.common.print(&mut body),
            Self::ExtendedStatsBucket(part) => part.print(&mut body),
            Self::PercentilesBucket(part) => part.print(&mut body),
        }
        Value::Object(body)
    }

    /// Returns every path that the pipeline reads.
    fn paths(&self) -> Vec<&BucketsPath> {
        match self {
            Self::Derivative(part) => vec![&part.common.path],
            Self::CumulativeSum(part) => vec![&part.common.path],
            Self::MovingFn(part) => vec![&part.common.path],
            Self::SerialDiff(part) => vec![&part.common.path],
            Self::BucketSort(part) => part.paths().collect(),
            Self::BucketSelector(part) => part.0.paths().collect(),
            Self::BucketScript(part) => part.scripted.paths().collect(),
            Self::Normalize(part) => vec![&part.common.path],
            Self::AvgBucket(part)
            | Self::MinBucket(part)
            | Self::MaxBucket(part)
            | Self::SumBucket(part)
            | Self::StatsBucket(part) => vec![&part.common.path],
            Self::ExtendedStatsBucket(part) => vec![&part.common.path],
            Self::PercentilesBucket(part) => vec![&part.common.path],
        }
    }

    fn as_parent(&self) -> Option<&dyn Parent> {
        Some(match self {
            Self::Derivative(part) => part,
            Self::CumulativeSum(part) => part,
            Self::MovingFn(part) => part,
            Self::SerialDiff(part) => part,
            Self::BucketSort(part) => part,
            Self::BucketSelector(part) => part,
            Self::BucketScript(part) => part,
            Self::Normalize(part) => part,
            _ => return None,
        })
    }

    fn as_sibling(&self) -> Option<&dyn Summary> {
        Some(match self {
            Self::AvgBucket(part)
            | Self::MinBucket(part)
            | Self::MaxBucket(part)
            | Self::SumBucket(part)
            | Self::StatsBucket(part) => part,
            Self::ExtendedStatsBucket(part) => part,
            Self::PercentilesBucket(part) => part,
            _ => return None,
        })
    }
}

/// Returns the pipeline of an aggregation; `None`: it is not a pipeline.
fn of(kind: &AggregationKind) -> Option<&Pipeline> {
    match kind {
        AggregationKind::Pipeline(pipeline) => Some(pipeline),
        _ => None,
    }
}

#[cfg(test)]
mod test_support;
