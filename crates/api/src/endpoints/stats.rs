//! `_stats`: sizes and operation counters of shards.

use std::sync::Arc;

use firn_engine::Error;
use firn_engine::admin::{IndexStats, ShardStats};
use firn_model::metadata::Metadata;
use firn_model::names::IndicesOptions;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::did_you_mean;
use crate::wire::reply::Reply;

pub(crate) const PARAMS: &[&str] = &[
    "completion_fields",
    "fielddata_fields",
    "fields",
    "forbid_closed_indices",
    "groups",
    "include_segment_file_sizes",
    "include_unloaded_segments",
    "level",
];

/// Elasticsearch's metrics. firn does not measure all of their fields, but benchmarks and exporters read them by name,
/// so unmeasured fields are 0.
pub(crate) const METRICS: &[&str] = &[
    "docs",
    "shard_stats",
    "store",
    "indexing",
    "get",
    "search",
    "merge",
    "refresh",
    "flush",
    "segments",
    "request_cache",
    "translog",
    "bulk",
    "completion",
    "fielddata",
    "query_cache",
    "recovery",
    "warmer",
];

/// Elasticsearch's state of a primary shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShardState {
    Started,
    Initializing,
    Unassigned,
}

impl ShardState {
    pub(crate) fn of(shard: &ShardStats) -> Self {
        match (&shard.failure, shard.is_recovering) {
            (None, _) => Self::Started,
            (Some(_), true) => Self::Initializing,
            (Some(_), false) => Self::Unassigned,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Started => "STARTED",
            Self::Initializing => "INITIALIZING",
            Self::Unassigned => "UNASSIGNED",
        }
    }
}

/// Section of an answer: its metric in requests, its name, its content.
type Section = (&'static str, &'static str, Value);

/// Sum of shard statistics.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    pub(crate) shards: u64,
    pub(crate) segments: u64,
    pub(crate) sum: ShardStats,
}

impl Totals {
    /// Adds the statistics of a shard.
    pub(crate) fn add(&mut self, shard: &ShardStats) {
        self.shards += 1;
        self.segments += shard.segments.len() as u64;
        let sum = &mut self.sum;
        sum.doc_count += shard.doc_count;
        sum.deleted_count += shard.deleted_count;
        sum.store_size_bytes += shard.store_size_bytes;
        sum.data_set_size_bytes += shard.data_set_size_bytes;
        sum.translog_size_bytes += shard.translog_size_bytes;
        sum.translog_operations += shard.translog_operations;
        sum.indexing_total += shard.indexing_total;
        sum.indexing_time_ms += shard.indexing_time_ms;
        sum.delete_total += shard.delete_total;
        sum.search_total += shard.search_total;
        sum.search_time_ms += shard.search_time_ms;
        sum.open_contexts += shard.open_contexts;
        sum.scroll_current += shard.scroll_current;
        sum.scroll_total += shard.scroll_total;
        sum.scroll_time_ms += shard.scroll_time_ms;
        sum.point_in_time_current += shard.point_in_time_current;
        sum.point_in_time_total += shard.point_in_time_total;
        sum.point_in_time_time_ms += shard.point_in_time_time_ms;
        sum.held_size_bytes += shard.held_size_bytes;
        sum.get_total += shard.get_total;
        sum.request_cache.add(shard.request_cache);
        sum.refresh_total += shard.refresh_total;
        sum.refresh_time_ms += shard.refresh_time_ms;
        sum.flush_total += shard.flush_total;
        sum.flush_time_ms += shard.flush_time_ms;
        sum.merge_total += shard.merge_total;
        sum.merge_time_ms += shard.merge_time_ms;
        sum.merge_current += shard.merge_current;
        sum.buffered_doc_count += shard.buffered_doc_count;
        sum.buffer_size_bytes += shard.buffer_size_bytes;
    }

