//! What a store does in one request. [`super::Guarded`] makes [`super::Objects`] of it.
//!
//! Two traits, because limits, retries, pacing and measuring belong around each request: an upload of
//! forty parts waits its turn forty times, and one part that fails is sent again alone.

use std::fmt;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;

use super::{ObjectError, ObjectErrorKind, ObjectInfo, PutMode};

/// Which bytes of an object are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// These, half-open; fewer are an error.
    Range(Range<u64>),
    /// The last so many, or all if there are fewer.
    End(u64),
    /// All, if they are no more than this.
    All(u64),
}

/// A store, one request a call: no retries, no limits.
#[async_trait]
pub trait Requests: Send + Sync + fmt::Debug {
    /// Bytes of an object, exactly as many as it says, and what is known of it.
    async fn get(&self, key: &str, want: Want) -> Result<(Bytes, ObjectInfo), ObjectError>;

    /// What is known of an object.
    async fn head(&self, key: &str) -> Result<ObjectInfo, ObjectError>;

    /// Writes an object. Its etag.
    async fn put(&self, key: &str, bytes: Bytes, mode: &PutMode) -> Result<Option<String>, ObjectError>;

    /// Begins a write in parts and names it.
    async fn begin_parts(&self, key: &str) -> Result<String, ObjectError>;

    /// Writes part `number` of `upload`, counted from 0, each of `part_len` bytes but for the last. What
    /// [`Requests::complete_parts`] needs to know of it.
    async fn put_part(
        &self,
        key: &str,
        upload: &str,
        number: usize,
        part_len: u64,
        bytes: Bytes,
    ) -> Result<String, ObjectError>;

    /// Makes the parts one visible object.
    async fn complete_parts(&self, key: &str, upload: &str, parts: Vec<String>) -> Result<(), ObjectError>;

    /// Forgets the parts.
    async fn abort_parts(&self, key: &str, upload: &str) -> Result<(), ObjectError>;

    /// All objects whose key begins with the prefix, sorted. One request for every thousand or so.
    async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError>;

    /// Removes an object; one that is not there is no error.
    async fn delete(&self, key: &str) -> Result<(), ObjectError>;
}

/// Which bytes of an object of `len` bytes are wanted.
pub(super) fn range_of(key: &str, len: u64, want: &Want) -> Result<Range<u64>, ObjectError> {
    match want {
        Want::Range(range) if range.start <= range.end && range.end <= len => Ok(range.clone()),
        Want::Range(range) => Err(ObjectError::new(
            ObjectErrorKind::Corrupt,
            key,
            format!("bytes {} to {} of an object of {len}", range.start, range.end),
        )),
        Want::End(wanted) => Ok(len.saturating_sub(*wanted)..len),
        Want::All(len_max) if len <= *len_max => Ok(0..len),
        Want::All(len_max) => Err(ObjectError::new(
            ObjectErrorKind::Refused,
            key,
            format!("an object of {len} bytes where at most {len_max} are expected"),
        )),
    }
}
