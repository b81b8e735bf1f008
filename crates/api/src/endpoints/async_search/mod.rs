//! `_async_search`: searches that continue after their first answer, with partial results.
//!
//! A search runs as a separate task and is retained under an id ([`crate::state::async_search_store`]) until it is deleted or its `keep_alive` is
//! over. Only the caller that submitted it can use the id; for other callers the id does not exist. Results are in
//! memory, bounded in number and bytes, and end with the process (Elasticsearch stores them in an index).

mod answer;
mod typed_keys;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use firn_auth::SearchPermit;
use firn_engine::{Error, RequestContext, Scope};
use firn_model::names::IndicesOptions;
use firn_query::Cancel;
use firn_query::search::SearchRequest;
use futures_util::FutureExt as _;

use crate::endpoints::call::Call;
use crate::endpoints::search;
use crate::endpoints::search::Printing;
use crate::state::async_search_store::AsyncSearch;
use crate::state::disclosure::disclose_error;
use crate::state::edge::Edge;
use crate::state::tasks::TaskGuard;
use crate::wire::error::ApiError;
use crate::wire::params::Params;
use crate::wire::reply::Reply;
use answer::AnswerForm;

/// Parameters in addition to those of `_search`.
pub(crate) const SUBMIT_PARAMS: &[&str] = &["keep_alive", "keep_on_completion", "wait_for_completion_timeout"];
pub(crate) const GET_PARAMS: &[&str] = &[
    "keep_alive",
    "rest_total_hits_as_int",
    "typed_keys",
    "wait_for_completion_timeout",
];
pub(crate) const STATUS_PARAMS: &[&str] = &["keep_alive"];
/// Action of the whole search in `_tasks`.
pub(crate) const SUBMIT_ACTION: &str = "indices:data/read/async_search/submit";

/// Default time that a submit request waits for completion.
const WAIT_DEFAULT: Duration = Duration::from_secs(1);
/// Default retention of a search.
const KEEP_ALIVE_DEFAULT: Duration = Duration::from_secs(5 * 86_400);
/// A shorter time would end the search before any client could fetch it.
const KEEP_ALIVE_MIN: Duration = Duration::from_secs(1);

/// `POST /_async_search` and `POST /{index}/_async_search`.
pub(crate) async fn submit(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let keep_alive = call.params.duration("keep_alive")?.unwrap_or(KEEP_ALIVE_DEFAULT);
    let wait = call
        .params
        .duration("wait_for_completion_timeout")?
        .unwrap_or(WAIT_DEFAULT);
    let keep_on_completion = call.params.bool("keep_on_completion", false)?;
    let (request, looks) = read(&call, keep_alive)?;
    // The search counts against the quota of its tenant until it ends, which may be after this request.
    let permit = edge.admit(&call.ctx.scope, "indices:data/read/search")?;
    let search = edge.async_searches.open(
        Arc::clone(&call.ctx.scope),
        edge.now_ms(),
        keep_alive,
        &*edge.config.random,
    )?;
    // If the id is not returned to the client, the search ends with this request, because no client could fetch it.
    let mut claim = Claim {
        edge: &edge,
        search: &search,
        is_claimed: false,
    };
    let ctx = RequestContext {
        cancel: Cancel::clone(&search.cancel),
        progress: Some(Arc::clone(search.progress())),
        ..call.ctx.clone()
    };
    let task = edge
        .tasks
        .start(SUBMIT_ACTION, format!("POST {}", call.path), edge.now_ms(), &ctx);
    let running = Running {
        ctx,
        request,
        body: call.body.clone(),
        _permit: permit,
        _task: task,
    };
    tokio::spawn(running.run(Arc::clone(&edge), Arc::clone(&search)));
    let searches = Arc::clone(&edge.async_searches);
    tokio::spawn(searches.expire(Arc::clone(&search), Arc::clone(&edge.config.now_ms)));
    if keep_on_completion {
        edge.async_searches.keep(&search, edge.now_ms());
    }
    let is_done = search.wait(wait).await;
    let has_id = keep_on_completion || !is_done;
    if has_id {
        edge.async_searches.keep(&search, edge.now_ms());
        claim.is_claimed = true;
    }
    let metadata = edge.metadata(&call).await?;
    Ok(answer::answer(&search, has_id, &looks, &edge, &metadata))
}

