//! `_ingest.timestamp` as Elasticsearch prints it.

use firn_model::dates::{DateFormat, Zone};

/// Prints an instant in ISO 8601, in UTC.
pub(super) fn print(ms: i64) -> String {
    DateFormat::default_millis().print_ms(ms, &Zone::utc())
}
