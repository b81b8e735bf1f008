//! Common part of all percentile aggregations: the list of percents, and the printed answer.

use firn_model::{Error, Result};
use serde_json::{Map, Value, json};

use super::ValueFormat;
use super::key::{double_text, float};
use crate::json::token;

/// Default `percents`.
pub(super) const PERCENTS: [f64; 7] = [1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0];

/// Maximum percents or values in one request; the answer has as many entries per bucket.
const COUNT_MAX: usize = 1000;

/// Parses a list of numbers, or one number.
pub(super) fn parse_numbers(kind: &str, key: &str, value: &Value) -> Result<Vec<f64>> {
    let number = |value: &Value| match value {
        Value::Number(number) => Ok(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) if text.parse::<f64>().is_ok_and(f64::is_finite) => Ok(text.parse().unwrap_or(f64::NAN)),
        other => Err(Error::parsing(format!(
            "[{kind}] {key} doesn't support values of type: {}",
            token(other)
        ))),
    };
    match value {
        Value::Array(values) if values.len() > COUNT_MAX => Err(Error::illegal_argument(format!(
            "[{key}] of [{kind}] lists [{}] numbers, more than the allowed maximum of [{COUNT_MAX}]",
            values.len()
        ))),
        Value::Array(values) => values.iter().map(number).collect(),
        one => Ok(vec![number(one)?]),
    }
}

/// Parses `percents` and sorts them, as Elasticsearch returns them.
pub(super) fn parse_percents(kind: &str, key: &str, value: &Value) -> Result<Vec<f64>> {
    let mut percents = parse_numbers(kind, key, value)?;
    if percents.is_empty() {
        return Err(Error::illegal_argument(format!("[{key}] must not be empty: [{kind}]")));
    }
    if let Some(bad) = percents.iter().find(|percent| !(0.0..=100.0).contains(*percent)) {
        return Err(Error::illegal_argument(format!(
            "percent must be in [0,100], got [{}]: [{kind}]",
            double_text(*bad)
        )));
    }
    percents.sort_unstable_by(f64::total_cmp);
    Ok(percents)
}

/// Prints `{"values": …}`, by key or as a list; a missing value prints null.
pub(super) fn print(
    values: impl Iterator<Item = (f64, Option<f64>)>,
    keyed: bool,
    format: &ValueFormat,
) -> Map<String, Value> {
    let mut by_key = Map::new();
    let mut list = Vec::new();
    for (key, value) in values {
        let text = value.and_then(|value| format.print_one_of_several(value));
        let value = value.map_or(Value::Null, float);
        let name = double_text(key);
        if keyed {
            if let Some(text) = text {
                by_key.insert(name.clone(), value);
                by_key.insert(format!("{name}_as_string"), text);
            } else {
                by_key.insert(name, value);
            }
        } else {
            let mut entry = Map::new();
            entry.insert("key".into(), json!(key));
            entry.insert("value".into(), value);
            if let Some(text) = text {
                entry.insert("value_as_string".into(), text);
            }
            list.push(Value::Object(entry));
        }
    }
    let values = if keyed {
        Value::Object(by_key)
    } else {
        Value::Array(list)
    };
    [("values".to_owned(), values)].into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_are_checked() {
        let parse = |value: Value| parse_percents("p", "percents", &value).map_err(|error| error.reason().to_owned());
        assert_eq!(parse(json!([95, "5", 50.5])).unwrap(), [5.0, 50.5, 95.0]);
        assert_eq!(parse(json!(95)).unwrap(), [95.0]);
        assert_eq!(parse(json!([])).unwrap_err(), "[percents] must not be empty: [p]");
        assert_eq!(
            parse(json!([-1])).unwrap_err(),
            "percent must be in [0,100], got [-1.0]: [p]"
        );
        assert_eq!(
            parse(json!([true])).unwrap_err(),
            "[p] percents doesn't support values of type: VALUE_BOOLEAN"
        );
        assert!(parse(json!(vec![1; COUNT_MAX + 1])).is_err());
    }
}
