//! Replay of dead letters, a bounded number for each request.

use std::sync::Arc;

use firn_engine::{Error, RequestContext, Scope};
use firn_pipeline::runner::{ReplayOutcome, StoredDocument};
use firn_query::search::{Hit, IndexTarget};
use serde_json::{Value, json};

use super::{missing, runner};
use crate::endpoints::call::Call;
use crate::endpoints::shared_point_in_time::SharedPointInTime;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

pub(crate) const PARAMS: &[&str] = &["max_docs"];
pub(super) const MAX_DOCS: u64 = 10_000;
pub(super) const MAX_DOCS_MAX: u64 = 100_000;
/// Letters that are read and written at a time.
pub(super) const PAGE: u64 = 500;
/// Failures that an answer lists; the counter includes all.
pub(super) const FAILURES_MAX: usize = 100;

/// `POST /_firn/pipelines/{id}/_replay`: the records of the pipeline's dead letters go through its steps again, oldest first. A letter
/// whose event is stored is removed; others stay. The body may narrow the letters with a `query`.
pub(crate) async fn replay(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let id = call.capture("id");
    let runner = Arc::clone(runner(&edge)?);
    let definition = runner.definition(id).ok_or_else(|| missing(id))?;
    let max_docs = call.params.number::<u64>("max_docs")?.unwrap_or(MAX_DOCS);
    if max_docs == 0 || max_docs > MAX_DOCS_MAX {
        return Err(Error::illegal_argument(format!("[max_docs] must be 1 to {MAX_DOCS_MAX}")).into());
    }
    let query = query_of(id, call.json()?)?;
    // The letters of a tenant's pipeline are the tenant's.
    let scope = definition.tenant_id()?.map_or_else(Scope::operator, Scope::tenant);
    let ctx = RequestContext {
        scope: Arc::new(scope),
        ..call.ctx.clone()
    };
    let target = IndexTarget {
        expression: vec![definition.dead_letter_index.clone()],
        ..IndexTarget::default()
    };
    // Letters of a moment ago are replayed, too.
    edge.engine.refresh(&ctx, target.clone()).await?;
    let moment = SharedPointInTime::open(&edge, &ctx, &target, Vec::new(), None).await?;
    let (mut total, mut replayed, mut failed) = (None, 0_u64, 0_u64);
    let mut failures = Vec::new();
    let mut after: Option<Vec<Value>> = None;
    while replayed + failed < max_docs {
        let size = PAGE.min(max_docs - replayed - failed);
        let mut rest = json!({
            "size": size, "sort": [{"@timestamp": "asc"}, "_shard_doc"], "seq_no_primary_term": true,
            "track_total_hits": after.is_none(),
        });
        if let Some(after) = &after {
            rest["search_after"] = after.clone().into();
        }
        let response = moment.search(moment.request(&query, rest)?).await?;
        total = total.or(response.total.map(|total| total.value));
        let Some(last) = response.hits.last() else { break };
        after = Some(last.sort.clone());
        let letters = response
            .hits
            .into_iter()
            .map(stored_document)
            .collect::<Result<Vec<_>, Error>>()?;
        let outcomes = runner.replay(id, &letters).await?;
        for (letter, outcome) in letters.iter().zip(outcomes) {
            match outcome {
                ReplayOutcome::Replayed => replayed += 1,
                ReplayOutcome::Failed(reason) => {
                    failed += 1;
                    if failures.len() < FAILURES_MAX {
                        failures.push(json!({"index": letter.index, "id": letter.id, "reason": reason}));
                    }
                }
            }
        }
    }
    let total = total.unwrap_or(0);
    Ok(Reply::ok(&json!({
        "total": total,
        "replayed": replayed,
        "failed": failed,
        "not_tried": total.saturating_sub(replayed + failed),
        "failures": failures,
    })))
}

fn query_of(id: &str, body: Option<Value>) -> Result<Value, Error> {
    let mut filters = vec![json!({"term": {"firn.dead_letter.pipeline": id}})];
    filters.extend(body_query(body)?);
    Ok(json!({"bool": {"filter": filters}}))
}

/// Returns the query of a body that may hold one, and nothing else.
pub(super) fn body_query(body: Option<Value>) -> Result<Option<Value>, Error> {
    match body {
        None => Ok(None),
        Some(Value::Object(mut body)) => {
            let query = body.remove("query");
            match body.keys().next() {
                Some(unknown) => Err(Error::illegal_argument(format!(
                    "unknown member [{unknown}], there is [query]"
                ))),
                None => Ok(query),
            }
        }
        Some(_) => Err(Error::illegal_argument("the body must be a JSON object")),
    }
}

pub(crate) fn stored_document(hit: Hit) -> Result<StoredDocument, Error> {
    let bug = |what: &str| Error::internal(format!("a bug: a hit has no {what}"));
    Ok(StoredDocument {
        seq_no: hit.seq_no.ok_or_else(|| bug("sequence number"))?,
        source: hit.source.ok_or_else(|| bug("source"))?,
        index: hit.index,
        id: hit.id,
        routing: hit.routing,
    })
}
