//! Retention of a data stream (`_data_stream/NAME/_lifecycle`).

use serde_json::{Map, Value, json};

use crate::dates::parse_duration_setting_ms;
use crate::{Error, Result};

/// Lifecycle of a data stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lifecycle {
    /// Whether firn applies it.
    pub enabled: bool,
    /// As the user typed it (`7d`); `None`: events are retained forever.
    data_retention: Option<String>,
    /// The same in ms.
    pub data_retention_ms: Option<u64>,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            enabled: true,
            data_retention: None,
            data_retention_ms: None,
        }
    }
}

impl Lifecycle {
    /// Reads `{"data_retention": "7d", "enabled": true}`; both fields are optional.
    pub fn parse(body: &Value) -> Result<Self> {
        let map = match body {
            Value::Null => return Ok(Self::default()),
            Value::Object(map) => map,
            other => return Err(Error::parsing(format!("[lifecycle] must be an object, not [{other}]"))),
        };
        let mut lifecycle = Self::default();
        for (key, value) in map {
            match (key.as_str(), value) {
                ("data_retention" | "enabled", Value::Null) => {}
                ("data_retention", Value::String(text)) => {
                    let ms = parse_duration_setting_ms("data_retention", text)?;
                    if ms == 0 {
                        return Err(Error::illegal_argument(format!(
                            "data stream retention [{text}] must be greater than zero"
                        )));
                    }
                    lifecycle.data_retention = Some(text.clone());
                    lifecycle.data_retention_ms = Some(ms);
                }
                ("enabled", Value::Bool(enabled)) => lifecycle.enabled = *enabled,
                ("data_retention" | "enabled", other) => {
                    return Err(Error::parsing(format!("[lifecycle] [{key}] cannot be [{other}]")));
                }
                ("downsampling", _) => {
                    return Err(Error::not_implemented(
                        "[downsampling] in the lifecycle of data streams",
                    ));
                }
                _ => return Err(Error::parsing(format!("[lifecycle] unknown field [{key}]"))),
            }
        }
        Ok(lifecycle)
    }

    /// Prints the lifecycle; the inverse of [`Lifecycle::parse`].
    pub fn print(&self) -> Map<String, Value> {
        let mut out = Map::new();
        out.insert("enabled".into(), self.enabled.into());
        if let Some(text) = &self.data_retention {
            out.insert("data_retention".into(), json!(text));
        }
        out
    }

    /// Prints the lifecycle as the API shows it, with the effective retention.
    pub fn print_effective(&self) -> Value {
        let mut out = self.print();
        if let Some(text) = self.data_retention.as_ref().filter(|_| self.enabled) {
            out.insert("effective_retention".into(), json!(text));
            out.insert("retention_determined_by".into(), json!("data_stream_configuration"));
        }
        Value::Object(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back() {
        for (body, ms) in [
            (json!({"data_retention": "7d"}), Some(7 * 86_400_000)),
            (json!({"data_retention": "90m", "enabled": false}), Some(5_400_000)),
            (json!({"data_retention": null}), None),
            (json!({}), None),
            (Value::Null, None),
        ] {
            let lifecycle = Lifecycle::parse(&body).unwrap();
            assert_eq!(lifecycle.data_retention_ms, ms, "{body}");
            assert_eq!(Lifecycle::parse(&Value::Object(lifecycle.print())).unwrap(), lifecycle);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (body, reason) in [
            (json!([]), "must be an object"),
            (json!({"data_retention": "soon"}), "unit is missing"),
            (json!({"data_retention": "0d"}), "greater than zero"),
            (json!({"data_retention": 7}), "[data_retention] cannot be [7]"),
            (json!({"enabled": "yes"}), "[enabled] cannot be"),
            (json!({"x": 1}), "unknown field [x]"),
            (json!({"downsampling": []}), "[downsampling] in the lifecycle"),
        ] {
            let error = Lifecycle::parse(&body).unwrap_err();
            assert!(error.reason().contains(reason), "{body}: {error}");
        }
    }
}
