//! Bound of the bytes that the connections of a source hold: frames that have begun and not ended, and frames that wait for the pipeline.
//!
//! Half of the bound is shared out: each connection may always hold a small part of it, so that one with frames of usual size is read
//! however much the others hold. The other half is for those that hold more. While it is used up, these are not read. If unfinished
//! frames alone use it up for some time, the connections with the largest ones are closed: the others must go on.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Most bytes that a connection may always hold.
const ALWAYS_MAX: usize = 16 << 10;
/// How long unfinished frames may use the bound up.
pub(super) const STUCK_AFTER: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct BufferBound {
    read_bytes: usize,
    /// What each connection may hold in any case.
    always: usize,
    /// Bytes of the connections that hold more.
    large_max: usize,
    stuck_after: Duration,
    state: Mutex<State>,
    freed: Notify,
    held: Arc<AtomicU64>,
    closed: Arc<AtomicU64>,
}

#[derive(Default)]
struct State {
    shares: HashMap<u64, Share>,
    next: u64,
    /// Sums of the connections that hold more than they may in any case.
    large: Held,
    /// Since when unfinished frames use the bound up.
    stuck_since: Option<Instant>,
}

/// Bytes of unfinished frames, and of frames that wait for the pipeline.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    unfinished: usize,
    sending: usize,
}

impl Held {
    fn sum(self) -> usize {
        self.unfinished + self.sending
    }
}

struct Share {
    held: Held,
    closing: Arc<Notify>,
    is_closing: bool,
}

/// A connection's part of the bound; given back when it is dropped.
pub(super) struct BufferShare {
    bound: Arc<BufferBound>,
    id: u64,
    closing: Arc<Notify>,
}

impl BufferBound {
    /// Creates the bound of at most `connections` connections that read `read_bytes` at a time. `held` shows the bytes, `closed` counts
    /// connections that were closed.
    pub(super) fn new(
        bytes_max: usize,
        (connections, read_bytes): (usize, usize),
        stuck_after: Duration,
        held: Arc<AtomicU64>,
        closed: Arc<AtomicU64>,
    ) -> Arc<Self> {
        let always = ALWAYS_MAX.min(bytes_max / 2 / connections);
        Arc::new(Self {
            read_bytes,
            always,
            large_max: bytes_max / 2,
            stuck_after,
            state: Mutex::default(),
            freed: Notify::new(),
            held,
            closed,
        })
    }

    /// Adds a connection.
    pub(super) fn share(self: &Arc<Self>) -> BufferShare {
        let closing = Arc::new(Notify::new());
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        let share = Share {
            held: Held::default(),
            closing: Arc::clone(&closing),
            is_closing: false,
        };
        state.shares.insert(id, share);
        BufferShare {
            bound: Arc::clone(self),
            id,
            closing,
        }
    }

    fn allowed(&self, state: &State, id: u64) -> usize {
        if state.large.sum() + self.read_bytes <= self.large_max {
            return self.read_bytes;
        }
        let held = state.shares.get(&id).map_or(0, |share| share.held.sum());
        self.always.saturating_sub(held)
    }

    /// Replaces what a connection holds; `None`: it has ended.
    fn set(&self, id: u64, held: Option<Held>) {
        let mut state = self.state.lock();
        let Some(before) = state.shares.get(&id).map(|share| share.held) else {
            return;
        };
        let now = held.unwrap_or_default();
        match held {
            Some(held) => drop(state.shares.get_mut(&id).map(|share| share.held = held)),
            None => drop(state.shares.remove(&id)),
        }
        let large = |held: Held| {
            if held.sum() > self.always {
                held
            } else {
                Held::default()
            }
        };
        let (was, is) = (large(before), large(now));
        state.large.unfinished = state.large.unfinished - was.unfinished + is.unfinished;
        state.large.sending = state.large.sending - was.sending + is.sending;
        match state.large.unfinished + self.read_bytes > self.large_max {
            true => drop(state.stuck_since.get_or_insert_with(Instant::now)),
            false => state.stuck_since = None,
        }
        drop(state);
        self.held.fetch_add(now.sum() as u64, Ordering::Relaxed);
        self.held.fetch_sub(before.sum() as u64, Ordering::Relaxed);
        if now.sum() < before.sum() {
            self.freed.notify_waiters();
        }
    }

