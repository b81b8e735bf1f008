//! Commands of ingest pipelines. The processors are checked where they are known, before a command is made.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::change::Change;
use crate::names::matches_pattern;
use crate::{Error, ErrorKind, Result};

/// Maximum pipelines of one node. Each is compiled and stays in memory.
const PIPELINES_MAX: usize = 10_000;
/// Maximum bytes of a pipeline's id, the same as for names of indices.
const ID_BYTES_MAX: usize = 255;

/// Change of ingest pipelines.
#[derive(Debug, Clone, PartialEq)]
pub enum IngestCommand {
    /// `PUT /_ingest/pipeline/ID`. An identical pipeline changes nothing.
    PutPipeline {
        /// The id.
        id: String,
        /// The body.
        body: Map<String, Value>,
        /// Refuse with [`ErrorKind::IllegalArgument`] unless the stored pipeline has this version.
        if_version: Option<i64>,
    },
    /// `DELETE /_ingest/pipeline/ID`: an id or a wildcard. An id that does not exist fails with
    /// [`ErrorKind::ResourceNotFound`], a pipeline that is the default or final one of an index with
    /// [`ErrorKind::IllegalArgument`].
    DeletePipelines {
        /// Id or wildcard.
        id: String,
    },
}

impl Change<'_> {
    pub(super) fn ingest(&mut self, command: &IngestCommand) -> Result<()> {
        match command {
            IngestCommand::PutPipeline { id, body, if_version } => self.put_pipeline(id, body, *if_version),
            IngestCommand::DeletePipelines { id } => self.delete_pipelines(id),
        }
    }

    fn put_pipeline(&mut self, id: &str, body: &Map<String, Value>, if_version: Option<i64>) -> Result<()> {
        check_id(id)?;
        let stored = self.next.ingest.by_id.get(id);
        let mut body = body.clone();
        if let Some(required) = if_version {
            check_version(id, required, stored.map(AsRef::as_ref), &body)?;
            // A conditional change always has a version: the next one, unless the body has its own.
            body.entry("version").or_insert_with(|| (required + 1).into());
        }
        if stored.is_some_and(|stored| **stored == body) {
            return Ok(());
        }
        if stored.is_none() && self.next.ingest.by_id.len() >= PIPELINES_MAX {
            return Err(Error::illegal_argument(format!(
                "this node has the maximum of [{PIPELINES_MAX}] ingest pipelines"
            )));
        }
        Arc::make_mut(&mut self.next.ingest)
            .by_id
            .insert(id.to_owned(), Arc::new(body));
        self.changed();
        Ok(())
    }

    fn delete_pipelines(&mut self, id: &str) -> Result<()> {
        let selected: Vec<String> = self
            .next
            .ingest
            .by_id
            .keys()
            .filter(|name| matches_pattern(id, name))
            .cloned()
            .collect();
        if selected.is_empty() && id != "*" {
            let reason = format!("pipeline [{id}] is missing");
            return Err(Error::new(ErrorKind::ResourceNotFound, reason));
        }
        for name in &selected {
            self.check_unused(name)?;
        }
        for name in selected {
            Arc::make_mut(&mut self.next.ingest).by_id.remove(&name);
            self.changed();
        }
        Ok(())
    }

    /// Refuses the deletion of a pipeline that writes to an index would miss.
    fn check_unused(&self, id: &str) -> Result<()> {
        for (setting, kind) in [("index.default_pipeline", "default"), ("index.final_pipeline", "final")] {
            let users: Vec<&str> = self
                .next
                .indices
                .values()
                .filter(|index| index.text_setting(setting) == Some(id))
                .map(|index| index.name.as_str())
                .collect();
            if let Some(first) = users.first() {
                return Err(Error::illegal_argument(format!(
                    "pipeline [{id}] cannot be deleted because it is the {kind} pipeline for {} index(es) including [{first}]",
                    users.len()
                )));
            }
        }
        Ok(())
    }
}

/// Checks the id of a pipeline.
pub(super) fn check_id(id: &str) -> Result<()> {
    if id.is_empty() || id.len() > ID_BYTES_MAX {
        return Err(Error::illegal_argument(format!(
            "the id of a pipeline must have [1] to [{ID_BYTES_MAX}] bytes, not [{}]",
            id.len()
        )));
    }
    if let Some(at) = id.find([',', '*']) {
        return Err(Error::illegal_argument(format!(
            "the id [{id}] of a pipeline must not contain [{}]",
            &id[at..=at]
        )));
    }
    Ok(())
}

fn check_version(
    id: &str,
    required: i64,
    stored: Option<&Map<String, Value>>,
    body: &Map<String, Value>,
) -> Result<()> {
    let version = |body: &Map<String, Value>| body.get("version").and_then(Value::as_i64);
    let refuse = |reason: String| Err(Error::illegal_argument(reason));
    let Some(stored) = stored else {
        return refuse(format!(
            "version conflict, required version [{required}] for pipeline [{id}] but no pipeline was found"
        ));
    };
    let current = version(stored);
    if current != Some(required) {
        let current = current.map_or("null".to_owned(), |version| version.to_string());
        return refuse(format!(
            "version conflict, required version [{required}] for pipeline [{id}] but current version is [{current}]"
        ));
    }
    if version(body) == Some(required) {
        return refuse(format!(
            "cannot update pipeline [{id}] with the same version [{required}]"
        ));
    }
    Ok(())
}
