//! Lifecycle of events: retention, deletion of tenants, placement, and the lifecycle policies of indices and snapshots.
//!
//! [`RetentionController`] removes old events and the events of deleted tenants, [`placement`] proposes in which shard a tenant
//! lies, [`ilm`] executes the lifecycle policies of indices and [`slm`] those of snapshots. Decisions are pure; each step is
//! idempotent, so that a failed one is repeated. Records of tenants come in through [`DeletionRecords`].

use std::sync::Arc;

mod deletion;
mod erasure_statement;
pub mod ilm;
pub mod placement;
mod retention;
mod retention_controller;
pub mod slm;
mod snapshot_erasure;

pub use deletion::{Deletion, DeletionRecords, IndexDeletion, IndexState};
pub use erasure_statement::{RemainingSnapshot, SnapshotRewritten, SnapshotsRewritten};
pub use retention_controller::RetentionController;

/// Ms since epoch UTC.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;
