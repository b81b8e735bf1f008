//! State of a rule over several events: what it remembers of each key, and which keys raise an alert. The keys of thresholds are in
//! [`super::threshold_table`].

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};

use super::change_key::{Change, ChangeKey};
use super::definition::AggregateDefinition;
use super::row::Row;
use super::rule_row::RuleRow;
use super::rule_windows::{RuleKind, WindowAlert};
use super::sequence_key::{Sequence, SequenceKey};
use super::threshold_key::ThresholdKey;

/// Parts of the length of a window after which keys are looked through for what can be forgotten.
const FORGET_PARTS: i64 = 2;
/// Shortest time between two such looks, ms.
const FORGET_MS_MIN: i64 = 1_000;

/// What is remembered of a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeyState {
    /// Of [`RuleKind::Quarters`]: start of the last window that raised an alert.
    Alerted(i64),
    /// End of the last window with an event.
    Seen(i64),
    /// The same of a key whose absence raised an alert.
    Absent(i64),
    Threshold(ThresholdKey),
    Sequence(SequenceKey),
    Change(ChangeKey),
}

impl KeyState {
    /// Number of entries.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Alerted(_) | Self::Seen(_) | Self::Absent(_) => 0,
            Self::Threshold(key) => key.size(),
            Self::Sequence(key) => key.size(),
            Self::Change(key) => key.size(),
        }
    }

    /// Returns what is stored of it.
    pub(super) fn stored(&self) -> Self {
        match self {
            Self::Sequence(key) => Self::Sequence(key.stored()),
            other => other.clone(),
        }
    }
}

/// State of the keys of a rule.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RuleState {
    keys: HashMap<Arc<str>, KeyState, RandomState>,
    /// Start of the first window.
    began: Option<i64>,
    /// Of a rate of change, the end of the windows that were judged; of others, when keys were last looked through.
    closed_to: Option<i64>,
}

/// What a row of a key leads to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) alert: Option<WindowAlert>,
    /// There is no place for its key.
    pub(super) is_beyond: bool,
}

impl RuleState {
    pub(super) fn new(began: Option<i64>, closed_to: Option<i64>) -> Self {
        Self {
            began,
            closed_to,
            ..Self::default()
        }
    }

    pub(super) fn began(&self) -> Option<i64> {
        self.began
    }

    pub(super) fn closed_to(&self) -> Option<i64> {
        self.closed_to
    }

