//! Shard of a request, in the state in which the request found it.

use std::sync::Arc;

use firn_model::{ErrorKind, Result};
use firn_search::{FailedShard, ShardSearch};

use crate::node::state::ShardSlot;

/// Shard that an expression resolves to.
pub(super) struct Addressed {
    pub(super) slot: Arc<ShardSlot>,
    /// Uuid of its index.
    pub(super) uuid: String,
    pub(super) search: Result<ShardSearch, FailedShard>,
    /// Why acknowledged documents are missing from the search.
    pub(super) behind: Option<FailedShard>,
    /// Some segments hold no match and were not opened, so not all fields of a tenant are known.
    pub(super) is_part: bool,
}

impl Addressed {
    /// Whether its index was deleted after the name was resolved.
    pub(super) fn was_deleted(&self) -> bool {
        let failed = self.search.as_ref().err().or(self.behind.as_ref());
        failed.is_some_and(|failed| failed.error.kind() == ErrorKind::IndexNotFound)
    }
}
