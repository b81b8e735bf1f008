//! Error of an object store: a coarse kind, the key, and the reason.

use std::fmt;

/// Kind of a store failure. Retries have already been made where they help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectErrorKind {
    /// The object (or bucket) does not exist.
    NotFound,
    /// `PutMode::Create` found an object. After a timeout it may be the caller's own: compare the content.
    Exists,
    /// `PutMode::Replace` found another content.
    Changed,
    /// The credentials are missing, wrong or insufficient.
    Denied,
    /// The store does not answer (no connection, no answer in time, a gateway without a store behind it), and all
    /// retries failed.
    Unavailable,
    /// The store is overloaded or has an internal error (429, 500, 503), and all retries failed.
    Busy,
    /// The store's answer is wrong: short, damaged or not parseable.
    Corrupt,
    /// The store does not support the operation, such as a conditional write.
    Unsupported,
    /// The operation was cancelled or exceeds its limit.
    Refused,
}

/// Failure of an object store.
#[derive(Debug, Clone)]
pub struct ObjectError {
    /// Kind of failure, chosen by what the caller can do.
    pub kind: ObjectErrorKind,
    /// Key of the object.
    pub key: String,
    /// Reason as a sentence, without credentials.
    pub reason: String,
}

impl ObjectError {
    /// Creates a failure with its reason.
    pub fn new(kind: ObjectErrorKind, key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            kind,
            key: key.into(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for ObjectError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "object [{}]: {}", self.key, self.reason)
    }
}

impl std::error::Error for ObjectError {}

impl From<ObjectError> for firn_model::Error {
    fn from(error: ObjectError) -> Self {
        use firn_model::ErrorKind;
        let kind = match error.kind {
            ObjectErrorKind::NotFound => ErrorKind::ResourceNotFound,
            ObjectErrorKind::Exists | ObjectErrorKind::Changed => ErrorKind::Conflict,
            ObjectErrorKind::Unavailable | ObjectErrorKind::Busy | ObjectErrorKind::Denied => ErrorKind::Unavailable,
            ObjectErrorKind::Corrupt => ErrorKind::Repository,
            ObjectErrorKind::Unsupported => ErrorKind::IllegalArgument,
            ObjectErrorKind::Refused => ErrorKind::Rejected,
        };
        Self::new(kind, error.to_string())
    }
}
