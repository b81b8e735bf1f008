//! Slowdown of password guessing: the wait of one name doubles with each failure, and all failures together share a
//! limit.
//!
//! Time comes in as a value. Nothing here blocks; the edge sleeps for the returned time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Limits of the slowdown.
#[derive(Debug, Clone, Copy)]
pub struct SignInThrottleLimits {
    /// Failures of one name without a wait: people mistype.
    pub free_failures: u32,
    /// Wait after the first failure that counts; it doubles with each further one.
    pub first_wait: Duration,
    /// Maximum wait of one name.
    pub wait_max: Duration,
    /// Time without a failure after which a name starts anew.
    pub forgiven_after: Duration,
    /// Failures of all names together without a wait: at once, and then per second.
    pub failures_together: u32,
    /// Maximum number of stored names.
    pub names_max: usize,
}

impl Default for SignInThrottleLimits {
    fn default() -> Self {
        Self {
            free_failures: 5,
            first_wait: Duration::from_millis(100),
            // With it, one name can be tried some 8,600 times a day.
            wait_max: Duration::from_secs(10),
            forgiven_after: Duration::from_secs(15 * 60),
            failures_together: 20,
            names_max: 10_000,
        }
    }
}

/// Whether an attempt is allowed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// Allowed.
    Now,
    /// Allowed after this time.
    After(Duration),
}

/// Recorded failures.
#[derive(Debug)]
pub(crate) struct SignInThrottle {
    limits: SignInThrottleLimits,
    names: HashMap<String, Failures>,
    /// Failures of all names that have not decayed yet; one decays in 1/`failures_together` s.
    together: f64,
    together_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
    /// Time when the next attempt is allowed.
    next: Instant,
}

impl SignInThrottle {
    pub(crate) fn new(limits: SignInThrottleLimits) -> Self {
        Self {
            limits,
            names: HashMap::new(),
            together: 0.0,
            together_at: None,
        }
    }

    /// Returns whether a name may be tried.
    pub(crate) fn attempt(&mut self, name: &str, now: Instant) -> Attempt {
        let own = self
            .names
            .get(name)
            .map_or(Duration::ZERO, |failures| failures.next.saturating_duration_since(now));
        let wait = own.max(self.wait_of_all(now)).min(self.limits.wait_max);
        match wait.is_zero() {
            true => Attempt::Now,
            false => Attempt::After(wait),
        }
    }

    /// Records a failed attempt.
    pub(crate) fn failed(&mut self, name: &str, now: Instant) {
        self.wear_off(now);
        // At most the equivalent of the longest wait: when the guessing ends, the wait ends soon too.
        let most = f64::from(self.limits.failures_together) * (1.0 + self.limits.wait_max.as_secs_f64());
        self.together = (self.together + 1.0).min(most);
        if !self.names.contains_key(name) {
            self.make_room(now);
        }
        let limits = self.limits;
        let failures = self.names.entry(name.to_owned()).or_insert(Failures {
            count: 0,
            last: now,
            next: now,
        });
        if now.saturating_duration_since(failures.last) >= limits.forgiven_after {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        failures.next = now + limits.wait_after(failures.count);
    }

    /// Resets a name's failures after a success.
    pub(crate) fn succeeded(&mut self, name: &str) {
        self.names.remove(name);
    }

    fn wait_of_all(&mut self, now: Instant) -> Duration {
        self.wear_off(now);
        let too_many = self.together - f64::from(self.limits.failures_together);
        Duration::from_secs_f64(too_many.max(0.0) / f64::from(self.limits.failures_together.max(1)))
    }

    fn wear_off(&mut self, now: Instant) {
        if let Some(at) = self.together_at {
            let seconds = now.saturating_duration_since(at).as_secs_f64();
            self.together = (self.together - seconds * f64::from(self.limits.failures_together)).max(0.0);
        }
        self.together_at = Some(now);
    }

    /// Removes names whose failures have expired, or if there are none, the name with the oldest failure.
    fn make_room(&mut self, now: Instant) {
        if self.names.len() < self.limits.names_max {
            return;
        }
        let forgiven_after = self.limits.forgiven_after;
        self.names
            .retain(|_, failures| now.saturating_duration_since(failures.last) < forgiven_after);
        if self.names.len() < self.limits.names_max {
            return;
        }
        let oldest = self.names.iter().min_by_key(|(_, failures)| failures.last);
        if let Some(name) = oldest.map(|(name, _)| name.clone()) {
            self.names.remove(&name);
        }
    }
}

impl SignInThrottleLimits {
    fn wait_after(&self, failures: u32) -> Duration {
        match failures.checked_sub(self.free_failures + 1) {
            None => Duration::ZERO,
            Some(doublings) => self
                .first_wait
                .saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX))
                .min(self.wait_max),
        }
    }
}

#[cfg(test)]
mod tests;
