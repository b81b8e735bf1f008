//! Verification that a repository holds an index of a snapshot: reads its objects back in the background, before the
//! local copy is deleted.
//!
//! What surprises: no state survives a restart. The caller starts the verification again, and it begins at the start;
//! within one process a verified object is not read again ([`Checked`]). The verification does not hold the snapshot:
//! nothing should rely on a snapshot that is removed or rewritten meanwhile. It checks for that whenever it finds
//! damage, and again when it returns the result.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use firn_engine::BackgroundTask;
use firn_engine::snapshot::{DamagedObject, Verification, VerificationState, VerifySnapshot};
use firn_model::repository::snapshot_missing;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::object::Objects;
use firn_storage::repository::{IndexManifest, NamedObject, ReadBack, Repository, SnapshotEntry};
use parking_lot::Mutex;

use super::repositories::Opened;
use super::service::SnapshotService;
use super::verifications::{Checked, Ended, Job, Read};
use crate::node::closing_error;

/// Verifications remembered: running, waiting or ended. An index with a lifecycle policy has one.
const KNOWN_MAX: usize = 10_000;
/// Damaged objects reported for one index.
const DAMAGED_MAX: usize = 100;
/// How often a snapshot may be rewritten while it is read.
const REWRITTEN_MAX: usize = 16;
/// Interval between checks for cancellation; a request to a slow store takes longer.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl SnapshotService {
    /// See [`firn_engine::snapshot::Snapshots::begin_verification`].
    pub(crate) fn begin_verification(
        self: &Arc<Self>,
        request: VerifySnapshot,
        lasting: Option<BackgroundTask>,
    ) -> Result<()> {
        self.repositories.repository(&request.repository)?;
        let io = self.repositories.io()?.clone();
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
        let service = Arc::downgrade(self);
        io.spawn(async move {
            let read = async {
                // The semaphore is never closed.
                let _turn = turns.acquire_owned().await;
                read_back(&service, &job).await
            };
            let ended = tokio::select! {
                read = read => read,
                error = end_of(&service, &job) => Ended::Failed(error),
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
        let opened = self.repositories.opened(&request.repository)?;
        let state = opened.repository.state().await?;
        let is_same = state.uuid == read.uuid && state.snapshots.get(&request.snapshot) == Some(&read.entry);
        Ok(is_same && opened.from.is_same_place(&read.place))
    }
}

/// Waits until a job should stop, and returns the reason.
async fn end_of(snapshots: &Weak<SnapshotService>, job: &Job) -> Error {
    loop {
        if let Err(error) = job.check() {
            return error;
        }
        if snapshots.upgrade().is_none_or(|snapshots| snapshots.node.is_closing()) {
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
                "verified a snapshot: all objects are intact"
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
fn opened(snapshots: &Weak<SnapshotService>, request: &VerifySnapshot) -> Result<Opened> {
    let snapshots = snapshots.upgrade().ok_or_else(closing_error)?;
    snapshots.repositories.opened(&request.repository)
}

async fn read_back(snapshots: &Weak<SnapshotService>, job: &Arc<Job>) -> Ended {
    match try_read_back(snapshots, job).await {
        Ok(ended) => ended,
        Err(error) => Ended::Failed(error),
    }
}

async fn try_read_back(snapshots: &Weak<SnapshotService>, job: &Arc<Job>) -> Result<Ended> {
    let request = &job.request;
    for _ in 0..REWRITTEN_MAX {
        let Opened { from, repository, .. } = opened(snapshots, request)?;
        let state = repository.state().await?;
        let missing = || snapshot_missing(&request.repository, &request.snapshot);
        let entry = state.snapshots.get(&request.snapshot).ok_or_else(missing)?.clone();
        let read = Read {
            place: from,
            uuid: state.uuid.clone(),
            entry,
        };
        let ended = match index_of(&repository, request, &read.entry).await? {
            Ok(index) => read_objects(snapshots, job, &read, &index).await?,
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
    snapshots: &Weak<SnapshotService>,
    job: &Arc<Job>,
    read: &Read,
    index: &IndexManifest,
) -> Result<Vec<DamagedObject>> {
    let with_checked = |work: &mut dyn FnMut(&mut Checked, i64)| -> Result<()> {
        let snapshots = snapshots.upgrade().ok_or_else(closing_error)?;
        let now_ms = snapshots.node.now_ms();
        work(&mut snapshots.repositories.verifications.checked.lock(), now_ms);
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
        } = opened(snapshots, &job.request)?;
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
