//! Numeric value of a sub-aggregation by which buckets are ordered.

use super::digest::SortedDigest;
use super::{AggregationKind, ExtendedStatsPartial, Key, Partial, boxplot};

/// Value to read from a partial result.
pub(super) enum SortValue {
    DocCount,
    Count,
    Min,
    Max,
    Sum,
    Avg,
    Cardinality,
    /// A field of `extended_stats`, and its `sigma`.
    Extended(String, f64),
    /// Value at this percentile.
    Percentile(f64),
    /// Percentage of values below this value.
    PercentileRank(f64),
    MedianAbsoluteDeviation,
    /// A field of `boxplot`.
    Boxplot(String),
    WeightedAvg,
    /// A field of `string_stats`.
    StringStats(String),
    /// A metric of the only row of `top_metrics`, by index.
    TopMetric(usize, Box<super::TopMetrics>),
}

impl SortValue {
    /// Returns the meaning of `aggregation.key`; `None` if it has no order.
    pub(super) fn of(kind: &AggregationKind, key: Option<&str>) -> Option<Self> {
        let single = |value: Self| matches!(key, None | Some("value")).then_some(value);
        let number = |known: &[f64]| {
            let number: f64 = key?.parse().ok()?;
            known.contains(&number).then_some(number)
        };
        match kind {
            AggregationKind::Min(_) => single(Self::Min),
            AggregationKind::Max(_) => single(Self::Max),
            AggregationKind::Sum(_) => single(Self::Sum),
            AggregationKind::Avg(_) => single(Self::Avg),
            AggregationKind::ValueCount(_) => single(Self::Count),
            AggregationKind::Cardinality(_) => single(Self::Cardinality),
            AggregationKind::MedianAbsoluteDeviation(_) => single(Self::MedianAbsoluteDeviation),
            AggregationKind::WeightedAvg(_) => single(Self::WeightedAvg),
            kind if kind.is_single_bucket() => {
                matches!(key, None | Some("_count" | "doc_count")).then_some(Self::DocCount)
            }
            AggregationKind::Stats(_) => match key? {
                "count" => Some(Self::Count),
                "min" => Some(Self::Min),
                "max" => Some(Self::Max),
                "sum" => Some(Self::Sum),
                "avg" => Some(Self::Avg),
                _ => None,
            },
            AggregationKind::ExtendedStats(part) => {
                let field = key.filter(|field| ExtendedStatsPartial::default().field(field, part.sigma).is_some())?;
                Some(Self::Extended(field.to_owned(), part.sigma))
            }
            AggregationKind::Percentiles(part) => {
                number(&part.percents).map(|percent| Self::Percentile(percent / 100.0))
            }
            AggregationKind::PercentileRanks(part) => number(&part.values).map(Self::PercentileRank),
            AggregationKind::Boxplot(_) => key
                .filter(|name| boxplot::is_field(name))
                .map(|name| Self::Boxplot(name.to_owned())),
            AggregationKind::StringStats(_) => {
                let field = key.filter(|field| super::StringStatsPartial::default().field(field).is_some())?;
                Some(Self::StringStats(field.to_owned()))
            }
            AggregationKind::TopMetrics(part) if part.size == 1 => match key {
                Some(key) => {
                    let place = part.metrics.iter().position(|metric| metric == key)?;
                    Some(Self::TopMetric(place, Box::new(part.clone())))
                }
                None => (part.metrics.len() == 1).then(|| Self::TopMetric(0, Box::new(part.clone()))),
            },
            _ => None,
        }
    }

    /// Returns the number; NaN if there is none.
    pub(super) fn read(&self, partial: Option<&Partial>) -> f64 {
        let Some(partial) = partial else {
            return f64::NAN;
        };
        match (partial, self) {
            (Partial::Single(inner), Self::DocCount) => inner.doc_count as f64,
            (Partial::Cardinality(sketch), Self::Cardinality) => sketch.estimate() as f64,
            (Partial::Metric(metric), Self::Count) => metric.count as f64,
            (Partial::Metric(metric), Self::Min) => metric.min,
            (Partial::Metric(metric), Self::Max) => metric.max,
            (Partial::Metric(metric), Self::Sum) => metric.total(),
            (Partial::Metric(metric), Self::Avg) => metric.average().unwrap_or(f64::NAN),
            (Partial::ExtendedStats(stats), Self::Extended(field, sigma)) => {
                stats.field(field, *sigma).unwrap_or(f64::NAN)
            }
            (Partial::Digest(partial), value) => value.of_digest(&partial.digest.clone().sorted()).unwrap_or(f64::NAN),
            (Partial::WeightedAvg(partial), Self::WeightedAvg) => partial.average().unwrap_or(f64::NAN),
            (Partial::StringStats(partial), Self::StringStats(field)) => partial.field(field).unwrap_or(f64::NAN),
            (Partial::TopMetrics(partial), Self::TopMetric(place, request)) => {
                let value = partial.first(request).and_then(|row| row.metrics.get(*place)?.as_ref());
                value
                    .filter(|key| !matches!(key, Key::Str(_)))
                    .map_or(f64::NAN, Key::as_f64)
            }
            _ => f64::NAN,
        }
    }

    fn of_digest(&self, digest: &SortedDigest) -> Option<f64> {
        match self {
            Self::Percentile(part) => digest.quantile(*part),
            Self::PercentileRank(value) => digest.rank(*value).map(|part| part * 100.0),
            Self::MedianAbsoluteDeviation => digest.median_absolute_deviation(),
            Self::Boxplot(field) => boxplot::field(digest, field),
            _ => None,
        }
    }
}
