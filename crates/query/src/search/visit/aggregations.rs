//! Parts of aggregations.

use firn_model::dates::CalendarUnit;

use super::{Accept, Visitor, accept_fields, accept_variants};
use crate::aggs::{
    AdjacencyMatrix, Aggregation, AggregationKind, Aggregations, AutoDateHistogram, Boxplot, Cardinality, Composite,
    CompositeSource, DateHistogram, DigestMethod, DiversifiedSampler, DoubleBounds, ExtendedStats, Filters, Heuristic,
    Histogram, Interval, IpPrefix, MedianAbsoluteDeviation, Metric, MissingField, MultiTerms, MultiTermsSource,
    PercentileRanks, Percentiles, RangeSpec, Ranges, RareTerms, Sampler, Sets, SignificantTerms, SourceKind,
    StringStats, Terms, TermsFilter, TermsOrder, TopHits, TopMetrics, Weighed, WeightedAvg,
};

/// In the order of the request, which is the order of the answer.
impl Accept for Aggregations {
    fn accept(&self, visitor: &mut dyn Visitor) {
        visitor.number(self.0.len() as u64);
        for (name, aggregation) in &self.0 {
            name.accept(visitor);
            aggregation.accept(visitor);
        }
    }
}

impl Accept for Aggregation {
    fn accept(&self, visitor: &mut dyn Visitor) {
        let Self { kind, sub, meta } = self;
        kind.accept(visitor);
        sub.accept(visitor);
        visitor.number(u64::from(meta.is_some()));
        if let Some(meta) = meta {
            visitor.json(meta);
        }
    }
}

accept_variants!(AggregationKind as aggregation {
    Terms(part),
    DateHistogram(part),
    Min(part),
    Max(part),
    Sum(part),
    Avg(part),
    Stats(part),
    ExtendedStats(part),
    Percentiles(part),
    PercentileRanks(part),
    MedianAbsoluteDeviation(part),
    Boxplot(part),
    WeightedAvg(part),
    StringStats(part),
    TopMetrics(part),
    ValueCount(part),
    Cardinality(part),
    Filter(query),
    Filters(part),
    Missing(part),
    Range(part),
    DateRange(part),
    IpRange(part),
    Histogram(part),
    TopHits(part),
    Pipeline(part),
    AutoDateHistogram(part),
    MultiTerms(part),
    RareTerms(part),
    Composite(part),
    Global,
    SignificantTerms(part),
    Sampler(part),
    DiversifiedSampler(part),
    AdjacencyMatrix(part),
    IpPrefix(part),
});

accept_fields!(Metric { field, missing, format });
accept_fields!(ExtendedStats { metric, sigma });
accept_fields!(Percentiles {
    metric,
    percents,
    keyed,
    method
});
accept_fields!(PercentileRanks {
    metric,
    values,
    keyed,
    method
});
accept_variants!(DigestMethod {
    TDigest(compression),
    Hdr(digits),
});
accept_fields!(MedianAbsoluteDeviation { metric, compression });
accept_fields!(Boxplot { metric, compression });
accept_fields!(WeightedAvg { value, weight, format });
accept_fields!(Weighed { field, missing });
accept_fields!(StringStats {
    field,
    missing,
    show_distribution,
    format
});
accept_fields!(TopMetrics {
    metrics,
    sort,
    descending,
    size
});
accept_fields!(Cardinality {
    field,
    precision_threshold,
    missing
});

accept_fields!(Terms {
    field,
    size,
    shard_size,
    min_doc_count,
    shard_min_doc_count,
    order,
    missing,
    include,
    exclude,
    show_term_doc_count_error,
    format
});
accept_variants!(TermsFilter {
    Pattern(pattern),
    Values(values),
    Partition { partition, count },
});
accept_variants!(TermsOrder {
    Count,
    Key,
    Sub(path),
});
accept_fields!(MultiTerms {
    sources,
    size,
    shard_size,
    min_doc_count,
    shard_min_doc_count,
    order,
    show_term_doc_count_error
});
accept_fields!(MultiTermsSource { field, missing, format });
accept_fields!(SignificantTerms {
    field,
    size,
    shard_size,
    min_doc_count,
    shard_min_doc_count,
    heuristic,
    background_filter,
    include,
    exclude,
    format
});
accept_variants!(Heuristic {
    Jlh,
    Percentage,
    ChiSquare(sets),
    MutualInformation(sets),
    Gnd(sets),
});
accept_fields!(Sets {
    background_is_superset,
    include_negatives
});

impl Accept for RareTerms {
    fn accept(&self, visitor: &mut dyn Visitor) {
        let Self {
            field,
            max_doc_count,
            precision,
            missing,
            include,
            exclude,
            format,
        } = self;
        field.accept(visitor);
        max_doc_count.accept(visitor);
        visitor.number(u64::from(precision.is_some()));
        if let Some(precision) = precision {
            visitor.json(precision);
        }
        missing.accept(visitor);
        include.accept(visitor);
        exclude.accept(visitor);
        format.accept(visitor);
    }
}

accept_fields!(DateHistogram {
    field,
    interval,
    time_zone,
    offset_ms,
    min_doc_count,
    extended_bounds,
    hard_bounds,
    keyed,
    format,
    missing,
    order
});
accept_variants!(Interval {
    Fixed(ms),
    Calendar(unit),
});
accept_variants!(CalendarUnit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
});
accept_fields!(AutoDateHistogram {
    field,
    buckets,
    minimum_interval,
    time_zone,
    format,
    missing
});
accept_fields!(Histogram {
    field,
    interval,
    offset,
    min_doc_count,
    extended_bounds,
    hard_bounds,
    keyed,
    format,
    missing,
    order
});
accept_fields!(DoubleBounds { min, max });
accept_fields!(Ranges {
    field,
    ranges,
    keyed,
    missing,
    format,
    time_zone
});
accept_fields!(RangeSpec { key, from, to, mask });
accept_fields!(IpPrefix {
    field,
    prefix_length,
    is_ipv6,
    append_prefix_length,
    keyed,
    min_doc_count,
    missing
});

accept_fields!(Composite { size, sources, after });
accept_fields!(CompositeSource {
    name,
    field,
    kind,
    ascending,
    missing_bucket,
    missing_first,
    format
});
accept_variants!(SourceKind {
    Terms,
    Histogram { interval },
    DateHistogram { interval, time_zone, offset_ms },
});

accept_fields!(Filters { filters, other, keyed });
accept_fields!(AdjacencyMatrix { filters, separator });
accept_fields!(MissingField { field, missing });
accept_fields!(Sampler { shard_size });
accept_fields!(DiversifiedSampler {
    field,
    shard_size,
    max_docs_per_value
});
accept_fields!(TopHits {
    from,
    size,
    sort,
    track_scores,
    shape
});
