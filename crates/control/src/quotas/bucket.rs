//! A token bucket that may go into debt.

use std::time::{Duration, Instant};

/// How much of a second's worth may be used at once after a pause: shippers send in bursts, and a
/// bucket of one second would refuse a steady stream that arrives every other second.
const BURST_S: f64 = 2.0;
/// What has to be there: one, apart from rounding.
const ENOUGH: f64 = 1.0 - 1e-6;
/// When to come again where the limit is 0: it takes an operator to change that.
const NEVER_S: u64 = 3600;

/// What a rate allows. A request is let in as long as there is one left, however large it is: a bulk larger
/// than the burst could never be written otherwise. What it took too much is owed, and
/// whoever owes waits; so the mean is exact.
///
/// Time is that of a clock that only goes forward ([`Instant`]); one that is earlier than the last grants nothing and
/// takes nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    /// What may be used; negative: what is owed.
    balance: f64,
    /// When the balance was that; `None`: never used, it is full.
    at: Option<Instant>,
}

impl Bucket {
    pub(super) fn new() -> Self {
        Self { balance: 0.0, at: None }
    }

    /// Brings the balance up to date. The rate is that of now: a raised one pays what is owed sooner.
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

    /// Fails with the time after which nothing is owed any more.
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

    /// Takes an amount. Check first.
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
    fn the_mean_is_the_rate_whatever_the_size_of_requests() {
        let start = Instant::now();
        for size in [1, 7, 100, 1000, 5000] {
            let (mut bucket, mut taken) = (Bucket::new(), 0);
            for ms in 0..60_000 {
                if bucket.check(100, at(start, ms)).is_ok() {
                    bucket.take(size);
                    taken += size;
                }
            }
            // A minute's worth, the burst at the beginning, and at most one request too much at the end.
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
        // What was saved up under the higher rate is not kept under the lower one.
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
