//! Key of a rate of change: the numbers of its events in the last windows.

use serde::{Deserialize, Serialize};

/// Windows of a key that are remembered, beyond those of the baseline.
const WINDOWS_MAX: usize = 4_096;

/// What is remembered of a key of a rate of change.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct ChangeKey {
    /// Start of its first window, ms since the epoch.
    #[serde(rename = "f")]
    first: i64,
    /// Windows with events, in order: the start and the number of events.
    #[serde(rename = "n")]
    counts: Vec<(i64, u64)>,
    /// What the last window was found to be: an alert is raised once for windows that follow each other.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    last: Option<Direction>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Direction {
    Rise,
    Drop,
}

/// Rate of change, as its keys are compared with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change {
    /// Length of the windows, ms.
    pub(crate) window: i64,
    pub(crate) rise_factor: Option<f64>,
    pub(crate) drop_percent: Option<f64>,
    pub(crate) baseline_windows: u32,
    pub(crate) min_events: u64,
}

/// Window that differs from those before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Changed {
    /// Start of the window, ms since the epoch.
    pub(crate) start: i64,
    pub(crate) events: u64,
    /// Mean number of events of the windows of the baseline.
    pub(crate) baseline: f64,
}

impl Change {
    /// Length of the baseline, ms.
    fn baseline(&self) -> i64 {
        self.window.saturating_mul(i64::from(self.baseline_windows))
    }

    fn direction(&self, events: u64, mean: f64) -> Option<Direction> {
        let least = self.min_events as f64;
        let count = events as f64;
        if self
            .rise_factor
            .is_some_and(|factor| count >= least && count >= factor * mean)
        {
            return Some(Direction::Rise);
        }
        let is_drop = |percent: f64| mean >= least && count <= mean * (1.0 - percent / 100.0);
        self.drop_percent.is_some_and(is_drop).then_some(Direction::Drop)
    }
}

impl ChangeKey {
    /// Adds events of a window.
    pub(crate) fn add(&mut self, start: i64, events: u64) {
        self.first = match self.counts.is_empty() {
            true => start,
            false => self.first.min(start),
        };
        let place = self.counts.partition_point(|(other, _)| *other < start);
        match self.counts.get_mut(place).filter(|(other, _)| *other == start) {
            Some((_, count)) => *count += events,
            None => self.counts.insert(place, (start, events)),
        }
        if self.counts.len() > WINDOWS_MAX {
            self.counts.remove(0);
        }
    }

    /// Start of the first window that is known.
    pub(crate) fn first(&self) -> i64 {
        self.first
    }

    /// Judges the windows that start from `from` on and before `to`. Returns those that changed, and whether the key is to be forgotten.
    pub(crate) fn close(&mut self, change: &Change, from: i64, to: i64) -> (Vec<Changed>, bool) {
        let mut changed = Vec::new();
        let last = self.counts.last().map_or(self.first, |(last, _)| *last);
        // Later windows are as empty as their baselines.
        let until = to.min(last.saturating_add(change.baseline()).saturating_add(change.window));
        let mut start = from.max(self.first.saturating_add(change.baseline()));
        while start < until {
            let baseline = self.sum(start.saturating_sub(change.baseline()), start) as f64;
            let mean = baseline / f64::from(change.baseline_windows);
            let events = self.sum(start, start.saturating_add(change.window));
            let direction = change.direction(events, mean);
            if direction.is_some() && direction != self.last {
                changed.push(Changed {
                    start,
                    events,
                    baseline: mean,
                });
            }
            self.last = direction;
            start = start.saturating_add(change.window);
        }
        self.counts
            .retain(|(start, _)| *start >= to.saturating_sub(change.baseline()));
        (changed, self.counts.is_empty())
    }

    /// Number of events in windows that start from `from` on and before `to`.
    fn sum(&self, from: i64, to: i64) -> u64 {
        let first = self.counts.partition_point(|(start, _)| *start < from);
        let windows = self.counts[first..].iter().take_while(|(start, _)| *start < to);
        windows.map(|(_, count)| count).sum()
    }

    /// Number of entries.
    pub(crate) fn size(&self) -> usize {
        self.counts.len()
    }
}
