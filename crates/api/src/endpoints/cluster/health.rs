//! `_cluster/health`.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::admin::IndexStats;
use firn_engine::{Error, RequestContext};
use firn_model::metadata::{self, Metadata};
use firn_model::names::IndicesOptions;
use firn_query::search::IndexTarget;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::quarantine;
use crate::endpoints::stats::{self, ShardState};
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::{Params, split_list};
use crate::wire::reply::Reply;

/// Default timeout of Elasticsearch.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Polling interval while waiting.
const POLL: Duration = Duration::from_millis(100);

/// Status, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    Green,
    Yellow,
    Red,
}

impl Status {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Yellow => "yellow",
            Self::Red => "red",
        }
    }

    fn parse(text: &str) -> Result<Self, Error> {
        match text.to_ascii_lowercase().as_str() {
            "green" => Ok(Self::Green),
            "yellow" => Ok(Self::Yellow),
            "red" => Ok(Self::Red),
            other => Err(Error::illegal_argument(format!(
                "unknown cluster health status [{other}]"
            ))),
        }
    }
}

/// Health of some indices.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    pub(crate) status: Status,
    /// Serving shards; each is a primary.
    pub(crate) active: u64,
    /// Shards that are opening.
    pub(crate) initializing: u64,
    /// Other shards that do not serve, and configured replicas, which one node does not have.
    pub(crate) unassigned: u64,
    unassigned_primaries: u64,
    indices: Vec<IndexHealth>,
    /// Reasons other than shards why the cluster is not green.
    reasons: Vec<String>,
}

#[derive(Debug, Clone)]
struct IndexHealth {
    name: String,
    status: Status,
    replicas: u32,
    shards: Vec<(u32, ShardState)>,
}

impl IndexHealth {
    fn count(&self, state: ShardState) -> u64 {
        self.shards.iter().filter(|(_, shard)| *shard == state).count() as u64
    }

    /// Configured replicas, which one node does not have.
    fn missing_replicas(&self) -> u64 {
        self.shards.len() as u64 * u64::from(self.replicas)
    }
}

/// Reads the state of all shards of a target.
pub(crate) async fn look(
    edge: &Edge,
    ctx: &RequestContext,
    target: IndexTarget,
    metadata: &Metadata,
) -> Result<Health, ApiError> {
    let indices = edge.engine.stats(ctx, target).await?;
    let mut health = Health {
        status: Status::Green,
        active: 0,
        initializing: 0,
        unassigned: 0,
        unassigned_primaries: 0,
        indices: Vec::with_capacity(indices.len()),
        reasons: Vec::new(),
    };
    for index in &indices {
        let index = of_index(index, metadata);
        let broken = index.count(ShardState::Unassigned);
        health.active += index.count(ShardState::Started);
        health.initializing += index.count(ShardState::Initializing);
        health.unassigned_primaries += broken;
        health.unassigned += broken + index.missing_replicas();
        health.status = health.status.max(index.status);
        health.indices.push(index);
    }
    Ok(health)
}

fn of_index(index: &IndexStats, metadata: &Metadata) -> IndexHealth {
    let replicas = stats::replicas(metadata, &index.index);
    let status = match stats::health(index, replicas) {
        "red" => Status::Red,
        "yellow" => Status::Yellow,
        _ => Status::Green,
    };
    IndexHealth {
        name: index.index.clone(),
        status,
        replicas,
        shards: index
            .shards
            .iter()
            .map(|shard| (shard.shard, ShardState::of(shard)))
            .collect(),
    }
}

/// Conditions that a request waits for.
struct Wait {
    status: Option<Status>,
    active_shards: ActiveShards,
    nodes: bool,
    no_initializing: bool,
    timeout: Duration,
}

enum ActiveShards {
    Count(u64),
    All,
}