    /// Sums all shards of some indices.
    pub(crate) fn of<'a>(indices: impl IntoIterator<Item = &'a IndexStats>) -> Self {
        let mut totals = Self::default();
        for shard in indices.into_iter().flat_map(|index| &index.shards) {
            totals.add(shard);
        }
        totals
    }

    /// Prints the requested sections of Elasticsearch.
    pub(crate) fn print(&self, wanted: &dyn Fn(&str) -> bool) -> Map<String, Value> {
        let sections = [
            self.data(),
            self.requests(),
            self.maintenance(),
            self.memory(),
            self.logs(),
        ];
        sections
            .into_iter()
            .flatten()
            .filter(|(metric, ..)| wanted(metric))
            .map(|(_, name, value)| (name.to_owned(), value))
            .collect()
    }

    /// Documents and their bytes.
    fn data(&self) -> Vec<Section> {
        let sum = &self.sum;
        vec![
            (
                "docs",
                "docs",
                json!({"count": sum.doc_count, "deleted": sum.deleted_count, "total_size_in_bytes": sum.data_set_size_bytes}),
            ),
            ("shard_stats", "shard_stats", json!({"total_count": self.shards})),
            (
                "store",
                "store",
                json!({
                    "size_in_bytes": sum.store_size_bytes,
                    "total_data_set_size_in_bytes": sum.data_set_size_bytes,
                    "reserved_in_bytes": 0,
                }),
            ),
        ]
    }

    /// Writes and reads.
    fn requests(&self) -> Vec<Section> {
        let sum = &self.sum;
        vec![
            (
                "indexing",
                "indexing",
                json!({
                    "index_total": sum.indexing_total,
                    "index_time_in_millis": sum.indexing_time_ms,
                    "index_current": 0,
                    "index_failed": 0,
                    "delete_total": sum.delete_total,
                    "delete_time_in_millis": 0,
                    "delete_current": 0,
                    "noop_update_total": 0,
                    "is_throttled": false,
                    "throttle_time_in_millis": 0,
                }),
            ),
            (
                "get",
                "get",
                json!({
                    "total": sum.get_total,
                    "time_in_millis": 0,
                    "exists_total": 0,
                    "exists_time_in_millis": 0,
                    "missing_total": 0,
                    "missing_time_in_millis": 0,
                    "current": 0,
                }),
            ),
            (
                "search",
                "search",
                json!({
                    "open_contexts": sum.open_contexts,
                    "query_total": sum.search_total,
                    "query_time_in_millis": sum.search_time_ms,
                    "query_current": 0,
                    // The query phase fetches the hits too.
                    "fetch_total": 0,
                    "fetch_time_in_millis": 0,
                    "fetch_current": 0,
                    "scroll_total": sum.scroll_total,
                    "scroll_time_in_millis": sum.scroll_time_ms,
                    "scroll_current": sum.scroll_current,
                    "suggest_total": 0,
                    "suggest_time_in_millis": 0,
                    "suggest_current": 0,
                    // OpenSearch has these; Elasticsearch counts points in time as scrolls.
                    "point_in_time_total": sum.point_in_time_total,
                    "point_in_time_time_in_millis": sum.point_in_time_time_ms,
                    "point_in_time_current": sum.point_in_time_current,
                    // Only firn has this: disk space that open contexts pin.
                    "open_contexts_held_in_bytes": sum.held_size_bytes,
                }),
            ),
        ]
    }

    /// Work on segments in the background.
    fn maintenance(&self) -> Vec<Section> {
        let sum = &self.sum;
        vec![
            (
                "merge",
                "merges",
                json!({
                    "current": sum.merge_current,
                    "current_docs": 0,
                    "current_size_in_bytes": 0,
                    "total": sum.merge_total,
                    "total_time_in_millis": sum.merge_time_ms,
                    "total_docs": 0,
                    "total_size_in_bytes": 0,
                    "total_stopped_time_in_millis": 0,
                    "total_throttled_time_in_millis": 0,
                    "total_auto_throttle_in_bytes": 0,
                }),
            ),
            (
                "refresh",
                "refresh",
                json!({
                    "total": sum.refresh_total,
                    "total_time_in_millis": sum.refresh_time_ms,
                    "external_total": sum.refresh_total,
                    "external_total_time_in_millis": sum.refresh_time_ms,
                    "listeners": 0,
                }),
            ),
            (
                "flush",
                "flush",
                json!({
                    "total": sum.flush_total,
                    "periodic": sum.flush_total,
                    "total_time_in_millis": sum.flush_time_ms,
                }),
            ),
            (
                "warmer",
                "warmer",
                json!({"current": 0, "total": 0, "total_time_in_millis": 0}),
            ),
        ]
    }

    /// Caches and structures in memory.
    fn memory(&self) -> Vec<Section> {
        let sum = &self.sum;
        let cache = sum.request_cache;
        vec![
            (
                "query_cache",
                "query_cache",
                json!({
                    "memory_size_in_bytes": 0,
                    "total_count": 0,
                    "hit_count": 0,
                    "miss_count": 0,
                    "cache_size": 0,
                    "cache_count": 0,
                    "evictions": 0,
                }),
            ),
            // Columns are memory-mapped, not loaded into a heap.
            (
                "fielddata",
                "fielddata",
                json!({"memory_size_in_bytes": 0, "evictions": 0}),
            ),
            ("completion", "completion", json!({"size_in_bytes": 0})),
            (
                "segments",
                "segments",
                json!({
                    "count": self.segments,
                    // Segments are memory-mapped: the operating system decides what is in RAM.
                    "memory_in_bytes": 0,
                    "terms_memory_in_bytes": 0,
                    "stored_fields_memory_in_bytes": 0,
                    "term_vectors_memory_in_bytes": 0,
                    "norms_memory_in_bytes": 0,
                    "points_memory_in_bytes": 0,
                    "doc_values_memory_in_bytes": 0,
                    "index_writer_memory_in_bytes": sum.buffer_size_bytes,
                    "version_map_memory_in_bytes": 0,
                    "fixed_bit_set_memory_in_bytes": 0,
                    "max_unsafe_auto_id_timestamp": -1,
                    "file_sizes": {},
                }),
            ),
            (
                "request_cache",
                "request_cache",
                json!({
                    "memory_size_in_bytes": cache.memory_bytes,
                    "evictions": cache.eviction_total,
                    "hit_count": cache.hit_total,
                    "miss_count": cache.miss_total,
                }),
            ),
        ]
    }

    /// Write-ahead log, recovery and bulk requests.
    fn logs(&self) -> Vec<Section> {
        let sum = &self.sum;
        vec![
            (
                "translog",
                "translog",
                json!({
                    "operations": sum.translog_operations,
                    "size_in_bytes": sum.translog_size_bytes,
                    "uncommitted_operations": sum.translog_operations,
                    "uncommitted_size_in_bytes": sum.translog_size_bytes,
                    "earliest_last_modified_age": 0,
                }),
            ),
            (
                "recovery",
                "recovery",
                json!({"current_as_source": 0, "current_as_target": 0, "throttle_time_in_millis": 0}),
            ),
            (
                "bulk",
                "bulk",
                json!({
                    "total_operations": 0,
                    "total_time_in_millis": 0,
                    "total_size_in_bytes": 0,
                    "avg_time_in_millis": 0,
                    "avg_size_in_bytes": 0,
                }),
            ),
        ]
    }
}

