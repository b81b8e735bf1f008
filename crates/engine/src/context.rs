//! Search contexts: fixed views of the searchable data, held for later searches. A point in time serves any number of
//! searches; a scroll is one search that the client reads page by page.

use std::time::Duration;

use firn_query::query::Query;
use firn_query::search::{IndexTarget, SearchShards};

pub use firn_query::search::parse_keep_alive;

/// Kind of search context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextKind {
    /// Opened by its own request (`_pit`).
    PointInTime,
    /// Opened by a search with `scroll`.
    Scroll,
}

/// Request to open a point in time.
#[derive(Debug, Clone)]
pub struct OpenPointInTime {
    /// Target indices.
    pub target: IndexTarget,
    /// Empty: all shards.
    pub routing: Vec<String>,
    /// How long the context stays open after each search.
    pub keep_alive: Duration,
    /// If set, shards that cannot hold a match are left out.
    pub index_filter: Option<Query>,
    /// Unavailable shards fail the request (false), or each search lists them as failed (true).
    pub allow_partial_results: bool,
}

/// An open point in time.
#[derive(Debug, Clone)]
pub struct OpenedPointInTime {
    /// Id of the point in time until it expires; it cannot be guessed.
    pub id: String,
    /// When it was opened, ms since epoch UTC.
    pub created_ms: i64,
    /// Shards of the point in time, and failed shards.
    pub shards: SearchShards,
}

/// An open point in time, as listed for operators.
#[derive(Debug, Clone)]
pub struct PointInTimeInfo {
    /// Id of the point in time.
    pub id: String,
    /// When it was opened, ms since epoch UTC.
    pub created_ms: i64,
    /// How long it stays open after each search.
    pub keep_alive: Duration,
}

/// Contexts to close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseContexts {
    /// All contexts of the kind.
    All,
    /// The contexts with these ids.
    Ids(Vec<String>),
}

/// Result of closing one context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedContext {
    /// Id of the context.
    pub id: String,
    /// Shards that it held; 0: the context was not open.
    pub shard_count: u32,
}

/// Request for the next page of a scroll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrollRequest {
    /// Scroll id from the previous page.
    pub id: String,
    /// How long the scroll stays open after this page. `None`: unchanged.
    pub keep_alive: Option<Duration>,
}
