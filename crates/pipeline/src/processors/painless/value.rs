//! Values of a running script.

use serde_json::{Number, Value};

use super::super::document::{class_name, java_text};
use super::super::failure::{Failure, FailureKind};
use super::ast::{Operator, Type};

/// Value. Lists and maps are places: a change through one variable is seen through all.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Val {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Place(Place),
}

/// Place of a list or map.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    pub(super) root: Root,
    pub(super) path: Vec<Key>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    Ctx,
    Params,
    /// A list or map that the script created.
    Heap(usize),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Key {
    Name(String),
    At(usize),
}

pub(super) fn cast_failure(reason: impl Into<String>) -> Failure {
    Failure::new(FailureKind::ClassCast, reason)
}

impl Val {
    /// Returns a scalar; lists and maps need a place.
    pub(super) fn scalar(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => Self::Int(whole),
                None => Self::Float(number.as_f64().unwrap_or_default()),
            },
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(_) | Value::Object(_) => return None,
        })
    }

    /// Returns a boolean, or fails as a cast does.
    pub(super) fn as_bool(&self) -> Result<bool, Failure> {
        match self {
            Self::Bool(value) => Ok(*value),
            Self::Null => Err(cast_failure("cannot cast null to a primitive type [boolean]")),
            other => Err(cast_failure(format!(
                "Cannot cast {} to java.lang.Boolean",
                other.class()
            ))),
        }
    }

    /// Name of the class, for messages.
    pub(super) fn class(&self) -> &'static str {
        match self {
            Self::Place(_) => "java.util.Collection",
            other => class_name(&other.to_json().unwrap_or_default()),
        }
    }

    /// Returns the JSON of a scalar; `None` for a place and for numbers that JSON lacks.
    pub(super) fn to_json(&self) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(number) => Value::from(*number),
            Self::Float(number) => Value::Number(Number::from_f64(*number)?),
            Self::Text(text) => Value::String(text.clone()),
            Self::Place(_) => return None,
        })
    }

    /// Returns Java's text of a scalar.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Float(number) if number.is_nan() => "NaN".to_owned(),
            Self::Float(number) if number.is_infinite() => {
                if *number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
            }
            other => other.to_json().map_or_else(String::new, |value| java_text(&value)),
        }
    }
}

/// Applies an operator to numbers; `+` of texts and equality are the interpreter's.
pub(super) fn arithmetic(operator: Operator, left: &Val, right: &Val) -> Result<Val, Failure> {
    if let (Val::Int(a), Val::Int(b)) = (left, right) {
        let (a, b) = (*a, *b);
        let divide = |divided: Option<i64>| {
            divided
                .map(Val::Int)
                .ok_or_else(|| Failure::new(FailureKind::Arithmetic, "/ by zero"))
        };
        return Ok(match operator {
            Operator::Add => Val::Int(a.wrapping_add(b)),
            Operator::Subtract => Val::Int(a.wrapping_sub(b)),
            Operator::Multiply => Val::Int(a.wrapping_mul(b)),
            Operator::Divide => return divide((b != 0).then(|| a.wrapping_div(b))),
            Operator::Remainder => return divide((b != 0).then(|| a.wrapping_rem(b))),
            Operator::Less => Val::Bool(a < b),
            Operator::LessEqual => Val::Bool(a <= b),
            Operator::Greater => Val::Bool(a > b),
            Operator::GreaterEqual => Val::Bool(a >= b),
            Operator::Equal => Val::Bool(a == b),
            Operator::NotEqual => Val::Bool(a != b),
        });
    }
    let number = |value: &Val| match value {
        Val::Int(number) => Ok(*number as f64),
        Val::Float(number) => Ok(*number),
        _ => Err(cast_failure(format!(
            "Cannot apply [{}] operation to types [{}] and [{}].",
            symbol(operator),
            left.class(),
            right.class()
        ))),
    };
    let (a, b) = (number(left)?, number(right)?);
    Ok(match operator {
        Operator::Add => Val::Float(a + b),
        Operator::Subtract => Val::Float(a - b),
        Operator::Multiply => Val::Float(a * b),
        Operator::Divide => Val::Float(a / b),
        Operator::Remainder => Val::Float(a % b),
        Operator::Less => Val::Bool(a < b),
        Operator::LessEqual => Val::Bool(a <= b),
        Operator::Greater => Val::Bool(a > b),
        Operator::GreaterEqual => Val::Bool(a >= b),
        Operator::Equal => Val::Bool(a == b),
        Operator::NotEqual => Val::Bool(a != b),
    })
}

fn symbol(operator: Operator) -> &'static str {
    match operator {
        Operator::Add => "+",
        Operator::Subtract => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        Operator::Remainder => "%",
        Operator::Equal => "==",
        Operator::NotEqual => "!=",
        Operator::Less => "<",
        Operator::LessEqual => "<=",
        Operator::Greater => ">",
        Operator::GreaterEqual => ">=",
    }
}

/// Casts a scalar. Lists and maps stay as they are.
pub(super) fn cast(to: Type, value: Val) -> Result<Val, Failure> {
    Ok(match (to, value) {
        (Type::Int, Val::Float(number)) => Val::Int(i64::from(number as i32)),
        (Type::Int, Val::Int(number)) => Val::Int(i64::from(number as i32)),
        (Type::Long, Val::Float(number)) => Val::Int(number as i64),
        (Type::Float, Val::Int(number)) => Val::Float(number as f64),
        (Type::Text, value @ (Val::Bool(_) | Val::Int(_) | Val::Float(_))) => {
            return Err(cast_failure(format!(
                "Cannot cast {} to java.lang.String",
                value.class()
            )));
        }
        (Type::Int | Type::Long | Type::Float | Type::Number, value @ (Val::Text(_) | Val::Bool(_))) => {
            return Err(cast_failure(format!(
                "Cannot cast {} to java.lang.Number",
                value.class()
            )));
        }
        (_, value) => value,
    })
}
