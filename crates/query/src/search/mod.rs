//! Search request and search response.
//!
//! `parse` reads the body of `_search` (and the URL parameters with the same meaning); it refuses unsupported parts by
//! name. Values of sort keys are passed as JSON.

pub mod cache_key;
mod collapse;
mod context;
mod highlight;
mod hit;
mod memory;
mod parse;
mod print;
mod profile;
pub mod properties;
mod shape;
mod sort;
mod visit;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use firn_model::Error;
use firn_model::names::IndicesOptions;
use serde_json::Value;

use crate::aggs::Aggregations;
use crate::query::Query;

pub use collapse::{Collapse, InnerHits};
pub use context::{PointInTime, Slice, parse_keep_alive};
pub use highlight::{BoundaryScanner, Highlight, HighlightBudget, HighlightField, HighlightOptions, Highlighter};
pub use hit::{Hit, InnerPage, write_score};
pub use memory::bytes_of_value;
pub use parse::parse_track_total_hits;
pub(crate) use parse::refused_keys;
pub use profile::{AggregationProfile, PartTimes, Profile, SegmentCounts, ShardProfile};
pub use shape::HitShape;
pub(crate) use shape::{ShapeParser, unknown as unknown_key};
pub use sort::parse_sort_param;
pub(crate) use sort::{parse as parse_sort, print as print_sort, without_default as without_default_sort};

/// Indices of a request: the expression as written, and the options for resolving it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexTarget {
    /// Comma-separated parts: names, aliases, data streams, wildcards, `-exclusions`, `<date-math>`.
    /// Empty, `_all` or `*`: every index.
    pub expression: Vec<String>,
    /// `ignore_unavailable`, `allow_no_indices`, `expand_wildcards`.
    pub options: IndicesOptions,
}

/// Explanation of a query on one shard.
#[derive(Debug, Clone)]
pub struct QueryExplanation {
    /// Concrete index.
    pub index: String,
    /// Shard number.
    pub shard: u32,
    /// The query as Lucene prints it, or why it cannot run on the shard.
    pub outcome: Result<String, Error>,
}

/// Parsed search request with all defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRequest {
    /// Target indices.
    pub target: IndexTarget,
    /// Query that selects the documents.
    pub query: Query,
    /// Filter of the hits and their count, but not of the aggregations.
    pub post_filter: Option<Query>,
    /// Hits to skip; `from + size` is at most `index.max_result_window`.
    pub from: usize,
    /// Maximum hits to return; 0 is common and skips sorting and fetching.
    pub size: usize,
    /// Empty: sorted by score, highest first.
    pub sort: Vec<SortKey>,
    /// Sort values of the last hit of the previous page, as JSON; one per sort key.
    pub search_after: Option<Vec<Value>>,
    /// Returned parts of each hit.
    pub shape: HitShape,
    /// If set, one hit per value of a field.
    pub collapse: Option<Collapse>,
    /// Named aggregations; may be empty.
    pub aggs: Aggregations,
    /// Prefix each aggregation name in the answer with its type (`sterms#name`).
    pub typed_keys: bool,
    /// Index expressions (concrete names after the engine resolved them) and the boost of their documents' scores; the
    /// first match applies.
    pub indices_boost: Vec<(String, f32)>,
    /// Report where the time goes.
    pub profile: bool,
    /// How exactly to count hits.
    pub track_total_hits: TrackTotalHits,
    /// Compute scores even if sorted by another key.
    pub track_scores: bool,
    /// Leave out documents with a lower score.
    pub min_score: Option<f32>,
    /// After this time the answer is partial, with `timed_out: true`.
    pub timeout: Option<Duration>,
    /// Whether segment results may be cached and reused; `None`: as the index setting says.
    pub request_cache: Option<bool>,
    /// Documents collected per shard before stopping with `terminated_early: true`; 0: no limit.
    pub terminate_after: u64,
    /// Empty: all shards.
    pub routing: Vec<String>,
    /// Only shards of these numbers (`preference=_shards:0,2`). Empty: all.
    pub only_shards: Vec<u32>,
    /// Shard failures fail the request (false) or are reported with the results of the rest (true).
    pub allow_partial_results: bool,
    /// Search this point in time instead of `target`.
    pub point_in_time: Option<PointInTime>,
    /// Keep the view for further pages, this long after each.
    pub scroll: Option<Duration>,
    /// If set, search one slice only.
    pub slice: Option<Slice>,
    /// Maximum shards to search concurrently; `None`: limited by free threads only.
    pub concurrent_shards_max: Option<u32>,
}

