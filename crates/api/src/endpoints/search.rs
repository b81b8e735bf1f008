//! `_search`: parses body and URL into one typed request and serializes the answer by hand.

mod profile;
mod respond;

use std::sync::Arc;
use std::time::Duration;

use firn_engine::{Error, ErrorKind, RequestContext, Result};
use firn_model::metadata::Metadata;
use firn_model::names::IndicesOptions;
use firn_query::query::Query;
use firn_query::search::{
    FieldSpec, IndexTarget, SearchRequest, SearchResponse, TrackTotalHits, parse_sort_param, parse_track_total_hits,
};
use serde_json::{Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::document_params::source_param;
use crate::state::edge::Edge;
use crate::wire::error::{ApiError, SearchFailure};
use crate::wire::params::{Params, split_list};
use crate::wire::preference;
use crate::wire::reply::Reply;

pub(crate) use respond::{Printing, print_response, shards_object, write_response};

pub(crate) const PARAMS: &[&str] = &[
    "_source",
    "_source_excludes",
    "_source_includes",
    "allow_partial_search_results",
    "analyze_wildcard",
    "analyzer",
    "batched_reduce_size",
    "ccs_minimize_roundtrips",
    "default_operator",
    "df",
    "docvalue_fields",
    "explain",
    "explain_cost",
    "from",
    "include_named_queries_score",
    "lenient",
    "max_concurrent_shard_requests",
    "min_compatible_shard_node",
    "pre_filter_shard_size",
    "preference",
    "q",
    "request_cache",
    "rest_total_hits_as_int",
    "routing",
    "scroll",
    "search_type",
    "seq_no_primary_term",
    "size",
    "sort",
    "stats",
    "stored_fields",
    "suggest_field",
    "suggest_mode",
    "suggest_size",
    "suggest_text",
    "terminate_after",
    "timeout",
    "track_scores",
    "track_total_hits",
    "typed_keys",
    "version",
];

/// Maximum bytes of a slow query's body in the log.
const SLOWLOG_SOURCE_BYTES: usize = 2048;

/// `GET /_search` and `GET /{index}/_search`.
pub(crate) async fn search(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let body = call.json()?;
    let target = call.target(IndicesOptions::default())?;
    let printing = Printing::param(&call.params)?;
    let request = build(target, body.as_ref(), &call.params, &printing)?;
    drop(body);
    if call.params.bool("explain_cost", false)? {
        return explain_cost(&edge, &call, request).await;
    }
    let response = run(&edge, &call.ctx, request, &call.body).await?;
    let metadata = edge.metadata(&call).await?;
    let printed = print_response(response, &printing, &edge.config.node_id, metadata).await?;
    Ok(Reply::raw(printed))
}

/// `explain_cost`: estimates what the search would fetch from snapshot repositories, without running it.
async fn explain_cost(edge: &Edge, call: &Call, request: SearchRequest) -> Result<Reply, ApiError> {
    if request.scroll.is_some() {
        return Err(Error::not_implemented("[explain_cost] with [scroll]").into());
    }
    let expression = request.target.expression.clone();
    let cost = edge.engine.search_cost(&call.ctx, request).await;
    let cost = cost
        .map_err(|error| whole_failure(edge, error, &expression))?
        .require()?;
    Ok(Reply::ok(&json!({
        "took": call.ctx.started.elapsed().as_millis() as u64,
        "_shards": {"total": cost.shards, "successful": cost.shards, "skipped": cost.skipped, "failed": 0},
        "cost": cost.print(),
    })))
}

/// Runs a request and converts errors of the engine to Elasticsearch's shape.
pub(crate) async fn run(
    edge: &Edge,
    ctx: &RequestContext,
    request: SearchRequest,
    body: &[u8],
) -> Result<SearchResponse, ApiError> {
    let started = std::time::Instant::now();
    let allow_partial = request.allow_partial_results;
    let expression = request.target.expression.clone();
    let result = edge.engine.search(ctx, request).await;
    let took = started.elapsed();
    if let Some(limit_ms) = edge.config.slow_query_ms
        && took >= Duration::from_millis(limit_ms)
    {
        log_slow(ctx, &expression, took, body, &result);
    }
    let response = result.map_err(|error| whole_failure(edge, error, &expression))?;
    if response.timed_out && !allow_partial {
        return Err(ApiError::Search(Box::new(SearchFailure {
            reason: "Partial shards failure",
            failures: vec![(expression.join(","), 0, Error::new(ErrorKind::Timeout, "Time exceeded"))],
            node_id: edge.config.node_id.clone(),
        })));
    }
    let failed = response.shards.failures.len();
    if failed > 0 && (response.shards.successful == 0 || !allow_partial) {
        return Err(ApiError::Search(Box::new(SearchFailure {
            reason: if response.shards.successful == 0 {
                "all shards failed"
            } else {
                "Partial shards failure"
            },
            failures: response.shards.failures,
            node_id: edge.config.node_id.clone(),
        })));
    }
    Ok(response)
}

/// Converts an error of the whole search. If a valid request does not fit the data, Elasticsearch reports failures of
/// all shards; a missing index and server errors are plain errors.
pub(crate) fn whole_failure(edge: &Edge, error: Error, expression: &[String]) -> ApiError {
    match error.kind() {
        ErrorKind::QueryShard
        | ErrorKind::TooManyBuckets
        | ErrorKind::Parsing
        | ErrorKind::IllegalArgument
        | ErrorKind::SearchContextMissing
        | ErrorKind::TooManyScrollContexts => {
            let index = error.index().map_or_else(|| expression.join(","), str::to_owned);
            ApiError::Search(Box::new(SearchFailure {
                reason: "all shards failed",
                failures: vec![(index, 0, error)],
                node_id: edge.config.node_id.clone(),
            }))
        }
        _ => error.into(),
    }
}

fn log_slow(
    ctx: &RequestContext,
    expression: &[String],
    took: Duration,
    body: &[u8],
    result: &firn_engine::Result<SearchResponse>,
) {
    let source = String::from_utf8_lossy(&body[..body.len().min(SLOWLOG_SOURCE_BYTES)]);
    let hits = result
        .as_ref()
        .ok()
        .and_then(|response| response.total)
        .map(|total| total.value);
    let error = result.as_ref().err().map(ToString::to_string);
    tracing::warn!(
        target: "firn::slowlog",
        took_ms = took.as_millis() as u64,
        indices = expression.join(","),
        total_hits = hits,
        opaque_id = ctx.opaque_id.as_deref(),
        error = error.as_deref(),
        source = source.as_ref(),
        source_bytes = body.len(),
        "slow search"
    );
}

/// Builds the request from a body and URL parameters; parameters override the body.
pub(crate) fn build(
    target: IndexTarget,
    body: Option<&Value>,
    params: &Params,
    printing: &Printing,
) -> Result<SearchRequest, ApiError> {
    refuse_missing(params)?;
    let mut request = SearchRequest::parse(target, body)?;
    if let Some(query) = query_param(params)? {
        request.query = query;
    }
    if let Some(from) = params.number::<i64>("from")? {
        request.from = not_negative("from", from)?;
    }
    if let Some(size) = params.number::<i64>("size")? {
        request.size = not_negative("size", size)?;
    }
    if let Some(sort) = params.get("sort") {
        request.sort = parse_sort_param(sort)?;
    }
    if let Some(source) = source_param(params)? {
        request.shape.source = source;
    }
    if let Some(fields) = params.list("stored_fields") {
        request.shape = request.shape.with_stored_fields(&fields)?;
    }
    if let Some(fields) = params.list("docvalue_fields") {
        request
            .shape
            .docvalue_fields
            .extend(fields.into_iter().map(|text| match text.split_once('#') {
                Some((field, format)) => FieldSpec {
                    field: field.to_owned(),
                    format: Some(format.to_owned()),
                },
                None => FieldSpec {
                    field: text,
                    format: None,
                },
            }));
    }
    track_total_hits(&mut request, body, params, printing)?;
    if let Some(timeout) = params.duration("timeout")? {
        request.timeout = Some(timeout);
    }
    if let Some(limit) = terminate_after(params)? {
        request.terminate_after = limit;
    }
    if let Some(routing) = params.list("routing") {
        request.routing = routing;
    }
    if let Some(flag) = params.flag("version")? {
        request.shape.version = flag;
    }
    if let Some(flag) = params.flag("seq_no_primary_term")? {
        request.shape.seq_no_primary_term = flag;
    }
    if let Some(flag) = params.flag("include_named_queries_score")? {
        request.shape.named_query_scores = flag;
    }
    request.typed_keys = params.bool("typed_keys", false)?;
    if let Some(flag) = params.flag("track_scores")? {
        request.track_scores = flag;
    }
    if let Some(flag) = params.flag("allow_partial_search_results")? {
        request.allow_partial_results = flag;
    }
    request.request_cache = params.flag("request_cache")?;
    if let Some(keep_alive) = params.duration("scroll")? {
        request.scroll = Some(keep_alive);
        if request.request_cache == Some(true) {
            return Err(ApiError::validation(&[
                "[request_cache] cannot be used in a scroll context".to_owned(),
            ]));
        }
    }
    request.concurrent_shards_max = params.number::<u32>("max_concurrent_shard_requests")?;
    if let Some(preference) = params.get("preference") {
        request.only_shards = preference::shards(preference)?;
    }
    if request.point_in_time.is_some() && params.get("preference").is_some() {
        return Err(ApiError::validation(&[
            "[preference] cannot be used with point in time".to_owned(),
        ]));
    }
    request.check()?;
    request.check_context()?;
    Ok(request)
}

fn track_total_hits(
    request: &mut SearchRequest,
    body: Option<&Value>,
    params: &Params,
    printing: &Printing,
) -> Result<()> {
    let mut given = body.is_some_and(|body| body.get("track_total_hits").is_some());
    if let Some(text) = params.get("track_total_hits") {
        request.track_total_hits = parse_track_total_hits(text)?;
        given = true;
    }
    if printing.total_as_int {
        match request.track_total_hits {
            // A plain number cannot express "at least", so the total must be exact.
            _ if !given => request.track_total_hits = TrackTotalHits::Exact,
            TrackTotalHits::UpTo(limit) => {
                return Err(Error::illegal_argument(format!(
                    "[rest_total_hits_as_int] cannot be used if the tracking of total hits is not accurate, got {limit}"
                )));
            }
            TrackTotalHits::Exact | TrackTotalHits::No => {}
        }
    }
    Ok(())
}

fn not_negative(name: &str, value: i64) -> Result<usize> {
    usize::try_from(value)
        .map_err(|_| Error::illegal_argument(format!("[{name}] parameter cannot be negative, found [{value}]")))
}

/// Checks parameters without effect in firn, and refuses parameters that would need a missing feature.
fn refuse_missing(params: &Params) -> Result<()> {
    match params.get("search_type") {
        // Each shard computes scores from its own statistics in both types; with one copy of each shard dfs changes
        // nothing.
        None | Some("query_then_fetch" | "dfs_query_then_fetch") => {}
        Some(other) => return Err(Error::illegal_argument(format!("No search type for [{other}]"))),
    }
    for name in ["stats", "suggest_field", "suggest_text", "suggest_mode", "suggest_size"] {
        if params.get(name).is_some() {
            return Err(Error::not_implemented(format!("the parameter [{name}] of [_search]")));
        }
    }
    if params.bool("explain", false)? {
        return Err(Error::not_implemented("the parameter [explain] of [_search]"));
    }
    params.flag("ccs_minimize_roundtrips")?;
    // One node merges results incrementally, so these have no effect; invalid values are refused all the same.
    for (name, shown, min) in [
        ("batched_reduce_size", "batchedReduceSize", 2),
        ("max_concurrent_shard_requests", "maxConcurrentShardRequests", 1),
        ("pre_filter_shard_size", "preFilterShardSize", 1),
    ] {
        if params.number::<i32>(name)?.is_some_and(|number| number < min) {
            return Err(Error::illegal_argument(format!("{shown} must be >= {min}")));
        }
    }
    Ok(())
}

/// Parses `terminate_after` of a URL.
pub(crate) fn terminate_after(params: &Params) -> Result<Option<u64>> {
    params
        .number::<i64>("terminate_after")?
        .map(|number| u64::try_from(number).map_err(|_| Error::illegal_argument("terminateAfter must be > 0")))
        .transpose()
}

/// Builds the query of `q`, `df`, `analyzer`, `default_operator`, `lenient` and `analyze_wildcard`.
pub(crate) fn query_param(params: &Params) -> Result<Option<Query>> {
    let operator = match params.get("default_operator").map(str::to_ascii_lowercase).as_deref() {
        None | Some("or") => "or",
        Some("and") => "and",
        Some(other) => {
            return Err(Error::illegal_argument(format!(
                "default_operator must be [and] or [or], found [{other}]"
            )));
        }
    };
    let Some(text) = params.get("q") else {
        return Ok(None);
    };
    let mut query = json!({
        "query": text,
        "default_operator": operator,
        "lenient": params.bool("lenient", false)?,
        "analyze_wildcard": params.bool("analyze_wildcard", false)?,
    });
    for (param, key) in [("df", "default_field"), ("analyzer", "analyzer")] {
        if let Some(value) = params.get(param) {
            query[key] = value.into();
        }
    }
    Query::parse(&json!({"query_string": query})).map(Some)
}

/// Parses the header of one search of `_msearch` into the same target as URL parameters.
pub(crate) fn header_target(header: &serde_json::Map<String, Value>, default: &IndexTarget) -> Result<IndexTarget> {
    let mut target = default.clone();
    if let Some(index) = header.get("index").or_else(|| header.get("indices")) {
        target.expression = match index {
            Value::String(text) => split_list(text),
            Value::Array(names) => names
                .iter()
                .map(|name| name.as_str().map(str::to_owned))
                .collect::<Option<_>>()
                .ok_or_else(|| Error::illegal_argument("[index] must be a string or an array of strings"))?,
            Value::Null => target.expression,
            _ => {
                return Err(Error::illegal_argument(
                    "[index] must be a string or an array of strings",
                ));
            }
        };
    }
    Ok(target)
}

/// Runs a search for another endpoint (`_count`); at least one shard must succeed.
pub(crate) async fn run_plain(
    edge: &Edge,
    ctx: &RequestContext,
    request: SearchRequest,
) -> Result<SearchResponse, ApiError> {
    let response = run(edge, ctx, request, b"").await?;
    Ok(response)
}

/// Returns `_shards` of an answer.
pub(crate) fn shards(response: &SearchResponse, edge: &Edge, metadata: &Metadata) -> Value {
    shards_object(&response.shards, &edge.config.node_id, Some(metadata))
}
