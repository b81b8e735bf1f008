//! Value types of settings.

use serde_json::Value;

use super::bytes::parse_bytes_setting;
use crate::dates::parse_duration_setting_ms;
use crate::{Error, Result};

/// Type of a setting's values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Bool,
    /// Inclusive bounds.
    Integer(i64, i64),
    Float,
    /// Minimum in ms; `true`: -1 is allowed too.
    Duration(u64, bool),
    Bytes,
    /// Bytes, or a percentage.
    BytesOrPercent,
    Text,
    OneOf(&'static [&'static str]),
    /// firn accepts only this value, because another would change responses in a way that firn does not implement.
    Only(&'static str),
    /// firn does not implement the setting.
    Refused,
    /// Elasticsearch sets it, never the user.
    Private,
}

impl Kind {
    /// Checks whether the setting accepts the value.
    pub(crate) fn check(self, name: &str, value: &Value) -> Result<()> {
        let text = match value {
            Value::Array(list) if matches!(self, Kind::Text) => {
                return list.iter().try_for_each(|item| self.check(name, item));
            }
            Value::Array(_) => return Err(unparsable(name, &value.to_string())),
            scalar => plain(scalar),
        };
        match self {
            Kind::Bool => parse_bool(name, &text).map(|_| ()),
            Kind::Integer(min, max) => {
                let number: i64 = text.parse().map_err(|_| unparsable(name, &text))?;
                let bound = if number < min {
                    format!(">= {min}")
                } else if number > max {
                    format!("<= {max}")
                } else {
                    return Ok(());
                };
                Err(Error::illegal_argument(format!(
                    "Failed to parse value [{text}] for setting [{name}] must be {bound}"
                )))
            }
            Kind::Float => text.parse::<f64>().map(|_| ()).map_err(|_| unparsable(name, &text)),
            Kind::Duration(_, true) if text == "-1" => Ok(()),
            Kind::Duration(min_ms, _) => {
                if parse_duration_setting_ms(name, &text)? < min_ms {
                    return Err(Error::illegal_argument(format!(
                        "failed to parse value [{text}] for setting [{name}], must be >= [{min_ms}ms]"
                    )));
                }
                Ok(())
            }
            Kind::BytesOrPercent if is_ratio(&text) => Ok(()),
            Kind::Bytes | Kind::BytesOrPercent if text == "-1" => Ok(()),
            Kind::Bytes | Kind::BytesOrPercent => parse_bytes_setting(name, &text).map(|_| ()),
            Kind::Text => Ok(()),
            Kind::OneOf(values) => {
                if values.iter().any(|value| value.eq_ignore_ascii_case(&text)) {
                    return Ok(());
                }
                Err(Error::illegal_argument(format!(
                    "unknown value for [{name}] must be one of [{}] but was: {text}",
                    values.join(", ")
                )))
            }
            Kind::Only(only) if only == text => Ok(()),
            Kind::Only(_) => Err(Error::not_implemented(format!("setting [{name}] with value [{text}]"))),
            Kind::Refused => Err(Error::not_implemented(format!("setting [{name}]"))),
            Kind::Private => Err(Error::illegal_argument(format!(
                "private index setting [{name}] can not be set explicitly"
            ))),
        }
    }
}

/// Whether a text is a ratio: `85%` or `0.85`.
fn is_ratio(text: &str) -> bool {
    let (number, max) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    number.parse::<f64>().is_ok_and(|number| (0.0..=max).contains(&number))
}

pub(super) fn parse_bool(name: &str, text: &str) -> Result<bool> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Error::illegal_argument(format!(
            "Failed to parse value [{text}] as only [true] or [false] are allowed for setting [{name}]"
        ))),
    }
}

fn unparsable(name: &str, text: &str) -> Error {
    Error::illegal_argument(format!("Failed to parse value [{text}] for setting [{name}]"))
}

/// Prints a scalar as text, without quotes.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
