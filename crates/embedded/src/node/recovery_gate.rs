//! Recovery gate of one shard: requests wait at it while the shard is being opened.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use firn_model::{Error, ErrorKind};
use parking_lot::{Condvar, Mutex};

/// Gate of one shard: closed while the shard is being opened or waits to be opened at the start of the node.
#[derive(Debug, Default)]
pub(crate) struct RecoveryGate {
    pub(super) is_closed: AtomicBool,
    /// Locked while `is_closed` changes.
    pub(super) changing: Mutex<()>,
    pub(super) opened: Condvar,
}

impl RecoveryGate {
    /// Whether requests should wait for the shard.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Waits until the shard is open or failed to open, at most until `deadline`; false: the gate is still closed.
    pub(super) fn wait(&self, deadline: Instant) -> bool {
        let mut changing = self.changing.lock();
        while self.is_closed() {
            if self.opened.wait_until(&mut changing, deadline).timed_out() {
                return !self.is_closed();
            }
        }
        true
    }
}

/// Returns the error for a shard that does not serve yet.
pub(crate) fn recovering_error(index: &str, number: u32) -> Error {
    let reason = format!("shard [{index}][{number}] is recovering: its write-ahead log is being replayed, retry later");
    Error::new(ErrorKind::ShardNotReady, reason).with_index(index)
}
