//! Progress of a running bulk.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::document::{BulkItem, BulkItemResponse, BulkResponse, Operation};
use firn_storage::wal::Position;

use crate::node::state::{IndexState, ShardSlot};

/// Receives the response of a bulk.
pub(super) type Answer = Box<dyn FnOnce(BulkResponse) + Send>;

/// See the module.
pub(crate) struct Progress {
    /// By position; `None`: not done yet.
    pub(crate) responses: Vec<Option<BulkItemResponse>>,
    /// Shards written to, by index uuid and number; a shard and its copy on another device are two entries.
    pub(crate) touched: BTreeMap<(String, u32, usize), WrittenShard>,
}

/// Shard that a bulk wrote to.
pub(crate) struct WrittenShard {
    pub(crate) index: Arc<IndexState>,
    pub(crate) slot: Arc<ShardSlot>,
    /// The shard that took the writes; the slot may hold another one by now.
    pub(crate) shard: Arc<firn_shard::Shard>,
    /// Must be durable before the response.
    pub(crate) position: Position,
    /// Positions of its items.
    pub(crate) items: Vec<usize>,
}

/// Returns the source of an item that is mapped before it is applied.
pub(super) fn source_of(item: &BulkItem) -> Option<&bytes::Bytes> {
    match &item.operation {
        Operation::Index { source } | Operation::Create { source } => Some(source),
        Operation::Update(_) | Operation::Delete => None,
    }
}