/// Parses the metrics of a path; unknown ones are refused.
pub(crate) fn wanted_metrics(path: &str, metric: Option<&str>, known: &[&str]) -> Result<Option<Vec<String>>, Error> {
    let Some(list) = metric else {
        return Ok(None);
    };
    let names = crate::wire::params::split_list(list);
    if names.iter().any(|name| name == "_all") {
        return Ok(None);
    }
    for name in &names {
        if !known.contains(&name.as_str()) {
            return Err(Error::illegal_argument(format!(
                "request [{path}] contains unrecognized metric: [{name}]{}",
                did_you_mean(name, known.iter().copied())
            )));
        }
    }
    Ok(Some(names))
}

/// `GET /_stats`, `GET /{index}/_stats` and both with `/{metric}`.
pub(crate) async fn stats(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let params = &call.params;
    for name in ["include_segment_file_sizes", "include_unloaded_segments"] {
        if params.bool(name, false)? {
            return Err(Error::not_implemented(format!("the parameter [{name}] of [_stats]")).into());
        }
    }
    let metrics = wanted_metrics(&call.path, call.captured("metric"), METRICS)?;
    let wanted = |name: &str| {
        metrics
            .as_ref()
            .is_none_or(|metrics| metrics.iter().any(|metric| metric == name))
    };
    let level = params.get("level").unwrap_or("indices");
    if !matches!(level, "cluster" | "indices" | "shards") {
        return Err(Error::illegal_argument(format!(
            "level parameter must be one of [cluster] or [indices] or [shards] but was [{level}]"
        ))
        .into());
    }
    let target = call.target(IndicesOptions {
        expand_hidden: true,
        ..IndicesOptions::default()
    })?;
    let indices = edge.engine.stats(&call.ctx, target).await?;
    let metadata = edge.metadata(&call).await?;
    let total: usize = indices.iter().map(|index| index.shards.len()).sum();
    let failed = indices
        .iter()
        .flat_map(|index| &index.shards)
        .filter(|shard| shard.failure.is_some())
        .count();
    let all = Totals::of(&indices).print(&wanted);
    let mut answer = json!({
        "_shards": {"total": total, "successful": total - failed, "failed": failed},
        "_all": {"primaries": all, "total": all},
    });
    if level != "cluster" {
        let printed: Map<String, Value> = indices
            .iter()
            .map(|index| {
                let value = print_index(index, &metadata, &wanted, level == "shards", &edge.config.node_id);
                (index.index.clone(), value)
            })
            .collect();
        answer["indices"] = printed.into();
    }
    Ok(Reply::ok(&answer))
}

