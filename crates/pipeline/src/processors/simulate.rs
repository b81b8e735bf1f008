//! Results of `_simulate` in Elasticsearch's JSON.

use serde_json::{Map, Value, json};

use super::document::{Document, java_text};
use super::failure::Failure;
use super::pipeline::Outcome;
use super::trace::{StepResult, StepStatus};

/// Prints the element of `docs` for one document; a dropped document is `null`.
pub fn print_result(document: &Document, result: &Result<Outcome, Failure>) -> Value {
    match result {
        Ok(Outcome::Dropped) => Value::Null,
        Ok(_) => json!({"doc": print_document(document)}),
        Err(failure) => json!({"error": print_failure(failure)}),
    }
}

/// Prints the element of `docs` for one document with `verbose`.
pub fn print_verbose(results: &[StepResult]) -> Value {
    let results: Vec<Value> = results.iter().map(print_step).collect();
    json!({"processor_results": results})
}

/// Prints a document: metadata as texts, `_source`, `_ingest`.
pub fn print_document(document: &Document) -> Value {
    let mut out = Map::new();
    for (name, value) in document.metadata().iter().filter(|(_, value)| !value.is_null()) {
        out.insert(name.clone(), Value::String(java_text(value)));
    }
    out.insert("_source".to_owned(), Value::Object(document.source.clone()));
    out.insert("_ingest".to_owned(), Value::Object(document.ingest().clone()));
    Value::Object(out)
}

/// Prints a failure: the value of `error`.
pub fn print_failure(failure: &Failure) -> Value {
    let mut out = Map::new();
    let root = json!({"type": failure.kind.type_name(), "reason": failure.reason});
    out.insert("root_cause".to_owned(), Value::Array(vec![root]));
    out.extend(print_cause(failure));
    Value::Object(out)
}

fn print_cause(failure: &Failure) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("type".to_owned(), failure.kind.type_name().into());
    out.insert("reason".to_owned(), failure.reason.as_str().into());
    if let Some(cause) = &failure.cause {
        out.insert("caused_by".to_owned(), Value::Object(print_cause(cause)));
    }
    out
}

fn print_step(result: &StepResult) -> Value {
    let mut out = Map::new();
    out.insert("processor_type".to_owned(), result.processor_type.into());
    out.insert("status".to_owned(), result.status.name().into());
    if let Some(description) = &result.description {
        out.insert("description".to_owned(), description.as_str().into());
    }
    if let Some(tag) = &result.tag {
        out.insert("tag".to_owned(), tag.as_str().into());
    }
    if let Some(condition) = &result.condition {
        let condition = json!({"condition": condition.condition, "result": condition.result});
        out.insert("if".to_owned(), condition);
    }
    match (&result.failure, result.status) {
        (Some(failure), StepStatus::ErrorIgnored) => {
            out.insert("ignored_error".to_owned(), json!({"error": print_failure(failure)}));
        }
        (Some(failure), _) => {
            out.insert("error".to_owned(), print_failure(failure));
        }
        (None, _) => {}
    }
    if let Some(document) = &result.document {
        out.insert("doc".to_owned(), print_document(document));
    }
    Value::Object(out)
}
