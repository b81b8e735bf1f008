//! Registry of running requests and of background work, and results of those that ran without a waiting client.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use firn_engine::{BackgroundTask, RequestContext, Scope};
use firn_model::tenant::TenantId;
use firn_query::Cancel;
use serde_json::{Map, Value, json};

use crate::state::by_query_progress::Progress;

/// Maximum stored results of tasks without a waiting client. Past it the oldest result of the owner with most results
/// is evicted.
const RESULTS_MAX: usize = 200;

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
pub(crate) struct Done {
    pub(crate) asker: Arc<Scope>,
    pub(crate) answer: Value,
}

/// Running request.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) id: u64,
    pub(crate) action: &'static str,
    description: String,
    started_ms: i64,
    started: Instant,
    opaque_id: Option<String>,
    /// Caller that started it.
    pub(crate) asker: Arc<Scope>,
    pub(crate) cancel: Cancel,
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
            let mut answer = json!({"completed": true, "task": task.print(node_id, true)});
            answer[kind] = result;
            let asker = task.asker;
            keep(&mut self.done(), guard.id, Done { asker, answer });
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

    /// Returns the running task with this number.
    pub(crate) fn running(&self, id: u64) -> Option<Task> {
        self.lock().get(&id).cloned()
    }

    /// Returns the stored result of the task with this number.
    pub(crate) fn result(&self, id: u64) -> Option<Done> {
        self.done().get(&id).cloned()
    }

    /// Returns the running tasks whose action matches one of these patterns; `None`: all.
    pub(crate) fn matching(&self, actions: Option<&[String]>) -> Vec<Task> {
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
    /// Prints the task as Elasticsearch does; `detailed` adds description and progress.
    pub(crate) fn print(&self, node_id: &str, detailed: bool) -> Value {
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
