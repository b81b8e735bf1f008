//! Single-request interface of a store. [`super::Guarded`] builds [`super::Objects`] on top of it.
//!
//! There are two traits because limits, retries, throttling and metrics apply to each request: an upload of forty parts
//! acquires a permit forty times, and a failed part is retried alone.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;

use super::{ObjectError, ObjectErrorKind, ObjectInfo, PutMode};

/// Requested bytes of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// This half-open range; fewer bytes are an error.
    Range(Range<u64>),
    /// The last bytes, or all if the object is shorter.
    End(u64),
    /// All bytes, if the object is no longer than this.
    All(u64),
}

/// Store with one request per call: no retries, no limits.
#[async_trait]
pub trait Requests: Send + Sync + fmt::Debug {
    /// Reads exactly the requested bytes of an object, and its metadata.
    async fn get(&self, key: &str, want: Want) -> Result<(Bytes, ObjectInfo), ObjectError>;

    /// Returns the metadata of an object.
    async fn head(&self, key: &str) -> Result<ObjectInfo, ObjectError>;

    /// Writes an object and returns its etag.
    async fn put(&self, key: &str, bytes: Bytes, mode: &PutMode) -> Result<Option<String>, ObjectError>;

    /// Starts a multipart upload and returns its id.
    async fn begin_parts(&self, key: &str) -> Result<String, ObjectError>;

    /// Writes part `number` of `upload`, counted from 0. Each part has `part_len` bytes, except the last. Returns the
    /// part's id for [`Requests::complete_parts`].
    async fn put_part(
        &self,
        key: &str,
        upload: &str,
        number: usize,
        part_len: u64,
        bytes: Bytes,
    ) -> Result<String, ObjectError>;

    /// Combines the parts into one visible object.
    async fn complete_parts(&self, key: &str, upload: &str, parts: Vec<String>) -> Result<(), ObjectError>;

    /// Discards the parts of an upload.
    async fn abort_parts(&self, key: &str, upload: &str) -> Result<(), ObjectError>;

    /// Returns all objects whose key starts with the prefix, sorted by key. Takes one request per thousand objects or
    /// so.
    async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError>;

    /// Removes an object. A missing object is not an error.
    async fn delete(&self, key: &str) -> Result<(), ObjectError>;
}

/// Resolves the requested bytes of an object of `len` bytes to a range.
pub(super) fn range_of(key: &str, len: u64, want: &Want) -> Result<Range<u64>, ObjectError> {
    match want {
        Want::Range(range) if range.start <= range.end && range.end <= len => Ok(range.clone()),
        Want::Range(range) => Err(ObjectError::new(
            ObjectErrorKind::Corrupt,
            key,
            format!("bytes {} to {} exceed its {len} bytes", range.start, range.end),
        )),
        Want::End(wanted) => Ok(len.saturating_sub(*wanted)..len),
        Want::All(len_max) if len <= *len_max => Ok(0..len),
        Want::All(len_max) => Err(ObjectError::new(
            ObjectErrorKind::Refused,
            key,
            format!("the object has {len} bytes, at most {len_max} are allowed"),
        )),
    }
}
