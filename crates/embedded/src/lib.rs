//! Embedded engine on Tantivy: one machine, durable, the default.
//!
//! Catalog, bulk, mounts, snapshots and tiers of one node. Shards (`firn_shard`) hold the events, `firn_search` evaluates
//! requests over their segments, and `firn_scheduler` runs both on the threads of the node.

mod engine;
mod node;

mod background;
mod backoff;
mod bulk;
mod catalog;
mod config;
mod data_folder;
mod disk_reserve;
mod disk_watch;
mod lock;
mod maintenance;
mod merge_schedule;
mod mounts;
mod operators;
mod positions;
mod scrub;
mod ticker;
mod tiers;

mod snapshots;

pub use firn_segment::catalog_version::{CatalogVersion, NotedVersion};

pub use crate::catalog::is_panic_reported;
pub use crate::config::{Clock, ContextLimits, EmbeddedConfig, SpaceProbe, Watermark};
pub use crate::data_folder::{RebuildReport, rebuild_catalog};
pub use crate::engine::{DamagedShard, Embedded, RecoveryReport};
pub use crate::tiers::TierPaths;
