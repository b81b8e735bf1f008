//! Conversion of a processor's failure to an error.

use firn_engine::{Error, ErrorKind};
use firn_pipeline::processors::Failure;
use serde_json::Map;

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
