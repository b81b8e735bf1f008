//! Rules over several events: what the windows of a rule remember of its keys, and which keys raise an alert.
//!
//! The windows of a rule are those of an aggregate whose events are alerts. A threshold is looked for while its window is open, so
//! that an alert does not wait for the end; windows overlap, so that a burst that crosses the end of one is whole in another.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_detect::{DetectionRule, Measure, WindowKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::definition::{AggregateDefinition, MetricDefinition};
use super::row::Row;

/// Start of the names of the aggregates of rules; the id of the rule follows.
const NAME_PREFIX: &str = "#rule ";
/// Windows that an event is in; each starts this part of its length after the one before.
const OVERLAPS: i64 = 4;
/// Shortest distance between the starts of windows, ms.
const HOP_MS_MIN: i64 = 1_000;
/// Parts of the time of an absence: how exactly it is known when an event came.
const ABSENCE_PARTS: i64 = 10;
/// Resolution of new values, ms.
const NEW_VALUE_MS: i64 = 10_000;
/// Metric that a threshold is compared with.
const VALUE: &str = "value";
/// Field of the tenant, the first of the key.
pub(crate) const TENANT_FIELD: &str = "tenant";

/// Rule of an aggregate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RuleWindow {
    /// Id of the rule.
    pub(crate) id: String,
    /// Definition of the rule: a closed window is one of the rule as it was then.
    pub(crate) body: Map<String, Value>,
    pub(crate) kind: RuleKind,
}

/// When keys raise alerts. Times are ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RuleKind {
    Threshold { at_least: f64 },
    Absence { after: i64 },
    NewValue { learn: i64 },
}

impl RuleKind {
    /// Whether what is remembered for another kind is of use for this one.
    pub(super) fn continues(self, before: Self, has_same_windows: bool) -> bool {
        match (self, before) {
            (Self::Threshold { .. }, Self::Threshold { .. }) => has_same_windows,
            (Self::Absence { .. }, Self::Absence { .. }) | (Self::NewValue { .. }, Self::NewValue { .. }) => true,
            _ => false,
        }
    }
}

/// Returns the aggregate of a rule; `None`: it is none over several events.
pub(crate) fn aggregate_of(rule: &DetectionRule) -> Option<(String, AggregateDefinition)> {
    let window = rule.window.as_ref()?;
    let ms = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    let mut metrics = BTreeMap::new();
    let (every, kind) = match &window.kind {
        WindowKind::Threshold {
            window_ms,
            of,
            at_least,
        } => {
            match of {
                Measure::Count => {}
                Measure::Distinct(field) => {
                    metrics.insert(VALUE.to_owned(), MetricDefinition::Cardinality(field.clone()));
                }
                Measure::Sum(field) => drop(metrics.insert(VALUE.to_owned(), MetricDefinition::Sum(field.clone()))),
            }
            (ms(*window_ms), RuleKind::Threshold { at_least: *at_least })
        }
        WindowKind::Absence { after_ms } => {
            let after = ms(*after_ms);
            (after / ABSENCE_PARTS, RuleKind::Absence { after })
        }
        WindowKind::NewValue { learn_ms } => (NEW_VALUE_MS, RuleKind::NewValue { learn: ms(*learn_ms) }),
    };
    let definition = AggregateDefinition {
        index: String::new(),
        every: format!("{}ms", every.max(HOP_MS_MIN)),
        by: std::iter::once(TENANT_FIELD.to_owned())
            .chain(rule.group_by.clone())
            .collect(),
        metrics,
        lateness: format!("{}ms", window.lateness_ms),
        max_keys: window.max_keys,
        rule: Some(Box::new(RuleWindow {
            id: rule.rule.id.clone(),
            body: window.body.clone(),
            kind,
        })),
    };
    Some((format!("{NAME_PREFIX}{}", rule.rule.id), definition))
}

/// Returns the distance between the starts of the windows of an aggregate, ms.
pub(crate) fn hop_ms(definition: &AggregateDefinition) -> i64 {
    let every = definition.window_ms();
    match definition.rule.as_ref().map(|rule| rule.kind) {
        // The windows must end where others start.
        Some(RuleKind::Threshold { .. }) if every % OVERLAPS == 0 && every / OVERLAPS >= HOP_MS_MIN => every / OVERLAPS,
        _ => every,
    }
}

