//! Field list (`fields`) of queries that read several fields: names and patterns, each with an optional `^boost`.

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::params::{boost, text};
use crate::json::{print_f32, token};

/// Maximum names and patterns in `fields`; every word is searched in all of them.
const FIELDS_MAX: usize = 1024;

/// Parses `["title", "body^2", "meta.*"]`. A single `*` means all fields, as the empty list does.
pub(super) fn parse(query: &str, value: &Value) -> Result<Vec<(String, f32)>> {
    let Value::Array(values) = value else {
        return Err(Error::parsing(format!(
            "[{query}] query does not support [{}] for [fields]",
            token(value)
        )));
    };
    if values.len() > FIELDS_MAX {
        return Err(Error::illegal_argument(format!(
            "field expansion for [fields] matches too many fields, limit: {FIELDS_MAX}, got: {}",
            values.len()
        )));
    }
    let mut fields = values
        .iter()
        .map(|value| one(query, &text(query, "fields", value)?))
        .collect::<Result<Vec<_>>>()?;
    if let [(field, 1.0)] = fields.as_slice()
        && field == "*"
    {
        fields.clear();
    }
    Ok(fields)
}

/// Parses `body^2`.
pub(super) fn one(query: &str, written: &str) -> Result<(String, f32)> {
    let (field, weight) = match written.rsplit_once('^') {
        Some((field, weight)) => (field, boost(query, &Value::from(weight))?),
        None => (written, 1.0),
    };
    if field.is_empty() {
        return Err(Error::illegal_argument("field name is null or empty"));
    }
    Ok((field.to_owned(), weight))
}

/// Inserts `fields` unless it is empty.
pub(super) fn put(body: &mut Map<String, Value>, fields: &[(String, f32)]) {
    if fields.is_empty() {
        return;
    }
    let with_boost = |(field, boost): &(String, f32)| match *boost {
        1.0 if !field.contains('^') => Value::from(field.as_str()),
        boost => Value::from(format!("{field}^{}", print_f32(boost))),
    };
    body.insert("fields".into(), fields.iter().map(with_boost).collect());
}
