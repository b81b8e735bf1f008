//! Bulks of workers, which have their sources elsewhere: their events are stored exactly once by the engine's positions.

use std::sync::Arc;

use bytes::Bytes;
use firn_engine::document::{BulkRequest, BulkResponse};
use firn_engine::origin::{Origin, SourcePosition};
use firn_engine::{Error, Knowledge};
use firn_pipeline::runner::partition_of_events;
use serde::Deserialize;
use serde_json::{Value, json};

use super::status::print_partition;
use crate::endpoints::bulk::{BulkDefaults, ParsedBulk, parse};
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::{ApiError, status_and_type};
use crate::wire::reply::Reply;

/// Longest name of a worker or a partition, bytes.
const NAME_BYTES_MAX: usize = 1024;

/// First line of a worker's bulk.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OriginLine {
    worker: String,
    partition: String,
    first_offset: u64,
    last_offset: u64,
    offsets: Vec<u64>,
    #[serde(default)]
    dead_letters: u64,
    #[serde(default)]
    filtered: u64,
    #[serde(default)]
    note: Option<String>,
}

/// `GET /_firn/positions/{source}`: what of a source is stored, by partition.
pub(crate) async fn positions(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    match edge.engine.source_positions(&call.ctx, call.capture("source")).await? {
        Knowledge::Known(positions) => {
            let partitions: Vec<Value> = positions.iter().map(print_with_note).collect();
            Ok(Reply::ok(&json!({ "partitions": partitions })))
        }
        Knowledge::Unknown(capability) => Err(capability.missing().into()),
    }
}

fn print_with_note(at: &SourcePosition) -> Value {
    let mut printed = print_partition(at);
    if let Some(note) = &at.note {
        printed["note"] = json!(&**note);
    }
    printed
}

/// Body of a claim.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimBody {
    worker: String,
    partition: String,
}

/// `POST /_firn/positions/{source}/_claim`: from now on only this worker writes the partition. Returns where it continues.
pub(crate) async fn claim(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let source = call.capture("source");
    let body: ClaimBody = serde_json::from_slice(&call.required_body()?)
        .map_err(|error| Error::illegal_argument(format!("the body is not a claim: {error}")))?;
    check_names(&body.worker, &body.partition)?;
    edge.partition_claims.claim(source, &body.partition, &body.worker).await;
    let found = edge.engine.source_position(&call.ctx, source, &body.partition);
    let found = match found.await? {
        Knowledge::Known(found) => found,
        Knowledge::Unknown(capability) => return Err(capability.missing().into()),
    };
    let resume_offset = found.as_ref().map(|position| position.resume_offset);
    let note = found.as_ref().and_then(|position| position.note.as_deref());
    Ok(Reply::ok(&json!({ "resume_offset": resume_offset, "note": note })))
}

fn check_names(worker: &str, partition: &str) -> Result<(), Error> {
    for (member, name) in [("worker", worker), ("partition", partition)] {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Error::illegal_argument(format!(
                "[{member}] must have 1 to {NAME_BYTES_MAX} bytes"
            )));
        }
    }
    Ok(())
}

/// `POST /_firn/positions/{source}/_bulk`: a line with the place of the events in their source, then the lines of a bulk. However
/// often it is sent, each event is stored once. 409 if another worker has claimed the partition. Ingest pipelines do not run, as they do not for the server's own sources.
///
/// The answer lists the items that are not stored, by their position in the body; the others are.
pub(crate) async fn bulk(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let body = call.required_body()?;
    let end = body.iter().position(|byte| *byte == b'\n').unwrap_or(body.len());
    let (worker, origin) = read_origin(call.capture("source"), &body[..end])?;
    let mut request = items(body.slice((end + 1).min(body.len())..))?;
    if request.items.len() != origin.offsets.len() {
        return Err(Error::illegal_argument(format!(
            "the body has [{}] items and [{}] offsets",
            request.items.len(),
            origin.offsets.len()
        ))
        .into());
    }
    let claims = &edge.partition_claims;
    let claimed = partition_of_events(&origin.partition);
    let writing = claims.write(&origin.source, claimed, &worker).await?;
    request.origin = Some(origin);
    // A client that goes away must not free the partition while its bulk runs on.
    let writing = tokio::spawn({
        let (edge, ctx, bytes) = (Arc::clone(&edge), call.ctx.clone(), call.body.len() as u64);
        async move {
            let response = edge.write(&ctx, bytes, request).await;
            drop(writing);
            response
        }
    });
    let response = writing
        .await
        .map_err(|_| Error::internal("a bulk failed because of a bug, see the log"))??;
    edge.metrics.bulk(&response);
    Ok(Reply::ok(&print(&response)))
}

fn read_origin(source: &str, line: &[u8]) -> Result<(String, Origin), Error> {
    let line: OriginLine = serde_json::from_slice(line).map_err(|error| {
        Error::illegal_argument(format!(
            "the first line is not the place of the events in their source: {error}"
        ))
    })?;
    let is_ascending = line.offsets.windows(2).all(|pair| pair[0] < pair[1]);
    let bounds = line.first_offset..=line.last_offset;
    let is_inside = line.offsets.first().is_none_or(|first| bounds.contains(first))
        && line.offsets.last().is_none_or(|last| bounds.contains(last));
    check_names(&line.worker, &line.partition)?;
    if line.note.as_ref().is_some_and(|note| note.len() > NAME_BYTES_MAX) {
        return Err(Error::illegal_argument(format!(
            "[note] must have at most {NAME_BYTES_MAX} bytes"
        )));
    }
    if !is_ascending || !is_inside || bounds.is_empty() {
        return Err(Error::illegal_argument(
            "[offsets] must ascend from [first_offset] to [last_offset]",
        ));
    }
    let origin = Origin {
        source: source.into(),
        partition: line.partition.into(),
        first_offset: line.first_offset,
        last_offset: line.last_offset,
        offsets: line.offsets,
        dead_letters: line.dead_letters,
        filtered: line.filtered,
        more_follows: false,
        note: line.note.map(Into::into),
    };
    Ok((line.worker, origin))
}

fn items(body: Bytes) -> Result<BulkRequest, ApiError> {
    if body.is_empty() {
        return Ok(BulkRequest::default());
    }
    let ParsedBulk {
        request,
        pipelines,
        rejected,
        ..
    } = parse(&body, &BulkDefaults::default())?;
    if let Some(rejected) = rejected.into_iter().next() {
        return Err(rejected.error.into());
    }
    let is_plain = |item: &firn_engine::document::BulkItem| {
        item.id.is_none() && matches!(item.operation, firn_engine::document::Operation::Create { .. })
    };
    if !request.items.iter().all(is_plain) || pipelines.iter().any(Option::is_some) {
        return Err(
            Error::illegal_argument("a bulk of a source has [create] without [_id] and [pipeline] only").into(),
        );
    }
    Ok(request)
}

fn print(response: &BulkResponse) -> Value {
    let mut failures = Vec::new();
    for (position, item) in response.items.iter().enumerate() {
        if let Err(error) = &item.result {
            let (status, error_type) = status_and_type(error.kind());
            failures.push(json!({
                "position": position, "status": status.as_u16(), "type": error_type, "reason": error.reason(),
            }));
        }
    }
    json!({"items": response.items.len(), "failures": failures})
}
