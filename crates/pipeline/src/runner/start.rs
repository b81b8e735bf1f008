//! Start of pipelines, and the way of each from its definition to its tasks.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use firn_engine::Scope;
use firn_model::{Error, ErrorKind};
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::connectors::OpenSource;
use super::counters::Counters;
use super::coverage_ledger::CoverageLedger;
use super::dead_letter;
use super::detection::RunnerRules;
use super::pushed_source::PushedSource;
use super::steps::Steps;
use super::windows::{WindowContext, WindowService};
use super::worker;
use super::write::Writer;
use super::{BYTES_MAX, Entry, EntryState, Runner, Running, SourcePositions, stop_all};
use crate::definition::Definition;
use crate::sources::{Clock, SourceCounters, channel};
use crate::tables::{QueriedTable, Tables};

/// How often the files of tables are looked at.
const TABLES_EVERY: Duration = Duration::from_secs(60);
/// Why a pipeline waits at first.
pub(super) const WAITS: &str = "its tables and windows are being read";
/// Pause before the tables of a pipeline that waits for them are read again.
const LOAD_AGAIN_AFTER: Duration = Duration::from_secs(1);
const LOAD_AGAIN_AFTER_MAX: Duration = Duration::from_secs(30);

/// What a pipeline needs to run.
struct Stage {
    scope: Arc<Scope>,
    steps: Arc<Steps>,
    windows: Option<Arc<WindowService>>,
    queried: Vec<QueriedTable>,
}

/// Pipelines that are to start anew.
#[derive(Default)]
pub(super) struct Restart {
    ended: Vec<Entry>,
    /// Bodies of the pipelines by their ids.
    bodies: Vec<(String, Arc<Map<String, Value>>)>,
}

impl Runner {
    /// Takes the pipelines whose rules over several events are others, which have to start anew: their windows are another journal's.
    /// They wait until [`Runner::restart`] has stopped them.
    pub(super) fn take_with_other_windows(&self, rules: &RunnerRules) -> Restart {
        let mut restart = Restart::default();
        for (id, entry) in self.pipelines.lock().iter_mut() {
            let aggregates = rules.aggregates(id);
            let runs = matches!(entry.state, EntryState::Running(_) | EntryState::Waiting(_));
            if runs && entry.rule_aggregates != aggregates {
                restart.ended.push(entry.taken());
                entry.rule_aggregates = aggregates;
                restart.bodies.push((id.clone(), Arc::clone(&entry.body)));
            }
        }
        restart
    }

    /// Stops pipelines, and starts them anew with the rules that are set.
    pub(super) async fn restart(self: &Arc<Self>, restart: Restart) {
        stop_all(restart.ended).await;
        for (id, body) in restart.bodies {
            tokio::spawn(start_with_queries(Arc::downgrade(self), id, body));
        }
    }

    /// Loads the tables of a pipeline that waits for them, and starts it. Returns whether it still waits.
    async fn start_waiting(&self, id: &str, body: &Arc<Map<String, Value>>) -> bool {
        let waiting = |pipelines: &BTreeMap<String, Entry>| {
            let entry = pipelines.get(id)?;
            let waits = Arc::ptr_eq(&entry.body, body) && matches!(entry.state, EntryState::Waiting(_));
            waits.then(|| entry.definition.clone()).flatten()
        };
        let Some(definition) = waiting(&self.pipelines.lock()) else {
            return false;
        };
        let loaded = self.connectors.load_queries(&definition, &self.clock).await;
        let _applying = self.applying.lock().await;
        if waiting(&self.pipelines.lock()).is_none() {
            return false;
        }
        let state = match loaded {
            Ok(queried) => self.start(id, &definition, queried).await,
            Err(error) => EntryState::Waiting(error.to_string()),
        };
        let waits = matches!(state, EntryState::Waiting(_));
        if let EntryState::Waiting(reason) = &state {
            tracing::warn!(pipeline = id, reason, "a pipeline waits for its tables and windows");
        }
        if let Some(entry) = self.pipelines.lock().get_mut(id) {
            entry.state = state;
        }
        waits
    }

