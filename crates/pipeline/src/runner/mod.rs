//! Runner: the pipelines of a node, each a source, its steps, and the writes of its events.

use async_trait::async_trait;
use firn_model::Result;

/// Record of what of a source is stored.
#[async_trait]
pub trait Positions: Send + Sync {
    /// Returns the offset from which a partition must be read again; `None`: nothing of it was ever stored.
    async fn resume_offset(&self, partition: &str) -> Result<Option<u64>>;
}
