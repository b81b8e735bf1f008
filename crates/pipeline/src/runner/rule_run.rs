//! Runs of one rule over events that are stored already: for what no pipeline evaluated when they came.
//!
//! A search finds the events of a rule that reads events. One that reads records is evaluated on the record of each event again
//! ([`RecordRule`]), before the alerts of those that match are raised.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use firn_detect::{DetectionRule, Expression, Input, LogSource, Pause, Rule};
use firn_engine::Scope;
use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};
use firn_scheduler::{Flow, Pool};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{oneshot, watch};

use super::alert_template;
use super::counters::Counters;
use super::coverage_ledger::{self, CoverageLedger};
use super::detection::RunnerRules;
use super::steps::{Mapping, Steps};
use super::stored_records::{Evaluated, PackEvaluator, RecordSource, RecordSources, StoredEvent, UsablePack};
use super::write::Writer;
use super::{EntryState, Runner, StoredDocument};
use crate::definition::{Definition, PackDefinition};
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
    /// [`ErrorKind::Conflict`]: it runs already. [`ErrorKind::IllegalArgument`]: it counts several events. Others: the template of
    /// alerts cannot be created.
    pub async fn start_rule_run(&self, rule: &DetectionRule) -> Result<RuleRun> {
        let id = &rule.rule.id;
        if rule.window.is_some() {
            return Err(Error::illegal_argument(format!(
                "rule [{id}] counts several events: only a pipeline evaluates it"
            )));
        }
        let of_all = self.rules_of_run(&raised(rule));
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
                "rule [{id}] cannot be evaluated, see the log"
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
    /// Returns a rule as all that is evaluated, enabled or not. What it costs is charged; a pause of the rule in pipelines is no reason
    /// not to run it.
    fn rules_of_run(&self, rule: &DetectionRule) -> RunnerRules {
        RunnerRules {
            rules: Arc::new([Arc::new(DetectionRule {
                enabled: true,
                pipelines: Vec::new(),
                ..rule.clone()
            })]),
            ignores_throttles: true,
            ..self.rules.lock().clone()
        }
    }

    /// Prepares a rule that reads records for the records of stored events, with the packs of the pipelines as they are now. It is
    /// evaluated in the queue of `scope`'s tenant.
    ///
    /// # Errors
    /// [`ErrorKind::IllegalArgument`]: the rule reads events, or counts several.
    pub async fn record_rule(&self, rule: &DetectionRule, scope: &Scope) -> Result<RecordRule> {
        if rule.input != Input::Record || rule.window.is_some() {
            let id = &rule.rule.id;
            return Err(Error::illegal_argument(format!(
                "rule [{id}] is not evaluated on single records"
            )));
        }
        let rules = Arc::new(self.rules_of_run(rule));
        let pipelines: Vec<(Arc<Definition>, Option<Mapping>)> = {
            let pipelines = self.pipelines.lock();
            let with_pack = pipelines.values().filter_map(|entry| {
                let definition = entry
                    .definition
                    .clone()
                    .filter(|definition| definition.pack.is_some())?;
                let mapping = match &entry.state {
                    EntryState::Running(running) => running.writer.steps.mapping().cloned(),
                    EntryState::Disabled | EntryState::Waiting(_) | EntryState::Refused(_) => None,
                };
                Some((definition, mapping))
            });
            with_pack.collect()
        };
        let clock = Arc::clone(&self.clock);
        // Reads the packs of pipelines that do not run.
        let sources = tokio::task::spawn_blocking(move || record_sources(pipelines, &rules, &clock)).await;
        let sources = sources.map_err(|_| Error::internal("a pack failed because of a bug, see the log"))?;
        Ok(RecordRule {
            sources: Arc::new(sources),
            pool: Arc::clone(&self.pool),
            flow: Flow::of(scope),
        })
    }

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

/// Returns the rule by which the alerts of matches are raised. If it reads records, [`RecordRule`] has decided which events match, with
/// the exceptions that held then.
fn raised(rule: &DetectionRule) -> DetectionRule {
    match rule.input {
        Input::Event => rule.clone(),
        Input::Record => DetectionRule {
            rule: Arc::new(Rule {
                condition: Expression::And(Vec::new()),
                log_source: LogSource::default(),
                ..Rule::clone(&rule.rule)
            }),
            input: Input::Event,
            exceptions: Vec::new(),
            ..rule.clone()
        },
    }
}

/// Rule that reads records, for those of stored events.
pub struct RecordRule {
    sources: Arc<RecordSources>,
    pool: Arc<Pool>,
    flow: Flow,
}

impl RecordRule {
    /// Evaluates the rule on each of the events, as their pipelines would have; returns what it says of each, in the same order.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`]: a bug.
    pub async fn evaluate(&self, events: Vec<StoredEvent>) -> Result<Vec<Evaluated>> {
        let (sender, receiver) = oneshot::channel();
        let sources = Arc::clone(&self.sources);
        self.pool.spawn_admitted(&self.flow, move || {
            let evaluated = events.iter().map(|event| sources.evaluate(event)).collect();
            let _ = sender.send(evaluated);
        });
        receiver
            .await
            .map_err(|_| Error::internal("a detection rule failed because of a bug, see the log"))
    }
}

/// A pack, its mapping in a pipeline that runs, and the pipelines that store events by it.
type OfPack<'p> = (&'p PackDefinition, Option<&'p Mapping>, Vec<&'p Arc<Definition>>);

