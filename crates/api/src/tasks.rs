//! The requests that run now: what `_tasks` lists and cancels.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use firn_engine::{Cancel, Error, ErrorKind, Lasting, RequestContext};
use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::reply::Reply;
use crate::request::{Call, Edge};

/// Running requests by number.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    next: AtomicU64,
    running: Mutex<BTreeMap<u64, Task>>,
}

/// One running request.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    id: u64,
    action: &'static str,
    description: String,
    started_ms: i64,
    started: Instant,
    opaque_id: Option<String>,
    cancel: Cancel,
}

/// Takes the task from the list, and raises its cancel flag, when the request ends: after an
/// answer nobody looks at the flag, and when the client has gone away the work must stop.
#[derive(Debug)]
pub(crate) struct TaskGuard {
    tasks: Arc<Tasks>,
    id: u64,
    cancel: Cancel,
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.tasks.lock().remove(&self.id);
    }
}

impl Tasks {
    /// Lists a request until the guard is dropped.
    pub(crate) fn start(
        self: &Arc<Self>,
        action: &'static str,
        description: String,
        started_ms: i64,
        ctx: &RequestContext,
    ) -> TaskGuard {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let task = Task {
            id,
            action,
            description,
            started_ms,
            started: ctx.started,
            opaque_id: ctx.opaque_id.clone(),
            cancel: ctx.cancel.clone(),
        };
        self.lock().insert(id, task);
        TaskGuard {
            tasks: Arc::clone(self),
            id,
            cancel: ctx.cancel.clone(),
        }
    }

    /// Lists what outlives its request, until the engine has done with it. Its flag is its own.
    pub(crate) fn lasting(
        self: &Arc<Self>,
        action: &'static str,
        description: String,
        started_ms: i64,
        ctx: &RequestContext,
    ) -> Lasting {
        let own = RequestContext {
            cancel: Cancel::default(),
            ..ctx.clone()
        };
        let guard = self.start(action, description, started_ms, &own);
        Lasting::new(own.cancel, guard)
    }

    /// How many tasks of an action there are.
    pub(crate) fn count(&self, action: &str) -> usize {
        self.lock().values().filter(|task| task.action == action).count()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Task>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn matching(&self, actions: Option<&[String]>) -> Vec<Task> {
        let tasks: Vec<Task> = self.lock().values().cloned().collect();
        tasks
            .into_iter()
            .filter(|task| {
                actions.is_none_or(|actions| {
                    actions
                        .iter()
                        .any(|pattern| firn_model::names::matches_pattern(pattern, task.action))
                })
            })
            .collect()
    }
}

impl Task {
    fn print(&self, node_id: &str, detailed: bool) -> Value {
        let mut headers = Map::new();
        if let Some(opaque_id) = &self.opaque_id {
            headers.insert("X-Opaque-Id".into(), opaque_id.as_str().into());
        }
        let mut object = json!({
            "node": node_id,
            "id": self.id,
            "type": "transport",
            "action": self.action,
            "start_time_in_millis": self.started_ms,
            "running_time_in_nanos": self.started.elapsed().as_nanos() as u64,
            "cancellable": true,
            "cancelled": self.cancel.is_cancelled(),
            "headers": headers,
        });
        if detailed {
            object["description"] = self.description.as_str().into();
        }
        object
    }
}

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
                nodes.insert(
                    node_id.clone(),
                    json!({
                        "name": edge.config.node_name,
                        "host": edge.host(),
                        "ip": edge.config.http_address,
                        "tasks": entries,
                    }),
                );
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
    let id = task_id(&edge, call.capture("task_id"))?;
    let task = edge.tasks.lock().get(&id).cloned();
    let Some(task) = task else {
        return Err(missing(call.capture("task_id")).into());
    };
    Ok(Reply::ok(
        &json!({"completed": false, "task": task.print(&edge.config.node_id, true)}),
    ))
}

/// `POST /_tasks/_cancel` and `POST /_tasks/{id}/_cancel`.
pub(crate) async fn cancel(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let tasks = match call.captured("task_id") {
        Some(text) => {
            let id = task_id(&edge, text)?;
            let task = edge.tasks.lock().get(&id).cloned();
            vec![task.ok_or_else(|| missing(text))?]
        }
        None => {
            let actions = call.params.list("actions");
            let mut tasks = edge.tasks.matching(actions.as_deref());
            // The request that cancels is itself a task.
            tasks.retain(|task| task.action != CANCEL_ACTION);
            tasks
        }
    };
    for task in &tasks {
        task.cancel.cancel();
    }
    Ok(Reply::ok(&list(&edge, &tasks, &call)?))
}

impl Call {
    /// The context of work that goes on when this request is answered, listed as `action`.
    pub(crate) fn lasting(&self, edge: &Edge, action: &'static str, description: String) -> RequestContext {
        let lasting = edge.tasks.lasting(action, description, edge.now_ms(), &self.ctx);
        RequestContext {
            lasting: Some(lasting),
            ..self.ctx.clone()
        }
    }
}

/// The action of `_cancel` itself.
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
