//! Background removal of events: retention, and deletion of tenants.
//!
//! The program calls [`RetentionController::drop_old`] and [`RetentionController::delete_tenants`] from time to time. Both read the current state,
//! decide with pure functions, and take idempotent steps; a failed step is logged and retried at the next call.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use firn_engine::admin::PurgeRequest;
use firn_engine::{Engine, Knowledge, RequestContext};
use firn_model::metadata::{Command, IndexMetadata, Metadata, RolloverFacts};
use firn_model::names::IndicesOptions;
use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};
use firn_query::query::{Query, Term};
use firn_query::search::{IndexTarget, SearchRequest};
use parking_lot::Mutex;
use serde_json::json;

use crate::deletion::{Deletion, DeletionRecords, IndexState};
use crate::retention::{Due, TenantRetention, due};
use crate::snapshot_erasure::Pauses;

/// A write that was running when its tenant was closed has ended after this time. Only then a last search for remaining
/// events starts.
const WRITES_END_AFTER_MS: i64 = 5_000;

/// Maximum closed indices in one error.
const CLOSED_NAMED_MAX: usize = 20;

/// Result of a search for events of a tenant.
struct Found {
    /// Number of events; a private index of the tenant counts as at least one.
    events: u64,
    /// Error if some indices could not be searched.
    held_up: Result<()>,
}

/// Executes lifecycles, retention and deletions.
pub struct RetentionController {
    pub(crate) records: Arc<dyn DeletionRecords>,
    pub(crate) engine: Arc<dyn Engine>,
    tenant_retention: Mutex<TenantRetention>,
    pub(crate) pauses: Mutex<Pauses>,
    pub(crate) mount_pauses: Mutex<Pauses>,
}

impl RetentionController {
    /// Creates it for an engine and the records of tenants.
    pub fn new(records: Arc<dyn DeletionRecords>, engine: Arc<dyn Engine>) -> Self {
        Self {
            records,
            engine,
            tenant_retention: Mutex::default(),
            pauses: Mutex::default(),
            mount_pauses: Mutex::default(),
        }
    }

    /// Removes what is too old by the lifecycles of data streams and the retention of tenants.
    pub async fn drop_old(&self, now_ms: i64) {
        if let Err(error) = self.follow_lifecycles(now_ms).await {
            tracing::warn!(%error, "cannot find expired backing indices");
        }
        self.purge_old_events(now_ms).await;
    }

    async fn follow_lifecycles(&self, now_ms: i64) -> Result<()> {
        let ctx = RequestContext::new();
        let metadata = self.engine.metadata(&ctx).await?;
        for due in due(&metadata, now_ms) {
            match due {
                Due::Drop {
                    stream,
                    indices,
                    before_ms,
                } => {
                    let command = Command::DeleteIndices { names: indices.clone() };
                    match self.engine.execute(&ctx, command).await {
                        Ok(_) => tracing::info!(
                            stream,
                            ?indices,
                            older_than = firn_model::period::print_instant(before_ms),
                            "dropped backing indices past the retention of their data stream"
                        ),
                        Err(error) => tracing::warn!(stream, ?indices, %error, "cannot drop backing indices"),
                    }
                }
                Due::RollOver { stream, conditions } => {
                    let command = Command::Rollover {
                        target: stream.clone(),
                        new_index: None,
                        conditions,
                        body: json!({}),
                        dry_run: false,
                        facts: RolloverFacts::default(),
                    };
                    match self.engine.execute(&ctx, command).await.map(|outcome| outcome.rollover) {
                        Ok(Some(done)) if done.rolled_over => {
                            tracing::info!(stream, index = done.new_index, "rolled over by the lifecycle");
                        }
                        Ok(_) => {}
                        Err(error) => tracing::warn!(stream, %error, "cannot roll over"),
                    }
                }
            }
        }
        Ok(())
    }

