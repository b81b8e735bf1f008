//! What a run gets from outside.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::budget::Budget;
use super::pipeline::Pipeline;
use super::tables::{NoTables, Tables};

/// Pipelines by id, for the processor `pipeline`.
pub trait Pipelines: Sync {
    /// Returns a pipeline.
    fn pipeline(&self, id: &str) -> Option<Arc<Pipeline>>;
}

/// No pipelines.
#[derive(Debug, Clone, Copy)]
pub struct NoPipelines;

impl Pipelines for NoPipelines {
    fn pipeline(&self, _id: &str) -> Option<Arc<Pipeline>> {
        None
    }
}

/// Authenticated caller of the request, for `set_security_user`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Caller {
    /// Name of the user.
    pub username: String,
    /// Roles of the user.
    pub roles: Vec<String>,
    /// Full name.
    pub full_name: Option<String>,
    /// Address.
    pub email: Option<String>,
    /// Metadata of the user.
    pub metadata: Map<String, Value>,
    /// Name and type of the realm.
    pub realm: Option<(String, String)>,
    /// `realm`, `api_key`, `token`, `anonymous` or `internal`, in upper case as Elasticsearch prints it.
    pub authentication_type: Option<String>,
    /// Id, name and metadata of the API key, if one was used.
    pub api_key: Option<(String, String, Map<String, Value>)>,
}

/// What a run gets from outside. One context serves all documents of a request.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Time of the request, ms since the epoch: `_ingest.timestamp`.
    pub now_ms: i64,
    /// Other pipelines.
    pub pipelines: &'a dyn Pipelines,
    /// Look-up tables.
    pub tables: &'a dyn Tables,
    /// Authenticated caller.
    pub caller: Option<&'a Caller>,
    /// Clock of the statistics: nanoseconds of any start. Without a clock, times are 0.
    pub clock: Option<&'a (dyn Fn() -> u64 + Sync)>,
    /// What each document may cost.
    pub budget: Budget,
}

impl Context<'_> {
    /// Creates a context without pipelines, tables, caller and clock.
    pub fn new(now_ms: i64) -> Self {
        Self {
            now_ms,
            pipelines: &NoPipelines,
            tables: &NoTables,
            caller: None,
            clock: None,
            budget: Budget::default(),
        }
    }
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("now_ms", &self.now_ms)
            .finish_non_exhaustive()
    }
}
