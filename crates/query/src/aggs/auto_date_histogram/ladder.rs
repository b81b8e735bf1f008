//! Ladder of bucket widths for `auto_date_histogram`.

use firn_model::dates::{CalendarUnit, Interval, Rounding, Zone};

/// One width, and how many of its buckets the answer may combine.
struct Rung {
    unit: CalendarUnit,
    suffix: &'static str,
    /// Approximate width, ms.
    rough_ms: i64,
    steps: &'static [u32],
}

/// Every start of a rung is also a start of the rungs below it, so buckets of a lower rung fold into those of a higher
/// one.
const RUNGS: &[Rung] = &[
    Rung {
        unit: CalendarUnit::Second,
        suffix: "s",
        rough_ms: 1000,
        steps: &[1, 5, 10, 30],
    },
    Rung {
        unit: CalendarUnit::Minute,
        suffix: "m",
        rough_ms: 60_000,
        steps: &[1, 5, 10, 30],
    },
    Rung {
        unit: CalendarUnit::Hour,
        suffix: "h",
        rough_ms: 3_600_000,
        steps: &[1, 3, 12],
    },
    Rung {
        unit: CalendarUnit::Day,
        suffix: "d",
        rough_ms: 86_400_000,
        steps: &[1, 7],
    },
    Rung {
        unit: CalendarUnit::Month,
        suffix: "M",
        rough_ms: 30 * 86_400_000,
        steps: &[1, 3],
    },
    Rung {
        unit: CalendarUnit::Year,
        suffix: "y",
        rough_ms: 365 * 86_400_000,
        steps: &[1, 5, 10, 20, 50, 100],
    },
];

/// Bucket widths of one request, finest first, and the requested number of buckets.
#[derive(Debug, Clone, PartialEq)]
pub struct Ladder {
    zone: Zone,
    target: u32,
    /// Index of the finest allowed width.
    finest: usize,
}

impl Ladder {
    pub(super) fn new(zone: Zone, target: u32, minimum: Option<CalendarUnit>) -> Self {
        let finest = minimum.and_then(|unit| RUNGS.iter().position(|rung| rung.unit == unit));
        Self {
            zone,
            target,
            finest: finest.unwrap_or(0),
        }
    }

    /// Returns the index of the finest allowed width.
    pub fn finest(&self) -> usize {
        self.finest
    }

    /// Whether a wider width follows.
    pub fn has_next(&self, rung: usize) -> bool {
        rung + 1 < RUNGS.len()
    }

    /// Returns the rounding of the width at an index.
    pub fn rounding(&self, rung: usize) -> Rounding {
        Rounding::new(Interval::Calendar(RUNGS[rung].unit), self.zone.clone(), 0)
    }

    /// Whether these are too many buckets of a width, even after the maximum combination.
    pub fn is_too_many(&self, buckets: usize, rung: usize) -> bool {
        buckets as u64 > u64::from(self.target) * u64::from(most(RUNGS[rung].steps))
    }

    /// Returns the finest width from `rung` on that has few enough buckets from `first` to `last`, empty ones included.
    /// Follows Elasticsearch's choice.
    pub(super) fn fitting(&self, first: i64, last: i64, rung: usize) -> usize {
        let mut at = rung;
        while self.has_next(at) {
            let limit = i64::from(self.target) * i64::from(most(RUNGS[at].steps));
            // If there are far too many, an exact count is not needed.
            let rough = last.saturating_sub(first) / RUNGS[at].rough_ms;
            if rough <= limit.saturating_mul(2) && self.count(first, last, at, limit) <= limit {
                break;
            }
            at += 1;
        }
        at
    }

    /// Counts the buckets that start up to `last`, at most one more than `limit`.
    fn count(&self, first: i64, last: i64, rung: usize, limit: i64) -> i64 {
        let rounding = self.rounding(rung);
        let mut start = rounding.round_down(first);
        let mut count = 0;
        while start <= last && count <= limit {
            count += 1;
            let next = rounding.next(start);
            if next <= start {
                break;
            }
            start = next;
        }
        count
    }

    /// Returns how many adjacent buckets to combine so that at most the requested number remains; 1: none.
    pub(super) fn step(&self, buckets: usize, rung: usize) -> u32 {
        let target = self.target as usize;
        if buckets <= target {
            return 1;
        }
        let fits = |step: &&u32| buckets.div_ceil(**step as usize) <= target;
        RUNGS[rung].steps.iter().find(fits).copied().unwrap_or(1)
    }

    /// Returns the name of the width, such as `7d`.
    pub(super) fn name(&self, step: u32, rung: usize) -> String {
        format!("{step}{}", RUNGS[rung].suffix)
    }
}

fn most(steps: &[u32]) -> u32 {
    steps.last().copied().unwrap_or(1)
}
