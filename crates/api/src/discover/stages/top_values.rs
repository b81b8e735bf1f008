//! `top_values`: the values of a field that most events have, over all of them.

use serde_json::{Map, Value, json};

use super::{Outcome, aggregations, buckets, number};
use crate::discover::step::Step;
use crate::error::ApiError;
use firn_engine::Error;
use firn_engine::search::SearchResponse;

/// Values that each shard names at least, so that counts of shards that differ add up exactly.
const SHARD_VALUES_MIN: u64 = 1000;

pub(super) async fn run(step: &Step<'_>, field: &str, size: u64) -> Result<Outcome, ApiError> {
    let known = step.run.known().await?.get(field).copied();
    if let Some(known) = known
        && !known.aggregatable
    {
        let reason = format!(
            "values of field [{field}] of type [{}] cannot be counted, only of fields that are aggregatable",
            known.field_type
        );
        return Err(Error::illegal_argument(reason).into());
    }
    let request = step.run.question.search(aggregations(json!({
        "values": {"terms": {"field": field, "size": size, "shard_size": SHARD_VALUES_MIN.max(size * 10)}},
        "with": {"filter": {"exists": {"field": field}}},
    })))?;
    if let Some(cost) = step.too_dear(vec![request.clone()]).await? {
        return Ok(Outcome::Estimated(cost));
    }
    let field_type = known.map(|known| known.field_type);
    let print = |response: &SearchResponse| result(field, field_type, response).to_string().into_bytes();
    let response = step
        .search(request, &|so_far| {
            if so_far.aggregations.is_some() {
                step.partial(&print(so_far));
            }
        })
        .await?;
    Ok(Outcome::Done(print(&response)))
}

fn result(field: &str, field_type: Option<&str>, response: &SearchResponse) -> Value {
    let aggregations = response.aggregations.as_deref().unwrap_or(&Value::Null);
    let terms = &aggregations["values"];
    let with_value = number(&aggregations["with"]["doc_count"]);
    let total = response.total.map_or(0, |total| total.value);
    let values: Vec<Value> = buckets(terms)
        .iter()
        .map(|bucket| {
            let count = number(&bucket["doc_count"]);
            let mut value = Map::new();
            value.insert("value".to_owned(), bucket["key"].clone());
            value.insert("text".to_owned(), text(bucket).into());
            value.insert("count".to_owned(), count.into());
            value.insert("percent".to_owned(), percent(count, with_value).into());
            Value::Object(value)
        })
        .collect();
    json!({
        "field": field,
        "type": field_type,
        "total": total,
        "with_value": with_value,
        "missing": total.saturating_sub(with_value),
        "other": number(&terms["sum_other_doc_count"]),
        "exact": number(&terms["doc_count_error_upper_bound"]) == 0,
        "values": values,
    })
}

fn text(bucket: &Value) -> String {
    let shown = bucket.get("key_as_string").unwrap_or(&bucket["key"]);
    shown.as_str().map_or_else(|| shown.to_string(), str::to_owned)
}

/// To a hundredth.
fn percent(count: u64, of: u64) -> f64 {
    match of {
        0 => 0.0,
        of => (count as f64 * 10_000.0 / of as f64).round() / 100.0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use firn_engine::search::TotalHits;

    use super::*;

    #[test]
    fn counts_are_told_with_what_is_beside_them() {
        let response = SearchResponse {
            total: Some(TotalHits { value: 10, exact: true }),
            aggregations: Some(Arc::new(json!({
                "values": {
                    "doc_count_error_upper_bound": 0,
                    "sum_other_doc_count": 1,
                    "buckets": [
                        {"key": 1, "key_as_string": "true", "doc_count": 4},
                        {"key": "x", "doc_count": 2},
                    ],
                },
                "with": {"doc_count": 6},
            }))),
            ..SearchResponse::default()
        };
        let expect = json!({
            "field": "f", "type": "keyword", "total": 10, "with_value": 6, "missing": 4, "other": 1, "exact": true,
            "values": [
                {"value": 1, "text": "true", "count": 4, "percent": 66.67},
                {"value": "x", "text": "x", "count": 2, "percent": 33.33},
            ],
        });
        assert_eq!(result("f", Some("keyword"), &response), expect);
        let nothing = result("f", None, &SearchResponse::default());
        assert_eq!((&nothing["values"], &nothing["total"]), (&json!([]), &json!(0)));
    }
}
