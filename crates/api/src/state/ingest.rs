//! Compiled ingest pipelines of the node, their counters, and the threads that run them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firn_engine::{Error, RequestContext};
use firn_model::metadata::PipelineBodies;
use firn_pipeline::processors::{Pipeline, Pipelines};
use firn_scheduler::{Flow, Pool};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

/// Maximum waiting jobs. Past it writes with pipelines get a 429; a tenant within its share may exceed it.
const QUEUE_LIMIT: usize = 10_000;

/// Pipelines of the node. Jobs of tenants share the threads fairly, so that an expensive pipeline slows only the writes
/// of the tenant that uses it.
pub(crate) struct Ingest {
    pool: Pool,
    compiled: Mutex<Arc<CompiledPipelines>>,
    pub(crate) totals: IngestTotals,
}

/// Counters of all documents that went through pipelines.
#[derive(Debug, Default)]
pub(crate) struct IngestTotals {
    pub(crate) count: AtomicU64,
    pub(crate) current: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) nanos: AtomicU64,
}

impl IngestTotals {
    /// Counts the start of a document.
    pub(crate) fn start(&self) {
        self.current.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a document.
    pub(crate) fn end(&self, took: Duration, failed: bool) {
        self.current.fetch_sub(1, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.failed.fetch_add(u64::from(failed), Ordering::Relaxed);
        self.nanos.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// The pipelines of one state of the metadata.
#[derive(Default)]
pub(crate) struct CompiledPipelines {
    source: Arc<PipelineBodies>,
    by_id: BTreeMap<String, Compiled>,
}

/// A pipeline with the body that it was compiled from. A stored body may fail to compile: another version of firn may
/// have stored it.
#[derive(Clone)]
struct Compiled {
    body: Arc<Map<String, Value>>,
    pipeline: Result<Arc<Pipeline>, Error>,
}

impl Ingest {
    /// Creates the state, with `threads` threads.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            pool: Pool::new("ingest", threads, QUEUE_LIMIT),
            compiled: Mutex::default(),
            totals: IngestTotals::default(),
        }
    }

    /// Returns the compiled pipelines of a state of the metadata. Compiles only those that changed, which continue
    /// their counters.
    pub(crate) fn compiled(&self, source: &Arc<PipelineBodies>) -> Arc<CompiledPipelines> {
        let mut current = self.compiled.lock();
        if Arc::ptr_eq(&current.source, source) {
            return Arc::clone(&current);
        }
        let by_id = source
            .by_id
            .iter()
            .map(|(id, body)| (id.clone(), compile(id, body, current.by_id.get(id))))
            .collect();
        let next = Arc::new(CompiledPipelines {
            source: Arc::clone(source),
            by_id,
        });
        *current = Arc::clone(&next);
        next
    }

    /// Runs jobs in the queue of the caller's tenant and returns their results in order. A full queue fails with
    /// [`firn_engine::ErrorKind::Rejected`] before any job ran. A job learns from its argument whether its caller still
    /// waits.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        ctx: &RequestContext,
        jobs: Vec<impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static>,
    ) -> Result<Vec<T>, Error> {
        let flow = Flow::of(&ctx.scope);
        let mut receivers = Vec::with_capacity(jobs.len());
        for job in jobs {
            let (sender, receiver) = oneshot::channel();
            let work = move || {
                let result = job(&|| !sender.is_closed());
                // The receiver is gone if the client disconnected.
                let _ = sender.send(result);
            };
            // The first job asks for admission on behalf of the request.
            if receivers.is_empty() {
                self.pool.spawn(&flow, work)?;
            } else {
                self.pool.spawn_admitted(&flow, work);
            }
            receivers.push(receiver);
        }
        let mut results = Vec::with_capacity(receivers.len());
        for receiver in receivers {
            let result = receiver.await;
            results
                .push(result.map_err(|_| Error::internal("an ingest pipeline failed because of a bug, see the log"))?);
        }
        Ok(results)
    }
}

fn compile(id: &str, body: &Arc<Map<String, Value>>, previous: Option<&Compiled>) -> Compiled {
    if let Some(previous) = previous.filter(|previous| previous.body == *body) {
        return previous.clone();
    }
    let replaced = previous.and_then(|previous| previous.pipeline.as_ref().ok());
    let pipeline = Pipeline::parse(id, body).map(|pipeline| match replaced {
        Some(replaced) => Arc::new(pipeline.continuing(replaced)),
        None => Arc::new(pipeline),
    });
    if let Err(error) = &pipeline {
        tracing::warn!(error = %error, "cannot compile the stored ingest pipeline [{id}]; writes that use it fail");
    }
    Compiled {
        body: Arc::clone(body),
        pipeline,
    }
}

impl CompiledPipelines {
    /// Returns a pipeline. A missing one fails with Elasticsearch's error, a stored one that does not compile with the
    /// reason.
    pub(crate) fn require(&self, id: &str) -> Result<&Arc<Pipeline>, Error> {
        match self.by_id.get(id) {
            Some(compiled) => compiled.pipeline.as_ref().map_err(Clone::clone),
            None => Err(Error::illegal_argument(format!(
                "pipeline with id [{id}] does not exist"
            ))),
        }
    }

    /// Iterates over the pipelines that compile, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Arc<Pipeline>)> {
        let compiled = self.by_id.iter();
        compiled.filter_map(|(id, compiled)| Some((id.as_str(), compiled.pipeline.as_ref().ok()?)))
    }
}

impl Pipelines for CompiledPipelines {
    fn pipeline(&self, id: &str) -> Option<Arc<Pipeline>> {
        self.require(id).ok().cloned()
    }
}
