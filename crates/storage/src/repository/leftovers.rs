//! What interrupted writers leave behind.
//!
//! Whoever writes a snapshot leaves a mark in `pending` while it does. Uploads that no commit names are
//! garbage unless they are younger than the oldest mark of a writer that lives. A mark is dead if its writer
//! says so (an instance of it left the mark that is gone, or that is not at it any more) or if it is older than a day. None of this is
//! needed for safety, which is the business of sweeps: a mark only spares a writer from writing
//! things twice.

use bytes::Bytes;
use firn_model::Result;
use serde::{Deserialize, Serialize};

use super::references::Named;
use super::{Basis, Repository, Swept, body};
use crate::object::{ObjectInfo, PutMode};

const FOLDER: &str = "pending/";
/// A mark of another writer that is older than this is dead: no snapshot takes a day.
const MARK_AGE_MS_MAX: i64 = 24 * 60 * 60 * 1000;
/// Where there may be garbage.
const SWEPT_FOLDERS: [&str; 5] = ["splits/", "deletes/", "filters/", "indices/", "snapshots/"];

/// What a mark says.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    writer: String,
    #[serde(default)]
    instance: String,
    time_ms: i64,
}

/// Somebody is writing; ends with [`Repository::end_writing`].
#[derive(Debug)]
pub struct Writing {
    key: String,
    /// What snapshots named when it began.
    pub basis: Basis,
}

impl Repository {
    /// Leaves a mark, and removes first what this writer left behind when it was killed.
    pub async fn begin_writing(&self) -> Result<Writing> {
        self.begin_change("create snapshot").await?;
        let id = (self.writer.fresh_id)();
        let key = format!("{FOLDER}{id}.json");
        // First, so that nothing of this process takes the mark for a dead one.
        self.running.lock().insert(key.clone());
        match self.leave_mark(&key).await {
            Ok(basis) => Ok(Writing { key, basis }),
            Err(error) => {
                self.running.lock().remove(&key);
                Err(error)
            }
        }
    }

    async fn leave_mark(&self, key: &str) -> Result<Basis> {
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
        Ok(Basis::of(self.state().await?))
    }

    /// Takes the mark away. If that fails the mark is dead, and the next cleanup removes it.
    pub async fn end_writing(&self, writing: Writing) -> Result<()> {
        self.running.lock().remove(&writing.key);
        let removed = self.store.delete(&writing.key).await;
        removed.map_err(|error| self.failed("delete", error))
    }

    /// Removes what no snapshot names and nobody is writing.
    pub async fn cleanup(&self) -> Result<Swept> {
        self.cleanup_and_count().await.map(|(swept, _)| swept)
    }

    /// The same. Says also how many objects it did not look at, because they came after somebody began to write.
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

    /// The keys of dead marks, and when the oldest other one was left, by the store's clock.
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

    /// Whether nobody writes under a mark any more.
    fn is_dead(&self, key: &str, mark: &Mark) -> bool {
        if mark.writer != self.writer.id {
            return (self.writer.now_ms)() - mark.time_ms >= MARK_AGE_MS_MAX;
        }
        !self.is_running(key) && !self.instance.has_living_sibling(&mark.instance)
    }

    fn is_running(&self, key: &str) -> bool {
        self.running.lock().contains(key)
    }

    /// `None`: it is gone, or nothing that a firn wrote.
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
