//! HTTP endpoints of a worker, which has no engine: the state of its pipelines, and metrics. Without authentication, read only.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use firn_pipeline::runner::Runner;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::endpoints::event_pipelines::print_all;

const CONNECTIONS_MAX: usize = 64;
const READ_BUFFER_BYTES_MAX: usize = 16 << 10;
/// Time for the head of a request, also of the next one on a connection.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// Pause after a failed `accept` (no file descriptors left).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Returns metrics in Prometheus' text format.
pub type WorkerMetrics = Arc<dyn Fn(&Runner) -> String + Send + Sync>;

/// Serves `GET /_firn/pipelines/_stats` and `GET /metrics` until its task is dropped.
pub async fn serve_worker(listener: TcpListener, runner: Arc<Runner>, metrics: WorkerMetrics) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (runner, metrics) = (Arc::clone(&runner), Arc::clone(&metrics));
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let (runner, metrics) = (Arc::clone(&runner), Arc::clone(&metrics));
                async move { Ok::<_, Infallible>(answer(&request, &runner, &*metrics).await) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME_MAX)
                .max_buf_size(READ_BUFFER_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            if let Err(error) = served {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(slot);
        });
    }
}

async fn answer(
    request: &Request<Incoming>,
    runner: &Runner,
    metrics: &(dyn Fn(&Runner) -> String + Send + Sync),
) -> Response<Full<Bytes>> {
    const JSON: &str = "application/json";
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/_firn/pipelines/_stats") => (StatusCode::OK, JSON, print_all(runner).await.to_string()),
        (&Method::GET, "/metrics") => (StatusCode::OK, "text/plain; version=0.0.4", metrics(runner)),
        _ => {
            let reason = "a worker has GET /_firn/pipelines/_stats and GET /metrics only";
            let error = json!({"error": {"type": "resource_not_found_exception", "reason": reason}, "status": 404});
            (StatusCode::NOT_FOUND, JSON, error.to_string())
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}
