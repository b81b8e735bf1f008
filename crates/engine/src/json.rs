//! Conversion of single JSON values as Elasticsearch's parser does it: numbers and booleans may come as strings, and
//! errors name tokens.

use serde_json::Value;

/// Returns the name of the token that a value begins with, as in Elasticsearch's messages.
pub fn token(value: &Value) -> &'static str {
    match value {
        Value::Null => "VALUE_NULL",
        Value::Bool(_) => "VALUE_BOOLEAN",
        Value::Number(_) => "VALUE_NUMBER",
        Value::String(_) => "VALUE_STRING",
        Value::Array(_) => "START_ARRAY",
        Value::Object(_) => "START_OBJECT",
    }
}

/// Returns the text of a string, number or boolean.
pub(crate) fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// Returns a boolean, also from `"true"` or `"false"`.
pub(crate) fn as_bool(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// Returns an integer, also from a string or a number with a zero fraction.
pub(crate) fn as_i64(value: &Value) -> Option<i64> {
    let whole = |number: f64| (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64);
    match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(whole)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// Returns a finite number, also from a string.
pub(crate) fn as_f32(value: &Value) -> Option<f32> {
    let number = match value {
        Value::Number(number) => number.as_f64()? as f32,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

/// Returns the shortest JSON number that parses back to `value`.
pub(crate) fn print_f32(value: f32) -> Value {
    let shortest = value.to_string().parse::<f64>().unwrap_or(f64::from(value));
    if shortest as f32 == value {
        Value::from(shortest)
    } else {
        Value::from(f64::from(value))
    }
}
