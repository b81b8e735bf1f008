//! Parser of bodies that refuses unknown fields.

use firn_engine::Error;
use firn_query::json::token;
use serde_json::{Map, Value};

use crate::wire::error::ApiError;
use crate::wire::params::split_list;

/// JSON object that is read field by field; fields that remain at the end are unknown.
pub(super) struct Fields {
    what: &'static str,
    left: Map<String, Value>,
}

impl Fields {
    /// Wraps the fields of a body; `what` names it in errors.
    pub(super) fn new(what: &'static str, body: Map<String, Value>) -> Self {
        Self { what, left: body }
    }

    /// Takes the value of a field; `null` counts as absent.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.left.shift_remove(name).filter(|value| !value.is_null())
    }

    /// Takes `true` or `false`, also as text.
    pub(super) fn flag(&mut self, name: &str, default: bool) -> Result<bool, ApiError> {
        match self.take(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(Value::String(text)) if text == "true" || text == "false" => Ok(text == "true"),
            Some(other) => Err(wrong(name, "boolean", &other)),
        }
    }

    /// Takes a text.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(name, "string", &other)),
        }
    }

    /// Takes a list of texts, or one comma-separated text.
    pub(super) fn list(&mut self, name: &str) -> Result<Option<Vec<String>>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(split_list(&text))),
            Some(Value::Array(items)) => items
                .into_iter()
                .map(|item| match item {
                    Value::String(text) => Ok(text),
                    other => Err(wrong(name, "string", &other)),
                })
                .collect::<Result<_, _>>()
                .map(Some),
            Some(other) => Err(wrong(name, "array of strings", &other)),
        }
    }

    /// Takes an object.
    pub(super) fn object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(other) => Err(wrong(name, "object", &other)),
        }
    }

    /// Fails if a field was not taken.
    pub(super) fn end(self) -> Result<(), ApiError> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(name) => {
                Err(Error::illegal_argument(format!("Unknown parameter {name} in the body of {}", self.what)).into())
            }
        }
    }
}

fn wrong(name: &str, expected: &str, found: &Value) -> ApiError {
    Error::illegal_argument(format!(
        "malformed [{name}], expected {expected} but got [{}]",
        token(found)
    ))
    .into()
}