fn print_index(
    index: &IndexStats,
    metadata: &Metadata,
    wanted: &dyn Fn(&str) -> bool,
    shards: bool,
    node_id: &str,
) -> Value {
    let totals = Totals::of([index]).print(wanted);
    let open = metadata.indices.get(&index.index).is_some_and(|index| !index.closed);
    let mut object = json!({
        "uuid": index.uuid,
        "health": health(index, replicas(metadata, &index.index)),
        "status": if open { "open" } else { "close" },
        "primaries": totals,
        "total": totals,
    });
    if shards {
        let printed: Map<String, Value> = index
            .shards
            .iter()
            .map(|shard| (shard.shard.to_string(), json!([print_shard(shard, wanted, node_id)])))
            .collect();
        object["shards"] = printed.into();
    }
    object
}

/// Prints the statistics and the routing of one shard.
pub(crate) fn print_shard(shard: &ShardStats, wanted: &dyn Fn(&str) -> bool, node_id: &str) -> Map<String, Value> {
    let mut totals = Totals::default();
    totals.add(shard);
    let mut object = totals.print(wanted);
    object.insert(
        "routing".to_owned(),
        json!({
            "state": ShardState::of(shard).name(),
            "primary": true,
            "node": node_id,
            "relocating_node": null,
        }),
    );
    object.insert("seq_no".to_owned(), json!({"max_seq_no": shard.max_seq_no}));
    object
}

/// Returns `number_of_replicas` of an index.
pub(crate) fn replicas(metadata: &Metadata, index: &str) -> u32 {
    metadata
        .indices
        .get(index)
        .map_or(0, |index| index.settings.number_of_replicas)
}

/// Returns `red` if a shard does not serve, `yellow` if replicas are configured, which one node does not have.
pub(crate) fn health(index: &IndexStats, replicas: u32) -> &'static str {
    if index.shards.iter().any(|shard| shard.failure.is_some()) {
        "red"
    } else if replicas > 0 {
        "yellow"
    } else {
        "green"
    }
}
