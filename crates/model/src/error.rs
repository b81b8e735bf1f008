//! Error type of all firn libraries: a coarse kind, a reason, and the object that it concerns.
//!
//! A kind says what the caller should do next. Only `api/src/wire/error.rs` turns a kind into an HTTP status and
//! Elasticsearch's `type`; no other code builds statuses.

use std::fmt;

use serde_json::{Map, Value};

/// Result of firn's library calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of an error, chosen by what the caller should do about it.
///
/// Clients see a status and one of Elasticsearch's types. Every kind has its own pair of them, except that a damaged
/// shard and a shard that does not serve yet share one: only the former is repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// 404: the index, alias target or data stream does not exist.
    IndexNotFound,
    /// 404: one or more aliases do not exist.
    AliasNotFound,
    /// 404: a template, task or other named thing does not exist.
    ResourceNotFound,
    /// 404: the scroll or point in time does not exist, or no longer exists.
    SearchContextMissing,
    /// 404: no such snapshot repository.
    RepositoryMissing,
    /// 404: no such snapshot.
    SnapshotMissing,
    /// 404: the document to update does not exist.
    DocumentMissing,
    /// 400: the name is taken.
    ResourceAlreadyExists,
    /// 400: not a valid index name.
    InvalidIndexName,
    /// 400: not a valid alias name.
    InvalidAliasName,
    /// 400: not a valid snapshot name, or the name is taken.
    InvalidSnapshotName,
    /// 400: a parameter or setting has an invalid value.
    IllegalArgument,
    /// 400: the endpoint does not understand the request body (unknown query, wrong JSON type).
    Parsing,
    /// 400: the body is not JSON.
    JsonParse,
    /// 400: several validation errors of one request, in Elasticsearch's numbered sentence.
    RequestValidation,
    /// 400: the mapping definition is invalid.
    MapperParsing,
    /// 400: a document does not fit its mapping.
    DocumentParsing,
    /// 400: `dynamic: strict` found a field that the mapping lacks.
    StrictDynamicMapping,
    /// 400: the query cannot run on this mapping.
    QueryShard,
    /// 400: the request would build more buckets than `search.max_buckets`.
    TooManyBuckets,
    /// 400: the index is closed.
    IndexClosed,
    /// 400: the request has no routing, but the document was written with routing or the mapping requires it.
    RoutingMissing,
    /// 400: a script cannot be compiled, or fails while it runs.
    Script,
    /// 400: a feature that firn does not have; the reason names it.
    NotImplemented,
    /// 401: the caller is not authenticated: no credentials, or wrong or expired ones.
    Unauthenticated,
    /// 403: the caller is authenticated but lacks the privilege.
    Forbidden,
    /// 403: `index.blocks.write` or `index.blocks.read_only` is set.
    IndexBlocked,
    /// 409: `_version`, `_seq_no` or `op_type: create` disagrees with what is stored.
    VersionConflict,
    /// 409: the state of the resource does not allow the action, for example a repository that is in use.
    Conflict,
    /// 413: the body is larger than `http.max_content_length`.
    TooLarge,
    /// 429: a queue or memory budget is full; the client should back off and retry.
    Rejected,
    /// 429: the tenant has used up a quota; the reason names it.
    QuotaExceeded,
    /// 429: the maximum number of open scrolls is reached.
    TooManyScrollContexts,
    /// 429: the request needs more memory than its limit.
    CircuitBreaking,
    /// 429: the disk is past its flood-stage watermark; reads continue, writes wait for space.
    DiskFull,
    /// 503: a shard refuses to serve because its files are damaged; the reason names file and offset.
    ShardDamaged,
    /// 503: a shard does not serve yet: it replays its WAL, or waits for disk space to do so.
    ShardNotReady,
    /// 503: an object store or another component that the request needs does not answer; a retry may succeed.
    Unavailable,
    /// 503: another snapshot, restore or deletion of the repository is running.
    SnapshotInProgress,
    /// 500: the restored data conflicts with existing data, or the snapshot lacks it.
    SnapshotRestore,
    /// 500: the content of a repository is invalid, or a store sent an invalid answer.
    Repository,
    /// 504 if it is the error of the whole request: the request exceeded its time limit.
    Timeout,
    /// 499: the client disconnected and firn stopped the work.
    Cancelled,
    /// 500: a processor of an ingest pipeline failed on a document; the details have Elasticsearch's type.
    IngestProcessor,
    /// 500: a bug or an I/O failure; see the log.
    Internal,
}

