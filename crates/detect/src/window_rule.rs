//! Rules over several events: thresholds in a window of time, sequences, changes of a rate, absence, and values that were never there
//! before.

use firn_model::dates::parse_duration_ms;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::definition::check_field;

/// Shortest and longest window of a threshold or a rate, longest time of a sequence, and shortest and longest absence.
pub(crate) const WINDOW_MS_MIN: u64 = 1_000;
pub(crate) const WINDOW_MS_MAX: u64 = 86_400_000;
pub(crate) const WITHIN_MS_MAX: u64 = 7 * 86_400_000;
const ABSENCE_MS_MIN: u64 = 10_000;
const ABSENCE_MS_MAX: u64 = 30 * 86_400_000;
/// Longest time of learning.
const LEARN_MS_MAX: u64 = 365 * 86_400_000;
/// Longest lateness.
const LATENESS_MS_MAX: u64 = 86_400_000;
const LATENESS_MS: u64 = 10_000;
/// Most keys of a rule, and those unless its definition says otherwise.
const KEYS_MAX: usize = 1_000_000;
const KEYS: usize = 100_000;
/// Most windows of a baseline, and those unless the definition says otherwise.
const BASELINE_WINDOWS_MAX: u32 = 1_000;
const BASELINE_WINDOWS: u32 = 12;
/// Events that a change is judged by unless the definition says otherwise.
const MIN_EVENTS: u64 = 20;

/// What a rule counts in the events that match its query.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowRule {
    /// When it raises an alert.
    pub kind: WindowKind,
    /// How late an event may be to count in its window, ms.
    pub lateness_ms: u64,
    /// Most keys whose state is kept.
    pub max_keys: usize,
    /// Definition of the rule.
    pub body: Map<String, Value>,
}

/// When a rule over several events raises an alert.
#[derive(Debug, Clone, PartialEq)]
pub enum WindowKind {
    /// The events of a key in a window reach a value.
    Threshold {
        /// Length of the window, ms.
        window_ms: u64,
        /// What is computed.
        of: Measure,
        /// The value.
        at_least: f64,
    },
    /// A key that was there has no event for this long, ms.
    Absence {
        /// Time without events, ms.
        after_ms: u64,
    },
    /// A key that was never there has an event.
    NewValue {
        /// Time from the first event of the rule in which keys are learned without alerts, ms.
        learn_ms: u64,
    },
    /// A key has events of all steps of the rule within a time.
    Sequence {
        /// Longest time from the first to the last event, ms.
        within_ms: u64,
        /// Whether the times of the events are in the order of the steps; events of the same time are.
        is_ordered: bool,
    },
    /// The number of events of a key in a window is far from the mean of the windows before it.
    RateOfChange {
        /// Length of the windows, ms.
        window_ms: u64,
        /// What is far.
        change: RateChange,
    },
}

/// When the number of events of a window is far from the mean of those before it, the baseline. One of the first two is there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateChange {
    /// A rise: at least this times the mean, and at least `min_events` events.
    pub rise_factor: Option<f64>,
    /// A drop: less than the mean by at least this percentage of it, where the mean is at least `min_events`.
    pub drop_percent: Option<f64>,
    /// Number of windows of the baseline. A key is judged once it has been known for as many.
    pub baseline_windows: u32,
    /// Fewer events are no change.
    pub min_events: u64,
}

/// What a threshold is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Measure {
    /// Number of events.
    Count,
    /// Number of different values of a field.
    Distinct(String),
    /// Sum of the numbers of a field.
    Sum(String),
}

/// `threshold` of a definition.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThresholdBody {
    #[serde(default)]
    count: Option<u64>,
    #[serde(default)]
    distinct: Option<String>,
    #[serde(default)]
    sum: Option<String>,
    #[serde(default)]
    at_least: Option<f64>,
}

/// `change` of a definition.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeBody {
    #[serde(default)]
    rise_factor: Option<f64>,
    #[serde(default)]
    drop_percent: Option<f64>,
    #[serde(default)]
    baseline_windows: Option<u32>,
    #[serde(default)]
    min_events: Option<u64>,
}

