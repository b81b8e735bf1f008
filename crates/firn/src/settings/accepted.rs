//! Elasticsearch 8 settings that firn accepts without effect.
//!
//! An `elasticsearch.yml` of another server starts firn. Settings without meaning on one node cause one warning each.
//! Settings that restrict access in Elasticsearch and do not exist here stop the start: without them more people could
//! get in. Names of security settings are listed in full, so that a misspelled one is refused instead of ignored.

/// Meaning of a setting for firn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// No effect; the sentence says why.
    Nothing(&'static str),
    /// The start ends with this sentence.
    Refused(&'static str),
}

/// Settings with the same reason. A name with `*` at its end stands for all names with this prefix.
pub(crate) struct Group {
    pub(crate) names: &'static [&'static str],
    pub(crate) why: &'static str,
}

const fn group(names: &'static [&'static str], why: &'static str) -> Group {
    Group { names, why }
}

/// Settings without effect, in the order of Elasticsearch's reference.
pub(crate) static WITHOUT_EFFECT: &[Group] = &[
    group(
        &[
            "discovery.*",
            "cluster.initial_master_nodes",
            "cluster.election.*",
            "cluster.fault_detection.*",
            "cluster.follower_lag.*",
            "cluster.join_validation.*",
            "cluster.max_voting_config_exclusions",
            "cluster.no_master_block",
            "cluster.nodes.reconnect_interval",
            "cluster.publish.*",
            "cluster.auto_shrink_voting_configuration",
            "cluster.remote.*",
            "cluster.discovery_configuration_check.interval",
            "gateway.*",
        ],
        "firn is a single node: there is no discovery and no master election",
    ),
    group(
        &[
            "transport.*",
            "network.publish_host",
            "network.tcp.*",
            "remote_cluster.*",
            "remote_cluster_server.*",
            "remote_cluster_client.*",
            "xpack.security.transport.*",
            "xpack.security.remote_cluster_server.*",
            "xpack.security.remote_cluster_client.*",
        ],
        "firn has no transport between nodes",
    ),
    group(
        &[
            "bootstrap.memory_lock",
            "bootstrap.system_call_filter",
            "bootstrap.ctrlhandler",
        ],
        "firn locks no memory; disable swap on the machine if that matters",
    ),
    group(
        &["path.logs", "path.conf", "path.shared_data", "path.scripts"],
        "firn logs to stderr and has one data folder per tier",
    ),
    group(
        &[
            "cluster.routing.allocation.awareness.*",
            "cluster.routing.allocation.allow_rebalance",
            "cluster.routing.allocation.balance.*",
            "cluster.routing.allocation.cluster_concurrent_rebalance",
            "cluster.routing.allocation.enable",
            "cluster.routing.allocation.exclude.*",
            "cluster.routing.allocation.include.*",
            "cluster.routing.allocation.node_concurrent_incoming_recoveries",
            "cluster.routing.allocation.node_concurrent_outgoing_recoveries",
            "cluster.routing.allocation.node_concurrent_recoveries",
            "cluster.routing.allocation.node_initial_primaries_recoveries",
            "cluster.routing.allocation.require.*",
            "cluster.routing.allocation.same_shard.host",
            "cluster.routing.allocation.total_shards_per_node",
            "cluster.routing.allocation.type",
            "cluster.routing.allocation.disk.reroute_interval",
            "cluster.routing.allocation.disk.watermark.high",
            "cluster.routing.allocation.disk.watermark.high.max_headroom",
            "cluster.routing.allocation.disk.watermark.low",
            "cluster.routing.allocation.disk.watermark.low.max_headroom",
            "cluster.routing.allocation.disk.watermark.flood_stage.frozen",
            "cluster.routing.allocation.disk.watermark.flood_stage.frozen.max_headroom",
            "cluster.routing.rebalance.enable",
            "cluster.routing.use_adaptive_replica_selection",
            "cluster.info.update.*",
            "cluster.max_shards_per_node",
            "cluster.max_shards_per_node.frozen",
            "cluster.service.slow_task_logging_threshold",
            "cluster.deprecation_indexing.enabled",
            "cluster.persistent_tasks.*",
            "persistent_tasks.*",
            "cluster.blocks.read_only",
            "cluster.blocks.read_only_allow_delete",
            "cluster.indices.close.enable",
            "cluster.indices.tombstones.size",
            "cluster.metadata.*",
            "slm.*",
        ],
        "a single node has no shard allocation; set those that firn has with `_cluster/settings`",
    ),
    group(
        &[
            "node.external_id",
            "node.store.allow_mmap",
            "node.processors",
            "node.id.seed",
            "node.enable_lucene_segment_infos_trace",
            "node.max_local_storage_nodes",
            "node.bandwidth.recovery.*",
            "processors",
            "pidfile",
        ],
        "firn maps its segments, uses all processors and generates its node id",
    ),
    group(
        &[
            "http.publish_host",
            "http.publish_port",
            "http.compression",
            "http.compression_level",
            "http.cors.*",
            "http.detailed_errors.enabled",
            "http.max_chunk_size",
            "http.max_header_size",
            "http.max_initial_line_length",
            "http.max_warning_header_count",
            "http.max_warning_header_size",
            "http.netty.*",
            "http.pipelining.*",
            "http.read_timeout",
            "http.reset_cookies",
            "http.tcp.*",
            "http.tcp_no_delay",
            "http.tracer.*",
            "http.type",
            "http.client_stats.*",
            "rest.action.multi.allow_explicit_index",
        ],
        "firn's HTTP server has other limits, compresses if the client requests it, and supports no CORS",
    ),
    group(
        &[
            "thread_pool.analyze.*",
            "thread_pool.auto_complete.*",
            "thread_pool.cluster_coordination.*",
            "thread_pool.estimated_time_interval",
            "thread_pool.fetch_shard_started.*",
            "thread_pool.fetch_shard_store.*",
            "thread_pool.flush.*",
            "thread_pool.generic.*",
            "thread_pool.get.*",
            "thread_pool.management.*",
            "thread_pool.refresh.*",
            "thread_pool.search_coordination.*",
            "thread_pool.search_throttled.*",
            "thread_pool.searchable_snapshots_cache_fetch_async.*",
            "thread_pool.searchable_snapshots_cache_prewarming.*",
            "thread_pool.snapshot.core",
            "thread_pool.snapshot.keep_alive",
            "thread_pool.snapshot_meta.*",
            "thread_pool.system_critical_read.*",
            "thread_pool.system_critical_write.*",
            "thread_pool.system_read.*",
            "thread_pool.system_write.*",
            "thread_pool.warmer.*",
            "thread_pool.watcher.*",
        ],
        "firn does not have this pool; it has `search`, `write`, `snapshot` and `force_merge`",
    ),
    group(
        &[
            "indices.breaker.fielddata.*",
            "indices.breaker.request.overhead",
            "indices.breaker.total.use_real_memory",
            "indices.breaker.type",
            "indices.fielddata.*",
            "indices.queries.cache.*",
            "indices.query.*",
            "indices.cache.cleanup_interval",
            "indices.requests.cache.expire",
            "indices.memory.interval",
            "indices.memory.max_index_buffer_size",
            "indices.memory.min_index_buffer_size",
            "indices.memory.shard_inactive_time",
            "indices.mapping.*",
            "indices.recovery.*",
            "indices.replication.*",
            "indices.store.*",
            "indices.id_field_data.enabled",
            "indices.lifecycle.history_index_enabled",
            "indices.lifecycle.rollover.only_if_has_documents",
            "network.breaker.*",
            "indexing_pressure.memory.coordinating.*",
            "indexing_pressure.memory.primary.*",
            "indexing_pressure.memory.replica.*",
        ],
        "firn has no heap to divide; `firn settings` lists its memory limits",
    ),
    group(
        &[
            "action.search.*",
            "search.aggs.*",
            "search.allow_expensive_queries",
            "search.default_allow_partial_results",
            "search.default_search_timeout",
            "search.highlight.*",
            "search.keep_alive_interval",
            "search.low_level_cancellation",
            "search.worker_threads_enabled",
        ],
        "firn always behaves like Elasticsearch's default",
    ),
    group(
        &[
            "ccr.*",
            "enrich.*",
            "esql.*",
            "ingest.*",
            "logsdb.*",
            "reindex.*",
            "repositories.hdfs.*",
            "resource.reload.*",
            "script.*",
            "serverless.*",
            "snapshot.*",
            "stack.*",
            "health.*",
            "readiness.*",
            "monitor.*",
            "logger.*",
            "plugin.*",
            "plugins.*",
            "tracing.*",
            "telemetry.*",
            "time_series.*",
            "xpack.apm_data.*",
            "xpack.applications.*",
            "xpack.autoscaling.*",
            "xpack.ccr.*",
            "xpack.downsample.*",
            "xpack.enrich.*",
            "xpack.eql.*",
            "xpack.graph.*",
            "xpack.http.*",
            "xpack.idp.*",
            "xpack.ilm.*",
            "xpack.inference.*",
            "xpack.license.*",
            "xpack.ml.*",
            "xpack.monitoring.*",
            "xpack.notification.*",
            "xpack.otel_data.*",
            "xpack.profiling.*",
            "xpack.rollup.*",
            "xpack.searchable.snapshot.allocate_on_rolling_restart",
            "xpack.searchable.snapshot.cache.*",
            "xpack.searchable.snapshot.shared_cache.region_size",
            "xpack.searchable.snapshot.shared_cache.range_size",
            "xpack.searchable.snapshot.shared_cache.recovery_range_size",
            "xpack.searchable.snapshot.shared_cache.size.max_headroom",
            "xpack.slm.*",
            "xpack.sql.*",
            "xpack.transform.*",
            "xpack.vectors.*",
            "xpack.watcher.*",
        ],
        "firn does not have this feature or this option",
    ),
    group(
        &[
            "xpack.security.authc.anonymous.*",
            "xpack.security.authc.api_key.*",
            "xpack.security.authc.native_users.*",
            "xpack.security.authc.password_hashing.algorithm",
            "xpack.security.authc.realms.*",
            "xpack.security.authc.reserved_realm.enabled",
            "xpack.security.authc.run_as.enabled",
            "xpack.security.authc.service_token_hashing.algorithm",
            "xpack.security.authc.service_tokens.*",
            "xpack.security.authc.token.*",
            "xpack.security.autoconfiguration.enabled",
            "xpack.security.authz.*",
            "xpack.security.dls.*",
            "xpack.security.dls_fls.enabled",
            "xpack.security.encryption.algorithm",
            "xpack.security.encryption_key.*",
            "xpack.security.enrollment.enabled",
            "xpack.security.hide_settings",
            "xpack.security.operator_privileges.enabled",
            "xpack.security.ssl.diagnose.trust",
            "xpack.security.user",
            "xpack.security.crypto.*",
        ],
        "firn only has native users and API keys: this grants no access",
    ),
    group(
        &["xpack.security.audit.logfile.*", "xpack.security.audit.outputs"],
        "firn's audit log is a data stream with fixed fields (xpack.security.audit.enabled)",
    ),
    group(
        &[
            "xpack.security.http.ssl.keystore.path",
            "xpack.security.http.ssl.keystore.type",
            "xpack.security.http.ssl.truststore.path",
            "xpack.security.http.ssl.truststore.type",
            "xpack.security.http.ssl.cipher_suites",
            "xpack.security.http.ssl.supported_protocols",
            "xpack.security.http.ssl.verification_mode",
        ],
        "firn reads its certificate from PEM files (xpack.security.http.ssl.certificate and .key) and supports TLS 1.2 and 1.3",
    ),
];