/// Value of `track_total_hits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackTotalHits {
    /// Count exactly.
    Exact,
    /// Count exactly up to this number, then report `gte`. Default 10,000.
    UpTo(u64),
    /// No total in the answer.
    No,
}

/// One key of `sort`.
#[derive(Debug, Clone, PartialEq)]
pub struct SortKey {
    /// Compared value.
    pub by: SortBy,
    /// Largest value first.
    pub descending: bool,
    /// Position of documents without the field.
    pub missing: SortMissing,
    /// Which of several values to compare; `None`: min ascending, max descending.
    pub mode: Option<SortMode>,
    /// Type of the field where it is unmapped; without it an unmapped field is an error.
    pub unmapped_type: Option<String>,
    /// Compare as numbers of this type, independent of the field's type.
    pub numeric_type: Option<NumericType>,
    /// Date format of the values in the answer.
    pub format: Option<String>,
}

/// Compared value of a sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortBy {
    /// `_score`.
    Score,
    /// `_doc`: index order, the cheapest sort.
    Doc,
    /// `_shard_doc`: index order as a tie-breaker, stable only on a point in time.
    ShardDoc,
    /// A field's doc values.
    Field(String),
}

/// `missing` of a sort key.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum SortMissing {
    /// `_last`, the default.
    #[default]
    Last,
    /// `_first`.
    First,
    /// Sorted as if the field had this value.
    Value(Value),
}

/// `mode` of a sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum SortMode {
    Min,
    Max,
    Sum,
    Avg,
    Median,
}

/// `numeric_type` of a sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum NumericType {
    Long,
    Double,
    Date,
    DateNanos,
}

/// An entry of `fields` or `docvalue_fields`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldSpec {
    /// A path, wildcards allowed.
    pub field: String,
    /// A date format or `use_field_mapping`.
    pub format: Option<String>,
}

/// Answer of a search.
#[derive(Debug, Clone, Default)]
pub struct SearchResponse {
    /// Duration, ms.
    pub took_ms: u64,
    /// A shard ran into the timeout; hits and aggregations cover only what was read.
    pub timed_out: bool,
    /// Whether `terminate_after` stopped the search (set only with that parameter).
    pub terminated_early: Option<bool>,
    /// Searched shards and their results.
    pub shards: SearchShards,
    /// `None` for `TrackTotalHits::No`.
    pub total: Option<TotalHits>,
    /// Highest score; `None`: hits are not scored.
    pub max_score: Option<f32>,
    /// Hits of the page.
    pub hits: Vec<Hit>,
    /// Aggregations as Elasticsearch prints them; `None`: none requested.
    pub aggregations: Option<Arc<Value>>,
    /// Set only if requested.
    pub profile: Option<Profile>,
    /// Id of the searched point in time.
    pub pit_id: Option<String>,
    /// Id for the next page of a scroll.
    pub scroll_id: Option<String>,
    /// Printed JSON of a cached answer.
    pub printed: Option<Arc<Printed>>,
}

/// Printed JSON of a cached answer; the first request that needs a part prints it for all.
#[derive(Debug, Default)]
pub struct Printed {
    /// The hits of the page, with commas between them.
    pub hits: OnceLock<Bytes>,
    /// The aggregations.
    pub aggregations: OnceLock<Bytes>,
}

/// `_shards` of a search.
#[derive(Debug, Clone, Default)]
pub struct SearchShards {
    /// All shards of the target.
    pub total: u32,
    /// Successful shards, skipped ones included.
    pub successful: u32,
    /// Pruned shards: they cannot hold a hit.
    pub skipped: u32,
    /// Failed shards: index, shard number, error.
    pub failures: Vec<(String, u32, Error)>,
}

/// `hits.total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TotalHits {
    /// Number of hits.
    pub value: u64,
    /// Exact (`eq`), or a lower bound (`gte`).
    pub exact: bool,
}