/// `GET /_async_search/{id}`.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let search = find(&edge, &call)?;
    if let Some(wait) = call.params.duration("wait_for_completion_timeout")? {
        search.wait(wait).await;
    }
    let metadata = edge.metadata(&call).await?;
    let looks = AnswerForm {
        printing: Printing::param(&call.params)?,
        typed_keys: call.params.bool("typed_keys", false)?,
    };
    Ok(answer::answer(&search, true, &looks, &edge, &metadata))
}

/// `GET /_async_search/status/{id}`.
pub(crate) async fn status(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let search = find(&edge, &call)?;
    Ok(Reply::ok(&answer::status(&search)))
}

/// `DELETE /_async_search/{id}`: cancels the search if it still runs. An admin of its tenant may do so too.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let may_end = |creator: &Scope| call.may_end(creator);
    let search = edge
        .async_searches
        .find_where(call.capture("id"), edge.now_ms(), may_end)?;
    edge.async_searches.remove(&search);
    Ok(Reply::acknowledged())
}

/// Returns the search that a request names, and extends its retention if the request says so.
fn find(edge: &Edge, call: &Call) -> Result<Arc<AsyncSearch>, ApiError> {
    let now_ms = edge.now_ms();
    let search = edge.async_searches.find(&call.ctx.scope, call.capture("id"), now_ms)?;
    if let Some(keep_alive) = call.params.duration("keep_alive")? {
        search.keep_until(now_ms, keep_alive);
    }
    Ok(search)
}

/// Parses the search. Parameters are those of `_search`; those that async search lacks are refused as in Elasticsearch.
fn read(call: &Call, keep_alive: Duration) -> Result<(SearchRequest, AnswerForm), ApiError> {
    let params = &call.params;
    let mut problems = Vec::new();
    if params.get("scroll").is_some() {
        problems.push("[scroll] queries are not supported".to_owned());
    }
    if keep_alive < KEEP_ALIVE_MIN {
        problems.push(format!(
            "[keep_alive] must be greater or equals than 1 second, got:{}ms",
            keep_alive.as_millis()
        ));
    }
    if params
        .number::<i32>("pre_filter_shard_size")?
        .is_some_and(|size| size != 1)
    {
        problems.push("[pre_filter_shard_size] cannot be changed for async search queries".to_owned());
    }
    if !problems.is_empty() {
        return Err(ApiError::validation(&problems));
    }
    refuse_estimates(params)?;
    let looks = AnswerForm {
        printing: Printing::param(params)?,
        typed_keys: params.bool("typed_keys", false)?,
    };
    let target = call.target(IndicesOptions::default())?;
    let mut request = search::build(target, call.json()?.as_ref(), params, &looks.printing)?;
    // A later request may want the types or not.
    request.typed_keys = true;
    request.request_cache.get_or_insert(true);
    Ok((request, looks))
}

/// Refuses cost estimates, because an estimate is available at once.
fn refuse_estimates(params: &Params) -> Result<(), Error> {
    match params.get("explain_cost") {
        Some(_) => Err(Error::not_implemented(
            "the parameter [explain_cost] of [_async_search]",
        )),
        None => Ok(()),
    }
}

/// Running search and the permit that it holds.
struct Running {
    ctx: RequestContext,
    request: SearchRequest,
    body: bytes::Bytes,
    _permit: Option<SearchPermit>,
    _task: TaskGuard,
}

impl Running {
    async fn run(self, edge: Arc<Edge>, search: Arc<AsyncSearch>) {
        let run = search::run(&edge, &self.ctx, self.request.clone(), &self.body);
        let result = AssertUnwindSafe(run)
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(Error::internal("a bug: the search panicked, see the log").into()))
            .map_err(|error| disclose_error(&self.ctx, error));
        edge.async_searches.complete(&search, edge.now_ms(), result);
    }
}

/// Removes the search if its request ends or is dropped before the id was returned.
struct Claim<'a> {
    edge: &'a Edge,
    search: &'a Arc<AsyncSearch>,
    is_claimed: bool,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.is_claimed {
            self.edge.async_searches.remove(self.search);
        }
    }
}
