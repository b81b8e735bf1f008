//! Definitions of all settings that firn knows, one line each.

use serde_json::Value;

use super::kinds::Kind::{Bool, Bytes, BytesOrPercent, Duration, Float, Integer, OneOf, Only, Private, Refused, Text};
use super::kinds::{Kind, plain};
use crate::tier::{TIER_PREFERENCE, parse_preference};
use crate::{Error, Result};

/// When a setting may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changes {
    /// At any time.
    Dynamic,
    /// At creation, or while the index is closed.
    Static,
    /// Only at creation.
    Final,
}

/// Definition of one setting, or of a group of settings if the name ends with `*`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Value printed with `include_defaults`; empty: none.
    pub(crate) default: &'static str,
    pub(crate) changes: Changes,
}

const fn dynamic(name: &'static str, kind: Kind, default: &'static str) -> Definition {
    Definition {
        name,
        kind,
        default,
        changes: Changes::Dynamic,
    }
}

const fn fixed(name: &'static str, kind: Kind, default: &'static str) -> Definition {
    Definition {
        name,
        kind,
        default,
        changes: Changes::Static,
    }
}

const fn at_creation(name: &'static str, kind: Kind, default: &'static str) -> Definition {
    Definition {
        name,
        kind,
        default,
        changes: Changes::Final,
    }
}

const INT: i64 = i32::MAX as i64;
const COUNT: Kind = Integer(0, INT);
const POSITIVE: Kind = Integer(1, INT);
/// Elasticsearch's value for "no limit".
const NO_LIMIT: &str = "9223372036854775807";

