//! Running and ended verifications of a process, and the objects that they read.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_engine::BackgroundTask;
use firn_engine::snapshot::{DamagedObject, Verification, VerificationState, VerifySnapshot};
use firn_model::repository::RepositoryMetadata;
use firn_model::{Error, ErrorKind, Result};
use firn_query::Cancel;
use firn_storage::object::ObjectInfo;
use firn_storage::repository::{NamedObject, SnapshotEntry};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Indices verified concurrently. Two keep a network busy while one of them ends, and each takes at most two buffers
/// and two requests.
const RUNNING_MAX: usize = 2;
/// Objects remembered as whole, over all repositories: some 30 MB.
const WHOLE_MAX: usize = 100_000;
/// How long an object counts as whole: retries come within minutes. After that it is read again.
const WHOLE_MS: i64 = 24 * 3_600_000;
/// Objects remembered as damaged. A forgotten one is found again.
const KNOWN_DAMAGED_MAX: usize = 10_000;

/// Running and ended verifications.
#[derive(Default)]
pub(crate) struct Verifications {
    pub(super) jobs: Mutex<HashMap<VerifySnapshot, Arc<Job>>>,
    pub(super) turns: VerifyQueue,
    pub(super) checked: Mutex<Checked>,
}

pub(super) struct VerifyQueue(pub(super) Arc<Semaphore>);

impl Default for VerifyQueue {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(RUNNING_MAX)))
    }
}

pub(super) struct Job {
    pub(super) request: VerifySnapshot,
    pub(super) cancel: Cancel,
    /// Entry in the task list while the job runs.
    pub(super) task: Mutex<Option<BackgroundTask>>,
    pub(super) bytes_verified: AtomicU64,
    pub(super) bytes_total: AtomicU64,
    pub(super) objects_verified: AtomicU64,
    pub(super) objects_total: AtomicU64,
    pub(super) ended: Mutex<Option<Ended>>,
}

#[derive(Clone)]
pub(super) enum Ended {
    Whole(Read),
    Damaged(Vec<DamagedObject>),
    Failed(Error),
}

/// The manifest of a snapshot that was read, and its repository.
#[derive(Clone)]
pub(super) struct Read {
    pub(super) place: Arc<RepositoryMetadata>,
    pub(super) uuid: String,
    pub(super) entry: SnapshotEntry,
}

/// What this process knows of objects in repositories, by repository uuid and object key.
///
/// An object that was read back completely is not read again for another snapshot or attempt for a day, as long as its
/// etag, time and length in the store are the same. This is safe because the verification checks whether the store
/// accepted the bytes that it was given, which holds for the object once and for all. No earlier read can tell what
/// happens to the object in later years, whichever snapshot it was read for.
#[derive(Default)]
pub(super) struct Checked {
    whole: HashMap<(String, String), (ObjectInfo, i64)>,
    /// In the order of insertion.
    order: VecDeque<(String, String)>,
    damaged: HashSet<(String, String)>,
}

impl Checked {
    pub(super) fn note_whole(&mut self, uuid: &str, info: ObjectInfo, now_ms: i64) {
        let id = (uuid.to_owned(), info.key.clone());
        self.damaged.remove(&id);
        if self.whole.insert(id.clone(), (info, now_ms)).is_none() {
            self.order.push_back(id);
        }
        while self.order.len() > WHOLE_MAX {
            let oldest = self.order.pop_front();
            oldest.and_then(|id| self.whole.remove(&id));
        }
    }

    pub(super) fn note_damaged(&mut self, uuid: &str, key: &str) {
        self.forget(uuid, key);
        if self.damaged.len() < KNOWN_DAMAGED_MAX {
            self.damaged.insert((uuid.to_owned(), key.to_owned()));
        }
    }

    /// The object was written again, so its content is unverified.
    pub(super) fn forget(&mut self, uuid: &str, key: &str) {
        let id = (uuid.to_owned(), key.to_owned());
        if self.whole.remove(&id).is_some() {
            self.order.retain(|other| *other != id);
        }
        self.damaged.remove(&id);
    }

