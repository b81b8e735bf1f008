//! Token bucket that may go into debt.

use std::time::{Duration, Instant};

/// Seconds of the rate that may be used at once after a pause: shippers send in bursts, and a bucket of one second
/// would refuse a steady stream that arrives every other second.
const BURST_S: f64 = 2.0;
/// Minimum balance: one, except for rounding.
const ENOUGH: f64 = 1.0 - 1e-6;
/// Retry time for a limit of 0: only an operator can change that.
const NEVER_S: u64 = 3600;

/// Limit by a rate. It admits a request of any size if the balance is at least one: otherwise a bulk larger than the
/// burst could never be written. The excess becomes debt, and the client waits until it is paid; so the mean rate is
/// exact.
///
/// Time is monotonic ([`Instant`]); an earlier time than the last one changes nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    /// Available amount; negative: debt.
    balance: f64,
    /// Time of the balance; `None`: never used, so the bucket is full.
    at: Option<Instant>,
}

impl Bucket {
    pub(super) fn new() -> Self {
        Self { balance: 0.0, at: None }
    }

    /// Updates the balance. The present rate applies: a raised rate pays the debt sooner.
    fn refill(&mut self, rate: u64, now: Instant) {
        let full = rate as f64 * BURST_S;
        match self.at {
            None => (self.balance, self.at) = (full, Some(now)),
            Some(at) => {
                let passed = now.saturating_duration_since(at);
                self.balance = (self.balance + rate as f64 * passed.as_secs_f64()).min(full);
                self.at = Some(at.max(now));
            }
        }
    }

    /// Checks the balance; the error is the time until the debt is paid.
    pub(super) fn check(&mut self, rate: u64, now: Instant) -> Result<(), Duration> {
        self.refill(rate, now);
        if rate == 0 {
            return Err(Duration::from_secs(NEVER_S));
        }
        match self.balance {
            balance if balance >= ENOUGH => Ok(()),
            owed => Err(Duration::from_secs_f64((1.0 - owed) / rate as f64)),
        }
    }

    /// Takes an amount. Call [`Self::check`] first.
    pub(super) fn take(&mut self, amount: u64) {
        self.balance -= amount as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn the_mean_is_the_rate_for_all_sizes_of_requests() {
        let start = Instant::now();
        for size in [1, 7, 100, 1000, 5000] {
            let (mut bucket, mut taken) = (Bucket::new(), 0);
            for ms in 0..60_000 {
                if bucket.check(100, at(start, ms)).is_ok() {
                    bucket.take(size);
                    taken += size;
                }
            }
            // The amount of a minute, the burst at the beginning, and at most the excess of one request at the end.
            assert!((6000..=6200 + size).contains(&taken), "{size}: {taken}");
        }
    }

    #[test]
    fn says_when_to_come_again() {
        let start = Instant::now();
        let mut bucket = Bucket::new();
        bucket.check(10, start).unwrap();
        bucket.take(120);
        let wait = bucket.check(10, start).unwrap_err();
        assert!((10.0..=10.2).contains(&wait.as_secs_f64()), "{wait:?}");
        assert!(bucket.check(10, start + wait / 2).is_err());
        bucket.check(10, start + wait).unwrap();
    }

    #[test]
    fn a_changed_rate_counts_at_once() {
        let start = Instant::now();
        let mut bucket = Bucket::new();
        bucket.check(10, start).unwrap();
        bucket.take(1020);
        assert!(bucket.check(10, at(start, 5000)).is_err());
        bucket.check(10_000, at(start, 5200)).unwrap();
        // The balance saved under the higher rate is reduced to the lower one.
        bucket.check(1_000_000, at(start, 60_000)).unwrap();
        bucket.check(1, at(start, 60_001)).unwrap();
        bucket.take(3);
        assert!(bucket.check(1, at(start, 60_002)).is_err());
        assert_eq!(bucket.check(0, at(start, 99_000)), Err(Duration::from_secs(NEVER_S)));
    }

    #[test]
    fn an_earlier_time_neither_grants_nor_blocks() {
        let start = Instant::now();
        let mut bucket = Bucket::new();
        bucket.check(10, at(start, 10_000)).unwrap();
        bucket.take(30);
        let owed = bucket.check(10, at(start, 10_000)).unwrap_err();
        assert_eq!(bucket.check(10, start), Err(owed));
        assert_eq!(bucket.check(10, at(start, 10_000)), Err(owed));
        bucket.check(10, at(start, 11_200)).unwrap();
    }
}
