//! A firn as the destination: its engine stores each event of a partition once, so events need no ids and partitions no records.

use firn_engine::document::{BulkItemResponse, BulkRequest, BulkResponse, Effect};
use firn_engine::origin::{Origin, SourcePosition, SourceTotals};
use firn_model::{Error, ErrorKind, Result};
use firn_pipeline::sources::Resume;
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
    #[serde(default)]
    note: Option<String>,
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
        note: at.note.map(Into::into),
    });
    Ok(positions.collect())
}

/// Takes a partition over, and returns where it continues.
pub(crate) async fn claim(
    connection: &Connection,
    worker: &str,
    source: &str,
    partition: &str,
) -> Result<Option<Resume>> {
    let path = format!("/_firn/positions/{}/_claim", encoded(source));
    let body = Body::Json(json!({"worker": worker, "partition": partition}));
    let answer = connection.request(Method::POST, &path, body, &[]).await?.json()?;
    let Some(offset) = answer["resume_offset"].as_u64() else {
        return Ok(None);
    };
    let note = answer["note"].as_str().map(Into::into);
    Ok(Some(Resume { offset, note }))
}

/// Stores a bulk exactly once.
///
/// # Errors
/// [`ErrorKind::Conflict`]: another worker has claimed the partition, or the destination was started again since.
/// [`ErrorKind::TooLarge`]: the bulk has several items, and is larger than a request of the destination may be.
pub(crate) async fn store(
    connection: &Connection,
    worker: &str,
    origin: &Origin,
    request: &BulkRequest,
) -> Result<BulkResponse> {
    let mut line = json!({
        "worker": worker,
        "partition": &*origin.partition,
        "first_offset": origin.first_offset,
        "last_offset": origin.last_offset,
        "offsets": origin.offsets,
        "dead_letters": origin.dead_letters,
        "filtered": origin.filtered,
    });
    if let Some(note) = &origin.note {
        line["note"] = json!(&**note);
    }
    let mut body = line.to_string().into_bytes();
    body.push(b'\n');
    let creates = request
        .items
        .iter()
        .map(|item| create_of(&item.index, &item.operation, None));
    let creates = creates.collect::<Result<Vec<_>>>()?;
    body.extend_from_slice(&print(creates.iter()));
    let path = format!("/_firn/positions/{}/_bulk", encoded(&origin.source));
    let answer = connection
        .request(Method::POST, &path, Body::Ndjson(body.into()), &[409, 413])
        .await?;
    match answer.status {
        409 => return Err(refused(ErrorKind::Conflict, &answer)),
        413 => {
            let error = refused(ErrorKind::TooLarge, &answer);
            let [item] = request.items.as_slice() else {
                return Err(error);
            };
            // There is nothing to split.
            let index = item.index.clone();
            return Ok(BulkResponse {
                items: vec![BulkItemResponse {
                    index,
                    id: String::new(),
                    result: Err(error),
                }],
            });
        }
        _ => {}
    }
    let answer: BulkAnswer = serde_json::from_slice(&answer.body).map_err(|error| invalid(&error.to_string()))?;
    if answer.items != request.items.len() || answer.failures.iter().any(|failure| failure.position >= answer.items) {
        return Err(invalid("it is about other items"));
    }
    let stored = request.items.iter().map(|item| BulkItemResponse {
        index: item.index.clone(),
        id: String::new(),
        result: Ok(written(Effect::Created)),
    });
    let mut response = BulkResponse {
        items: stored.collect(),
    };
    for failure in answer.failures {
        let kind = kind_of(failure.status, &failure.kind);
        response.items[failure.position].result = Err(Error::new(kind, failure.reason));
    }
    Ok(response)
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
