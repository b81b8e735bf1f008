//! Times of events: a daily and weekly rhythm, bursts, and some events that arrive late or out of order.

use super::random::{Random, mix};

const MINUTE_MS: i64 = 60_000;
const DAY_MINUTES: i64 = 1440;
/// Activity at each hour in UTC, in percent of the busiest.
const HOURS: [u64; 24] = [
    34, 30, 28, 28, 30, 36, 48, 64, 82, 94, 100, 98, 90, 96, 100, 98, 92, 82, 70, 60, 54, 48, 42, 38,
];
/// Saturday and Sunday, in percent of a working day.
const WEEKEND_PERCENT: u64 = 45;
/// One minute in this many starts a burst, which lasts at most [`BURST_MINUTES_MAX`].
const BURST_EVERY_MINUTES: u64 = 220;
const BURST_MINUTES_MAX: i64 = 12;

/// A time with more events than usual, of one type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Burst {
    /// Constant during the burst.
    pub(crate) id: u64,
    /// Additional events in percent of the normal ones.
    pub(crate) percent: u64,
}

/// Spreads a number of events over a time range, in the order of their arrival.
pub(crate) struct Timeline {
    seed: u64,
    start_ms: i64,
    end_ms: i64,
    /// Events of the range, and the maximum of returned events: more if the range is continued.
    events: u64,
    events_max: u64,
    weight_total: u64,
    /// The current minute, the weight up to its end, and its events: all and returned ones.
    minute: i64,
    weight_so_far: u64,
    emitted: u64,
    in_minute: u64,
    handed_out: u64,
    burst: Option<Burst>,
}

impl Timeline {
    /// Creates `events` events from `start_ms` on and before `end_ms`.
    pub(crate) fn new(seed: u64, start_ms: i64, end_ms: i64, events: u64) -> Self {
        let mut timeline = Self {
            seed,
            start_ms,
            end_ms: end_ms.max(start_ms + 1),
            events,
            events_max: events,
            weight_total: 0,
            minute: start_ms.div_euclid(MINUTE_MS),
            weight_so_far: 0,
            emitted: 0,
            in_minute: 0,
            handed_out: 0,
            burst: None,
        };
        let last = (timeline.end_ms - 1).div_euclid(MINUTE_MS);
        timeline.weight_total = (timeline.minute..=last)
            .map(|minute| timeline.weight(minute))
            .sum::<u64>()
            .max(1);
        // The first step goes to the first minute.
        timeline.minute -= 1;
        timeline
    }

    /// Returns the next event's time and the burst it may belong to.
    pub(crate) fn next(&mut self, random: &mut Random) -> Option<(i64, Option<Burst>)> {
        let on_time = self.step(random)?;
        Some((delayed(random, on_time).max(self.start_ms), self.burst))
    }

    /// Returns the time of the next event, without delay.
    fn step(&mut self, random: &mut Random) -> Option<i64> {
        while self.handed_out == self.in_minute {
            if self.emitted == self.events_max {
                return None;
            }
            self.minute += 1;
            self.weight_so_far += self.weight(self.minute);
            let due = u128::from(self.events) * u128::from(self.weight_so_far) / u128::from(self.weight_total);
            let due = (due as u64).min(self.events_max);
            self.in_minute = due - self.emitted;
            self.handed_out = 0;
            self.emitted = due;
            self.burst = burst(self.seed, self.minute);
        }
        // Within the part of the minute that is in the range.
        let from = (self.minute * MINUTE_MS).max(self.start_ms);
        let span = ((self.minute + 1) * MINUTE_MS).min(self.end_ms) - from;
        let step = self.handed_out * span as u64 + random.below(span.max(1) as u64);
        self.handed_out += 1;
        Some(from + (step / self.in_minute) as i64)
    }

    /// Returns the weight of a minute. The first and the last minute may be in the range only in part.
    fn weight(&self, minute: i64) -> u64 {
        let from = (minute * MINUTE_MS).max(self.start_ms);
        let to = ((minute + 1) * MINUTE_MS).min(self.end_ms);
        weight(self.seed, minute) * (to - from).max(0) as u64 / MINUTE_MS as u64
    }
}

