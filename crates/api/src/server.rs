//! Connections: accepting them, limits on each, and an orderly end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::Api;

/// Read buffer of a connection: a bulk of some MB takes few system calls, and all connections
/// together stay within some 100 MB even if each fills it.
const READ_BUFFER_BYTES_MAX: usize = 128 << 10;
/// As many as hyper's stack buffer holds.
const HEADERS_MAX: usize = 100;
/// Elasticsearch's `http.max_initial_line_length` (4 KB) and `http.max_header_size` (16 KB)
/// together, rounded up.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// After a failed `accept` (no file descriptors left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `shutdown` is ready; then takes no more connections, closes idle ones, lets
/// running requests finish within [`crate::ApiConfig::shutdown_grace`], and returns.
pub async fn serve(listener: TcpListener, api: Api, shutdown: impl Future<Output = ()>) -> std::io::Result<()> {
    let config = api.config();
    let (head_timeout, grace) = (config.head_timeout, config.shutdown_grace);
    let connections = Arc::new(Semaphore::new(config.max_connections.max(1)));
    let graceful = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_headers(HEADERS_MAX)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(READ_BUFFER_BYTES_MAX);
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = async {
            let permit = Arc::clone(&connections).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            () = &mut shutdown => break,
            accepted = accepted => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Answers are written whole; waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(api.clone()));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
        tracing::warn!(
            grace_ms = grace.as_millis() as u64,
            "requests were still running when the server stopped"
        );
    }
    Ok(())
}
