//! Cost of rules: processor time of their conditions, measured on a sample of the events.
//!
//! Reading a clock around each condition of each event would cost more than many conditions. So an event is measured with the
//! probability `1 / weight`, and what is measured counts `weight` times: the sum is unbiased. The probability grows with the texts of
//! the event, because the time of a condition does, at most linearly: long events, which are the dear ones, are all measured.

use std::sync::Arc;

/// Clock of the processor time of the calling thread, nanoseconds from any start. It is told the id of the rule whose condition was
/// evaluated last, which only simulations look at.
pub type CpuClock = Arc<dyn Fn(Option<&str>) -> u64 + Send + Sync>;

/// Texts of events that are measured always, in bytes.
const ALWAYS_MEASURED_BYTES: usize = 128 << 10;
/// Of short events one in so many is measured; a power of two.
const WEIGHT_MAX: u64 = 64;
/// Any number but 0: the same events are measured in each run.
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// Meter of one evaluator.
pub(crate) struct CostMeter {
    clock: CpuClock,
    random: u64,
    /// Estimates since the last time that they were taken, by the number of the rule, nanoseconds.
    nanos: Vec<i64>,
    /// Their sum.
    total_nanos: i64,
}

impl std::fmt::Debug for CostMeter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CostMeter")
            .field("total_nanos", &self.total_nanos)
            .finish_non_exhaustive()
    }
}

impl CostMeter {
    /// Creates a meter for a number of rules.
    pub(crate) fn new(clock: CpuClock, rules: usize) -> Self {
        Self {
            clock,
            random: SEED,
            nanos: vec![0; rules],
            total_nanos: 0,
        }
    }

    /// Returns how often the costs of an event count; `None`: it is not measured. `bytes` is the length of its texts.
    pub(crate) fn sample(&mut self, bytes: usize) -> Option<i64> {
        let weight = weight_of(bytes);
        // Xorshift, by Marsaglia.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        // The upper bits are the better ones.
        (weight == 1 || (self.random >> 32) & (weight - 1) == 0).then_some(weight as i64)
    }

    /// Begins to measure conditions that are evaluated one after the other.
    pub(crate) fn start(&mut self, weight: i64) -> Measurement<'_> {
        let before = (self.clock)(None);
        let now = (self.clock)(None);
        Measurement {
            reading: since(before, now),
            last: now,
            weight,
            meter: self,
        }
    }

    /// Sum of the estimates that were not taken, nanoseconds.
    pub(crate) fn total_nanos(&self) -> i64 {
        self.total_nanos
    }

    /// Hands over the estimates of all rules that have one, by their numbers, and begins anew. A single estimate may be below zero,
    /// since the time of reading the clock is subtracted; their sum over a longer time is not.
    pub(crate) fn take(&mut self, mut each: impl FnMut(u32, i64)) {
        if self.total_nanos == 0 && self.nanos.iter().all(|nanos| *nanos == 0) {
            return;
        }
        self.total_nanos = 0;
        for (rule, nanos) in (0..).zip(&mut self.nanos) {
            let nanos = std::mem::take(nanos);
            if nanos != 0 {
                each(rule, nanos);
            }
        }
    }
}

fn weight_of(bytes: usize) -> u64 {
    let wanted = (ALWAYS_MEASURED_BYTES / bytes.max(1)) as u64;
    match wanted {
        0 => 1,
        wanted if wanted >= WEIGHT_MAX => WEIGHT_MAX,
        // The power of two below: longer events are measured rather more often.
        wanted => 1 << wanted.ilog2(),
    }
}

fn since(before: u64, now: u64) -> i64 {
    now.saturating_sub(before).min(i64::MAX as u64) as i64
}

/// Measurement of conditions that are evaluated one after the other.
pub(crate) struct Measurement<'a> {
    meter: &'a mut CostMeter,
    /// Time that a reading of the clock takes.
    reading: i64,
    last: u64,
    weight: i64,
}

impl Measurement<'_> {
    /// The condition of a rule was evaluated.
    pub(crate) fn evaluated(&mut self, number: u32, id: &str) {
        let now = (self.meter.clock)(Some(id));
        let nanos = (since(self.last, now) - self.reading).saturating_mul(self.weight);
        self.last = now;
        if let Some(sum) = self.meter.nanos.get_mut(number as usize) {
            *sum = sum.saturating_add(nanos);
            self.meter.total_nanos = self.meter.total_nanos.saturating_add(nanos);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn estimates_of_a_sample_are_unbiased() {
        let now = Arc::new(AtomicU64::new(0));
        let shared = Arc::clone(&now);
        // Each reading takes 30 ns; `a` costs 100 ns, `b` 2,000.
        let clock: CpuClock = Arc::new(move |id| {
            let cost = match id {
                Some("a") => 100,
                Some("b") => 2_000,
                _ => 0,
            };
            shared.fetch_add(cost + 30, Ordering::Relaxed) + cost + 30
        });
        let mut meter = CostMeter::new(clock, 2);
        let (events, mut measured) = (400_000, 0);
        for event in 0..events {
            // Short and long events.
            let bytes = [300, 9_000, 60_000, 200_000][event % 4];
            let Some(weight) = meter.sample(bytes) else { continue };
            measured += 1;
            let mut measurement = meter.start(weight);
            measurement.evaluated(0, "a");
            measurement.evaluated(1, "b");
        }
        assert!(measured < events * 6 / 10, "{measured}");
        let mut found = [0; 2];
        meter.take(|rule, nanos| found[rule as usize] = nanos);
        let events = events as f64;
        assert!((found[0] as f64 / (events * 100.0) - 1.0).abs() < 0.03, "{found:?}");
        assert!((found[1] as f64 / (events * 2_000.0) - 1.0).abs() < 0.03, "{found:?}");
        meter.take(|_, _| panic!("the estimates were taken"));
    }

    #[test]
    fn long_events_are_measured_always() {
        let found = [0, 300, 2048, 5_000, 70_000, 131_072, 1 << 20].map(weight_of);
        assert_eq!(found, [64, 64, 64, 16, 1, 1, 1]);
    }
}