/// Returns the packs of pipelines: those that store events by pack, those that read stored events one by one.
fn record_sources(
    pipelines: Vec<(Arc<Definition>, Option<Mapping>)>,
    rules: &Arc<RunnerRules>,
    clock: &Clock,
) -> RecordSources {
    let (storing, reading): (Vec<_>, Vec<_>) = pipelines
        .into_iter()
        .partition(|(definition, _)| definition.stores_events());
    let mut by_pack: Vec<OfPack<'_>> = Vec::new();
    for (definition, mapping) in &storing {
        let Some(pack) = &definition.pack else { continue };
        match by_pack.iter_mut().find(|(known, ..)| *known == pack) {
            Some((_, of_pack, definitions)) => {
                *of_pack = of_pack.or(mapping.as_ref());
                definitions.push(definition);
            }
            None => by_pack.push((pack, mapping.as_ref(), vec![definition])),
        }
    }
    let load = |pack: &PackDefinition, mapping: Option<&Mapping>| match mapping {
        Some(mapping) => Ok(Arc::clone(mapping.pack())),
        None => pack.load().map_err(|error| error.reason().to_owned()),
    };
    let usable = |mapping: Mapping, tenant: Option<String>| UsablePack {
        name: mapping.pack().name().to_owned(),
        version: mapping.pack().version(),
        evaluator: Box::new(StepsOfPack {
            steps: Steps::of_run(RUN, mapping, tenant, Arc::clone(clock)),
            rules: Arc::clone(rules),
            is_mapped: OnceLock::new(),
        }),
    };
    let of_storing = by_pack.into_iter().map(|(pack, mapping, definitions)| {
        let pack = load(pack, mapping);
        let keep = definitions.iter().all(|definition| definition.keep_original);
        let is_unsure = !keep && pack.as_ref().is_ok_and(|pack| pack.writes_original());
        RecordSource {
            indices: definitions
                .iter()
                .flat_map(|definition| indices_of(definition))
                .collect(),
            reads_events: false,
            obstacle: is_unsure.then(|| {
                "records are not stored ([keep_original]), and the pack writes another text into [event.original]"
                    .to_owned()
            }),
            pack: pack.map(|pack| usable(Mapping::without_tables(pack), None)),
        }
    });
    let of_reading = reading.iter().filter_map(|(definition, mapping)| {
        let pack = definition.pack.as_ref()?;
        let mapping_of = |pack| mapping.clone().unwrap_or_else(|| Mapping::without_tables(pack));
        Some(RecordSource {
            indices: indices_of(definition).collect(),
            reads_events: true,
            // Exceptions may read what only its tables say.
            obstacle: mapping
                .is_none()
                .then(|| "a pipeline that reads the events of the index does not run".to_owned()),
            pack: load(pack, mapping.as_ref()).map(|pack| usable(mapping_of(pack), definition.tenant.clone())),
        })
    });
    RecordSources(of_storing.chain(of_reading).collect())
}

/// Returns the indices of the events of a pipeline, with its tenant.
fn indices_of(definition: &Definition) -> impl Iterator<Item = (String, Option<TenantId>)> {
    // Definitions with an invalid one are refused.
    let tenant = definition.tenant_id().ok().flatten();
    let indices = definition.event_indices().iter();
    indices.map(move |index| (index.clone(), tenant.clone()))
}

/// Steps that evaluate the rule by one pack; it is compiled for the first event of the pack.
struct StepsOfPack {
    steps: Steps,
    rules: Arc<RunnerRules>,
    is_mapped: OnceLock<bool>,
}

impl PackEvaluator for StepsOfPack {
    fn is_mapped(&self) -> bool {
        *self.is_mapped.get_or_init(|| {
            self.steps.set_rules(&self.rules);
            self.steps.rules().is_some_and(|rules| rules.count() > 0)
        })
    }

    fn evaluate(&self, event: &SourceEvent, record: Option<&[u8]>) -> std::result::Result<Option<Bytes>, String> {
        self.steps.evaluate_stored(event, record)
    }
}

impl RuleRun {
    /// Records in the coverage ledger that the run, which began with [`Runner::start_rule_run`], has read all events of `index` from one
    /// mark to another.
    ///
    /// # Errors
    /// Of the destination: the record may be missing.
    pub async fn complete(&self, index: &str, marks: (RunMark, RunMark)) -> Result<()> {
        self.note(index, marks, None).await
    }

    /// Records the same of a run that fills no hole: it could not evaluate the rule on this number of the events, for this reason.
    ///
    /// # Errors
    /// As [`RuleRun::complete`].
    pub async fn complete_without(
        &self,
        index: &str,
        marks: (RunMark, RunMark),
        not_evaluated: u64,
        reason: &str,
    ) -> Result<()> {
        self.note(index, marks, Some((not_evaluated, reason))).await
    }

    async fn note(
        &self,
        index: &str,
        (from, to): (RunMark, RunMark),
        not_evaluated: Option<(u64, &str)>,
    ) -> Result<()> {
        let mut run = json!({
            "@timestamp": self.started_ns / 1_000_000, "rule": self.id, "version": self.version, "index": index,
        });
        from.write("from", &mut run);
        to.write("to", &mut run);
        if let Some((count, reason)) = not_evaluated {
            run["not_evaluated"] = count.into();
            run["reason"] = reason.into();
        }
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
