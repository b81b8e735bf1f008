//! `cardinality`: how many values fields have, some fields at a time.

use std::collections::{BTreeSet, HashMap};

use firn_engine::Error;
use firn_engine::search::{SearchRequest, SearchResponse};
use serde_json::{Map, Value, json};

use super::sample::hits_body;
use super::{Outcome, aggregations, is_whole, number};
use crate::discover::known::{KnownField, KnownFields};
use crate::discover::step::Step;
use crate::error::ApiError;

/// Fields that are counted together. The fewer, the sooner the first are told; the more, the less often the matching
/// events are found.
const BATCH: usize = 10;
/// Fields that are counted if none are named.
const FIELDS_MAX: usize = 100;
/// Up to here values are counted one by one.
const PRECISION: u64 = 3000;
/// Counts of so much less than that were certainly counted so: beyond it the error of a count is less than one in a hundred.
const EXACT_BELOW: u64 = PRECISION * 9 / 10;
/// Newest events that are asked which fields are used most.
const SAMPLE: u64 = 100;
/// Depth to which objects of an event are looked into for its fields.
const DEPTH_MAX: usize = 20;

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
    // What cannot be counted is told first: it need not be waited for.
    let mut told: Vec<Value> = fields
        .iter()
        .filter(|field| !is_countable(known, field))
        .map(|field| uncountable(field, known.get(field)))
        .collect();
    let print = |told: &[Value]| json!({"fields": told}).to_string().into_bytes();
    let last = batches.len().saturating_sub(1);
    for (number, (batch, request)) in batches.into_iter().enumerate() {
        match step.search(request, &|_| {}).await {
            Ok(response) => told.extend(results(batch, known, &response)),
            // One field that cannot be counted takes no other with it.
            Err(error) if error.status().is_client_error() && batch.len() > 1 => {
                for field in batch {
                    told.push(alone(step, field, known).await?);
                }
            }
            Err(error) => return Err(error),
        }
        if number < last {
            step.partial(&print(&told));
        }
    }
    Ok(Outcome::Done(print(&told)))
}

/// Counts one field; what is wrong with it is told in its place.
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

/// Names of aggregations are numbers, since those of fields may have what names must not.
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

/// What no mapping has is counted all the same: no event has a value.
fn is_countable(known: &KnownFields, field: &str) -> bool {
    known.get(field).is_none_or(|known| known.aggregatable)
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

/// Fields that are in use, first those that most of the newest events have.
async fn most_used(step: &Step<'_>, known: &KnownFields) -> Result<Vec<String>, ApiError> {
    let in_use = step.run.in_use().await?;
    let newest = || async {
        // However the table is sorted; as long as it is not, the sample has asked the same.
        let question = step.run.question.in_default_order();
        let request = question.search(hits_body(&question, SAMPLE, None))?;
        step.search(request, &|_| {}).await
    };
    let newest = step.run.newest.get_or_try_init(newest).await?;
    let mut counts: HashMap<String, usize> = HashMap::new();
    for hit in &newest.hits {
        let source = hit.source.as_deref().unwrap_or(b"null");
        let mut paths = BTreeSet::new();
        // What is not JSON has no fields.
        if let Ok(source) = serde_json::from_slice::<Value>(source) {
            add_paths("", &source, &mut paths, 0);
        }
        for path in paths {
            *counts.entry(path).or_default() += 1;
        }
    }
    let used = in_use
        .iter()
        .filter(|field| known.get(*field).is_some_and(|known| known.aggregatable));
    Ok(ranked(used, &counts))
}

fn ranked<'a>(fields: impl Iterator<Item = &'a String>, counts: &HashMap<String, usize>) -> Vec<String> {
    // A field of its own below another (`message.keyword`) is used as that is.
    let used = |field: &str| {
        let parent = || field.rsplit_once('.').and_then(|(parent, _)| counts.get(parent));
        counts.get(field).or_else(parent).copied().unwrap_or(0)
    };
    let mut fields: Vec<&String> = fields.collect();
    fields.sort_by_key(|field| (std::cmp::Reverse(used(field)), *field));
    fields.into_iter().take(FIELDS_MAX).cloned().collect()
}

fn add_paths(prefix: &str, value: &Value, paths: &mut BTreeSet<String>, depth: usize) {
    match value {
        Value::Object(object) if depth < DEPTH_MAX => {
            for (name, value) in object {
                let path = match prefix {
                    "" => name.clone(),
                    prefix => format!("{prefix}.{name}"),
                };
                add_paths(&path, value, paths, depth + 1);
            }
        }
        Value::Array(values) if depth < DEPTH_MAX => {
            for value in values {
                add_paths(prefix, value, paths, depth + 1);
            }
        }
        Value::Null => {}
        _ => {
            paths.insert(prefix.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_most_events_have_comes_first() {
        let mut counts = HashMap::new();
        for source in [
            json!({"a": {"b": 1}, "m": "x", "n": null}),
            json!({"a": [{"b": 1}, {"c": 2}], "m": "y"}),
            json!({"m": 1}),
        ] {
            let mut paths = BTreeSet::new();
            add_paths("", &source, &mut paths, 0);
            for path in paths {
                *counts.entry(path).or_default() += 1;
            }
        }
        assert_eq!((counts["a.b"], counts["a.c"], counts["m"]), (2, 1, 3));
        assert!(!counts.contains_key("n"));
        let fields: Vec<String> = ["a.b", "a.c", "m.keyword", "z"].map(str::to_owned).into();
        assert_eq!(ranked(fields.iter(), &counts), ["m.keyword", "a.b", "a.c", "z"]);
    }

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
