//! Parameter parsing that all queries share: the single field, boosts, flags, and the errors in Elasticsearch's words.

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use crate::json::{as_bool, as_f32, as_i64, as_text, print_f32, token};

/// Returns the object that follows a query's name.
pub(super) fn object<'v>(query: &str, body: &'v Value) -> Result<&'v Map<String, Value>> {
    match body {
        Value::Object(object) => Ok(object),
        _ => Err(Error::parsing(format!(
            "[{query}] query malformed, no start_object after query name"
        ))),
    }
}

/// Returns the only entry of `{"field": value}`.
pub(super) fn single_field<'v>(query: &str, body: &'v Value) -> Result<(&'v str, &'v Value)> {
    let mut entries = object(query, body)?.iter();
    let Some((field, value)) = entries.next() else {
        return Err(Error::illegal_argument(format!(
            "[{query}] field name is null or empty"
        )));
    };
    if let Some((second, _)) = entries.next() {
        return Err(Error::parsing(format!(
            "[{query}] query doesn't support multiple fields, found [{field}] and [{second}]"
        )));
    }
    if field.is_empty() {
        return Err(Error::illegal_argument(format!(
            "[{query}] field name is null or empty"
        )));
    }
    Ok((field, value))
}

/// Parses `{"field": {…}}`, or `{"field": value}` for `{"field": {main: value}}`: passes every parameter to `read` and
/// returns the field.
pub(super) fn by_field<'v>(
    query: &str,
    main: &str,
    body: &'v Value,
    mut read: impl FnMut(&str, &'v Value) -> Result<()>,
) -> Result<String> {
    let (field, value) = single_field(query, body)?;
    match value {
        Value::Object(params) => {
            for (key, value) in params {
                read(key, value)?;
            }
        }
        Value::Null => {}
        value => read(main, value)?,
    }
    Ok(field.to_owned())
}

/// Returns the error for a parameter that the query does not have.
pub(super) fn unsupported(query: &str, param: &str) -> Error {
    Error::parsing(format!("[{query}] query does not support [{param}]"))
}

/// Returns the error for a parameter that Elasticsearch supports and firn does not.
pub(super) fn not_yet(query: &str, param: &str) -> Error {
    Error::not_implemented(format!("parameter [{param}] of query [{query}]"))
}

pub(super) fn wrong_type(query: &str, param: &str, value: &Value) -> Error {
    Error::parsing(format!(
        "[{query}] query does not support [{}] for [{param}]",
        token(value)
    ))
}

/// Parses a finite boost that is not negative.
pub(super) fn boost(query: &str, value: &Value) -> Result<f32> {
    let boost = as_f32(value).ok_or_else(|| wrong_type(query, "boost", value))?;
    if boost < 0.0 {
        return Err(Error::illegal_argument(format!(
            "negative [boost] are not allowed in [{query}], use a value between 0 and 1 to deboost"
        )));
    }
    // Avoids -0.0, which would print and compare differently.
    Ok(boost + 0.0)
}

/// Parses a string (numbers and booleans count as their text).
pub(super) fn text(query: &str, param: &str, value: &Value) -> Result<String> {
    as_text(value).ok_or_else(|| wrong_type(query, param, value))
}

/// Parses a boolean.
pub(super) fn flag(query: &str, param: &str, value: &Value) -> Result<bool> {
    as_bool(value).ok_or_else(|| wrong_type(query, param, value))
}

/// Parses a finite number.
pub(super) fn number(query: &str, param: &str, value: &Value) -> Result<f32> {
    // Avoids -0.0, which would print and compare differently.
    Ok(as_f32(value).ok_or_else(|| wrong_type(query, param, value))? + 0.0)
}

/// Parses an integer from 0.
pub(super) fn count(query: &str, param: &str, value: &Value) -> Result<u32> {
    let number = as_i64(value).ok_or_else(|| wrong_type(query, param, value))?;
    u32::try_from(number)
        .ok()
        .filter(|number| *number <= i32::MAX as u32)
        .ok_or_else(|| Error::illegal_argument(format!("[{query}] {param} cannot be [{number}]")))
}

/// Returns a string, number or boolean unchanged.
pub(super) fn scalar(query: &str, param: &str, value: &Value) -> Result<Value> {
    match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => Ok(value.clone()),
        Value::Null => Err(Error::illegal_argument("value cannot be null")),
        Value::Array(_) => Err(Error::parsing(format!(
            "[{query}] query does not support array of values"
        ))),
        Value::Object(_) => Err(wrong_type(query, param, value)),
    }
}

/// Parses the text of a full-text query: a string, number or boolean; null is no text.
pub(super) fn query_text(query: &str, value: &Value) -> Result<Option<Value>> {
    match value {
        Value::Null => Ok(None),
        value => scalar(query, "query", value).map(Some),
    }
}

/// Returns the text of a full-text query, or the error that it is missing.
pub(super) fn required_text(found: Option<Value>) -> Result<Value> {
    found.ok_or_else(|| Error::parsing("No text specified for text query"))
}

/// Parses `zero_terms_query`: true for `all`.
pub(super) fn zero_terms(query: &str, value: &Value) -> Result<bool> {
    match value.as_str() {
        Some(text) if text.eq_ignore_ascii_case("all") => Ok(true),
        Some(text) if text.eq_ignore_ascii_case("none") => Ok(false),
        _ => Err(Error::parsing(format!(
            "[{query}] Unsupported zero_terms_query value [{value}]"
        ))),
    }
}

/// Parses `AND` or `OR`: true for `AND`.
pub(super) fn operator(query: &str, param: &str, value: &Value) -> Result<bool> {
    match value.as_str() {
        Some(text) if text.eq_ignore_ascii_case("and") => Ok(true),
        Some(text) if text.eq_ignore_ascii_case("or") => Ok(false),
        _ => Err(Error::parsing(format!(
            "[{query}] query requires {param} to be either 'and' or 'or', not {value}"
        ))),
    }
}

/// Inserts `boost` unless it is 1.
pub(super) fn put_boost(body: &mut Map<String, Value>, boost: f32) {
    if boost != 1.0 {
        body.insert("boost".into(), print_f32(boost));
    }
}

/// Inserts `key` with `true` if the flag is set.
pub(super) fn put_flag(body: &mut Map<String, Value>, key: &str, flag: bool) {
    if flag {
        body.insert(key.into(), true.into());
    }
}

/// Returns `{query: {field: body}}`.
pub(super) fn print_field(query: &str, field: &str, body: Map<String, Value>) -> Value {
    let mut by_field = Map::new();
    by_field.insert(field.into(), Value::Object(body));
    print(query, by_field)
}

/// Returns `{query: body}`.
pub(super) fn print(query: &str, body: Map<String, Value>) -> Value {
    let mut printed = Map::new();
    printed.insert(query.into(), Value::Object(body));
    Value::Object(printed)
}
