//! Steps of rules over several events: conditions of which an event may meet several.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::definition::condition;
use crate::expression::Expression;
use crate::log_sources::LogSource;
use crate::query::Language;
use crate::rule::{Rule, Severity};

/// Fewest steps of a sequence.
pub(crate) const STEPS_MIN: usize = 2;
/// Most steps of a rule.
pub const STEPS_MAX: usize = 10;
/// Longest name of a step, bytes.
const NAME_BYTES_MAX: usize = 256;

/// Condition of a rule over several events.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Name for readers; different for each step of a rule.
    pub name: String,
    /// What an event of the step meets. Its id is that of no stored rule.
    pub rule: Arc<Rule>,
    /// Fields of the record whose values are the key, in the order of the rule's `group_by`; empty: the key is read from the event.
    pub record_keys: Vec<String>,
    /// Field of the record whose values are counted.
    pub record_value: Option<String>,
}

/// A member of `steps` in a definition.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepBody {
    query: Value,
    #[serde(default)]
    language: Language,
    #[serde(default)]
    name: Option<String>,
}

/// Reads the steps of a sequence.
pub(crate) fn read(id: &str, bodies: &[StepBody]) -> Result<Vec<Step>, String> {
    if !(STEPS_MIN..=STEPS_MAX).contains(&bodies.len()) {
        return Err(format!(
            "[steps] has {STEPS_MIN} to {STEPS_MAX} members, not [{}]",
            bodies.len()
        ));
    }
    let mut steps: Vec<Step> = Vec::with_capacity(bodies.len());
    for (number, body) in (1..).zip(bodies) {
        let name = body.name.clone().unwrap_or_else(|| format!("step {number}"));
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(format!("[steps.name] has 1 to {NAME_BYTES_MAX} bytes"));
        }
        if steps.iter().any(|step| step.name == name) {
            return Err(format!("[steps] has the name [{name}] twice"));
        }
        let condition = condition(&body.query, body.language).map_err(|reason| format!("step [{name}]: {reason}"))?;
        steps.push(Step {
            rule: Arc::new(rule(step_id(id, steps.len()), condition)),
            name,
            record_keys: Vec::new(),
            record_value: None,
        });
    }
    Ok(steps)
}

/// Returns the id under which the condition of a step is compiled. Ids of stored rules are printable.
pub(crate) fn step_id(rule: &str, number: usize) -> String {
    format!("{rule}\u{1f}{number}")
}

/// Returns the condition of a rule with these steps: an event meets one of them.
pub(crate) fn any_of(steps: &[Step]) -> Expression {
    Expression::Or(steps.iter().map(|step| step.rule.condition.clone()).collect())
}

/// Returns a rule of which only the condition is known.
pub(crate) fn rule(id: String, condition: Expression) -> Rule {
    Rule {
        id,
        title: String::new(),
        description: String::new(),
        severity: Severity::default(),
        tags: Vec::new(),
        references: Vec::new(),
        false_positives: Vec::new(),
        author: None,
        log_source: LogSource::default(),
        condition,
    }
}
