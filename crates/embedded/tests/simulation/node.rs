//! Process of a run: an engine on a simulated disk and an object store.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use firn_embedded::{Embedded, EmbeddedConfig};
use firn_engine::admin::IndexStats;
use firn_engine::{Engine, RequestContext, Result};
use firn_model::metadata::{Command, Metadata, Outcome};
use firn_query::search::{IndexTarget, SearchRequest, SearchResponse};
use firn_storage::object::{ObjectStores, StoresConfig};
use firn_storage::sim::SimDisk;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::faults::Store;

/// Data folder of the engine.
pub(crate) const DATA: &str = "/data";
/// More than the number of documents of any index.
const DOCS_MAX: u64 = 10_000;

/// Returns the runtime for object store requests of all runs.
fn io() -> &'static Runtime {
    static IO: OnceLock<Runtime> = OnceLock::new();
    IO.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().expect("a runtime")
    })
}

pub(crate) fn ctx() -> RequestContext {
    RequestContext::new()
}

pub(crate) fn target(index: &str) -> IndexTarget {
    IndexTarget {
        expression: vec![index.to_owned()],
        ..IndexTarget::default()
    }
}

pub(crate) struct Node {
    pub(crate) engine: Arc<Embedded>,
    pub(crate) disk: SimDisk,
    pub(crate) store: Arc<Store>,
}

impl Node {
    pub(crate) fn open(disk: &SimDisk, store: &Arc<Store>, clock: &Arc<AtomicI64>, seed: u64) -> Result<Self> {
        let now = Arc::clone(clock);
        let now = Arc::new(move || now.load(Ordering::Relaxed));
        let mut config = EmbeddedConfig::new(PathBuf::from(DATA), Arc::new(disk.clone()), now, seed);
        config.cores = 2;
        config.write_threads = 2;
        config.search_threads = 2;
        config.indexing_buffer_bytes = 8 << 20;
        config.shared_cache_bytes = 4 << 20;
        config.ticks = false;
        // A full disk is not detected early but fails writes: the run tests exactly that.
        config.space = Some(Arc::new(|| Ok((1 << 40, 1 << 39))));
        config.object_stores = Arc::new(ObjectStores::new(StoresConfig {
            memory: Some(Arc::clone(store) as _),
            ..StoresConfig::new(seed)
        }));
        config.io = Some(io().handle().clone());
        Ok(Self {
            engine: Embedded::open(config)?,
            disk: disk.clone(),
            store: Arc::clone(store),
        })
    }

    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        io().block_on(future)
    }

    pub(crate) fn execute(&self, command: Command) -> Result<Outcome> {
        self.run(self.engine.execute(&ctx(), command))
    }

    pub(crate) fn metadata(&self) -> Result<Arc<Metadata>> {
        self.run(self.engine.metadata(&ctx()))
    }

    pub(crate) fn stats(&self, index: &str) -> Result<Vec<IndexStats>> {
        self.run(self.engine.stats(&ctx(), target(index)))
    }

    /// Returns why shards of an index do not serve: what makes its health red.
    pub(crate) fn failures(&self, index: &str) -> Vec<String> {
        match self.stats(index) {
            Ok(stats) => {
                let shards = stats.iter().flat_map(|index| &index.shards);
                shards.filter_map(|shard| shard.failure.clone()).collect()
            }
            Err(error) => vec![error.to_string()],
        }
    }

    pub(crate) fn search(&self, index: &str) -> Result<SearchResponse> {
        let body = json!({"size": DOCS_MAX, "track_total_hits": true});
        let mut request = SearchRequest::parse(target(index), Some(&body))?;
        request.allow_partial_results = false;
        self.run(self.engine.search(&ctx(), request))
    }

    /// Returns all documents of an index after a refresh, by key; a duplicate is the inner error.
    pub(crate) fn documents(&self, index: &str) -> Result<std::result::Result<BTreeMap<String, u64>, String>> {
        let refreshed = self.run(self.engine.refresh(&ctx(), target(index)))?;
        if let Some((_, _, error)) = refreshed.failures.into_iter().next() {
            return Err(error);
        }
        let response = self.search(index)?;
        let mut found = BTreeMap::new();
        for hit in &response.hits {
            let source = hit.source.as_deref().unwrap_or_default();
            let Ok(source) = serde_json::from_slice::<Value>(source) else {
                return Ok(Err(format!("[{}] has no source that is JSON", hit.id)));
            };
            let (Some(key), Some(n)) = (source["key"].as_str(), source["n"].as_u64()) else {
                return Ok(Err(format!("[{}] has another source: {source}", hit.id)));
            };
            if let Some(other) = found.insert(key.to_owned(), n) {
                return Ok(Err(format!("[{key}] is there twice, as {other} and as {n}")));
            }
        }
        let total = response.total.map_or(0, |total| total.value);
        if total != found.len() as u64 {
            return Ok(Err(format!("a total of {total} with {} hits", found.len())));
        }
        Ok(Ok(found))
    }
}
