//! Key of a threshold: its events by panes of time, and whether those of a window reach a value.
//!
//! A window ends with a pane in which there are events. It covers the panes before that its length touches, so that no burst is missed
//! that takes at most the length of the window, and none of more than the length and two panes counts.

use serde::{Deserialize, Serialize};

use super::row::add;
use super::rule_row::RuleRow;

/// Panes of a key that are remembered: those of a window, and of the time for which events may be late.
const PANES_MAX: usize = 1_000;
/// Values of a row, and of the key, from which on they are inserted together.
const MERGED_MIN: usize = 4;
/// Alerts of a key whose windows are remembered.
const ALERTED_MAX: usize = 32;

/// What is remembered of a key of a threshold.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct ThresholdKey {
    #[serde(rename = "p")]
    panes: Vec<Pane>,
    /// Hashes of values with the panes that they are in, sorted. Panes between two others that each window has one of are left out.
    #[serde(rename = "v", default, skip_serializing_if = "Vec::is_empty")]
    values: Vec<(u64, i64)>,
    /// Starts of the last panes of the windows that raised an alert, sorted.
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    alerted: Vec<i64>,
}

/// Events of a key in a pane: its start (ms), their number, and the sum of their field.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Pane(i64, u64, f64);

/// What a threshold is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Counted {
    Events,
    Sum,
    /// Values, of whose hashes one in `1 << sample_bits` is remembered.
    Values {
        sample_bits: u32,
    },
}

/// Threshold, as its keys are compared with it. Times are ms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threshold {
    pub(crate) counted: Counted,
    pub(crate) at_least: f64,
    pub(crate) pane: i64,
    pub(crate) window: i64,
}

/// Window of a key that reaches a threshold. Times are ms since the epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reached {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) events: u64,
    pub(crate) value: f64,
}

impl Threshold {
    /// Distance from the first to the last pane of a window.
    fn span(&self) -> i64 {
        let panes = self.window.saturating_add(self.pane - 1) / self.pane;
        panes.saturating_mul(self.pane)
    }

    /// Start of the last pane that no window with events after `horizon` has, ms since the epoch.
    pub(super) fn oldest(&self, horizon: i64) -> i64 {
        horizon.saturating_sub(self.span()).saturating_sub(self.pane)
    }

    /// Most entries of values. Of the newest of them, which no more than two panes each take from one window, more than reach the
    /// threshold are of the last window.
    fn values_max(&self) -> usize {
        match self.counted {
            Counted::Values { sample_bits } => {
                let needed = self.at_least / (1_u64 << sample_bits) as f64;
                4 * (needed.ceil() as usize).min(1 << 20) + 64
            }
            Counted::Events | Counted::Sum => 0,
        }
    }
}

/// Makes place for the first entry of a list alone: most keys have one.
fn reserve<T>(list: &mut Vec<T>) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
}

impl ThresholdKey {
    /// Returns a key with events of one pane, and at most one value in it.
    pub(super) fn of_pane(start: i64, events: u64, sum: f64, value: Option<u64>) -> Self {
        Self {
            panes: vec![Pane(start, events, sum)],
            values: value.map(|hash| (hash, start)).into_iter().collect(),
            alerted: Vec::new(),
        }
    }

    /// Returns what [`ThresholdKey::of_pane`] makes it of: start, number of events, sum, value. `None`: it is more.
    pub(super) fn as_pane(&self) -> Option<(i64, u64, f64, Option<u64>)> {
        let [Pane(start, events, sum)] = self.panes[..] else {
            return None;
        };
        if !self.alerted.is_empty() {
            return None;
        }
        match self.values[..] {
            [] => Some((start, events, sum, None)),
            [(hash, pane)] if pane == start => Some((start, events, sum, Some(hash))),
            _ => None,
        }
    }

    /// Adds events; returns the first window with them that reaches the threshold, unless one that ended less than a length before or
    /// after it has done so.
    pub(crate) fn add(&mut self, threshold: &Threshold, row: &RuleRow) -> Option<Reached> {
        let at = row.start_ms;
        let place = self.panes.partition_point(|pane| pane.0 < at);
        match self.panes.get_mut(place).filter(|pane| pane.0 == at) {
            Some(pane) => (pane.1, pane.2) = (pane.1 + row.events, add(pane.2, row.sum)),
            None => {
                reserve(&mut self.panes);
                self.panes.insert(place, Pane(at, row.events, row.sum));
            }
        }
        if self.panes.len() > PANES_MAX {
            self.panes.remove(0);
        }
        self.add_values(threshold, &row.hashes, at);
        self.bound_values(threshold);
        if let Counted::Values { sample_bits } = threshold.counted
            && (((self.values.len() as u64) << sample_bits) as f64) < threshold.at_least
        {
            return None;
        }
        let span = threshold.span();
        let first = self.panes.partition_point(|pane| pane.0 < at);
        let ends = self.panes[first..]
            .iter()
            .take_while(|pane| pane.0 <= at.saturating_add(span));
        let reached = ends
            .map(|pane| pane.0)
            .filter(|end| self.may_raise(threshold, *end))
            .find_map(|end| self.window(threshold, end))?;
        self.note_alerted(reached.end - threshold.pane);
        Some(reached)
    }

