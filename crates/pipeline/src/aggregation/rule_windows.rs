//! Rules over several events as aggregates whose events are alerts.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_detect::{DetectionRule, Measure, WindowKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::definition::{AggregateDefinition, MetricDefinition};

/// Start of the names of the aggregates of rules; the id of the rule follows.
const NAME_PREFIX: &str = "#rule ";
/// Panes of the window of a threshold: how exactly it is known when an event came.
const PANES: i64 = 60;
/// Values of a threshold that are counted exactly; of more, a sample of as many is.
const VALUES_EXACT: f64 = 512.0;
/// Parts of the time of an absence: how exactly it is known when an event came.
const ABSENCE_PARTS: i64 = 10;
/// Shortest such part, and the resolution of new values, ms.
const ABSENCE_PART_MS_MIN: i64 = 1_000;
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
    /// Names of its steps; none: it has one condition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) steps: Vec<String>,
    /// Fields of the record that a step reads; none: the rule reads the event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) record: Vec<RecordFields>,
}

/// Fields of the record that a step of a rule reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordFields {
    /// Those of the key, after the tenant.
    pub(crate) keys: Vec<String>,
    /// The one whose values are counted.
    pub(crate) value: Option<String>,
}

/// When keys raise alerts. Times are ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RuleKind {
    /// Threshold as earlier builds counted it, in windows that overlap by quarters. Their journals are read to the end; then
    /// [`RuleKind::Sliding`] takes its place.
    #[serde(rename = "threshold")]
    Quarters {
        at_least: f64,
    },
    Sliding {
        window: i64,
        at_least: f64,
        /// Of the hashes of values, one in `1 << sample_bits` is counted.
        sample_bits: u32,
    },
    Absence {
        after: i64,
    },
    NewValue {
        learn: i64,
    },
    Sequence {
        within: i64,
        is_ordered: bool,
    },
    Change {
        rise_factor: Option<f64>,
        drop_percent: Option<f64>,
        baseline_windows: u32,
        min_events: u64,
    },
}

impl RuleKind {
    /// Whether what is remembered for another kind is of use for this one.
    fn continues(self, before: Self, has_same_windows: bool) -> bool {
        match (self, before) {
            (
                Self::Sliding {
                    window, sample_bits, ..
                },
                Self::Sliding {
                    window: window_before,
                    sample_bits: sample_bits_before,
                    ..
                },
            ) => has_same_windows && window == window_before && sample_bits == sample_bits_before,
            (Self::Absence { .. }, Self::Absence { .. }) | (Self::NewValue { .. }, Self::NewValue { .. }) => true,
            (
                Self::Sequence { within, is_ordered },
                Self::Sequence {
                    within: within_before,
                    is_ordered: is_ordered_before,
                },
            ) => within == within_before && is_ordered == is_ordered_before,
            (Self::Change { .. }, Self::Change { .. }) => has_same_windows,
            _ => false,
        }
    }
}

impl RuleWindow {
    /// Whether what is remembered for this rule as it was before is of use for it.
    pub(super) fn continues(&self, before: &Self, has_same_windows: bool) -> bool {
        let is_same = self.id == before.id && self.steps == before.steps && self.record == before.record;
        is_same && self.kind.continues(before.kind, has_same_windows)
    }
}

/// Returns the aggregate of a rule; `None`: it is none over several events.
pub(crate) fn aggregate_of(rule: &DetectionRule) -> Option<(String, AggregateDefinition)> {
    let window = rule.window.as_ref()?;
    let mut metrics = BTreeMap::new();
    let (every, kind) = match &window.kind {
        WindowKind::Threshold {
            window_ms,
            of,
            at_least,
        } => {
            let mut sample_bits = 0;
            match of {
                Measure::Count => {}
                Measure::Distinct(field) => {
                    metrics.insert(VALUE.to_owned(), MetricDefinition::Cardinality(field.clone()));
                    while sample_bits < 62 && at_least / (1_u64 << sample_bits) as f64 > VALUES_EXACT {
                        sample_bits += 1;
                    }
                }
                Measure::Sum(field) => drop(metrics.insert(VALUE.to_owned(), MetricDefinition::Sum(field.clone()))),
            }
            let window = ms(*window_ms);
            let kind = RuleKind::Sliding {
                window,
                at_least: *at_least,
                sample_bits,
            };
            (pane_ms(window), kind)
        }
        WindowKind::Absence { after_ms } => {
            let after = ms(*after_ms);
            (
                (after / ABSENCE_PARTS).max(ABSENCE_PART_MS_MIN),
                RuleKind::Absence { after },
            )
        }
        WindowKind::NewValue { learn_ms } => (NEW_VALUE_MS, RuleKind::NewValue { learn: ms(*learn_ms) }),
        WindowKind::Sequence { within_ms, is_ordered } => {
            let kind = RuleKind::Sequence {
                within: ms(*within_ms),
                is_ordered: *is_ordered,
            };
            (1, kind)
        }
        WindowKind::RateOfChange { window_ms, change } => {
            let kind = RuleKind::Change {
                rise_factor: change.rise_factor,
                drop_percent: change.drop_percent,
                baseline_windows: change.baseline_windows,
                min_events: change.min_events,
            };
            (ms(*window_ms), kind)
        }
    };
    let record = rule.steps.iter().filter(|_| rule.input == firn_detect::Input::Record);
    let record = record.map(|step| RecordFields {
        keys: step.record_keys.clone(),
        value: step.record_value.clone(),
    });
    let definition = AggregateDefinition {
        index: String::new(),
        every: format!("{every}ms"),
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
            steps: rule.steps.iter().map(|step| step.name.clone()).collect(),
            record: record.collect(),
        })),
    };
    Some((format!("{NAME_PREFIX}{}", rule.rule.id), definition))
}

fn ms(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// Returns the length of the panes of a window: windows of whole panes that cover it are longer by one in sixty at most.
fn pane_ms(window: i64) -> i64 {
    match window % PANES {
        0 => window / PANES,
        _ => (window / (2 * PANES)).max(1),
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
    /// Time of each step, ms since the epoch.
    pub(crate) steps: Vec<i64>,
    /// Mean number of events of the windows before.
    pub(crate) baseline: Option<f64>,
}
