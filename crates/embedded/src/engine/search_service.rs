//! Service of searches and reads by id: what its files, one for each kind of request, need.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use firn_search::NodeMemory;
use firn_search::result_cache::RequestCache;

use super::contexts::Contexts;
use super::narrowed_mappings::NarrowedMappings;
use crate::mounts::MountService;
use crate::node::Node;
use crate::node::pools::Pools;
use crate::node::recovery_gates::RecoveryGates;

/// Searches and reads by id.
pub(crate) struct SearchService {
    pub(crate) node: Arc<Node>,
    pub(crate) pools: Arc<Pools>,
    pub(crate) gates: Arc<RecoveryGates>,
    pub(crate) mounts: Arc<MountService>,
    pub(crate) contexts: Arc<Contexts>,
    /// Cached partial results of segments and cached answers.
    pub(crate) request_cache: Arc<RequestCache>,
    /// Memory of all running searches.
    pub(crate) memory: Arc<NodeMemory>,
    /// Current value of `search.max_buckets`.
    pub(crate) buckets_max: Arc<AtomicUsize>,
    /// Mappings as tenants see them.
    pub(crate) narrowed_mappings: NarrowedMappings,
}
