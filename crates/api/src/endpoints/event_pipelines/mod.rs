//! `_firn/pipelines`: event pipelines, their state, and the events that they take by HTTP.
//!
//! Pipelines belong to operators: a definition names files and addresses of the server. A tenant's key may hand events to a
//! pipeline whose definition names that tenant, and sees nothing else of it.

pub(crate) mod coverage;
mod definitions;
mod events;
pub(crate) mod otlp;
pub(crate) mod positions;
pub(crate) mod remap;
pub(crate) mod replay;
pub(crate) mod splunk_hec;
mod status;

pub(crate) use definitions::{delete, get, put, simulate};
pub(crate) use events::events;
pub(crate) use status::{all_stats, print_all, stats};

use std::sync::Arc;

use firn_engine::{Error, ErrorKind};
use firn_pipeline::runner::Runner;

use crate::state::edge::Edge;

/// Returns the pipelines of the server.
pub(crate) fn runner(edge: &Edge) -> Result<&Arc<Runner>, Error> {
    let runner = edge.config.event_pipelines.as_ref();
    runner.ok_or_else(|| Error::new(ErrorKind::Unavailable, "this server runs no event pipelines"))
}

fn missing(id: &str) -> Error {
    Error::new(ErrorKind::ResourceNotFound, format!("pipeline [{id}] is missing"))
}
