//! Rules over several events: thresholds in a window of time, absence, and values that were never there before.

use firn_model::dates::parse_duration_ms;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::definition::check_field;

/// Shortest and longest window of a threshold, and shortest and longest absence.
const WINDOW_MS_MIN: u64 = 1_000;
const WINDOW_MS_MAX: u64 = 86_400_000;
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

/// Members of definitions of rules over several events.
#[derive(Debug, Clone, Default)]
pub(crate) struct WindowBody {
    pub(crate) window: Option<String>,
    pub(crate) threshold: Option<ThresholdBody>,
    pub(crate) after: Option<String>,
    pub(crate) learn_for: Option<String>,
    pub(crate) lateness: Option<String>,
    pub(crate) max_keys: Option<usize>,
}

/// Type of a rule over several events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowType {
    Threshold,
    Absence,
    NewValue,
}

impl WindowBody {
    /// Returns the first of its members that a definition has.
    pub(crate) fn first_member(&self) -> Option<&'static str> {
        [
            ("window", self.window.is_some()),
            ("threshold", self.threshold.is_some()),
            ("after", self.after.is_some()),
            ("learn_for", self.learn_for.is_some()),
            ("lateness", self.lateness.is_some()),
            ("max_keys", self.max_keys.is_some()),
        ]
        .into_iter()
        .find_map(|(name, is_there)| is_there.then_some(name))
    }

    /// Reads the members of a type; those of other types are refused.
    pub(crate) fn read(
        &self,
        kind: WindowType,
        has_keys: bool,
        body: &Map<String, Value>,
    ) -> Result<WindowRule, String> {
        let own: &[&str] = match kind {
            WindowType::Threshold => &["window", "threshold", "lateness"],
            WindowType::Absence => &["after"],
            WindowType::NewValue => &["learn_for"],
        };
        for (name, is_there) in [
            ("window", self.window.is_some()),
            ("threshold", self.threshold.is_some()),
            ("after", self.after.is_some()),
            ("learn_for", self.learn_for.is_some()),
            ("lateness", self.lateness.is_some()),
        ] {
            if is_there && !own.contains(&name) {
                return Err(format!("[{name}] does not belong to this type of rule"));
            }
        }
        if !has_keys && kind != WindowType::Threshold {
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
        };
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
