//! TCP and TLS: connections that carry frames.

use std::borrow::Cow;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;

use super::super::{SourceEvent, SourceOutput};
use super::buffer_bound::{BufferBound, BufferShare};
use crate::parsers::framing::{FRAME_BYTES_MAX, Framer, Framing, FramingError, InvalidUtf8};

/// Open connections of one source. Further ones are closed and counted.
const CONNECTIONS_MAX: usize = 2000;
const READ_BYTES: usize = 32 << 10;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failure to accept, such as too many open files.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// What the connections of a source share.
pub(super) struct Connections {
    output: SourceOutput,
    permits: Arc<Semaphore>,
    bound: Arc<BufferBound>,
    /// Open connections.
    open: Arc<AtomicU64>,
    opened: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
    /// Frames that are longer than the limit, which are skipped.
    too_long: Arc<AtomicU64>,
    /// Bytes that are no frames.
    malformed: Arc<AtomicU64>,
    handshakes_failed: Arc<AtomicU64>,
}

impl Connections {
    pub(super) fn new(output: SourceOutput, buffer_bytes_max: usize, stuck_after: Duration) -> Arc<Self> {
        let counter = |name| output.counters().counter(name);
        let (held, closed) = (counter("buffered_bytes"), counter("connections_closed_buffer_full"));
        let per_connection = (CONNECTIONS_MAX, READ_BYTES);
        Arc::new(Self {
            permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            bound: BufferBound::new(buffer_bytes_max, per_connection, stuck_after, held, closed),
            open: counter("connections"),
            opened: counter("connections_total"),
            refused: counter("connections_refused"),
            too_long: counter("frames_too_long"),
            malformed: counter("frames_malformed"),
            handshakes_failed: counter("tls_handshakes_failed"),
            output,
        })
    }
}

/// A connection, counted until it is dropped.
struct OpenConnection {
    open: Arc<AtomicU64>,
    _permit: OwnedSemaphorePermit,
}

impl OpenConnection {
    fn new(connections: &Connections, permit: OwnedSemaphorePermit) -> Self {
        connections.opened.fetch_add(1, Ordering::Relaxed);
        connections.open.fetch_add(1, Ordering::Relaxed);
        Self {
            open: Arc::clone(&connections.open),
            _permit: permit,
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Accepts connections until the pipeline stops, and waits for their ends.
pub(super) async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    connections: Arc<Connections>,
    groups: mpsc::Sender<Vec<SourceEvent>>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = connections.output.stopped() => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&connections.permits).try_acquire_owned() else {
            connections.refused.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let open = OpenConnection::new(&connections, permit);
        let (tls, connections, groups) = (tls.clone(), Arc::clone(&connections), groups.clone());
        tokio::spawn(async move {
            serve(stream, tls, &connections, &groups).await;
            drop(open);
        });
    }
}

async fn serve(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    connections: &Connections,
    groups: &mpsc::Sender<Vec<SourceEvent>>,
) {
    match tls {
        None => read(stream, connections, groups).await,
        Some(acceptor) => match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => read(stream, connections, groups).await,
            _ => drop(connections.handshakes_failed.fetch_add(1, Ordering::Relaxed)),
        },
    }
}

/// Reads frames until the connection ends or the pipeline stops. While the pipeline is full, or the connections hold as many bytes as
/// they may, nothing is read.
async fn read(mut stream: impl AsyncRead + Unpin, connections: &Connections, groups: &mpsc::Sender<Vec<SourceEvent>>) {
    let mut framer = Framer::new(Framing::Auto, InvalidUtf8::Report, FRAME_BYTES_MAX);
    let share = connections.bound.share();
    loop {
        let mut group = Vec::new();
        let step = tokio::select! {
            step = poll_fn(|cx| step(cx, &mut stream, &mut framer, &share, connections, &mut group)) => step,
            () = share.closing() => Step::End,
            () = connections.output.stopped() => Step::End,
        };
        match step {
            Step::Read if group.is_empty() => {}
            Step::Read => {
                if groups.send(group).await.is_err() {
                    return;
                }
                share.set(framer.allocated_bytes(), 0);
            }
            Step::Full => tokio::select! {
                () = share.wait() => {}
                () = share.closing() => break,
                () = connections.output.stopped() => break,
            },
            Step::End => break,
        }
    }
    let mut group = Vec::new();
    let received_ns = connections.output.now_ns();
    framer.finish(|frame| connections.take(frame, received_ns, &mut group));
    share.set(0, bytes_of(&group));
    if !group.is_empty() {
        // The joiner is gone if the pipeline stops.
        let _ = groups.send(group).await;
    }
}

/// What one reading came to.
enum Step {
    Read,
    /// The connections hold as many bytes as they may.
    Full,
    End,
}

/// Reads once. The bytes go through a buffer of the thread: thousands of connections that wait need none of their own.
fn step(
    cx: &mut Context<'_>,
    stream: &mut (impl AsyncRead + Unpin),
    framer: &mut Framer,
    share: &BufferShare,
    connections: &Connections,
    group: &mut Vec<SourceEvent>,
) -> Poll<Step> {
    let allowed = share.allowed();
    if allowed == 0 {
        return Poll::Ready(Step::Full);
    }
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(READ_BYTES, 0);
        let mut read = ReadBuf::new(&mut buffer[..allowed.min(READ_BYTES)]);
        match ready!(Pin::new(stream).poll_read(cx, &mut read)) {
            Ok(()) if !read.filled().is_empty() => {}
            _ => return Poll::Ready(Step::End),
        }
        let received_ns = connections.output.now_ns();
        framer.feed(read.filled(), |frame| connections.take(frame, received_ns, group));
        share.set(framer.allocated_bytes(), bytes_of(group));
        Poll::Ready(Step::Read)
    })
}

fn bytes_of(group: &[SourceEvent]) -> usize {
    group.iter().map(|event| event.bytes.len()).sum()
}

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Connections {
    fn take(&self, frame: Result<Cow<'_, str>, FramingError>, received_ns: i64, group: &mut Vec<SourceEvent>) {
        let (bytes, counter) = match frame {
            Ok(frame) => (Bytes::copy_from_slice(frame.as_bytes()), None),
            Err(FramingError::InvalidUtf8 { frame }) => (frame.into(), None),
            // The pipeline says what is wrong with it, in its dead letters.
            Err(FramingError::Truncated { frame }) => (frame.into(), Some(&self.malformed)),
            Err(FramingError::TooLong { .. }) => (Bytes::new(), Some(&self.too_long)),
            Err(FramingError::NoCount) => (Bytes::new(), Some(&self.malformed)),
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if !bytes.is_empty() {
            group.push(SourceEvent {
                bytes,
                offset: 0,
                received_ns,
                context: None,
                stored_at: None,
            });
        }
    }
}
