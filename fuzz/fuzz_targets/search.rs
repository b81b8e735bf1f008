//! Fuzz target: no search body makes the engine panic or run long; parsed bodies run over a few documents.
#![no_main]

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use firn_embedded::{Embedded, EmbeddedConfig};
use firn_engine::document::{BulkItem, BulkRequest, Expectation, Operation, Refresh};
use firn_query::search::{IndexTarget, SearchRequest};
use firn_engine::{Engine, ErrorKind, RequestContext};
use firn_model::metadata::Command;
use firn_storage::disk::RealDisk;
use firn_testkit::{random::Random, reference};
use serde_json::json;

/// 2024-07-01T00:00:00Z; the times of the documents are around it.
const NOW_MS: i64 = 1_719_792_000_000;

struct Node {
    engine: Arc<Embedded>,
    runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

static NODE: LazyLock<Node> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = EmbeddedConfig::new(folder.path(), Arc::new(RealDisk), Arc::new(|| NOW_MS), 7);
    (config.search_threads, config.write_threads) = (1, 1);
    config.search_memory_bytes_max = 64 << 20;
    let engine = Embedded::open(config).expect("opens");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let context = RequestContext::new();
    let command = Command::CreateIndex {
        name: "fuzz".to_owned(),
        settings: json!({"number_of_shards": 2}),
        mappings: Some(reference::mappings()),
        aliases: None,
    };
    runtime.block_on(engine.execute(&context, command)).expect("creates");
    let mut random = Random::new(1);
    for batch in 0..3 {
        let items = (0..20).map(|number| {
            let sequence = batch * 20 + number;
            BulkItem {
                index: "fuzz".to_owned(),
                id: Some(format!("d{sequence}")),
                routing: None,
                operation: Operation::Index { source: Bytes::from(random.document(sequence).to_string()) },
                expect: Expectation::Any,
                require_alias: false,
                require_data_stream: false,
            }
        });
        let request = BulkRequest { items: items.collect(), refresh: Refresh::Now, timeout: None };
        runtime.block_on(engine.bulk(&context, request)).expect("writes");
    }
    Node { engine, runtime, _folder: folder }
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(body) = serde_json::from_slice::<serde_json::Value>(data) else { return };
    let target = IndexTarget { expression: vec!["fuzz".to_owned()], ..IndexTarget::default() };
    let Ok(request) = SearchRequest::parse(target, Some(&body)) else { return };
    let node = &*NODE;
    let answer = node.runtime.block_on(node.engine.search(&RequestContext::new(), request));
    // Any error of a search is the fault of its body, never an internal error.
    if let Err(error) = answer {
        assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
    }
});
