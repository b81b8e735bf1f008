//! `_msearch`: several searches in one request, with limited concurrency.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use firn_engine::{Error, ErrorKind, RequestContext};
use firn_model::metadata::Metadata;
use firn_model::names::IndicesOptions;
use firn_query::search::{IndexTarget, SearchRequest};
use futures_util::{StreamExt as _, stream};
use serde_json::{Map, Value};

use crate::endpoints::call::Call;
use crate::endpoints::search;
use crate::endpoints::search::{Printing, header_target, print_response};
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::json_body::parse_json;
use crate::wire::params::{Params, set_expand_wildcards, split_list};
use crate::wire::preference;
use crate::wire::reply::Reply;

pub(crate) const PARAMS: &[&str] = &[
    "ccs_minimize_roundtrips",
    "max_concurrent_searches",
    "max_concurrent_shard_requests",
    "pre_filter_shard_size",
    "rest_total_hits_as_int",
    "routing",
    "search_type",
    "typed_keys",
];

/// Maximum searches of one request.
const MAX_SEARCHES: usize = 1000;
/// Concurrent searches, unless the request sets a lower number: each search runs in parallel itself.
const CONCURRENT_SEARCHES: usize = 4;

/// Maximum bytes of all answers together. Further searches do not run: a thousand pages of large documents would not
/// fit into memory.
const ANSWERS_BYTES_MAX: usize = 256 << 20;

/// Unparsed header and body of one search.
struct Lines {
    target: IndexTarget,
    header: Map<String, Value>,
    body: Bytes,
}

/// Parsed search.
struct One {
    request: SearchRequest,
    body: Bytes,
}

/// `GET /_msearch` and `GET /{index}/_msearch`.
pub(crate) async fn msearch(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let started = call.ctx.started;
    let printing = Printing {
        status: Some(200),
        ..Printing::param(&call.params)?
    };
    let concurrent = call
        .params
        .number::<usize>("max_concurrent_searches")?
        .unwrap_or(CONCURRENT_SEARCHES);
    if concurrent == 0 {
        return Err(Error::illegal_argument("maxConcurrentSearchRequests must be positive").into());
    }
    let default = call.target(IndicesOptions::default())?;
    // As in Elasticsearch, one search that does not parse fails the whole request before any search runs.
    let mut searches = Vec::new();
    for lines in parse(&call.required_body()?, &default)? {
        searches.push(read(lines, &call.params, &printing)?);
    }
    let metadata = edge.metadata(&call).await?;
    let bytes = AtomicUsize::new(0);
    let mut answers = stream::iter(searches)
        .map(|one| answer(&edge, &call.ctx, one, &printing, &metadata, &bytes))
        .buffered(concurrent.min(CONCURRENT_SEARCHES));
    let mut output = b"\"responses\":[".to_vec();
    let mut first = true;
    while let Some(answer) = answers.next().await {
        if !first {
            output.push(b',');
        }
        first = false;
        output.extend_from_slice(&answer);
    }
    drop(answers);
    output.extend_from_slice(b"]}");
    let mut whole = format!("{{\"took\":{},", started.elapsed().as_millis()).into_bytes();
    whole.append(&mut output);
    Ok(Reply::raw(whole))
}

fn read(lines: Lines, params: &Params, printing: &Printing) -> Result<One, ApiError> {
    let body = parse_json(&lines.body)?;
    let mut request = search::build(lines.target, Some(&body), params, printing)?;
    apply_header(&mut request, &lines.header)?;
    Ok(One {
        request,
        body: lines.body,
    })
}

async fn answer(
    edge: &Edge,
    ctx: &RequestContext,
    one: One,
    printing: &Printing,
    metadata: &Arc<Metadata>,
    bytes: &AtomicUsize,
) -> Vec<u8> {
    let outcome = match bytes.load(Ordering::Relaxed) {
        used if used > ANSWERS_BYTES_MAX => Err(Error::new(
            ErrorKind::CircuitBreaking,
            format!(
                "[request] Data too large, the answers of this msearch are larger than the limit of [{ANSWERS_BYTES_MAX}]"
            ),
        )
        .into()),
        _ => search::run(edge, ctx, one.request, &one.body).await,
    };
    let printed = match outcome {
        Ok(response) => print_response(response, printing, &edge.config.node_id, Arc::clone(metadata))
            .await
            .map_err(ApiError::from),
        Err(error) => Err(error),
    };
    let answer = match printed {
        Ok(printed) => printed,
        Err(error) => error.body(Some(metadata), false).to_string().into_bytes(),
    };
    bytes.fetch_add(answer.len(), Ordering::Relaxed);
    answer
}

