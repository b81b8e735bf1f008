//! The [`Objects`] trait, and the values that cross it.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::error::ObjectError;
use crate::disk::Disk;

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
    /// Writes only if the object does not exist; otherwise fails with `ObjectErrorKind::Exists`.
    Create,
    /// Writes only if the object still has this etag; otherwise fails with `ObjectErrorKind::Changed`.
    Replace(String),
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
    /// Reads a half-open range, which must lie within the object. Fails with `ObjectErrorKind::Corrupt` if fewer
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
        self.upload_reporting(key, file, &|_| {}).await
    }

    /// Like [`Objects::upload`], and reports uploaded bytes to `sent`; their sum is the length of the file.
    async fn upload_reporting(
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
