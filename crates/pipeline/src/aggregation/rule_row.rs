//! Rows of rules: what the events of a batch add to the keys of rules over several events.

use firn_detect::STEPS_MAX;

use super::definition::AggregateDefinition;
use super::rule_windows::RuleKind;

/// Rows of all rules of one delta. Rules share the keys, and a row is of all rules that have the same.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RuleRows {
    /// Values of each key as a JSON array.
    pub(crate) keys: Vec<Box<str>>,
    /// Names of the aggregates of the rules.
    pub(crate) rules: Vec<String>,
    /// Sets of rules that have rows in common: their places, ascending.
    pub(crate) sets: Vec<Vec<u32>>,
    /// Rows, of each rule in the order in which the events came.
    pub(crate) rows: Vec<RuleRow>,
}

/// Events of a key of some rules in one window of their aggregates; of sequences, one event.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct RuleRow {
    /// Place of the set of rules.
    pub(crate) set: u32,
    /// Start of the window, ms since the epoch.
    pub(crate) start_ms: i64,
    /// Place of the key.
    pub(crate) key: u32,
    /// Number of events.
    pub(crate) events: u64,
    /// Sum of the field that is summed.
    pub(crate) sum: f64,
    /// Hashes of the different values that are counted, sorted.
    pub(crate) hashes: Vec<u64>,
    /// Of a sequence, bits of the steps that the event is of.
    pub(crate) steps: u16,
}

const _: () = assert!(STEPS_MAX <= u16::BITS as usize);

impl RuleRows {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

/// Returns the kind of the rule of an aggregate, if it is one's.
pub(super) fn kind_of(definition: &AggregateDefinition) -> Option<RuleKind> {
    definition.rule.as_ref().map(|rule| rule.kind)
}
