//! Recovery gates of all shards: make requests wait for shards that are being opened.
//!
//! After a crash a shard may have a long WAL to replay. The node accepts requests before the replay ends: a request
//! that needs the shard waits for it, up to its timeout; other requests are not delayed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use firn_engine::RequestContext;
use firn_engine::document::BulkItem;
use firn_model::metadata::{resolve, resolve_write};
use firn_model::{ErrorKind, Result};
use firn_query::Cancel;
use firn_query::search::IndexTarget;
use firn_scheduler::wait_for_far;

use super::Node;
use super::state::{IndexState, ShardSlot};

/// Maximum wait of a request without a timeout: Elasticsearch's default `timeout` of writes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Poll interval of a request that waits without a thread.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Poll interval for cancellation, of a request that waits on a thread.
const CANCEL_EVERY: Duration = Duration::from_millis(100);

/// Opens the gate when dropped.
pub(crate) struct Recovering<'a> {
    gates: &'a RecoveryGates,
    slot: &'a ShardSlot,
}

impl Drop for Recovering<'_> {
    fn drop(&mut self) {
        let gate = &self.slot.recovery;
        let _changing = gate.changing.lock();
        if gate.is_closed.swap(false, Ordering::AcqRel) {
            self.gates.recovering.fetch_sub(1, Ordering::AcqRel);
            gate.opened.notify_all();
        }
    }
}

/// See the module.
pub(crate) struct RecoveryGates {
    node: Arc<Node>,
    /// Number of shards that are being opened; 0 except after a start and while a failed shard is opened again.
    recovering: AtomicUsize,
}

impl RecoveryGates {
    /// Creates the service; the gates themselves are in the slots.
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self {
            node,
            recovering: AtomicUsize::new(0),
        }
    }

    /// Closes the gate of a shard until [`RecoveryGates::recovering`]'s guard is dropped.
    pub(crate) fn expect_recovery(&self, slot: &ShardSlot) {
        let gate = &slot.recovery;
        let _changing = gate.changing.lock();
        if !gate.is_closed.swap(true, Ordering::AcqRel) {
            self.recovering.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Closes the gate for the lifetime of the guard.
    pub(crate) fn recovering<'a>(&'a self, slot: &'a ShardSlot) -> Recovering<'a> {
        self.expect_recovery(slot);
        Recovering { gates: self, slot }
    }

    /// Waits for a shard that is being opened, on a pool thread, up to the timeout of the request. The slot says
    /// whether the shard serves afterwards.
    pub(crate) fn wait_for_recovery(&self, ctx: &RequestContext, slot: &ShardSlot) -> Result<()> {
        if !slot.recovery.is_closed() {
            return Ok(());
        }
        let waiting: &Cancel = ctx.waiting();
        let deadline = Instant::now() + PATIENCE;
        let waited = wait_for_far(waiting, || {
            while !slot.recovery.wait(deadline.min(Instant::now() + CANCEL_EVERY)) && Instant::now() < deadline {
                waiting.check()?;
                self.node.check_open()?;
            }
            Ok(())
        });
        match waited {
            // The answer says that it timed out, and which shard it lacks.
            Err(error) if error.kind() == ErrorKind::Timeout => Ok(()),
            waited => waited,
        }
    }

    /// Waits for the shards of a target without a thread.
    pub(crate) async fn wait_for_target(&self, ctx: &RequestContext, target: &IndexTarget) -> Result<()> {
        if self.recovering.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let state = self.node.state();
        let view = self.node.view(&state, &ctx.scope);
        // The request itself reports errors of the target.
        let resolved = resolve(&target.expression, target.options, &view, self.node.now_ms()).unwrap_or_default();
        let indices = resolved.iter().filter_map(|index| state.indices.get(&index.name));
        self.wait_for_indices(ctx, indices).await
    }

    /// Waits for the shards that a bulk may write to without a thread.
    pub(crate) async fn wait_for_writes(&self, ctx: &RequestContext, items: &[BulkItem]) -> Result<()> {
        if self.recovering.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let state = self.node.state();
        let mut names: Vec<&str> = items.iter().map(|item| item.index.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let view = self.node.view(&state, &ctx.scope);
        let targets = names
            .iter()
            .filter_map(|name| resolve_write(name, &view, self.node.now_ms()).ok());
        let indices: Vec<_> = targets.filter_map(|target| state.indices.get(&target.index)).collect();
        self.wait_for_indices(ctx, indices.into_iter()).await
    }

    async fn wait_for_indices(
        &self,
        ctx: &RequestContext,
        indices: impl Iterator<Item = &Arc<IndexState>>,
    ) -> Result<()> {
        let slots = indices.flat_map(|index| index.shards.iter());
        let closed: Vec<Arc<ShardSlot>> = slots.filter(|slot| slot.recovery.is_closed()).cloned().collect();
        let deadline = Instant::now() + PATIENCE;
        for slot in closed {
            while slot.recovery.is_closed() && Instant::now() < deadline {
                ctx.check()?;
                self.node.check_open()?;
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        Ok(())
    }
}
