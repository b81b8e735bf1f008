//! Object store interface: objects are written as a whole, never changed, and read in ranges.
//!
//! Implementations hold bucket and base path; keys are relative to the base path, with `/` between their parts.
//! Dropping the future of a method cancels it. Callers on a thread of the search pool wait there, never on the threads
//! that serve HTTP.

mod analyze;
mod azure;
mod breaker;
#[cfg(test)]
mod cloud_tests;
mod confined;
mod fs;
#[cfg(test)]
mod fs_tests;
mod gcs;
mod guarded;
mod http;
mod memory;
mod meter;
mod remote;
mod request_limit;
mod requests;
mod retry;
mod s3;
#[cfg(test)]
mod s3_tests;
mod settings;
mod stores;
#[cfg(test)]
mod stores_tests;
#[cfg(test)]
mod tests;
mod throttle;
mod url;
mod verify;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::disk::Disk;

pub use analyze::{Analysis, AnalyzeOptions, Latencies, analyze};
pub use fs::{FsObjects, FsPlace};
pub use guarded::{Guard, Guarded};
pub use memory::MemoryObjects;
pub use meter::{LATENCY_BOUNDS_MS, Meter, Operation, OperationStats};
pub use request_limit::Limit;
pub use requests::{Requests, Want};
pub use retry::RetryPolicy;
pub use s3::{S3Credentials, S3Options};
pub use stores::{ObjectStores, StoresConfig};
pub use throttle::Throttle;
pub use verify::verify;

/// Metadata of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Key, relative to the base path.
    pub key: String,
    /// Length in bytes.
    pub len: u64,
    /// Identifies the content of the key, if the store provides etags.
    pub etag: Option<String>,
    /// Time of the write, ms since the epoch, by the store's clock.
    pub modified_ms: i64,
}

/// Condition of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutMode {
    /// Writes unconditionally.
    Overwrite,
    /// Writes only if the object does not exist; otherwise fails with [`ObjectErrorKind::Exists`].
    Create,
    /// Writes only if the object still has this etag; otherwise fails with [`ObjectErrorKind::Changed`].
    Replace(String),
}

/// Kind of a store failure. Retries have already been made where they help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectErrorKind {
    /// The object (or bucket) does not exist.
    NotFound,
    /// [`PutMode::Create`] found an object. After a timeout it may be the caller's own: compare the content.
    Exists,
    /// [`PutMode::Replace`] found another content.
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

/// File to upload, with the disk that holds it.
#[derive(Debug, Clone)]
pub struct LocalFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl LocalFile {
    /// Creates a reference to the file at `path`.
    pub fn new(disk: &Arc<dyn Disk>, path: impl Into<PathBuf>) -> Self {
        Self {
            disk: Arc::clone(disk),
            path: path.into(),
        }
    }

    pub(crate) fn len(&self) -> io::Result<u64> {
        self.disk.len(&self.path)
    }

    /// Returns all bytes of a range, or an error.
    pub(crate) fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        let bytes = self.disk.read_range(&self.path, range.clone())?;
        match bytes.len() as u64 == range.end - range.start {
            true => Ok(bytes),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Object store as callers use it.
#[async_trait]
pub trait Objects: Send + Sync + fmt::Debug {
    /// Reads a half-open range, which must lie within the object. Fails with [`ObjectErrorKind::Corrupt`] if fewer
    /// bytes arrive.
    async fn read(&self, key: &str, range: Range<u64>) -> Result<Bytes, ObjectError>;

    /// Reads the whole object, if it has no more than `len_max` bytes.
    async fn read_all(&self, key: &str, len_max: u64) -> Result<(Bytes, ObjectInfo), ObjectError>;

    /// Reads the last `len` bytes, or the whole object if it is shorter. Also returns the object's length.
    async fn read_end(&self, key: &str, len: u64) -> Result<(Bytes, ObjectInfo), ObjectError>;

    /// Returns the metadata of an object without reading it.
    async fn info(&self, key: &str) -> Result<ObjectInfo, ObjectError>;

    /// Writes an object atomically and returns its etag.
    async fn write(&self, key: &str, bytes: Bytes, mode: PutMode) -> Result<Option<String>, ObjectError>;

    /// Uploads a file atomically, in parts if it is large. Used for content-addressed objects, so an existing object is
    /// replaced by the same content.
    async fn upload(&self, key: &str, file: &LocalFile) -> Result<(), ObjectError> {
        self.upload_telling(key, file, &|_| {}).await
    }

    /// Like [`Objects::upload`], and reports uploaded bytes to `sent`; their sum is the length of the file.
    async fn upload_telling(
        &self,
        key: &str,
        file: &LocalFile,
        sent: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), ObjectError>;

    /// Returns all objects whose key starts with the prefix, sorted by key. May miss very recent writes.
    async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError>;

    /// Removes an object. A missing object is not an error.
    async fn delete(&self, key: &str) -> Result<(), ObjectError>;
}