    pub(super) async fn start(&self, id: &str, definition: &Definition, queried: Vec<QueriedTable>) -> EntryState {
        let tenant = match definition.tenant_id() {
            Ok(tenant) => tenant,
            Err(error) => return EntryState::Refused(error.to_string()),
        };
        let rules = self.rules.lock().clone();
        let mut aggregates = rules.aggregates(id);
        let own = definition.aggregates.iter();
        aggregates.extend(own.map(|(name, aggregate)| (name.clone(), Arc::new(aggregate.clone()))));
        let aggregates = aggregates;
        let steps = {
            let aggregates = aggregates.clone();
            let (id, definition, clock) = (id.to_owned(), definition.clone(), Arc::clone(&self.clock));
            let tables = tables_of(&queried);
            // Reads the files of tables.
            tokio::task::spawn_blocking(move || {
                let steps = Steps::new(&id, &definition, &aggregates, tables, clock)?;
                if !rules.rules.is_empty() {
                    steps.set_rules(&rules);
                }
                Ok(steps)
            })
            .await
        };
        let steps =
            match steps.unwrap_or_else(|_| Err(Error::internal("a pipeline failed because of a bug, see the log"))) {
                Ok(steps) => Arc::new(steps),
                Err(error) => return EntryState::Refused(error.to_string()),
            };
        let scope = Arc::new(tenant.map_or_else(Scope::operator, Scope::tenant));
        let windows = match aggregates.is_empty() {
            true => None,
            false => {
                let context = WindowContext {
                    destination: Arc::clone(&self.destination),
                    clock: Arc::clone(&self.clock),
                    rules: Arc::clone(&self.rules),
                    alerts_stored: Arc::clone(&self.alerts_stored),
                };
                match WindowService::open(id, definition, aggregates, Arc::clone(&scope), context).await {
                    Ok(windows) => Some(windows),
                    Err(error) if error.kind() == ErrorKind::IllegalArgument => {
                        return EntryState::Refused(error.to_string());
                    }
                    Err(error) => return EntryState::Waiting(error.to_string()),
                }
            }
        };
        if definition.dead_letter_index.starts_with(dead_letter::PREFIX) {
            let made = self
                .destination
                .create_template(dead_letter::TEMPLATE, &dead_letter::template())
                .await;
            if let Err(error) = made {
                tracing::warn!(pipeline = id, %error, "cannot create the template of dead letters");
            }
        }
        let stage = Stage {
            scope,
            steps,
            windows,
            queried,
        };
        EntryState::Running(self.run(id, definition.clone(), stage))
    }

    fn run(&self, id: &str, definition: Definition, stage: Stage) -> Running {
        let Stage {
            scope,
            steps,
            windows,
            queried,
        } = stage;
        let (stop, stopped) = watch::channel(false);
        let source_counters = Arc::new(SourceCounters::default());
        let positions = Arc::new(SourcePositions {
            destination: Arc::clone(&self.destination),
            source: id.to_owned(),
        });
        let counters = Arc::new(Counters::default());
        let (output, batches) = channel(
            BYTES_MAX,
            positions,
            Arc::clone(&source_counters),
            Arc::clone(&self.clock),
            stopped.clone(),
        );
        let writer = Arc::new(Writer {
            destination: Arc::clone(&self.destination),
            coverage: CoverageLedger::new(&steps.id, &self.destination, &self.clock),
            scope,
            steps,
            windows: windows.clone(),
            counters: Arc::clone(&counters),
            alerts_stored: Arc::clone(&self.alerts_stored),
            stopped: stopped.clone(),
        });
        let pushed = definition.source.is_pushed().then(|| output.clone());
        let open_source: OpenSource = match &pushed {
            Some(_) => Arc::new(|_| Ok(Box::new(PushedSource))),
            None => Arc::clone(&self.connectors.open_source),
        };
        let mut tasks = vec![
            worker::run_source(definition, open_source, Arc::clone(&writer), output),
            tokio::spawn(worker::process(Arc::clone(&writer), Arc::clone(&self.pool), batches)),
            tokio::spawn(refresh_tables(
                Arc::clone(&writer),
                Arc::clone(&self.clock),
                stopped.clone(),
            )),
        ];
        tasks.extend(windows.map(|windows| tokio::spawn(windows.run(stopped.clone()))));
        tasks.extend(queried.into_iter().map(|table| {
            let (id, clock) = (Arc::clone(&writer.steps.id), Arc::clone(&self.clock));
            tokio::spawn(table.follow(id, clock, stopped.clone()))
        }));
        Running {
            counters,
            source_counters,
            pushed,
            writer,
            stop,
            tasks,
        }
    }
}

async fn refresh_tables(writer: Arc<Writer>, clock: Clock, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(TABLES_EVERY) => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        let (steps, now_ms) = (Arc::clone(&writer.steps), clock() / 1_000_000);
        let _ = tokio::task::spawn_blocking(move || steps.refresh_tables(now_ms)).await;
    }
}

pub(super) fn tables_of(queried: &[QueriedTable]) -> Tables {
    let mut tables = Tables::default();
    for table in queried {
        tables.insert(Arc::clone(&table.handle));
    }
    tables
}

/// Tries to start a pipeline that waits for its tables until it runs, is refused or is replaced.
pub(super) async fn start_with_queries(runner: Weak<Runner>, id: String, body: Arc<Map<String, Value>>) {
    let mut pause = LOAD_AGAIN_AFTER;
    while let Some(runner) = runner.upgrade() {
        if !runner.start_waiting(&id, &body).await {
            return;
        }
        drop(runner);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOAD_AGAIN_AFTER_MAX);
    }
}
