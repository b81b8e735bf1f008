//! Traffic record: one document for each request, with its content and cost.

use firn_api::RequestRecord;
use serde_json::{Map, Value, json};

use super::audit::print_caller;
use super::stream::Definition;

/// Returns the definition of the stream.
pub(super) fn definition() -> Definition {
    let keyword = || json!({"type": "keyword", "ignore_above": 1024});
    let number = || json!({"type": "long"});
    Definition {
        name: ".firn-traffic",
        description: "each request and its cost",
        period: "week",
        properties: json!({
            "@timestamp": {"type": "date"},
            "request": {"properties": {"id": keyword(), "method": keyword(), "name": keyword()}},
            "tenant": keyword(),
            "user": {"properties": {"name": keyword()}},
            "authentication": {"properties": {"type": keyword()}},
            "apikey": {"properties": {"id": keyword(), "name": keyword()}},
            "index": keyword(),
            "opaque_id": keyword(),
            "status": {"type": "short"},
            "error": {"properties": {"type": keyword()}},
            "took_ms": {"type": "float"},
            "stages": {"properties": {
                "name": keyword(),
                "failed": keyword(),
                "took_ms": {"properties": {
                    "sample": {"type": "float"},
                    "histogram": {"type": "float"},
                    "cardinality": {"type": "float"},
                    "top_values": {"type": "float"},
                }},
            }},
            "bytes": {"properties": {"in": number(), "out": number(), "repository": number()}},
            "repository_requests": number(),
            "shards": number(),
            "segments": number(),
            "hits": number(),
            "written": number(),
            "records_lost": number(),
            "node": {"properties": {"name": keyword()}},
        }),
        lost: |count| json!({"records_lost": count}),
    }
}

/// Returns the record as it is stored. Zeros are omitted: most requests search nothing or write nothing.
pub(super) fn print(record: &RequestRecord, node: &str) -> Value {
    let mut out = Map::new();
    out.insert("@timestamp".to_owned(), record.at_ms.into());
    out.insert(
        "request".to_owned(),
        json!({"id": record.id, "method": record.method, "name": record.endpoint}),
    );
    print_caller(record, &mut out);
    for (name, text) in [("index", &record.index), ("opaque_id", &record.opaque_id)] {
        if let Some(text) = text {
            out.insert(name.to_owned(), text.as_str().into());
        }
    }
    out.insert("status".to_owned(), record.status.into());
    if let Some(error) = record.error {
        out.insert("error".to_owned(), json!({"type": error}));
    }
    out.insert("took_ms".to_owned(), (record.took.as_micros() as f64 / 1000.0).into());
    out.insert(
        "bytes".to_owned(),
        json!({"in": record.bytes_in, "out": record.bytes_out}),
    );
    if !record.stages.is_empty() {
        out.insert("stages".to_owned(), stages(record));
    }
    let work = &record.work;
    if work.repository_bytes > 0 {
        out["bytes"]["repository"] = work.repository_bytes.into();
    }
    for (name, count) in [
        ("repository_requests", work.repository_requests),
        ("shards", work.shards),
        ("segments", work.segments),
        ("hits", work.hits),
        ("written", work.written),
    ] {
        if count > 0 {
            out.insert(name.to_owned(), count.into());
        }
    }
    out.insert("node".to_owned(), json!({"name": node}));
    Value::Object(out)
}

/// Returns the stages of a response and their times, the slowest of those with one name; a stage that was only
/// estimated did not run.
fn stages(record: &RequestRecord) -> Value {
    let named = |outcome: &str| -> Vec<&str> {
        let stages = record.stages.iter().filter(|stage| stage.outcome == outcome);
        stages.map(|stage| stage.stage).collect()
    };
    let mut took_ms: Map<String, Value> = Map::new();
    for stage in record.stages.iter().filter(|stage| stage.outcome != "estimate") {
        let ms = stage.took.as_micros() as f64 / 1000.0;
        let slowest = took_ms.get(stage.stage).and_then(Value::as_f64).unwrap_or(0.0);
        took_ms.insert(stage.stage.to_owned(), ms.max(slowest).into());
    }
    let mut stages = json!({"name": named("done"), "took_ms": took_ms});
    let failed = named("failed");
    if !failed.is_empty() {
        stages["failed"] = failed.into();
    }
    stages
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firn_api::{Caller, StageTiming};
    use firn_engine::WorkDone;
    use firn_model::tenant::TenantId;

    use super::super::audit::tests::record;
    use super::*;

    #[test]
    fn a_record_has_the_request_and_its_cost() {
        let mut request = record(Caller::Anyone);
        request.tenant = Some(TenantId::parse("acme").unwrap());
        request.work = WorkDone {
            shards: 2,
            segments: 3,
            hits: 4,
            repository_requests: 5,
            repository_bytes: 6,
            ..WorkDone::default()
        };
        let stage = |stage, outcome, ms| StageTiming {
            stage,
            outcome,
            took: Duration::from_millis(ms),
        };
        request.stages = vec![
            stage("sample", "done", 5),
            stage("top_values", "done", 7),
            stage("top_values", "done", 6),
            stage("cardinality", "failed", 9),
            stage("histogram", "estimate", 1),
        ];
        let expect = json!({
            "@timestamp": 1_000_000,
            "request": {"id": "n-1", "method": "GET", "name": "search"},
            "authentication": {"type": "ANONYMOUS"},
            "tenant": "acme",
            "index": "events,logs-*",
            "status": 200,
            "took_ms": 1.5,
            "stages": {
                "name": ["sample", "top_values", "top_values"],
                "failed": ["cardinality"],
                "took_ms": {"sample": 5.0, "top_values": 7.0, "cardinality": 9.0},
            },
            "bytes": {"in": 10, "out": 20, "repository": 6},
            "repository_requests": 5,
            "shards": 2,
            "segments": 3,
            "hits": 4,
            "node": {"name": "node-1"},
        });
        assert_eq!(print(&request, "node-1"), expect);
    }
}
