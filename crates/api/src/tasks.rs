//! Registry of running requests: `_tasks` lists and cancels them.
//!
//! Operators reach all tasks. Other callers reach by id the tasks that they started; an admin of a tenant reaches all
//! tasks of the tenant. Tasks of others do not exist for them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use firn_auth::Privilege;
use firn_engine::{BackgroundTask, Error, ErrorKind, RequestContext, Scope};
use firn_model::tenant::TenantId;
use firn_query::Cancel;
use serde_json::{Map, Value, json};

use crate::by_query::Progress;
use crate::error::ApiError;
use crate::reply::Reply;
use crate::request::{Call, Edge};

/// Maximum stored results of tasks without a waiting client. Past it the oldest result of the owner with most results
/// is evicted.
const RESULTS_MAX: usize = 200;

/// Default of `timeout` for `wait_for_completion`, as in Elasticsearch.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);
/// Polling interval while waiting.
const LOOK: Duration = Duration::from_millis(50);

/// Running requests by number.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    next: AtomicU64,
    running: Mutex<BTreeMap<u64, Task>>,
    /// Results of completed tasks that ran without a waiting client, until the process ends.
    done: Mutex<BTreeMap<u64, Done>>,
}

/// Result of a completed task, and its owner.
#[derive(Debug, Clone)]
struct Done {
    asker: Arc<Scope>,
    told: Value,
}

/// Running request.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    id: u64,
    action: &'static str,
    description: String,
    started_ms: i64,
    started: Instant,
    opaque_id: Option<String>,
    /// Caller that started it.
    asker: Arc<Scope>,
    cancel: Cancel,
    /// Progress, if the task reports it.
    progress: Option<Arc<Progress>>,
}

/// Removes the task from the list and sets its cancel flag when the request ends. After an answer the flag has no
/// effect; if the client has gone away, the work must stop.
#[derive(Debug)]
pub(crate) struct TaskGuard {
    tasks: Arc<Tasks>,
    id: u64,
    cancel: Cancel,
}

impl TaskGuard {
    /// Number of the task on this node.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
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
            asker: Arc::clone(&ctx.scope),
            cancel: ctx.cancel.clone(),
            progress: None,
        };
        self.lock().insert(id, task);
        TaskGuard {
            tasks: Arc::clone(self),
            id,
            cancel: ctx.cancel.clone(),
        }
    }

    /// Lists work that outlives its request, until the engine has finished it. It has a separate cancel flag.
    pub(crate) fn lasting(
        self: &Arc<Self>,
        action: &'static str,
        description: String,
        started_ms: i64,
        ctx: &RequestContext,
    ) -> BackgroundTask {
        let own = RequestContext {
            cancel: Cancel::default(),
            ..ctx.clone()
        };
        let guard = self.start(action, description, started_ms, &own);
        BackgroundTask::new(own.cancel, guard)
    }

    /// Sets the progress of a task, as long as it is listed.
    pub(crate) fn report(&self, id: u64, progress: &Arc<Progress>) {
        if let Some(task) = self.lock().get_mut(&id) {
            task.progress = Some(Arc::clone(progress));
        }
    }

    /// Completes a task without a waiting client and stores its result: `response` or `error`, with its value.
    pub(crate) fn finish(&self, guard: TaskGuard, node_id: &str, (kind, result): (&str, Value)) {
        let task = self.lock().get(&guard.id).cloned();
        if let Some(task) = task {
            let mut told = json!({"completed": true, "task": task.print(node_id, true)});
            told[kind] = result;
            let asker = task.asker;
            keep(&mut self.done(), guard.id, Done { asker, told });
        }
        // The task leaves the list only after its result is stored, so at every moment it is in one of the two.
        drop(guard);
    }

    fn done(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Done>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels the tasks of a deleted tenant and drops their results.
    pub(crate) fn forget(&self, tenant: &TenantId) {
        for task in self
            .lock()
            .values()
            .filter(|task| task.asker.tenant_id() == Some(tenant))
        {
            task.cancel.cancel();
        }
        self.done().retain(|_, done| done.asker.tenant_id() != Some(tenant));
    }

    /// Returns the number of tasks with an action.
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

/// Stores a result and evicts the oldest of the tenant with most results, so that a tenant with many deletes evicts no
/// results of others.
fn keep(done: &mut BTreeMap<u64, Done>, id: u64, result: Done) {
    done.insert(id, result);
    while done.len() > RESULTS_MAX {
        let tenants = done.values().map(|done| done.asker.tenant_id());
        let mut counts: HashMap<Option<&TenantId>, usize> = HashMap::new();
        tenants.for_each(|tenant| *counts.entry(tenant).or_default() += 1);
        let most = counts.values().max().copied();
        let oldest = done
            .iter()
            .find(|(_, done)| counts.get(&done.asker.tenant_id()).copied() == most)
            .map(|(id, _)| *id);
        oldest.and_then(|id| done.remove(&id));
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
        if let Some(progress) = self.progress.as_ref().filter(|_| detailed) {
            object["status"] = progress.status();
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
                let mut node = json!({"name": edge.config.node_name, "tasks": entries});
                // Only callers with this privilege see the address of the node.
                if call.identity.has(Privilege::Monitor) {
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
        let task = edge.tasks.lock().get(&id).cloned();
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
    let done = edge.tasks.done().get(&id).cloned();
    let done = done.filter(|done| call.reaches(&done.asker, Privilege::Monitor));
    Ok(Reply::ok(&done.ok_or_else(|| missing(text))?.told))
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
    let task = edge.tasks.lock().get(&id).cloned();
    let task = task.filter(|task| call.reaches(&task.asker, Privilege::ManageCluster));
    cancel(&edge, &call, &[task.ok_or_else(|| missing(text))?])
}

fn cancel(edge: &Edge, call: &Call, tasks: &[Task]) -> Result<Reply, ApiError> {
    for task in tasks {
        task.cancel.cancel();
    }
    Ok(Reply::ok(&list(edge, tasks, call)?))
}

impl Call {
    /// Returns whether the caller may access the request of `asker`: as an operator by privilege, as the same caller,
    /// or as an admin of the same tenant.
    pub(crate) fn reaches(&self, asker: &Scope, operators: Privilege) -> bool {
        if self.identity.has(operators) {
            return true;
        }
        let caller = &self.ctx.scope;
        let is_himself = caller.subject().is_some() && caller.subject() == asker.subject();
        let is_admin =
            caller.tenant_id().is_some() && self.identity.has(Privilege::ManageTenant) && !asker.is_viewing();
        caller.tenant_id() == asker.tenant_id() && (is_himself || is_admin)
    }

    /// Creates the context of work that continues after this request is answered, listed as `action`.
    pub(crate) fn lasting(&self, edge: &Edge, action: &'static str, description: String) -> RequestContext {
        let lasting = edge.tasks.lasting(action, description, edge.now_ms(), &self.ctx);
        RequestContext {
            lasting: Some(lasting),
            ..self.ctx.clone()
        }
    }
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
