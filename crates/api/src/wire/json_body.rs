//! Parser of JSON request bodies into trees, bounded in bytes and depth.

use firn_engine::{Error, ErrorKind};
use serde_json::Value;

use crate::wire::error::ApiError;

/// Maximum bytes of a JSON body that is parsed into a tree: a tree takes some ten times its text.
const MAX_JSON_TREE_BYTES: usize = 16 << 20;

/// Returns Elasticsearch's error for an absent body.
pub(crate) fn missing_body() -> ApiError {
    ApiError::bad_request("parse_exception", "request body is required")
}

/// Parses JSON into a tree: bounded in bytes, and in depth by serde_json (128).
pub(crate) fn parse_json(bytes: &[u8]) -> Result<Value, ApiError> {
    if bytes.len() > MAX_JSON_TREE_BYTES {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "a JSON body of [{}] bytes is longer than the limit of [{MAX_JSON_TREE_BYTES}] for requests other than _bulk",
                bytes.len()
            ),
        )
        .into());
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let reason = format!("[{}:{}] {error}", error.line(), error.column());
        Error::new(ErrorKind::JsonParse, reason).into()
    })
}
