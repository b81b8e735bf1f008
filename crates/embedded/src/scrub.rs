//! Scrub: reads every byte of every segment on this node within a period, and verifies its checksums.
//!
//! A search verifies the bytes that it reads. The scrub verifies the other bytes, so that damage is found while a
//! snapshot may still hold the segment. A pass covers the segments that exist at its start, in a random order, spread
//! evenly over the period; a restart begins another pass in another order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firn_model::{ErrorKind, Result};
use firn_scheduler::Flow;
use firn_shard::{ScrubPosition, Scrubbed};
use parking_lot::Mutex;

use crate::background::{Lowered, is_gone, yield_to_others};
use crate::node::Node;
use crate::node::pools::Pools;

/// Nice value of the scrub, as for merges.
const SCRUB_NICE: i32 = 10;
/// Bytes read before a merge may run.
const TURN_BYTES: u64 = 64 << 20;

/// A segment that this pass still has to read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    index: Arc<str>,
    uuid: String,
    shard: u32,
    generation: u64,
}

/// One pass over all segments.
#[derive(Debug, Default)]
struct Pass {
    /// `None`: no pass has begun yet.
    started_ms: Option<i64>,
    remaining: VecDeque<Target>,
    /// Position in the first of them.
    position: ScrubPosition,
    bytes_total: u64,
    bytes_done: u64,
}

impl Pass {
    /// Whether more should have been read by now.
    fn is_behind(&self, now_ms: i64, period_ms: u64) -> bool {
        let Some(started_ms) = self.started_ms else {
            return false;
        };
        let elapsed_ms = u64::try_from(now_ms - started_ms).unwrap_or_default();
        let due = u128::from(self.bytes_total) * u128::from(elapsed_ms) / u128::from(period_ms.max(1));
        !self.remaining.is_empty() && (elapsed_ms >= period_ms || u128::from(self.bytes_done) < due)
    }

    /// Whether the next pass is due.
    fn is_over(&self, now_ms: i64, period_ms: u64) -> bool {
        let is_due = |started_ms| u64::try_from(now_ms - started_ms).unwrap_or_default() >= period_ms;
        self.remaining.is_empty() && self.started_ms.is_none_or(is_due)
    }
}

/// See the module.
pub(crate) struct Scrub {
    node: Arc<Node>,
    pools: Arc<Pools>,
    pass: Mutex<Pass>,
    random: Mutex<fastrand::Rng>,
    /// A scrub task is queued or running.
    is_running: AtomicBool,
    pub(crate) bytes: AtomicU64,
    pub(crate) passes: AtomicU64,
    /// When the last pass ended, ms since epoch UTC; 0: none has.
    pub(crate) last_pass_ms: AtomicU64,
}

impl Scrub {
    pub(crate) fn new(node: Arc<Node>, pools: Arc<Pools>, seed: u64) -> Self {
        Self {
            node,
            pools,
            pass: Mutex::default(),
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
            is_running: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            passes: AtomicU64::new(0),
            last_pass_ms: AtomicU64::new(0),
        }
    }
}

impl Scrub {
    /// Continues a pass that is behind its schedule, and begins the next one.
    pub(crate) fn scrub_in_background(self: &Arc<Self>) {
        let Some(period_ms) = self.node.config.scrub_period_ms else {
            return;
        };
        let now_ms = self.node.now_ms();
        {
            let mut pass = self.pass.lock();
            if pass.is_over(now_ms, period_ms) {
                *pass = self.new_pass(now_ms);
            }
            if !pass.is_behind(now_ms, period_ms) {
                return;
            }
        }
        if self.is_running.swap(true, Ordering::AcqRel) {
            return;
        }
        let service = Arc::clone(self);
        let queued = self.pools.merge.spawn(&Flow::node(), move || {
            let _lowered = Lowered(&service.is_running);
            yield_to_others(SCRUB_NICE);
            service.scrub_turn(period_ms);
        });
        if queued.is_err() {
            self.is_running.store(false, Ordering::Release);
        }
    }

