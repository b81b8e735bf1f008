//! Worker pools of a node.

use std::sync::Arc;

use firn_engine::RequestContext;
use firn_model::{Error, Result};
use firn_scheduler::{Flow, Pool, PoolConfig};
use firn_segment::splits::dry_run::catch;
use tokio::sync::oneshot;

use crate::config::EmbeddedConfig;

/// Threads for reads by id and statistics.
const GET_THREADS: usize = 2;
/// Threads for commands, refreshes and flushes.
const MAINTENANCE_THREADS: usize = 2;
/// Threads for moves of shards between devices.
const RELOCATION_THREADS: usize = 1;
/// Maximum number of requests that wait for each of the pools above, and of waiting force merges.
const QUEUE_LIMIT: usize = 1000;

/// One pool for each kind of work.
pub(crate) struct Pools {
    pub(crate) write: Pool,
    /// Shared with the searches, whose segments are separate tasks.
    pub(crate) search: Arc<Pool>,
    pub(crate) get: Pool,
    pub(crate) maintenance: Pool,
    pub(crate) merge: Pool,
    /// Moves of shards between devices.
    pub(crate) relocation: Pool,
    /// Snapshots and restores, which take long and mostly wait.
    pub(crate) snapshot: Pool,
}

impl Pools {
    /// Starts the threads of all pools.
    pub(crate) fn new(config: &EmbeddedConfig) -> Self {
        let [write, search] = Pool::sharing(
            "work",
            config.cores,
            [
                PoolConfig {
                    name: "write",
                    threads: config.write_threads,
                    queue_limit: config.write_queue_limit,
                },
                PoolConfig {
                    name: "search",
                    threads: config.search_threads,
                    queue_limit: config.search_queue_limit,
                },
            ],
        );
        Self {
            write,
            search: Arc::new(search),
            get: Pool::new("get", GET_THREADS, QUEUE_LIMIT),
            maintenance: Pool::new("maintenance", MAINTENANCE_THREADS, QUEUE_LIMIT),
            merge: Pool::new("merge", config.merge_threads, QUEUE_LIMIT),
            relocation: Pool::new("move", RELOCATION_THREADS, QUEUE_LIMIT),
            snapshot: Pool::new("snapshot", config.snapshot_threads, QUEUE_LIMIT),
        }
    }
}

/// Runs `work` on `pool` in the queue of the request's tenant, and waits for the result without blocking the
/// calling thread.
pub(crate) async fn run_on<T: Send + 'static>(
    pool: &Pool,
    ctx: &RequestContext,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    pool.spawn(&Flow::of(&ctx.scope), move || {
        // The receiver is gone if the client disconnected.
        let _ = sender.send(catch(work));
    })?;
    receiver.await.unwrap_or_else(|_| Err(panicked()))
}

/// Returns the error for work that ended without a result.
pub(crate) fn panicked() -> Error {
    Error::internal("the request failed because of a bug, see the log")
}
