//! Fuzz target: no JSON makes the aggregation parser panic; parsed aggregations survive a print round trip and an empty
//! run.
#![no_main]

use firn_query::aggs::Aggregations;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) else { return };
    let Ok(aggregations) = Aggregations::parse(&value) else { return };
    assert_eq!(Aggregations::parse(&aggregations.print()).ok().as_ref(), Some(&aggregations));
    let _ = aggregations.finish(aggregations.empty(), 1000);
});