    /// If unfinished frames use the bound up for too long, closes the connections with the largest ones: a quarter of the bytes.
    fn close_if_stuck(&self) {
        let mut state = self.state.lock();
        if state.stuck_since.is_none_or(|since| since.elapsed() < self.stuck_after) {
            return;
        }
        state.stuck_since = Some(Instant::now());
        let open = state.shares.iter().filter(|(_, share)| !share.is_closing);
        // Of those that hold the same, the older ones first.
        let mut largest: Vec<(usize, u64)> = open.map(|(id, share)| (share.held.unfinished, *id)).collect();
        largest.sort_unstable_by_key(|(unfinished, id)| (Reverse(*unfinished), *id));
        let mut freed = 0;
        for (unfinished, id) in largest {
            if freed >= self.large_max / 4 || unfinished <= self.always {
                break;
            }
            if let Some(share) = state.shares.get_mut(&id) {
                share.is_closing = true;
                share.closing.notify_one();
                freed += unfinished;
                self.closed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl BufferShare {
    /// Returns how many bytes may be read now; 0: none, see [`BufferShare::wait`].
    pub(super) fn allowed(&self) -> usize {
        self.bound.allowed(&self.bound.state.lock(), self.id)
    }

    /// Sets the bytes that the connection holds.
    pub(super) fn set(&self, unfinished: usize, sending: usize) {
        self.bound.set(self.id, Some(Held { unfinished, sending }));
    }

    /// Waits until bytes may be read.
    pub(super) async fn wait(&self) {
        let bound = &self.bound;
        let look_every = bound.stuck_after / 4;
        loop {
            let freed = bound.freed.notified();
            if self.allowed() > 0 {
                return;
            }
            let _ = tokio::time::timeout(look_every, freed).await;
            bound.close_if_stuck();
        }
    }

    /// Resolves when the connection must be closed, because it holds too much.
    pub(super) async fn closing(&self) {
        self.closing.notified().await;
    }
}

impl Drop for BufferShare {
    fn drop(&mut self) {
        self.bound.set(self.id, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KB: usize = 1 << 10;

    fn bound(stuck_after: Duration) -> Arc<BufferBound> {
        // 2 MB for large frames; each connection may always hold 16 KB.
        BufferBound::new(4 << 20, (100, 32 * KB), stuck_after, Arc::default(), Arc::default())
    }

    #[test]
    fn the_sum_is_bounded_and_small_frames_are_always_read() {
        let bound = bound(STUCK_AFTER);
        let large: Vec<BufferShare> = (0..3).map(|_| bound.share()).collect();
        let small = bound.share();
        for share in &large {
            assert_eq!(share.allowed(), 32 * KB);
            share.set(680 * KB, 0);
        }
        assert_eq!(bound.held.load(Ordering::Relaxed), 2040 << 10);
        assert_eq!((large[0].allowed(), small.allowed()), (0, 16 * KB));
        small.set(10 * KB, 0);
        assert_eq!(small.allowed(), 6 * KB);
        small.set(0, 16 * KB);
        assert_eq!(small.allowed(), 0, "what waits for the pipeline counts, too");
        small.set(0, 0);
        large[1].set(0, 500 * KB);
        assert_eq!(large[0].allowed(), 32 * KB);
        drop((large, small));
        assert_eq!(bound.held.load(Ordering::Relaxed), 0);
        assert_eq!(bound.state.lock().large.sum(), 0);
    }

    #[tokio::test]
    async fn the_largest_are_closed_if_unfinished_frames_stay() {
        let bound = bound(Duration::from_millis(200));
        let shares: Vec<BufferShare> = [700, 900, 440].map(|_| bound.share()).into();
        shares[0].set(700 * KB, 0);
        shares[2].set(440 * KB, 0);
        let since = Instant::now();
        shares[1].set(900 * KB, 0);
        let (waited, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(20), shares[2].wait()), async {
            shares[1].closing().await;
            assert!(since.elapsed() >= Duration::from_millis(200));
            shares[1].set(0, 0);
        });
        waited.unwrap();
        assert_eq!(bound.closed.load(Ordering::Relaxed), 1, "a quarter is enough");
    }

    #[tokio::test]
    async fn a_slow_pipeline_closes_nothing() {
        let bound = bound(Duration::from_millis(40));
        let (sending, waiting) = (bound.share(), bound.share());
        sending.set(0, 2 << 20);
        waiting.set(100 * KB, 0);
        assert!(
            tokio::time::timeout(Duration::from_millis(300), waiting.wait())
                .await
                .is_err()
        );
        assert_eq!(bound.closed.load(Ordering::Relaxed), 0);
    }
}
