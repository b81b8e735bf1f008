//! Runner: the pipelines of a node, each a source, its steps, and the writes of its events.
//!
//! A source sends batches into a bounded channel ([`crate::sources`]). For each batch a thread of the runner's pool, in the queue
//! of the pipeline's tenant, makes the documents ([`steps`]); then they are written, again and again until they are stored
//! ([`write`]). While a write waits, the channel fills, and the source stops reading.

mod alert_groups;
mod alert_template;
mod connectors;
mod counters;
mod coverage_ledger;
mod dead_letter;
mod destination;
mod detection;
mod json_members;
mod pushed_source;
#[cfg(test)]
mod record_rule_tests;
mod remap;
mod replay;
#[cfg(test)]
mod rule_change_tests;
mod rule_costs;
mod rule_exceptions;
mod rule_run;
mod rule_sets;
mod start;
mod status;
mod steps;
mod stored_records;
mod submission;
#[cfg(test)]
mod submission_tests;
#[cfg(test)]
mod window_rule_cost;
mod windows;
mod worker;
mod write;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use firn_detect::{Audience, DetectionRule};
use firn_engine::origin::SourcePosition;
use firn_model::{Error, ErrorKind, Result};
use firn_scheduler::Pool;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use self::counters::Counters;
use self::detection::RunnerRules;
use self::start::{WAITS, start_with_queries, tables_of};
use self::steps::Steps;
use self::submission::Bodies;
use self::write::Writer;
use crate::aggregation::AggregateDefinition;
use crate::definition::{Definition, SourceDefinition};
use crate::mapping::Pack;
use crate::parsed_rules::ParsedRules;
use crate::rule_budget::RuleBudgets;
use crate::sources::{BatchOutcome, Clock, Positions, Resume, SourceCounters, SourceEvent, SourceOutput};

pub use connectors::{Connectors, OpenSource};
pub use coverage_ledger::{CoverageRecord, INDEX as COVERAGE_INDEX, PAUSES};
pub use destination::{Destination, EngineDestination};
pub use remap::RemapOutcome;
pub use replay::{ReplayOutcome, StoredDocument};
pub use rule_costs::RuleCost;
pub use rule_run::{RecordRule, RuleRun, TenantEvent};
pub use status::{EventCounts, PipelineStatus, RuleCoverage, RulesStatus, SimulatedRecord};
pub use stored_records::{Evaluated, Obstacle, StoredEvent};
pub use submission::PushedEvent;
pub use windows::WindowStatus;
pub use write::partition_of_events;

/// Maximum bytes of events of one pipeline that wait or are being processed.
const BYTES_MAX: usize = 32 << 20;
/// Maximum waiting jobs; sources are bounded before that.
const QUEUE_LIMIT: usize = 10_000;
/// Start of the names of partitions that hold no events of a source.
const MARK: char = '#';
/// How long a stop waits for the events that were taken.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// Pipelines of a node.
pub struct Runner {
    destination: Arc<dyn Destination>,
    connectors: Connectors,
    clock: Clock,
    pool: Arc<Pool>,
    pipelines: Mutex<BTreeMap<String, Entry>>,
    /// Detection rules of all pipelines.
    rules: Arc<Mutex<RunnerRules>>,
    parsed_rules: Arc<ParsedRules>,
    /// Notified when alerts were stored that channels are to deliver.
    alerts_stored: Arc<Notify>,
    rule_runs: Arc<Mutex<HashSet<String>>>,
    bodies: Bodies,
    /// Held while pipelines are started and stopped.
    applying: tokio::sync::Mutex<()>,
}

/// A pipeline of the runner, with the body that it was made from.
struct Entry {
    body: Arc<Map<String, Value>>,
    /// `None`: the body cannot be used.
    definition: Option<Arc<Definition>>,
    /// Aggregates of the rules that count events, with which it was started.
    rule_aggregates: Aggregates,
    state: EntryState,
}