/// Settings that restrict access in Elasticsearch and do not exist here, with the values that restrict nothing.
const RESTRICTING: &[(&str, &[&str])] = &[
    ("xpack.security.http.ssl.client_authentication", &["none"]),
    ("xpack.security.http.ssl.certificate_authorities", &[""]),
    ("xpack.security.http.filter.allow", &[""]),
    ("xpack.security.http.filter.deny", &[""]),
    ("xpack.security.http.filter.enabled", &["false"]),
    ("xpack.security.filter.always_allow_bound_address", &["true", "false"]),
    ("xpack.security.fips_mode.enabled", &["false"]),
];

/// Returns the meaning of a setting without effect; `None`: Elasticsearch does not have it either.
pub(crate) fn find(name: &str, value: &str) -> Option<Meaning> {
    if let Some((_, harmless)) = RESTRICTING.iter().find(|(known, _)| *known == name) {
        return Some(match harmless.contains(&value.trim()) {
            true => Meaning::Nothing("this value requests nothing"),
            false => Meaning::Refused(
                "firn does not have it and would admit clients that Elasticsearch refuses: remove the setting, \
                 and restrict access in front of firn",
            ),
        });
    }
    let is_called = |known: &str| match known.strip_suffix('*') {
        Some(start) => name.len() > start.len() && name.starts_with(start),
        None => known == name,
    };
    let found = WITHOUT_EFFECT
        .iter()
        .find(|group| group.names.iter().any(|known| is_called(known)))?;
    Some(Meaning::Nothing(found.why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::definitions;

    #[test]
    fn settings_that_act_are_in_the_other_table_alone() {
        for definition in definitions::DEFINITIONS {
            let whole = WITHOUT_EFFECT
                .iter()
                .flat_map(|group| group.names)
                .any(|name| *name == definition.name);
            assert!(
                !whole,
                "[{}] has an effect, but is listed as without effect",
                definition.name
            );
        }
    }

    #[test]
    fn misspelled_security_settings_are_unknown() {
        for name in [
            "xpack.security.enabld",
            "xpack.security.http.ssl.enable",
            "xpack.security.http.ssl.certificat",
            "xpack.security",
            "discovery.",
            "cluster.nam",
            "http.prot",
            "thread_pool.serch.size",
        ] {
            assert_eq!(find(name, "true"), None, "{name}");
        }
    }

    #[test]
    fn what_restricts_access_is_not_passed_over() {
        let check = |name: &str, value: &str, is_refused: bool| {
            let found = find(name, value).expect("a known setting");
            assert_eq!(matches!(found, Meaning::Refused(_)), is_refused, "{name}: {value}");
        };
        check("xpack.security.http.ssl.client_authentication", "required", true);
        check("xpack.security.http.ssl.client_authentication", "none", false);
        check("xpack.security.http.filter.deny", "_all", true);
        check("xpack.security.http.filter.enabled", "false", false);
        check("xpack.security.transport.ssl.enabled", "true", false);
    }
}
