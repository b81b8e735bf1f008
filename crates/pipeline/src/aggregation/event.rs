//! Events that closed windows become.

use serde_json::{Map, Value, json};

use super::definition::AggregateDefinition;
use super::row::Row;
use crate::mapping::dates::push_iso;

const NANOS_PER_MS: i64 = 1_000_000;

/// A row of a closed window.
pub(super) struct Closed<'a> {
    pub(super) pipeline: &'a str,
    pub(super) aggregate: &'a str,
    pub(super) definition: &'a AggregateDefinition,
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    /// How often the window was closed before; `None`: too long ago to be known.
    pub(super) revision: Option<u32>,
    pub(super) key: Option<&'a str>,
    pub(super) row: &'a Row,
}

/// Prints the event.
pub(super) fn document(closed: &Closed<'_>) -> Value {
    let mut aggregate = json!({
        "name": closed.aggregate,
        "pipeline": closed.pipeline,
        "window": {"start": iso(closed.start_ms), "end": iso(closed.end_ms)},
        "events": closed.row.events,
    });
    match closed.revision {
        Some(0) => {}
        Some(revision) => {
            aggregate["late"] = true.into();
            aggregate["revision"] = revision.into();
        }
        None => aggregate["late"] = true.into(),
    }
    if closed.key.is_none() {
        aggregate["overflow"] = true.into();
    }
    let mut event = Map::new();
    event.insert("@timestamp".to_owned(), iso(closed.start_ms).into());
    event.insert("event".to_owned(), json!({"kind": "metric"}));
    event.insert("firn".to_owned(), json!({"aggregate": aggregate}));
    let key = closed.key.and_then(|key| serde_json::from_str::<Vec<Value>>(key).ok());
    for (field, value) in closed.definition.by.iter().zip(key.into_iter().flatten()) {
        if !value.is_null() {
            insert(&mut event, field, value);
        }
    }
    for (field, value) in closed.definition.metrics.keys().zip(closed.row.values()) {
        if let Some(value) = value {
            insert(&mut event, field, value);
        }
    }
    Value::Object(event)
}

fn insert(object: &mut Map<String, Value>, field: &str, value: Value) {
    match field.split_once('.') {
        None => drop(object.insert(field.to_owned(), value)),
        Some((first, rest)) => {
            let inner = object.entry(first).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

fn iso(ms: i64) -> String {
    let mut text = String::new();
    push_iso(ms.saturating_mul(NANOS_PER_MS), &mut text);
    text
}
