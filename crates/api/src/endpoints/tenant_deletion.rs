//! `DELETE /_firn/tenants/{id}`: deletion of a tenant, and its progress.

use std::sync::Arc;

use firn_auth::Control;
use firn_engine::Error;
use firn_lifecycle::{Deletion, IndexState, RemainingSnapshot, SnapshotsRewritten};
use firn_model::metadata::Command;
use firn_model::tenant::TenantId;
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::state::config::Security;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// `DELETE /_firn/tenants/{id}`: starts the deletion. When the answer is sent, no caller of the tenant is authenticated
/// any more and nothing is written for it. The rest of the deletion survives a restart of the process.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let id = TenantId::parse(call.capture("id"))?;
    let control = Arc::clone(control(&edge)?);
    let last = control.deletion(&id).ok();
    let runs = last.as_ref().is_some_and(|last| !last.is_done());
    let is_there = runs || control.tenant(&id).is_some();
    let has_events = !is_there && has_events(&edge, &call, &id).await?;
    let tenant = id.clone();
    // This waits for the disk.
    tokio::task::spawn_blocking(move || control.begin_deletion(&tenant, last.as_deref(), has_events))
        .await
        .map_err(|_| Error::internal("recording the deletion failed, see the log"))??;
    let closed = Command::SetTenantClosed {
        tenant: id.as_str().to_owned(),
        closed: true,
    };
    edge.engine.execute(&call.ctx, closed).await?;
    edge.forget_tenant(&id).await;
    Ok(Reply::ok(&json!({
        "acknowledged": true,
        "deletion": format!("/_firn/tenants/{id}/deletion"),
    })))
}

impl Edge {
    /// Drops the in-memory state of a tenant. It runs when the tenant is deleted, and again when a tenant of the same
    /// name is declared, because a request in flight may have left something in between.
    pub(crate) async fn forget_tenant(&self, id: &TenantId) {
        self.discovers.forget(id);
        self.async_searches.forget(id);
        self.tasks.forget(id);
        self.accounts.forget(id).await;
    }
}

/// `GET /_firn/tenants/{id}/deletion`: the progress, and at the end what was removed.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let id = TenantId::parse(call.capture("id"))?;
    let deletion = control(&edge)?.deletion(&id)?;
    Ok(Reply::ok(&print(&id, &deletion)))
}

async fn has_events(edge: &Edge, call: &Call, id: &TenantId) -> Result<bool, ApiError> {
    // Of an engine that does not measure its tenants, any tenant may have events.
    let Some(usage) = edge.engine.tenant_usage(&call.ctx).await?.known() else {
        return Ok(true);
    };
    Ok(usage
        .iter()
        .any(|usage| *usage.tenant == *id.as_str() && (usage.events > 0 || usage.stored_bytes > 0)))
}

fn control(edge: &Edge) -> Result<&Arc<Control>, Error> {
    match &edge.config.security {
        Security::On(control) | Security::Off(Some(control)) => Ok(control),
        Security::Off(None) => Err(Error::not_implemented("deleting tenants without a data folder")),
    }
}

/// Lists a snapshot that cannot be changed here until it is deleted.
fn print_snapshot(left: &RemainingSnapshot) -> Value {
    json!({
        "repository": left.repository,
        "snapshot": left.snapshot,
        "indices": left.indices,
        "documents": left.documents,
        "state": match left.is_readonly {
            true => "holds events, and the repository is read-only here: the cluster that writes it must remove them",
            false => "waiting",
        },
    })
}

fn print_rewritten(all: &SnapshotsRewritten) -> Value {
    let named = all.named.iter().map(|one| {
        json!({
            "repository": one.repository,
            "snapshot": one.snapshot,
            "indices": one.indices,
            "documents": one.documents,
            "splits_rewritten": one.splits_rewritten,
            "splits_removed": one.splits_dropped,
        })
    });
    json!({
        "count": all.snapshots,
        "documents": all.documents,
        "splits_rewritten": all.splits_rewritten,
        "splits_removed": all.splits_dropped,
        "bytes_written": all.written_bytes,
        "bytes_removed": all.removed_bytes,
        "snapshots": named.collect::<Vec<_>>(),
    })
}

fn print(id: &TenantId, deletion: &Deletion) -> Value {
    let done = deletion
        .indices
        .iter()
        .filter(|index| index.state != IndexState::Waiting)
        .count();
    let state = |state: IndexState| match state {
        IndexState::Waiting => "waiting",
        IndexState::Purged => "events removed",
        IndexState::Dropped => "index removed",
    };
    let indices: Vec<Value> = deletion
        .indices
        .iter()
        .map(|index| {
            json!({
                "index": index.index,
                "documents": index.documents,
                "segments": index.segments,
                "state": match index.uncounted && index.state == IndexState::Dropped {
                    true => "closed index removed, its events were not counted",
                    false => state(index.state),
                },
            })
        })
        .collect();
    let mut answer = json!({
        "tenant": id.as_str(),
        "status": if deletion.is_done() { "done" } else { "running" },
        "requested": deletion.requested_ms,
        "started": deletion.started_ms,
        "finished": deletion.finished_ms,
        "api_keys_invalidated": deletion.api_keys,
        "users_removed": deletion.users,
        "documents_removed": deletion.documents_removed(),
        "indices_done": done,
        "indices": indices,
        "snapshots": deletion.snapshots.iter().map(print_snapshot).collect::<Vec<_>>(),
        "snapshots_rewritten": print_rewritten(&deletion.snapshots_rewritten),
    });
    if !deletion.snapshots_unread.is_empty() {
        let unread = deletion.snapshots_unread.iter();
        let unread: Vec<Value> = unread
            .map(|(place, error)| json!({"snapshots_of": place, "error": error}))
            .collect();
        answer["snapshots_not_read"] = unread.into();
    }
    if !deletion.unknown.is_empty() {
        answer["unknown"] = json!(deletion.unknown);
    }
    if deletion.is_done() {
        answer["caches"] = "cleared".into();
    }
    if let Some(error) = &deletion.error {
        answer["error"] = error.as_str().into();
    }
    answer
}