impl Entry {
    /// Returns the pipeline to stop it, and leaves one that waits in its place.
    fn taken(&mut self) -> Self {
        Self {
            body: Arc::clone(&self.body),
            definition: self.definition.clone(),
            rule_aggregates: self.rule_aggregates.clone(),
            state: std::mem::replace(&mut self.state, EntryState::Waiting(WAITS.to_owned())),
        }
    }
}

/// Aggregates by name.
type Aggregates = BTreeMap<String, Arc<AggregateDefinition>>;

enum EntryState {
    Running(Running),
    Disabled,
    /// Its tables and windows are being read, or could not be, for this reason; it is tried again.
    Waiting(String),
    /// The body cannot be used.
    Refused(String),
}

/// A running pipeline.
struct Running {
    counters: Arc<Counters>,
    source_counters: Arc<SourceCounters>,
    /// Present if events are handed over by [`Runner::submit`].
    pushed: Option<SourceOutput>,
    writer: Arc<Writer>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

/// Positions of a pipeline's source in the destination.
struct SourcePositions {
    destination: Arc<dyn Destination>,
    source: String,
}

#[async_trait]
impl Positions for SourcePositions {
    async fn resume_offset(&self, partition: &str) -> Result<Option<u64>> {
        self.destination.resume_offset(&self.source, partition).await
    }

    async fn resume(&self, partition: &str) -> Result<Option<Resume>> {
        self.destination.resume(&self.source, partition).await
    }

    async fn all(&self) -> Result<Vec<SourcePosition>> {
        positions(&*self.destination, &self.source).await
    }

    async fn forget(&self, partitions: &[String]) -> Result<()> {
        self.destination.forget(&self.source, partitions).await
    }
}

async fn positions(destination: &dyn Destination, source: &str) -> Result<Vec<SourcePosition>> {
    let mut positions = destination.source_positions(source).await?;
    // Positions of dead letters, which are counted in the partition of their events, of the events of windows, and of no events.
    positions.retain(|position| {
        !position.partition.contains(write::REJECTED)
            && !position.partition.contains(write::ALERTS)
            && !position.partition.starts_with(MARK)
    });
    Ok(positions)
}

impl Runner {
    /// Creates a runner without pipelines, whose steps run on `threads` threads.
    pub fn new(destination: Arc<dyn Destination>, connectors: Connectors, clock: Clock, threads: usize) -> Arc<Self> {
        Self::with_budget(destination, connectors, clock, threads, None)
    }

    /// The same with a budget of detection rules; `None`: their costs are not measured, and none is throttled.
    pub fn with_budget(
        destination: Arc<dyn Destination>,
        connectors: Connectors,
        clock: Clock,
        threads: usize,
        budget: Option<Arc<RuleBudgets>>,
    ) -> Arc<Self> {
        let rules = RunnerRules {
            budget,
            ..RunnerRules::default()
        };
        Arc::new(Self {
            destination,
            connectors,
            clock,
            pool: Arc::new(Pool::new("pipelines", threads, QUEUE_LIMIT)),
            pipelines: Mutex::default(),
            rules: Arc::new(Mutex::new(rules)),
            parsed_rules: Arc::default(),
            alerts_stored: Arc::default(),
            rule_runs: Arc::default(),
            bodies: Bodies::default(),
            applying: tokio::sync::Mutex::default(),
        })
    }