    fn new_pass(&self, now_ms: i64) -> Pass {
        let mut remaining = Vec::new();
        let mut bytes_total = 0;
        for (index, slot) in self.node.state().written_slots() {
            let Ok(shard) = slot.shard() else { continue };
            for (generation, bytes) in shard.segments_to_scrub() {
                bytes_total += bytes;
                remaining.push(Target {
                    index: Arc::clone(&index.name),
                    uuid: index.metadata.uuid.clone(),
                    shard: slot.number,
                    generation,
                });
            }
        }
        self.random.lock().shuffle(&mut remaining);
        Pass {
            started_ms: Some(now_ms),
            remaining: remaining.into(),
            bytes_total,
            ..Pass::default()
        }
    }

    fn scrub_turn(&self, period_ms: u64) {
        let mut bytes = 0;
        while bytes < TURN_BYTES && !self.node.is_closing() {
            let (target, position) = {
                let pass = self.pass.lock();
                let is_behind = pass.is_behind(self.node.now_ms(), period_ms);
                match pass.remaining.front().filter(|_| is_behind) {
                    Some(target) => (target.clone(), pass.position.clone()),
                    None => return,
                }
            };
            let scrubbed = self.scrub_target(&target, &position);
            let scrubbed = scrubbed.unwrap_or_else(|error| {
                // Damage is logged in detail where it is found.
                if error.kind() != ErrorKind::ShardDamaged && !is_gone(error.kind()) {
                    tracing::warn!(index = &*target.index, shard = target.shard, %error, "cannot verify a segment");
                }
                Scrubbed { bytes: 0, next: None }
            });
            bytes += scrubbed.bytes;
            self.note_scrubbed(scrubbed);
        }
    }

    fn scrub_target(&self, target: &Target, position: &ScrubPosition) -> Result<Scrubbed> {
        let gone = Scrubbed { bytes: 0, next: None };
        let state = self.node.state();
        let index = state.indices.get(&target.index);
        let Some(index) = index.filter(|index| index.metadata.uuid == target.uuid) else {
            return Ok(gone);
        };
        match index.shards.get(target.shard as usize) {
            Some(slot) => slot.shard()?.scrub(target.generation, position),
            None => Ok(gone),
        }
    }

    fn note_scrubbed(&self, scrubbed: Scrubbed) {
        self.bytes.fetch_add(scrubbed.bytes, Ordering::Relaxed);
        let mut pass = self.pass.lock();
        pass.bytes_done += scrubbed.bytes;
        match scrubbed.next {
            Some(next) => pass.position = next,
            None => {
                pass.position = ScrubPosition::default();
                pass.remaining.pop_front();
                if pass.remaining.is_empty() {
                    self.passes.fetch_add(1, Ordering::Relaxed);
                    let now_ms = u64::try_from(self.node.now_ms()).unwrap_or_default();
                    self.last_pass_ms.store(now_ms, Ordering::Relaxed);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(bytes_total: u64) -> Pass {
        Pass {
            started_ms: Some(1000),
            remaining: VecDeque::from([Target {
                index: "logs".into(),
                uuid: "u".to_owned(),
                shard: 0,
                generation: 1,
            }]),
            bytes_total,
            ..Pass::default()
        }
    }

    #[test]
    fn a_pass_is_spread_over_its_period() {
        let mut pass = pass(1000);
        assert!(!pass.is_behind(1000, 100));
        assert!(pass.is_behind(1010, 100));
        pass.bytes_done = 100;
        assert!(!pass.is_behind(1010, 100));
        assert!(pass.is_behind(1011, 100));
        // Even if the counter is too high, the whole pass is read.
        pass.bytes_done = 5000;
        assert!(pass.is_behind(1100, 100) && !pass.is_over(1100, 100));
        pass.remaining.clear();
        assert!(!pass.is_behind(1100, 100) && pass.is_over(1100, 100));
        assert!(!pass.is_over(1099, 100));
    }

    #[test]
    fn a_clock_that_goes_back_begins_nothing() {
        let pass = pass(1000);
        assert!(!pass.is_behind(0, 100) && !pass.is_over(0, 100));
        assert!(Pass::default().is_over(0, 100));
    }
}
