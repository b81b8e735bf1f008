//! Index settings: as typed, and as derived.

use std::collections::BTreeMap;

use serde_json::Value;

/// Flat names (`index.number_of_shards`) to scalar values or lists, as typed (strings stay strings).
pub type SettingsMap = BTreeMap<String, Value>;

/// The settings of one index: what the user typed, and what firn uses, validated once.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexSettings {
    /// Flat, with `index.` names. Unknown `index.…` names are refused unless archived by ES (`index.lifecycle.*`, …).
    pub typed: SettingsMap,
    /// `index.number_of_shards`, 1 to 1024, default 1.
    pub number_of_shards: u32,
    /// `index.number_of_replicas`: accepted and printed (default 1 in Elasticsearch; firn prints 0 unless given); one node keeps one copy.
    pub number_of_replicas: u32,
    /// `index.refresh_interval`, ms. Default 1000; `None`: -1, only by request.
    pub refresh_interval_ms: Option<u64>,
    /// `index.translog.durability`.
    pub durability: Durability,
    /// `index.translog.sync_interval`, ms, default 5000, at least 100.
    pub sync_interval_ms: u64,
    /// `index.translog.flush_threshold_size`, bytes, default 512 MB.
    pub flush_threshold_bytes: u64,
    /// `index.mapping.total_fields.limit`, default 1000.
    pub total_fields_limit: u32,
    /// `index.mapping.depth.limit`, default 20.
    pub depth_limit: u32,
    /// `index.mapping.ignore_malformed`, default true in firn (decision 5), false in Elasticsearch.
    pub ignore_malformed: bool,
    /// `index.mapping.coerce`, default true.
    pub coerce: bool,
    /// `index.max_result_window`, default 10,000.
    pub max_result_window: u64,
    /// `index.hidden`.
    pub hidden: bool,
    /// `index.blocks.write` or `index.blocks.read_only`.
    pub write_blocked: bool,
    /// `index.query.default_field`, default `*`.
    pub query_default_fields: Vec<String>,
    /// `index.codec: best_compression` (zstd level 9 at merge) or default.
    pub best_compression: bool,
}

/// When an acknowledged write is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Before it is acknowledged.
    #[default]
    Request,
    /// Within `sync_interval`.
    Async,
}

impl IndexSettings {
    /// Validates flat or nested settings, with or without the `index.` prefix.
    pub fn parse(_settings: &Value) -> crate::Result<Self> {
        todo!()
    }
}

/// Flattens nested settings and adds the `index.` prefix where `prefix` says so.
pub fn flatten(_settings: &Value, _prefix: bool) -> crate::Result<SettingsMap> {
    todo!()
}

/// `512mb`, `1.5gb`, `100b`: bytes (powers of 1024).
pub fn parse_bytes(_text: &str) -> crate::Result<u64> {
    todo!()
}
