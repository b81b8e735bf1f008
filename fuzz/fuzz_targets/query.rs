//! No JSON may make the query and aggregation parsers panic, and what parses prints back to itself.
#![no_main]

use firn_engine::aggs::Aggregations;
use firn_engine::query::Query;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = firn_engine::query::query_string::parse(text, false);
        // The simple syntax has no errors but those of size.
        let simple = serde_json::json!({"simple_query_string": {"query": text}});
        if let Ok(query) = Query::parse(&simple) {
            assert_eq!(Query::parse(&query.print()).ok().as_ref(), Some(&query));
        }
    }
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) else { return };
    if let Ok(query) = Query::parse(&value) {
        assert_eq!(Query::parse(&query.print()).ok().as_ref(), Some(&query));
    }
    if let Ok(aggregations) = Aggregations::parse(&value) {
        assert_eq!(Aggregations::parse(&aggregations.print()).ok().as_ref(), Some(&aggregations));
    }
});
