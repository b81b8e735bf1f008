//! Verification that a repository holds an index of a snapshot: reads its objects back in the background, before the
//! local copy is deleted.
//!
//! What surprises: no state survives a restart. The caller starts the verification again, and it begins at the start;
//! within one process a verified object is not read again ([`Checked`]). The verification does not hold the snapshot:
//! nothing should rely on a snapshot that is removed or rewritten meanwhile. It checks for that whenever it finds
//! damage, and again when it returns the result.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use firn_engine::BackgroundTask;
use firn_engine::snapshot::{DamagedObject, Verification, VerificationState, VerifySnapshot};
use firn_model::repository::{RepositoryMetadata, snapshot_missing};
use firn_model::{Error, ErrorKind, Result};
use firn_query::Cancel;
use firn_storage::object::{ObjectInfo, Objects};
use firn_storage::repository::{IndexManifest, NamedObject, ReadBack, Repository, SnapshotEntry};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::Opened;
use crate::engine::{Core, closing_error};

/// Indices verified concurrently. Two keep a network busy while one of them ends, and each takes at most two buffers
/// and two requests.
const RUNNING_MAX: usize = 2;
/// Verifications remembered: running, waiting or ended. An index with a lifecycle policy has one.
const KNOWN_MAX: usize = 10_000;
/// Damaged objects reported for one index.
const DAMAGED_MAX: usize = 100;
/// Objects remembered as whole, over all repositories: some 30 MB.
const WHOLE_MAX: usize = 100_000;
/// How long an object counts as whole: retries come within minutes. After that it is read again.
const WHOLE_MS: i64 = 24 * 3_600_000;
/// Objects remembered as damaged. A forgotten one is found again.
const KNOWN_DAMAGED_MAX: usize = 10_000;
/// How often a snapshot may be rewritten while it is read.
const REWRITTEN_MAX: usize = 16;
/// Interval between checks for cancellation; a request to a slow store takes longer.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Running and ended verifications.
#[derive(Default)]
pub(crate) struct Verifications {
    jobs: Mutex<HashMap<VerifySnapshot, Arc<Job>>>,
    turns: VerifyQueue,
    checked: Mutex<Checked>,
}

struct VerifyQueue(Arc<Semaphore>);

impl Default for VerifyQueue {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(RUNNING_MAX)))
    }
}

struct Job {
    request: VerifySnapshot,
    cancel: Cancel,
    /// Entry in the task list while the job runs.
    task: Mutex<Option<BackgroundTask>>,
    bytes_verified: AtomicU64,
    bytes_total: AtomicU64,
    objects_verified: AtomicU64,
    objects_total: AtomicU64,
    ended: Mutex<Option<Ended>>,
}

#[derive(Clone)]
enum Ended {
    Whole(Read),
    Damaged(Vec<DamagedObject>),
    Failed(Error),
}

