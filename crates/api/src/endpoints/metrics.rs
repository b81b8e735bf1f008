//! `/metrics`: counters of the REST edge, state of the engine and metrics of the rest of the program, in Prometheus'
//! text format.

use std::fmt::Write as _;
use std::sync::Arc;

use firn_engine::admin::{NodeStats, ScrubStats};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::{Body, Reply};

/// `GET /metrics`.
pub(crate) async fn metrics(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mut text = edge.metrics.print()?;
    let stats = edge.engine.node_stats(&call.ctx).await?;
    crate::endpoints::tenant_usage::write_metrics(&edge, &call, &mut text).await?;
    write_disk(&mut text, &stats);
    write_pools(&mut text, &stats);
    write_scrub(&mut text, &stats.scrub);
    line(
        &mut text,
        "firn_http_body_bytes",
        "gauge",
        "Bytes of request bodies in memory.",
        edge.bodies.held(),
    );
    let metadata = edge.metadata(&call).await?;
    line(
        &mut text,
        "firn_indices",
        "gauge",
        "Indices.",
        metadata.indices.len() as u64,
    );
    line(
        &mut text,
        "firn_data_streams",
        "gauge",
        "Data streams.",
        metadata.data_streams.len() as u64,
    );
    if let Some(extra) = &edge.config.extra_metrics {
        extra(&mut text);
    }
    Ok(Reply {
        status: http::StatusCode::OK,
        body: Body::Metrics(text),
    })
}

/// Appends the metrics of the disk.
fn write_disk(text: &mut String, stats: &NodeStats) {
    line(
        text,
        "firn_disk_total_bytes",
        "gauge",
        "Size of the file system of the data folder, in bytes.",
        stats.disk_total_bytes,
    );
    line(
        text,
        "firn_disk_available_bytes",
        "gauge",
        "Free bytes on the file system of the data folder.",
        stats.disk_available_bytes,
    );
    line(
        text,
        "firn_write_blocked",
        "gauge",
        "1 while writes are refused, else 0.",
        u64::from(stats.write_block.is_some()),
    );
}

/// Appends the metrics of the search and write pools.
fn write_pools(text: &mut String, stats: &NodeStats) {
    line(
        text,
        "firn_search_active",
        "gauge",
        "Searches running.",
        stats.search_active,
    );
    line(
        text,
        "firn_search_queued",
        "gauge",
        "Searches waiting.",
        stats.search_queued,
    );
    line(
        text,
        "firn_search_rejected_total",
        "counter",
        "Searches refused.",
        stats.search_rejected,
    );
    line(
        text,
        "firn_search_completed_total",
        "counter",
        "Searches completed.",
        stats.search_completed,
    );
    line(
        text,
        "firn_write_active",
        "gauge",
        "Write tasks running.",
        stats.write_active,
    );
    line(
        text,
        "firn_write_queued",
        "gauge",
        "Write tasks waiting.",
        stats.write_queued,
    );
    line(
        text,
        "firn_write_rejected_total",
        "counter",
        "Writes refused.",
        stats.write_rejected,
    );
    line(
        text,
        "firn_write_completed_total",
        "counter",
        "Writes completed.",
        stats.write_completed,
    );
    line(
        text,
        "firn_write_bytes_in_flight",
        "gauge",
        "Bytes of request bodies in write tasks.",
        stats.write_bytes_in_flight,
    );
}

/// Appends the metrics of the scrub and of damaged segments.
fn write_scrub(text: &mut String, scrub: &ScrubStats) {
    line(
        text,
        "firn_scrub_bytes_total",
        "counter",
        "Segment bytes that the background scrub checked against their checksums.",
        scrub.bytes,
    );
    line(
        text,
        "firn_scrub_passes_total",
        "counter",
        "Completed scrub passes over all segments.",
        scrub.passes,
    );
    line(
        text,
        "firn_scrub_last_pass_timestamp_seconds",
        "gauge",
        "End of the last scrub pass, 0 if none since the start.",
        scrub.last_pass_ms / 1000,
    );
    line(
        text,
        "firn_segments_damaged_total",
        "counter",
        "Segments found damaged.",
        scrub.damaged,
    );
    line(
        text,
        "firn_segments_repaired_total",
        "counter",
        "Segments repaired from a snapshot.",
        scrub.repaired,
    );
}

/// Appends a metric without labels.
fn line(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    // Writing to a string does not fail.
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
}