impl Wait {
    fn parse(params: &Params) -> Result<Self, Error> {
        // One node relocates no shards and applies events at once.
        params.flag("wait_for_no_relocating_shards")?;
        match params.get("wait_for_events") {
            None | Some("immediate" | "urgent" | "high" | "normal" | "low" | "languid") => {}
            Some(other) => {
                return Err(Error::illegal_argument(format!(
                    "No enum constant [{other}] for [wait_for_events]"
                )));
            }
        }
        Ok(Self {
            status: params.get("wait_for_status").map(Status::parse).transpose()?,
            active_shards: match params.get("wait_for_active_shards") {
                None => ActiveShards::Count(0),
                Some("all") => ActiveShards::All,
                Some(text) => ActiveShards::Count(
                    text.parse()
                        .map_err(|_| Error::illegal_argument(format!("cannot parse ActiveShardCount[{text}]")))?,
                ),
            },
            nodes: nodes_there(params.get("wait_for_nodes"))?,
            no_initializing: params.flag("wait_for_no_initializing_shards")? == Some(true),
            timeout: params.duration("timeout")?.unwrap_or(TIMEOUT),
        })
    }

    fn is_over(&self, health: &Health) -> bool {
        let active = match self.active_shards {
            ActiveShards::Count(count) => health.active >= count,
            ActiveShards::All => health.unassigned + health.initializing == 0,
        };
        let initialized = !self.no_initializing || health.initializing == 0;
        self.nodes && active && initialized && self.status.is_none_or(|status| health.status <= status)
    }
}

/// Returns whether one node satisfies `wait_for_nodes` (`1`, `>=2`, `le(3)`).
fn nodes_there(text: Option<&str>) -> Result<bool, Error> {
    let Some(text) = text else { return Ok(true) };
    let bad = || Error::illegal_argument(format!("cannot parse [wait_for_nodes] with the value [{text}]"));
    let (operator, number) = if let Some(inner) = text.strip_suffix(')') {
        inner.split_once('(').ok_or_else(bad)?
    } else {
        let start = text
            .find(|character: char| character.is_ascii_digit())
            .ok_or_else(bad)?;
        text.split_at(start)
    };
    let number: u64 = number.parse().map_err(|_| bad())?;
    match operator {
        "" => Ok(number == 1),
        ">=" | "ge" => Ok(1 >= number),
        "<=" | "le" => Ok(1 <= number),
        ">" | "gt" => Ok(1 > number),
        "<" | "lt" => Ok(1 < number),
        _ => Err(bad()),
    }
}

/// `GET /_cluster/health[/{index}]`.
pub(crate) async fn health(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let params = &call.params;
    let level = params.get("level").unwrap_or("cluster");
    if !matches!(level, "cluster" | "indices" | "shards") {
        return Err(Error::illegal_argument(format!(
            "level parameter must be one of [cluster] or [indices] or [shards] but was [{level}]"
        ))
        .into());
    }
    let wait = Wait::parse(params)?;
    let options = params.indices_options(IndicesOptions {
        ignore_unavailable: true,
        expand_closed: true,
        expand_hidden: true,
        ..IndicesOptions::default()
    })?;
    let target = IndexTarget {
        expression: call.captured("index").map(split_list).unwrap_or_default(),
        options,
    };
    let (health, timed_out) = loop {
        let metadata = edge.metadata(&call).await?;
        let mut health = look(&edge, &call.ctx, target.clone(), &metadata).await?;
        // A missing name without wildcards may still be created.
        let missing = target
            .expression
            .iter()
            .any(|part| !part.contains('*') && part != "_all" && is_missing(part, &metadata, edge.now_ms()));
        if missing {
            health.status = Status::Red;
        }
        if target.expression.is_empty()
            && let Some(reason) = quarantine::health_reason(&edge, &call.ctx)
        {
            health.status = health.status.max(Status::Yellow);
            health.reasons.push(reason);
        }
        if !missing && wait.is_over(&health) {
            break (health, false);
        }
        let left = wait.timeout.saturating_sub(call.ctx.started.elapsed());
        if left.is_zero() {
            break (health, true);
        }
        call.ctx.check()?;
        tokio::time::sleep(left.min(POLL)).await;
    };
    let mut answer = print(&edge, &health, timed_out);
    if !health.reasons.is_empty() {
        answer["reasons"] = json!(health.reasons);
    }
    if level != "cluster" {
        answer["indices"] = print_indices(&health, level == "shards");
    }
    let status = if timed_out {
        StatusCode::REQUEST_TIMEOUT
    } else {
        StatusCode::OK
    };
    Ok(Reply::json(status, &answer))
}

