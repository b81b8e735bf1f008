//! `top_values`: the most frequent values of a field, over all events.

use firn_engine::Error;
use firn_query::search::SearchResponse;
use serde_json::{Map, Value, json};

use super::exact_counts::{self, Counted};
use super::outcome::{Outcome, aggregations, is_whole, number, text};
use crate::endpoints::discover::known_fields::is_object;
use crate::endpoints::discover::stage_run::Step;
use crate::wire::error::ApiError;

/// Minimum values per shard, so that the counts of different shards add up exactly.
const SHARD_VALUES_MIN: u64 = 1000;
/// Values beyond the requested number: if shards differ, one of them may be among the first.
const BEYOND: u64 = 20;

pub(super) async fn run(step: &Step<'_>, field: &str, size: u64) -> Result<Outcome, ApiError> {
    let all = step.run.known().await?;
    if is_object(all, field) {
        let reason = format!("values of field [{field}] of type [object] cannot be counted, only of fields beneath it");
        return Err(Error::illegal_argument(reason).into());
    }
    let known = all.get(field).copied();
    if let Some(known) = known
        && !known.aggregatable
    {
        let reason = format!(
            "values of field [{field}] of type [{}] cannot be counted, only of fields that are aggregatable",
            known.field_type
        );
        return Err(Error::illegal_argument(reason).into());
    }
    let requested = size + BEYOND;
    let request = step.run.question.search(aggregations(json!({
        "values": {"terms": exact_counts::terms(field, requested, SHARD_VALUES_MIN.max(size * 10))},
        "with": {"filter": {"exists": {"field": field}}},
    })))?;
    if let Some(cost) = step.too_dear(vec![request.clone()]).await? {
        return Ok(Outcome::Estimated(cost));
    }
    let field_values = FieldValues {
        field,
        field_type: known.map(|known| known.field_type),
        size,
        requested,
    };
    let found = step
        .search(request, &|so_far| {
            if so_far.aggregations.is_some() {
                step.partial(&field_values.print(so_far, None, false));
            }
        })
        .await?;
    let terms = found.aggregations.as_deref().map_or(&Value::Null, |all| &all["values"]);
    let again = match exact_counts::again(step, field, terms, size, None).await? {
        Some(request) => {
            step.partial(&field_values.print(&found, None, false));
            Some(step.search(request, &|_| {}).await?)
        }
        None => None,
    };
    Ok(Outcome::Done(field_values.print(&found, again.as_ref(), true)))
}

/// Parameters of the result.
struct FieldValues<'a> {
    field: &'a str,
    field_type: Option<&'a str>,
    /// Values in the result.
    size: u64,
    /// Values requested from the shards.
    requested: u64,
}

impl FieldValues<'_> {
    fn print(&self, found: &SearchResponse, again: Option<&SearchResponse>, ended: bool) -> Vec<u8> {
        self.result(found, again, ended).to_string().into_bytes()
    }

    /// Builds the result. `ended`: it is final; `again`: recounted values, if necessary.
    fn result(&self, found: &SearchResponse, again: Option<&SearchResponse>, ended: bool) -> Value {
        let aggregations = found.aggregations.as_deref().unwrap_or(&Value::Null);
        let again_aggregations = again.and_then(|again| again.aggregations.as_deref());
        let counted = Counted::new(
            &aggregations["values"],
            again_aggregations.map(|all| &all["values"]),
            self.size,
            self.requested,
            ended && is_whole(found) && again.is_none_or(is_whole),
        );
        let with_value = number(&aggregations["with"]["doc_count"]);
        let total = found.total.map_or(0, |total| total.value);
        let values = counted.buckets.iter().map(|bucket| {
            let count = number(&bucket["doc_count"]);
            let mut value = Map::new();
            value.insert("value".to_owned(), filter_value(bucket));
            value.insert("text".to_owned(), text(bucket).into());
            value.insert("count".to_owned(), count.into());
            value.insert("percent".to_owned(), percent(count, with_value).into());
            Value::Object(value)
        });
        json!({
            "field": self.field,
            "type": self.field_type,
            "total": total,
            "with_value": with_value,
            "missing": total.saturating_sub(with_value),
            "other": counted.other,
            "exact": counted.exact,
            "exact_choice": counted.exact_choice,
            "values": values.collect::<Vec<_>>(),
        })
    }
}

/// Returns the value for a filter on a bucket. The keys of booleans are numbers, which their fields do not accept.
fn filter_value(bucket: &Value) -> Value {
    match (&bucket["key"], bucket["key_as_string"].as_str()) {
        (Value::Number(_), Some("true")) => true.into(),
        (Value::Number(_), Some("false")) => false.into(),
        (key, _) => key.clone(),
    }
}

/// Rounds to a hundredth.
fn percent(count: u64, of: u64) -> f64 {
    match of {
        0 => 0.0,
        of => (count as f64 * 10_000.0 / of as f64).round() / 100.0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use firn_query::search::TotalHits;

    use super::*;

    #[test]
    fn counts_include_the_rest_of_the_events() {
        let response = SearchResponse {
            total: Some(TotalHits { value: 10, exact: true }),
            aggregations: Some(Arc::new(json!({
                "values": {
                    "doc_count_error_upper_bound": 0,
                    "sum_other_doc_count": 1,
                    "buckets": [
                        {"key": 1, "key_as_string": "true", "doc_count": 4},
                        {"key": 1000, "key_as_string": "1970-01-01T00:00:01.000Z", "doc_count": 2},
                    ],
                },
                "with": {"doc_count": 6},
            }))),
            ..SearchResponse::default()
        };
        let field_values = FieldValues {
            field: "f",
            field_type: Some("conflict"),
            size: 10,
            requested: 30,
        };
        let expect = json!({
            "field": "f", "type": "conflict", "total": 10, "with_value": 6, "missing": 4, "other": 1,
            "exact": true, "exact_choice": true,
            "values": [
                {"value": true, "text": "true", "count": 4, "percent": 66.67},
                {"value": 1000, "text": "1970-01-01T00:00:01.000Z", "count": 2, "percent": 33.33},
            ],
        });
        assert_eq!(field_values.result(&response, None, true), expect);
        let nothing = field_values.result(&SearchResponse::default(), None, true);
        assert_eq!((&nothing["values"], &nothing["total"]), (&json!([]), &json!(0)));
    }
}
