//! Formatting of values for answers.

use firn_segment::columns::column::Number;
use firn_segment::schema;
use serde_json::{Number as JsonNumber, Value};

/// Formats a number as JSON; integers have no fraction.
pub(super) fn number(number: Number) -> Value {
    match number {
        Number::Int(value) => match (i64::try_from(value), u64::try_from(value)) {
            (Ok(value), _) => Value::from(value),
            (_, Ok(value)) => Value::from(value),
            _ => float(value as f64),
        },
        Number::Float(value) => float(value),
    }
}

/// Formats a float; infinities and NaN have no JSON number and become strings.
pub(super) fn float(value: f64) -> Value {
    match JsonNumber::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => Value::from("NaN"),
        None if value > 0.0 => Value::from("Infinity"),
        None => Value::from("-Infinity"),
    }
}

/// Formats a float that is stored with single precision, with the shortest digits that identify it.
pub(super) fn single(value: f64) -> Value {
    float((value as f32).to_string().parse().unwrap_or(value))
}

/// Formats an encoded address.
pub(super) fn ip(encoded: &str) -> Value {
    match schema::decode_ip(encoded) {
        Some(address) => Value::from(address.to_string()),
        None => Value::from(encoded),
    }
}
