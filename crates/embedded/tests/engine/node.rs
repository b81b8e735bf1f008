//! Test node: an engine in a temporary folder, with shortcuts to call it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use firn_embedded::{Embedded, EmbeddedConfig};
use firn_engine::disclosure::Disclosed;
use firn_engine::document::{
    BulkItem, BulkItemResponse, BulkRequest, Expectation, GetRequest, Operation, Refresh, StoredDocument, Update,
    Written,
};
use firn_engine::{Engine, Error, RequestContext, Result};
use firn_model::metadata::{Command, Outcome};
use firn_query::search::{IndexTarget, SearchRequest, SearchResponse};
use firn_storage::disk::{Disk, RealDisk};
use serde_json::Value;

/// Start of the tests' clock, which stands still unless a test moves it: 2026-01-01T00:00:00Z.
pub(crate) const START_MS: i64 = 1_767_225_600_000;

/// Opens an engine. A thread of the previous engine in the same folder may still be ending a read and hold a file
/// that only one process may open: a real process would be dead by then.
fn open_once_free(config: &EmbeddedConfig) -> Result<Arc<Embedded>> {
    let waiting = Instant::now();
    loop {
        match Embedded::open(config.clone()) {
            Err(error) if error.to_string().contains("is in use by another process") => {
                if waiting.elapsed() > Duration::from_secs(20) {
                    return Err(error);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened,
        }
    }
}

/// Running engine. The folder is removed with it.
pub(crate) struct Node {
    pub(crate) engine: Arc<Embedded>,
    pub(crate) clock: Arc<AtomicI64>,
    pub(crate) folder: Arc<tempfile::TempDir>,
    runtime: tokio::runtime::Runtime,
    pub(crate) disk: Arc<dyn Disk>,
}

impl Node {
    /// Creates a node on an empty folder.
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// Creates a node whose configuration differs from the defaults.
    pub(crate) fn with(change: impl FnOnce(&mut EmbeddedConfig)) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        Self::open(folder, Arc::new(RealDisk), change).unwrap()
    }

    /// Creates a node on a folder and a disk.
    pub(crate) fn open(
        folder: Arc<tempfile::TempDir>,
        disk: Arc<dyn Disk>,
        change: impl FnOnce(&mut EmbeddedConfig),
    ) -> Result<Self> {
        let clock = Arc::new(AtomicI64::new(START_MS));
        let now = Arc::clone(&clock);
        let mut config = EmbeddedConfig::new(
            folder.path(),
            Arc::clone(&disk),
            Arc::new(move || now.load(Ordering::Relaxed)),
            7,
        );
        config.write_threads = 2;
        config.search_threads = 2;
        config.indexing_buffer_bytes = 32 << 20;
        // The machine that runs the tests may have a full disk.
        config.space = Some(Arc::new(|| Ok((1 << 40, 1 << 39))));
        change(&mut config);
        Ok(Self {
            engine: open_once_free(&config)?,
            clock,
            folder,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap(),
            disk,
        })
    }

    /// Returns the engine as callers of firn see it.
    pub(crate) fn disclosed(&self) -> Disclosed {
        Disclosed::new(Arc::clone(&self.engine) as Arc<dyn Engine>)
    }

    /// Stops without closing, like a killed process, and opens again.
    pub(crate) fn reopen(self) -> Self {
        let (folder, disk) = (Arc::clone(&self.folder), Arc::clone(&self.disk));
        drop(self);
        Self::open(folder, disk, |_| {}).unwrap()
    }

    /// Closes and opens again.
    pub(crate) fn restart(self) -> Self {
        self.run(self.engine.close()).unwrap();
        self.reopen()
    }

    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(crate) fn advance_ms(&self, ms: i64) {
        self.clock.fetch_add(ms, Ordering::Relaxed);
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the folder of a shard.
    pub(crate) fn shard_dir(&self, index: &str, shard: u32) -> PathBuf {
        let metadata = self.run(self.engine.metadata(&ctx())).unwrap();
        self.path()
            .join("indices")
            .join(&metadata.indices[index].uuid)
            .join(shard.to_string())
    }

    pub(crate) fn execute(&self, command: Command) -> Result<Outcome> {
        self.run(self.engine.execute(&ctx(), command))
    }

    /// Creates an index from the body of `PUT /name`.
    pub(crate) fn create(&self, name: &str, body: Value) -> Result<Outcome> {
        self.execute(Command::CreateIndex {
            name: name.to_owned(),
            settings: body
                .get("settings")
                .cloned()
                .unwrap_or_else(|| Value::Object(Default::default())),
            mappings: body.get("mappings").cloned(),
            aliases: body.get("aliases").cloned(),
        })
    }

    pub(crate) fn bulk(&self, items: Vec<BulkItem>) -> Vec<BulkItemResponse> {
        self.bulk_with(items, Refresh::No)
    }

    pub(crate) fn bulk_with(&self, items: Vec<BulkItem>, refresh: Refresh) -> Vec<BulkItemResponse> {
        let request = BulkRequest {
            items,
            refresh,
            timeout: None,
            origin: None,
        };
        self.run(self.engine.bulk(&ctx(), request)).unwrap().items
    }

    /// Writes one item that must succeed.
    pub(crate) fn write(&self, item: BulkItem) -> (String, Written) {
        let mut responses = self.bulk(vec![item]);
        let response = responses.pop().unwrap();
        (response.id, response.result.unwrap())
    }

    /// Writes one item that must fail; returns the error.
    pub(crate) fn write_error(&self, item: BulkItem) -> Error {
        self.bulk(vec![item]).pop().unwrap().result.unwrap_err()
    }

    pub(crate) fn get(&self, index: &str, id: &str) -> Option<StoredDocument> {
        self.try_get(index, id).unwrap()
    }

    pub(crate) fn try_get(&self, index: &str, id: &str) -> Result<Option<StoredDocument>> {
        let request = GetRequest {
            index: index.to_owned(),
            id: id.to_owned(),
            routing: None,
            realtime: true,
            version: None,
        };
        let mut results = self.run(self.engine.get(&ctx(), vec![request]))?;
        Ok(results.pop().unwrap()?.found)
    }

    /// Returns the source of a document that must exist.
    pub(crate) fn source(&self, index: &str, id: &str) -> Value {
        let document = self.get(index, id).expect("the document is there");
        serde_json::from_slice(&document.source).unwrap()
    }

    pub(crate) fn search(&self, index: &str, body: Value) -> Result<SearchResponse> {
        let request = SearchRequest::parse(target(index), Some(&body))?;
        self.run(self.engine.search(&ctx(), request))
    }

    /// Returns the exact number of matching documents, after a refresh.
    pub(crate) fn count(&self, index: &str, query: Value) -> u64 {
        self.refresh(index);
        let body = serde_json::json!({"query": query, "size": 0, "track_total_hits": true});
        self.search(index, body).unwrap().total.unwrap().value
    }

    pub(crate) fn refresh(&self, index: &str) {
        let outcome = self.run(self.engine.refresh(&ctx(), target(index))).unwrap();
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    }

    pub(crate) fn flush(&self, index: &str) {
        let outcome = self.run(self.engine.flush(&ctx(), target(index))).unwrap();
        assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    }
}

pub(crate) fn ctx() -> RequestContext {
    RequestContext::new()
}

pub(crate) fn target(expression: &str) -> IndexTarget {
    IndexTarget {
        expression: expression.split(',').map(str::to_owned).collect(),
        ..IndexTarget::default()
    }
}

fn item(index: &str, id: Option<&str>, operation: Operation) -> BulkItem {
    BulkItem {
        index: index.to_owned(),
        id: id.map(str::to_owned),
        routing: None,
        operation,
        expect: Expectation::Any,
        require_alias: false,
        require_data_stream: false,
    }
}

pub(crate) fn bytes(source: &Value) -> Bytes {
    Bytes::from(source.to_string())
}

/// Adds or replaces a document.
pub(crate) fn index(index: &str, id: &str, source: Value) -> BulkItem {
    item(index, Some(id), Operation::Index { source: bytes(&source) })
}

/// Adds a document with a generated id.
pub(crate) fn add(index: &str, source: Value) -> BulkItem {
    item(index, None, Operation::Create { source: bytes(&source) })
}

/// Adds a document if the id does not exist.
pub(crate) fn create(index: &str, id: &str, source: Value) -> BulkItem {
    item(index, Some(id), Operation::Create { source: bytes(&source) })
}

pub(crate) fn delete(index: &str, id: &str) -> BulkItem {
    item(index, Some(id), Operation::Delete)
}

/// Updates a document partially.
pub(crate) fn update(index: &str, id: &str, doc: Value) -> BulkItem {
    update_with(index, id, doc, |_| {})
}

pub(crate) fn update_with(index: &str, id: &str, doc: Value, change: impl FnOnce(&mut Update)) -> BulkItem {
    let mut update = Update {
        doc: Some(doc),
        upsert: None,
        doc_as_upsert: false,
        detect_noop: true,
        retry_on_conflict: 0,
        source: None,
    };
    change(&mut update);
    item(index, Some(id), Operation::Update(Box::new(update)))
}
