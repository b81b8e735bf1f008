//! `convert`: changes the type of a value, or of each value of a list.

use std::net::IpAddr;

use super::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Type {
    Integer,
    Long,
    Float,
    Double,
    Boolean,
    Ip,
    String,
    Auto,
}

const TYPES: [(&str, Type); 8] = [
    ("integer", Type::Integer),
    ("long", Type::Long),
    ("float", Type::Float),
    ("double", Type::Double),
    ("boolean", Type::Boolean),
    ("ip", Type::Ip),
    ("string", Type::String),
    ("auto", Type::Auto),
];

#[derive(Debug)]
struct Convert {
    field: Path,
    target: Path,
    to: Type,
    ignore_missing: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.path("field")?;
    let name = options.text("type")?;
    let lower = name.to_lowercase();
    let Some((_, to)) = TYPES.iter().find(|(known, _)| *known == lower) else {
        return Err(options.error(
            Some("type"),
            format!("type [{name}] not supported, cannot convert field."),
        ));
    };
    boxed(Convert {
        target: options.target(&field)?,
        field,
        to: *to,
        ignore_missing: options.boolean("ignore_missing", false)?,
    })
}

impl Processor for Convert {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let value = match document.find(&self.field) {
            None | Some(Value::Null) if self.ignore_missing => return Ok(Flow::Continue),
            Some(value) => value,
            None => document.get(&self.field)?,
        };
        let converted = match value {
            Value::Null => {
                let name = TYPES
                    .iter()
                    .find(|(_, to)| *to as u8 == self.to as u8)
                    .map_or("", |(name, _)| name);
                let reason = format!(
                    "Field [{}] is null, cannot be converted to type [{name}]",
                    self.field.text()
                );
                return Err(Failure::illegal(reason));
            }
            Value::Array(values) => {
                run.budget.take(values.len() as u64)?;
                let values: Result<_, _> = values.iter().map(|value| convert(value, self.to)).collect();
                Value::Array(values?)
            }
            value => convert(value, self.to)?,
        };
        run.budget.write(converted.as_str().map_or(8, str::len))?;
        document.set(&self.target, converted)?;
        Ok(Flow::Continue)
    }
}

fn convert(value: &Value, to: Type) -> Result<Value, Failure> {
    let text = java_text(value);
    let fail = |name: &str| Failure::illegal(format!("unable to convert [{text}] to {name}"));
    match to {
        Type::Integer => {
            let number = whole(&text).and_then(|number| i32::try_from(number).ok());
            number.map(Value::from).ok_or_else(|| fail("integer"))
        }
        Type::Long => whole(&text).map(Value::from).ok_or_else(|| fail("long")),
        Type::Float => float(&text).map(Value::from).ok_or_else(|| fail("float")),
        Type::Double => double(&text).map(Value::from).ok_or_else(|| fail("double")),
        Type::Boolean if text.eq_ignore_ascii_case("true") => Ok(Value::Bool(true)),
        Type::Boolean if text.eq_ignore_ascii_case("false") => Ok(Value::Bool(false)),
        Type::Boolean => Err(Failure::illegal(format!(
            "[{text}] is not a boolean value, cannot convert to boolean"
        ))),
        Type::Ip => match value {
            Value::String(text) if text.parse::<IpAddr>().is_ok() => Ok(value.clone()),
            _ => Err(Failure::illegal(format!("'{text}' is not an IP string literal."))),
        },
        Type::String => Ok(text.into()),
        Type::Auto if !value.is_string() => Ok(value.clone()),
        Type::Auto => {
            let tried = [Type::Boolean, Type::Integer, Type::Long, Type::Float, Type::Double];
            let converted = tried.into_iter().find_map(|to| convert(value, to).ok());
            Ok(converted.unwrap_or_else(|| value.clone()))
        }
    }
}

