//! How many messages a channel may send now.

use std::time::Duration;

use tokio::time::Instant;

/// Token bucket of messages: full at the start, filled evenly.
#[derive(Debug)]
pub(crate) struct RateLimit {
    per_minute: u32,
    tokens: f64,
    filled: Instant,
}

impl RateLimit {
    pub(crate) fn new(per_minute: u32, now: Instant) -> Self {
        Self {
            per_minute,
            tokens: f64::from(per_minute),
            filled: now,
        }
    }

    /// Returns the number of messages that may be sent now.
    pub(crate) fn available(&mut self, now: Instant) -> u32 {
        let most = f64::from(self.per_minute);
        let elapsed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + elapsed * most / 60.0).min(most);
        self.filled = now;
        self.tokens as u32
    }

    /// Takes one message.
    pub(crate) fn take(&mut self) {
        self.tokens = (self.tokens - 1.0).max(0.0);
    }

    /// Returns how long to wait for the next message.
    pub(crate) fn wait(&self) -> Duration {
        let missing = (1.0 - self.tokens).max(0.0);
        // A little more than enough: a timer that fires early would find nothing.
        Duration::from_secs_f64(missing * 60.0 / f64::from(self.per_minute)) + Duration::from_millis(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_fills_evenly_and_is_never_more_than_full() {
        let start = Instant::now();
        let mut limit = RateLimit::new(30, start);
        for left in (0..30).rev() {
            limit.take();
            assert_eq!(limit.available(start), left);
        }
        let wait = limit.wait();
        assert!(
            wait > Duration::from_secs(2) && wait < Duration::from_millis(2010),
            "{wait:?}"
        );
        assert_eq!(limit.available(start + wait), 1);
        assert_eq!(limit.available(start + Duration::from_secs(600)), 30);
    }
}
