//! Runs of one rule over events that are stored already: for what no pipeline evaluated when they came.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use firn_detect::{DetectionRule, Pause};
use firn_engine::Scope;
use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

use super::alert_template;
use super::counters::Counters;
use super::coverage_ledger::{self, CoverageLedger};
use super::detection::RunnerRules;
use super::steps::Steps;
use super::write::Writer;
use super::{EntryState, Runner, StoredDocument};
use crate::definition::Definition;
use crate::run_mark::RunMark;
use crate::sources::{Batch, Clock, SourceEvent, StoredAt};
use crate::tables::Tables;

/// Stands in alerts where others have the id of their pipeline.
const RUN: &str = "_run";

/// Stored event, with its tenant if its index holds events by tenant.
pub type TenantEvent = (StoredDocument, Option<String>);

/// Ids of the rules that run now.
type Running = Arc<Mutex<HashSet<String>>>;

/// Run of a rule. No other one of the rule can start before it is dropped.
pub struct RuleRun {
    id: String,
    version: String,
    running: Running,
    writer: Writer,
    clock: Clock,
    /// Nanoseconds since the epoch.
    started_ns: i64,
    _stop: watch::Sender<bool>,
}

impl Drop for RuleRun {
    fn drop(&mut self) {
        self.running.lock().remove(&self.id);
    }
}

impl Runner {
    /// Starts a run of a rule, enabled or not.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`]: it runs already. [`ErrorKind::IllegalArgument`]: it counts several events, or is a Sigma rule, which
    /// reads records. Others: the template of alerts cannot be created.
    pub async fn start_rule_run(&self, rule: &DetectionRule) -> Result<RuleRun> {
        let id = &rule.rule.id;
        if rule.window.is_some() {
            return Err(Error::illegal_argument(format!(
                "rule [{id}] counts several events: only a pipeline evaluates it"
            )));
        }
        let of_all = RunnerRules {
            rules: Arc::new([Arc::new(DetectionRule {
                enabled: true,
                pipelines: Vec::new(),
                ..rule.clone()
            })]),
            // What it costs is charged; a pause of the rule in pipelines is no reason not to run it.
            ignores_throttles: true,
            ..self.rules.lock().clone()
        };
        let body = json!({"source": {"type": "index", "indices": ["stored"]}});
        let definition = Definition::parse(RUN, body.as_object().unwrap_or(&serde_json::Map::new()))?;
        let clock = Arc::clone(&self.clock);
        let steps = Arc::new(Steps::new(
            RUN,
            &definition,
            &BTreeMap::new(),
            Tables::default(),
            Arc::clone(&clock),
        )?);
        let of_steps = Arc::clone(&steps);
        let compiled = tokio::task::spawn_blocking(move || {
            of_steps.set_rules(&of_all);
            of_steps.rules().map_or(0, |rules| rules.count())
        });
        let failed = |_| Error::internal("a detection rule failed because of a bug, see the log");
        if compiled.await.map_err(failed)? == 0 {
            return Err(Error::illegal_argument(format!(
                "rule [{id}] reads records as their source wrote them: only a pipeline evaluates it"
            )));
        }
        self.destination
            .create_template(alert_template::TEMPLATE, &alert_template::template())
            .await?;
        if !self.rule_runs.lock().insert(id.clone()) {
            return Err(Error::new(ErrorKind::Conflict, format!("rule [{id}] runs already")));
        }
        let (stop, stopped) = watch::channel(false);
        Ok(RuleRun {
            id: id.clone(),
            version: rule.version.clone(),
            running: Arc::clone(&self.rule_runs),
            writer: Writer {
                destination: Arc::clone(&self.destination),
                coverage: CoverageLedger::new(&steps.id, &self.destination, &self.clock),
                scope: Arc::new(Scope::operator()),
                steps,
                counters: Arc::new(Counters::default()),
                windows: None,
                alerts_stored: Arc::clone(&self.alerts_stored),
                stopped,
            },
            started_ns: clock(),
            clock,
            _stop: stop,
        })
    }
}

impl Runner {
    /// Records in the coverage ledger that a pipeline evaluates a rule again, although no event has come. Returns whether that was not
    /// recorded before.
    ///
    /// # Errors
    /// Of the destination.
    pub async fn note_quiet(&self, pipeline: &str, rule: &str) -> Result<bool> {
        let writer = {
            let pipelines = self.pipelines.lock();
            match pipelines.get(pipeline).map(|entry| &entry.state) {
                Some(EntryState::Running(running)) => Arc::clone(&running.writer),
                _ => return Ok(false),
            }
        };
        match writer.steps.current_rules() {
            Some(rules) if rules.versions.contains_key(rule) => writer.coverage.note_quiet(rules.recorded()).await,
            _ => Ok(false),
        }
    }

    /// Stores the pauses of rules, so that they go on after a restart.
    ///
    /// # Errors
    /// Of the destination.
    pub async fn store_pauses(&self, pauses: &[Pause]) -> Result<()> {
        let document = json!({"@timestamp": (self.clock)() / 1_000_000, "pauses": pauses});
        coverage_ledger::store_pauses(&*self.destination, &document).await
    }
}

impl RuleRun {
    /// Records in the coverage ledger that the run, which began with [`Runner::start_rule_run`], has read all events of `index` from one
    /// mark to another.
    ///
    /// # Errors
    /// Of the destination: the record may be missing.
    pub async fn complete(&self, index: &str, from: RunMark, to: RunMark) -> Result<()> {
        let mut run = json!({
            "@timestamp": self.started_ns / 1_000_000, "rule": self.id, "version": self.version, "index": index,
        });
        from.write("from", &mut run);
        to.write("to", &mut run);
        coverage_ledger::note_run(&*self.writer.destination, &run).await
    }

    /// Stores the alerts of events; returns their number. Matches of one call that belong together are one alert.
    ///
    /// # Errors
    /// Of the destination; some alerts may be stored.
    pub async fn raise(&self, events: Vec<TenantEvent>) -> Result<u64> {
        let received_ns = (self.clock)();
        let event = |(offset, (stored, tenant)): (u64, TenantEvent)| SourceEvent {
            bytes: stored.source,
            offset,
            received_ns,
            context: None,
            stored_at: Some(Box::new(StoredAt {
                index: stored.index.into(),
                id: stored.id,
                tenant,
            })),
        };
        let events: Vec<SourceEvent> = (0..).zip(events).map(event).collect();
        let batch = Batch {
            stored: None,
            partition: None,
            first_offset: 0,
            last_offset: events.len() as u64,
            events: events.clone(),
            retries: false,
            note: None,
            done: None,
        };
        let steps = Arc::clone(&self.writer.steps);
        let documents = tokio::task::spawn_blocking(move || steps.run(None, &events)).await;
        let documents =
            documents.map_err(|_| Error::internal("a detection rule failed because of a bug, see the log"))?;
        self.writer.write_alerts_of_stored(&batch, &documents).await?;
        Ok(documents.iter().map(|document| document.alerts.len() as u64).sum())
    }
}
