//! A snapshot repository: what lies on an object store, and how two writers share it.
//!
//! ```text
//! log/0000000001.json     commits: which snapshots there are
//! snapshots/ID.json       a snapshot: its indices, data streams, templates
//! indices/ID.json         an index in a snapshot: its metadata, its shards, their splits
//! splits/HH/ID.split      a segment
//! deletes/HH/ID.del       which documents of a segment are deleted
//! filters/HH/ID.table     filters of many segments side by side
//! pending/UUID.json       somebody is writing
//! ```
//!
//! Every object but those of `pending` is written once and never changed; all but commits are called by
//! the SHA-256 of their content. A commit is written with [`PutMode::Create`](crate::object::PutMode), so of two writers one wins its
//! number and the other reads what it missed. What surprises: **commits are never removed.** So whoever
//! knows one reads on from it until there is none, and a listing that is out of date does no harm. What is
//! garbage is condemned by a commit before it goes, see [`sweep`](Repository::sweep). The format is
//! described in `docs/formats/repository.md`.

mod basis;
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
mod writers;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use firn_model::{Error, ErrorKind, Result};
use tokio::sync::{Mutex, OnceCell};

pub use self::basis::{Basis, Condemned};
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
use self::writers::Instance;
pub use self::writers::{Instances, Writer};
use crate::object::{ObjectError, ObjectErrorKind, Objects, verify};

/// An open repository. Cheap to clone behind its [`Arc`]; methods may be called concurrently.
pub struct Repository {
    name: String,
    store: Arc<dyn Objects>,
    readonly: bool,
    writer: Writer,
    instance: Instance,
    /// What the last commit known says; `None`: nothing was read yet.
    known: Mutex<Option<Arc<State>>>,
    /// How often that was asked for, and for how many of them the last look at the log began late enough.
    asked: AtomicU64,
    answered: AtomicU64,
    /// Writes of this process that are under way, by their mark in `pending`.
    running: parking_lot::Mutex<BTreeSet<String>>,
    /// Held by a sweep of this instance: any other that is open in its name has failed.
    sweeping: Mutex<()>,
    /// What manifests name that a sweep has read.
    remembered: parking_lot::Mutex<Remembered>,
    /// Whether the store keeps the promise that commits rest upon.
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
    /// A repository on a store. Nothing is read yet.
    pub fn new(name: &str, store: Arc<dyn Objects>, readonly: bool, writer: Writer) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            store,
            readonly,
            instance: Instance::begin(&writer),
            writer,
            known: Mutex::new(None),
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            running: parking_lot::Mutex::default(),
            sweeping: Mutex::default(),
            remembered: parking_lot::Mutex::default(),
            tried: OnceCell::new(),
        })
    }

    /// As it is registered.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it lies.
    pub fn store(&self) -> &Arc<dyn Objects> {
        &self.store
    }

    /// Whether nothing may be written.
    pub fn is_readonly(&self) -> bool {
        self.readonly
    }

    /// The manifest of a snapshot by name, or [`ErrorKind::SnapshotMissing`].
    pub async fn snapshot(&self, name: &str) -> Result<SnapshotManifest> {
        let state = self.state().await?;
        match state.snapshots.get(name) {
            Some(entry) => self.manifest(entry).await,
            None => Err(firn_model::repository::snapshot_missing(&self.name, name)),
        }
    }

    /// The manifest of a snapshot that the log names.
    pub async fn manifest(&self, entry: &SnapshotEntry) -> Result<SnapshotManifest> {
        let key = manifest::snapshot_key(&entry.manifest);
        self.read_object("snapshot", &key, &entry.manifest).await
    }

    /// What a snapshot says of an index.
    pub async fn index(&self, entry: &IndexEntry) -> Result<IndexManifest> {
        let key = manifest::index_key(&entry.manifest);
        self.read_object("index", &key, &entry.manifest).await
    }

    /// Fails where nothing may be written.
    pub fn check_writable(&self, what: &str) -> Result<()> {
        match self.readonly {
            true => Err(self.error(format!("cannot {what} in a readonly repository"))),
            false => Ok(()),
        }
    }

    /// Fails where nothing may be written, and where the commits of two writers could destroy each other: before its
    /// first write a repository tries whether its store refuses to write what is there, however it was registered.
    pub(super) async fn begin_change(&self, what: &str) -> Result<()> {
        self.check_writable(what)?;
        let try_it = || async {
            let token = (self.writer.fresh_id)();
            verify(&self.name, &*self.store, &token).await
        };
        self.tried.get_or_try_init(try_it).await.map(|_| ())
    }

    /// An error of the repository itself, as Elasticsearch words them.
    fn error(&self, what: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Repository, format!("[{}] {what}", self.name))
    }

    /// An error of the store, as one of the repository.
    fn failed(&self, what: &str, error: ObjectError) -> Error {
        let kind = match error.kind {
            // Something that a commit or a manifest names is gone.
            ObjectErrorKind::NotFound => ErrorKind::Repository,
            _ => Error::from(error.clone()).kind(),
        };
        Error::new(kind, format!("[{}] cannot {what}", self.name)).caused_by(error)
    }
}
