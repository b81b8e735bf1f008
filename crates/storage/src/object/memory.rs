//! Object store in memory, for tests and simulated stores.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;

use super::requests::range_of;
use super::{ObjectError, ObjectErrorKind, ObjectInfo, PutMode, Requests, Want};

/// Store that is lost with the process. Its owner sets its clock.
#[derive(Debug, Default)]
pub struct MemoryObjects {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Object>,
    uploads: BTreeMap<String, BTreeMap<usize, Bytes>>,
    written: u64,
    now_ms: i64,
}

#[derive(Debug, Clone)]
struct Object {
    bytes: Bytes,
    etag: String,
    modified_ms: i64,
}

impl Object {
    fn info(&self, key: &str) -> ObjectInfo {
        ObjectInfo {
            key: key.to_owned(),
            len: self.bytes.len() as u64,
            etag: Some(self.etag.clone()),
            modified_ms: self.modified_ms,
        }
    }
}

impl State {
    fn get(&self, key: &str) -> Result<&Object, ObjectError> {
        self.objects.get(key).ok_or_else(|| not_found(key))
    }

    fn put(&mut self, key: &str, bytes: Bytes) -> String {
        self.written += 1;
        let etag = self.written.to_string();
        let object = Object {
            bytes,
            etag: etag.clone(),
            modified_ms: self.now_ms,
        };
        self.objects.insert(key.to_owned(), object);
        etag
    }
}

fn not_found(key: &str) -> ObjectError {
    ObjectError::new(ObjectErrorKind::NotFound, key, "there is no such object")
}

impl MemoryObjects {
    /// Creates an empty store whose clock is at the epoch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the store's clock, ms since the epoch.
    pub fn set_now(&self, now_ms: i64) {
        self.state.lock().now_ms = now_ms;
    }

    /// Returns all keys, sorted.
    pub fn keys(&self) -> Vec<String> {
        self.state.lock().objects.keys().cloned().collect()
    }
}

#[async_trait]
impl Requests for MemoryObjects {
    async fn get(&self, key: &str, want: Want) -> Result<(Bytes, ObjectInfo), ObjectError> {
        let state = self.state.lock();
        let object = state.get(key)?;
        let range = range_of(key, object.bytes.len() as u64, &want)?;
        let bytes = object.bytes.slice(range.start as usize..range.end as usize);
        Ok((bytes, object.info(key)))
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo, ObjectError> {
        Ok(self.state.lock().get(key)?.info(key))
    }

    async fn put(&self, key: &str, bytes: Bytes, mode: &PutMode) -> Result<Option<String>, ObjectError> {
        let mut state = self.state.lock();
        let stored = state.objects.get(key).map(|object| object.etag.as_str());
        match mode {
            PutMode::Create if stored.is_some() => {
                return Err(ObjectError::new(ObjectErrorKind::Exists, key, "the object exists"));
            }
            PutMode::Replace(etag) if stored != Some(etag) => {
                return Err(ObjectError::new(
                    ObjectErrorKind::Changed,
                    key,
                    "the object has changed",
                ));
            }
            _ => {}
        }
        Ok(Some(state.put(key, bytes)))
    }

    async fn begin_parts(&self, key: &str) -> Result<String, ObjectError> {
        let mut state = self.state.lock();
        state.written += 1;
        let upload = format!("{key} {}", state.written);
        state.uploads.insert(upload.clone(), BTreeMap::new());
        Ok(upload)
    }

    async fn put_part(
        &self,
        key: &str,
        upload: &str,
        number: usize,
        _part_len: u64,
        bytes: Bytes,
    ) -> Result<String, ObjectError> {
        let mut state = self.state.lock();
        let parts = state.uploads.get_mut(upload).ok_or_else(|| not_found(key))?;
        parts.insert(number, bytes);
        Ok(number.to_string())
    }

    async fn complete_parts(&self, key: &str, upload: &str, parts: Vec<String>) -> Result<(), ObjectError> {
        let mut state = self.state.lock();
        let stored = state.uploads.remove(upload).ok_or_else(|| not_found(key))?;
        let is_whole = stored.len() == parts.len() && stored.keys().copied().eq(0..parts.len());
        if !is_whole {
            return Err(ObjectError::new(ObjectErrorKind::Refused, key, "parts are missing"));
        }
        let whole: Vec<u8> = stored.into_values().flatten().collect();
        state.put(key, whole.into());
        Ok(())
    }

    async fn abort_parts(&self, _key: &str, upload: &str) -> Result<(), ObjectError> {
        self.state.lock().uploads.remove(upload);
        Ok(())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, ObjectError> {
        let state = self.state.lock();
        let found = state.objects.range(prefix.to_owned()..);
        Ok(found
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, object)| object.info(key))
            .collect())
    }

    async fn delete(&self, key: &str) -> Result<(), ObjectError> {
        self.state.lock().objects.remove(key);
        Ok(())
    }
}
