//! `max_snapshot_bytes_per_sec` and `max_restore_bytes_per_sec`: bytes are paid for before they are sent.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// What may be spent ahead: without it, small requests would each wait for the scheduler.
const BURST: Duration = Duration::from_millis(100);

/// A pace in bytes per second, kept over all requests that share it.
#[derive(Debug)]
pub struct Throttle {
    bytes_per_second: u64,
    /// When all that was asked for so far has been paid.
    paid_at: Mutex<Option<Instant>>,
}

impl Throttle {
    /// A pace; `None` and 0 are none at all.
    pub fn new(bytes_per_second: Option<u64>) -> Option<Self> {
        let bytes_per_second = bytes_per_second.filter(|rate| *rate > 0)?;
        Some(Self {
            bytes_per_second,
            paid_at: Mutex::new(None),
        })
    }

    /// Waits until `bytes` more fit the pace.
    pub(super) async fn pay(&self, bytes: u64) {
        let price = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let due = {
            let now = Instant::now();
            let mut paid_at = self.paid_at.lock();
            let from = paid_at.map_or(now, |paid_at| paid_at.max(now));
            *paid_at = Some(from + price);
            from + price
        };
        tokio::time::sleep_until(due - BURST.min(price)).await;
    }
}