/// Members of definitions of rules over several events.
#[derive(Debug, Clone, Default)]
pub(crate) struct WindowBody {
    pub(crate) window: Option<String>,
    pub(crate) threshold: Option<ThresholdBody>,
    pub(crate) after: Option<String>,
    pub(crate) learn_for: Option<String>,
    pub(crate) within: Option<String>,
    pub(crate) ordered: Option<bool>,
    pub(crate) has_steps: bool,
    pub(crate) change: Option<ChangeBody>,
    pub(crate) lateness: Option<String>,
    pub(crate) max_keys: Option<usize>,
}

/// Type of a rule over several events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowType {
    Threshold,
    Absence,
    NewValue,
    Sequence,
    RateOfChange,
}

impl WindowBody {
    /// Returns its members, and whether a definition has them.
    fn members(&self) -> [(&'static str, bool); 10] {
        [
            ("window", self.window.is_some()),
            ("threshold", self.threshold.is_some()),
            ("after", self.after.is_some()),
            ("learn_for", self.learn_for.is_some()),
            ("within", self.within.is_some()),
            ("ordered", self.ordered.is_some()),
            ("steps", self.has_steps),
            ("change", self.change.is_some()),
            ("lateness", self.lateness.is_some()),
            ("max_keys", self.max_keys.is_some()),
        ]
    }

    /// Refuses members beyond these.
    pub(crate) fn check_members(&self, own: &[&str]) -> Result<(), String> {
        let mut members = self.members().into_iter();
        match members.find(|(name, is_there)| *is_there && !own.contains(name)) {
            None => Ok(()),
            Some((name, _)) => Err(format!("[{name}] does not belong to this type of rule")),
        }
    }

    /// Returns the rule of a kind that another text describes, such as a correlation.
    pub(crate) fn of_kind(&self, kind: WindowKind, body: &Map<String, Value>) -> Result<WindowRule, String> {
        self.check_members(&["lateness", "max_keys"])?;
        self.finish(kind, body)
    }

    /// Reads the members of a type; those of other types are refused.
    pub(crate) fn read(
        &self,
        kind: WindowType,
        has_keys: bool,
        body: &Map<String, Value>,
    ) -> Result<WindowRule, String> {
        let own: &[&str] = match kind {
            WindowType::Threshold => &["window", "threshold", "lateness", "max_keys"],
            WindowType::Absence => &["after", "max_keys"],
            WindowType::NewValue => &["learn_for", "max_keys"],
            WindowType::Sequence => &["within", "ordered", "steps", "lateness", "max_keys"],
            WindowType::RateOfChange => &["window", "change", "lateness", "max_keys"],
        };
        self.check_members(own)?;
        if !has_keys && matches!(kind, WindowType::Absence | WindowType::NewValue) {
            return Err("this type of rule needs [group_by]".to_owned());
        }
        let kind = match kind {
            WindowType::Threshold => {
                let window = self.window.as_deref().ok_or("a threshold needs [window]")?;
                let threshold = self.threshold.as_ref().ok_or("a threshold needs [threshold]")?;
                let (of, at_least) = threshold.read()?;
                WindowKind::Threshold {
                    window_ms: duration("window", window, WINDOW_MS_MIN, WINDOW_MS_MAX)?,
                    of,
                    at_least,
                }
            }
            WindowType::Absence => {
                let after = self.after.as_deref().ok_or("an absence needs [after]")?;
                WindowKind::Absence {
                    after_ms: duration("after", after, ABSENCE_MS_MIN, ABSENCE_MS_MAX)?,
                }
            }
            WindowType::NewValue => {
                let learn_for = self.learn_for.as_deref().unwrap_or("7d");
                WindowKind::NewValue {
                    learn_ms: duration("learn_for", learn_for, 0, LEARN_MS_MAX)?,
                }
            }
            WindowType::Sequence => {
                let within = self.within.as_deref().ok_or("a sequence needs [within]")?;
                WindowKind::Sequence {
                    within_ms: duration("within", within, WINDOW_MS_MIN, WITHIN_MS_MAX)?,
                    is_ordered: self.ordered.unwrap_or(true),
                }
            }
            WindowType::RateOfChange => {
                let window = self.window.as_deref().ok_or("a rate of change needs [window]")?;
                let change = self.change.as_ref().ok_or("a rate of change needs [change]")?;
                WindowKind::RateOfChange {
                    window_ms: duration("window", window, WINDOW_MS_MIN, WINDOW_MS_MAX)?,
                    change: change.read()?,
                }
            }
        };
        self.finish(kind, body)
    }

    /// Reads the members of all types.
    fn finish(&self, kind: WindowKind, body: &Map<String, Value>) -> Result<WindowRule, String> {
        let max_keys = self.max_keys.unwrap_or(KEYS);
        if max_keys == 0 || max_keys > KEYS_MAX {
            return Err(format!("[max_keys] is 1 to {KEYS_MAX}"));
        }
        let lateness = self.lateness.as_deref();
        Ok(WindowRule {
            kind,
            lateness_ms: lateness.map_or(Ok(LATENESS_MS), |text| duration("lateness", text, 0, LATENESS_MS_MAX))?,
            max_keys,
            body: body.clone(),
        })
    }
}

impl ThresholdBody {
    fn read(&self) -> Result<(Measure, f64), String> {
        let (of, at_least) = match (self.count, &self.distinct, &self.sum, self.at_least) {
            (Some(count), None, None, None) => (Measure::Count, count as f64),
            (None, Some(field), None, Some(at_least)) => (Measure::Distinct(field.clone()), at_least),
            (None, None, Some(field), Some(at_least)) => (Measure::Sum(field.clone()), at_least),
            _ => {
                return Err(
                    "[threshold] is {\"count\": N}, {\"distinct\": FIELD, \"at_least\": N} or {\"sum\": FIELD, \"at_least\": N}"
                        .to_owned(),
                );
            }
        };
        if let Measure::Distinct(field) | Measure::Sum(field) = &of {
            let member = if matches!(of, Measure::Sum(_)) {
                "sum"
            } else {
                "distinct"
            };
            check_field(member, field)?;
        }
        match at_least > 0.0 {
            true => Ok((of, at_least)),
            false => Err("[threshold] is more than 0".to_owned()),
        }
    }
}

impl ChangeBody {
    fn read(&self) -> Result<RateChange, String> {
        if self.rise_factor.is_none() && self.drop_percent.is_none() {
            return Err("[change] needs [rise_factor] or [drop_percent]".to_owned());
        }
        if let Some(factor) = self.rise_factor
            && !(factor > 1.0 && factor <= 1e6)
        {
            return Err(format!(
                "[change.rise_factor] is more than 1 and at most 1000000, not [{factor}]"
            ));
        }
        if let Some(percent) = self.drop_percent
            && !(percent > 0.0 && percent <= 100.0)
        {
            return Err(format!(
                "[change.drop_percent] is more than 0 and at most 100, not [{percent}]"
            ));
        }
        let baseline_windows = self.baseline_windows.unwrap_or(BASELINE_WINDOWS);
        if !(1..=BASELINE_WINDOWS_MAX).contains(&baseline_windows) {
            return Err(format!(
                "[change.baseline_windows] is 1 to {BASELINE_WINDOWS_MAX}, not [{baseline_windows}]"
            ));
        }
        let min_events = self.min_events.unwrap_or(MIN_EVENTS);
        if min_events == 0 {
            return Err("[change.min_events] is at least 1: a key without events has no rate".to_owned());
        }
        Ok(RateChange {
            rise_factor: self.rise_factor,
            drop_percent: self.drop_percent,
            baseline_windows,
            min_events,
        })
    }
}

fn duration(name: &str, text: &str, least: u64, most: u64) -> Result<u64, String> {
    let ms = parse_duration_ms(text).map_err(|error| format!("[{name}]: {}", error.reason()))?;
    match (least..=most).contains(&ms) {
        true => Ok(ms),
        false => Err(format!(
            "[{name}] is {}s to {}d, not [{text}]",
            least / 1000,
            most / 86_400_000
        )),
    }
}