    pub(super) fn was_whole(&self, uuid: &str, key: &str, now_ms: i64) -> Option<ObjectInfo> {
        let (info, since_ms) = self.whole.get(&(uuid.to_owned(), key.to_owned()))?;
        (now_ms - since_ms < WHOLE_MS).then(|| info.clone())
    }

    pub(super) fn is_damaged(&self, uuid: &str, key: &str) -> bool {
        self.damaged.contains(&(uuid.to_owned(), key.to_owned()))
    }
}

impl Verifications {
    /// Cancels all verifications: the process ends.
    pub(super) fn stop(&self) {
        self.jobs.lock().values().for_each(|job| job.cancel.cancel());
    }

    /// Returns the keys of a repository that are known to be damaged.
    pub(super) fn damaged_in(&self, uuid: &str) -> HashSet<String> {
        let checked = self.checked.lock();
        let own = checked.damaged.iter().filter(|(repository, _)| repository == uuid);
        own.map(|(_, key)| key.clone()).collect()
    }

    /// Records that an object is being written again.
    pub(super) fn forget(&self, uuid: &str, key: &str) {
        self.checked.lock().forget(uuid, key);
    }

    /// Removes a job whose final result was returned.
    pub(super) fn remove(&self, job: &Arc<Job>) {
        let mut jobs = self.jobs.lock();
        if jobs.get(&job.request).is_some_and(|known| Arc::ptr_eq(known, job)) {
            jobs.remove(&job.request);
        }
    }
}

impl Job {
    pub(super) fn verification(&self, state: VerificationState) -> Verification {
        let number = |number: &AtomicU64| number.load(Ordering::Acquire);
        Verification {
            bytes_verified: number(&self.bytes_verified),
            bytes_total: number(&self.bytes_total),
            objects_verified: number(&self.objects_verified),
            objects_total: number(&self.objects_total),
            state,
        }
    }

    /// Resets the progress to the given objects.
    pub(super) fn count(&self, objects: &[NamedObject]) {
        self.bytes_verified.store(0, Ordering::Release);
        self.objects_verified.store(0, Ordering::Release);
        let bytes = objects.iter().map(|object| object.len).sum();
        self.bytes_total.store(bytes, Ordering::Release);
        self.objects_total.store(objects.len() as u64, Ordering::Release);
    }

    pub(super) fn check(&self) -> Result<()> {
        self.cancel.check().map_err(|_| cancelled(&self.request))
    }
}

pub(super) fn cancelled(request: &VerifySnapshot) -> Error {
    Error::new(
        ErrorKind::Cancelled,
        format!(
            "[{}:{}] the verification of index [{}] was cancelled",
            request.repository, request.snapshot, request.index
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(key: usize) -> ObjectInfo {
        ObjectInfo {
            key: format!("{key}"),
            len: 1,
            etag: None,
            modified_ms: 0,
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten_once_it_is_written_again() {
        let mut checked = Checked::default();
        for key in 0..WHOLE_MAX + 10 {
            checked.note_whole("r", info(key), 5);
        }
        assert_eq!((checked.whole.len(), checked.order.len()), (WHOLE_MAX, WHOLE_MAX));
        assert!(checked.was_whole("r", "9", 5).is_none() && checked.was_whole("r", "10", 5).is_some());
        assert!(checked.was_whole("other", "10", 5).is_none());
        assert!(checked.was_whole("r", "10", 5 + WHOLE_MS).is_none(), "too long ago");
        checked.forget("r", "10");
        assert!(checked.was_whole("r", "10", 5).is_none());
        checked.note_damaged("r", "11");
        assert!(checked.is_damaged("r", "11") && checked.was_whole("r", "11", 5).is_none());
        checked.note_whole("r", info(11), 5);
        assert!(!checked.is_damaged("r", "11"));
        assert_eq!(checked.whole.len(), checked.order.len());
        for key in 0..KNOWN_DAMAGED_MAX + 10 {
            checked.note_damaged("d", &format!("{key}"));
        }
        assert_eq!(checked.damaged.len(), KNOWN_DAMAGED_MAX);
    }
}
