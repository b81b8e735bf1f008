//! Rate of incoming amounts.

use std::time::{Duration, Instant};

/// Window of the rate: long enough to be steady, short enough to show a change within a minute.
const WINDOW: Duration = Duration::from_secs(30);

/// Amount per second, with exponentially decaying weight of earlier amounts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rate {
    weighted: f64,
    at: Option<Instant>,
}

impl Rate {
    /// Adds an amount.
    pub(super) fn add(&mut self, amount: u64, now: Instant) {
        self.weighted = self.weighted_at(now) + amount as f64;
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
    }

    /// Returns the rate per second.
    pub(super) fn per_second(&self, now: Instant) -> f64 {
        self.weighted_at(now) / WINDOW.as_secs_f64()
    }

    fn weighted_at(&self, now: Instant) -> f64 {
        let passed = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.weighted * (-passed.as_secs_f64() / WINDOW.as_secs_f64()).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_what_comes_in() {
        let start = Instant::now();
        let mut rate = Rate::default();
        for ms in (0..180_000).step_by(100) {
            rate.add(50, start + Duration::from_millis(ms));
        }
        let steady = rate.per_second(start + Duration::from_secs(180));
        assert!((490.0..510.0).contains(&steady), "{steady}");
        assert!(rate.per_second(start + Duration::from_secs(210)) < steady / 2.0);
        assert!(rate.per_second(start + Duration::from_secs(900)) < 0.001);
    }
}