/// Returns the relative number of events in a whole minute since 1970.
fn weight(seed: u64, minute: i64) -> u64 {
    let of_day = minute.rem_euclid(DAY_MINUTES) as u64;
    let (hour, into_hour) = ((of_day / 60) as usize, of_day % 60);
    let rhythm = HOURS[hour] * (60 - into_hour) + HOURS[(hour + 1) % 24] * into_hour;
    // 1970-01-01 was a Thursday.
    let is_weekend = matches!(minute.div_euclid(DAY_MINUTES).rem_euclid(7), 2 | 3);
    let week = if is_weekend { WEEKEND_PERCENT } else { 100 };
    let noise = 85 + mix(seed ^ minute as u64) % 31;
    let with_burst = 100 + burst(seed, minute).map_or(0, |burst| burst.percent);
    rhythm * week * noise / 1000 * with_burst / 100
}

/// Of 100 events, about one arrives late by up to six hours and four are a little out of order.
fn delayed(random: &mut Random, on_time_ms: i64) -> i64 {
    match random.below(100) {
        0 => on_time_ms - random.logarithmic(1000, 6 * 3_600_000) as i64,
        1..5 => on_time_ms - random.below(5000) as i64,
        _ => on_time_ms,
    }
}

/// Returns the burst of a minute since 1970.
pub(crate) fn burst(seed: u64, minute: i64) -> Option<Burst> {
    (0..BURST_MINUTES_MAX).find_map(|since| {
        let bits = mix(mix(seed ^ 0xb0b5) ^ (minute - since) as u64);
        let starts = bits.is_multiple_of(BURST_EVERY_MINUTES);
        let minutes = 1 + (bits >> 16) as i64 % BURST_MINUTES_MAX;
        (starts && since < minutes.abs()).then_some(Burst {
            id: bits >> 8,
            percent: 100 + (bits >> 32) % 500,
        })
    })
}

/// Live events at a constant rate, with the same bursts and delays.
pub(crate) struct Live {
    seed: u64,
    start_ms: i64,
    events_per_second: f64,
    emitted: u64,
}

impl Live {
    pub(crate) fn new(seed: u64, start_ms: i64, events_per_second: f64) -> Self {
        Self {
            seed,
            start_ms,
            events_per_second,
            emitted: 0,
        }
    }

    /// Returns the next event's time if it is not after `now_ms`.
    pub(crate) fn next(&mut self, random: &mut Random, now_ms: i64) -> Option<(i64, Option<Burst>)> {
        let after_ms = (self.emitted as f64 * 1000.0 / self.events_per_second) as i64;
        let on_time = self.start_ms + after_ms;
        if on_time > now_ms {
            return None;
        }
        self.emitted += 1;
        Some((
            delayed(random, on_time),
            burst(self.seed, on_time.div_euclid(MINUTE_MS)),
        ))
    }
}

/// Continuation of a time range: with its rhythm of days and weeks and its volume, without an end.
pub(crate) struct Continued {
    /// The range, and each further minute after its end.
    timeline: Timeline,
    /// Time of the next event, which is not due yet.
    due_ms: Option<i64>,
}

impl Continued {
    /// Continues a range with at least one event from `start_ms` on, at its rate.
    pub(crate) fn new(mut range: Timeline, start_ms: i64) -> Self {
        range.start_ms = start_ms;
        range.end_ms = i64::MAX;
        range.events_max = u64::MAX;
        range.minute = start_ms.div_euclid(MINUTE_MS) - 1;
        Self {
            timeline: range,
            due_ms: None,
        }
    }

    /// Returns the next event's time if it is due at `now_ms`.
    pub(crate) fn next(&mut self, random: &mut Random, now_ms: i64) -> Option<(i64, Option<Burst>)> {
        if self.due_ms.is_none() {
            self.due_ms = self.timeline.step(random);
        }
        let on_time = self.due_ms.take_if(|due_ms| *due_ms <= now_ms)?;
        Some((delayed(random, on_time), self.timeline.burst))
    }
}