    /// Starts, replaces and stops pipelines until exactly those of `bodies` run. A body that cannot be used is in
    /// [`Runner::status`] with its error.
    pub async fn apply(self: &Arc<Self>, bodies: &BTreeMap<String, Arc<Map<String, Value>>>) {
        let _applying = self.applying.lock().await;
        let mut ended = Vec::new();
        {
            let mut pipelines = self.pipelines.lock();
            let changed: Vec<String> = pipelines
                .iter()
                .filter(|(id, entry)| bodies.get(*id).is_none_or(|body| *body != entry.body))
                .map(|(id, _)| id.clone())
                .collect();
            for id in changed {
                match pipelines.get_mut(&id) {
                    // Until its successor runs, senders are told to come again, not that there is no such pipeline.
                    Some(entry) if bodies.contains_key(&id) => ended.push(entry.taken()),
                    _ => ended.extend(pipelines.remove(&id)),
                }
            }
        }
        // The successor reads from where the predecessor ends, so that one must have ended.
        stop_all(ended).await;
        for (id, body) in bodies {
            if self.pipelines.lock().get(id).is_some_and(|entry| entry.body == *body) {
                continue;
            }
            let definition = Definition::parse(id, body).map(Arc::new);
            let rule_aggregates = self.rules.lock().aggregates(id);
            let state = match &definition {
                Ok(definition) if !definition.enabled => EntryState::Disabled,
                // A database may be slow or away, which must not hold up other pipelines.
                Ok(definition)
                    if definition.has_queries() || !definition.aggregates.is_empty() || !rule_aggregates.is_empty() =>
                {
                    EntryState::Waiting(WAITS.to_owned())
                }
                Ok(definition) => self.start(id, definition, Vec::new()).await,
                Err(error) => EntryState::Refused(error.to_string()),
            };
            let waits = matches!(state, EntryState::Waiting(_));
            let entry = Entry {
                body: Arc::clone(body),
                definition: definition.ok(),
                rule_aggregates,
                state,
            };
            self.pipelines.lock().insert(id.clone(), entry);
            if waits {
                tokio::spawn(start_with_queries(Arc::downgrade(self), id.clone(), Arc::clone(body)));
            }
        }
    }

    /// Returns the budget of detection rules; `None`: there is none.
    pub fn budget(&self) -> Option<Arc<RuleBudgets>> {
        self.rules.lock().budget.clone()
    }

    /// Returns the definitions of detection rules as this node has read them.
    pub fn parsed_rules(&self) -> Arc<ParsedRules> {
        Arc::clone(&self.parsed_rules)
    }

    /// Returns a detection rule that is set, enabled or not.
    pub fn rule(&self, id: &str) -> Option<Arc<DetectionRule>> {
        let rules = self.rules.lock();
        rules.rules.iter().find(|rule| rule.rule.id == id).cloned()
    }

    /// Returns the detection rules that are set, enabled or not; the same value until they are set again.
    pub(crate) fn rules(&self) -> Arc<[Arc<DetectionRule>]> {
        Arc::clone(&self.rules.lock().rules)
    }

    /// Returns what is notified when alerts were stored that channels are to deliver.
    pub fn alerts_stored(&self) -> Arc<Notify> {
        Arc::clone(&self.alerts_stored)
    }

    /// Evaluates these rules on the events of all pipelines from the next batch on. `audiences` are those of the channels.
    ///
    /// # Errors
    /// The template of alerts cannot be created: the rules stay as they were.
    pub async fn set_rules(self: &Arc<Self>, rules: Vec<Arc<DetectionRule>>, audiences: Vec<Audience>) -> Result<()> {
        let _applying = self.applying.lock().await;
        if !rules.is_empty() {
            let (name, body) = (alert_template::TEMPLATE, alert_template::template());
            self.destination.create_template(name, &body).await?;
        }
        let rules = RunnerRules {
            rules: DetectionRule::with_generated(rules).into(),
            audiences: audiences.into(),
            ..self.rules.lock().clone()
        };
        *self.rules.lock() = rules.clone();
        if let Some(budget) = &rules.budget {
            let versions = rules
                .rules
                .iter()
                .map(|rule| (rule.rule.id.as_str(), rule.version.as_str()));
            let versions: BTreeMap<&str, &str> = versions.collect();
            budget.retain(|id, version| versions.get(id) == Some(&version));
        }
        // Their rules are set when they start again.
        let restart = self.take_with_other_windows(&rules);
        let running: Vec<Arc<Steps>> = {
            let pipelines = self.pipelines.lock();
            let steps = pipelines.values().filter_map(|entry| match &entry.state {
                EntryState::Running(running) => Some(Arc::clone(&running.writer.steps)),
                EntryState::Disabled | EntryState::Waiting(_) | EntryState::Refused(_) => None,
            });
            steps.collect()
        };
        let compile = tokio::task::spawn_blocking(move || running.iter().for_each(|steps| steps.set_rules(&rules)));
        // A pipeline may take seconds to stop, and the others do not wait for it.
        let (compiled, ()) = tokio::join!(compile, self.restart(restart));
        compiled.map_err(|_| Error::internal("detection rules failed because of a bug, see the log"))
    }