fn parse(body: &Bytes, default: &IndexTarget) -> Result<Vec<Lines>, ApiError> {
    if body.last() != Some(&b'\n') {
        return Err(Error::illegal_argument("The msearch request must be terminated by a newline [\\n]").into());
    }
    let mut searches = Vec::new();
    let mut lines = body[..body.len() - 1].split(|byte| *byte == b'\n');
    while let Some(line) = lines.next() {
        if searches.len() == MAX_SEARCHES {
            return Err(Error::illegal_argument(format!(
                "an msearch request may have at most [{MAX_SEARCHES}] searches"
            ))
            .into());
        }
        let header = if line.iter().all(u8::is_ascii_whitespace) {
            Map::new()
        } else {
            match parse_json(line)? {
                Value::Object(header) => header,
                _ => return Err(Error::illegal_argument("the header of a search must be a JSON object").into()),
            }
        };
        let Some(text) = lines.next() else {
            if header.is_empty() {
                // Blank line at the end.
                break;
            }
            return Err(
                Error::illegal_argument("the last header of the msearch request has no search after it").into(),
            );
        };
        let target = options_of(header_target(&header, default)?, &header)?;
        searches.push(Lines {
            target,
            header,
            body: body.slice_ref(text),
        });
    }
    if searches.is_empty() {
        return Err(ApiError::validation(&["no requests added".to_owned()]));
    }
    Ok(searches)
}

/// Applies the index options of a header.
fn options_of(mut target: IndexTarget, header: &Map<String, Value>) -> Result<IndexTarget, Error> {
    for (name, value) in header {
        match name.as_str() {
            "ignore_unavailable" => target.options.ignore_unavailable = flag(name, value)?,
            "allow_no_indices" => target.options.allow_no_indices = flag(name, value)?,
            "expand_wildcards" => {
                let states: Vec<&str> = match value {
                    Value::String(text) => text.split(',').collect(),
                    Value::Array(states) => states.iter().filter_map(Value::as_str).collect(),
                    _ => {
                        return Err(Error::illegal_argument(
                            "[expand_wildcards] must be a string or an array",
                        ));
                    }
                };
                set_expand_wildcards(&mut target.options, states)?;
            }
            "index"
            | "indices"
            | "search_type"
            | "preference"
            | "request_cache"
            | "routing"
            | "allow_partial_search_results"
            | "ccs_minimize_roundtrips"
            | "ignore_throttled"
            | "max_concurrent_shard_requests" => {}
            other => {
                return Err(Error::illegal_argument(format!(
                    "key [{other}] is not supported in the metadata section"
                )));
            }
        }
    }
    Ok(target)
}

/// Applies the parts of a header that belong to the search.
fn apply_header(request: &mut SearchRequest, header: &Map<String, Value>) -> Result<(), Error> {
    match header.get("routing") {
        None | Some(Value::Null) => {}
        Some(Value::String(routing)) => request.routing = split_list(routing),
        Some(Value::Array(values)) => {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            request.routing = values.iter().map(text).collect();
        }
        Some(other) => request.routing = vec![other.to_string()],
    }
    if let Some(Value::String(preference)) = header.get("preference") {
        request.only_shards = preference::shards(preference)?;
    }
    if let Some(value) = header.get("ccs_minimize_roundtrips") {
        flag("ccs_minimize_roundtrips", value)?;
    }
    if let Some(value) = header.get("request_cache") {
        request.request_cache = Some(flag("request_cache", value)?);
    }
    if let Some(value) = header.get("allow_partial_search_results") {
        request.allow_partial_results = flag("allow_partial_search_results", value)?;
    }
    match header.get("search_type").map(|value| value.as_str().unwrap_or("")) {
        None | Some("query_then_fetch" | "dfs_query_then_fetch") => Ok(()),
        Some(other) => Err(Error::illegal_argument(format!("No search type for [{other}]"))),
    }?;
    request.check_context()
}

fn flag(name: &str, value: &Value) -> Result<bool, Error> {
    match value {
        Value::Bool(flag) => Ok(*flag),
        Value::String(text) if text == "true" => Ok(true),
        Value::String(text) if text == "false" => Ok(false),
        _ => Err(Error::illegal_argument(format!("[{name}] must be [true] or [false]"))),
    }
}
