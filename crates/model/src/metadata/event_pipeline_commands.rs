//! Commands of event pipelines. Their definitions are checked where they are known, before a command is made.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::change::Change;
use super::ids::check_id;
use crate::{Error, ErrorKind, Result};

/// Maximum event pipelines of one node. Each has its own source and tasks.
const PIPELINES_MAX: usize = 1000;

/// Change of event pipelines.
#[derive(Debug, Clone, PartialEq)]
pub enum EventPipelineCommand {
    /// `PUT /_firn/pipelines/ID`. An identical pipeline changes nothing.
    Put {
        /// The id.
        id: String,
        /// The body.
        body: Map<String, Value>,
    },
    /// `DELETE /_firn/pipelines/ID`. An id that does not exist fails with [`ErrorKind::ResourceNotFound`].
    Delete {
        /// The id.
        id: String,
    },
}

impl Change<'_> {
    pub(super) fn event_pipeline(&mut self, command: &EventPipelineCommand) -> Result<()> {
        match command {
            EventPipelineCommand::Put { id, body } => self.put_event_pipeline(id, body),
            EventPipelineCommand::Delete { id } => self.delete_event_pipeline(id),
        }
    }

    fn put_event_pipeline(&mut self, id: &str, body: &Map<String, Value>) -> Result<()> {
        check_id(id)?;
        if id.starts_with('_') {
            return Err(Error::illegal_argument(format!(
                "the id [{id}] of a pipeline must not start with [_]"
            )));
        }
        let by_id = &self.next.event_pipelines.by_id;
        if by_id.get(id).is_some_and(|stored| **stored == *body) {
            return Ok(());
        }
        if !by_id.contains_key(id) && by_id.len() >= PIPELINES_MAX {
            return Err(Error::illegal_argument(format!(
                "this node has the maximum of [{PIPELINES_MAX}] event pipelines"
            )));
        }
        Arc::make_mut(&mut self.next.event_pipelines)
            .by_id
            .insert(id.to_owned(), Arc::new(body.clone()));
        self.changed();
        Ok(())
    }

    fn delete_event_pipeline(&mut self, id: &str) -> Result<()> {
        if !self.next.event_pipelines.by_id.contains_key(id) {
            let reason = format!("pipeline [{id}] is missing");
            return Err(Error::new(ErrorKind::ResourceNotFound, reason));
        }
        Arc::make_mut(&mut self.next.event_pipelines).by_id.remove(id);
        self.changed();
        Ok(())
    }
}