    /// Returns the keys, sorted.
    pub(super) fn keys(&self) -> Vec<(&Arc<str>, &KeyState)> {
        let mut keys: Vec<_> = self.keys.iter().collect();
        keys.sort_unstable_by(|one, other| one.0.cmp(other.0));
        keys
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn set(&mut self, key: &str, state: KeyState) {
        self.keys.insert(key.into(), state);
    }

    /// Takes a row of a key.
    pub(super) fn add(
        &mut self,
        definition: &Arc<AggregateDefinition>,
        kind: RuleKind,
        every: i64,
        (key, row): (&Arc<str>, &RuleRow),
    ) -> Outcome {
        let end = row.start_ms.saturating_add(every);
        let alert = |start_ms, end_ms| WindowAlert {
            definition: Arc::clone(definition),
            start_ms,
            end_ms,
            key: (**key).into(),
            events: row.events,
            value: None,
            steps: Vec::new(),
            baseline: None,
        };
        let raised = match kind {
            RuleKind::Quarters { .. } | RuleKind::Sliding { .. } => None,
            RuleKind::Absence { .. } => {
                let (_, is_beyond) = self.see(key, (row.start_ms, end), definition.max_keys);
                return Outcome { alert: None, is_beyond };
            }
            RuleKind::NewValue { learn } => {
                let (is_new, is_beyond) = self.see(key, (row.start_ms, end), definition.max_keys);
                let raises = is_new && self.has_learned(learn, row.start_ms);
                let alert = raises.then(|| alert(row.start_ms, end));
                return Outcome { alert, is_beyond };
            }
            RuleKind::Sequence { .. } => {
                let sequence = sequence(definition, kind);
                let Some(state) = self.state(key, definition.max_keys, KeyState::Sequence(SequenceKey::default()))
                else {
                    return Outcome::beyond();
                };
                let KeyState::Sequence(state) = state else {
                    return Outcome::default();
                };
                let complete = state.add(&sequence, row.start_ms, row.steps);
                if complete.is_some() {
                    // It starts anew.
                    self.keys.remove(key);
                }
                complete.map(|times| {
                    let [first, last] = [times.iter().min(), times.iter().max()];
                    let [first, last] = [first, last].map(|time| time.copied().unwrap_or(row.start_ms));
                    WindowAlert {
                        events: times.len() as u64,
                        steps: times,
                        ..alert(first, last)
                    }
                })
            }
            RuleKind::Change { .. } => {
                match self.state(key, definition.max_keys, KeyState::Change(ChangeKey::default())) {
                    None => return Outcome::beyond(),
                    Some(KeyState::Change(state)) => state.add(row.start_ms, row.events),
                    Some(_) => {}
                }
                None
            }
        };
        Outcome {
            alert: raised,
            is_beyond: false,
        }
    }

    /// Returns the state of a key, which may be new; `None`: there is no place for it.
    fn state(&mut self, key: &Arc<str>, max_keys: usize, new: KeyState) -> Option<&mut KeyState> {
        let is_full = self.keys.len() >= max_keys;
        if is_full {
            return self.keys.get_mut(key);
        }
        Some(self.keys.entry(Arc::clone(key)).or_insert(new))
    }

    /// Whether a closing at a watermark raises alerts, or forgets keys.
    pub(super) fn has_due(&self, kind: RuleKind, every: i64, lateness: i64, watermark: i64) -> bool {
        if self.keys.is_empty() {
            return false;
        }
        match kind {
            RuleKind::Quarters { .. } | RuleKind::NewValue { .. } | RuleKind::Sliding { .. } => false,
            RuleKind::Absence { after } => self.keys.values().any(|state| is_absent(state, after, watermark)),
            RuleKind::Change { .. } => {
                let end = end_of_closed(every, lateness, watermark);
                self.closed_to.is_none_or(|closed| closed < end)
            }
            RuleKind::Sequence { within, .. } => self.is_look_due(within, watermark),
        }
    }

    /// Whether keys that are remembered for a time are to be looked through at a watermark.
    pub(super) fn is_look_due(&self, length: i64, watermark: i64) -> bool {
        let pause = (length / FORGET_PARTS).max(FORGET_MS_MIN);
        self.closed_to
            .is_none_or(|last| watermark >= last.saturating_add(pause))
    }

    /// Notes that keys were looked through.
    pub(super) fn note_look(&mut self, watermark: i64) {
        self.closed_to = Some(watermark);
    }

    /// Returns the alerts of a closing. Does nothing unless something is due.
    pub(super) fn close(
        &mut self,
        definition: &Arc<AggregateDefinition>,
        kind: RuleKind,
        (every, lateness): (i64, i64),
        watermark: i64,
    ) -> Vec<WindowAlert> {
        if !self.has_due(kind, every, lateness, watermark) {
            return Vec::new();
        }
        let horizon = watermark.saturating_sub(lateness);
        let alert = |key: Box<str>, (start_ms, end_ms), events| WindowAlert {
            definition: Arc::clone(definition),
            start_ms,
            end_ms,
            key,
            events,
            value: None,
            steps: Vec::new(),
            baseline: None,
        };
        match kind {
            RuleKind::Quarters { .. } | RuleKind::NewValue { .. } | RuleKind::Sliding { .. } => Vec::new(),
            RuleKind::Absence { after } => {
                let absent = self.take_absent(after, watermark).into_iter();
                let absent = absent.map(|(key, last)| alert(key, (last, last.saturating_add(after)), 0));
                absent.collect()
            }
            RuleKind::Sequence { .. } => {
                self.closed_to = Some(watermark);
                let sequence = sequence(definition, kind);
                self.keys.retain(|_, state| match state {
                    KeyState::Sequence(key) => !key.forget(&sequence, horizon),
                    _ => false,
                });
                Vec::new()
            }
            RuleKind::Change {
                rise_factor,
                drop_percent,
                baseline_windows,
                min_events,
            } => {
                let change = Change {
                    window: every,
                    rise_factor,
                    drop_percent,
                    baseline_windows,
                    min_events,
                };
                let to = end_of_closed(every, lateness, watermark);
                let firsts = self.keys.values().filter_map(|state| match state {
                    KeyState::Change(key) => Some(key.first()),
                    _ => None,
                });
                let from = self.closed_to.or(firsts.min()).unwrap_or(to);
                self.closed_to = Some(to);
                let mut alerts = Vec::new();
                self.keys.retain(|key, state| {
                    let KeyState::Change(state) = state else {
                        return false;
                    };
                    let (changed, is_forgotten) = state.close(&change, from, to);
                    alerts.extend(changed.into_iter().map(|changed| WindowAlert {
                        value: Some(changed.events.into()),
                        baseline: Some(changed.baseline),
                        ..alert(
                            (**key).into(),
                            (changed.start, changed.start.saturating_add(every)),
                            changed.events,
                        )
                    }));
                    !is_forgotten
                });
                alerts.sort_by(|one, other| (one.start_ms, &one.key).cmp(&(other.start_ms, &other.key)));
                alerts
            }
        }
    }

    /// Of [`RuleKind::Quarters`]: whether a row of a window reaches the threshold, and no window that overlaps it has done so.
    pub(super) fn reaches(&mut self, at_least: f64, key: &str, start_ms: i64, every_ms: i64, row: &Row) -> bool {
        if value_of(row).unwrap_or(0.0) < at_least {
            return false;
        }
        match self.keys.get_mut(key) {
            Some(KeyState::Alerted(last)) if start_ms.abs_diff(*last) < every_ms.unsigned_abs() => false,
            Some(KeyState::Alerted(last)) => {
                // A window from long ago must not make a later one raise an alert again.
                *last = start_ms.max(*last);
                true
            }
            _ => {
                self.keys.insert(key.into(), KeyState::Alerted(start_ms));
                true
            }
        }
    }

    /// Of [`RuleKind::Quarters`]: forgets alerts of windows that no later window overlaps.
    pub(super) fn forget_alerted(&mut self, before_ms: i64) {
        self.keys
            .retain(|_, state| !matches!(state, KeyState::Alerted(start) if *start < before_ms));
    }

    /// Notes an event of a key in a window; returns whether the key is new, and whether there is no place for it.
    fn see(&mut self, key: &Arc<str>, (start_ms, end_ms): (i64, i64), max_keys: usize) -> (bool, bool) {
        self.began.get_or_insert(start_ms);
        let is_full = self.keys.len() >= max_keys;
        match self.keys.get_mut(key) {
            Some(KeyState::Seen(last)) => {
                *last = end_ms.max(*last);
                (false, false)
            }
            Some(state @ KeyState::Absent(_)) => {
                // An event from before the alert changes nothing.
                if let KeyState::Absent(last) = *state
                    && end_ms > last
                {
                    *state = KeyState::Seen(end_ms);
                }
                (false, false)
            }
            Some(_) => (false, false),
            None if is_full => (false, true),
            None => {
                self.keys.insert(Arc::clone(key), KeyState::Seen(end_ms));
                (true, false)
            }
        }
    }

    /// Whether the time of learning is over for a window.
    fn has_learned(&self, learn_ms: i64, start_ms: i64) -> bool {
        self.began
            .is_some_and(|began| start_ms >= began.saturating_add(learn_ms))
    }

    /// Returns the keys that are absent and were not before, sorted, with the end of the last window that had an event.
    fn take_absent(&mut self, after_ms: i64, watermark: i64) -> Vec<(Box<str>, i64)> {
        let mut absent = Vec::new();
        for (key, state) in &mut self.keys {
            if let (true, KeyState::Seen(last)) = (is_absent(state, after_ms, watermark), &*state) {
                let last = *last;
                *state = KeyState::Absent(last);
                absent.push(((**key).into(), last));
            }
        }
        absent.sort_unstable();
        absent
    }
}

impl Outcome {
    pub(super) fn beyond() -> Self {
        Self {
            alert: None,
            is_beyond: true,
        }
    }
}

fn is_absent(state: &KeyState, after_ms: i64, watermark: i64) -> bool {
    matches!(state, KeyState::Seen(last) if last.saturating_add(after_ms) <= watermark)
}

/// Returns the end of the windows that are closed at a watermark.
fn end_of_closed(every: i64, lateness: i64, watermark: i64) -> i64 {
    let horizon = watermark.saturating_sub(lateness);
    horizon.saturating_sub(horizon.rem_euclid(every))
}

fn sequence(definition: &AggregateDefinition, kind: RuleKind) -> Sequence {
    let (within, is_ordered) = match kind {
        RuleKind::Sequence { within, is_ordered } => (within, is_ordered),
        _ => (0, true),
    };
    Sequence {
        steps: definition.rule.as_ref().map_or(0, |rule| rule.steps.len()),
        is_ordered,
        within,
    }
}

/// Returns what a threshold is compared with: the metric if there is one, or else the number of events.
fn value_of(row: &Row) -> Option<f64> {
    match row.values().next() {
        None => Some(row.events as f64),
        Some(value) => value.and_then(|value| value.as_f64()),
    }
}
