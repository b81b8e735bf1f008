//! `_slm`: snapshot lifecycle policies and their results.

use std::sync::Arc;

use firn_engine::{Error, ErrorKind};
use firn_model::dates::{DateFormat, Zone};
use firn_model::ilm::OperationMode;
use firn_model::metadata::{Command, SlmCommand};
use firn_model::names::matches_pattern;
use firn_model::slm::{Invocation, PolicyStats, StoredSnapshotPolicy};
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

async fn execute(edge: &Edge, call: &Call, command: SlmCommand) -> Result<(), ApiError> {
    edge.engine.execute(&call.ctx, Command::Slm(command)).await?;
    Ok(())
}

/// `PUT /_slm/policy/{id}`.
pub(crate) async fn put_policy(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let policy = call.required_json()?;
    let id = call.capture("id").to_owned();
    execute(&edge, &call, SlmCommand::PutPolicy { id, policy }).await?;
    Ok(Reply::acknowledged())
}

/// `DELETE /_slm/policy/{id}`; snapshots of the policy remain.
pub(crate) async fn delete_policy(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let id = call.capture("id").to_owned();
    execute(&edge, &call, SlmCommand::DeletePolicy { id }).await?;
    Ok(Reply::acknowledged())
}

/// `GET /_slm/policy[/{id}]`.
pub(crate) async fn get_policy(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let wanted = call.captured("id").map(split_list).unwrap_or_default();
    let human = call.params.flag("human")?.unwrap_or(false);
    let now_ms = edge.now_ms();
    let answer: Map<String, Value> = metadata
        .slm
        .by_id
        .iter()
        .filter(|(id, _)| wanted.is_empty() || wanted.iter().any(|pattern| matches_pattern(pattern, id)))
        .map(|(id, stored)| (id.clone(), print(id, stored, now_ms, human)))
        .collect();
    let missing = wanted.iter().find(|id| !id.contains('*') && !answer.contains_key(*id));
    match missing {
        Some(id) => Err(missing_policy(id, metadata.slm.by_id.is_empty()).into()),
        None => Ok(Reply::ok(&Value::Object(answer))),
    }
}

fn missing_policy(id: &str, is_none_there: bool) -> Error {
    let more = if is_none_there {
        ", no policies are configured"
    } else {
        ""
    };
    let reason = format!("snapshot lifecycle policy or policies [{id}] not found{more}");
    Error::new(ErrorKind::ResourceNotFound, reason)
}

fn print(id: &str, stored: &StoredSnapshotPolicy, now_ms: i64, human: bool) -> Value {
    let mut out = json!({"version": stored.version, "policy": stored.policy.print()});
    put_date(&mut out, "modified_date", stored.modified_ms, human);
    if let Some(last) = &stored.last_success {
        out["last_success"] = invocation(last, human);
    }
    if let Some(last) = &stored.last_failure {
        out["last_failure"] = invocation(last, human);
    }
    let next = stored.policy.schedule.next_after(now_ms, stored.modified_ms);
    put_date(&mut out, "next_execution", next.unwrap_or(-1), human);
    if let Some((name, start_ms)) = &stored.running {
        out["in_progress"] = json!({"name": name, "state": "STARTED"});
        put_date(&mut out["in_progress"], "start_time", *start_ms, human);
    }
    out["stats"] = stats_of(id, &stored.stats);
    out
}

fn put_date(out: &mut Value, name: &str, ms: i64, human: bool) {
    if human {
        out[name] = DateFormat::default_millis().print_ms(ms, &Zone::utc()).into();
    }
    out[format!("{name}_millis")] = ms.into();
}

fn invocation(invocation: &Invocation, human: bool) -> Value {
    let mut out = json!({"snapshot_name": invocation.snapshot});
    for (name, ms) in [("start_time", invocation.start_ms), ("time", invocation.end_ms)] {
        if human {
            out[format!("{name}_string")] = DateFormat::default_millis().print_ms(ms, &Zone::utc()).into();
        }
        out[name] = ms.into();
    }
    if let Some(details) = &invocation.details {
        out["details"] = details.as_str().into();
    }
    out
}

fn stats_of(id: &str, stats: &PolicyStats) -> Value {
    json!({
        "policy": id,
        "snapshots_taken": stats.taken,
        "snapshots_failed": stats.failed,
        "snapshots_deleted": stats.deleted,
        "snapshot_deletion_failures": stats.deletion_failures,
    })
}

/// `GET /_slm/stats`.
pub(crate) async fn stats(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    let policies = &metadata.slm.by_id;
    let total = |number: fn(&PolicyStats) -> u64| policies.values().map(|stored| number(&stored.stats)).sum::<u64>();
    let retention = &metadata.slm.retention;
    let by_policy: Vec<Value> = policies
        .iter()
        .map(|(id, stored)| stats_of(id, &stored.stats))
        .collect();
    Ok(Reply::ok(&json!({
        "retention_runs": retention.runs,
        "retention_failed": retention.failed,
        "retention_timed_out": 0,
        "retention_deletion_time": format!("{}ms", retention.deletion_ms),
        "retention_deletion_time_millis": retention.deletion_ms,
        "total_snapshots_taken": total(|stats| stats.taken),
        "total_snapshots_failed": total(|stats| stats.failed),
        "total_snapshots_deleted": total(|stats| stats.deleted),
        "total_snapshot_deletion_failures": total(|stats| stats.deletion_failures),
        "policy_stats": by_policy,
    })))
}

/// `GET /_slm/status`.
pub(crate) async fn status(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let metadata = edge.metadata(&call).await?;
    Ok(Reply::ok(&json!({"operation_mode": metadata.slm.mode.as_str()})))
}

/// `POST /_slm/start`.
pub(crate) async fn start(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mode = OperationMode::Running;
    execute(&edge, &call, SlmCommand::SetMode { mode }).await?;
    Ok(Reply::acknowledged())
}

/// `POST /_slm/stop`: a running snapshot completes, no further one starts.
pub(crate) async fn stop(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mode = OperationMode::Stopped;
    execute(&edge, &call, SlmCommand::SetMode { mode }).await?;
    Ok(Reply::acknowledged())
}

/// `PUT /_slm/policy/{id}/_execute`: starts a snapshot now and returns its name.
pub(crate) async fn run_policy(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let slm = Arc::clone(edge.config.slm()?);
    let id = call.capture("id").to_owned();
    let snapshot = slm.begin(&id).await?;
    let answer = json!({"snapshot_name": snapshot});
    tokio::spawn(async move {
        if let Err(error) = slm.finish(&id, &snapshot).await {
            tracing::warn!(policy = id, snapshot, %error, "cannot record the result of a snapshot");
        }
    });
    Ok(Reply::ok(&answer))
}

/// `POST /_slm/_execute_retention`: starts retention.
pub(crate) async fn run_retention(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    drop(call);
    let slm = Arc::clone(edge.config.slm()?);
    tokio::spawn(async move {
        if let Err(error) = slm.apply_retention().await {
            tracing::warn!(%error, "cannot remove expired snapshots");
        }
    });
    Ok(Reply::acknowledged())
}