    /// Returns where each rule is evaluated, by its id; a rule that no running pipeline evaluates or lacks a log source for is missing.
    pub fn rule_coverage(&self) -> BTreeMap<String, RuleCoverage> {
        let mut coverage: BTreeMap<String, RuleCoverage> = BTreeMap::new();
        let pipelines = self.pipelines.lock();
        for (pipeline, entry) in pipelines.iter() {
            let EntryState::Running(running) = &entry.state else {
                continue;
            };
            // Without an event, too, a pause ends.
            let Some(rules) = running.writer.steps.current_rules() else {
                continue;
            };
            for id in rules.evaluated() {
                let of_rule = coverage.entry(id.to_owned()).or_default();
                of_rule.evaluated_by.push(pipeline.clone());
            }
            for rule in rules.unmapped.iter() {
                let of_rule = coverage.entry(rule.id.clone()).or_default();
                of_rule.unmapped_in.push(pipeline.clone());
            }
            for id in rules.skipped.keys() {
                let of_rule = coverage.entry(id.clone()).or_default();
                of_rule.throttled_in.push(pipeline.clone());
            }
            for (id, cost) in running.writer.steps.rule_costs.get() {
                let of_rule = coverage.entry(id).or_default();
                of_rule.costs.insert(pipeline.clone(), cost);
            }
        }
        coverage
    }

    /// Returns the ids of the pipelines, sorted.
    pub fn ids(&self) -> Vec<String> {
        self.pipelines.lock().keys().cloned().collect()
    }

    /// Returns the pipelines that cannot run, with the reasons.
    pub fn refused(&self) -> Vec<(String, String)> {
        let pipelines = self.pipelines.lock();
        let reason = |(id, entry): (&String, &Entry)| match &entry.state {
            EntryState::Refused(reason) => Some((id.clone(), reason.clone())),
            EntryState::Running(_) | EntryState::Disabled | EntryState::Waiting(_) => None,
        };
        pipelines.iter().filter_map(reason).collect()
    }

    /// Returns the counts of events of all running pipelines by id, since the start of the node.
    pub fn event_counts(&self) -> Vec<(String, EventCounts)> {
        let pipelines = self.pipelines.lock();
        let counts = |(id, entry): (&String, &Entry)| match &entry.state {
            EntryState::Running(running) => Some((id.clone(), running.counters.events())),
            EntryState::Disabled | EntryState::Waiting(_) | EntryState::Refused(_) => None,
        };
        pipelines.iter().filter_map(counts).collect()
    }

    /// Returns the definition of a pipeline; `None`: there is none of this id, or its body cannot be used.
    pub fn definition(&self, id: &str) -> Option<Arc<Definition>> {
        self.pipelines.lock().get(id)?.definition.clone()
    }