    async fn purge_old_events(&self, now_ms: i64) {
        let tenants: Vec<(TenantId, u64)> = self
            .records
            .settings_of_tenants()
            .into_iter()
            .filter_map(|(tenant, settings)| Some((tenant, settings.retention_ms?)))
            .collect();
        if tenants.is_empty() {
            return;
        }
        let metadata = match self.engine.metadata(&RequestContext::new()).await {
            Ok(metadata) => metadata,
            Err(error) => {
                tracing::warn!(%error, "cannot find events past the retention of their tenants");
                return;
            }
        };
        let is_open = |name: &str| metadata.indices.get(name).is_some_and(|index| !index.closed);
        let due = self.tenant_retention.lock().due(&tenants, &is_open, now_ms);
        for (tenant, before_ms) in due {
            let request = PurgeRequest {
                before_ms: Some(before_ms),
                ..PurgeRequest::all_of(tenant.clone())
            };
            let outcome = match self.engine.purge_tenant(&RequestContext::new(), request).await {
                Ok(outcome) => outcome,
                Err(error) => {
                    tracing::warn!(%tenant, %error, "cannot remove old events of a tenant");
                    continue;
                }
            };
            if outcome.documents > 0 {
                tracing::info!(
                    %tenant,
                    documents = outcome.documents,
                    older_than = firn_model::period::print_instant(before_ms),
                    "removed events past the retention of their tenant"
                );
            }
            let is_closed = |error: &Error| error.kind() == ErrorKind::IndexClosed;
            let failures = &outcome.shards.failures;
            if let Some((_, _, error)) = failures.iter().find(|(_, _, error)| !is_closed(error)) {
                tracing::warn!(%tenant, %error, "cannot remove old events of a tenant from every shard");
                continue;
            }
            let is_foreign = |name: &str| {
                let index = metadata.indices.get(name);
                index.is_some_and(|index| is_foreign(index, &tenant))
            };
            // They are purged when they are opened.
            let closed = failures
                .iter()
                .map(|(index, _, _)| index)
                .filter(|name| !is_foreign(name));
            let closed: BTreeSet<String> = closed.cloned().collect();
            if !closed.is_empty() {
                tracing::warn!(
                    %tenant,
                    indices = ?closed,
                    "closed indices hold expired events of a tenant: open or delete them"
                );
            }
            self.tenant_retention.lock().note_purged(&tenant, closed, now_ms);
        }
    }

    /// Continues the deletions of tenants, as far as possible now.
    pub async fn delete_tenants(&self, now_ms: i64) {
        for tenant in self.records.deletions_under_way() {
            let Ok(deletion) = self.records.deletion(&tenant) else {
                continue;
            };
            let mut deletion = Deletion::clone(&deletion);
            let before = deletion.clone();
            let outcome = self.delete_tenant(&tenant, &mut deletion, now_ms).await;
            deletion.error = outcome.as_ref().err().map(Error::to_string);
            if deletion.error.is_some() && deletion.error != before.error {
                tracing::warn!(%tenant, error = deletion.error, "the deletion of a tenant failed and is retried");
            }
            if deletion.is_done() {
                tracing::info!(
                    %tenant,
                    documents = deletion.documents_removed(),
                    indices = deletion.indices.len(),
                    "a tenant was deleted"
                );
            }
            if deletion != before
                && let Err(error) = self.records.note_deletion(&tenant, deletion)
            {
                tracing::warn!(%tenant, %error, "cannot store the progress of the deletion of a tenant");
            }
        }
    }

    async fn delete_tenant(&self, tenant: &TenantId, deletion: &mut Deletion, now_ms: i64) -> Result<()> {
        let ctx = RequestContext::new();
        let closed = Command::SetTenantClosed {
            tenant: tenant.as_str().to_owned(),
            closed: true,
        };
        self.engine.execute(&ctx, closed).await?;
        let before = deletion.clone();
        let known = self.find_events(&ctx, tenant, deletion, true).await?.held_up;
        if deletion.started_ms.is_none() {
            self.find_snapshots(&ctx, tenant, deletion).await?;
            deletion.started_ms = Some(now_ms);
        }
        // The result is stored before anything is removed; otherwise a crash would lose the count.
        if *deletion != before {
            self.records.note_deletion(tenant, deletion.clone())?;
        }
        // Mounted indices read their snapshots, so they come after the snapshots.
        let written = self.remove_found(&ctx, tenant, deletion, false).await;
        let snapshots = self.remove_from_snapshots(&ctx, tenant, deletion, now_ms).await;
        let mounted = self.remove_from_mounts(&ctx, tenant, deletion, now_ms).await;
        let outcome = written.and(snapshots).and(mounted).and(known);
        let since_ms = now_ms.saturating_sub(deletion.started_ms.unwrap_or(now_ms));
        // If the clock goes back, it waits once more, not forever.
        if (0..WRITES_END_AFTER_MS).contains(&since_ms) {
            return outcome;
        }
        // An error may persist for days. The search for late writes does not wait for that, but does not repeat all the
        // time either.
        if outcome.is_err() && !(0..2 * WRITES_END_AFTER_MS).contains(&since_ms) {
            return outcome;
        }
        let found = self.find_events(&ctx, tenant, deletion, false).await?;
        outcome.and(found.held_up)?;
        if found.events == 0 {
            self.engine.clear_cache(&ctx, everything()).await?;
            deletion.clean_ms = deletion.clean_ms.or(Some(now_ms));
            self.check_snapshots(&ctx, tenant, deletion, now_ms).await?;
            self.purge_restored(&ctx, tenant, deletion).await?;
            match self.engine.drop_unused_of(&ctx, tenant.clone()).await? {
                Knowledge::Known(names) => {
                    for name in names {
                        deletion.note_found(&name, 0);
                        deletion.note_done(&name, IndexState::Dropped, 0);
                    }
                }
                Knowledge::Unknown(capability) => deletion.note_unknown(capability),
            }
            deletion.finish(now_ms);
        }
        Ok(())
    }

