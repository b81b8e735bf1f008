//! Snapshot repository on an object store, shared by several writers.
//!
//! ```text
//! log/0000000001.json     commits: the list of snapshots
//! snapshots/ID.json       a snapshot: its indices, data streams, templates
//! indices/ID.json         an index in a snapshot: its metadata, its shards, their splits
//! splits/HH/ID.split      a segment
//! deletes/HH/ID.del       deleted documents of a segment
//! filters/HH/ID.table     filters of many segments side by side
//! pending/UUID.json       mark of an active writer
//! ```
//!
//! Every object except those in `pending` is written once and never changed. All except commits are named by the
//! SHA-256 of their content. A commit is written with [`PutMode::Create`](crate::object::PutMode), so of two writers
//! one gets the commit number and the other reads the missed commit. What surprises: **commits are never removed.** A
//! reader that knows a commit reads the following ones until there is none, so an outdated listing does no harm. A
//! commit condemns garbage before it is removed, see [`sweep`](Repository::sweep). `docs/formats/repository.md`
//! describes the format.

mod body;
mod cloning;
mod leftovers;
mod log;
mod manifest;
mod naming;
mod references;
mod replacing;
mod sweep;
#[cfg(test)]
mod tests;
mod verifying;
mod write_dependencies;
mod writers;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use firn_model::{Error, ErrorKind, Result};
use tokio::sync::{Mutex, OnceCell};

pub use self::leftovers::Writing;
pub use self::log::{Change, Commit, OpenSweep, SnapshotEntry, State};
pub use self::manifest::{
    DeletesRef, IndexEntry, IndexManifest, MissingShard, ShardManifest, ShardRecord, SnapshotManifest, SnapshotOutcome,
    SnapshotSegment,
};
use self::naming::Remembered;
pub use self::references::Added;
pub use self::replacing::Replaced;
pub use self::sweep::Swept;
pub use self::verifying::{GoOn, NamedObject, ReadBack};
pub use self::write_dependencies::{Condemned, WriteDependencies};
use self::writers::Instance;
pub use self::writers::{Instances, Writer};
use crate::object::{ObjectError, ObjectErrorKind, Objects, verify};

/// Open repository. Cheap to clone behind its [`Arc`]; methods may be called concurrently.
pub struct Repository {
    name: String,
    store: Arc<dyn Objects>,
    readonly: bool,
    writer: Writer,
    instance: Instance,
    /// State at the last known commit; `None`: not read yet.
    known: Mutex<Option<Arc<State>>>,
    /// Number of calls that need the state, and number of those that the last read of the log covers.
    state_calls: AtomicU64,
    answered_calls: AtomicU64,
    /// Writes in progress in this process, by their mark in `pending`.
    running: parking_lot::Mutex<BTreeSet<String>>,
    /// Held during a sweep of this instance: any other open sweep of this instance has failed.
    sweeping: Mutex<()>,
    /// Names in manifests that earlier sweeps have read.
    remembered: parking_lot::Mutex<Remembered>,
    /// Set once the store has proved that its conditional writes work.
    tried: OnceCell<()>,
}

impl fmt::Debug for Repository {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Repository")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Repository {
    /// Creates a repository on a store without reading from it.
    pub fn new(name: &str, store: Arc<dyn Objects>, readonly: bool, writer: Writer) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            store,
            readonly,
            instance: Instance::begin(&writer),
            writer,
            known: Mutex::new(None),
            state_calls: AtomicU64::new(0),
            answered_calls: AtomicU64::new(0),
            running: parking_lot::Mutex::default(),
            sweeping: Mutex::default(),
            remembered: parking_lot::Mutex::default(),
            tried: OnceCell::new(),
        })
    }

    /// Returns the registered name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the object store.
    pub fn store(&self) -> &Arc<dyn Objects> {
        &self.store
    }

    /// Returns whether the repository is read-only.
    pub fn is_readonly(&self) -> bool {
        self.readonly
    }

    /// Returns the manifest of a snapshot by name. Fails with [`ErrorKind::SnapshotMissing`] if it does not exist.
    pub async fn snapshot(&self, name: &str) -> Result<SnapshotManifest> {
        let state = self.state().await?;
        match state.snapshots.get(name) {
            Some(entry) => self.manifest(entry).await,
            None => Err(firn_model::repository::snapshot_missing(&self.name, name)),
        }
    }

    /// Returns the manifest of a snapshot in the log.
    pub async fn manifest(&self, entry: &SnapshotEntry) -> Result<SnapshotManifest> {
        let key = manifest::snapshot_key(&entry.manifest);
        self.read_object("snapshot", &key, &entry.manifest).await
    }

    /// Returns the manifest of an index in a snapshot.
    pub async fn index(&self, entry: &IndexEntry) -> Result<IndexManifest> {
        let key = manifest::index_key(&entry.manifest);
        self.read_object("index", &key, &entry.manifest).await
    }

    /// Fails if the repository is read-only.
    pub fn check_writable(&self, what: &str) -> Result<()> {
        match self.readonly {
            true => Err(self.error(format!("cannot {what} in a readonly repository"))),
            false => Ok(()),
        }
    }

    /// Fails if the repository is read-only, or if the commits of two writers could destroy each other. Before its
    /// first write a repository tests whether its store honours conditional writes, however it was registered.
    pub(super) async fn begin_change(&self, what: &str) -> Result<()> {
        self.check_writable(what)?;
        let try_it = || async {
            let token = (self.writer.fresh_id)();
            verify(&self.name, &*self.store, &token).await
        };
        self.tried.get_or_try_init(try_it).await.map(|_| ())
    }

    /// Returns a repository error in Elasticsearch's wording.
    fn error(&self, what: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Repository, format!("[{}] {what}", self.name))
    }

    /// Converts a store error into a repository error.
    fn failed(&self, what: &str, error: ObjectError) -> Error {
        let kind = match error.kind {
            // An object that a commit or a manifest names is missing.
            ObjectErrorKind::NotFound => ErrorKind::Repository,
            _ => Error::from(error.clone()).kind(),
        };
        Error::new(kind, format!("[{}] cannot {what}", self.name)).caused_by(error)
    }
}
