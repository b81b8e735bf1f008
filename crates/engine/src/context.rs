//! Search contexts: what was searchable at one moment, held for searches to come. A point in time
//! is searched as often as one likes; a scroll is one search, read page by page.

use std::time::Duration;

use crate::query::Query;
use crate::search::{IndexTarget, SearchShards};

pub use crate::search::parse_keep_alive;

/// Which kind of context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextKind {
    /// Opened for its own sake.
    PointInTime,
    /// Opened by a search with `scroll`.
    Scroll,
}

/// Holds what is searchable now.
#[derive(Debug, Clone)]
pub struct OpenPointInTime {
    /// What to hold.
    pub target: IndexTarget,
    /// Empty: all shards.
    pub routing: Vec<String>,
    /// How long it lives on after each search.
    pub keep_alive: Duration,
    /// Shards that cannot hold a match are left out.
    pub index_filter: Option<Query>,
    /// Shards that do not serve fail the request (false), or are named by each search (true).
    pub allow_partial_results: bool,
}

/// An open point in time.
#[derive(Debug, Clone)]
pub struct OpenedPointInTime {
    /// Names it, until it expires. Nobody can guess it.
    pub id: String,
    /// When it was opened, ms since epoch UTC.
    pub created_ms: i64,
    /// The shards that it holds, and those that failed.
    pub shards: SearchShards,
}

/// A point in time that is open, for those who look after the server.
#[derive(Debug, Clone)]
pub struct PointInTimeInfo {
    /// Names it.
    pub id: String,
    /// When it was opened, ms since epoch UTC.
    pub created_ms: i64,
    /// How long it lives on after each search.
    pub keep_alive: Duration,
}

/// Contexts to close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseContexts {
    /// All of the kind.
    All,
    /// These.
    Ids(Vec<String>),
}

/// A context that was asked to close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedContext {
    /// Its name.
    pub id: String,
    /// Shards that it held; 0: it was not open.
    pub shard_count: u32,
}

/// Asks for the next page of a scroll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrollRequest {
    /// As the page before said.
    pub id: String,
    /// How long the scroll lives on after this page. `None`: as before.
    pub keep_alive: Option<Duration>,
}
