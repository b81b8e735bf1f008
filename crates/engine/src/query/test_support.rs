//! One-line checks for the tests of queries.

use serde_json::Value;

use super::Query;

/// Parses, prints as expected, and the print parses to the same.
pub(super) fn check(query: Value, printed: Value) {
    let parsed = Query::parse(&query).unwrap_or_else(|error| panic!("{query}: {error}"));
    assert_eq!(parsed.print(), printed, "{query}");
    assert_eq!(Query::parse(&printed).unwrap(), parsed, "{printed}");
}

/// Is refused for exactly this reason.
pub(super) fn check_refused(query: Value, reason: &str) {
    match Query::parse(&query) {
        Ok(parsed) => panic!("{query} was read as {parsed:?}"),
        Err(error) => assert_eq!(error.reason(), reason, "{query}"),
    }
}

/// Reads these fields.
pub(super) fn check_fields(query: Value, fields: &[&str]) {
    let parsed = Query::parse(&query).unwrap_or_else(|error| panic!("{query}: {error}"));
    assert_eq!(parsed.fields(), fields, "{query}");
}
