//! Errors of refused authentication.

use firn_engine::{Error, ErrorKind};
use serde_json::{Map, Value, json};

use crate::wire::error::CHALLENGES;

/// `Retry-After` of a refused attempt: the longest wait in a queue.
const RETRY_AFTER_S: u64 = 10;

/// Returns the error of an unknown caller. `credentials`: what is wrong with its API key.
pub(super) fn unauthenticated(reason: String, credentials: Option<String>) -> Error {
    let mut details = Map::new();
    if let Some(credentials) = credentials {
        details.insert(
            "additional_unsuccessful_credentials".to_owned(),
            Value::from(credentials),
        );
    }
    details.insert("header".to_owned(), json!({"WWW-Authenticate": CHALLENGES}));
    Error::new(ErrorKind::Unauthenticated, reason).with_details(details)
}

/// Returns the error of an attempt that finds the queues full.
pub(super) fn too_many() -> Error {
    let mut details = Map::new();
    details.insert("retry_after_seconds".to_owned(), RETRY_AFTER_S.into());
    Error::new(
        ErrorKind::Rejected,
        "too many attempts to authenticate are waiting already, try again later",
    )
    .with_details(details)
}
