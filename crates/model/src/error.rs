//! The one error type of firn's libraries: a coarse kind, a sentence, and what it concerns.
//!
//! Kinds are chosen by what the caller does next. `api/src/error.rs` alone turns a kind into an
//! HTTP status and Elasticsearch's `type`; nothing else builds statuses.

use std::fmt;

use serde_json::{Map, Value};

/// The result of firn's library calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, by what the caller would do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// 404: the index, alias target or data stream does not exist.
    IndexNotFound,
    /// 404: one or more aliases do not exist.
    AliasNotFound,
    /// 404: a template, task or other named thing does not exist.
    ResourceNotFound,
    /// 404: a scroll or point in time that does not exist, or no more.
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
    /// 400: a parameter or setting has a value that makes no sense.
    IllegalArgument,
    /// 400: the request body is not what the endpoint understands (unknown query, wrong JSON type).
    Parsing,
    /// 400: the body is not JSON at all.
    JsonParse,
    /// 400: several validation errors of one request, in Elasticsearch's numbered sentence.
    RequestValidation,
    /// 400: a mapping definition cannot be understood.
    MapperParsing,
    /// 400: a document does not fit its mapping.
    DocumentParsing,
    /// 400: `dynamic: strict` met a field that the mapping lacks.
    StrictDynamicMapping,
    /// 400: the query cannot run on this mapping.
    QueryShard,
    /// 400: the request would build more buckets than `search.max_buckets`.
    TooManyBuckets,
    /// 400: the index is closed.
    IndexClosed,
    /// 400: the document was written with routing, or its mapping demands one, and none was given.
    RoutingMissing,
    /// 400: a script cannot be compiled, or fails while it runs.
    Script,
    /// 400: a feature that firn does not have; the reason names it.
    NotImplemented,
    /// 401: nobody knows who asks: no credentials, or wrong or expired ones.
    Unauthenticated,
    /// 403: who asks is known and may not.
    Forbidden,
    /// 403: `index.blocks.write` or `index.blocks.read_only` is set.
    IndexBlocked,
    /// 409: `_version`, `_seq_no` or `op_type: create` disagrees with what is stored.
    VersionConflict,
    /// 409: the resource is in a state in which this cannot be done, such as a repository in use.
    Conflict,
    /// 413: the body is larger than `http.max_content_length`.
    TooLarge,
    /// 429: a queue or memory budget is full; the client should back off and come again.
    Rejected,
    /// 429: a quota of the tenant is used up; the reason names it.
    QuotaExceeded,
    /// 429: as many scrolls as may be open at a time are open.
    TooManyScrollContexts,
    /// 429: the request needs more memory than it may have.
    CircuitBreaking,
    /// 429: the disk is past its flood-stage watermark; reads go on, writes wait for space.
    DiskFull,
    /// 503: a shard refuses to serve because its files are damaged; the reason names file and offset.
    ShardDamaged,
    /// 503: a shard does not serve yet: it replays its WAL, or waits for room to do so.
    ShardNotReady,
    /// 503: an object store or another part that the request needs does not answer; later it may.
    Unavailable,
    /// 503: another snapshot, restore or deletion of the repository stands in the way.
    SnapshotInProgress,
    /// 500: what is restored would be in the way of what is there, or the snapshot lacks it.
    SnapshotRestore,
    /// 500: a repository's content is not what it should be, or a store answered with nonsense.
    Repository,
    /// 504 where it stands alone: the request ran out of its time.
    Timeout,
    /// 499: the client went away and the work was stopped.
    Cancelled,
    /// 500: a bug or an I/O failure; look at the log.
    Internal,
}

/// An error with its kind, a sentence in lower case without a full stop, and its causes.
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
    /// An error of `kind` that says `reason`.
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

    /// The error of an index expression that names nothing.
    pub fn index_not_found(index: impl Into<String>) -> Self {
        let index = index.into();
        Self::new(ErrorKind::IndexNotFound, format!("no such index [{index}]")).with_index(index)
    }

    /// A bad parameter or setting.
    pub fn illegal_argument(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::IllegalArgument, reason)
    }

    /// A request body that cannot be understood.
    pub fn parsing(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Parsing, reason)
    }

    /// A bug, or the operating system refused something.
    pub fn internal(reason: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, reason)
    }

    /// A feature that firn does not have; `what` is its name in Elasticsearch.
    pub fn not_implemented(what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::NotImplemented, format!("{what} is not implemented by firn"))
    }

    /// What is wrong with a request as a whole, in Elasticsearch's numbered sentence.
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

    /// Says where in the body it went wrong, both counted from 1.
    #[must_use]
    pub fn with_position(mut self, line: u32, column: u32) -> Self {
        self.0.line_and_column = Some((line, column));
        self
    }

    /// Adds fields that Elasticsearch has beside `type` and `reason` for errors of its kind.
    #[must_use]
    pub fn with_details(mut self, details: Map<String, Value>) -> Self {
        self.0.details = Some(details);
        self
    }

    /// Adds what lies behind it (`caused_by` in the answer).
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Error>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// What the caller would do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// The index it concerns, if one.
    pub fn index(&self) -> Option<&str> {
        self.0.index.as_deref()
    }

    /// Line and column of the body, both from 1, if known.
    pub fn position(&self) -> Option<(u32, u32)> {
        self.0.line_and_column
    }

    /// Fields beside `type` and `reason`, if there are any.
    pub fn details(&self) -> Option<&Map<String, Value>> {
        self.0.details.as_ref()
    }

    /// What lies behind it.
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
        // One of ours that went through a reader comes out as it was.
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