    /// Returns the state of a pipeline; `None`: there is none of this id.
    pub async fn status(&self, id: &str) -> Option<PipelineStatus> {
        let mut status = match &self.pipelines.lock().get(id)?.state {
            EntryState::Disabled => PipelineStatus::default(),
            EntryState::Waiting(reason) | EntryState::Refused(reason) => PipelineStatus {
                error: Some(reason.clone()),
                ..PipelineStatus::default()
            },
            EntryState::Running(running) => {
                let counters = &running.counters;
                PipelineStatus {
                    running: counters.is_running.load(Ordering::Relaxed),
                    error: counters.error(),
                    events: counters.events(),
                    source: running.source_counters.values(),
                    source_last_error: running.source_counters.last_error(),
                    map_nanos: counters.map_nanos.load(Ordering::Relaxed),
                    write_nanos: counters.write_nanos.load(Ordering::Relaxed),
                    retries: counters.retries.load(Ordering::Relaxed),
                    windows: running.writer.windows.as_ref().map(|windows| windows.status()),
                    rules: running
                        .writer
                        .steps
                        .current_rules()
                        .map(|rules| RulesStatus::new(&rules, counters, running.writer.windows.as_deref())),
                    tables: running.writer.steps.tables((self.clock)() / 1_000_000),
                    partitions: Vec::new(),
                }
            }
        };
        match positions(&*self.destination, id).await {
            Ok(partitions) => status.partitions = partitions,
            Err(error) => drop(status.error.get_or_insert_with(|| error.to_string())),
        }
        Some(status)
    }

    /// Returns the ids and definitions of pipelines whose source is `wanted`, sorted by id.
    pub fn pipelines_with_source(&self, wanted: &SourceDefinition) -> Vec<(String, Arc<Definition>)> {
        let pipelines = self.pipelines.lock();
        let definitions = pipelines
            .iter()
            .filter_map(|(id, entry)| Some((id.clone(), Arc::clone(entry.definition.as_ref()?))));
        definitions
            .filter(|(_, definition)| definition.source == *wanted)
            .collect()
    }

    /// Hands events to a pipeline whose source takes them by requests, and waits until they are stored.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::ResourceNotFound`]: no such pipeline. [`firn_model::ErrorKind::IllegalArgument`]: its source is
    /// another one. [`firn_model::ErrorKind::Rejected`]: it has as many events waiting as it may have; nothing was taken. Other
    /// errors are those of the write: the events may be stored in part. If the same events are submitted again, parts of 10,000 events
    /// that are stored stay so.
    pub async fn submit(&self, id: &str, events: Vec<impl Into<PushedEvent>>) -> Result<BatchOutcome> {
        let events = events.into_iter().map(Into::into).collect();
        self.submit_all(vec![(id.to_owned(), events)]).await
    }

    /// The same with the events of one request for several pipelines.
    ///
    /// # Errors
    /// As [`Runner::submit`].
    pub async fn submit_all(&self, by_pipeline: Vec<(String, Vec<PushedEvent>)>) -> Result<BatchOutcome> {
        let mut with_outputs = Vec::new();
        for (id, events) in by_pipeline {
            let output = self.output(&id)?;
            with_outputs.push((id, output, events));
        }
        self.bodies.submit(with_outputs).await
    }

    /// Replays dead letters of a pipeline: each record goes through its steps again, and a letter whose event is stored then is
    /// removed. Returns one outcome for each letter, in the same order.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::ResourceNotFound`]: no such pipeline. [`firn_model::ErrorKind::Unavailable`]: it does not run.
    /// Other errors are those of the writes; what was replayed before stays so.
    pub async fn replay(&self, id: &str, letters: &[StoredDocument]) -> Result<Vec<ReplayOutcome>> {
        self.writer(id)?.replay(letters).await
    }

    /// Maps stored events of a pipeline again: the record that an event keeps goes through the steps, and what becomes of it
    /// replaces the event. Returns one outcome for each event, in the same order.
    ///
    /// # Errors
    /// As [`Runner::replay`].
    pub async fn remap(&self, id: &str, events: &[StoredDocument]) -> Result<Vec<RemapOutcome>> {
        self.writer(id)?.remap(events).await
    }

    /// Returns the pack of a running pipeline; `None`: it has none.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::ResourceNotFound`]: no such pipeline. [`firn_model::ErrorKind::Unavailable`]: it does not run.
    pub fn pack(&self, id: &str) -> Result<Option<Arc<Pack>>> {
        Ok(self.writer(id)?.steps.pack().cloned())
    }

