//! Beginning of every Discover request: its body, its indices, and the `opened` event.

use std::sync::Arc;

use firn_engine::{Error, ErrorKind};
use firn_model::metadata::Metadata;
use serde_json::{Map, Value, json};

use super::request::{BODY_BYTES_MAX, EventSelection};
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::state::partial_results::PartialResult;
use crate::wire::error::ApiError;

/// Returns the body of a Discover request.
pub(super) fn body(call: &Call) -> Result<Map<String, Value>, ApiError> {
    if call.body.len() > BODY_BYTES_MAX {
        let reason = format!(
            "a discover request of [{}] bytes is longer than the limit of [{BODY_BYTES_MAX}]",
            call.body.len()
        );
        return Err(Error::new(ErrorKind::TooLarge, reason).into());
    }
    call.object()
}

/// Returns the concrete indices of a question; fails if one of its names does not exist.
pub(super) async fn resolve(
    edge: &Edge,
    call: &Call,
    question: &EventSelection,
) -> Result<(Arc<Metadata>, Vec<String>), ApiError> {
    let metadata = edge.metadata(call).await?;
    let indices = edge.resolve_names(&question.target, &metadata)?;
    Ok((metadata, indices))
}

/// Returns the first event of an answer: how the request was understood.
pub(super) fn opened(id: &str, question: &EventSelection, indices: &[String], now_ms: i64) -> PartialResult {
    let time = question.time.as_ref().map(
        |time| json!({"field": time.field, "from_ms": time.from_ms, "to_ms": time.to_ms, "zone": time.zone.name()}),
    );
    let json = json!({
        "event": "opened",
        "id": id,
        "indices": indices,
        "time": time,
        "now_ms": now_ms,
        "query_dsl": question.query_dsl,
    });
    PartialResult {
        event: "opened",
        json: json.to_string().into(),
    }
}
