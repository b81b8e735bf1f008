//! Writes and reads of single documents.

use std::time::Duration;

use bytes::Bytes;
use firn_model::Error;
use firn_query::source::SourceFilter;
use serde_json::Value;

use crate::origin::Origin;

/// When a write becomes searchable, relative to its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Refresh {
    /// At the next refresh.
    #[default]
    No,
    /// Before the answer, by an immediate refresh.
    Now,
    /// Before the answer, at the next refresh.
    WaitFor,
}

/// Bulk request: many operations.
#[derive(Debug, Clone, Default)]
pub struct BulkRequest {
    /// In the order of the body.
    pub items: Vec<BulkItem>,
    /// Refresh policy of all items.
    pub refresh: Refresh,
    /// How long to wait for missing indices to be created and for space in the write queue.
    pub timeout: Option<Duration>,
    /// Place of the items in a source; with it the bulk is stored exactly once. Refused by an engine that lacks
    /// [`Capability::SourcePositions`](crate::Capability::SourcePositions).
    pub origin: Option<Origin>,
}

/// One operation of a bulk request.
#[derive(Debug, Clone)]
pub struct BulkItem {
    /// Index, alias or data stream; date math is resolved by the engine.
    pub index: String,
    /// `None`: the engine generates one.
    pub id: Option<String>,
    /// The value that selects the shard; `None`: the id.
    pub routing: Option<String>,
    /// The operation.
    pub operation: Operation,
    /// Expected stored version.
    pub expect: Expectation,
    /// Refuse to create an index: the name must be an alias.
    pub require_alias: bool,
    /// Refuse a target that is not a data stream.
    pub require_data_stream: bool,
}

/// Operation of a write.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Adds or replaces. `source` is stored byte for byte.
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
    /// If nothing would change, answer `noop` (default true).
    pub detect_noop: bool,
    /// Retries after a version conflict.
    pub retry_on_conflict: u32,
    /// If set, the answer includes this part of the new source (`get`).
    pub source: Option<SourceFilter>,
}

/// Version check of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expectation {
    /// No check.
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

/// Answer of a bulk request: one item per operation, in the same order.
#[derive(Debug, Clone, Default)]
pub struct BulkResponse {
    /// Outcome or error of each item.
    pub items: Vec<BulkItemResponse>,
}

/// Result of one item.
#[derive(Debug, Clone)]
pub struct BulkItemResponse {
    /// The concrete index, or the name of the request if it was not resolved.
    pub index: String,
    /// The document's id, given or generated; empty if the item failed before one was generated.
    pub id: String,
    /// The write, or the error.
    pub result: Result<Written, Error>,
}

/// A completed write, as durable as its index requires.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// Effect of the write.
    pub effect: Effect,
    /// Document version after the write.
    pub version: u64,
    /// Sequence number in the shard.
    pub seq_no: u64,
    /// Always 1 on the embedded engine.
    pub primary_term: u64,
    /// Whether the write forced a refresh.
    pub forced_refresh: bool,
    /// New source of an update that requested it, already filtered.
    pub get: Option<Value>,
}

/// `result` of a write.
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

/// Request to read a document by id.
#[derive(Debug, Clone)]
pub struct GetRequest {
    /// Index, or alias of exactly one index.
    pub index: String,
    /// The id.
    pub id: String,
    /// Required if the document was written with a routing value.
    pub routing: Option<String>,
    /// Read acknowledged writes (true, default), or only searchable documents.
    pub realtime: bool,
    /// If set, the read fails with 409 unless the stored version equals it.
    pub version: Option<u64>,
}

/// Result of a read by id.
#[derive(Debug, Clone)]
pub struct GetResult {
    /// The concrete index.
    pub index: String,
    /// The requested id.
    pub id: String,
    /// `None`: no such document.
    pub found: Option<StoredDocument>,
}

/// A stored document.
#[derive(Debug, Clone)]
pub struct StoredDocument {
    /// Byte for byte as the client sent it.
    pub source: Bytes,
    /// Version; counts the document's changes from 1.
    pub version: u64,
    /// Sequence number in the shard.
    pub seq_no: u64,
    /// Always 1 on the embedded engine.
    pub primary_term: u64,
    /// Routing value of the write.
    pub routing: Option<String>,
    /// Fields whose value did not fit the mapping (sorted).
    pub ignored: Vec<String>,
}
