//! Pipelines of a node, as their `PUT` bodies: ingest pipelines, and event pipelines; also detection rules and alert channels.
//! Compiling them is not the metadata's task.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{Error, Result};

/// Pipelines of one kind by id. Bodies are shared, so a clone is cheap.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PipelineBodies {
    /// Bodies by id.
    pub by_id: BTreeMap<String, Arc<Map<String, Value>>>,
}

impl PipelineBodies {
    /// Prints `{ID: BODY}`.
    pub fn to_json(&self) -> Value {
        let print = |(id, body): (&String, &Arc<Map<String, Value>>)| (id.clone(), Value::Object((**body).clone()));
        Value::Object(self.by_id.iter().map(print).collect())
    }

    /// Reads the output of [`PipelineBodies::to_json`], or `null` of older builds, which had no pipelines. Other JSON
    /// fails with [`crate::ErrorKind::Internal`].
    pub fn from_json(json: &Value) -> Result<Self> {
        let body = |(id, body): (&String, &Value)| match body {
            Value::Object(body) => Ok((id.clone(), Arc::new(body.clone()))),
            other => Err(Error::internal(format!(
                "stored pipeline [{id}] is not an object: {other}"
            ))),
        };
        match json {
            Value::Null => Ok(Self::default()),
            Value::Object(by_id) => Ok(Self {
                by_id: by_id.iter().map(body).collect::<Result<_>>()?,
            }),
            other => Err(Error::internal(format!("stored pipelines are not an object: {other}"))),
        }
    }
}
