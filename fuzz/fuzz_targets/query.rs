//! Fuzz target: no JSON makes the query and aggregation parsers panic; parsed values survive a print round trip.
#![no_main]

use firn_query::aggs::Aggregations;
use firn_query::query::Query;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = firn_query::query::query_string::parse(text, false);
        // The simple syntax has no errors except size limits.
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
