//! `jvm` section of `_nodes` and `_nodes/stats`.
//!
//! firn has no JVM. Benchmarks and monitors read the section all the same, so it describes the process in
//! Elasticsearch's shape: the heap is the process memory without files, its maximum is the memory of the host, mapped
//! files are the mapped buffers. There are no garbage collector and no classes: their counters stay 0.

use serde_json::{Value, json};

use crate::state::host::Host;

/// Returns the section of `_nodes`.
pub(super) fn info(host: &Host, started_ms: i64, version: &str) -> Value {
    json!({
        "pid": std::process::id(),
        "version": version,
        "vm_name": "none: firn is native code",
        "vm_version": version,
        "vm_vendor": "firn",
        "using_bundled_jdk": false,
        "bundled_jdk": false,
        "start_time_in_millis": started_ms,
        "mem": {
            "heap_init_in_bytes": 0,
            "heap_max_in_bytes": host.memory_bytes,
            "non_heap_init_in_bytes": 0,
            "non_heap_max_in_bytes": 0,
            "direct_max_in_bytes": 0,
        },
        "gc_collectors": ["young", "old"],
        "memory_pools": ["young", "old", "survivor"],
        "using_compressed_ordinary_object_pointers": "false",
        "input_arguments": [],
    })
}

/// Returns the section of `_nodes/stats`.
pub(super) fn stats(host: &Host, now_ms: i64, started_ms: i64) -> Value {
    let pool = |used: u64, peak: u64, max: u64| {
        json!({
            "used_in_bytes": used,
            "max_in_bytes": max,
            "peak_used_in_bytes": peak,
            "peak_max_in_bytes": max,
            "last_gc_stats": {"used_in_bytes": 0, "max_in_bytes": max, "usage_percent": -1},
        })
    };
    let collector = || json!({"collection_count": 0, "collection_time_in_millis": 0});
    let buffers = |bytes: u64| json!({"count": 0, "used_in_bytes": bytes, "total_capacity_in_bytes": bytes});
    json!({
        "timestamp": now_ms,
        "uptime_in_millis": (now_ms - started_ms).max(0),
        "mem": {
            "heap_used_in_bytes": host.heap_bytes,
            "heap_used_percent": host.percent_of_memory(host.heap_bytes),
            "heap_committed_in_bytes": host.heap_bytes,
            "heap_max_in_bytes": host.memory_bytes,
            "non_heap_used_in_bytes": 0,
            "non_heap_committed_in_bytes": 0,
            "pools": {
                "young": pool(0, 0, 0),
                "old": pool(host.heap_bytes, host.resident_peak_bytes.max(host.heap_bytes), host.memory_bytes),
                "survivor": pool(0, 0, 0),
            },
        },
        "threads": {"count": host.threads, "peak_count": host.threads_peak},
        "gc": {"collectors": {"young": collector(), "old": collector()}},
        "buffer_pools": {
            "mapped": buffers(host.mapped_bytes),
            "direct": buffers(0),
            "mapped - 'non-volatile memory'": buffers(0),
        },
        "classes": {"current_loaded_count": 0, "total_loaded_count": 0, "total_unloaded_count": 0},
    })
}
