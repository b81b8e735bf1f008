//! Write path of one shard: version checks, WAL, write buffers, segments, commit points.
//!
//! A write is checked and numbered under the shard's lock, appended to the WAL, and gets a slot
//! in a write buffer; the expensive part (building postings and columns) runs under the lock of
//! that buffer only, so several threads index one shard in parallel. A buffer becomes an immutable
//! segment at refresh or at its limits; a flush makes segments durable, writes a commit point and
//! trims the WAL; a merge combines many segments into few. The files are described in
//! `docs/formats/shard.md`.

pub mod mapper;

mod apply;
mod buffer;
mod checksums;
mod config;
mod flush;
mod freeze;
mod from_splits;
mod get;
mod id_filter;
mod live_segments;
mod merge;
mod purge;
mod recovery;
mod relocation;
mod repair;
mod replay;
mod replay_threads;
mod scrub;
mod seq_nos;
mod shard;
mod state;
mod stoppable_disk;
mod tenant_count;
mod tenant_removal;
#[cfg(test)]
mod tests;
mod versions;
mod wal_record;

pub use self::config::{MarkFilter, ShardConfig};
pub use self::from_splits::RestoredSegment;
pub use self::purge::Purged;
pub use self::relocation::ShardCopy;
pub use self::repair::{CommittedId, Replacement};
pub use self::replay_threads::ReplayThreads;
pub use self::scrub::{ScrubPosition, Scrubbed};
pub use self::shard::{Applied, ReplayMapper, Shard, ShardOp, ShardStats};
pub(crate) use self::shard::{Counters, Published};
pub use self::wal_record::BatchTag;
pub use firn_segment::commit_point::SourceMark;
