//! Conformance suite of engines, run by the embedded engine: one test per case.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use firn_embedded::{Embedded, EmbeddedConfig};
use firn_engine::Engine;
use firn_engine::conformance::{Case, Subject};
use firn_storage::RealDisk;
use firn_storage::object::{ObjectStores, StoresConfig};
use serde_json::json;
use tokio::runtime::Runtime;

/// 2026-01-01T00:00:00Z.
const NOW_MS: i64 = 1_767_225_600_000;

/// Opens an engine with a region cache, and with a folder for repositories.
fn open(folder: &Path, runtime: &Runtime) -> Arc<Embedded> {
    // Each reading of the clock is 1 ms later.
    let clock = AtomicI64::new(NOW_MS);
    let now = move || clock.fetch_add(1, Ordering::Relaxed);
    let mut config = EmbeddedConfig::new(&folder.join("data"), Arc::new(RealDisk), Arc::new(now), 7);
    config.write_threads = 2;
    config.search_threads = 2;
    // The machine that runs the tests may have a full disk.
    config.space = Some(Arc::new(|| Ok((1 << 40, 1 << 39))));
    let mut stores = StoresConfig::new(7);
    stores.path_repo = vec![folder.join("repositories")];
    config.object_stores = Arc::new(ObjectStores::new(stores));
    config.io = Some(runtime.handle().clone());
    config.shared_cache_bytes = 16 << 20;
    Embedded::open(config).unwrap()
}

/// Runs a case on an engine of its own.
fn conforms(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let engine = open(folder.path(), &runtime);
    let subject = Subject::new(Arc::clone(&engine) as Arc<dyn Engine>, "conforms")
        .with_repository("fs", json!({"location": folder.path().join("repositories/backups")}));
    let case = Case::named(name).unwrap();
    let verdict = runtime.block_on(case.run(&subject));
    runtime.block_on(engine.close()).unwrap();
    if let Err(failure) = verdict {
        panic!("[{name}]: {failure}");
    }
}

macro_rules! tests {
    ($($module:ident::$name:ident [$($capability:ident),*];)*) => {$(
        #[test]
        fn $name() {
            conforms(stringify!($name));
        }
    )*};
}

firn_engine::for_each_conformance_case!(tests);
