//! Translation of errors to HTTP statuses and Elasticsearch's error bodies. No other code in firn builds error
//! statuses.

use firn_engine::{Error, ErrorKind};
use firn_model::metadata::Metadata;
use http::StatusCode;
use serde_json::{Map, Value, json};

/// Accepted authentication schemes, for `WWW-Authenticate` and the bodies of 401s.
pub(crate) const CHALLENGES: [&str; 2] = [r#"Basic realm="security", charset="UTF-8""#, "ApiKey"];

/// Error of a handler.
#[derive(Debug, Clone)]
pub(crate) enum ApiError {
    /// Error of the engine, or of parsing the request.
    Engine(Error),
    /// Error type of Elasticsearch's REST layer without an [`ErrorKind`].
    Rest {
        status: StatusCode,
        error_type: &'static str,
        reason: String,
    },
    /// Error with the body `{"error": "sentence", "status": N}`, as for a wrong method.
    Plain {
        status: StatusCode,
        sentence: String,
        /// Value of the header `Allow`, for 405.
        allow: Option<String>,
    },
    /// Search with failed shards.
    Search(Box<SearchFailure>),
}

/// The parts of a `search_phase_execution_exception`.
#[derive(Debug, Clone)]
pub(crate) struct SearchFailure {
    /// `all shards failed` or `Partial shards failure`.
    pub(crate) reason: &'static str,
    /// Index, shard, error.
    pub(crate) failures: Vec<(String, u32, Error)>,
    /// Id of the node that answers.
    pub(crate) node_id: String,
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<serde_json::Error> for ApiError {
    fn from(error: serde_json::Error) -> Self {
        Self::Engine(error.into())
    }
}

/// Returns Elasticsearch's `type` of a kind, for errors that are stored and shown later.
pub fn error_type(kind: ErrorKind) -> &'static str {
    status_and_type(kind).1
}

/// Returns status and `type` of a kind.
pub(crate) fn status_and_type(kind: ErrorKind) -> (StatusCode, &'static str) {
    let (status, error_type) = match kind {
        ErrorKind::IndexNotFound => (404, "index_not_found_exception"),
        ErrorKind::AliasNotFound => (404, "aliases_not_found_exception"),
        ErrorKind::ResourceNotFound => (404, "resource_not_found_exception"),
        ErrorKind::SearchContextMissing => (404, "search_context_missing_exception"),
        ErrorKind::RepositoryMissing => (404, "repository_missing_exception"),
        ErrorKind::SnapshotMissing => (404, "snapshot_missing_exception"),
        ErrorKind::DocumentMissing => (404, "document_missing_exception"),
        ErrorKind::ResourceAlreadyExists => (400, "resource_already_exists_exception"),
        ErrorKind::InvalidIndexName => (400, "invalid_index_name_exception"),
        ErrorKind::InvalidAliasName => (400, "invalid_alias_name_exception"),
        ErrorKind::InvalidSnapshotName => (400, "invalid_snapshot_name_exception"),
        ErrorKind::IllegalArgument => (400, "illegal_argument_exception"),
        ErrorKind::Parsing => (400, "parsing_exception"),
        ErrorKind::JsonParse => (400, "x_content_parse_exception"),
        ErrorKind::RequestValidation => (400, "action_request_validation_exception"),
        ErrorKind::MapperParsing => (400, "mapper_parsing_exception"),
        ErrorKind::DocumentParsing => (400, "document_parsing_exception"),
        ErrorKind::StrictDynamicMapping => (400, "strict_dynamic_mapping_exception"),
        ErrorKind::QueryShard => (400, "query_shard_exception"),
        ErrorKind::TooManyBuckets => (400, "too_many_buckets_exception"),
        ErrorKind::IndexClosed => (400, "index_closed_exception"),
        ErrorKind::RoutingMissing => (400, "routing_missing_exception"),
        ErrorKind::Script => (400, "script_exception"),
        ErrorKind::Unauthenticated => (401, "security_exception"),
        ErrorKind::Forbidden => (403, "security_exception"),
        ErrorKind::IndexBlocked => (403, "cluster_block_exception"),
        ErrorKind::NotImplemented => (400, "not_implemented_exception"),
        ErrorKind::VersionConflict => (409, "version_conflict_engine_exception"),
        ErrorKind::Conflict => (409, "illegal_state_exception"),
        ErrorKind::TooLarge => (413, "content_too_long_exception"),
        ErrorKind::Rejected => (429, "es_rejected_execution_exception"),
        ErrorKind::QuotaExceeded => (429, "quota_exceeded_exception"),
        ErrorKind::TooManyScrollContexts => (429, "too_many_scroll_contexts_exception"),
        ErrorKind::CircuitBreaking => (429, "circuit_breaking_exception"),
        ErrorKind::DiskFull => (429, "cluster_block_exception"),
        ErrorKind::ShardDamaged | ErrorKind::ShardNotReady => (503, "no_shard_available_action_exception"),
        ErrorKind::Unavailable => (503, "repository_exception"),
        ErrorKind::SnapshotInProgress => (503, "concurrent_snapshot_execution_exception"),
        ErrorKind::SnapshotRestore => (500, "snapshot_restore_exception"),
        ErrorKind::Repository => (500, "repository_exception"),
        ErrorKind::Timeout => (504, "timeout_exception"),
        ErrorKind::Cancelled => (499, "task_cancelled_exception"),
        ErrorKind::IngestProcessor => (500, "ingest_processor_exception"),
        ErrorKind::Internal => (500, "exception"),
    };
    (
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        error_type,
    )
}

/// Returns the object for `error`, `reason` or `caused_by`. If metadata is given, the object has the uuid of the index.
pub(crate) fn error_object(error: &Error, metadata: Option<&Metadata>) -> Map<String, Value> {
    let (_, error_type) = status_and_type(error.kind());
    let mut object = Map::new();
    object.insert("type".into(), error_type.into());
    object.insert("reason".into(), error.reason().into());
    if let Some((line, column)) = error.position() {
        object.insert("line".into(), line.into());
        object.insert("col".into(), column.into());
    }
    if let Some(index) = error.index() {
        let uuid = metadata
            .and_then(|metadata| metadata.indices.get(index))
            .map_or("_na_", |index| index.uuid.as_str());
        if error.kind() == ErrorKind::IndexNotFound {
            object.insert("resource.type".into(), "index_or_alias".into());
            object.insert("resource.id".into(), index.into());
        }
        object.insert("index_uuid".into(), uuid.into());
        object.insert("index".into(), index.into());
    }
    if let Some(details) = error.details() {
        object.extend(details.clone());
    }
    if let Some(cause) = error.cause() {
        object.insert("caused_by".into(), Value::Object(error_object(cause, metadata)));
    }
    object
}

impl ApiError {
    /// Creates a 400 with a type that only the REST layer has.
    pub(crate) fn bad_request(error_type: &'static str, reason: impl Into<String>) -> Self {
        Self::Rest {
            status: StatusCode::BAD_REQUEST,
            error_type,
            reason: reason.into(),
        }
    }

    /// Creates a 400 whose reason lists the problems in Elasticsearch's numbered form.
    pub(crate) fn validation(problems: &[String]) -> Self {
        Self::Engine(Error::validation(problems))
    }

    /// Returns the status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Engine(error) => status_and_type(error.kind()).0,
            Self::Rest { status, .. } | Self::Plain { status, .. } => *status,
            Self::Search(failure) => failure.status(),
        }
    }

    /// Returns after how many seconds the client should retry, if known.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            Self::Engine(error) if matches!(error.kind(), ErrorKind::QuotaExceeded | ErrorKind::Rejected) => {
                error.details()?.get("retry_after_seconds")?.as_u64()
            }
            _ => None,
        }
    }

    /// Returns the `type` in the body, if it has one.
    pub(crate) fn error_type(&self) -> Option<&'static str> {
        match self {
            Self::Engine(error) => Some(status_and_type(error.kind()).1),
            Self::Rest { error_type, .. } => Some(error_type),
            Self::Search(_) => Some("search_phase_execution_exception"),
            Self::Plain { .. } => None,
        }
    }

    /// Returns this error as the cause of an error of another type, in the form for the inside of an answer.
    pub(crate) fn wrapped(&self, error_type: &'static str, reason: &'static str, metadata: Option<&Metadata>) -> Value {
        let mut cause = self.body(metadata, false)["error"].take();
        if let Some(cause) = cause.as_object_mut() {
            cause.remove("root_cause");
        }
        json!({"type": error_type, "reason": reason, "caused_by": cause})
    }

    /// Returns the whole body.
    pub(crate) fn body(&self, metadata: Option<&Metadata>, trace: bool) -> Value {
        let status = self.status().as_u16();
        let mut object = match self {
            Self::Plain { sentence, .. } => return json!({"error": sentence, "status": status}),
            // Scripts run during the reduce phase, so no shard is to blame.
            Self::Engine(error) if error.kind() == ErrorKind::Script => reduce_failure(error, metadata),
            Self::Engine(error) => {
                let object = error_object(error, metadata);
                let mut root = error;
                // Elasticsearch reports the innermost of its exceptions; firn descends only through causes of the same
                // kind.
                while let Some(cause) = root.cause().filter(|cause| cause.kind() == error.kind()) {
                    root = cause;
                }
                let mut root = error_object(root, metadata);
                root.remove("caused_by");
                with_root_cause(vec![Value::Object(root)], object)
            }
            Self::Rest { error_type, reason, .. } => {
                let mut object = Map::new();
                object.insert("type".into(), (*error_type).into());
                object.insert("reason".into(), reason.as_str().into());
                with_root_cause(vec![Value::Object(object.clone())], object)
            }
            Self::Search(failure) => failure.object(metadata),
        };
        if trace {
            let text = match self {
                Self::Engine(error) => format!("{error:?}"),
                other => format!("{other:?}"),
            };
            object.insert("stack_trace".into(), text.into());
        }
        json!({"error": object, "status": status})
    }
}

