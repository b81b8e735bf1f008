//! Waiting for shards that are being opened.
//!
//! After a crash a shard may have a long WAL to replay. The node answers before that has ended: requests that need the shard
//! wait for it, within their time, and others go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use firn_engine::document::BulkItem;
use firn_engine::search::IndexTarget;
use firn_engine::{Cancel, RequestContext};
use firn_model::names::{resolve, resolve_write};
use firn_model::{Error, ErrorKind, Result};
use parking_lot::{Condvar, Mutex};

use super::Core;
use super::state::{IndexState, ShardSlot};
use crate::pool::wait_for_far;

/// How long a request waits for a shard if it has no time of its own: Elasticsearch's `timeout` of writes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks of a request that waits without a thread.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Between two looks whether the client has gone, of a request that waits on a thread.
const CANCEL_EVERY: Duration = Duration::from_millis(100);

/// Raised while a shard is being opened, or waits for its turn at the start of the node.
#[derive(Debug, Default)]
pub(crate) struct RecoveryGate {
    is_closed: AtomicBool,
    /// Held while `is_closed` changes.
    changing: Mutex<()>,
    opened: Condvar,
}

/// Opens the gate when dropped.
pub(crate) struct Recovering<'a> {
    core: &'a Core,
    slot: &'a ShardSlot,
}

impl Drop for Recovering<'_> {
    fn drop(&mut self) {
        let gate = &self.slot.recovery;
        let _changing = gate.changing.lock();
        if gate.is_closed.swap(false, Ordering::AcqRel) {
            self.core.recovering.0.fetch_sub(1, Ordering::AcqRel);
            gate.opened.notify_all();
        }
    }
}

/// How many shards of the node are being opened.
#[derive(Debug, Default)]
pub(crate) struct RecoveringCount(AtomicUsize);

impl RecoveringCount {
    /// 0 except after a start and while a failed shard is opened again.
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

impl RecoveryGate {
    /// Whether requests should wait for the shard.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Waits until the shard is open, or failed to open, at most until `deadline`; false: it is not yet.
    fn wait(&self, deadline: Instant) -> bool {
        let mut changing = self.changing.lock();
        while self.is_closed() {
            if self.opened.wait_until(&mut changing, deadline).timed_out() {
                return !self.is_closed();
            }
        }
        true
    }
}

/// Why a shard does not serve yet.
pub(crate) fn recovering_error(index: &str, number: u32) -> Error {
    let reason = format!("shard [{index}][{number}] is recovering: its write-ahead log is being replayed, come again");
    Error::new(ErrorKind::ShardNotReady, reason).with_index(index)
}

impl Core {
    /// Lets requests wait for a shard until [`Core::recovering`]'s guard is dropped.
    pub(crate) fn expect_recovery(&self, slot: &ShardSlot) {
        let gate = &slot.recovery;
        let _changing = gate.changing.lock();
        if !gate.is_closed.swap(true, Ordering::AcqRel) {
            self.recovering.0.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The same for as long as the guard lives.
    pub(crate) fn recovering<'a>(&'a self, slot: &'a ShardSlot) -> Recovering<'a> {
        self.expect_recovery(slot);
        Recovering { core: self, slot }
    }

    /// Waits for a shard that is being opened, on a thread of a pool, within the time of the request. Whether it serves then is
    /// for the slot to say.
    pub(super) fn wait_for_recovery(&self, ctx: &RequestContext, slot: &ShardSlot) -> Result<()> {
        if !slot.recovery.is_closed() {
            return Ok(());
        }
        let waiting: &Cancel = ctx.waiting();
        let deadline = Instant::now() + PATIENCE;
        let waited = wait_for_far(waiting, || {
            while !slot.recovery.wait(deadline.min(Instant::now() + CANCEL_EVERY)) && Instant::now() < deadline {
                waiting.check()?;
                self.check_open()?;
            }
            Ok(())
        });
        match waited {
            // The answer says so, and which shard it lacks.
            Err(error) if error.kind() == ErrorKind::Timeout => Ok(()),
            waited => waited,
        }
    }

    /// Waits for the shards of a target without a thread.
    pub(super) async fn wait_for_target(&self, ctx: &RequestContext, target: &IndexTarget) -> Result<()> {
        if self.recovering.get() == 0 {
            return Ok(());
        }
        let state = self.state();
        let view = self.view(&state, &ctx.scope);
        // What is wrong with the target is said by the request itself.
        let resolved = resolve(&target.expression, target.options, &view, self.now_ms()).unwrap_or_default();
        let indices = resolved.iter().filter_map(|index| state.indices.get(&index.name));
        self.wait_for_indices(ctx, indices).await
    }

    /// Waits for the shards that a bulk may write to without a thread.
    pub(crate) async fn wait_for_writes(&self, ctx: &RequestContext, items: &[BulkItem]) -> Result<()> {
        if self.recovering.get() == 0 {
            return Ok(());
        }
        let state = self.state();
        let mut names: Vec<&str> = items.iter().map(|item| item.index.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let view = self.view(&state, &ctx.scope);
        let targets = names
            .iter()
            .filter_map(|name| resolve_write(name, &view, self.now_ms()).ok());
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
                self.check_open()?;
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        Ok(())
    }
}