    /// Counts a tenant's events by index, and records the indices with events and the tenant's private indices. With
    /// `new_only`: searches only indices that were not searched before, and records all of them, because deleted events
    /// stay in files until a merge and no search finds them.
    ///
    /// An index that fails does not block the others. A failure in another tenant's private index is ignored.
    async fn find_events(
        &self,
        ctx: &RequestContext,
        tenant: &TenantId,
        deletion: &mut Deletion,
        new_only: bool,
    ) -> Result<Found> {
        let metadata = self.engine.metadata(ctx).await?;
        let looked_at: HashSet<String> = match new_only {
            true => deletion.indices.iter().map(|index| index.index.clone()).collect(),
            false => HashSet::new(),
        };
        let mut events = 0;
        let mut closed = Vec::new();
        let mut failure = None;
        for index in metadata.indices.values() {
            let Some(field) = &index.settings.tenant_field else {
                continue;
            };
            let (is_own, is_foreign) = (is_own(index, tenant), is_foreign(index, tenant));
            if index.closed && !is_own {
                if !is_foreign {
                    closed.push(index.name.as_str());
                }
                continue;
            }
            if looked_at.contains(&index.name) {
                continue;
            }
            if index.closed {
                deletion.note_uncounted(&index.name);
                events += 1;
                continue;
            }
            let documents = match self.count_events(ctx, tenant, index, field).await {
                Ok(documents) => documents,
                Err(_) if is_foreign => continue,
                // Its repository does not answer; its snapshot is checked separately.
                Err(_) if new_only && index.settings.is_mounted() => 0,
                Err(error) => {
                    failure = failure.or(Some(error));
                    continue;
                }
            };
            let is_there = documents > 0 || is_own;
            if is_there || new_only {
                deletion.note_found(&index.name, documents);
            }
            events += if is_there { documents.max(1) } else { 0 };
        }
        let held_up = match failure.or_else(|| are_closed(&closed)) {
            Some(error) => Err(error),
            None => Ok(()),
        };
        Ok(Found { events, held_up })
    }

    async fn count_events(
        &self,
        ctx: &RequestContext,
        tenant: &TenantId,
        index: &IndexMetadata,
        field: &str,
    ) -> Result<u64> {
        let target = IndexTarget {
            expression: vec![index.name.clone()],
            options: IndicesOptions::default(),
        };
        self.engine.refresh(ctx, target.clone()).await?;
        let body = json!({"size": 0, "track_total_hits": true});
        let mut request = SearchRequest::parse(target, Some(&body))?;
        request.allow_partial_results = false;
        request.query = Query::Term(Term {
            field: field.to_owned(),
            value: tenant.as_str().into(),
            boost: 1.0,
            case_insensitive: false,
        });
        let response = self.engine.search(ctx, request).await?;
        Ok(response.total.map_or(0, |total| total.value))
    }

