//! `_tasks`: lists and cancels running requests.
//!
//! Operators reach all tasks. Other callers reach by id the tasks that they started; an admin of a tenant reaches all
//! tasks of the tenant. Tasks of others do not exist for them.

use std::sync::Arc;
use std::time::Duration;

use firn_auth::Privilege;
use firn_engine::{Error, ErrorKind};
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::disclosure;
use crate::state::edge::Edge;
use crate::state::tasks::Task;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Default of `timeout` for `wait_for_completion`, as in Elasticsearch.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);
/// Polling interval while waiting.
const LOOK: Duration = Duration::from_millis(50);

fn list(edge: &Edge, tasks: &[Task], call: &Call) -> Result<Value, ApiError> {
    let node_id = &edge.config.node_id;
    let detailed = call.params.bool("detailed", false)?;
    let entries: Map<String, Value> = tasks
        .iter()
        .map(|task| (format!("{node_id}:{}", task.id), task.print(node_id, detailed)))
        .collect();
    match call.params.get("group_by").unwrap_or("nodes") {
        "nodes" => {
            let mut nodes = Map::new();
            if !entries.is_empty() {
                let mut node = json!({"name": edge.config.node_name, "tasks": entries});
                if disclosure::shows_address(&call.identity) {
                    node["host"] = edge.host().into();
                    node["ip"] = edge.config.http_address.as_str().into();
                }
                nodes.insert(node_id.clone(), node);
            }
            Ok(json!({"nodes": nodes}))
        }
        "parents" => Ok(json!({"tasks": entries})),
        "none" => Ok(json!({"tasks": entries.into_values().collect::<Vec<_>>()})),
        other => Err(Error::illegal_argument(format!("unknown group_by [{other}]")).into()),
    }
}

/// `GET /_tasks`.
pub(crate) async fn list_tasks(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let actions = call.params.list("actions");
    let tasks = edge.tasks.matching(actions.as_deref());
    Ok(Reply::ok(&list(&edge, &tasks, &call)?))
}

/// `GET /_tasks/{id}`.
pub(crate) async fn get_task(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let text = call.capture("task_id");
    let id = task_id(&edge, text)?;
    let running = || {
        let task = edge.tasks.running(id);
        task.filter(|task| call.reaches(&task.asker, Privilege::Monitor))
    };
    let mut task = running();
    if call.params.bool("wait_for_completion", false)? {
        let patience = call.params.duration("timeout")?.unwrap_or(WAIT_DEFAULT);
        while task.is_some() {
            if call.ctx.started.elapsed() >= patience {
                let reason = format!("Timed out waiting for completion of [{text}]");
                return Err(Error::new(ErrorKind::Timeout, reason).into());
            }
            tokio::time::sleep(LOOK).await;
            task = running();
        }
    }
    if let Some(task) = task {
        return Ok(Reply::ok(
            &json!({"completed": false, "task": task.print(&edge.config.node_id, true)}),
        ));
    }
    let done = edge.tasks.result(id);
    let done = done.filter(|done| call.reaches(&done.asker, Privilege::Monitor));
    Ok(Reply::ok(&done.ok_or_else(|| missing(text))?.answer))
}

/// `POST /_tasks/_cancel`.
pub(crate) async fn cancel_tasks(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let actions = call.params.list("actions");
    let mut tasks = edge.tasks.matching(actions.as_deref());
    // The cancelling request is itself a task.
    tasks.retain(|task| task.action != CANCEL_ACTION);
    cancel(&edge, &call, &tasks)
}

/// `POST /_tasks/{id}/_cancel`.
pub(crate) async fn cancel_task(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let text = call.capture("task_id");
    let id = task_id(&edge, text)?;
    let task = edge.tasks.running(id);
    let task = task.filter(|task| call.reaches(&task.asker, Privilege::ManageCluster));
    cancel(&edge, &call, &[task.ok_or_else(|| missing(text))?])
}

fn cancel(edge: &Edge, call: &Call, tasks: &[Task]) -> Result<Reply, ApiError> {
    for task in tasks {
        task.cancel.cancel();
    }
    Ok(Reply::ok(&list(edge, tasks, call)?))
}

/// Action of `_cancel` itself.
pub(crate) const CANCEL_ACTION: &str = "cluster:admin/tasks/cancel";

fn missing(text: &str) -> Error {
    Error::new(
        ErrorKind::ResourceNotFound,
        format!("task [{text}] isn't running and hasn't stored its results"),
    )
}

fn task_id(edge: &Edge, text: &str) -> Result<u64, Error> {
    let (node, number) = text
        .rsplit_once(':')
        .ok_or_else(|| Error::illegal_argument(format!("malformed task id {text}")))?;
    let id = number
        .parse()
        .map_err(|_| Error::illegal_argument(format!("malformed task id {text}")))?;
    if node != edge.config.node_id {
        return Err(Error::new(
            ErrorKind::ResourceNotFound,
            format!("task [{text}] belongs to the node [{node}] which isn't part of the cluster"),
        ));
    }
    Ok(id)
}
