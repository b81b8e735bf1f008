//! Repository on a web server: read in ranges, never listed and never written.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::http::{HttpBuilder, HttpStore};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore as _, ObjectStoreExt as _};

use super::http::{Connector, client_options, no_retries};
use super::remote::{collect, fault};
use super::requests::range_of;
use super::{ObjectError, ObjectErrorKind, ObjectInfo, PutMode, Requests, Want};

/// Maximum silence of a server before a request counts as lost.
const READ_TIMEOUT: Duration = Duration::from_secs(50);

/// Objects below an http or https address.
#[derive(Debug)]
pub(super) struct UrlObjects {
    store: HttpStore,
}

impl UrlObjects {
    /// Creates the store without sending a request.
    pub(super) fn open(url: &str) -> Result<Arc<dyn Requests>, ObjectError> {
        let store = HttpBuilder::new()
            .with_url(url)
            .with_client_options(client_options(READ_TIMEOUT, url.starts_with("http://")))
            .with_retry(no_retries())
            .with_http_connector(Connector)
            .build()
            .map_err(|error| fault("", &error))?;
        Ok(Arc::new(Self { store }))
    }
}

fn path(key: &str) -> Result<Path, ObjectError> {
    Path::parse(key).map_err(|error| fault(key, &error.into()))
}

fn readonly<T>(key: &str) -> Result<T, ObjectError> {
    let reason = "a repository of type [url] is read-only";
    Err(ObjectError::new(ObjectErrorKind::Unsupported, key, reason))
}

#[async_trait]
impl Requests for UrlObjects {
    async fn get(&self, key: &str, want: Want) -> Result<(Bytes, ObjectInfo), ObjectError> {
        let range = match &want {
            Want::Range(range) if range.is_empty() => {
                let info = self.head(key).await?;
                return Ok((Bytes::new(), info));
            }
            Want::Range(range) => Some(GetRange::Bounded(range.clone())),
            Want::End(len) => Some(GetRange::Suffix(*len)),
            Want::All(_) => None,
        };
        let options = GetOptions {
            range,
            ..GetOptions::default()
        };
        let answer = self.store.get_opts(&path(key)?, options).await;
        let answer = answer.map_err(|error| fault(key, &error))?;
        let info = info(key, &answer.meta);
        let expected = range_of(key, info.len, &want)?;
        let bytes = collect(key, answer.range.clone(), expected, answer.into_stream()).await?;
        Ok((bytes, info))
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, ObjectError> {
        let meta = self.store.head(&path(key)?).await;
        meta.map(|meta| info(key, &meta)).map_err(|error| fault(key, &error))
    }

    async fn put(&self, key: &str, _bytes: Bytes, _mode: &PutMode) -> Result<Option<String>, ObjectError> {
        readonly(key)
    }

    async fn begin_parts(&self, key: &str) -> Result<String, ObjectError> {
        readonly(key)
    }

    async fn put_part(
        &self,
        key: &str,
        _upload: &str,
        _number: usize,
        _part_len: u64,
        _bytes: Bytes,
    ) -> Result<String, ObjectError> {
        readonly(key)
    }

    async fn complete_parts(&self, key: &str, _upload: &str, _parts: Vec<String>) -> Result<(), ObjectError> {
        readonly(key)
    }

    async fn abort_parts(&self, key: &str, _upload: &str) -> Result<(), ObjectError> {
        readonly(key)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError> {
        let reason = "a repository of type [url] cannot be listed";
        Err(ObjectError::new(ObjectErrorKind::Unsupported, prefix, reason))
    }

    async fn delete(&self, key: &str) -> Result<(), ObjectError> {
        readonly(key)
    }
}

fn info(key: &str, meta: &object_store::ObjectMeta) -> ObjectInfo {
    ObjectInfo {
        key: key.to_owned(),
        len: meta.size,
        etag: meta.e_tag.clone(),
        modified_ms: meta.last_modified.timestamp_millis(),
    }
}
