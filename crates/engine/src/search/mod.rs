//! The search request and its answer.
//!
//! `parse` reads the body of `_search` (and the URL parameters that say the same); what firn does
//! not have is refused by name. Values of sort keys travel as JSON.

mod collapse;
mod context;
mod highlight;
mod hit;
mod memory;
mod parse;
mod profile;
mod shape;
mod sort;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use firn_model::names::IndicesOptions;
use serde_json::Value;

use crate::Error;
use crate::aggs::Aggregations;
use crate::query::Query;
use bytes::Bytes;

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

/// Which indices a request is about: the expression as written, and how to read it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexTarget {
    /// Comma-separated parts: names, aliases, data streams, wildcards, `-exclusions`, `<date-math>`.
    /// Empty, `_all` or `*`: every index.
    pub expression: Vec<String>,
    /// `ignore_unavailable`, `allow_no_indices`, `expand_wildcards`.
    pub options: IndicesOptions,
}

/// What a query means on a shard.
#[derive(Debug, Clone)]
pub struct QueryExplanation {
    /// Concrete index.
    pub index: String,
    /// The shard's number.
    pub shard: u32,
    /// The query as Lucene writes it, or why it cannot run there.
    pub outcome: Result<String, Error>,
}

/// A search, parsed and complete: every default is filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRequest {
    /// Where.
    pub target: IndexTarget,
    /// Which documents.
    pub query: Query,
    /// What hits and their count are narrowed to, and aggregations are not.
    pub post_filter: Option<Query>,
    /// Which hits are skipped; `from + size` is at most `index.max_result_window`.
    pub from: usize,
    /// How many hits to return; 0 is common and skips sorting and fetching.
    pub size: usize,
    /// Empty: by score, highest first.
    pub sort: Vec<SortKey>,
    /// Sort values of the last hit of the page before, as JSON; as many as sort keys.
    pub search_after: Option<Vec<Value>>,
    /// What of a hit is shown.
    pub shape: HitShape,
    /// One hit for each value of a field.
    pub collapse: Option<Collapse>,
    /// Named aggregations, maybe none.
    pub aggs: Aggregations,
    /// Put the type before the name of each aggregation in the answer (`sterms#name`).
    pub typed_keys: bool,
    /// Index expressions (concrete names once the engine has it) and what multiplies the scores of
    /// their documents; the first counts.
    pub indices_boost: Vec<(String, f32)>,
    /// Tell where the time goes.
    pub profile: bool,
    /// How exactly hits are counted.
    pub track_total_hits: TrackTotalHits,
    /// Score although sorted by something else.
    pub track_scores: bool,
    /// Lower-scored documents are left out.
    pub min_score: Option<f32>,
    /// After this, partial results with `timed_out: true`.
    pub timeout: Option<Duration>,
    /// Whether what segments answer may be kept and used again; `None`: as the index says.
    pub request_cache: Option<bool>,
    /// Documents collected per shard before stopping with `terminated_early: true`; 0: no limit.
    pub terminate_after: u64,
    /// Empty: all shards.
    pub routing: Vec<String>,
    /// Only shards of these numbers (`preference=_shards:0,2`). Empty: all.
    pub only_shards: Vec<u32>,
    /// Shard failures fail the request (false) or are reported beside the rest (true).
    pub allow_partial_results: bool,
    /// Searches what this point in time holds instead of `target`.
    pub point_in_time: Option<PointInTime>,
    /// Keeps what is searched for further pages, so long after each.
    pub scroll: Option<Duration>,
    /// One part of several that together are the whole.
    pub slice: Option<Slice>,
    /// Shards that are worked on at a time; `None`: as many as threads come free.
    pub concurrent_shards_max: Option<u32>,
}

/// `track_total_hits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackTotalHits {
    /// Exactly.
    Exact,
    /// Exactly up to this many, then `gte`. Default 10,000.
    UpTo(u64),
    /// No total in the answer.
    No,
}

/// One sort key.
#[derive(Debug, Clone, PartialEq)]
pub struct SortKey {
    /// What is compared.
    pub by: SortBy,
    /// Largest first.
    pub descending: bool,
    /// Where documents without the field go.
    pub missing: SortMissing,
    /// Which of several values counts; `None`: min ascending, max descending.
    pub mode: Option<SortMode>,
    /// Treat as this type where the field is unmapped; without it an unmapped field is an error.
    pub unmapped_type: Option<String>,
    /// Compare as numbers of this type, whatever the field's.
    pub numeric_type: Option<NumericType>,
    /// Date format of the values in the answer.
    pub format: Option<String>,
}

/// What a sort key compares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortBy {
    /// `_score`.
    Score,
    /// `_doc`: index order, the cheapest.
    Doc,
    /// `_shard_doc`: the same order, as a tie-breaker that only a point in time keeps still.
    ShardDoc,
    /// A field's doc values.
    Field(String),
}

/// `missing` of a sort key.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum SortMissing {
    /// Default.
    #[default]
    Last,
    /// `_first`.
    First,
    /// As if the field had this value.
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

/// The answer to a search.
#[derive(Debug, Clone, Default)]
pub struct SearchResponse {
    /// ms.
    pub took_ms: u64,
    /// Some shard ran out of time; hits and aggregations cover only what was read.
    pub timed_out: bool,
    /// `terminate_after` stopped it (only with that parameter).
    pub terminated_early: Option<bool>,
    /// Shards asked, and how they fared.
    pub shards: SearchShards,
    /// `None` with `TrackTotalHits::No`.
    pub total: Option<TotalHits>,
    /// Highest score; `None` when nothing was scored.
    pub max_score: Option<f32>,
    /// The page.
    pub hits: Vec<Hit>,
    /// `None` if none were asked; else the JSON object as Elasticsearch prints it.
    pub aggregations: Option<Arc<Value>>,
    /// Only if asked.
    pub profile: Option<Profile>,
    /// The point in time that was searched.
    pub pit_id: Option<String>,
    /// Asks for the next page.
    pub scroll_id: Option<String>,
    /// Of an answer that is kept for others who ask the same: what was printed of it.
    pub printed: Option<Arc<Printed>>,
}

/// Texts of an answer that is kept, as JSON; whoever needs one first prints it for all.
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
    /// All of the target.
    pub total: u32,
    /// Answered, the skipped included.
    pub successful: u32,
    /// Pruned: cannot hold a hit.
    pub skipped: u32,
    /// The rest: index, shard, why.
    pub failures: Vec<(String, u32, Error)>,
}

/// `hits.total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TotalHits {
    /// The count.
    pub value: u64,
    /// Exact (`eq`), or a lower bound (`gte`).
    pub exact: bool,
}
