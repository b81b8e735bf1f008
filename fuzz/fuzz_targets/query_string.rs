//! Fuzz target: no text makes the query string parsers panic or run long.
#![no_main]

use firn_query::query::{Query, query_string};
use serde_json::json;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for operator_and in [false, true] {
        let _ = query_string::parse(text, operator_and);
    }
    for name in ["query_string", "simple_query_string"] {
        let Ok(query) = Query::parse(&json!({name: {"query": text, "fields": ["a", "b^2"]}})) else { continue };
        assert_eq!(Query::parse(&query.print()).ok().as_ref(), Some(&query));
    }
});
