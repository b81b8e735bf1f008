//! Cleanup after interrupted writers.
//!
//! A snapshot writer puts a mark in `pending` while it works. Uploads that no commit names are garbage, unless they are
//! younger than the oldest mark of a live writer. A mark of another writer is dead after a day. A mark of the same writer
//! is dead if the instance that wrote it has ended or no longer uses it. Safety does not depend on marks, but on sweeps: a
//! mark only saves a writer from writing objects twice.

use bytes::Bytes;
use firn_model::Result;
use serde::{Deserialize, Serialize};

use super::references::Named;
use super::{Repository, Swept, WriteDependencies, body};
use crate::object::{ObjectInfo, PutMode};

const FOLDER: &str = "pending/";
/// Age after which a mark of another writer is dead: no snapshot takes a day.
const MARK_AGE_MS_MAX: i64 = 24 * 60 * 60 * 1000;
/// Folders that may contain garbage.
const SWEPT_FOLDERS: [&str; 5] = ["splits/", "deletes/", "filters/", "indices/", "snapshots/"];

/// Content of a mark.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    writer: String,
    #[serde(default)]
    instance: String,
    time_ms: i64,
}

/// Active writer; ends with [`Repository::end_writing`].
#[derive(Debug)]
pub struct Writing {
    key: String,
    /// Basis at the start of the writing.
    pub basis: WriteDependencies,
}

impl Repository {
    /// Writes a mark. Before that, removes leftovers of this writer from before a kill.
    pub async fn begin_writing(&self) -> Result<Writing> {
        self.begin_change("create snapshot").await?;
        let id = (self.writer.fresh_id)();
        let key = format!("{FOLDER}{id}.json");
        // Registered first, so that this process never considers the mark dead.
        self.running.lock().insert(key.clone());
        match self.leave_mark(&key).await {
            Ok(basis) => Ok(Writing { key, basis }),
            Err(error) => {
                self.running.lock().remove(&key);
                Err(error)
            }
        }
    }

    async fn leave_mark(&self, key: &str) -> Result<WriteDependencies> {
        if self.has_dead_marks_of_own().await? {
            self.cleanup().await?;
        }
        let mark = Mark {
            writer: self.writer.id.clone(),
            instance: self.instance.id.clone(),
            time_ms: (self.writer.now_ms)(),
        };
        let written = self
            .store
            .write(key, body::encode("mark", &mark)?, PutMode::Create)
            .await;
        written.map_err(|error| self.failed("write", error))?;
        Ok(WriteDependencies::of(self.state().await?))
    }

    /// Removes the mark. If the removal fails, the mark is dead and the next cleanup removes it.
    pub async fn end_writing(&self, writing: Writing) -> Result<()> {
        self.running.lock().remove(&writing.key);
        let removed = self.store.delete(&writing.key).await;
        removed.map_err(|error| self.failed("delete", error))
    }

    /// Removes objects that no snapshot names and no writer needs.
    pub async fn cleanup(&self) -> Result<Swept> {
        self.cleanup_and_count().await.map(|(swept, _)| swept)
    }

    /// Like [`Repository::cleanup`], and returns the number of skipped objects that are younger than the oldest live
    /// mark.
    pub async fn cleanup_and_count(&self) -> Result<(Swept, u64)> {
        self.begin_change("clean up").await?;
        let (dead, oldest_alive_ms) = self.marks().await?;
        let mut candidates = Named::new();
        let mut young = 0;
        for folder in SWEPT_FOLDERS {
            for object in self.list(folder).await? {
                match oldest_alive_ms.is_none_or(|oldest| object.modified_ms < oldest) {
                    true => drop(candidates.insert(object.key, object.len)),
                    false => young += 1,
                }
            }
        }
        let swept = self.sweep(candidates).await?;
        for mark in dead {
            let removed = self.store.delete(&mark).await;
            removed.map_err(|error| self.failed("delete", error))?;
        }
        Ok((swept, young))
    }

    async fn has_dead_marks_of_own(&self) -> Result<bool> {
        for object in self.list(FOLDER).await? {
            if self.is_running(&object.key) {
                continue;
            }
            let mark = self.read_mark(&object.key).await?;
            if mark.is_some_and(|mark| mark.writer == self.writer.id && self.is_dead(&object.key, &mark)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the keys of dead marks, and the write time of the oldest live one by the store's clock.
    async fn marks(&self) -> Result<(Vec<String>, Option<i64>)> {
        let mut dead = Vec::new();
        let mut oldest_alive_ms = None;
        for object in self.list(FOLDER).await? {
            let is_alive = self.is_running(&object.key)
                || match self.read_mark(&object.key).await? {
                    Some(mark) => !self.is_dead(&object.key, &mark),
                    None => false,
                };
            match is_alive {
                true => {
                    let left_ms = object.modified_ms;
                    oldest_alive_ms = Some(oldest_alive_ms.map_or(left_ms, |oldest: i64| oldest.min(left_ms)));
                }
                false => dead.push(object.key),
            }
        }
        Ok((dead, oldest_alive_ms))
    }

    /// Returns whether no writer uses a mark any more.
    fn is_dead(&self, key: &str, mark: &Mark) -> bool {
        if mark.writer != self.writer.id {
            return (self.writer.now_ms)() - mark.time_ms >= MARK_AGE_MS_MAX;
        }
        !self.is_running(key) && !self.instance.has_living_sibling(&mark.instance)
    }

    fn is_running(&self, key: &str) -> bool {
        self.running.lock().contains(key)
    }

    /// Reads a mark; `None`: it is missing, or firn did not write it.
    async fn read_mark(&self, key: &str) -> Result<Option<Mark>> {
        let decode = |bytes: &Bytes| body::decode("mark", bytes);
        match self.read_checked(key, body::LEN_MAX, decode).await {
            Ok(mark) => Ok(mark.ok()),
            Err(error) if error.kind == crate::object::ObjectErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read a mark", error)),
        }
    }

    async fn list(&self, folder: &str) -> Result<Vec<ObjectInfo>> {
        let listed = self.store.list(folder).await;
        listed.map_err(|error| self.failed("list", error))
    }
}
