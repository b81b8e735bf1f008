//! Embedded engine on Tantivy: one machine, durable, the default.
//!
//! The only crate that names Tantivy. A shard is a WAL, write buffers and immutable segments; **a segment is a Tantivy
//! index of exactly one Tantivy segment in a separate folder**, with the same [`schema`] in every index of firn, so new
//! fields never need a new schema. firn, not Tantivy, records which documents of a segment are live, which segments a
//! shard has, and the types of fields.

mod engine;

mod backoff;
mod block_checksums;
mod bulk;
mod catalog;
mod catalog_version;
mod config;
mod data_folder;
mod disk_reserve;
mod disk_watch;
mod field_lengths;
mod frozen_segment;
mod lock;
mod maintenance;
mod merge_schedule;
mod mounts;
mod parallel;
pub mod pool;
mod scrub;
mod segment_memo;
pub mod segment_result_cache;
mod ticker;
mod tiers;

pub mod analysis;
mod directory;
pub mod mapper;
pub mod schema;
pub mod search;
pub mod segment;
mod segment_cache;
pub mod shard;
mod snapshots;
pub mod splits;
pub mod tenants;
mod varint;

pub use crate::catalog::is_panic_reported;
pub use crate::config::{Clock, ContextLimits, EmbeddedConfig, SpaceProbe, Watermark};
pub use crate::catalog_version::{CatalogVersion, NotedVersion};
pub use crate::data_folder::{RebuildReport, rebuild_catalog};
pub use crate::engine::{DamagedShard, Embedded, RecoveryReport};
pub use crate::tiers::TierPaths;
