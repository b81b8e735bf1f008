//! Test of a rule that reads records on stored events: what it would have found among the newest ones.

use std::collections::BTreeMap;

use firn_engine::RequestContext;
use firn_model::Result;
use firn_model::dates::{DateFormat, Zone};
use firn_query::search::{Hit, IndexTarget};
use serde_json::Value;

use super::ledger::SharedEngine;
use super::stored_events::{MatchedEvent, PAGE, PointInTime, RecordReader};
use super::unevaluated::Unevaluated;
use crate::runner::RecordRule;

const DAY_MS: i64 = 86_400_000;

/// Which events a rule is tested on.
pub struct RecordTest<'a> {
    /// Engine of the events.
    pub engine: &'a SharedEngine,
    /// Who may read the events.
    pub ctx: RequestContext,
    /// Indices of the events.
    pub target: IndexTarget,
    /// The rule.
    pub records: &'a RecordRule,
    /// Query of the events; they have a time.
    pub query: &'a Value,
    /// Most events that are read; the newest ones.
    pub events_max: usize,
    /// Most examples.
    pub examples_max: usize,
}

/// What a rule would have found.
#[derive(Debug, Default)]
pub struct TestReport {
    /// Events that were read.
    pub read: u64,
    /// Events that match.
    pub events: u64,
    /// Numbers of the events that match by day: its first ms since the epoch, in UTC.
    pub days: BTreeMap<i64, u64>,
    /// The newest events that match, as their alerts would have them.
    pub examples: Vec<Hit>,
    /// Time of the oldest event that was read, if there may be older ones.
    pub read_from: Option<Value>,
    /// Whether some shards could not be read.
    pub has_failed: bool,
    /// Events on which a pipeline evaluated the rule, or would have, and it cannot be done again.
    pub not_evaluated: Unevaluated,
    /// Events on which no pipeline evaluates the rule.
    pub not_applicable: Unevaluated,
}

impl TestReport {
    /// Returns a day of [`TestReport::days`] as a date.
    pub fn print_day(day_ms: i64) -> String {
        DateFormat::default_millis().print_ms(day_ms, &Zone::utc())
    }
}

impl RecordTest<'_> {
    /// Reads the events, newest first. Nothing is stored.
    ///
    /// # Errors
    /// Of the engine.
    pub async fn run(&self) -> Result<TestReport> {
        let metadata = self.engine.metadata(&self.ctx).await?;
        let moment = PointInTime::open(self.engine, &self.ctx, &self.target).await?;
        let mut reader = RecordReader::new(&**self.engine, self.records).await?;
        let mut report = TestReport::default();
        let mut after: Option<Vec<Value>> = None;
        loop {
            let response = moment.page(self.query, "desc", after.as_ref()).await?;
            report.has_failed |= response.timed_out || !response.shards.failures.is_empty();
            let is_last = response.hits.len() < PAGE;
            report.read += response.hits.len() as u64;
            after = response.hits.last().map(|last| last.sort.clone());
            let hits = response.hits.into_iter();
            let page: Vec<MatchedEvent> = hits.map(|hit| MatchedEvent::new(&metadata, hit)).collect();
            for matched in reader.matches(page).await? {
                report.add(matched.hit, self.examples_max);
            }
            let Some(last) = after.as_ref().filter(|_| !is_last) else {
                break;
            };
            if report.read as usize + PAGE > self.events_max {
                report.read_from = last.first().cloned();
                break;
            }
        }
        report.not_evaluated = reader.not_evaluated;
        report.not_applicable = reader.not_applicable;
        Ok(report)
    }
}

impl TestReport {
    fn add(&mut self, hit: Hit, examples_max: usize) {
        self.events += 1;
        let time = hit.sort.first().and_then(Value::as_str);
        let time_ms = time.and_then(|time| DateFormat::default_millis().parse_ms(time).ok());
        if let Some(time_ms) = time_ms {
            *self.days.entry(time_ms.div_euclid(DAY_MS) * DAY_MS).or_default() += 1;
        }
        if self.examples.len() < examples_max {
            self.examples.push(hit);
        }
    }
}
