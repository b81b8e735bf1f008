//! Mapping of stored events again, a bounded number for each request.

use std::sync::Arc;

use firn_engine::{Error, RequestContext, Scope};
use firn_pipeline::runner::RemapOutcome;
use firn_query::search::IndexTarget;
use serde_json::{Value, json};

use super::replay::{FAILURES_MAX, MAX_DOCS, MAX_DOCS_MAX, PAGE, body_query, stored_document};
use super::{missing, runner};
use crate::endpoints::call::Call;
use crate::endpoints::shared_point_in_time::SharedPointInTime;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(crate) const PARAMS: &[&str] = &["max_docs"];

/// Counts of outcomes.
#[derive(Default)]
struct Counts {
    remapped: u64,
    unchanged: u64,
    conflicts: u64,
    failed: u64,
}

/// `POST /_firn/pipelines/{id}/_remap`: the records that stored events of the pipeline's index keep go through its steps as they are
/// now, oldest first; what becomes of an event replaces it. Without a `query` in the body, events of the pack's current version
/// are left out.
pub(crate) async fn remap(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let id = call.capture("id");
    let runner = Arc::clone(runner(&edge)?);
    let definition = runner.definition(id).ok_or_else(|| missing(id))?;
    let Some(pack) = runner.pack(id)? else {
        return Err(Error::illegal_argument(format!("pipeline [{id}] has no pack: its events are not mapped")).into());
    };
    let max_docs = call.params.number::<u64>("max_docs")?.unwrap_or(MAX_DOCS);
    if max_docs == 0 || max_docs > MAX_DOCS_MAX {
        return Err(Error::illegal_argument(format!("[max_docs] must be 1 to {MAX_DOCS_MAX}")).into());
    }
    let query = match body_query(call.json()?)? {
        Some(query) => query,
        None => json!({"bool": {"must_not": [{"term": {"firn.mapping.version": pack.version()}}]}}),
    };
    let scope = definition.tenant_id()?.map_or_else(Scope::operator, Scope::tenant);
    let ctx = RequestContext {
        scope: Arc::new(scope),
        ..call.ctx.clone()
    };
    let target = IndexTarget {
        expression: definition.event_indices().to_vec(),
        ..IndexTarget::default()
    };
    edge.engine.refresh(&ctx, target.clone()).await?;
    let moment = SharedPointInTime::open(&edge, &ctx, &target, Vec::new(), None).await?;
    let (mut total, mut tried) = (None, 0_u64);
    let (mut counts, mut failures) = (Counts::default(), Vec::new());
    let mut after: Option<Vec<Value>> = None;
    while tried < max_docs {
        let mut rest = json!({
            "size": PAGE.min(max_docs - tried), "sort": [{"@timestamp": "asc"}, "_shard_doc"], "seq_no_primary_term": true,
            "track_total_hits": after.is_none(),
        });
        if let Some(after) = &after {
            rest["search_after"] = after.clone().into();
        }
        let response = moment.search(moment.request(&query, rest)?).await?;
        total = total.or(response.total.map(|total| total.value));
        let Some(last) = response.hits.last() else { break };
        after = Some(last.sort.clone());
        let events = response.hits.into_iter().map(stored_document);
        let events = events.collect::<Result<Vec<_>, Error>>()?;
        tried += events.len() as u64;
        let outcomes = runner.remap(id, &events).await?;
        for (event, outcome) in events.iter().zip(outcomes) {
            match outcome {
                RemapOutcome::Remapped => counts.remapped += 1,
                RemapOutcome::Unchanged => counts.unchanged += 1,
                RemapOutcome::Conflict => counts.conflicts += 1,
                RemapOutcome::Failed(reason) => {
                    counts.failed += 1;
                    if failures.len() < FAILURES_MAX {
                        failures.push(json!({"index": event.index, "id": event.id, "reason": reason}));
                    }
                }
            }
        }
    }
    let total = total.unwrap_or(0);
    Ok(Reply::ok(&json!({
        "total": total,
        "remapped": counts.remapped,
        "unchanged": counts.unchanged,
        "version_conflicts": counts.conflicts,
        "failed": counts.failed,
        "not_tried": total.saturating_sub(tried),
        "failures": failures,
    })))
}
