//! Connections: accepting them, limits on each, and an orderly end.

mod connection;
mod tls;

pub use tls::Tls;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::Api;
use connection::Connection;

/// After a failed `accept` (no file descriptors left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// No file system hands out more descriptors; what is larger means "no limit".
const CONNECTIONS_MAX: usize = 1 << 24;

/// Serves until `shutdown` is ready; then takes no more connections, closes idle ones, lets
/// running requests finish within [`crate::ApiConfig::shutdown_grace`], and returns.
pub async fn serve(listener: TcpListener, api: Api, shutdown: impl Future<Output = ()>) -> std::io::Result<()> {
    let grace = api.config().shutdown_grace;
    let limit = api.config().max_connections.clamp(1, CONNECTIONS_MAX);
    let permits = Arc::new(Semaphore::new(limit));
    let (stop, stopping) = watch::channel(false);
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = async {
            let permit = Arc::clone(&permits).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            () = &mut shutdown => break,
            accepted = accepted => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Answers are written whole; waiting for more to send would only delay them.
        let _ = stream.set_nodelay(true);
        let connection = Connection::new(api.clone(), peer, stopping.clone());
        tokio::spawn(async move {
            if let Err(error) = connection.serve(stream).await {
                tracing::debug!(%peer, error, "a connection ended early");
            }
            drop(permit);
        });
    }
    drop(listener);
    stop.send_replace(true);
    // Every connection holds a permit: who gets them all knows that none is left.
    let all = permits.acquire_many(u32::try_from(limit).unwrap_or(u32::MAX));
    if tokio::time::timeout(grace, all).await.is_err() {
        tracing::warn!(
            grace_ms = grace.as_millis() as u64,
            "requests were still running when the server stopped"
        );
    }
    Ok(())
}
