//! Fields that a parser pushes, collected for a document.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::event::{FieldSink, Value};

/// Fields in the order of the record.
#[derive(Default)]
pub(super) struct Captures<'a>(pub(super) Vec<(Cow<'a, str>, Value<'a>)>);

impl<'a> FieldSink<'a> for Captures<'a> {
    fn field(&mut self, name: &'a str, value: Value<'a>) {
        self.0.push((Cow::Borrowed(name), value));
    }

    fn joined(&mut self, parts: &[&str], value: Value<'a>) {
        self.0.push((Cow::Owned(parts.join(".")), value));
    }
}

/// Turns a value of a parser into JSON.
pub(super) fn json(value: Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => value.into(),
        Value::Int(number) => number.into(),
        // A number or tree that JSON does not have stays the text that it is.
        Value::Number(text) | Value::Json(text) => {
            serde_json::from_str(&text).unwrap_or_else(|_| Json::String(text.into_owned()))
        }
        Value::Text(text) => Json::String(text.into_owned()),
        Value::Escaped(text) => {
            serde_json::from_str(&format!("\"{text}\"")).unwrap_or_else(|_| Json::String(text.to_owned()))
        }
    }
}
