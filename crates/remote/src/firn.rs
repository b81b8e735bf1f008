//! A firn as the destination: its engine stores each event of a partition once, so events need no ids and partitions no records.

use std::ops::Range;

use firn_engine::document::{BulkItem, BulkItemResponse, BulkRequest, BulkResponse, Effect};
use firn_engine::origin::{Origin, SourcePosition, SourceTotals};
use firn_model::{Error, ErrorKind, Result};
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use crate::bulk::{create_of, kind_of, print, written};
use crate::connection::{Body, Connection, refused};

#[derive(Deserialize)]
struct PositionsAnswer {
    partitions: Vec<PartitionAnswer>,
}

#[derive(Deserialize)]
struct PartitionAnswer {
    partition: String,
    resume_offset: u64,
    complete_offset: Option<u64>,
    indexed: u64,
    filtered: u64,
    dead_lettered: u64,
}

#[derive(Deserialize)]
struct BulkAnswer {
    items: usize,
    failures: Vec<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    position: usize,
    status: u16,
    #[serde(rename = "type")]
    kind: String,
    reason: String,
}

/// Returns the positions of a source, sorted by partition.
pub(crate) async fn positions(connection: &Connection, source: &str) -> Result<Vec<SourcePosition>> {
    let path = format!("/_firn/positions/{}", encoded(source));
    let answer = connection.request(Method::GET, &path, Body::None, &[]).await?;
    let answer: PositionsAnswer = serde_json::from_slice(&answer.body).map_err(|error| invalid(&error.to_string()))?;
    let positions = answer.partitions.into_iter().map(|at| SourcePosition {
        partition: at.partition,
        resume_offset: at.resume_offset,
        complete_offset: at.complete_offset,
        totals: SourceTotals {
            indexed: at.indexed,
            filtered: at.filtered,
            dead_lettered: at.dead_lettered,
        },
    });
    Ok(positions.collect())
}

/// Takes a partition over, and returns where it continues.
pub(crate) async fn claim(connection: &Connection, worker: &str, source: &str, partition: &str) -> Result<Option<u64>> {
    let path = format!("/_firn/positions/{}/_claim", encoded(source));
    let body = Body::Json(json!({"worker": worker, "partition": partition}));
    let answer = connection.request(Method::POST, &path, body, &[]).await?.json()?;
    Ok(answer["resume_offset"].as_u64())
}

/// Stores a bulk exactly once: as a whole, or in halves if it is larger than a request of the destination may be.
///
/// # Errors
/// [`ErrorKind::Conflict`]: another worker has claimed the partition, or the destination was started again since.
pub(crate) async fn store(
    connection: &Connection,
    worker: &str,
    origin: &Origin,
    request: &BulkRequest,
) -> Result<BulkResponse> {
    // Places of items that are not sent, the first ones last.
    let mut parts: Vec<Range<usize>> = std::iter::once(0..request.items.len()).collect();
    let mut response = BulkResponse::default();
    while let Some(part) = parts.pop() {
        let stored = store_part(
            connection,
            worker,
            &origin_of(origin, &part),
            &request.items[part.clone()],
        )
        .await;
        match stored {
            Ok(items) => response.items.extend(items),
            Err(error) if error.kind() == ErrorKind::TooLarge && part.len() > 1 => {
                let middle = part.start + part.len() / 2;
                parts.push(middle..part.end);
                parts.push(part.start..middle);
            }
            Err(error) if error.kind() == ErrorKind::TooLarge && part.len() == 1 => {
                response.items.push(BulkItemResponse {
                    index: request.items[part.start].index.clone(),
                    id: String::new(),
                    result: Err(error),
                })
            }
            Err(error) => return Err(error),
        }
    }
    Ok(response)
}

/// Returns the origin of a part of a bulk. The parts follow each other without a gap; how many of the items of one are dead letters
/// is not known, so they are counted in the first parts, and the sum is right.
fn origin_of(origin: &Origin, part: &Range<usize>) -> Origin {
    let is_first = part.start == 0;
    let before = (part.start as u64).min(origin.dead_letters);
    Origin {
        first_offset: match is_first {
            true => origin.first_offset,
            false => origin.offsets[part.start],
        },
        last_offset: match origin.offsets.get(part.end) {
            Some(next) => next - 1,
            None => origin.last_offset,
        },
        offsets: origin.offsets[part.clone()].to_vec(),
        dead_letters: (origin.dead_letters - before).min(part.len() as u64),
        filtered: if is_first { origin.filtered } else { 0 },
        ..origin.clone()
    }
}

async fn store_part(
    connection: &Connection,
    worker: &str,
    origin: &Origin,
    items: &[BulkItem],
) -> Result<Vec<BulkItemResponse>> {
    let mut body = json!({
        "worker": worker,
        "partition": &*origin.partition,
        "first_offset": origin.first_offset,
        "last_offset": origin.last_offset,
        "offsets": origin.offsets,
        "dead_letters": origin.dead_letters,
        "filtered": origin.filtered,
    })
    .to_string()
    .into_bytes();
    body.push(b'\n');
    let creates = items.iter().map(|item| create_of(&item.index, &item.operation, None));
    let creates = creates.collect::<Result<Vec<_>>>()?;
    body.extend_from_slice(&print(creates.iter()));
    let path = format!("/_firn/positions/{}/_bulk", encoded(&origin.source));
    let answer = connection
        .request(Method::POST, &path, Body::Ndjson(body.into()), &[409, 413])
        .await?;
    match answer.status {
        409 => return Err(refused(ErrorKind::Conflict, &answer)),
        413 => return Err(refused(ErrorKind::TooLarge, &answer)),
        _ => {}
    }
    let answer: BulkAnswer = serde_json::from_slice(&answer.body).map_err(|error| invalid(&error.to_string()))?;
    if answer.items != items.len() || answer.failures.iter().any(|failure| failure.position >= answer.items) {
        return Err(invalid("it is about other items"));
    }
    let stored = items.iter().map(|item| BulkItemResponse {
        index: item.index.clone(),
        id: String::new(),
        result: Ok(written(Effect::Created)),
    });
    let mut stored: Vec<BulkItemResponse> = stored.collect();
    for failure in answer.failures {
        let kind = kind_of(failure.status, &failure.kind);
        stored[failure.position].result = Err(Error::new(kind, failure.reason));
    }
    Ok(stored)
}

fn invalid(reason: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the answer of the destination is invalid: {reason}"),
    )
}

/// Ids of pipelines may hold any characters.
fn encoded(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    for byte in source.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}
