//! `ingest` of `_nodes/stats`: counters of pipelines and their processors.

use std::sync::atomic::{AtomicU64, Ordering};

use firn_pipeline::processors::Counts;
use serde_json::{Map, Value, json};

use crate::state::edge::Edge;
use crate::state::ingest::CompiledPipelines;

/// Prints the counters of all documents, and of each pipeline with its processors.
pub(crate) fn statistics(edge: &Edge, compiled: &CompiledPipelines) -> Value {
    let totals = &edge.ingest.totals;
    let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let total = Counts {
        count: value(&totals.count),
        current: value(&totals.current),
        failed: value(&totals.failed),
        nanos: value(&totals.nanos),
    };
    let pipelines: Map<String, Value> = compiled
        .iter()
        .map(|(id, pipeline)| {
            let counts = pipeline.counts();
            let processors: Vec<Value> = counts
                .processors
                .iter()
                .map(|(key, kind, counts)| json!({key.as_str(): {"type": kind, "stats": print(counts)}}))
                .collect();
            let mut out = print(&counts.total);
            out["processors"] = Value::Array(processors);
            (id.to_owned(), out)
        })
        .collect();
    json!({"total": print(&total), "pipelines": pipelines})
}

fn print(counts: &Counts) -> Value {
    json!({
        "count": counts.count,
        "time_in_millis": counts.nanos / 1_000_000,
        "current": counts.current,
        "failed": counts.failed,
    })
}
