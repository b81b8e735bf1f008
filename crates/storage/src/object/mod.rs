//! Objects in a bucket, as firn uses them: written whole, never changed, read in ranges.
//!
//! Implementations know their bucket and base path; keys are relative to it, with `/` between their
//! parts. All methods are cancelled by dropping their future. Whoever calls from a thread of the search pool
//! waits for them there, never on the threads that serve HTTP.

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
mod limit;
mod memory;
mod meter;
mod remote;
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
pub use limit::Limit;
pub use memory::MemoryObjects;
pub use meter::{LATENCY_BOUNDS_MS, Meter, Operation, OperationStats};
pub use requests::{Requests, Want};
pub use retry::RetryPolicy;
pub use s3::{S3Credentials, S3Options};
pub use stores::{ObjectStores, StoresConfig};
pub use throttle::Throttle;
pub use verify::verify;

/// What a store knows of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Relative to the base path.
    pub key: String,
    /// Bytes.
    pub len: u64,
    /// Names this content of the key, if the store gives such names.
    pub etag: Option<String>,
    /// When it was written, ms since the epoch, by the store's clock.
    pub modified_ms: i64,
}

/// When a write takes place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutMode {
    /// In any case.
    Overwrite,
    /// Only if there is no such object; else [`ObjectErrorKind::Exists`].
    Create,
    /// Only if the object still has this etag; else [`ObjectErrorKind::Changed`].
    Replace(String),
}

/// Why a store did not do what was asked. Retries have been made where they help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectErrorKind {
    /// There is no such object (or no such bucket).
    NotFound,
    /// [`PutMode::Create`] found one. After a time-out it may be one's own: compare the content.
    Exists,
    /// [`PutMode::Replace`] found another content.
    Changed,
    /// The credentials are missing, wrong or do not suffice.
    Denied,
    /// Nobody answers there (no connection, no answer in time, a gateway without a store behind it), for longer than retries
    /// go on.
    Unavailable,
    /// The store answers that it cannot now: overloaded, or failing inside (429, 500, 503), for longer than retries go on.
    Busy,
    /// It answered, and the answer is wrong: short, damaged, or none that makes sense.
    Corrupt,
    /// It cannot do this at all, such as a conditional write.
    Unsupported,
    /// The operation was cancelled, or a limit of its own is reached.
    Refused,
}

/// A failure of a store.
#[derive(Debug, Clone)]
pub struct ObjectError {
    /// What the caller may do about it.
    pub kind: ObjectErrorKind,
    /// Which object.
    pub key: String,
    /// A sentence, without credentials.
    pub reason: String,
}

impl ObjectError {
    /// A failure with its reason.
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

/// A file to upload, and the disk that it lies on.
#[derive(Debug, Clone)]
pub struct LocalFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl LocalFile {
    /// The file of this path.
    pub fn new(disk: &Arc<dyn Disk>, path: impl Into<PathBuf>) -> Self {
        Self {
            disk: Arc::clone(disk),
            path: path.into(),
        }
    }

    pub(crate) fn len(&self) -> io::Result<u64> {
        self.disk.len(&self.path)
    }

    /// All bytes of a range, or an error.
    pub(crate) fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        let bytes = self.disk.read_range(&self.path, range.clone())?;
        match bytes.len() as u64 == range.end - range.start {
            true => Ok(bytes),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// A place for objects.
#[async_trait]
pub trait Objects: Send + Sync + fmt::Debug {
    /// Bytes of a half-open range that lies within the object; fewer are [`ObjectErrorKind::Corrupt`].
    async fn read(&self, key: &str, range: Range<u64>) -> Result<Bytes, ObjectError>;

    /// The whole object, if it has no more than `len_max` bytes.
    async fn read_all(&self, key: &str, len_max: u64) -> Result<(Bytes, ObjectInfo), ObjectError>;

    /// The last `len` bytes, or the whole object if it is shorter, and how long the object is.
    async fn read_end(&self, key: &str, len: u64) -> Result<(Bytes, ObjectInfo), ObjectError>;

    /// What is known of an object without reading it.
    async fn info(&self, key: &str) -> Result<ObjectInfo, ObjectError>;

    /// Writes an object; visible whole or not at all. The etag of what was written.
    async fn write(&self, key: &str, bytes: Bytes, mode: PutMode) -> Result<Option<String>, ObjectError>;

    /// Writes a file, in parts if it is large; visible whole or not at all. Content-addressed objects
    /// go this way, so what is there already is replaced by the same.
    async fn upload(&self, key: &str, file: &LocalFile) -> Result<(), ObjectError> {
        self.upload_telling(key, file, &|_| {}).await
    }

    /// As [`Objects::upload`]; `sent` is told of bytes as the store takes them, all together the file's.
    async fn upload_telling(
        &self,
        key: &str,
        file: &LocalFile,
        sent: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), ObjectError>;

    /// All objects whose key begins with the prefix, sorted. May miss what was written a moment ago.
    async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError>;

    /// Removes an object; one that is not there is no error.
    async fn delete(&self, key: &str) -> Result<(), ObjectError>;
}
