//! Definition of an aggregate: a member of `aggregates` in the definition of a pipeline.

use std::collections::BTreeMap;

use firn_model::dates::parse_duration_setting_ms;
use firn_model::names::validate_index_name;
use serde::{Deserialize, Serialize};

use super::rule_windows::RuleWindow;

/// Most fields of the key, and most metrics.
const FIELDS_MAX: usize = 32;
/// Longest window, ms.
const EVERY_MS_MAX: u64 = 86_400_000;
/// Most keys of all open windows of an aggregate.
const KEYS_MAX: usize = 1_000_000;

/// Aggregate of a pipeline. Unknown members are refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AggregateDefinition {
    /// Data stream or index of its events.
    pub index: String,
    /// Length of the windows, which start at multiples of it since the epoch.
    pub every: String,
    /// Fields whose values are the key of an event; none: one event for each window.
    #[serde(default)]
    pub by: Vec<String>,
    /// Metrics by the field that they are stored in.
    #[serde(default)]
    pub metrics: BTreeMap<String, MetricDefinition>,
    /// Time for which a window stays open after its end, for events that come late.
    #[serde(default = "ten_seconds")]
    pub lateness: String,
    /// Maximum keys of all open windows; events of further keys are counted together, in one event of each window.
    #[serde(default = "hundred_thousand")]
    pub max_keys: usize,
    /// The rule whose windows these are; in the definition of a pipeline there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<Box<RuleWindow>>,
}

/// What is computed of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricDefinition {
    /// Sum of its numbers.
    Sum(String),
    /// Least of its numbers.
    Min(String),
    /// Greatest of its numbers.
    Max(String),
    /// Number of its different values; an estimate from some hundreds on.
    Cardinality(String),
}

impl MetricDefinition {
    /// Returns the field that is read.
    pub fn field(&self) -> &str {
        match self {
            Self::Sum(field) | Self::Min(field) | Self::Max(field) | Self::Cardinality(field) => field,
        }
    }
}

fn ten_seconds() -> String {
    "10s".to_owned()
}

fn hundred_thousand() -> usize {
    100_000
}

impl AggregateDefinition {
    /// Returns why the aggregate cannot be used.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.rule.is_some() {
            return Err("[rule] cannot be set".to_owned());
        }
        validate_index_name(&self.index).map_err(|error| {
            let reason = error.reason();
            format!("[index] must name one index or data stream: {reason}")
        })?;
        let every = self.every_ms()?;
        if !(1_000..=EVERY_MS_MAX).contains(&every) {
            return Err(format!("[every] must be 1s to 1d, and is [{}]", self.every));
        }
        if self.lateness_ms()? > EVERY_MS_MAX {
            return Err(format!("[lateness] must be at most 1d, and is [{}]", self.lateness));
        }
        if self.by.len() > FIELDS_MAX || self.metrics.len() > FIELDS_MAX {
            return Err(format!("[by] and [metrics] have at most {FIELDS_MAX} members each"));
        }
        if !(1..=KEYS_MAX).contains(&self.max_keys) {
            return Err(format!("[max_keys] must be 1 to {KEYS_MAX}"));
        }
        let written: Vec<&String> = self.by.iter().chain(self.metrics.keys()).collect();
        for (place, field) in written.iter().enumerate() {
            let segments = || field.split('.');
            if segments().any(str::is_empty) || segments().next() == Some("firn") || *field == "@timestamp" {
                return Err(format!("[{field}] cannot be a field of an aggregate's events"));
            }
            for other in written.iter().skip(place + 1) {
                if field == other || is_inside(field, other) || is_inside(other, field) {
                    return Err(format!("[{field}] and [{other}] cannot both be fields of an event"));
                }
            }
        }
        if self.metrics.values().any(|metric| metric.field().is_empty()) {
            return Err("a metric has no field".to_owned());
        }
        Ok(())
    }

    /// Whether windows of `before` can go on with this definition. Those of a rule do unless it counts otherwise: another severity or query
    /// must not make it forget what it knows.
    pub(crate) fn continues(&self, before: &Self) -> bool {
        match (&self.rule, &before.rule) {
            (Some(rule), Some(rule_before)) => {
                let is_same = self.by == before.by && self.metrics == before.metrics;
                is_same && rule.continues(rule_before, self.every == before.every)
            }
            _ => self == before,
        }
    }

    /// Returns the length of the windows, ms. A definition whose times cannot be read is refused before.
    pub(crate) fn window_ms(&self) -> i64 {
        self.every_ms()
            .ok()
            .and_then(|ms| i64::try_from(ms).ok())
            .unwrap_or(i64::MAX)
            .max(1)
    }

    /// Returns the length of the windows, ms.
    fn every_ms(&self) -> Result<u64, String> {
        parse_duration_setting_ms("every", &self.every).map_err(|error| error.reason().to_owned())
    }

    /// Returns how long a window stays open after its end, ms.
    pub(crate) fn lateness_ms(&self) -> Result<u64, String> {
        parse_duration_setting_ms("lateness", &self.lateness).map_err(|error| error.reason().to_owned())
    }
}

fn is_inside(field: &str, other: &str) -> bool {
    field.strip_prefix(other).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(body: Value) -> Result<(), String> {
        let definition: AggregateDefinition = serde_json::from_value(body).map_err(|error| error.to_string())?;
        definition.check()
    }

    #[test]
    fn refusals_name_what_is_wrong() {
        let with = |member: &str, value: Value| {
            let mut body = json!({"index": "traffic", "every": "1m", "by": ["source.ip"],
                "metrics": {"network.bytes": {"sum": "network.bytes"}, "users": {"cardinality": "user.name"}}});
            body[member] = value;
            body
        };
        assert_eq!(check(with("lateness", json!("1m"))), Ok(()));
        for (body, reason) in [
            (with("index", json!("a*")), "[index]"),
            (with("every", json!("10ms")), "[every]"),
            (with("every", json!("2d")), "[every]"),
            (with("every", json!("often")), "every"),
            (with("lateness", json!("2d")), "[lateness]"),
            (with("max_keys", json!(0)), "[max_keys]"),
            (with("by", json!(["source.ip", "source.ip"])), "cannot both"),
            (with("by", json!(["network"])), "cannot both"),
            (with("by", json!(["firn.x"])), "[firn.x]"),
            (with("by", json!(["@timestamp"])), "[@timestamp]"),
            (with("by", json!(["a..b"])), "[a..b]"),
            (with("metrics", json!({"x": {"median": "y"}})), "median"),
            (with("wehn", json!(1)), "wehn"),
        ] {
            let refused = check(body.clone()).unwrap_err();
            assert!(refused.contains(reason), "{body}: {refused}");
        }
    }
}
