//! Reader of a small JSON object that takes field by field and refuses unknown fields.

use firn_engine::Error;
use serde_json::{Map, Value};

use crate::wire::error::ApiError;

/// Fields of an object that were not taken yet.
#[derive(Debug)]
pub(crate) struct Fields {
    /// Name of the object for errors: `user`, `api key`.
    what: &'static str,
    object: Map<String, Value>,
}

impl Fields {
    pub(crate) fn new(what: &'static str, object: Map<String, Value>) -> Self {
        Self { what, object }
    }

    /// Wraps a value that must be an object.
    pub(crate) fn of(what: &'static str, value: Value) -> Result<Self, ApiError> {
        match value {
            Value::Object(object) => Ok(Self::new(what, object)),
            other => Err(failed(what, format!("expected an object but found [{other}]"))),
        }
    }

    /// Takes the field with this name; `null` counts as absent.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.object.shift_remove(name).filter(|value| !value.is_null())
    }

    pub(crate) fn string(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "a string", &other)),
        }
    }

    /// Takes one string or an array of strings.
    pub(crate) fn strings(&mut self, name: &str) -> Result<Option<Vec<String>>, ApiError> {
        let values = match self.take(name) {
            None => return Ok(None),
            Some(Value::Array(values)) => values,
            Some(one) => vec![one],
        };
        let strings = values.into_iter().map(|value| match value {
            Value::String(text) => Ok(text),
            other => Err(self.wrong(name, "strings", &other)),
        });
        strings.collect::<Result<_, _>>().map(Some)
    }

    pub(crate) fn bool(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(self.wrong(name, "a boolean", &other)),
        }
    }

    pub(crate) fn number(&mut self, name: &str) -> Result<Option<u64>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(name, "a whole number that is not negative", &value)),
            },
        }
    }

    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(other) => Err(self.wrong(name, "an object", &other)),
        }
    }

    /// Refuses by name fields that Elasticsearch has and firn lacks, unless they are empty.
    pub(crate) fn refuse(&mut self, names: &[&str]) -> Result<(), ApiError> {
        for name in names {
            let is_empty = match self.take(name) {
                None => true,
                Some(Value::Array(values)) => values.is_empty(),
                Some(Value::Object(object)) => object.is_empty(),
                Some(_) => false,
            };
            if !is_empty {
                return Err(Error::not_implemented(format!("[{name}] of a {}", self.what)).into());
            }
        }
        Ok(())
    }

    /// Fails if any field was not taken.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        match self.object.keys().next() {
            Some(name) => Err(failed(self.what, format!("unexpected field [{name}]"))),
            None => Ok(()),
        }
    }

    fn wrong(&self, name: &str, expected: &str, found: &Value) -> ApiError {
        failed(
            self.what,
            format!("expected field [{name}] to be {expected} but found [{found}]"),
        )
    }
}

fn failed(what: &str, reason: String) -> ApiError {
    ApiError::bad_request("parse_exception", format!("failed to parse {what}. {reason}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_taken_once_and_by_type() {
        let mut fields = Fields::of("user", json!({"a": "x", "b": null, "c": ["y"], "d": 3, "e": []})).unwrap();
        assert_eq!(fields.string("a").unwrap().as_deref(), Some("x"));
        assert_eq!(fields.string("b").unwrap(), None);
        assert!(fields.bool("c").is_err());
        assert_eq!(fields.number("d").unwrap(), Some(3));
        fields.refuse(&["e"]).unwrap();
        fields.finish().unwrap();
        let error = Fields::of("user", json!({"a": 1})).unwrap().finish().unwrap_err();
        assert!(format!("{error:?}").contains("failed to parse user. unexpected field [a]"));
    }
}