fn is_missing(name: &str, metadata: &Metadata, now_ms: i64) -> bool {
    let options = IndicesOptions {
        expand_closed: true,
        ..IndicesOptions::default()
    };
    metadata::resolve(&[name.to_owned()], options, metadata, now_ms).is_err()
}

/// Returns the percentage of serving shards.
pub(crate) fn active_percent(health: &Health) -> f64 {
    let all = health.active + health.initializing + health.unassigned;
    if all == 0 {
        100.0
    } else {
        health.active as f64 * 100.0 / all as f64
    }
}

fn print(edge: &Edge, health: &Health, timed_out: bool) -> Value {
    json!({
        "cluster_name": edge.config.cluster_name,
        "status": health.status.name(),
        "timed_out": timed_out,
        "number_of_nodes": 1,
        "number_of_data_nodes": 1,
        "active_primary_shards": health.active,
        "active_shards": health.active,
        "relocating_shards": 0,
        "initializing_shards": health.initializing,
        "unassigned_shards": health.unassigned,
        "unassigned_primary_shards": health.unassigned_primaries,
        "delayed_unassigned_shards": 0,
        "number_of_pending_tasks": 0,
        "number_of_in_flight_fetch": 0,
        "task_max_waiting_in_queue_millis": 0,
        "active_shards_percent_as_number": active_percent(health),
    })
}

fn print_indices(health: &Health, shards: bool) -> Value {
    let mut indices = Map::new();
    for index in &health.indices {
        let active = index.count(ShardState::Started);
        let broken = index.count(ShardState::Unassigned);
        let mut object = json!({
            "status": index.status.name(),
            "number_of_shards": index.shards.len(),
            "number_of_replicas": index.replicas,
            "active_primary_shards": active,
            "active_shards": active,
            "relocating_shards": 0,
            "initializing_shards": index.count(ShardState::Initializing),
            "unassigned_shards": broken + index.missing_replicas(),
            "unassigned_primary_shards": broken,
        });
        if shards {
            let printed: Map<String, Value> = index
                .shards
                .iter()
                .map(|(shard, state)| {
                    let active = *state == ShardState::Started;
                    let broken = *state == ShardState::Unassigned;
                    let status = match (active, index.replicas) {
                        (false, _) => Status::Red,
                        (true, 0) => Status::Green,
                        (true, _) => Status::Yellow,
                    };
                    let value = json!({
                        "status": status.name(),
                        "primary_active": active,
                        "active_shards": u32::from(active),
                        "relocating_shards": 0,
                        "initializing_shards": u32::from(*state == ShardState::Initializing),
                        "unassigned_shards": u32::from(broken) + index.replicas,
                        "unassigned_primary_shards": u32::from(broken),
                    });
                    (shard.to_string(), value)
                })
                .collect();
            object["shards"] = printed.into();
        }
        indices.insert(index.name.clone(), object);
    }
    Value::Object(indices)
}

#[cfg(test)]
mod tests {
    use super::nodes_there;

    #[test]
    fn one_node_is_there() {
        for (text, expected) in [("1", true), (">=1", true), ("2", false), ("ge(2)", false), ("<3", true)] {
            assert_eq!(nodes_there(Some(text)).unwrap(), expected, "{text}");
        }
        assert!(nodes_there(Some("many")).is_err());
    }
}
