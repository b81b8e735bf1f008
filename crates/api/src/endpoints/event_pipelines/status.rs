//! State of event pipelines: counts of events, positions, errors.

use std::sync::Arc;

use firn_engine::origin::SourcePosition;
use firn_pipeline::runner::{PipelineStatus, RulesStatus, Runner, WindowStatus};
use firn_pipeline::tables::TableStatus;
use serde_json::{Map, Value, json};

use super::{missing, runner};
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

const NANOS_PER_MS: u64 = 1_000_000;

/// `GET /_firn/pipelines/{id}/stats`.
pub(crate) async fn stats(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let id = call.capture("id");
    let status = runner(&edge)?.status(id).await.ok_or_else(|| missing(id))?;
    Ok(Reply::ok(&print(&status)))
}

/// `GET /_firn/pipelines/_stats`: of all pipelines by id.
pub(crate) async fn all_stats(edge: Arc<Edge>, _: Call) -> Result<Reply, ApiError> {
    Ok(Reply::ok(&print_all(runner(&edge)?).await))
}

/// Prints the state of all pipelines of a runner, by id.
pub(crate) async fn print_all(runner: &Runner) -> Value {
    let mut by_id = Map::new();
    for id in runner.ids() {
        // One that was removed meanwhile is left out.
        if let Some(status) = runner.status(&id).await {
            by_id.insert(id, print(&status));
        }
    }
    json!({ "pipelines": by_id })
}

fn print(status: &PipelineStatus) -> Value {
    let events = &status.events;
    let tables: Vec<Value> = status.tables.iter().map(print_table).collect();
    let partitions: Vec<Value> = status.partitions.iter().map(print_partition).collect();
    json!({
        "running": status.running,
        "error": status.error,
        "since_start": {
            "read": events.read,
            "read_bytes": events.read_bytes,
            "indexed": events.indexed,
            "filtered": events.filtered,
            "dead_lettered": events.dead_lettered,
            "refused": events.refused,
            "in_flight": events.in_flight,
        },
        "source": print_source(status),
        "steps": {
            "map_time_in_millis": status.map_nanos / NANOS_PER_MS,
            "write_time_in_millis": status.write_nanos / NANOS_PER_MS,
            "write_retries": status.retries,
        },
        "windows": status.windows.as_ref().map(print_windows),
        "rules": status.rules.as_ref().map(print_rules),
        "tables": tables,
        "partitions": partitions,
    })
}

/// Prints the counters of the source, and its last error.
fn print_source(status: &PipelineStatus) -> Value {
    let counters = status.source.iter();
    let mut source: Map<String, Value> = counters
        .map(|(name, count)| ((*name).to_owned(), json!(count)))
        .collect();
    if let Some(error) = &status.source_last_error {
        source.insert("last_error".to_owned(), error.as_str().into());
    }
    source.into()
}

fn print_windows(windows: &WindowStatus) -> Value {
    let counts = &windows.counts;
    json!({
        "open": counts.open,
        "keys": counts.keys,
        "events": counts.emitted,
        "late_events": counts.late,
        "overflowed_events": counts.overflowed,
        "rejected": windows.rejected,
        "watermark_in_millis": counts.watermark_ms,
        "error": windows.error,
    })
}

fn print_rules(rules: &RulesStatus) -> Value {
    json!({
        "evaluated": rules.evaluated,
        "unmapped": rules.unmapped,
        "alerts": rules.alerts,
    })
}

fn print_table(table: &TableStatus) -> Value {
    json!({
        "name": table.name,
        "version": table.version,
        "age_in_millis": table.age_ms,
        "error": table.error.as_ref().map(ToString::to_string),
    })
}

pub(super) fn print_partition(at: &SourcePosition) -> Value {
    json!({
        "partition": at.partition,
        "resume_offset": at.resume_offset,
        "complete_offset": at.complete_offset,
        "read": at.totals.read(),
        "indexed": at.totals.indexed,
        "filtered": at.totals.filtered,
        "dead_lettered": at.totals.dead_lettered,
    })
}