impl ErrorKind {
    /// Whether a write fails because of the document itself: the same document fails again until the mapping
    /// changes.
    pub fn is_of_document(self) -> bool {
        matches!(
            self,
            Self::DocumentParsing
                | Self::StrictDynamicMapping
                | Self::MapperParsing
                | Self::IllegalArgument
                | Self::JsonParse
                | Self::Parsing
                | Self::RoutingMissing
                | Self::VersionConflict
                | Self::InvalidIndexName
                | Self::Forbidden
                | Self::TooLarge
        )
    }
}

/// Error with its kind, a reason in lower case without a full stop, and its causes.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    reason: String,
    index: Option<String>,
    line_and_column: Option<(u32, u32)>,
    details: Option<Map<String, Value>>,
    cause: Option<Error>,
}

impl Error {
    /// Creates an error of `kind` with `reason`.
    pub fn new(kind: ErrorKind, reason: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            reason: reason.into(),
            index: None,
            line_and_column: None,
            details: None,
            cause: None,
        }))
    }

    /// Creates the error of an index expression that matches no index.
    pub fn index_not_found(index: impl Into<String>) -> Self {
        let index = index.into();
        Self::new(ErrorKind::IndexNotFound, format!("no such index [{index}]")).with_index(index)
    }

    /// Creates the error of an invalid parameter or setting.
    pub fn illegal_argument(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::IllegalArgument, reason)
    }

    /// Creates the error of an invalid request body.
    pub fn parsing(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Parsing, reason)
    }

    /// Creates the error of a bug or of a failed system call.
    pub fn internal(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, reason)
    }

    /// Creates the error of a feature that firn does not have; `what` is its name in Elasticsearch.
    pub fn not_implemented(what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::NotImplemented, format!("{what} is not implemented by firn"))
    }

    /// Creates one error from all problems of a request, in Elasticsearch's numbered sentence.
    pub fn validation<T: AsRef<str>>(problems: &[T]) -> Self {
        let mut sentence = "Validation Failed: ".to_owned();
        for (number, problem) in problems.iter().enumerate() {
            sentence.push_str(&format!("{}: {};", number + 1, problem.as_ref()));
        }
        Self::new(ErrorKind::RequestValidation, sentence)
    }

    /// Names the index that the error concerns.
    #[must_use]
    pub fn with_index(mut self, index: impl Into<String>) -> Self {
        self.0.index = Some(index.into());
        self
    }

    /// Sets the position of the error in the body: line and column, both counted from 1.
    #[must_use]
    pub fn with_position(mut self, line: u32, column: u32) -> Self {
        self.0.line_and_column = Some((line, column));
        self
    }

    /// Adds the fields that Elasticsearch prints beside `type` and `reason` for errors of this kind.
    #[must_use]
    pub fn with_details(mut self, details: Map<String, Value>) -> Self {
        self.0.details = Some(details);
        self
    }

    /// Adds the cause (`caused_by` in the response).
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Error>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// Returns the kind, which says what the caller should do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the reason.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Returns the index that the error concerns, if any.
    pub fn index(&self) -> Option<&str> {
        self.0.index.as_deref()
    }

    /// Returns line and column in the body, both counted from 1, if known.
    pub fn position(&self) -> Option<(u32, u32)> {
        self.0.line_and_column
    }

    /// Returns the fields beside `type` and `reason`, if any.
    pub fn details(&self) -> Option<&Map<String, Value>> {
        self.0.details.as_ref()
    }

    /// Returns the cause.
    pub fn cause(&self) -> Option<&Error> {
        self.0.cause.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.reason)?;
        match &self.0.cause {
            Some(cause) => write!(formatter, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        // A firn error that passed through a reader comes out unchanged.
        if let Some(own) = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()) {
            return own.clone();
        }
        let kind = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => ErrorKind::DiskFull,
            _ => ErrorKind::Internal,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        let position = (error.line() as u32, error.column() as u32);
        Self::new(ErrorKind::JsonParse, error.to_string()).with_position(position.0, position.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_through_a_reader_comes_out_as_it_was() {
        let own = Error::new(ErrorKind::Unavailable, "the store does not answer").with_index("i");
        let back = Error::from(std::io::Error::other(own));
        assert_eq!((back.kind(), back.index()), (ErrorKind::Unavailable, Some("i")));
        assert_eq!(back.reason(), "the store does not answer");
        let other = Error::from(std::io::Error::other("a disk"));
        assert_eq!((other.kind(), other.reason()), (ErrorKind::Internal, "a disk"));
    }
}
