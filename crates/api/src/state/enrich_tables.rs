//! Records of enrich policies in memory, and what the processors of one request see of all look-up tables.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use firn_model::metadata::PipelineBodies;
use firn_pipeline::processors::{EnrichPolicy, Failure, GeoRecord, Tables};
use firn_pipeline::tables::EnrichTable;
use parking_lot::Mutex;
use serde_json::{Map, Value};

/// Tables of all policies that were executed.
#[derive(Debug, Default)]
pub(crate) struct EnrichTables {
    current: Mutex<Arc<LoadedTables>>,
    /// Held while tables are loaded; writes wait for it.
    pub(crate) loading: tokio::sync::Mutex<()>,
    /// Held while a policy is executed or deleted.
    pub(crate) executing: tokio::sync::Mutex<()>,
}

/// The tables of one state of the metadata.
#[derive(Debug, Default, Clone)]
pub(crate) struct LoadedTables {
    pub(crate) source: Arc<PipelineBodies>,
    pub(crate) by_policy: BTreeMap<String, LoadedTable>,
    /// When a table could not be loaded; the next attempt is some time later.
    pub(crate) failed_ms: Option<i64>,
}

/// A table with the index that it was read from.
#[derive(Debug, Clone)]
pub(crate) struct LoadedTable {
    pub(crate) index: String,
    pub(crate) table: Arc<EnrichTable>,
}

impl EnrichTables {
    /// Returns what is loaded.
    pub(crate) fn current(&self) -> Arc<LoadedTables> {
        Arc::clone(&self.current.lock())
    }

    /// Replaces what is loaded.
    pub(crate) fn set(&self, next: LoadedTables) -> Arc<LoadedTables> {
        let next = Arc::new(next);
        *self.current.lock() = Arc::clone(&next);
        next
    }
}

/// Tables of a request: those of policies, and MaxMind databases.
pub(crate) struct RequestTables {
    pub(crate) databases: Arc<dyn Tables + Send>,
    pub(crate) enrich: Arc<LoadedTables>,
}

impl Tables for RequestTables {
    fn geo_database(&self, file: &str) -> Option<String> {
        self.databases.geo_database(file)
    }

    fn geo(&self, file: &str, address: IpAddr) -> Option<GeoRecord> {
        self.databases.geo(file, address)
    }

    fn enrich_policy(&self, name: &str) -> Option<EnrichPolicy> {
        let table = &self.enrich.by_policy.get(name)?.table;
        Some(EnrichPolicy {
            kind: table.kind().name().to_owned(),
            match_field: table.match_field().to_owned(),
        })
    }

    fn enrich(&self, policy: &str, value: &Value, _: &str, max: usize) -> Result<Vec<Map<String, Value>>, Failure> {
        let loaded = self.enrich.by_policy.get(policy);
        Ok(loaded.map(|loaded| loaded.table.find(value, max)).unwrap_or_default())
    }
}
