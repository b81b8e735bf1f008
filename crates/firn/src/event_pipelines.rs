//! Event pipelines of the server: the runner, which follows the definitions in the catalog.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firn_detect::{MaintenanceWindow, MaintenanceWindows};
use firn_engine::{Engine, Error, RequestContext, Result};
use firn_kafka::KafkaSource;
use firn_model::metadata::PipelineBodies;
use firn_notify::{Channel, Notifier};
use firn_pipeline::definition::{Definition, SourceDefinition};
use firn_pipeline::rule_budget::RuleBudgets;
use firn_pipeline::rule_history;
use firn_pipeline::runner::{Connectors, EngineDestination, Runner};
use firn_pipeline::sources::{self, Source};
use firn_postgresql::PostgresqlQuery;
use tokio::task::JoinHandle;

/// How often the definitions are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Attempts at reading the pauses of rules after the start.
const RESTORE_ATTEMPTS: u32 = 20;

/// Creates the runner; its pipelines run once [`follow`] runs.
pub(crate) fn runner(engine: &Arc<dyn Engine>, budget: &Arc<RuleBudgets>) -> Arc<Runner> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let destination = EngineDestination::new(Arc::clone(engine));
    let its = Arc::clone(engine);
    let connectors = Connectors {
        open_source: Arc::new(move |definition| match &definition.source {
            SourceDefinition::Index(_) => sources::open_indices(&its, definition),
            _ => open_source(definition),
        }),
        ..connectors()
    };
    Runner::with_budget(
        destination,
        connectors,
        Arc::new(now_ns),
        threads,
        Some(Arc::clone(budget)),
    )
}

/// Returns what pipelines of this program can connect to without an engine.
pub(crate) fn connectors() -> Connectors {
    Connectors {
        open_source: Arc::new(open_source),
        open_query: Arc::new(PostgresqlQuery::of_definition),
    }
}

/// Makes the source of a definition, Kafka's included.
pub(crate) fn open_source(definition: &Definition) -> Result<Box<dyn Source>> {
    match &definition.source {
        SourceDefinition::Kafka(kafka) => KafkaSource::of_definition(kafka),
        other => sources::open(other),
    }
}

/// Appends the counts of events in Prometheus' text format.
pub(crate) fn write_metrics(runner: &Runner, text: &mut String) {
    let counts = runner.event_counts();
    if counts.is_empty() {
        return;
    }
    text.push_str(
        "# HELP firn_pipeline_events_total Events of event pipelines, by outcome; read is their sum with those in flight.\n\
         # TYPE firn_pipeline_events_total counter\n",
    );
    for (id, events) in &counts {
        let id = id.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        for (outcome, count) in [
            ("read", events.read),
            ("indexed", events.indexed),
            ("filtered", events.filtered),
            ("dead_lettered", events.dead_lettered),
            ("refused", events.refused),
        ] {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "firn_pipeline_events_total{{pipeline=\"{id}\",outcome=\"{outcome}\"}} {count}"
            );
        }
    }
}

/// Starts and stops pipelines, rules, alert channels and maintenance windows as their definitions change.
pub(crate) fn follow(runner: Arc<Runner>, notifier: Arc<Notifier>, engine: Arc<dyn Engine>) -> JoinHandle<()> {
    tokio::spawn(async move {
        restore_pauses(&runner, &*engine).await;
        let mut applied = None;
        let mut applied_rules: Option<(Arc<PipelineBodies>, Arc<PipelineBodies>)> = None;
        let mut applied_channels = None;
        let mut applied_windows: Option<Arc<PipelineBodies>> = None;
        loop {
            // The read fails only while the engine closes.
            if let Ok(metadata) = engine.metadata(&RequestContext::new()).await {
                let windows = &metadata.maintenance_windows;
                if applied_windows
                    .as_ref()
                    .is_none_or(|applied| !Arc::ptr_eq(applied, windows))
                {
                    let usable = Arc::new(usable_windows(windows));
                    runner.set_maintenance_windows(Arc::clone(&usable));
                    notifier.set_maintenance_windows(usable);
                    applied_windows = Some(Arc::clone(windows));
                }
                // First: a pipeline that runs without its rules would miss events.
                let (rules, channels) = (&metadata.detection_rules, &metadata.alert_channels);
                let are_applied = applied_rules.as_ref().is_some_and(|(applied_rules, applied_channels)| {
                    Arc::ptr_eq(applied_rules, rules) && Arc::ptr_eq(applied_channels, channels)
                });
                if !are_applied {
                    match set_rules(&runner, Arc::clone(rules), channels).await {
                        Ok(()) => applied_rules = Some((Arc::clone(rules), Arc::clone(channels))),
                        Err(error) => {
                            tracing::warn!(%error, "cannot apply the detection rules; retrying");
                            tokio::time::sleep(LOOK_EVERY).await;
                            continue;
                        }
                    }
                }
                let wanted = &metadata.event_pipelines;
                if applied.as_ref().is_none_or(|applied| !Arc::ptr_eq(applied, wanted)) {
                    runner.apply(&wanted.by_id).await;
                    applied = Some(Arc::clone(wanted));
                }
                if applied_channels
                    .as_ref()
                    .is_none_or(|applied| !Arc::ptr_eq(applied, channels))
                {
                    notifier.apply(&channels.by_id).await;
                    applied_channels = Some(Arc::clone(channels));
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    })
}

/// Goes on with the pauses of rules, before the first event is evaluated. If they cannot be read, pipelines start without them.
async fn restore_pauses(runner: &Runner, engine: &dyn Engine) {
    let Some(budget) = runner.budget() else { return };
    for attempt in 1..=RESTORE_ATTEMPTS {
        match rule_history::restore_pauses(engine, &budget).await {
            Ok(()) => return,
            Err(error) if attempt == RESTORE_ATTEMPTS => {
                tracing::warn!(%error, "the pauses of detection rules cannot be read: the rules are evaluated");
            }
            Err(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

fn usable_windows(bodies: &PipelineBodies) -> MaintenanceWindows {
    let mut windows = Vec::with_capacity(bodies.by_id.len());
    for (id, body) in &bodies.by_id {
        match MaintenanceWindow::parse(id, body) {
            Ok(window) => windows.push(window),
            // It was stored by another build.
            Err(error) => tracing::error!("a maintenance window is invalid, so alerts are delivered: {error}"),
        }
    }
    MaintenanceWindows::new(windows)
}

/// Hands the rules of the catalog to the runner, and whose alerts the channels get.
async fn set_rules(runner: &Arc<Runner>, bodies: Arc<PipelineBodies>, channels: &PipelineBodies) -> Result<()> {
    // The notifier shows those that cannot be used.
    let usable = channels
        .by_id
        .iter()
        .filter_map(|(id, body)| Channel::parse(id, body).ok());
    let audiences = usable.map(|channel| channel.audience()).collect();
    let parsed = runner.parsed_rules();
    let read = move || {
        let mut rules = Vec::with_capacity(bodies.by_id.len());
        for (_, rule) in parsed.of_all(bodies.by_id.iter()) {
            match rule {
                Ok(rule) => rules.push(rule),
                // It was stored by another build.
                Err(error) => tracing::error!("a detection rule is invalid and is not evaluated: {error}"),
            }
        }
        rules
    };
    let rules = tokio::task::spawn_blocking(read).await;
    let rules = rules.map_err(|_| Error::internal("detection rules failed because of a bug, see the log"))?;
    runner.set_rules(rules, audiences).await
}

/// The wall clock, nanoseconds since the epoch.
pub(crate) fn now_ns() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| elapsed.as_nanos() as i64)
}
