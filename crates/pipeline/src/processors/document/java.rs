//! Names and texts that Java gives to values: they stand in Elasticsearch's messages and results.

use serde_json::Value;

/// Returns the name of the Java class that Elasticsearch has for a value.
pub(crate) fn class_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "java.lang.Boolean",
        Value::Number(number) => match number.as_i64() {
            Some(whole) if i32::try_from(whole).is_ok() => "java.lang.Integer",
            Some(_) => "java.lang.Long",
            None if number.is_u64() => "java.math.BigInteger",
            None => "java.lang.Double",
        },
        Value::String(_) => "java.lang.String",
        Value::Array(_) => "java.util.ArrayList",
        Value::Object(_) => "java.util.HashMap",
    }
}

/// Returns what Java's `toString` gives: `[a, b]`, `{k=v}`, `1.0`, `1.0E10`.
pub(crate) fn java_text(value: &Value) -> String {
    let mut out = String::new();
    push(value, &mut out);
    out
}

fn push(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => match number.as_f64() {
            Some(double) if !number.is_i64() && !number.is_u64() => push_double(double, out),
            _ => out.push_str(&number.to_string()),
        },
        Value::String(text) => out.push_str(text),
        Value::Array(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                push(value, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            out.push('{');
            for (at, (name, value)) in fields.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                out.push_str(name);
                out.push('=');
                push(value, out);
            }
            out.push('}');
        }
    }
}

/// Prints a double as Java's `Double.toString` does: plain between 10^-3 and 10^7, else with an exponent.
fn push_double(double: f64, out: &mut String) {
    let magnitude = double.abs();
    if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        let text = format!("{double:?}");
        out.push_str(&text);
        return;
    }
    let text = format!("{double:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            out.push_str(digits);
            if !digits.contains('.') {
                out.push_str(".0");
            }
            out.push('E');
            out.push_str(exponent);
        }
        None => out.push_str(&text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_javas() {
        let check = |value: Value, expected: &str| assert_eq!(java_text(&value), expected);
        check(json!([1, "a", null]), "[1, a, null]");
        check(json!({"a": {"b": true}, "c": []}), "{a={b=true}, c=[]}");
        check(json!(1.0), "1.0");
        check(json!(0.5), "0.5");
        check(json!(1e10), "1.0E10");
        check(json!(1.25e-5), "1.25E-5");
        check(json!(12345678901_i64), "12345678901");
    }

    #[test]
    fn classes_are_javas() {
        let check = |value: Value, expected: &str| assert_eq!(class_name(&value), expected);
        check(json!(1), "java.lang.Integer");
        check(json!(1_i64 << 40), "java.lang.Long");
        check(json!(u64::MAX), "java.math.BigInteger");
        check(json!(1.5), "java.lang.Double");
        check(json!("x"), "java.lang.String");
        check(json!([]), "java.util.ArrayList");
        check(json!({}), "java.util.HashMap");
    }
}
