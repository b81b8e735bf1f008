//! Conversion of failures of pipelines to errors with Elasticsearch's types.

use firn_engine::{Error, ErrorKind};
use firn_pipeline::processors::Failure;
use serde_json::Map;

/// Gives the error of a malformed pipeline or simulation Elasticsearch's type.
pub(super) fn malformed(error: Error) -> Error {
    let error_type = match error.kind() {
        ErrorKind::Parsing => "parse_exception",
        ErrorKind::Script => "script_exception",
        _ => return error,
    };
    let mut details = Map::new();
    details.insert("type".to_owned(), error_type.into());
    details.extend(error.details().cloned().unwrap_or_default());
    let malformed = Error::new(ErrorKind::IllegalArgument, error.reason()).with_details(details);
    match error.cause() {
        Some(cause) => malformed.caused_by(cause.clone()),
        None => malformed,
    }
}

/// Converts a failure of a document to the error of its write. The error has Elasticsearch's type: that of the exception
/// that its processor throws.
pub(super) fn to_error(failure: &Failure) -> Error {
    let kind = if failure.kind.is_client_error() {
        ErrorKind::IllegalArgument
    } else {
        ErrorKind::IngestProcessor
    };
    let mut details = Map::new();
    details.insert("type".to_owned(), failure.kind.type_name().into());
    let error = Error::new(kind, failure.reason.clone()).with_details(details);
    match &failure.cause {
        Some(cause) => error.caused_by(to_error(cause)),
        None => error,
    }
}
