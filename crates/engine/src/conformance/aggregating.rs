//! Cases of aggregations.

use serde_json::{Value, json};

use super::subject::{Subject, index};
use super::verdict::{Failure, Verdict, ensure, same};

/// Creates an index of two shards with ten events on four days; returns its name.
async fn filled(subject: &Subject) -> Result<String, Failure> {
    let mappings = json!({"properties": {
        "@timestamp": {"type": "date"}, "level": {"type": "keyword"}, "ms": {"type": "long"},
    }});
    let body = json!({"settings": {"index.number_of_shards": 2}, "mappings": mappings});
    let logs = subject.create("logs", body).await?;
    let items = (0..10).map(|n| {
        let level = ["info", "info", "error", "info", "warn"][n % 5];
        let source =
            json!({"@timestamp": format!("2026-01-0{}T0{n}:00:00Z", [1, 1, 2, 4][n % 4]), "level": level, "ms": n});
        index(&logs, &n.to_string(), source)
    });
    subject.fill(items.collect()).await?;
    Ok(logs)
}

/// Returns keys and counts of the buckets of an aggregation.
fn buckets(found: &Value, key: &str) -> Vec<(Value, u64)> {
    let buckets = found["buckets"].as_array();
    let one = |bucket: &Value| (bucket[key].clone(), bucket["doc_count"].as_u64().unwrap_or(u64::MAX));
    buckets.into_iter().flatten().map(one).collect()
}

pub(super) async fn terms_are_counted_and_ordered(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let found = subject
        .aggregations(
            &logs,
            json!({
                "levels": {"terms": {"field": "level"}},
                "first": {"terms": {"field": "level", "size": 1, "order": {"_key": "asc"}}},
                "different": {"cardinality": {"field": "level"}},
            }),
        )
        .await?;
    let all = [(json!("info"), 6), (json!("error"), 2), (json!("warn"), 2)];
    same("by count", buckets(&found["levels"], "key"), all)?;
    same("by key", buckets(&found["first"], "key"), [(json!("error"), 2)])?;
    same("other documents", &found["first"]["sum_other_doc_count"], &json!(8))?;
    same("distinct values", &found["different"]["value"], &json!(3))
}

pub(super) async fn metrics_summarize_numbers(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let found = subject
        .aggregations(
            &logs,
            json!({
                "stats": {"stats": {"field": "ms"}},
                "count": {"value_count": {"field": "level"}},
                "none": {"max": {"field": "missing"}},
            }),
        )
        .await?;
    let number = |name: &str| found["stats"][name].as_f64();
    for (name, expect) in [("count", 10.0), ("min", 0.0), ("max", 9.0), ("sum", 45.0), ("avg", 4.5)] {
        same(name, number(name), Some(expect))?;
    }
    same("values", &found["count"]["value"], &json!(10))?;
    same("no values", &found["none"]["value"], &Value::Null)
}

pub(super) async fn histograms_cover_gaps(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let found = subject
        .aggregations(
            &logs,
            json!({
                "days": {"date_histogram": {"field": "@timestamp", "calendar_interval": "day"}},
                "ms": {"histogram": {"field": "ms", "interval": 4}},
            }),
        )
        .await?;
    let day = |day: u32, count| (json!(format!("2026-01-0{day}T00:00:00.000Z")), count);
    let days = [day(1, 6), day(2, 2), day(3, 0), day(4, 2)];
    same("days", buckets(&found["days"], "key_as_string"), days)?;
    let counts: Vec<u64> = buckets(&found["ms"], "key")
        .into_iter()
        .map(|(_, count)| count)
        .collect();
    same("intervals", counts, [4, 4, 2])
}

pub(super) async fn buckets_nest_and_filter(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let found = subject
        .aggregations(
            &logs,
            json!({
                "slow": {
                    "filter": {"range": {"ms": {"gte": 5}}},
                    "aggs": {"levels": {"terms": {"field": "level"}, "aggs": {"most": {"max": {"field": "ms"}}}}},
                },
                "ranges": {"range": {"field": "ms", "ranges": [{"to": 2}, {"from": 2, "to": 5}, {"from": 5}]}},
            }),
        )
        .await?;
    let slow = &found["slow"];
    same("filtered", &slow["doc_count"], &json!(5))?;
    let info = &slow["levels"]["buckets"][0];
    same("first bucket", &info["key"], &json!("info"))?;
    same("most in it", info["most"]["value"].as_f64(), Some(8.0))?;
    let counts: Vec<u64> = buckets(&found["ranges"], "key")
        .into_iter()
        .map(|(_, count)| count)
        .collect();
    same("ranges", counts, [2, 3, 5])
}

pub(super) async fn composite_pages_read_every_bucket(subject: &Subject) -> Verdict {
    let logs = filled(subject).await?;
    let mut after = None;
    let mut all = Vec::new();
    // One page more than there are.
    for _ in 0..4 {
        let mut composite = json!({"size": 2, "sources": [
            {"level": {"terms": {"field": "level"}}},
            {"odd": {"histogram": {"field": "ms", "interval": 5}}},
        ]});
        if let Some(after) = after.take() {
            composite["after"] = after;
        }
        let found = subject
            .aggregations(&logs, json!({"pages": {"composite": composite}}))
            .await?;
        let page = &found["pages"];
        let read = buckets(page, "key");
        let is_last = read.is_empty();
        all.extend(read.into_iter().map(|(key, count)| {
            let half = key["odd"].as_f64().unwrap_or(f64::NAN);
            format!("{} {half} {count}", key["level"].as_str().unwrap_or("?"))
        }));
        if is_last {
            break;
        }
        ensure!(page["after_key"].is_object(), "a page without after_key: {page}");
        after = Some(page["after_key"].clone());
    }
    let expect = ["error 0 1", "error 5 1", "info 0 3", "info 5 3", "warn 0 1", "warn 5 1"];
    same("all pages", all, expect)
}
