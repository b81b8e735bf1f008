//! Rate limit for `max_snapshot_bytes_per_sec` and `max_restore_bytes_per_sec`: requests wait before their transfer.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Allowed burst; without it each small request would wait for the scheduler.
const BURST: Duration = Duration::from_millis(100);

/// Rate in bytes per second, shared by all its requests.
#[derive(Debug)]
pub struct Throttle {
    bytes_per_second: u64,
    /// Time at which all admitted bytes are paid for.
    paid_at: Mutex<Option<Instant>>,
}

impl Throttle {
    /// Creates a throttle; `None` and 0 mean unlimited.
    pub fn new(bytes_per_second: Option<u64>) -> Option<Self> {
        let bytes_per_second = bytes_per_second.filter(|rate| *rate > 0)?;
        Some(Self {
            bytes_per_second,
            paid_at: Mutex::new(None),
        })
    }

    /// Waits until `bytes` more fit the rate.
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