/// Settings of an index; the first line that matches a name applies. firn acts on the first block. The other settings
/// are known to Elasticsearch; firn checks, stores and prints them, and they have no effect on one node.
pub(crate) static DEFINITIONS: &[Definition] = &[
    at_creation("index.number_of_shards", Integer(1, 1024), "1"),
    dynamic("index.number_of_replicas", COUNT, "0"),
    dynamic("index.refresh_interval", Duration(0, true), "1s"),
    dynamic("index.translog.durability", OneOf(&["request", "async"]), "request"),
    dynamic("index.translog.sync_interval", Duration(100, false), "5s"),
    dynamic("index.translog.flush_threshold_size", Bytes, "512mb"),
    dynamic("index.mapping.total_fields.limit", Integer(0, INT), "1000"),
    dynamic("index.mapping.depth.limit", Integer(1, 100), "20"),
    dynamic("index.mapping.ignore_malformed", Bool, "true"),
    dynamic("index.mapping.coerce", Bool, "true"),
    dynamic("index.max_result_window", POSITIVE, "10000"),
    // A request cannot hold more, even if the index allows it.
    dynamic("index.max_docvalue_fields_search", Integer(0, 1000), "100"),
    dynamic("index.requests.cache.enable", Bool, "true"),
    dynamic("index.store.snapshot.cache.pinned", Bool, "false"),
    dynamic("index.hidden", Bool, "false"),
    dynamic("index.blocks.write", Bool, "false"),
    dynamic("index.blocks.read_only", Bool, "false"),
    dynamic("index.blocks.read_only_allow_delete", Bool, "false"),
    dynamic("index.query.default_field", Text, "*"),
    fixed("index.codec", OneOf(&["default", "lz4", "best_compression"]), "default"),
    at_creation("index.tenant.field", Text, ""),
    at_creation("index.tenant.owner", Text, ""),
    at_creation("index.period", OneOf(&["day", "week", "two_weeks", "month"]), ""),
    dynamic("index.time.past_limit", Duration(0, false), "3650d"),
    dynamic("index.time.future_limit", Duration(0, false), "7d"),
    at_creation("index.creation_date", Integer(-1, i64::MAX), ""),
    dynamic("index.lifecycle.name", Text, ""),
    dynamic("index.lifecycle.rollover_alias", Text, ""),
    dynamic("index.lifecycle.indexing_complete", Bool, "false"),
    dynamic("index.lifecycle.origination_date", Integer(-1, i64::MAX), "-1"),
    dynamic("index.lifecycle.parse_origination_date", Bool, "false"),
    dynamic("index.lifecycle.prefer_ilm", Bool, "true"),
    dynamic(
        "index.lifecycle.step.wait_time_threshold",
        Duration(3_600_000, false),
        "12h",
    ),
    dynamic(TIER_PREFERENCE, Text, ""),
    // Other values would change responses in a way that firn does not implement.
    dynamic("index.blocks.read", Only("false"), "false"),
    dynamic("index.blocks.metadata", Only("false"), "false"),
    dynamic("index.default_pipeline", Text, "_none"),
    dynamic("index.final_pipeline", Text, "_none"),
    at_creation("index.mode", Only("standard"), "standard"),
    at_creation("index.routing_partition_size", Only("1"), "1"),
    at_creation("index.routing_path", Refused, ""),
    at_creation("index.time_series.*", Refused, ""),
    at_creation("index.sort.*", Refused, ""),
    fixed("index.similarity.default.type", Only("BM25"), ""),
    fixed("index.similarity.*", Refused, ""),
    at_creation("index.soft_deletes.enabled", Only("true"), "true"),
    // Set by mounting a snapshot.
    at_creation("index.store.snapshot.*", Private, ""),
    fixed("index.mapping.source.mode", Only("stored"), ""),
    fixed("index.analysis.*", Refused, ""),
    fixed("index.query_string.lenient", Only("false"), "false"),
    dynamic("index.query.parse.allow_unmapped_fields", Only("true"), "true"),
    dynamic(
        "index.mapping.total_fields.ignore_dynamic_beyond_limit",
        Only("true"),
        "true",
    ),
    dynamic("index.mapping.field_name_length.limit", Only(NO_LIMIT), NO_LIMIT),
    dynamic("index.max_terms_count", Only("65536"), "65536"),
    dynamic("index.max_regex_length", Only("1000"), "1000"),
    dynamic("index.analyze.max_token_count", Only("10000"), "10000"),
    // Set by the server.
    at_creation("index.uuid", Text, ""),
    at_creation("index.provided_name", Private, ""),
    at_creation("index.time.start", Private, ""),
    at_creation("index.time.end", Private, ""),
    at_creation("index.version.*", Private, ""),
    at_creation("index.verified_before_close", Private, ""),
    at_creation("index.resize.*", Private, ""),
    // Known and stored, without effect on one node.
    at_creation("index.number_of_routing_shards", POSITIVE, ""),
    dynamic("index.auto_expand_replicas", Text, "false"),
    fixed("index.format", COUNT, ""),
    dynamic("index.priority", COUNT, "1"),
    dynamic("index.routing.allocation.*", Text, ""),
    dynamic(
        "index.routing.rebalance.enable",
        OneOf(&["all", "primaries", "replicas", "none"]),
        "all",
    ),
    dynamic("index.unassigned.node_left.delayed_timeout", Duration(0, true), "1m"),
    dynamic("index.allocation.*", Text, ""),
    dynamic("index.recovery.*", Text, ""),
    dynamic("index.gc_deletes", Duration(0, true), "60s"),
    dynamic("index.translog.retention.*", Text, ""),
    dynamic("index.translog.generation_threshold_size", Bytes, "64mb"),
    dynamic("index.translog.flush_threshold_age", Duration(0, true), ""),
    dynamic("index.merge.policy.*", Text, ""),
    dynamic("index.merge.scheduler.*", Text, ""),
    dynamic("index.search.slowlog.*", Text, ""),
    dynamic("index.indexing.slowlog.*", Text, ""),
    dynamic("index.search.idle.after", Duration(0, true), "30s"),
    dynamic("index.search.throttled", Only("false"), "false"),
    dynamic("index.search.default_pipeline", Only("_none"), ""),
    fixed("index.queries.cache.enabled", Bool, "true"),
    fixed("index.fielddata.cache", Text, ""),
    dynamic("index.load_fixed_bitset_filters_eagerly", Bool, ""),
    fixed(
        "index.store.type",
        OneOf(&["", "fs", "niofs", "mmapfs", "hybridfs"]),
        "",
    ),
    fixed("index.store.*", Text, ""),
    fixed(
        "index.shard.check_on_startup",
        OneOf(&["false", "checksum", "true"]),
        "false",
    ),
    dynamic("index.write.wait_for_active_shards", Text, "1"),
    dynamic("index.warmer.enabled", Bool, ""),
    dynamic("index.compound_format", Text, ""),
    dynamic("index.flush_after_merge", Bytes, ""),
    dynamic("index.soft_deletes.*", Text, ""),
    dynamic("index.highlight.max_analyzed_offset", POSITIVE, "1000000"),
    dynamic("index.max_inner_result_window", POSITIVE, "100"),
    dynamic("index.max_rescore_window", POSITIVE, "10000"),
    dynamic("index.max_script_fields", COUNT, "32"),
    dynamic("index.max_ngram_diff", COUNT, "1"),
    dynamic("index.max_shingle_diff", COUNT, "3"),
    dynamic("index.max_refresh_listeners", COUNT, "1000"),
    dynamic("index.max_adjacency_matrix_filters", Integer(2, INT), "100"),
    dynamic("index.max_slices_per_scroll", POSITIVE, "1024"),
    dynamic("index.mapping.nested_fields.limit", COUNT, "50"),
    dynamic("index.mapping.nested_objects.limit", COUNT, "10000"),
    dynamic("index.mapping.dimension_fields.limit", COUNT, ""),
    dynamic("index.data_path", Refused, ""),
    dynamic("index.optimize_auto_generated_id", Bool, ""),
    dynamic("index.force_memory_term_dictionary", Bool, ""),
    fixed("index.bloom_filter_for_id_field.enabled", Bool, ""),
    fixed("index.esql.*", Text, ""),
];