/// Reads a whole number, decimal or hexadecimal (`0xff`).
fn whole(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text),
    };
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) if !hex.starts_with(['+', '-']) => i64::from_str_radix(&format!("{sign}{hex}"), 16).ok(),
        _ => text.parse().ok(),
    }
}

/// Reads a single-precision number; the result prints as Java prints it.
fn float(text: &str) -> Option<f64> {
    let single = java_number(text)?
        .parse::<f32>()
        .ok()
        .filter(|single| single.is_finite())?;
    single.to_string().parse().ok()
}

fn double(text: &str) -> Option<f64> {
    java_number(text)?
        .parse::<f64>()
        .ok()
        .filter(|double| double.is_finite())
}

/// Removes white space and Java's suffix of a type; names of infinity are refused, JSON has none.
fn java_number(text: &str) -> Option<&str> {
    let text = text.trim();
    let text = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    let is_number = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E');
    text.bytes().all(is_number).then_some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::processors::tests::{check, fails, refused};

    fn converts(to: &str, value: Value, expected: Value) {
        check(
            json!({"convert": {"field": "f", "type": to}}),
            json!({"f": value}),
            json!({"f": expected}),
        );
    }

    fn refuses(to: &str, value: Value, reason: &str) {
        fails(
            json!({"convert": {"field": "f", "type": to}}),
            json!({"f": value}),
            reason,
        );
    }

    #[test]
    fn refuses_to_parse() {
        refused(
            json!({"convert": {"field": "f"}}),
            "[type] required property is missing",
        );
        refused(
            json!({"convert": {"field": "f", "type": "list"}}),
            "[type] type [list] not supported, cannot convert field.",
        );
    }

    #[test]
    fn results() {
        converts("integer", json!("12"), json!(12));
        converts("integer", json!("0x1f"), json!(31));
        converts("integer", json!(["1", "2"]), json!([1, 2]));
        converts("long", json!("12345678901"), json!(12_345_678_901_i64));
        converts("float", json!("1.1"), json!(1.1));
        converts("float", json!(3), json!(3.0));
        converts("double", json!("1e3"), json!(1000.0));
        converts("boolean", json!("TRUE"), json!(true));
        converts("ip", json!("::1"), json!("::1"));
        converts("string", json!(1.5), json!("1.5"));
        converts("string", json!({"a": 1}), json!("{a=1}"));
        for (text, expected) in [
            ("true", json!(true)),
            ("1", json!(1)),
            ("12345678901", json!(12_345_678_901_i64)),
            ("1.5", json!(1.5)),
            ("1.x", json!("1.x")),
        ] {
            converts("auto", json!(text), expected);
        }
        converts("auto", json!([1, "2"]), json!([1, 2]));
        let ignore = json!({"convert": {"field": "f", "type": "long", "ignore_missing": true}});
        check(ignore.clone(), json!({}), json!({}));
        check(ignore, json!({"f": null}), json!({"f": null}));
        let target = json!({"convert": {"field": "f", "type": "long", "target_field": "g"}});
        check(target, json!({"f": "1"}), json!({"f": "1", "g": 1}));
    }

    #[test]
    fn failures() {
        refuses("integer", json!("x"), "unable to convert [x] to integer");
        refuses(
            "integer",
            json!("12345678901"),
            "unable to convert [12345678901] to integer",
        );
        refuses("integer", json!(1.5), "unable to convert [1.5] to integer");
        refuses("long", json!(""), "unable to convert [] to long");
        refuses("float", json!("NaN"), "unable to convert [NaN] to float");
        refuses(
            "boolean",
            json!("yes"),
            "[yes] is not a boolean value, cannot convert to boolean",
        );
        refuses("ip", json!("1.2.3"), "'1.2.3' is not an IP string literal.");
        refuses(
            "long",
            json!(null),
            "Field [f] is null, cannot be converted to type [long]",
        );
        let convert = json!({"convert": {"field": "f", "type": "long"}});
        fails(convert, json!({}), "field [f] not present as part of path [f]");
    }
}
