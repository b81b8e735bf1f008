//! State of the pipelines of a node, for operators.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use firn_engine::origin::SourcePosition;

use super::counters::Counters;
use super::detection::Rules;
use super::rule_costs::RuleCost;
use super::windows::{WindowService, WindowStatus};
use crate::tables::TableStatus;

/// State of one pipeline.
#[derive(Debug, Clone, Default)]
pub struct PipelineStatus {
    /// Whether its source runs now.
    pub running: bool,
    /// Why its source does not run, or why its last write was refused; the write is tried again.
    pub error: Option<String>,
    /// Events since the start of the node, of all partitions; `read = indexed + filtered + dead_lettered + in_flight`.
    pub events: EventCounts,
    /// Counters that only the source knows.
    pub source: BTreeMap<&'static str, u64>,
    /// Why a part of the source (a file) cannot be read now, while the others are.
    pub source_last_error: Option<String>,
    /// Processor time of parsing and mapping, nanoseconds.
    pub map_nanos: u64,
    /// Time of writes from the request to the answer, nanoseconds.
    pub write_nanos: u64,
    /// Writes that were tried again.
    pub retries: u64,
    /// Windows of the aggregates; `None`: it has none.
    pub windows: Option<WindowStatus>,
    /// Detection rules; `None`: there are none.
    pub rules: Option<RulesStatus>,
    /// Enrichment tables.
    pub tables: Vec<TableStatus>,
    /// Durable record of each partition; empty if the source has none.
    pub partitions: Vec<SourcePosition>,
}

/// Detection rules of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RulesStatus {
    /// Rules that are evaluated.
    pub evaluated: usize,
    /// Ids of the Sigma rules that are for other events than those of the pipeline, sorted.
    pub unmapped: Vec<String>,
    /// Alerts that were stored since the start of the node.
    pub alerts: u64,
}

/// Where a detection rule is evaluated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleCoverage {
    /// Ids of the running pipelines that evaluate it.
    pub evaluated_by: Vec<String>,
    /// Ids of those whose pack has no log source for it.
    pub unmapped_in: Vec<String>,
    /// Ids of those that leave it out because of the budget.
    pub throttled_in: Vec<String>,
    /// Its costs by the ids of the pipelines.
    pub costs: BTreeMap<String, RuleCost>,
}

impl RulesStatus {
    pub(super) fn new(rules: &Rules, counters: &Counters, windows: Option<&WindowService>) -> Self {
        let mut unmapped: Vec<String> = rules.unmapped.iter().map(|rule| rule.id.clone()).collect();
        unmapped.sort_unstable();
        Self {
            evaluated: rules.count(),
            unmapped,
            alerts: counters.alerts.load(Ordering::Relaxed) + windows.map_or(0, WindowService::alerts),
        }
    }
}

/// Counts of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Taken from the source.
    pub read: u64,
    /// Bytes of the events taken.
    pub read_bytes: u64,
    /// Stored in their index.
    pub indexed: u64,
    /// Dropped on purpose.
    pub filtered: u64,
    /// Stored as dead letters.
    pub dead_lettered: u64,
    /// Handed back to a source that does not try again.
    pub refused: u64,
    /// Being processed.
    pub in_flight: u64,
}

/// What the steps of a pipeline make of one record.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedRecord {
    /// Index that the event would go to.
    pub index: String,
    /// The document; of a dead letter if `error` is set.
    pub document: serde_json::Value,
    /// Why the record goes to the dead letters.
    pub error: Option<String>,
}
