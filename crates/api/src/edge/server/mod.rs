//! Connection server: accepts connections, enforces limits on each, and shuts down gracefully.

mod connection;
pub(super) mod connection_slots;
mod write_timeout;

use std::future::Future;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::Api;
use connection::Connection;
use connection_slots::ConnectionSlots;

/// Pause after a failed `accept` (no file descriptors left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Upper bound of the connection limit: no file system has more descriptors, so larger limits mean "unlimited".
const CONNECTIONS_MAX: usize = 1 << 24;

/// Serves until `shutdown` completes. Then it accepts no more connections, closes idle ones, waits up to
/// [`crate::ApiConfig::shutdown_grace`] for running requests, and returns.
pub async fn serve(listener: TcpListener, api: Api, shutdown: impl Future<Output = ()>) -> std::io::Result<()> {
    let grace = api.config().shutdown_grace;
    let limit = api.config().max_connections.clamp(1, CONNECTIONS_MAX);
    let places = ConnectionSlots::new(limit);
    let (stop, stopping) = watch::channel(false);
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = async {
            let (stream, peer) = listener.accept().await?;
            std::io::Result::Ok((stream, peer, places.take(peer.ip()).await))
        };
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = accepted => accepted,
        };
        let (stream, peer, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                // Connections may have used up all file descriptors.
                places.take_away();
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Answers are written whole; waiting for more data would only delay them.
        let _ = stream.set_nodelay(true);
        let connection = Connection::new(api.clone(), peer, &place, stopping.clone());
        let opened = api.connection_opened();
        tokio::spawn(async move {
            let served = tokio::select! {
                served = connection.serve(stream) => served,
                () = place.taken_away() => Err("another connection takes its slot".to_owned()),
            };
            if let Err(error) = served {
                tracing::debug!(%peer, error, "a connection ended early");
            }
            drop(opened);
            drop(place);
        });
    }
    drop(listener);
    stop.send_replace(true);
    if tokio::time::timeout(grace, places.all_free()).await.is_err() {
        tracing::warn!(
            grace_ms = grace.as_millis() as u64,
            "requests were still running when the server stopped"
        );
    }
    Ok(())
}