/// The manifest of a snapshot that was read, and its repository.
#[derive(Clone)]
struct Read {
    place: Arc<RepositoryMetadata>,
    uuid: String,
    entry: SnapshotEntry,
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
    fn note_whole(&mut self, uuid: &str, info: ObjectInfo, now_ms: i64) {
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

    fn note_damaged(&mut self, uuid: &str, key: &str) {
        self.forget(uuid, key);
        if self.damaged.len() < KNOWN_DAMAGED_MAX {
            self.damaged.insert((uuid.to_owned(), key.to_owned()));
        }
    }

    /// The object was written again, so its content is unverified.
    fn forget(&mut self, uuid: &str, key: &str) {
        let id = (uuid.to_owned(), key.to_owned());
        if self.whole.remove(&id).is_some() {
            self.order.retain(|other| *other != id);
        }
        self.damaged.remove(&id);
    }

    fn was_whole(&self, uuid: &str, key: &str, now_ms: i64) -> Option<ObjectInfo> {
        let (info, since_ms) = self.whole.get(&(uuid.to_owned(), key.to_owned()))?;
        (now_ms - since_ms < WHOLE_MS).then(|| info.clone())
    }

    fn is_damaged(&self, uuid: &str, key: &str) -> bool {
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
    fn remove(&self, job: &Arc<Job>) {
        let mut jobs = self.jobs.lock();
        if jobs.get(&job.request).is_some_and(|known| Arc::ptr_eq(known, job)) {
            jobs.remove(&job.request);
        }
    }
}

impl Job {
    fn verification(&self, state: VerificationState) -> Verification {
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
    fn count(&self, objects: &[NamedObject]) {
        self.bytes_verified.store(0, Ordering::Release);
        self.objects_verified.store(0, Ordering::Release);
        let bytes = objects.iter().map(|object| object.len).sum();
        self.bytes_total.store(bytes, Ordering::Release);
        self.objects_total.store(objects.len() as u64, Ordering::Release);
    }

    fn check(&self) -> Result<()> {
        self.cancel.check().map_err(|_| cancelled(&self.request))
    }
}

fn cancelled(request: &VerifySnapshot) -> Error {
    Error::new(
        ErrorKind::Cancelled,
        format!(
            "[{}:{}] the verification of index [{}] was cancelled",
            request.repository, request.snapshot, request.index
        ),
    )
}

impl Core {
    /// See [`firn_engine::snapshot::Snapshots::begin_verification`].
    pub(crate) fn begin_verification(
        self: &Arc<Self>,
        request: VerifySnapshot,
        lasting: Option<BackgroundTask>,
    ) -> Result<()> {
        self.repository(&request.repository)?;
        let io = self.io()?.clone();
        let all = &self.repositories.verifications;
        let job = Arc::new(Job {
            request: request.clone(),
            cancel: lasting.as_ref().map(|task| task.cancel.clone()).unwrap_or_default(),
            task: Mutex::new(lasting),
            bytes_verified: AtomicU64::new(0),
            bytes_total: AtomicU64::new(0),
            objects_verified: AtomicU64::new(0),
            objects_total: AtomicU64::new(0),
            ended: Mutex::new(None),
        });
        {
            let mut jobs = all.jobs.lock();
            if jobs.contains_key(&request) {
                return Ok(());
            }
            if jobs.len() >= KNOWN_MAX {
                let reason = format!("[{KNOWN_MAX}] snapshots are being verified already");
                return Err(Error::new(ErrorKind::Rejected, reason));
            }
            jobs.insert(request, Arc::clone(&job));
        }
        let turns = Arc::clone(&all.turns.0);
        // Weak, so that the verification does not keep a closed engine alive.
        let core = Arc::downgrade(self);
        io.spawn(async move {
            let read = async {
                // The semaphore is never closed.
                let _turn = turns.acquire_owned().await;
                read_back(&core, &job).await
            };
            let ended = tokio::select! {
                read = read => read,
                error = end_of(&core, &job) => Ended::Failed(error),
            };
            log_end(&job, &ended);
            *job.ended.lock() = Some(ended);
            job.task.lock().take();
        });
        Ok(())
    }

    /// See [`firn_engine::snapshot::Snapshots::verification`].
    pub(crate) async fn verification(&self, request: &VerifySnapshot) -> Result<Option<Verification>> {
        let all = &self.repositories.verifications;
        let Some(job) = all.jobs.lock().get(request).cloned() else {
            return Ok(None);
        };
        let ended = job.ended.lock().clone();
        match ended {
            None => Ok(Some(job.verification(VerificationState::Running))),
            Some(Ended::Whole(read)) if self.is_still(request, &read).await? => {
                Ok(Some(job.verification(VerificationState::Whole)))
            }
            Some(ended) => {
                all.remove(&job);
                match ended {
                    Ended::Whole(_) => Ok(None),
                    Ended::Damaged(objects) => Ok(Some(job.verification(VerificationState::Damaged(objects)))),
                    Ended::Failed(error) => Err(error),
                }
            }
        }
    }

    /// See [`firn_engine::snapshot::Snapshots::end_verification`].
    pub(crate) fn end_verification(&self, request: &VerifySnapshot) {
        if let Some(job) = self.repositories.verifications.jobs.lock().remove(request) {
            job.cancel.cancel();
        }
    }

    /// Whether the manifest that was read is still that of the snapshot.
    async fn is_still(&self, request: &VerifySnapshot, read: &Read) -> Result<bool> {
        let opened = self.opened(&request.repository)?;
        let state = opened.repository.state().await?;
        let is_same = state.uuid == read.uuid && state.snapshots.get(&request.snapshot) == Some(&read.entry);
        Ok(is_same && opened.from.is_same_place(&read.place))
    }
}

/// Waits until a job should stop, and returns the reason.
async fn end_of(core: &Weak<Core>, job: &Job) -> Error {
    loop {
        if let Err(error) = job.check() {
            return error;
        }
        if core.upgrade().is_none_or(|core| core.is_closing()) {
            return closing_error();
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Logs the result of a verification.
fn log_end(job: &Job, ended: &Ended) {
    let VerifySnapshot {
        repository,
        snapshot,
        index,
    } = &job.request;
    match ended {
        Ended::Whole(_) => {
            let bytes = job.bytes_total.load(Ordering::Acquire);
            tracing::info!(
                repository,
                snapshot,
                index,
                bytes,
                "verified a snapshot: all objects are whole"
            );
        }
        Ended::Damaged(objects) => {
            for object in objects {
                tracing::error!(
                    repository,
                    snapshot,
                    index,
                    object = object.key,
                    reason = object.reason,
                    "verification of a snapshot found a damaged object"
                );
            }
        }
        Ended::Failed(error) if error.kind() == ErrorKind::Cancelled => {}
        Ended::Failed(error) => {
            tracing::warn!(repository, snapshot, index, %error, "cannot verify a snapshot");
        }
    }
}

/// Returns the repository as it is registered now: a new registration may have changed its rate.
fn opened(core: &Weak<Core>, request: &VerifySnapshot) -> Result<Opened> {
    let core = core.upgrade().ok_or_else(closing_error)?;
    core.opened(&request.repository)
}

async fn read_back(core: &Weak<Core>, job: &Arc<Job>) -> Ended {
    match try_read_back(core, job).await {
        Ok(ended) => ended,
        Err(error) => Ended::Failed(error),
    }
}

async fn try_read_back(core: &Weak<Core>, job: &Arc<Job>) -> Result<Ended> {
    let request = &job.request;
    for _ in 0..REWRITTEN_MAX {
        let Opened { from, repository, .. } = opened(core, request)?;
        let state = repository.state().await?;
        let missing = || snapshot_missing(&request.repository, &request.snapshot);
        let entry = state.snapshots.get(&request.snapshot).ok_or_else(missing)?.clone();
        let read = Read {
            place: from,
            uuid: state.uuid.clone(),
            entry,
        };
        let ended = match index_of(&repository, request, &read.entry).await? {
            Ok(index) => read_objects(core, job, &read, &index).await?,
            Err(damaged) => vec![damaged],
        };
        if repository.state().await?.snapshots.get(&request.snapshot) != Some(&read.entry) {
            // The snapshot was removed or rewritten: missing objects are no damage, and existing ones belong to another
            // snapshot.
            continue;
        }
        return Ok(match ended.is_empty() {
            true => Ended::Whole(read),
            false => Ended::Damaged(ended),
        });
    }
    Err(Error::new(
        ErrorKind::SnapshotInProgress,
        format!(
            "[{}:{}] the snapshot was rewritten during [{REWRITTEN_MAX}] attempts to read it; try again",
            request.repository, request.snapshot
        ),
    ))
}

/// Returns the manifest of the index, or the damage of that manifest or of the snapshot's.
async fn index_of(
    repository: &Repository,
    request: &VerifySnapshot,
    entry: &SnapshotEntry,
) -> Result<Result<IndexManifest, DamagedObject>> {
    let damaged = |key: String, error: Error| match error.kind() {
        ErrorKind::Repository => Ok(Err(DamagedObject {
            key,
            reason: error.to_string(),
        })),
        _ => Err(error),
    };
    let snapshot = match repository.manifest(entry).await {
        Ok(snapshot) => snapshot,
        Err(error) => return damaged(entry.key(), error),
    };
    let Some(index) = snapshot.indices.get(&request.index) else {
        return Err(Error::illegal_argument(format!(
            "snapshot [{}:{}] has no index [{}]",
            request.repository, request.snapshot, request.index
        )));
    };
    match repository.index(index).await {
        Ok(index) => Ok(Ok(index)),
        Err(error) => damaged(index.key(), error),
    }
}

/// Reads all objects that an index names and returns the damaged ones. Objects that were damaged last time come first:
/// if they still are, the others need not be read.
async fn read_objects(
    core: &Weak<Core>,
    job: &Arc<Job>,
    read: &Read,
    index: &IndexManifest,
) -> Result<Vec<DamagedObject>> {
    let with_checked = |work: &mut dyn FnMut(&mut Checked, i64)| -> Result<()> {
        let core = core.upgrade().ok_or_else(closing_error)?;
        let now_ms = core.now_ms();
        work(&mut core.repositories.verifications.checked.lock(), now_ms);
        Ok(())
    };
    let mut objects: Vec<NamedObject> = index.objects().into_values().collect();
    let mut doubtful = 0;
    with_checked(&mut |checked, _| {
        objects.sort_by_key(|object| !checked.is_damaged(&read.uuid, &object.key));
        doubtful = objects.partition_point(|object| checked.is_damaged(&read.uuid, &object.key));
    })?;
    job.count(&objects);
    let mut damaged = Vec::new();
    for (place, object) in objects.iter().enumerate() {
        if place == doubtful && !damaged.is_empty() || damaged.len() >= DAMAGED_MAX {
            break;
        }
        job.check()?;
        let Opened {
            from,
            repository,
            store,
        } = opened(core, &job.request)?;
        if !from.is_same_place(&read.place) {
            let reason = format!("repository [{}] has another location now", job.request.repository);
            return Err(Error::new(ErrorKind::Conflict, reason));
        }
        let store: Arc<dyn Objects> = Arc::new(store.for_restore());
        let mut known = None;
        with_checked(&mut |checked, now_ms| known = checked.was_whole(&read.uuid, &object.key, now_ms))?;
        // If the request fails or the info differs, the object is read.
        let is_known = match known {
            Some(known) => store.info(&object.key).await.is_ok_and(|info| info == known),
            None => false,
        };
        if is_known {
            job.bytes_verified.fetch_add(object.len, Ordering::AcqRel);
            job.objects_verified.fetch_add(1, Ordering::AcqRel);
            continue;
        }
        let go_on = |more| {
            job.bytes_verified.fetch_add(more, Ordering::AcqRel);
            job.check()
        };
        match repository.read_back(&*store, object, &go_on).await? {
            ReadBack::Sound(info) => {
                with_checked(&mut |checked, now_ms| checked.note_whole(&read.uuid, info.clone(), now_ms))?;
                job.objects_verified.fetch_add(1, Ordering::AcqRel);
            }
            ReadBack::Damaged(reason) => {
                with_checked(&mut |checked, _| checked.note_damaged(&read.uuid, &object.key))?;
                damaged.push(DamagedObject {
                    key: object.key.clone(),
                    reason,
                });
            }
        }
    }
    Ok(damaged)
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
