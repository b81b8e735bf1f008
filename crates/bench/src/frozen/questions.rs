//! Queries of the benchmark: a needle, and a dashboard of five visualisations as in the published comparison.

use serde_json::{Value, json};

use super::data::{SPAN_MS, START_MS};

/// Returns the search for the first hits of a client with one event.
pub(super) fn needle(client_ip: &str) -> Value {
    json!({"size": 10, "query": {"term": {"client_ip": client_ip}}})
}

/// Returns the search for the newest hundred events of a tenant.
pub(super) fn top_hundred(tenant: &str) -> Value {
    json!({
        "size": 100,
        "track_total_hits": false,
        "query": {"term": {"tenant": tenant}},
        "sort": [{"@timestamp": "desc"}],
    })
}

/// Returns the histogram of events by day and status, of a tenant or of all.
pub(super) fn histogram(tenant: Option<&str>) -> Value {
    let query = match tenant {
        Some(tenant) => json!({"term": {"tenant": tenant}}),
        None => json!({"match_all": {}}),
    };
    json!({
        "size": 0,
        "query": query,
        "aggs": {"days": {
            "date_histogram": {"field": "@timestamp", "fixed_interval": "1d"},
            "aggs": {"by_status": {"terms": {"field": "status", "size": 20}}},
        }},
    })
}

/// Events of Discover's first page.
pub(super) const SAMPLE_HITS: usize = 100;

/// Returns the request for Discover's first page over all events, as the console sends it.
pub(super) fn discover_sample(index: &str) -> Value {
    json!({
        "index": index,
        "time": {"field": "@timestamp", "from": START_MS, "to": START_MS + SPAN_MS, "zone": "UTC"},
        "stages": [{"stage": "sample", "size": SAMPLE_HITS}],
    })
}

/// Time range of a dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// The whole time range.
    Whole,
    /// The second half: another query of the same fields.
    Later,
}

/// Returns five visualisations as the lines of one `_msearch`, as browsers send them: concurrently.
pub(super) fn dashboard(index: &str, window: Window) -> String {
    let from_ms = match window {
        Window::Whole => START_MS,
        Window::Later => START_MS + SPAN_MS / 2,
    };
    let in_time =
        json!({"range": {"@timestamp": {"gte": from_ms, "lt": START_MS + SPAN_MS, "format": "epoch_millis"}}});
    let by_day =
        |inner: Value| json!({"date_histogram": {"field": "@timestamp", "fixed_interval": "1d"}, "aggs": inner});
    let top = |field: &str, inner: Value| json!({"terms": {"field": field, "size": 10}, "aggs": inner});
    let errors = json!({"filter": {"range": {"status": {"gte": 500}}}});
    let visualisations = [
        json!({"events": by_day(json!({}))}),
        json!({"statuses": by_day(json!({"by_status": {"terms": {"field": "status", "size": 20}}}))}),
        json!({"hosts": top("host", json!({}))}),
        json!({"cities": top("city", json!({"errors": errors}))}),
        json!({"methods": top("method", json!({"duration": {"avg": {"field": "duration_ms"}}}))}),
    ];
    let mut lines = String::new();
    for aggs in visualisations {
        let body = json!({"size": 0, "track_total_hits": true, "query": {"bool": {"filter": [in_time]}}, "aggs": aggs});
        lines += &format!("{}\n{body}\n", json!({"index": index}));
    }
    lines
}

/// Fails if a response of an `_msearch` has an error or failed shards; returns the first one.
pub(super) fn check(answer: &Value) -> anyhow::Result<()> {
    let answers = match answer["responses"].as_array() {
        Some(answers) => answers.iter().collect(),
        None => vec![answer],
    };
    for answer in answers {
        anyhow::ensure!(answer.get("error").is_none(), "a question failed: {}", answer["error"]);
        let shards = &answer["_shards"];
        anyhow::ensure!(shards["failed"] == 0, "shards failed: {shards}");
        anyhow::ensure!(answer["timed_out"] == false, "a question ran out of time");
    }
    Ok(())
}

/// Returns a response without the parts that differ from run to run, to compare the responses of tiers.
pub(super) fn comparable(answer: &Value) -> Value {
    match answer {
        Value::Object(object) => Value::Object(
            object
                .iter()
                .filter(|(key, _)| {
                    !matches!(
                        key.as_str(),
                        "took" | "_shards" | "_index" | "status" | "num_reduce_phases"
                    )
                })
                .map(|(key, value)| (key.clone(), comparable(value)))
                .collect(),
        ),
        Value::Array(values) => values.iter().map(comparable).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dashboard_is_five_searches() {
        let lines = dashboard("a", Window::Later);
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 10);
        assert!(lines.iter().step_by(2).all(|header| *header == json!({"index": "a"})));
        assert!(lines.iter().skip(1).step_by(2).all(|body| body["size"] == 0));
        assert_ne!(dashboard("a", Window::Later), dashboard("a", Window::Whole));
    }

    #[test]
    fn failures_are_not_taken_for_answers() {
        let good = json!({"timed_out": false, "_shards": {"failed": 0}});
        assert!(check(&good).is_ok());
        assert!(check(&json!({"responses": [good, {"error": {"type": "x"}}]})).is_err());
        assert!(check(&json!({"timed_out": false, "_shards": {"failed": 1}})).is_err());
        assert!(check(&json!({"timed_out": true, "_shards": {"failed": 0}})).is_err());
    }

    #[test]
    fn answers_are_compared_by_what_they_say() {
        let answer = |took: u64, index: &str| json!({"took": took, "hits": {"hits": [{"_index": index, "_id": "1"}]}, "_shards": {"total": took}});
        assert_eq!(comparable(&answer(1, "a")), comparable(&answer(2, "b")));
        assert_eq!(comparable(&answer(1, "a")), json!({"hits": {"hits": [{"_id": "1"}]}}));
    }
}
