//! Runner: the pipelines of a node, each a source, its steps, and the writes of its events.

mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use firn_engine::Engine;
use firn_model::Result;
use serde_json::{Map, Value};

use crate::definition::Definition;
use crate::sources::{BatchOutcome, Source};

pub use status::{EventCounts, PipelineStatus, SimulatedRecord};

/// Record of what of a source is stored.
#[async_trait]
pub trait Positions: Send + Sync {
    /// Returns the offset from which a partition must be read again; `None`: nothing of it was ever stored.
    async fn resume_offset(&self, partition: &str) -> Result<Option<u64>>;
}

/// Makes the source of a definition, as this program has it.
pub type OpenSource = Arc<dyn Fn(&Definition) -> Result<Box<dyn Source>> + Send + Sync>;

/// Pipelines of a node.
pub struct Runner {}

impl Runner {
    /// Creates a runner without pipelines, whose steps run on `threads` threads.
    pub fn new(engine: Arc<dyn Engine>, open_source: OpenSource, threads: usize) -> Arc<Self> {
        todo!()
    }

    /// Starts, replaces and stops pipelines until exactly those of `bodies` run. A body that cannot be used is in
    /// [`Runner::status`] with its error.
    pub async fn apply(self: &Arc<Self>, bodies: &BTreeMap<String, Arc<Map<String, Value>>>) {
        todo!()
    }

    /// Returns the state of a pipeline; `None`: there is none of this id.
    pub async fn status(&self, id: &str) -> Option<PipelineStatus> {
        todo!()
    }

    /// Hands events to a pipeline with an `http` source, and waits until they are stored.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::ResourceNotFound`]: no such pipeline. [`firn_model::ErrorKind::IllegalArgument`]: its source is
    /// another one. [`firn_model::ErrorKind::Rejected`]: it has as many events waiting as it may have; nothing was taken. Other
    /// errors are those of the write: the events may be stored in part.
    pub async fn submit(&self, id: &str, events: Vec<Bytes>) -> Result<BatchOutcome> {
        todo!()
    }

    /// Stops all pipelines; events that they have taken are stored or handed back first.
    pub async fn stop(&self) {
        todo!()
    }
}

/// Runs the steps of a pipeline on records, without a source and without writes. `received_ns` is their time of arrival.
pub fn simulate(
    id: &str,
    body: &Map<String, Value>,
    records: &[Bytes],
    received_ns: i64,
) -> Result<Vec<SimulatedRecord>> {
    todo!()
}
