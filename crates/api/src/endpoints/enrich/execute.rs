//! Execution of a policy: its records are copied into a new index, which replaces the one before.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use firn_auth::Privilege;
use firn_engine::document::{BulkItem, BulkRequest, Expectation, Operation, Refresh};
use firn_engine::{Error, ErrorKind, RequestContext};
use firn_model::metadata::{Command, EnrichPolicyCommand, StoredEnrichPolicy};
use firn_pipeline::tables::{EnrichDefinition, EnrichTable};
use firn_query::Cancel;
use firn_query::search::IndexTarget;
use futures_util::FutureExt as _;
use serde_json::json;

use super::load::Records;
use crate::endpoints::call::Call;
use crate::state::disclosure::disclose_error;
use crate::state::edge::Edge;
use crate::state::enrich_tables::LoadedTable;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(crate) const EXECUTE_PARAMS: &[&str] = &["wait_for_completion"];
const ACTION: &str = "cluster:admin/xpack/enrich/execute";
const SEARCH_ACTION: &str = "indices:data/read/search";

/// `PUT` or `POST /_enrich/policy/{name}/_execute`.
pub(crate) async fn execute(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let name = call.capture("name").to_owned();
    let waits = call.params.bool("wait_for_completion", true)?;
    let metadata = edge.metadata(&call).await?;
    let stored = StoredEnrichPolicy::of(&metadata.enrich_policies, &name);
    let stored = stored.ok_or_else(|| Error::new(ErrorKind::ResourceNotFound, format!("policy [{name}] not found")))?;
    let definition = EnrichDefinition::parse(stored.body)?;
    let reads = call.identity.scope(Privilege::Read);
    let reads = reads.ok_or_else(|| call.identity.refusal(SEARCH_ACTION, Privilege::Read))?;
    let mut ctx = RequestContext {
        scope: Arc::new(reads),
        ..call.ctx.clone()
    };
    let complete = json!({"status": {"phase": "COMPLETE"}});
    if waits {
        // A client that does not wait to the end must not leave a half-filled index behind.
        ctx.cancel = Cancel::default();
        let running = tokio::spawn(async move { run(&edge, &ctx, &name, &definition).await });
        let bug = |_| Error::internal("a bug: an enrich policy panicked, see the log");
        running.await.map_err(bug)??;
        return Ok(Reply::ok(&complete));
    }
    ctx.cancel = Cancel::default();
    let task = edge
        .tasks
        .start(ACTION, format!("POST {}", call.path), edge.now_ms(), &ctx);
    let reply = json!({"task": format!("{}:{}", edge.config.node_id, task.id())});
    tokio::spawn(async move {
        let result = AssertUnwindSafe(run(&edge, &ctx, &name, &definition))
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(Error::internal("a bug: an enrich policy panicked, see the log").into()))
            .map_err(|error| disclose_error(&ctx, error));
        let result = match result {
            Ok(()) => ("response", json!({"phase": "COMPLETE"})),
            Err(error) => ("error", error.body(None, false)["error"].take()),
        };
        edge.tasks.finish(task, &edge.config.node_id, result);
    });
    Ok(Reply::ok(&reply))
}

async fn run(
    edge: &Arc<Edge>,
    ctx: &RequestContext,
    name: &str,
    definition: &EnrichDefinition,
) -> Result<(), ApiError> {
    // One at a time: each holds its records in memory once more.
    let _executing = edge.enrich.executing.lock().await;
    let index = StoredEnrichPolicy::index_name(name, edge.now_ms());
    let create = Command::CreateIndex {
        name: index.clone(),
        settings: json!({"index.hidden": true, "index.number_of_shards": 1, "index.number_of_replicas": 0}),
        mappings: Some(json!({"dynamic": false, "_meta": {"enrich_policy_name": name}})),
        aliases: None,
    };
    edge.engine.execute(&RequestContext::new(), create).await?;
    let replaced = match copy(edge, ctx, definition, &index).await {
        Ok(table) => replace(edge, name, &index, table).await,
        Err(error) => Err(error),
    };
    match replaced {
        Ok(before) => {
            if let Some(before) = before {
                delete_index(edge, before).await;
            }
            Ok(())
        }
        Err(error) => {
            delete_index(edge, index).await;
            Err(error)
        }
    }
}

/// Copies the records, and returns them as a table: one that is too large is refused here, and not when it is needed.
async fn copy(
    edge: &Arc<Edge>,
    ctx: &RequestContext,
    definition: &EnrichDefinition,
    index: &str,
) -> Result<EnrichTable, ApiError> {
    let query = definition.query.clone().unwrap_or_else(|| json!({"match_all": {}}));
    let fields = definition.record_fields();
    let mut table = EnrichTable::new(definition);
    let mut records = Records::open(edge, ctx, &definition.indices).await?;
    while let Some(page) = records.next_page(&query, Some(&fields)).await? {
        for record in &page {
            table.add(record)?;
        }
        write_page(edge, index, page).await?;
    }
    let written = IndexTarget {
        expression: vec![index.to_owned()],
        ..IndexTarget::default()
    };
    edge.engine.refresh(&RequestContext::new(), written).await?;
    table.finish();
    Ok(table)
}

async fn write_page(edge: &Arc<Edge>, index: &str, records: Vec<Bytes>) -> Result<(), ApiError> {
    let items = records.into_iter().map(|source| BulkItem {
        index: index.to_owned(),
        id: None,
        routing: None,
        operation: Operation::Index { source },
        expect: Expectation::Any,
        require_alias: false,
        require_data_stream: false,
    });
    let request = BulkRequest {
        items: items.collect(),
        refresh: Refresh::No,
        timeout: None,
        origin: None,
    };
    let response = edge.engine.bulk(&RequestContext::new(), request).await?;
    for item in response.items {
        item.result?;
    }
    Ok(())
}

/// Names the index in the catalog, and uses its table from now on; returns the index before.
async fn replace(edge: &Arc<Edge>, name: &str, index: &str, table: EnrichTable) -> Result<Option<String>, ApiError> {
    let operator = RequestContext::new();
    let metadata = edge.engine.metadata(&operator).await?;
    let stored = StoredEnrichPolicy::of(&metadata.enrich_policies, name);
    let before = stored.and_then(|stored| stored.index).map(str::to_owned);
    // A write that sees the change waits until the table is there, and need not read it.
    let _loading = edge.enrich.loading.lock().await;
    let command = EnrichPolicyCommand::Executed {
        name: name.to_owned(),
        index: index.to_owned(),
    };
    edge.engine.execute(&operator, Command::EnrichPolicy(command)).await?;
    let mut next = (*edge.enrich.current()).clone();
    let table = LoadedTable {
        index: index.to_owned(),
        table: Arc::new(table),
    };
    next.by_policy.insert(name.to_owned(), table);
    edge.enrich.set(next);
    Ok(before)
}

/// Deletes an index of records that no policy names any more.
pub(super) async fn delete_index(edge: &Arc<Edge>, index: String) {
    let names = vec![index.clone()];
    let deleted = edge
        .engine
        .execute(&RequestContext::new(), Command::DeleteIndices { names })
        .await;
    if let Err(error) = deleted
        && error.kind() != ErrorKind::IndexNotFound
    {
        tracing::warn!(index, %error, "cannot delete an unused index of enrich records");
    }
}
