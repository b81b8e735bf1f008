//! Adapter of cloud stores, through the clients of the `object_store` crate.

use std::error::Error as StdError;
use std::ops::Range;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::stream::{BoxStream, StreamExt as _, TryStreamExt as _};
use object_store::client::{HttpError, HttpErrorKind};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutOptions, PutPayload, UpdateVersion,
};

use super::http::Refusal;
use super::{ObjectError, ObjectErrorKind, ObjectInfo, PutMode, Requests, Want};

/// Maximum length of a client error text in messages.
const REASON_CHARS_MAX: usize = 400;

/// Differences between stores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dialect {
    /// The generation, not the etag, identifies the content of a key (Google).
    pub(super) by_version: bool,
    /// The store can read the end of an object without its length (all but Azure).
    pub(super) reads_ends: bool,
}

/// Bucket with a base path.
#[derive(Debug)]
pub(super) struct Remote<S> {
    store: S,
    /// Empty, or ends with `/`.
    base: String,
    dialect: Dialect,
}

impl<S: ObjectStore + MultipartStore> Remote<S> {
    /// Creates a store whose keys are below `base_path`, whose parts are separated by `/`.
    pub(super) fn new(store: S, base_path: &str, dialect: Dialect) -> Self {
        let trimmed = base_path.trim_matches('/');
        let base = if trimmed.is_empty() {
            String::new()
        } else {
            format!("{trimmed}/")
        };
        Self { store, base, dialect }
    }

    fn path(&self, key: &str) -> Result<Path, ObjectError> {
        Path::parse(format!("{}{key}", self.base)).map_err(|error| fault(key, &error.into()))
    }

    fn info(&self, key: &str, meta: &ObjectMeta) -> ObjectInfo {
        ObjectInfo {
            key: key.to_owned(),
            len: meta.size,
            etag: if self.dialect.by_version {
                meta.version.clone()
            } else {
                meta.e_tag.clone()
            },
            modified_ms: meta.last_modified.timestamp_millis(),
        }
    }
}

