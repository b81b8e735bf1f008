//! Aggregations over the matching documents of a segment.
//!
//! A [`Plan`] is an aggregation tree resolved against a shard's mapping. Opened on a segment, it becomes a tree of
//! collectors. They take blocks of documents, each with the number of its parent bucket. Bucket numbers are dense,
//! so all state is in vectors, without lookups by name or boxes per document. Strings are ordinals until a
//! collector is finished.

mod adjacency_matrix;
mod auto_date_histogram;
mod buckets;
mod cardinality;
mod collector;
mod components;
mod composite;
mod counts;
mod date_histogram;
mod deferred;
mod filter;
mod filters;
mod global;
mod histogram;
mod ip_prefix;
mod known_values;
mod metric;
mod missing;
mod multi_terms;
mod numbers;
mod ordered_rows;
mod plan;
mod prepared_cardinality;
mod ranges;
mod rare_terms;
mod row_order_counts;
mod sampler;
mod score_table;
mod significant_terms;
mod single;
mod source;
mod split_totals;
mod string_stats;
mod table;
mod terms;
mod top_hits;
mod top_metrics;
mod weighted_avg;

pub(super) use self::collector::DocumentOrder;
pub(super) use self::plan::{Plan, SegmentAggs};
pub(super) use self::significant_terms::{Background, BackgroundCount, Counted};