/// Alert of a key, before it is known what the rule says for readers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WindowAlert {
    pub(crate) definition: Arc<AggregateDefinition>,
    pub(crate) start_ms: i64,
    pub(crate) end_ms: i64,
    /// Values of the key as a JSON array.
    pub(crate) key: Box<str>,
    pub(crate) events: u64,
    pub(crate) value: Option<Value>,
}

/// What is remembered of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeyState {
    /// Start of the last window that raised an alert.
    Alerted(i64),
    /// End of the last window with an event.
    Seen(i64),
    /// The same of a key whose absence raised an alert.
    Absent(i64),
}

/// State of the keys of a rule.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RuleState {
    keys: BTreeMap<Box<str>, KeyState>,
    /// Start of the first window.
    began: Option<i64>,
}

impl RuleState {
    pub(crate) fn new(began: Option<i64>) -> Self {
        Self {
            keys: BTreeMap::new(),
            began,
        }
    }

    pub(crate) fn began(&self) -> Option<i64> {
        self.began
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = (&Box<str>, &KeyState)> {
        self.keys.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn set(&mut self, key: Box<str>, state: KeyState) {
        self.keys.insert(key, state);
    }

    /// Returns whether a row of a window reaches the threshold, and no window that overlaps it has done so.
    pub(crate) fn reaches(&mut self, at_least: f64, key: &str, start_ms: i64, every_ms: i64, row: &Row) -> bool {
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
            Some(KeyState::Seen(_) | KeyState::Absent(_)) | None => {
                self.keys.insert(key.into(), KeyState::Alerted(start_ms));
                true
            }
        }
    }

    /// Notes an event of a key in a window; returns whether the key is new, and whether there is no place for it.
    pub(crate) fn see(&mut self, key: &str, (start_ms, end_ms): (i64, i64), max_keys: usize) -> (bool, bool) {
        self.began.get_or_insert(start_ms);
        let is_full = self.keys.len() >= max_keys;
        match self.keys.get_mut(key) {
            Some(KeyState::Seen(last) | KeyState::Alerted(last)) => {
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
            None if is_full => (false, true),
            None => {
                self.keys.insert(key.into(), KeyState::Seen(end_ms));
                (true, false)
            }
        }
    }

    /// Whether the time of learning is over for a window.
    pub(crate) fn has_learned(&self, learn_ms: i64, start_ms: i64) -> bool {
        self.began
            .is_some_and(|began| start_ms >= began.saturating_add(learn_ms))
    }

    /// Whether a key is absent that was not before.
    pub(crate) fn has_absent(&self, after_ms: i64, watermark: i64) -> bool {
        self.keys.values().any(|state| is_absent(*state, after_ms, watermark))
    }

    /// Returns the keys that are absent and were not before, with the end of the last window that had an event.
    pub(crate) fn take_absent(&mut self, after_ms: i64, watermark: i64) -> Vec<(Box<str>, i64)> {
        let mut absent = Vec::new();
        for (key, state) in &mut self.keys {
            if let (true, KeyState::Seen(last)) = (is_absent(*state, after_ms, watermark), *state) {
                *state = KeyState::Absent(last);
                absent.push((key.clone(), last));
            }
        }
        absent
    }

    /// Forgets alerts of windows that no later window overlaps.
    pub(crate) fn forget_alerted(&mut self, before_ms: i64) {
        self.keys
            .retain(|_, state| !matches!(state, KeyState::Alerted(start) if *start < before_ms));
    }
}

fn is_absent(state: KeyState, after_ms: i64, watermark: i64) -> bool {
    matches!(state, KeyState::Seen(last) if last.saturating_add(after_ms) <= watermark)
}

/// Returns what a threshold is compared with: the metric if there is one, or else the number of events.
fn value_of(row: &Row) -> Option<f64> {
    match row.values().next() {
        None => Some(row.events as f64),
        Some(value) => value.and_then(|value| value.as_f64()),
    }
}
