//! `sort`: sorts a list of numbers or of texts.

use std::cmp::Ordering;

use super::prelude::*;

#[derive(Debug)]
struct Sort {
    field: Path,
    target: Path,
    descending: bool,
}

pub(crate) fn parse(options: &mut Options) -> Result<Box<dyn Processor>> {
    let field = options.path("field")?;
    let target = options.target(&field)?;
    let descending = match options.text_or("order", "asc")?.as_str() {
        "asc" => false,
        "desc" => true,
        other => {
            let reason = format!("Sort direction [{other}] not recognized. Valid values are: [asc, desc]");
            return Err(options.error(Some("order"), reason));
        }
    };
    boxed(Sort {
        field,
        target,
        descending,
    })
}

impl Processor for Sort {
    fn run(&self, document: &mut Document, run: &mut Run<'_>) -> Result<Flow, Failure> {
        let mut values = match document.get(&self.field)? {
            Value::Array(values) => values.clone(),
            Value::Null => {
                let reason = format!("field [{}] is null, cannot sort.", self.field.text());
                return Err(Failure::illegal(reason));
            }
            other => return Err(cannot_cast(self.field.text(), other, "java.util.List")),
        };
        run.budget.take(values.len() as u64)?;
        // Java compares only values of one class; whole numbers of any size are one here.
        if let Some((first, other)) = values
            .iter()
            .zip(values.iter().skip(1))
            .find(|(a, b)| kind(a) != kind(b))
        {
            return Err(class_cast(first, other));
        }
        if let Some(value) = values.first().filter(|value| kind(value).is_none()) {
            return Err(class_cast(value, value));
        }
        values.sort_by(|a, b| if self.descending { compare(b, a) } else { compare(a, b) });
        document.set(&self.target, Value::Array(values))?;
        Ok(Flow::Continue)
    }
}

fn class_cast(first: &Value, other: &Value) -> Failure {
    let reason = format!(
        "class {} cannot be cast to class {}",
        class_name(other),
        class_name(first)
    );
    Failure::new(FailureKind::ClassCast, reason)
}

/// Values of one kind can be compared.
fn kind(value: &Value) -> Option<u8> {
    match value {
        Value::Bool(_) => Some(0),
        Value::Number(number) => Some(if number.is_f64() { 2 } else { 1 }),
        Value::String(_) => Some(3),
        _ => None,
    }
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => a.encode_utf16().cmp(b.encode_utf16()),
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)),
        },
        _ => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::processors::tests::{check, fails, refused};

    #[test]
    fn refuses_to_parse() {
        refused(json!({"sort": {}}), "[field] required property is missing");
        refused(
            json!({"sort": {"field": "f", "order": "up"}}),
            "[order] Sort direction [up] not recognized. Valid values are: [asc, desc]",
        );
    }

    #[test]
    fn results() {
        check(
            json!({"sort": {"field": "f"}}),
            json!({"f": [3, 1, 2]}),
            json!({"f": [1, 2, 3]}),
        );
        check(
            json!({"sort": {"field": "f", "order": "desc"}}),
            json!({"f": ["a", "c"]}),
            json!({"f": ["c", "a"]}),
        );
        check(
            json!({"sort": {"field": "f", "target_field": "g"}}),
            json!({"f": [1.5, 0.5]}),
            json!({"f": [1.5, 0.5], "g": [0.5, 1.5]}),
        );
        check(json!({"sort": {"field": "f"}}), json!({"f": []}), json!({"f": []}));
    }

    #[test]
    fn failures() {
        fails(
            json!({"sort": {"field": "f"}}),
            json!({"f": null}),
            "field [f] is null, cannot sort.",
        );
        let cast = "field [f] of type [java.lang.String] cannot be cast to [java.util.List]";
        fails(json!({"sort": {"field": "f"}}), json!({"f": "a"}), cast);
        let cast = "class java.lang.String cannot be cast to class java.lang.Integer";
        fails(json!({"sort": {"field": "f"}}), json!({"f": [1, "a"]}), cast);
    }
}