#[async_trait]
impl<S: ObjectStore + MultipartStore> Requests for Remote<S> {
    async fn get(&self, key: &str, want: Want) -> Result<(Bytes, ObjectInfo), ObjectError> {
        let range = match &want {
            Want::Range(range) if range.is_empty() => {
                let info = self.head(key).await?;
                return Ok((Bytes::new(), info));
            }
            Want::Range(range) => Some(GetRange::Bounded(range.clone())),
            Want::End(len) if self.dialect.reads_ends => Some(GetRange::Suffix(*len)),
            Want::End(len) => {
                let info = self.head(key).await?;
                Some(GetRange::Bounded(info.len.saturating_sub(*len)..info.len))
            }
            Want::All(_) => None,
        };
        let options = GetOptions {
            range,
            ..GetOptions::default()
        };
        let answer = self.store.get_opts(&self.path(key)?, options).await;
        let answer = answer.map_err(|error| fault(key, &error))?;
        let info = self.info(key, &answer.meta);
        let expected = super::requests::range_of(key, info.len, &want)?;
        let bytes = collect(key, answer.range.clone(), expected, answer.into_stream()).await?;
        Ok((bytes, info))
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, ObjectError> {
        let meta = self.store.head(&self.path(key)?).await;
        let meta = meta.map_err(|error| fault(key, &error))?;
        Ok(self.info(key, &meta))
    }

    async fn put(&self, key: &str, bytes: Bytes, mode: &PutMode) -> Result<Option<String>, ObjectError> {
        let client_mode = match mode {
            PutMode::Overwrite => object_store::PutMode::Overwrite,
            PutMode::Create => object_store::PutMode::Create,
            PutMode::Replace(etag) => {
                let (version, e_tag) = if self.dialect.by_version {
                    (Some(etag.clone()), None)
                } else {
                    (None, Some(etag.clone()))
                };
                object_store::PutMode::Update(UpdateVersion { e_tag, version })
            }
        };
        let options = PutOptions::from(client_mode);
        let written = self
            .store
            .put_opts(&self.path(key)?, PutPayload::from(bytes), options)
            .await;
        let written = written.map_err(|error| match (fault(key, &error), mode) {
            // A deleted object no longer has the expected etag.
            (fault, PutMode::Replace(_)) if fault.kind == ObjectErrorKind::NotFound => {
                ObjectError::new(ObjectErrorKind::Changed, key, "the object has changed")
            }
            (fault, _) => fault,
        })?;
        Ok(if self.dialect.by_version {
            written.version
        } else {
            written.e_tag
        })
    }

    async fn begin_parts(&self, key: &str) -> Result<String, ObjectError> {
        let begun = self.store.create_multipart(&self.path(key)?).await;
        begun.map_err(|error| fault(key, &error))
    }

    async fn put_part(
        &self,
        key: &str,
        upload: &str,
        number: usize,
        _part_len: u64,
        bytes: Bytes,
    ) -> Result<String, ObjectError> {
        let (path, upload) = (self.path(key)?, upload.to_owned());
        let put = self
            .store
            .put_part(&path, &upload, number, PutPayload::from(bytes))
            .await;
        put.map(|part| part.content_id).map_err(|error| fault(key, &error))
    }

    async fn complete_parts(&self, key: &str, upload: &str, parts: Vec<String>) -> Result<(), ObjectError> {
        let (path, upload) = (self.path(key)?, upload.to_owned());
        let parts = parts.into_iter().map(|content_id| PartId { content_id }).collect();
        let completed = self.store.complete_multipart(&path, &upload, parts).await;
        completed.map(drop).map_err(|error| fault(key, &error))
    }

    async fn abort_parts(&self, key: &str, upload: &str) -> Result<(), ObjectError> {
        let (path, upload) = (self.path(key)?, upload.to_owned());
        let aborted = self.store.abort_multipart(&path, &upload).await;
        aborted.map_err(|error| fault(key, &error))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError> {
        // The client supports only prefixes of whole path parts; the rest of the prefix is compared here.
        let folder = prefix.rsplit_once('/').map_or("", |(folder, _)| folder);
        let folder = format!("{}{folder}", self.base);
        let folder = folder.trim_end_matches('/');
        let folder = match folder {
            "" => None,
            folder => Some(Path::parse(folder).map_err(|error| fault(prefix, &error.into()))?),
        };
        let found: Vec<ObjectMeta> = self
            .store
            .list(folder.as_ref())
            .try_collect()
            .await
            .map_err(|error| fault(prefix, &error))?;
        let mut infos: Vec<ObjectInfo> = found
            .iter()
            .filter_map(|meta| {
                let key = meta.location.as_ref().strip_prefix(&self.base)?;
                key.starts_with(prefix).then(|| self.info(key, meta))
            })
            .collect();
        infos.sort_by(|left, right| left.key.cmp(&right.key));
        Ok(infos)
    }

    async fn delete(&self, key: &str) -> Result<(), ObjectError> {
        let deleted = self.store.delete(&self.path(key)?).await;
        match deleted.map_err(|error| fault(key, &error)) {
            Err(error) if error.kind != ObjectErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Collects the bytes of an answer and checks that they are exactly the requested ones.
pub(super) async fn collect(
    key: &str,
    actual: Range<u64>,
    expected: Range<u64>,
    mut stream: BoxStream<'static, object_store::Result<Bytes>>,
) -> Result<Bytes, ObjectError> {
    let len = (expected.end - expected.start) as usize;
    if actual != expected {
        return Err(damaged(
            key,
            format!("bytes {actual:?} instead of the requested {expected:?}"),
        ));
    }
    let mut bytes = BytesMut::with_capacity(len);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| fault(key, &error))?;
        if bytes.len() + chunk.len() > len {
            return Err(damaged(key, format!("more than the requested {len} bytes")));
        }
        bytes.extend_from_slice(&chunk);
    }
    if bytes.len() < len {
        return Err(damaged(
            key,
            format!("{} bytes instead of the requested {len}", bytes.len()),
        ));
    }
    Ok(bytes.freeze())
}

fn damaged(key: &str, reason: String) -> ObjectError {
    ObjectError::new(ObjectErrorKind::Corrupt, key, format!("the store sent {reason}"))
}

/// Converts a client error.
pub(super) fn fault(key: &str, error: &Error) -> ObjectError {
    let (kind, reason) = match error {
        Error::NotFound { .. } => (ObjectErrorKind::NotFound, "there is no such object".to_owned()),
        Error::AlreadyExists { .. } => (ObjectErrorKind::Exists, "the object exists".to_owned()),
        Error::Precondition { .. } | Error::NotModified { .. } => {
            (ObjectErrorKind::Changed, "the object has changed".to_owned())
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => (ObjectErrorKind::Denied, reason_of(error)),
        Error::NotSupported { .. } | Error::NotImplemented { .. } => (ObjectErrorKind::Unsupported, reason_of(error)),
        Error::InvalidPath { .. } => (ObjectErrorKind::Refused, reason_of(error)),
        _ => beneath(error),
    };
    ObjectError::new(kind, key, reason)
}

/// Finds the cause of a client error: a refusal of the store, the transport, or an answer that is not parseable.
fn beneath(error: &Error) -> (ObjectErrorKind, String) {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    let mut transport = None;
    while let Some(cause) = next {
        if let Some(refusal) = cause.downcast_ref::<Refusal>() {
            let kind = match refusal.status {
                _ if refusal.is_from_gateway() => ObjectErrorKind::Unavailable,
                _ if refusal.is_transient() => ObjectErrorKind::Busy,
                _ if refusal.is_denied() => ObjectErrorKind::Denied,
                _ if refusal.is_missing() => ObjectErrorKind::NotFound,
                405 | 501 => ObjectErrorKind::Unsupported,
                _ => ObjectErrorKind::Refused,
            };
            return (kind, refusal.to_string());
        }
        if let Some(http) = cause.downcast_ref::<HttpError>() {
            transport = Some(http);
        }
        next = cause.source();
    }
    match transport.map(HttpError::kind) {
        Some(HttpErrorKind::Decode) | None => (ObjectErrorKind::Corrupt, reason_of(error)),
        Some(HttpErrorKind::Timeout) => (
            ObjectErrorKind::Unavailable,
            "the store did not answer in time".to_owned(),
        ),
        Some(_) => (ObjectErrorKind::Unavailable, reason_of(error)),
    }
}

fn reason_of(error: &Error) -> String {
    let text = error.to_string();
    text.chars().take(REASON_CHARS_MAX).collect()
}
