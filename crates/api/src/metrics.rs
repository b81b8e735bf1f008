//! `/metrics`: counters of the REST edge, state of the engine and metrics of the rest of the program, in Prometheus'
//! text format. Labels come from fixed lists only (endpoint names, status codes firn uses).

use std::fmt::Write as _;
use std::sync::Arc;

use firn_engine::document::BulkResponse;
use prometheus::{
    Encoder as _, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};

use crate::error::ApiError;
use crate::reply::{Body, Reply};
use crate::request::{Call, Edge};

/// Counters of the REST edge.
pub(crate) struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    durations: HistogramVec,
    /// Requests in progress.
    pub(crate) in_flight: IntGauge,
    /// Open connections.
    pub(crate) connections_open: IntGauge,
    /// Connections accepted since the start.
    pub(crate) connections_total: IntCounter,
    request_bytes: IntCounter,
    response_bytes: IntCounter,
    bulk_items: IntCounterVec,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let registry = Registry::new();
        let metrics = Self {
            requests: IntCounterVec::new(
                Opts::new("firn_http_requests_total", "Requests answered, by endpoint and status."),
                &["endpoint", "status"],
            )
            .expect("the definition is valid"),
            durations: HistogramVec::new(
                HistogramOpts::new(
                    "firn_http_request_duration_seconds",
                    "Time from a request's head to its answer, by endpoint.",
                )
                .buckets(vec![0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0]),
                &["endpoint"],
            )
            .expect("the definition is valid"),
            in_flight: IntGauge::new("firn_http_requests_in_flight", "Requests in progress.")
                .expect("the definition is valid"),
            connections_open: IntGauge::new("firn_http_connections_open", "Open connections.")
                .expect("the definition is valid"),
            connections_total: IntCounter::new("firn_http_connections_total", "Connections accepted.")
                .expect("the definition is valid"),
            request_bytes: IntCounter::new(
                "firn_http_request_bytes_total",
                "Bytes of request bodies, after decompression.",
            )
            .expect("the definition is valid"),
            response_bytes: IntCounter::new("firn_http_response_bytes_total", "Bytes of response bodies as sent.")
                .expect("the definition is valid"),
            bulk_items: IntCounterVec::new(
                Opts::new("firn_bulk_items_total", "Bulk operations, by outcome."),
                &["outcome"],
            )
            .expect("the definition is valid"),
            registry,
        };
        for collector in [
            Box::new(metrics.requests.clone()) as Box<dyn prometheus::core::Collector>,
            Box::new(metrics.durations.clone()),
            Box::new(metrics.in_flight.clone()),
            Box::new(metrics.connections_open.clone()),
            Box::new(metrics.connections_total.clone()),
            Box::new(metrics.request_bytes.clone()),
            Box::new(metrics.response_bytes.clone()),
            Box::new(metrics.bulk_items.clone()),
        ] {
            metrics
                .registry
                .register(collector)
                .expect("each metric is registered once");
        }
        metrics
    }

    /// Counts an answered request.
    pub(crate) fn answered(&self, endpoint: &str, status: u16, seconds: f64, response_bytes: u64) {
        self.requests
            .with_label_values(&[endpoint, http_status_label(status)])
            .inc();
        self.durations.with_label_values(&[endpoint]).observe(seconds);
        self.response_bytes.inc_by(response_bytes);
    }

    /// Counts the bytes of a request body.
    pub(crate) fn received(&self, bytes: u64) {
        self.request_bytes.inc_by(bytes);
    }

    /// Counts the items of a bulk.
    pub(crate) fn bulk(&self, response: &BulkResponse) {
        let failed = response.items.iter().filter(|item| item.result.is_err()).count() as u64;
        let applied = response.items.len() as u64 - failed;
        self.bulk_items.with_label_values(&["applied"]).inc_by(applied);
        self.bulk_items.with_label_values(&["failed"]).inc_by(failed);
    }
}

/// Label of a status. The list is fixed, which bounds the number of series.
fn http_status_label(status: u16) -> &'static str {
    match status {
        200 => "200",
        201 => "201",
        400 => "400",
        403 => "403",
        404 => "404",
        405 => "405",
        406 => "406",
        408 => "408",
        409 => "409",
        413 => "413",
        429 => "429",
        499 => "499",
        500 => "500",
        503 => "503",
        504 => "504",
        _ => "other",
    }
}

/// `GET /metrics`.
pub(crate) async fn metrics(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let mut buffer = Vec::new();
    TextEncoder::new()
        .encode(&edge.metrics.registry.gather(), &mut buffer)
        .map_err(|error| firn_engine::Error::internal(format!("cannot print metrics: {error}")))?;
    let mut text = String::from_utf8(buffer).map_err(|_| firn_engine::Error::internal("a metric is not UTF-8"))?;
    let stats = edge.engine.node_stats(&call.ctx).await?;
    crate::tenant_usage::write_metrics(&edge, &call, &mut text).await?;
    let mut line = |name: &str, kind: &str, help: &str, value: u64| {
        // Writing to a string does not fail.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
    };
    line(
        "firn_disk_total_bytes",
        "gauge",
        "Size of the file system of the data folder, in bytes.",
        stats.disk_total_bytes,
    );
    line(
        "firn_disk_available_bytes",
        "gauge",
        "Free bytes on the file system of the data folder.",
        stats.disk_available_bytes,
    );
    line(
        "firn_write_blocked",
        "gauge",
        "1 while writes are refused, else 0.",
        u64::from(stats.write_block.is_some()),
    );
    line("firn_search_active", "gauge", "Searches running.", stats.search_active);
    line("firn_search_queued", "gauge", "Searches waiting.", stats.search_queued);
    line(
        "firn_search_rejected_total",
        "counter",
        "Searches refused.",
        stats.search_rejected,
    );
    line(
        "firn_search_completed_total",
        "counter",
        "Searches completed.",
        stats.search_completed,
    );
    line("firn_write_active", "gauge", "Write tasks running.", stats.write_active);
    line("firn_write_queued", "gauge", "Write tasks waiting.", stats.write_queued);
    line(
        "firn_write_rejected_total",
        "counter",
        "Writes refused.",
        stats.write_rejected,
    );
    line(
        "firn_write_completed_total",
        "counter",
        "Writes completed.",
        stats.write_completed,
    );
    line(
        "firn_write_bytes_in_flight",
        "gauge",
        "Bytes of request bodies in write tasks.",
        stats.write_bytes_in_flight,
    );
    line(
        "firn_scrub_bytes_total",
        "counter",
        "Segment bytes that the background scrub checked against their checksums.",
        stats.scrub.bytes,
    );
    line(
        "firn_scrub_passes_total",
        "counter",
        "Completed scrub passes over all segments.",
        stats.scrub.passes,
    );
    line(
        "firn_scrub_last_pass_timestamp_seconds",
        "gauge",
        "End of the last scrub pass, 0 if none since the start.",
        stats.scrub.last_pass_ms / 1000,
    );
    line(
        "firn_segments_damaged_total",
        "counter",
        "Segments found damaged.",
        stats.scrub.damaged,
    );
    line(
        "firn_segments_repaired_total",
        "counter",
        "Segments repaired from a snapshot.",
        stats.scrub.repaired,
    );
    line(
        "firn_http_body_bytes",
        "gauge",
        "Bytes of request bodies in memory.",
        edge.bodies.held(),
    );
    let metadata = edge.metadata(&call).await?;
    line("firn_indices", "gauge", "Indices.", metadata.indices.len() as u64);
    line(
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