    /// Removes the found events index by index, either of the mounted indices or of the others, and stores each result.
    /// An index that fails does not block the others; returns the first error.
    pub(crate) async fn remove_found(
        &self,
        ctx: &RequestContext,
        tenant: &TenantId,
        deletion: &mut Deletion,
        mounted: bool,
    ) -> Result<()> {
        let metadata = self.engine.metadata(ctx).await?;
        let is_mounted = |name: &str| {
            let index = metadata.indices.get(name);
            index.is_some_and(|index| index.settings.is_mounted())
        };
        let is_empty_foreign = |deletion: &Deletion, name: &str| {
            let index = metadata.indices.get(name);
            index.is_some_and(|index| is_foreign(index, tenant)) && deletion.found_in(name) == 0
        };
        let waiting: Vec<String> = deletion
            .indices
            .iter()
            .filter(|index| index.state == IndexState::Waiting && is_mounted(&index.index) == mounted)
            .map(|index| index.index.clone())
            .collect();
        let mut failure = None;
        for name in waiting {
            match self.remove_from(ctx, tenant, &name).await {
                Ok((state, segments)) => {
                    deletion.note_done(&name, state, segments);
                    self.records.note_deletion(tenant, deletion.clone())?;
                }
                // A failure in another tenant's private index is ignored, unless events were found in it.
                Err(_) if is_empty_foreign(deletion, &name) => deletion.note_done(&name, IndexState::Purged, 0),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Removes the tenant's events from indices that were restored since the deletion started: events deleted in the
    /// snapshot are in the files, but no search finds them. From now on no writable snapshot contains any.
    async fn purge_restored(&self, ctx: &RequestContext, tenant: &TenantId, deletion: &mut Deletion) -> Result<()> {
        let metadata = self.engine.metadata(ctx).await?;
        let indices = metadata.indices.values();
        let restored = indices.filter(|index| index.ids_of() != index.uuid && !index.settings.is_mounted());
        for index in restored.filter(|index| index.settings.tenant_field.is_some()) {
            let (state, segments) = match self.remove_from(ctx, tenant, &index.name).await {
                Err(_) if is_foreign(index, tenant) => continue,
                removed => removed?,
            };
            deletion.note_found(&index.name, 0);
            deletion.note_done(&index.name, state, segments);
        }
        Ok(())
    }

    /// Removes a tenant's events from an index. Returns their new state and the number of rewritten segments.
    async fn remove_from(&self, ctx: &RequestContext, tenant: &TenantId, name: &str) -> Result<(IndexState, u32)> {
        let metadata = self.engine.metadata(ctx).await?;
        match metadata.indices.get(name) {
            // Another request removed the index.
            None => Ok((IndexState::Dropped, 0)),
            Some(index) if is_own(index, tenant) => {
                self.engine.execute(ctx, removal_of(index, &metadata)).await?;
                Ok((IndexState::Dropped, 0))
            }
            Some(_) => {
                let request = PurgeRequest {
                    index: Some(name.to_owned()),
                    ..PurgeRequest::all_of(tenant.clone())
                };
                let outcome = self.engine.purge_tenant(ctx, request).await?;
                match outcome.shards.failures.into_iter().next() {
                    Some((_, _, error)) => Err(error),
                    None => Ok((
                        IndexState::Purged,
                        outcome.indices.iter().map(|index| index.segments).sum(),
                    )),
                }
            }
        }
    }
}

fn is_own(index: &IndexMetadata, tenant: &TenantId) -> bool {
    index.settings.tenant_owner.as_deref() == Some(tenant.as_str())
}

/// Whether the index is private to another tenant.
fn is_foreign(index: &IndexMetadata, tenant: &TenantId) -> bool {
    index.settings.tenant_owner.is_some() && !is_own(index, tenant)
}

/// Returns the error that some indices are closed, so that their content is unknown.
fn are_closed(names: &[&str]) -> Option<Error> {
    let first = names.first()?;
    let named = names
        .iter()
        .copied()
        .take(CLOSED_NAMED_MAX)
        .collect::<Vec<_>>()
        .join(", ");
    let more = match names.len().saturating_sub(CLOSED_NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let error = Error::new(
        ErrorKind::IndexClosed,
        format!("closed indices may hold events of the tenant: open or delete [{named}]{more}"),
    );
    Some(error.with_index(*first))
}

/// Returns the command that removes an index, or the data stream whose write index it is.
fn removal_of(index: &IndexMetadata, metadata: &Metadata) -> Command {
    let stream = index
        .data_stream
        .as_ref()
        .and_then(|stream| metadata.data_streams.get(stream));
    match stream.filter(|stream| stream.indices.last() == Some(&index.name)) {
        Some(stream) => Command::DeleteDataStream {
            names: vec![stream.name.clone()],
        },
        None => Command::DeleteIndices {
            names: vec![index.name.clone()],
        },
    }
}

fn everything() -> IndexTarget {
    IndexTarget {
        expression: Vec::new(),
        options: IndicesOptions {
            expand_hidden: true,
            ..IndicesOptions::default()
        },
    }
}