/// Returns a failure of the reduce phase in the form of Elasticsearch.
fn reduce_failure(error: &Error, metadata: Option<&Metadata>) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("type".into(), "search_phase_execution_exception".into());
    object.insert("reason".into(), "".into());
    object.insert("phase".into(), "fetch".into());
    object.insert("grouped".into(), true.into());
    object.insert("failed_shards".into(), Value::Array(Vec::new()));
    object.insert("caused_by".into(), Value::Object(error_object(error, metadata)));
    with_root_cause(Vec::new(), object)
}

fn with_root_cause(root_cause: Vec<Value>, object: Map<String, Value>) -> Map<String, Value> {
    let mut whole = Map::new();
    whole.insert("root_cause".into(), Value::Array(root_cause));
    whole.extend(object);
    whole
}

impl SearchFailure {
    /// Returns the highest status of the failures; a server error other than a timeout becomes 503.
    fn status(&self) -> StatusCode {
        self.failures
            .iter()
            .map(|(_, _, error)| status_and_type(error.kind()).0)
            .max()
            .map_or(StatusCode::SERVICE_UNAVAILABLE, |status| {
                if status.is_server_error() && status != StatusCode::GATEWAY_TIMEOUT {
                    StatusCode::SERVICE_UNAVAILABLE
                } else {
                    status
                }
            })
    }

