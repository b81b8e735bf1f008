//! Snapshot repositories, snapshots and restores.
//!
//! A snapshot is a named set of splits at one moment, in a repository: a registered location in an object store. All
//! operations are for operators; they fail with [`crate::ErrorKind::Forbidden`] unless the scope is unlimited.

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

use firn_model::Result;

use crate::RequestContext;

/// Selection of snapshots of a repository: names and patterns (`*` for all); a leading `-` excludes. A missing name
/// without a pattern fails with [`crate::ErrorKind::SnapshotMissing`].
pub type SnapshotNames = Vec<String>;

/// Snapshot operations of an engine.
#[async_trait]
pub trait Snapshots: Send + Sync {
    /// Registers a repository; with `verify` only if it can be written and read back.
    async fn put_repository(&self, ctx: &RequestContext, request: PutRepository) -> Result<()>;

    /// Returns the repositories that match names and patterns, by name.
    async fn repositories(&self, ctx: &RequestContext, names: &[String]) -> Result<Vec<Repository>>;

    /// Unregisters repositories and keeps their objects. Refused while an index is mounted from one, or a snapshot is
    /// running in it.
    async fn delete_repository(&self, ctx: &RequestContext, names: &[String]) -> Result<()>;

    /// Writes an object to a repository, reads it back and removes it.
    async fn verify_repository(&self, ctx: &RequestContext, name: &str) -> Result<()>;

    /// Measures a repository and checks the consistency that its store promises; returns the report as JSON.
    async fn analyze_repository(
        &self,
        ctx: &RequestContext,
        request: AnalyzeRepository,
    ) -> Result<serde_json::Map<String, serde_json::Value>>;

    /// Removes objects that no snapshot references and no running snapshot writes.
    async fn cleanup_repository(&self, ctx: &RequestContext, name: &str) -> Result<CleanupOutcome>;

    /// Creates a snapshot and returns when it is complete or, if the request says so, when it has started. A snapshot
    /// is visible only after its commit, and then complete.
    async fn create_snapshot(&self, ctx: &RequestContext, request: CreateSnapshot) -> Result<SnapshotInfo>;

    /// Returns the snapshots of a repository, running ones included, by start time. `ignore_unavailable` leaves out
    /// missing and unreadable snapshots.
    async fn list_snapshots(
        &self,
        ctx: &RequestContext,
        repository: &str,
        names: &SnapshotNames,
        ignore_unavailable: bool,
    ) -> Result<Vec<SnapshotInfo>>;

    /// Returns the progress of snapshots by shard. Without a repository: of running snapshots in all repositories.
    async fn snapshot_status(
        &self,
        ctx: &RequestContext,
        repository: Option<&str>,
        names: &SnapshotNames,
        ignore_unavailable: bool,
    ) -> Result<Vec<SnapshotStatus>>;

    /// Removes snapshots and the objects that only they reference. A running one is stopped first. Refused while an
    /// index is mounted from one.
    async fn delete_snapshot(&self, ctx: &RequestContext, repository: &str, names: &SnapshotNames) -> Result<()>;

    /// Creates a snapshot of indices of another snapshot, without copying their data.
    async fn clone_snapshot(&self, ctx: &RequestContext, request: CloneSnapshot) -> Result<()>;

    /// Restores indices from a snapshot and returns when they are complete or, if the request says so, when the restore
    /// has started. An index appears complete or not at all.
    async fn restore_snapshot(&self, ctx: &RequestContext, request: RestoreSnapshot) -> Result<Restored>;
}

/// Removal of tenants' events from snapshots.
#[async_trait]
pub trait SnapshotErasure: Send + Sync {
    /// Finds the snapshots that hold events of a tenant, in every registered repository.
    async fn snapshots_of_tenant(&self, ctx: &RequestContext, tenant: &TenantId) -> Result<TenantSnapshots>;

    /// Removes the events of a tenant from a snapshot permanently. The snapshot keeps its name, its id and all other
    /// events, and indices of this node that are mounted from it read the new version. May be repeated, and restarted
    /// after an interruption at any point. Fails with [`crate::ErrorKind::SnapshotInProgress`] while another operation
    /// reads or removes the snapshot.
    async fn remove_tenant_from_snapshot(
        &self,
        ctx: &RequestContext,
        tenant: &TenantId,
        repository: &str,
        snapshot: &str,
    ) -> Result<RewrittenSnapshot>;

    /// Removes objects that no snapshot of a repository references. Returns how many objects it did not check because a
    /// running write may need them.
    async fn remove_leftovers(&self, ctx: &RequestContext, repository: &str) -> Result<u64>;
}

/// Verification of snapshots: reads them back from their store.
#[async_trait]
pub trait SnapshotVerification: Send + Sync {
    /// Starts a verification: reads all data of an index in a snapshot back from the store, bypassing every cache.
    /// Returns at once; the verification runs in the background at the rate limit of restores, as
    /// [`RequestContext::lasting`]. A running verification of the same data continues, and no state survives the
    /// process.
    async fn begin_verification(&self, ctx: &RequestContext, request: VerifySnapshot) -> Result<()>;

    /// Returns the progress of that verification. `None`: it was not started, or the snapshot has changed since it
    /// ended. An error, such as [`crate::ErrorKind::SnapshotMissing`] or a store that does not answer, and damage are
    /// returned once; then the verification is removed.
    async fn verification(&self, ctx: &RequestContext, request: &VerifySnapshot) -> Result<Option<Verification>>;

    /// Stops that verification if it runs, and removes its result.
    async fn end_verification(&self, ctx: &RequestContext, request: &VerifySnapshot) -> Result<()>;
}
