//! Counters of the REST edge. Labels come from fixed lists only (endpoint names, status codes firn uses).

use firn_engine::Error;
use firn_engine::document::BulkResponse;
use prometheus::{
    Encoder as _, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};

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

    /// Returns all counters in Prometheus' text format.
    pub(crate) fn print(&self) -> Result<String, Error> {
        let mut buffer = Vec::new();
        TextEncoder::new()
            .encode(&self.registry.gather(), &mut buffer)
            .map_err(|error| Error::internal(format!("cannot print metrics: {error}")))?;
        String::from_utf8(buffer).map_err(|_| Error::internal("a metric is not UTF-8"))
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
