//! State of a node that all services share.
//!
//! Services depend on the node and on each other in one direction: the node knows no service.

pub(crate) mod index_ids;
pub(crate) mod pools;
pub(crate) mod recovery_gate;
pub(crate) mod recovery_gates;
pub(crate) mod state;
mod views;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use firn_engine::Scope;
use firn_model::metadata::Metadata;
use firn_model::{Error, ErrorKind, Result};
use firn_shard::ShardConfig;

use self::state::{IndexState, ShardFactory, State, closed_error};
use self::views::Views;
use crate::config::EmbeddedConfig;
use crate::tiers::no_device;

/// See the module.
pub(crate) struct Node {
    pub(crate) config: EmbeddedConfig,
    pub(crate) factory: ShardFactory,
    pub(crate) state: ArcSwap<State>,
    /// Views of the metadata, by scope.
    views: Views,
    /// Time when the engine was opened, ms since epoch UTC.
    pub(crate) started_ms: i64,
    pub(crate) closing: AtomicBool,
}

impl Node {
    /// Creates the shared state of a node that starts now.
    pub(crate) fn new(config: EmbeddedConfig, factory: ShardFactory, state: State) -> Self {
        Self {
            started_ms: (config.now_ms)(),
            factory,
            state: ArcSwap::from_pointee(state),
            views: Views::default(),
            closing: AtomicBool::new(false),
            config,
        }
    }

    /// Returns the current state.
    pub(crate) fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// Returns the current time, ms since the epoch in UTC.
    pub(crate) fn now_ms(&self) -> i64 {
        (self.config.now_ms)()
    }

    /// Fails once the engine is closing.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closing.load(Ordering::Acquire) {
            return Err(closing_error());
        }
        Ok(())
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Returns the metadata that a scope may see. All names in a request are resolved against
    /// this view only.
    pub(crate) fn view(&self, state: &State, scope: &Scope) -> Arc<Metadata> {
        self.views.of(state, scope)
    }

    /// Fails if the index no longer exists or is closed in the current state; `index` may be from an older state.
    pub(crate) fn check_wanted(&self, index: &IndexState) -> Result<()> {
        match self.state().indices.get(&index.name) {
            Some(now) if now.metadata.uuid != index.metadata.uuid => Err(Error::index_not_found(&*index.name)),
            None => Err(Error::index_not_found(&*index.name)),
            Some(now) if now.metadata.closed => Err(closed_error(&index.name)),
            Some(_) => Ok(()),
        }
    }

    /// Returns the config to open a shard with.
    pub(crate) fn config_of(&self, index: &IndexState, number: u32) -> Result<ShardConfig> {
        // The current device: the shard may have been moved since `index` was read.
        let state = self.state();
        let metadata = &state.index(&index.name)?.metadata;
        let config = self.factory.shard_config(metadata, number);
        config.map_err(|_| no_device(&index.name, number, metadata.tier_of(number)))
    }
}

/// Returns the error for requests that arrive while the node stops; the client should retry.
pub(crate) fn closing_error() -> Error {
    Error::new(ErrorKind::Rejected, "rejected execution: the node is shutting down")
}
