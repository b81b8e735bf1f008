//! Connection of one client: TLS if the server has it, then HTTP/1.1 or HTTP/2.
//!
//! Under TLS the client's ALPN selects the protocol. Without TLS a client may start with the HTTP/2 preface (RFC 9113,
//! 3.3), as curl does with `--http2-prior-knowledge`.

use std::convert::Infallible;
use std::future::Future;
use std::io::Cursor;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::connection_slots::{Activity, ConnectionSlot, Open};
use super::write_timeout::WriteTimeout;
use crate::Api;
use crate::state::tls;
use crate::state::tls::Tls;
use crate::wire::peer::Peer;
use crate::wire::streaming::ResponseBody;

/// Maximum read buffer of a connection: a bulk of some MB takes few system calls, and all connections together stay
/// within some 100 MB even if each fills its buffer.
const READ_BUFFER_BYTES_MAX: usize = 128 << 10;
/// Maximum number of headers, which is the capacity of hyper's stack buffer.
const HEADERS_MAX: usize = 100;
/// Elasticsearch's `http.max_initial_line_length` (4 KB) and `http.max_header_size` (16 KB)
/// together, rounded up. Larger heads get a 431.
const HEAD_BYTES_MAX: u32 = 32 << 10;
/// Maximum concurrent requests of one HTTP/2 connection. RFC 9113 recommends at least 100;
/// [`crate::ApiConfig::max_concurrent_requests`] limits all connections together.
const STREAMS_MAX: u32 = 128;
/// Flow control window of one request: enough for 5 MB/s at 50 ms.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// Flow control window of a connection: 1,024 connections hold 512 MB at worst.
const CONNECTION_WINDOW_BYTES: u32 = 512 << 10;
/// Silence after which a client gets a ping (HTTP/2 only).
const PING_AFTER: Duration = Duration::from_secs(30);
/// Timeout of the ping.
const PING_PATIENCE: Duration = Duration::from_secs(20);
/// Timeout of the TLS handshake. It takes two round trips and some milliseconds; slower clients would occupy a slot for
/// nothing.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// First bytes of a client that speaks HTTP/2 without negotiation.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Why a connection ended early, for the log.
pub(super) type Ended = String;

/// Accepted connection.
pub(super) struct Connection {
    requests: Requests,
    /// Completes when another connection needs the slot.
    needed: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Becomes true when the server stops.
    stopping: watch::Receiver<bool>,
}

/// Service that answers the requests of one connection.
#[derive(Clone)]
struct Requests {
    api: Api,
    peer: Peer,
    activity: Arc<Activity>,
    /// See [`Connection::stopping`].
    stopping: watch::Receiver<bool>,
}

impl hyper::service::Service<Request<Incoming>> for Requests {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        request.extensions_mut().insert(self.activity.known().clone());
        let api = self.api.clone();
        let open = Open::new(&self.activity);
        let mut stopping = self.stopping.clone();
        Box::pin(async move {
            let mut response = api.handle(request).await;
            response.body_mut().until(async move { stopped(&mut stopping).await });
            response.body_mut().hold(open);
            Ok(response)
        })
    }
}

impl Connection {
    pub(super) fn new(api: Api, peer: SocketAddr, place: &ConnectionSlot, stopping: watch::Receiver<bool>) -> Self {
        Self {
            requests: Requests {
                api,
                peer: Peer(peer),
                activity: Arc::clone(&place.activity),
                stopping: stopping.clone(),
            },
            needed: Box::pin(place.needed()),
            stopping,
        }
    }

    /// Answers requests until the client closes the connection or the server stops.
    pub(super) async fn serve(self, stream: TcpStream) -> Result<(), Ended> {
        let activity = Arc::clone(&self.requests.activity);
        let patience = self.requests.api.config().stranger_timeout;
        tokio::select! {
            served = self.serve_requests(stream) => served,
            // Closed without an answer, like an idle connection.
            () = activity.strange(patience) => Ok(()),
        }
    }

    async fn serve_requests(self, stream: TcpStream) -> Result<(), Ended> {
        match self.requests.api.config().tls.clone() {
            Some(tls) => self.serve_tls(stream, &tls).await,
            None => self.serve_plain(stream).await,
        }
    }

    async fn serve_tls(mut self, stream: TcpStream, tls: &Tls) -> Result<(), Ended> {
        let stream = WriteTimeout::new(stream, self.requests.api.config().body_idle_timeout);
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.acceptor().accept(stream));
        let accepted = tokio::select! {
            () = stopped(&mut self.stopping) => return Ok(()),
            accepted = handshake => accepted,
        };
        let stream = accepted
            .map_err(|_| "the TLS handshake took too long".to_owned())?
            .map_err(|error| tls::explain(&error))?;
        if stream.get_ref().1.alpn_protocol() == Some(tls::ALPN_HTTP2) {
            self.http2(stream).await
        } else {
            self.http1(stream).await
        }
    }

    async fn serve_plain(mut self, mut stream: TcpStream) -> Result<(), Ended> {
        let patience = self.requests.api.config().head_timeout;
        let beginning = tokio::select! {
            () = stopped(&mut self.stopping) => return Ok(()),
            read = tokio::time::timeout(patience, read_beginning(&mut stream)) => read,
        };
        let beginning = match beginning {
            // Closed without an answer, like an idle connection after requests.
            Err(_) => return Ok(()),
            Ok(read) => read.map_err(|error| error.to_string())?,
        };
        let is_http2 = beginning == PREFACE;
        let (reader, writer) = stream.into_split();
        let writer = WriteTimeout::new(writer, self.requests.api.config().body_idle_timeout);
        let stream = tokio::io::join(Cursor::new(beginning).chain(reader), writer);
        if is_http2 {
            self.http2(stream).await
        } else {
            self.http1(stream).await
        }
    }

    async fn http1(mut self, stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<(), Ended> {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.requests.api.config().head_timeout)
            .max_headers(HEADERS_MAX)
            .max_header_size(HEAD_BYTES_MAX as usize)
            .max_buf_size(READ_BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), self.requests.clone());
        let mut connection = pin!(connection);
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(|error| explain(&error)),
            () = stopped(&mut self.stopping) => {}
            () = self.needed.as_mut() => {}
        }
        connection.as_mut().graceful_shutdown();
        connection.await.map_err(|error| explain(&error))
    }

    async fn http2(mut self, stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<(), Ended> {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_header_list_size(HEAD_BYTES_MAX)
            .max_concurrent_streams(STREAMS_MAX)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_PATIENCE)
            .serve_connection(TokioIo::new(stream), self.requests.clone());
        let mut connection = pin!(connection);
        let idle_after = self.requests.api.config().head_timeout;
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(|error| explain(&error)),
            () = stopped(&mut self.stopping) => {}
            () = self.needed.as_mut() => {}
            () = self.requests.activity.idle(idle_after, || true) => {}
        }
        connection.as_mut().graceful_shutdown();
        connection.await.map_err(|error| explain(&error))
    }
}

/// Completes when the server stops.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // The sender lives as long as the server; if it is dropped, the server has stopped.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Reads the first bytes: the whole preface, or up to the first byte that differs from it.
async fn read_beginning(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut beginning = Vec::with_capacity(PREFACE.len());
    while PREFACE.starts_with(&beginning) && beginning.len() < PREFACE.len() {
        let missing = PREFACE.len() - beginning.len();
        if (&mut *stream).take(missing as u64).read_buf(&mut beginning).await? == 0 {
            break;
        }
    }
    Ok(beginning)
}

/// Formats hyper's error with its cause, which is more specific.
fn explain(error: &hyper::Error) -> Ended {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
