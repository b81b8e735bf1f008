//! Checks for the tests of queries.

use serde_json::Value;

use super::Query;

/// Checks that a query parses, prints as expected, and that the printed query parses to the same.
pub(super) fn check(query: Value, printed: Value) {
    let parsed = Query::parse(&query).unwrap_or_else(|error| panic!("{query}: {error}"));
    assert_eq!(parsed.print(), printed, "{query}");
    assert_eq!(Query::parse(&printed).unwrap(), parsed, "{printed}");
}

/// Checks that a query is refused with exactly this reason.
pub(super) fn check_refused(query: Value, reason: &str) {
    match Query::parse(&query) {
        Ok(parsed) => panic!("{query} was read as {parsed:?}"),
        Err(error) => assert_eq!(error.reason(), reason, "{query}"),
    }
}

/// Checks the fields that a query reads.
pub(super) fn check_fields(query: Value, fields: &[&str]) {
    let parsed = Query::parse(&query).unwrap_or_else(|error| panic!("{query}: {error}"));
    assert_eq!(parsed.fields(), fields, "{query}");
}