/// Cluster settings that firn knows: those it acts on, those of which it accepts only the value that it implements, and
/// those that tune features of several nodes.
pub(crate) static CLUSTER_DEFINITIONS: &[Definition] = &[
    dynamic("search.max_buckets", Integer(0, INT), "65536"),
    dynamic("action.auto_create_index", Text, "true"),
    dynamic("action.destructive_requires_name", Bool, "true"),
    dynamic(
        "cluster.routing.allocation.disk.threshold_enabled",
        Only("true"),
        "true",
    ),
    dynamic("cluster.indices.close.enable", Only("true"), "true"),
    dynamic("search.default_search_timeout", Only("-1"), "-1"),
    dynamic("search.default_allow_partial_results", Only("true"), "true"),
    dynamic("search.allow_expensive_queries", Only("true"), "true"),
    dynamic("cluster.routing.allocation.disk.watermark.low", BytesOrPercent, "85%"),
    dynamic("cluster.routing.allocation.disk.watermark.high", BytesOrPercent, "90%"),
    dynamic(
        "cluster.routing.allocation.disk.watermark.flood_stage",
        BytesOrPercent,
        "95%",
    ),
    dynamic("cluster.routing.allocation.disk.watermark.*", Text, ""),
    dynamic("cluster.routing.*", Text, ""),
    dynamic("cluster.info.update.interval", Duration(10_000, false), "30s"),
    dynamic("cluster.max_shards_per_node", POSITIVE, "1000"),
    dynamic("cluster.max_shards_per_node.frozen", POSITIVE, "3000"),
    dynamic("cluster.blocks.read_only", Only("false"), "false"),
    dynamic("cluster.blocks.read_only_allow_delete", Only("false"), "false"),
    dynamic("cluster.metadata.*", Text, ""),
    dynamic("search.default_keep_alive", Duration(0, false), "5m"),
    dynamic("search.max_keep_alive", Duration(0, false), "24h"),
    dynamic("search.max_open_scroll_context", COUNT, "500"),
    dynamic("search.low_level_cancellation", Bool, "true"),
    dynamic("indices.breaker.total.limit", BytesOrPercent, ""),
    dynamic("indices.recovery.max_bytes_per_sec", Bytes, "40mb"),
    dynamic("indices.lifecycle.poll_interval", Duration(1000, false), "10m"),
    dynamic("indices.lifecycle.rollover.only_if_has_documents", Bool, "true"),
    dynamic("slm.minimum_interval", Duration(0, false), "15m"),
    dynamic("slm.retention_schedule", Text, "0 30 1 * * ?"),
    dynamic("slm.retention_duration", Duration(0, false), "1h"),
    dynamic("indices.*", Text, ""),
    dynamic("ingest.*", Text, ""),
    dynamic("transport.*", Text, ""),
    dynamic("persistent_tasks.*", Text, ""),
    dynamic("http.tracer.*", Text, ""),
    dynamic("logger.*", Text, ""),
    dynamic("network.breaker.*", Float, ""),
];

/// Returns the definition of a name.
pub(crate) fn find(definitions: &'static [Definition], name: &str) -> Option<&'static Definition> {
    definitions
        .iter()
        .find(|definition| match definition.name.strip_suffix('*') {
            Some(group) => name.len() > group.len() && name.starts_with(group),
            None => definition.name == name,
        })
}

/// Checks whether an index may have this setting with this value.
pub(crate) fn check(name: &str, value: &Value) -> Result<()> {
    let Some(definition) = find(DEFINITIONS, name) else {
        return Err(unknown(name));
    };
    if let Some(rest) = name.strip_prefix("index.analysis.") {
        return Err(refused_analysis(rest));
    }
    if name == TIER_PREFERENCE {
        parse_preference(&plain(value))?;
    }
    if name == "index.codec" && matches!(plain(value).as_str(), "") {
        return Err(Error::illegal_argument("unknown value for [index.codec]"));
    }
    definition.kind.check(name, value)
}

/// Creates Elasticsearch's error for an unknown setting.
pub(crate) fn unknown(name: &str) -> Error {
    Error::illegal_argument(format!(
        "unknown setting [{name}] please check that any required plugins are installed, or check the breaking changes \
         documentation for removed settings"
    ))
}

/// Creates the error for custom analysis: `analyzer.my_own.type` names the custom analyzer `my_own`.
fn refused_analysis(rest: &str) -> Error {
    let mut parts = rest.split('.');
    match (parts.next(), parts.next()) {
        (Some(kind), Some(name)) => Error::not_implemented(format!("custom {kind} [{name}] of [index.analysis]")),
        _ => Error::not_implemented(format!("setting [index.analysis.{rest}]")),
    }
}

/// Returns the default of an index setting, as text.
pub(crate) fn default_of(name: &str) -> &'static str {
    find(DEFINITIONS, name).map_or("", |definition| definition.default)
}

/// Returns the default of a cluster setting, as text.
pub(crate) fn cluster_default_of(name: &str) -> &'static str {
    find(CLUSTER_DEFINITIONS, name).map_or("", |definition| definition.default)
}