    fn writer(&self, id: &str) -> Result<Arc<Writer>> {
        match &entry(id, &self.pipelines.lock())?.state {
            EntryState::Running(running) => Ok(Arc::clone(&running.writer)),
            EntryState::Disabled => Err(disabled(id)),
            EntryState::Waiting(reason) | EntryState::Refused(reason) => {
                Err(Error::new(ErrorKind::Unavailable, reason.clone()))
            }
        }
    }

    fn output(&self, id: &str) -> Result<SourceOutput> {
        let pipelines = self.pipelines.lock();
        match &entry(id, &pipelines)?.state {
            EntryState::Running(Running {
                pushed: Some(output), ..
            }) => Ok(output.clone()),
            EntryState::Running(_) => Err(Error::illegal_argument(format!(
                "pipeline [{id}] takes no events by HTTP: its source is another one"
            ))),
            EntryState::Disabled => Err(disabled(id)),
            EntryState::Waiting(reason) | EntryState::Refused(reason) => {
                Err(Error::new(ErrorKind::Unavailable, reason.clone()))
            }
        }
    }

    /// Runs the steps of a definition on records, without a source and without writes. `received_ns` is their time of arrival.
    /// Reads the tables.
    ///
    /// # Errors
    /// Those of [`Definition::parse`]; a table cannot be read.
    pub async fn simulate(
        &self,
        id: &str,
        body: &Map<String, Value>,
        records: Vec<Bytes>,
        received_ns: i64,
    ) -> Result<Vec<SimulatedRecord>> {
        let definition = Definition::parse(id, body)?;
        let queried = self.connectors.load_queries(&definition, &self.clock).await?;
        let (id, tables, clock) = (id.to_owned(), tables_of(&queried), Arc::clone(&self.clock));
        let simulated = move || {
            let steps = Steps::new(&id, &definition, &BTreeMap::new(), tables, clock)?;
            simulate(&steps, &records, received_ns)
        };
        let simulated = tokio::task::spawn_blocking(simulated).await;
        simulated.unwrap_or_else(|_| Err(Error::internal("a simulation failed because of a bug, see the log")))
    }

    /// Stops all pipelines; events that they have taken are stored or handed back first.
    pub async fn stop(&self) {
        let _applying = self.applying.lock().await;
        let all = std::mem::take(&mut *self.pipelines.lock());
        stop_all(all.into_values().collect()).await;
    }
}

fn entry<'a>(id: &str, pipelines: &'a BTreeMap<String, Entry>) -> Result<&'a Entry> {
    let missing = || Error::new(ErrorKind::ResourceNotFound, format!("pipeline [{id}] is missing"));
    pipelines.get(id).ok_or_else(missing)
}

fn disabled(id: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("pipeline [{id}] is disabled"))
}

/// Stops pipelines side by side. Sources stop at once; what they have delivered is stored for a while longer.
async fn stop_all(entries: Vec<Entry>) {
    let mut tasks = Vec::new();
    for entry in entries {
        if let EntryState::Running(running) = entry.state {
            running.stop.send_replace(true);
            tasks.extend(running.tasks);
        }
    }
    let deadline = tokio::time::Instant::now() + STOP_WITHIN;
    for mut task in tasks {
        if tokio::time::timeout_at(deadline, &mut task).await.is_err() {
            task.abort();
            let _ = task.await;
        }
    }
}

fn simulate(steps: &Steps, records: &[Bytes], received_ns: i64) -> Result<Vec<SimulatedRecord>> {
    let event = |(place, bytes): (usize, &Bytes)| SourceEvent {
        bytes: bytes.clone(),
        offset: place as u64,
        received_ns,
        context: None,
        stored_at: None,
    };
    let events: Vec<SourceEvent> = records.iter().enumerate().map(event).collect();
    let documents = steps.run(None, &events);
    documents
        .into_iter()
        .map(|document| {
            Ok(SimulatedRecord {
                index: match document.error {
                    None => steps.index.clone(),
                    Some(_) => steps.dead_letter_index.clone(),
                },
                document: serde_json::from_slice(&document.source)?,
                error: document.error,
            })
        })
        .collect()
}