    /// Whether a window that ends with a pane is a length away from all that raised alerts.
    fn may_raise(&self, threshold: &Threshold, end: i64) -> bool {
        let is_forgotten = self.alerted.len() == ALERTED_MAX && self.alerted.first().is_some_and(|first| end < *first);
        let mut alerted = self.alerted.iter();
        !is_forgotten && alerted.all(|other| end.abs_diff(*other) >= threshold.window.unsigned_abs())
    }

    fn note_alerted(&mut self, end: i64) {
        let place = self.alerted.partition_point(|other| *other < end);
        self.alerted.insert(place, end);
        if self.alerted.len() > ALERTED_MAX {
            self.alerted.remove(0);
        }
    }

    /// Returns the window that ends with a pane, if it reaches the threshold.
    fn window(&self, threshold: &Threshold, end: i64) -> Option<Reached> {
        let start = end.saturating_sub(threshold.span());
        let first = self.panes.partition_point(|pane| pane.0 < start);
        let panes = self.panes[first..].iter().take_while(|pane| pane.0 <= end);
        let (events, sum) = panes.fold((0, 0.0), |(events, sum), pane| (events + pane.1, add(sum, pane.2)));
        let value = match threshold.counted {
            Counted::Events => events as f64,
            Counted::Sum => sum,
            Counted::Values { sample_bits } => (self.distinct(start, end) << sample_bits) as f64,
        };
        (value >= threshold.at_least).then(|| Reached {
            start,
            end: end.saturating_add(threshold.pane),
            events,
            value,
        })
    }

    /// Number of values in panes from `start` through `end`.
    fn distinct(&self, start: i64, end: i64) -> u64 {
        let (mut count, mut last) = (0, None);
        for (hash, pane) in &self.values {
            if (start..=end).contains(pane) && last != Some(*hash) {
                count += 1;
                last = Some(*hash);
            }
        }
        count
    }

    /// Adds different values. Those that are new are inserted in one pass over the others.
    fn add_values(&mut self, threshold: &Threshold, hashes: &[u64], at: i64) {
        let is_in_order = hashes.is_sorted_by(|one, next| one < next);
        if hashes.len() < MERGED_MIN || self.values.len() < MERGED_MIN || !is_in_order {
            for hash in hashes {
                self.add_value(threshold, *hash, at);
            }
            return;
        }
        let mut fresh = Vec::with_capacity(hashes.len());
        for hash in hashes {
            let place = self.values.partition_point(|entry| entry.0 < *hash);
            match self.values.get(place).is_some_and(|entry| entry.0 == *hash) {
                true => self.add_value(threshold, *hash, at),
                false => fresh.push(*hash),
            }
        }
        let mut end = self.values.len();
        self.values.resize(end + fresh.len(), (0, at));
        // From the last one on, each moves the values after it to their places.
        for (before, hash) in fresh.iter().enumerate().rev() {
            let start = self.values[..end].partition_point(|entry| entry.0 < *hash);
            self.values.copy_within(start..end, start + before + 1);
            self.values[start + before] = (*hash, at);
            end = start;
        }
    }

    fn add_value(&mut self, threshold: &Threshold, hash: u64, at: i64) {
        let place = self.values.partition_point(|entry| *entry < (hash, at));
        if self.values.get(place) == Some(&(hash, at)) {
            return;
        }
        reserve(&mut self.values);
        self.values.insert(place, (hash, at));
        // Each window with the pane between two others of a value has one of them if they are this near.
        let is_between = |values: &[(u64, i64)], place: usize| {
            let before = place.checked_sub(1).and_then(|place| values.get(place));
            match (before, values.get(place + 1)) {
                (Some(before), Some(after)) if before.0 == hash && after.0 == hash => {
                    after.1.abs_diff(before.1) <= (threshold.span() + threshold.pane).unsigned_abs()
                }
                _ => false,
            }
        };
        for near in [place + 1, place, place.saturating_sub(1)] {
            if self.values.get(near).is_some_and(|entry| entry.0 == hash) && is_between(&self.values, near) {
                self.values.remove(near);
            }
        }
    }

    /// Forgets the oldest values once there are more than a window needs to reach the threshold.
    fn bound_values(&mut self, threshold: &Threshold) {
        let most = threshold.values_max();
        if self.values.len() <= most.saturating_mul(2) {
            return;
        }
        let mut panes: Vec<i64> = self.values.iter().map(|(_, pane)| *pane).collect();
        let place = panes.len() - most;
        let (_, oldest, _) = panes.select_nth_unstable(place);
        let oldest = *oldest;
        // Of the pane at the edge as many as there is place for.
        let mut at_edge = most.saturating_sub(self.values.iter().filter(|(_, pane)| *pane > oldest).count());
        self.values.retain(|(_, pane)| {
            let stays = *pane > oldest || (*pane == oldest && at_edge > 0);
            if stays && *pane == oldest {
                at_edge -= 1;
            }
            stays
        });
    }

    /// Forgets what no window with events after `horizon` has. Returns whether nothing is left.
    pub(crate) fn forget(&mut self, threshold: &Threshold, horizon: i64) -> bool {
        let oldest = threshold.oldest(horizon);
        self.panes.retain(|pane| pane.0 > oldest);
        self.values.retain(|(_, pane)| *pane > oldest);
        self.alerted.retain(|end| *end > oldest);
        self.panes.is_empty() && self.alerted.is_empty()
    }

    /// Number of entries.
    pub(crate) fn size(&self) -> usize {
        self.panes.len() + self.values.len()
    }
}
