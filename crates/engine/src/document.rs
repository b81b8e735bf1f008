//! Writing and reading single documents.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::Error;
use crate::source::SourceFilter;

/// When a write becomes searchable, relative to its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Refresh {
    /// At the next refresh.
    #[default]
    No,
    /// Before the answer, by a refresh of its own.
    Now,
    /// Before the answer, at the next refresh.
    WaitFor,
}

/// Many operations.
#[derive(Debug, Clone, Default)]
pub struct BulkRequest {
    /// In the order of the body.
    pub items: Vec<BulkItem>,
    /// For all of them.
    pub refresh: Refresh,
    /// How long to wait for missing indices to be created and for room in the write queue.
    pub timeout: Option<Duration>,
}

/// One operation of a bulk.
#[derive(Debug, Clone)]
pub struct BulkItem {
    /// Index, alias or data stream; date math is resolved by the engine.
    pub index: String,
    /// `None`: the engine makes one.
    pub id: Option<String>,
    /// The value that picks the shard; `None`: the id.
    pub routing: Option<String>,
    /// What to do.
    pub operation: Operation,
    /// Which stored version it expects.
    pub expect: Expectation,
    /// Refuse to create an index: the name must be an alias.
    pub require_alias: bool,
    /// Refuse a target that is not a data stream.
    pub require_data_stream: bool,
}

/// What a write does.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Adds or replaces. `source` is kept byte for byte.
    Index {
        /// One JSON object.
        source: Bytes,
    },
    /// Adds; 409 if the id exists.
    Create {
        /// One JSON object.
        source: Bytes,
    },
    /// Changes part of a document.
    Update(Box<Update>),
    /// Removes.
    Delete,
}

/// A partial update (`doc`, `upsert`, `doc_as_upsert`, `detect_noop`).
#[derive(Debug, Clone)]
pub struct Update {
    /// Merged into the stored source.
    pub doc: Option<Value>,
    /// Stored as it is if the document is missing.
    pub upsert: Option<Value>,
    /// Use `doc` as the upsert.
    pub doc_as_upsert: bool,
    /// Answer `noop` when nothing would change (default true).
    pub detect_noop: bool,
    /// Tries after a version conflict.
    pub retry_on_conflict: u32,
    /// Whether, and what of, the new source goes into the answer (`get` in it).
    pub source: Option<SourceFilter>,
}

/// The version check of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expectation {
    /// None.
    #[default]
    Any,
    /// `if_seq_no` and `if_primary_term`.
    SeqNo {
        /// `if_seq_no`.
        seq_no: u64,
        /// `if_primary_term`.
        primary_term: u64,
    },
    /// `version_type=external`: the given one must be higher than the stored one.
    External(u64),
    /// `version_type=external_gte`.
    ExternalGte(u64),
}

/// The outcome of a bulk: as many items as asked, in their order.
#[derive(Debug, Clone, Default)]
pub struct BulkResponse {
    /// Outcome or error of each item.
    pub items: Vec<BulkItemResponse>,
}

/// What became of one item.
#[derive(Debug, Clone)]
pub struct BulkItemResponse {
    /// The concrete index, or the name as given where it could not be resolved.
    pub index: String,
    /// The document's id, the made one included; empty if the item failed before one was made.
    pub id: String,
    /// Written, or why not.
    pub result: Result<Written, Error>,
}

/// A write that happened and is as durable as its index demands.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// What it did.
    pub effect: Effect,
    /// The document's version after it.
    pub version: u64,
    /// Its place in the shard's history.
    pub seq_no: u64,
    /// Always 1 on the embedded engine.
    pub primary_term: u64,
    /// A refresh was forced for it.
    pub forced_refresh: bool,
    /// The new source of an update that asked for it, already filtered.
    pub get: Option<Value>,
}

/// The `result` of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// 201.
    Created,
    /// 200.
    Updated,
    /// 200.
    Deleted,
    /// 200: the update changed nothing.
    Noop,
    /// 404: there was nothing to delete.
    NotFound,
}

/// A read by id.
#[derive(Debug, Clone)]
pub struct GetRequest {
    /// Index, or alias of exactly one index.
    pub index: String,
    /// The id.
    pub id: String,
    /// Needed where the document was written with one.
    pub routing: Option<String>,
    /// Read what is acknowledged (default), or only what is searchable.
    pub realtime: bool,
    /// 409 unless the stored version is this.
    pub version: Option<u64>,
}

/// What a read by id found.
#[derive(Debug, Clone)]
pub struct GetResult {
    /// The concrete index.
    pub index: String,
    /// The id asked for.
    pub id: String,
    /// `None`: no such document.
    pub found: Option<StoredDocument>,
}

/// A stored document.
#[derive(Debug, Clone)]
pub struct StoredDocument {
    /// Byte for byte as it was sent.
    pub source: Bytes,
    /// Counts its changes from 1.
    pub version: u64,
    /// Its place in the shard's history.
    pub seq_no: u64,
    /// Always 1 on the embedded engine.
    pub primary_term: u64,
    /// The routing it was written with.
    pub routing: Option<String>,
    /// Fields whose value did not fit (sorted).
    pub ignored: Vec<String>,
}