    fn object(&self, metadata: Option<&Metadata>) -> Map<String, Value> {
        let mut root_cause: Vec<Value> = Vec::new();
        let mut failed_shards = Vec::new();
        for (index, shard, error) in &self.failures {
            let failure = shard_failure(index, *shard, error, &self.node_id, metadata);
            // Elasticsearch groups equal causes of one index.
            if !root_cause.contains(&failure["reason"]) {
                root_cause.push(failure["reason"].clone());
                failed_shards.push(failure);
            }
        }
        let mut object = Map::new();
        object.insert("type".into(), "search_phase_execution_exception".into());
        object.insert("reason".into(), self.reason.into());
        object.insert("phase".into(), "query".into());
        object.insert("grouped".into(), true.into());
        object.insert("failed_shards".into(), Value::Array(failed_shards));
        if let Some(cause) = self.failures.first().and_then(|(_, _, error)| error.cause()) {
            object.insert("caused_by".into(), Value::Object(error_object(cause, metadata)));
        }
        with_root_cause(root_cause, object)
    }
}

/// Returns an entry of `_shards.failures`.
pub(crate) fn shard_failure(
    index: &str,
    shard: u32,
    error: &Error,
    node_id: &str,
    metadata: Option<&Metadata>,
) -> Value {
    let mut reason = error_object(error, metadata);
    if !reason.contains_key("index") && !index.is_empty() {
        let uuid = metadata
            .and_then(|metadata| metadata.indices.get(index))
            .map_or("_na_", |index| index.uuid.as_str());
        reason.insert("index_uuid".into(), uuid.into());
        reason.insert("index".into(), index.into());
    }
    if index.is_empty() {
        // A failed search context belongs to no known shard.
        return json!({"shard": -1, "index": null, "reason": reason});
    }
    json!({"shard": shard, "index": index, "node": node_id, "reason": reason})
}
