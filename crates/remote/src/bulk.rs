//! Bulk requests: their bodies, and what their answers mean.

use bytes::Bytes;
use firn_engine::document::{Effect, Operation, Written};
use firn_model::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::json;

/// Body size at which a bulk is split, bytes.
pub(crate) const PART_BYTES_MAX: usize = 5 << 20;
/// The answer's members that are read.
pub(crate) const PATH: &str = "/_bulk?filter_path=items.*._index,items.*._id,items.*.status,items.*.error.type,\
                               items.*.error.reason";

/// One `create` of a bulk.
#[derive(Debug, Clone)]
pub(crate) struct Create {
    pub(crate) index: String,
    /// `None`: the cluster generates one.
    pub(crate) id: Option<String>,
    pub(crate) source: Bytes,
}

/// Result of one `create`.
#[derive(Debug)]
pub(crate) struct Created {
    /// Concrete index; empty if the cluster did not say.
    pub(crate) index: String,
    pub(crate) id: String,
    pub(crate) result: Result<()>,
}

#[derive(Deserialize)]
struct BulkAnswer {
    #[serde(default)]
    items: Vec<ItemAnswer>,
}

#[derive(Deserialize)]
struct ItemAnswer {
    create: CreateAnswer,
}

#[derive(Deserialize)]
struct CreateAnswer {
    #[serde(rename = "_index", default)]
    index: String,
    #[serde(rename = "_id", default)]
    id: Option<String>,
    status: u16,
    error: Option<ItemError>,
}

#[derive(Deserialize)]
struct ItemError {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    reason: Option<String>,
}

/// Takes a `create` out of an item of the engine's interface.
pub(crate) fn create_of(index: &str, operation: &Operation, id: Option<String>) -> Result<Create> {
    match operation {
        Operation::Create { source } => Ok(Create {
            index: index.to_owned(),
            id,
            source: source.clone(),
        }),
        _ => Err(Error::internal("an event pipeline only adds documents")),
    }
}

/// Prints the body, one line for the action and one for the document.
pub(crate) fn print<'a>(creates: impl Iterator<Item = &'a Create>) -> Bytes {
    let mut body = Vec::new();
    for create in creates {
        let action = match &create.id {
            Some(id) => json!({"create": {"_index": create.index, "_id": id}}),
            None => json!({"create": {"_index": create.index}}),
        };
        body.extend_from_slice(action.to_string().as_bytes());
        body.push(b'\n');
        let start = body.len();
        body.extend_from_slice(&create.source);
        // A line break in JSON is white space: inside of texts it is escaped.
        for byte in &mut body[start..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        body.push(b'\n');
    }
    body.into()
}

/// Returns the lengths of the parts, in items, into which creates are split.
pub(crate) fn parts(creates: &[Create]) -> Vec<usize> {
    let mut parts = Vec::new();
    let (mut items, mut bytes) = (0, 0);
    for create in creates {
        let size = create.source.len() + create.index.len() + 64;
        if items > 0 && bytes + size > PART_BYTES_MAX {
            parts.push(items);
            (items, bytes) = (0, 0);
        }
        items += 1;
        bytes += size;
    }
    if items > 0 {
        parts.push(items);
    }
    parts
}

/// Reads the answer to `expected` items.
///
/// # Errors
/// [`ErrorKind::Unavailable`]: the answer is not that of a bulk with so many items.
pub(crate) fn parse(body: &[u8], expected: usize) -> Result<Vec<Created>> {
    let invalid = |reason: String| {
        Error::new(
            ErrorKind::Unavailable,
            format!("the answer to a bulk is invalid: {reason}"),
        )
    };
    let answer: BulkAnswer = serde_json::from_slice(body).map_err(|error| invalid(error.to_string()))?;
    if answer.items.len() != expected {
        return Err(invalid(format!("{} items instead of {expected}", answer.items.len())));
    }
    let items = answer.items.into_iter().map(|ItemAnswer { create }| Created {
        result: match create.status {
            200..=299 => Ok(()),
            status => Err(error_of(status, create.error)),
        },
        index: create.index,
        id: create.id.unwrap_or_default(),
    });
    Ok(items.collect())
}

fn error_of(status: u16, error: Option<ItemError>) -> Error {
    let (name, mut reason) = match error {
        Some(error) => (error.kind, error.reason.unwrap_or_default()),
        None => (String::new(), String::new()),
    };
    if reason.is_empty() {
        reason = format!("status {status} {name}");
    }
    Error::new(kind_of(status, &name), reason)
}

/// Kind of an item's error. It decides between a dead letter and another attempt, so what is not known to be the document's fault
/// is tried again.
pub(crate) fn kind_of(status: u16, name: &str) -> ErrorKind {
    match (status, name) {
        (400, "index_closed_exception") => ErrorKind::IndexClosed,
        // The limit of shards, which says nothing about the document.
        (400, "validation_exception") => ErrorKind::RequestValidation,
        (400, "strict_dynamic_mapping_exception") => ErrorKind::StrictDynamicMapping,
        (400, _) => ErrorKind::DocumentParsing,
        (403, _) => ErrorKind::IndexBlocked,
        (404, _) => ErrorKind::IndexNotFound,
        (409, "version_conflict_engine_exception") => ErrorKind::VersionConflict,
        (413, _) => ErrorKind::TooLarge,
        (429, _) => ErrorKind::Rejected,
        _ => ErrorKind::Unavailable,
    }
}

/// What the engine's interface says of a stored item. The cluster's versions are not read.
pub(crate) fn written(effect: Effect) -> Written {
    Written {
        effect,
        version: 1,
        seq_no: 0,
        primary_term: 1,
        forced_refresh: false,
        get: None,
    }
}
