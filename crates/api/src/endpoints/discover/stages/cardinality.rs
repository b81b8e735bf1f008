//! `cardinality`: number of distinct values per field, in batches of fields.

use firn_engine::Error;
use firn_query::search::{SearchRequest, SearchResponse};
use serde_json::{Map, Value, json};

use super::outcome::{Outcome, aggregations, is_whole, number};
use super::sample::hits_body;
use crate::endpoints::discover::field_usage;
use crate::endpoints::discover::field_usage::FieldUsage;
use crate::endpoints::discover::known_fields::{KnownField, KnownFields, is_object};
use crate::endpoints::discover::stage_run::Step;
use crate::wire::error::ApiError;

/// Fields per search. Smaller batches give the first results earlier; larger ones match the events less often.
const BATCH: usize = 10;
/// Maximum fields if the request names none.
const FIELDS_MAX: usize = 100;
/// Up to this number values are counted exactly.
const PRECISION: u64 = 3000;
/// A count below this number is certainly exact: above it, the error of a count is less than one in a hundred.
const EXACT_BELOW: u64 = PRECISION * 9 / 10;

pub(super) async fn run(step: &Step<'_>, named: Option<&[String]>) -> Result<Outcome, ApiError> {
    let known = step.run.known().await?;
    let fields = match named {
        Some(fields) => fields.to_vec(),
        None => most_used(step, known).await?,
    };
    let countable: Vec<&String> = fields.iter().filter(|field| is_countable(known, field)).collect();
    let batches: Vec<(&[&String], SearchRequest)> = countable
        .chunks(BATCH)
        .map(|batch| Ok((batch, request(step, batch)?)))
        .collect::<Result<_, Error>>()?;
    if let Some(cost) = step
        .too_dear(batches.iter().map(|(_, request)| request.clone()).collect())
        .await?
    {
        return Ok(Outcome::Estimated(cost));
    }
    // Fields that cannot be counted are reported at once.
    let mut counts: Vec<Value> = fields
        .iter()
        .filter(|field| !is_countable(known, field))
        .map(|field| uncountable(field, known.get(field)))
        .collect();
    let print = |counts: &[Value]| json!({"fields": counts}).to_string().into_bytes();
    let last = batches.len().saturating_sub(1);
    for (number, (batch, request)) in batches.into_iter().enumerate() {
        match step.search(request, &|_| {}).await {
            Ok(response) => counts.extend(results(batch, known, &response)),
            // An error of one field must not affect the others of its batch.
            Err(error) if error.status().is_client_error() && batch.len() > 1 => {
                for field in batch {
                    counts.push(alone(step, field, known).await?);
                }
            }
            Err(error) => return Err(error),
        }
        if number < last {
            step.partial(&print(&counts));
        }
    }
    Ok(Outcome::Done(print(&counts)))
}

/// Counts one field; its error takes the place of its result.
async fn alone(step: &Step<'_>, field: &String, known: &KnownFields) -> Result<Value, ApiError> {
    match step.search(request(step, &[field])?, &|_| {}).await {
        Ok(response) => Ok(results(&[field], known, &response).remove(0)),
        Err(error) if error.status().is_client_error() => {
            let mut body = error.body(Some(&step.run.metadata), false);
            Ok(failed(field, known.get(field), body["error"].take()))
        }
        Err(error) => Err(error),
    }
}

/// Aggregations are named by numbers, since field names may contain forbidden characters.
fn request(step: &Step<'_>, batch: &[&String]) -> Result<SearchRequest, Error> {
    let mut aggs = Map::new();
    for (number, field) in batch.iter().enumerate() {
        let values = json!({"cardinality": {"field": field, "precision_threshold": PRECISION}});
        aggs.insert(format!("v{number}"), values);
        aggs.insert(format!("d{number}"), json!({"filter": {"exists": {"field": field}}}));
    }
    step.run.question.search(aggregations(Value::Object(aggs)))
}

fn results(batch: &[&String], known: &KnownFields, response: &SearchResponse) -> Vec<Value> {
    let aggregations = response.aggregations.as_deref().unwrap_or(&Value::Null);
    let fields = batch.iter().enumerate();
    fields
        .map(|(at, field)| {
            let cardinality = number(&aggregations[format!("v{at}")]["value"]);
            let documents = number(&aggregations[format!("d{at}")]["doc_count"]);
            json!({
                "name": field,
                "type": known.get(*field).map(|known| known.field_type),
                "cardinality": cardinality,
                "exact": is_whole(response) && cardinality <= EXACT_BELOW,
                "documents": documents,
            })
        })
        .collect()
}

/// Returns whether a field is countable. An unmapped field is: no event has a value. An object is not: it has fields,
/// and no values.
fn is_countable(known: &KnownFields, field: &str) -> bool {
    match known.get(field) {
        Some(known) => known.aggregatable,
        None => !is_object(known, field),
    }
}

fn uncountable(field: &str, known: Option<&KnownField>) -> Value {
    let reason = format!("values of field [{field}] cannot be counted, only of fields that are aggregatable");
    failed(
        field,
        known,
        json!({"type": "illegal_argument_exception", "reason": reason}),
    )
}

fn failed(field: &str, known: Option<&KnownField>, error: Value) -> Value {
    json!({
        "name": field,
        "type": known.map(|known| known.field_type),
        "cardinality": null,
        "exact": false,
        "documents": null,
        "error": error,
    })
}

/// Returns the fields in use, ordered by their use in the newest events.
async fn most_used(step: &Step<'_>, known: &KnownFields) -> Result<Vec<String>, ApiError> {
    let in_use = step.run.in_use().await?;
    let newest = || async {
        // The sample uses the default order too, unless the table is sorted otherwise, so the search is shared.
        let question = step.run.question.in_default_order();
        let request = question.search(hits_body(&question, field_usage::SAMPLE, None))?;
        step.search(request, &|_| {}).await
    };
    let newest = step.run.newest.get_or_try_init(newest).await?;
    let uses = FieldUsage::of(&newest.hits);
    let used = in_use
        .iter()
        .filter(|field| known.get(*field).is_some_and(|known| known.aggregatable));
    Ok(uses.ranked(used).into_iter().take(FIELDS_MAX).cloned().collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_count_says_whether_it_is_exact() {
        let (a, b) = ("a".to_owned(), "b".to_owned());
        let response = SearchResponse {
            aggregations: Some(Arc::new(json!({
                "v0": {"value": 12}, "d0": {"doc_count": 40},
                "v1": {"value": 2_990}, "d1": {"doc_count": 5_000},
            }))),
            ..SearchResponse::default()
        };
        let found = results(&[&a, &b], &KnownFields::new(), &response);
        let first = json!({"name": "a", "type": null, "cardinality": 12, "exact": true, "documents": 40});
        assert_eq!(found[0], first);
        assert_eq!(found[1]["exact"], json!(false), "it may have been estimated");
    }
}
