//! Snapshot repositories, snapshots, and what is restored from them.
//!
//! A snapshot is a named set of splits at one moment, in a repository: a registered place on an object
//! store. All of this is for operators; [`crate::ErrorKind::Forbidden`] unless the scope is unlimited.

mod info;
mod repository;
mod restore;
mod status;
mod tenant;
mod verification;

use async_trait::async_trait;
use firn_model::tenant::TenantId;

pub use info::{CloneSnapshot, CreateSnapshot, IndexDetails, ShardFailure, SnapshotInfo, SnapshotState};
pub use repository::{AnalyzeRepository, CleanupOutcome, PutRepository, Repository};
pub use restore::{RestoreSnapshot, Restored};
pub use status::{FileCount, IndexSnapshotStatus, ShardSnapshotStatus, ShardStage, SnapshotStatus};
pub use tenant::{HoldingSnapshot, RewrittenSnapshot, RunningSnapshot, TenantSnapshots, UnreadSnapshots};
pub use verification::{DamagedObject, Verification, VerificationState, VerifySnapshot};

use crate::{Error, RequestContext, Result};

/// Which snapshots of a repository: names and patterns (`*` for all), `-` before one takes it out.
/// A name without a pattern that is not there is [`crate::ErrorKind::SnapshotMissing`].
pub type SnapshotNames = Vec<String>;

/// What an engine does with snapshots. One that has none refuses by name, as these defaults do.
#[async_trait]
pub trait Snapshots: Send + Sync {
    /// Registers a repository; with `verify` only if it can be written and read back.
    async fn put_repository(&self, _ctx: &RequestContext, _request: PutRepository) -> Result<()> {
        Err(lacks("registering snapshot repositories"))
    }

    /// The repositories that names and patterns stand for, by name.
    async fn repositories(&self, _ctx: &RequestContext, _names: &[String]) -> Result<Vec<Repository>> {
        Ok(Vec::new())
    }

    /// Forgets repositories and leaves what lies in them. Refused while an index is mounted from one, or
    /// a snapshot is being made in it.
    async fn delete_repository(&self, _ctx: &RequestContext, _names: &[String]) -> Result<()> {
        Err(lacks("snapshot repositories"))
    }

    /// Writes to a repository, reads it back and removes it.
    async fn verify_repository(&self, _ctx: &RequestContext, _name: &str) -> Result<()> {
        Err(lacks("snapshot repositories"))
    }

    /// Measures a repository and looks for promises that its store breaks; the report as JSON.
    async fn analyze_repository(
        &self,
        _ctx: &RequestContext,
        _request: AnalyzeRepository,
    ) -> Result<serde_json::Map<String, serde_json::Value>> {
        Err(lacks("snapshot repositories"))
    }

    /// Removes what no snapshot needs and nobody is writing.
    async fn cleanup_repository(&self, _ctx: &RequestContext, _name: &str) -> Result<CleanupOutcome> {
        Err(lacks("snapshot repositories"))
    }

    /// Makes a snapshot and returns when it is there, or, if the request says so, when it has begun. Only
    /// a snapshot that was committed is ever found, whole.
    async fn create_snapshot(&self, _ctx: &RequestContext, _request: CreateSnapshot) -> Result<SnapshotInfo> {
        Err(lacks("snapshots"))
    }

    /// Snapshots of a repository, those being made included, in the order of their start.
    /// `ignore_unavailable` leaves out what is missing or cannot be read.
    async fn snapshots(
        &self,
        _ctx: &RequestContext,
        _repository: &str,
        _names: &SnapshotNames,
        _ignore_unavailable: bool,
    ) -> Result<Vec<SnapshotInfo>> {
        Err(lacks("snapshots"))
    }

    /// The snapshots that hold events of a tenant, in every repository that is registered.
    async fn snapshots_of_tenant(&self, _ctx: &RequestContext, _tenant: &TenantId) -> Result<TenantSnapshots> {
        Ok(TenantSnapshots::default())
    }

    /// Takes the events of a tenant out of a snapshot for good: the snapshot keeps its name, its id and all other events, and
    /// indices of this node that are mounted from it read what it is then. May be repeated, and begun again after it was
    /// ended at any point. [`crate::ErrorKind::SnapshotInProgress`] while somebody reads or removes the snapshot.
    async fn remove_tenant_from_snapshot(
        &self,
        _ctx: &RequestContext,
        _tenant: &TenantId,
        _repository: &str,
        _snapshot: &str,
    ) -> Result<RewrittenSnapshot> {
        Err(lacks("removing events from snapshots"))
    }

    /// Removes what no snapshot of a repository needs, and says how many objects were not looked at, because somebody who
    /// is writing may need them.
    async fn remove_leftovers(&self, _ctx: &RequestContext, _repository: &str) -> Result<u64> {
        Err(lacks("snapshot repositories"))
    }

    /// How far snapshots are, by shard. No repository: those being made now in any.
    async fn snapshot_status(
        &self,
        _ctx: &RequestContext,
        _repository: Option<&str>,
        _names: &SnapshotNames,
        _ignore_unavailable: bool,
    ) -> Result<Vec<SnapshotStatus>> {
        Err(lacks("snapshots"))
    }

    /// Begins to read back from the store, past every cache, all that a snapshot has of an index, and returns at once: it
    /// goes on in the background, at the pace of restores, as [`RequestContext::lasting`]. What runs already goes on, and
    /// nothing of it outlives the process.
    async fn begin_verification(&self, _ctx: &RequestContext, _request: VerifySnapshot) -> Result<()> {
        Err(lacks("reading snapshots back"))
    }

    /// How far that is. `None`: it was not begun, or the snapshot has changed since it ended. An error, such as
    /// [`crate::ErrorKind::SnapshotMissing`] or that of a store that does not answer, and damage are told once, and are
    /// the end of it.
    async fn verification(&self, _ctx: &RequestContext, _request: &VerifySnapshot) -> Result<Option<Verification>> {
        Err(lacks("reading snapshots back"))
    }

    /// Ends that, whether it runs or has ended, and forgets it.
    async fn end_verification(&self, _ctx: &RequestContext, _request: &VerifySnapshot) -> Result<()> {
        Ok(())
    }

    /// Removes snapshots, and what only they needed. One that is being made is stopped first. Refused
    /// while an index is mounted from one.
    async fn delete_snapshot(&self, _ctx: &RequestContext, _repository: &str, _names: &SnapshotNames) -> Result<()> {
        Err(lacks("snapshots"))
    }

    /// Makes a snapshot of indices of another, without copying what they hold.
    async fn clone_snapshot(&self, _ctx: &RequestContext, _request: CloneSnapshot) -> Result<()> {
        Err(lacks("snapshots"))
    }

    /// Makes indices of those in a snapshot and returns when they are there, or, if the request says so,
    /// when it has begun. An index appears whole or not at all.
    async fn restore_snapshot(&self, _ctx: &RequestContext, _request: RestoreSnapshot) -> Result<Restored> {
        Err(lacks("snapshots"))
    }
}

fn lacks(what: &str) -> Error {
    Error::not_implemented(format!("{what} with this engine"))
}
