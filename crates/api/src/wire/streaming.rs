//! Body of a response: complete, or streamed.
//!
//! A body holds the resources of its request (memory share, request slot, task entry, record) until the last byte is
//! handed over or the client is gone. Then hyper drops the body, which releases them and stops the work for it.

use std::any::Any;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, HeaderValue};
use hyper::body::{Body, Frame, SizeHint};

/// Chunks of a stream. An error breaks the connection, so that no client takes a partial answer for a complete one.
pub(crate) type Pieces = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// Future that completes when a stream must be aborted.
type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Streamed answer.
pub(crate) struct Streamed {
    pub(crate) content_type: &'static str,
    /// Further headers.
    pub(crate) headers: Vec<(&'static str, HeaderValue)>,
    pub(crate) pieces: Pieces,
    /// The stream ends only with its client, so the shutdown of the server does not wait for it.
    pub(crate) endless: bool,
}

impl std::fmt::Debug for Streamed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Streamed")
            .field("content_type", &self.content_type)
            .field("headers", &self.headers)
            .field("endless", &self.endless)
            .finish_non_exhaustive()
    }
}

/// How a streamed body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Bytes that were sent.
    pub(crate) bytes: u64,
    /// Whether the stream reached its end; otherwise the client went away, or the stream failed.
    pub(crate) whole: bool,
}

/// A complete body is handed over in pieces, so that it counts as sent only when it almost is.
const PIECE_BYTES: usize = 256 << 10;

/// Body of a response.
pub struct ResponseBody(Kind);

enum Kind {
    WholeBody(WholeBody),
    Stream(Box<Flow>),
}

struct WholeBody {
    /// Bytes not yet handed over.
    rest: Bytes,
    /// Sent after the bytes.
    trailers: Option<HeaderMap>,
    held: Vec<Box<dyn Any + Send>>,
}

struct Flow {
    pieces: Pieces,
    endless: bool,
    /// Futures that abort the stream, with the reason of each.
    stops: Vec<(&'static str, Stop)>,
    ended: Ended,
    on_end: Option<Box<dyn FnOnce(Ended) + Send>>,
    held: Vec<Box<dyn Any + Send>>,
}

impl ResponseBody {
    /// Creates a complete body.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self(Kind::WholeBody(WholeBody {
            rest: bytes,
            trailers: None,
            held: Vec::new(),
        }))
    }

    /// Has these trailers sent after a complete body.
    pub(crate) fn set_trailers(&mut self, trailers: HeaderMap) {
        if let Kind::WholeBody(whole) = &mut self.0 {
            whole.trailers = Some(trailers);
        }
    }

    /// Creates a streamed body.
    pub(crate) fn stream(pieces: Pieces, endless: bool) -> Self {
        Self(Kind::Stream(Box::new(Flow {
            pieces,
            endless,
            stops: Vec::new(),
            ended: Ended { bytes: 0, whole: false },
            on_end: None,
            held: Vec::new(),
        })))
    }

    /// Returns whether the body is streamed.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.0, Kind::Stream(_))
    }

    /// Drops `what` with the body.
    pub(crate) fn hold(&mut self, what: impl Any + Send) {
        match &mut self.0 {
            Kind::WholeBody(whole) => whole.held.push(Box::new(what)),
            Kind::Stream(flow) => flow.held.push(Box::new(what)),
        }
    }

    /// Calls `notify` when the stream ends, completely or not; never for a complete body.
    pub(crate) fn on_end(&mut self, notify: impl FnOnce(Ended) + Send + 'static) {
        if let Kind::Stream(flow) = &mut self.0 {
            flow.on_end = Some(Box::new(notify));
        }
    }

    /// Aborts an endless stream when `stop` completes.
    pub(crate) fn until(&mut self, stop: impl Future<Output = ()> + Send + 'static) {
        if let Kind::Stream(flow) = &mut self.0
            && flow.endless
        {
            flow.stops.push(("the server stops", Box::pin(stop)));
        }
    }

    /// Aborts a stream when the access of its reader is revoked.
    pub(crate) fn unless(&mut self, refused: impl Future<Output = ()> + Send + 'static) {
        if let Kind::Stream(flow) = &mut self.0 {
            flow.stops.push(("the reader's access was revoked", Box::pin(refused)));
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let flow = match &mut self.get_mut().0 {
            Kind::WholeBody(whole) if whole.rest.is_empty() => {
                return Poll::Ready(whole.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
            }
            Kind::WholeBody(whole) => {
                let piece = whole.rest.split_to(whole.rest.len().min(PIECE_BYTES));
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            Kind::Stream(flow) => flow,
        };
        for (reason, stop) in &mut flow.stops {
            if stop.as_mut().poll(context).is_ready() {
                let error = io::Error::other(*reason);
                flow.stops.clear();
                return Poll::Ready(Some(Err(error)));
            }
        }
        match ready!(flow.pieces.as_mut().poll_next(context)) {
            None => {
                flow.ended.whole = true;
                Poll::Ready(None)
            }
            Some(piece) => {
                let piece = piece.inspect(|piece| flow.ended.bytes += piece.len() as u64);
                Poll::Ready(Some(piece.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::WholeBody(whole) => whole.rest.is_empty() && whole.trailers.is_none(),
            Kind::Stream(flow) => flow.ended.whole,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::WholeBody(whole) => SizeHint::with_exact(whole.rest.len() as u64),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        if let Some(notify) = self.on_end.take() {
            notify(self.ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::Mutex;

    use futures_util::{StreamExt as _, stream};
    use http_body_util::BodyExt as _;

    use super::*;

    fn pieces(texts: &[&'static str]) -> Pieces {
        let texts: Vec<_> = texts
            .iter()
            .map(|text| Ok(Bytes::from_static(text.as_bytes())))
            .collect();
        Box::pin(stream::iter(texts))
    }

    #[tokio::test]
    async fn the_end_reports_the_bytes_sent() {
        for (read, expect) in [
            (false, Ended { bytes: 0, whole: false }),
            (true, Ended { bytes: 3, whole: true }),
        ] {
            let seen = Arc::new(Mutex::new(None));
            let mut body = ResponseBody::stream(pieces(&["a", "bc"]), false);
            let its = Arc::clone(&seen);
            body.on_end(move |ended| *its.lock().unwrap() = Some(ended));
            if read {
                assert_eq!(body.collect().await.unwrap().to_bytes(), "abc");
            } else {
                drop(body);
            }
            assert_eq!(*seen.lock().unwrap(), Some(expect));
        }
    }

    #[tokio::test]
    async fn a_server_that_stops_breaks_only_what_would_not_end() {
        let mut ends = ResponseBody::stream(pieces(&["a"]), false);
        ends.until(std::future::ready(()));
        assert_eq!(ends.collect().await.unwrap().to_bytes(), "a");
        let mut endless = ResponseBody::stream(pieces(&["a"]).chain(stream::pending()).boxed(), true);
        endless.until(std::future::ready(()));
        assert!(endless.collect().await.is_err());
    }

    #[tokio::test]
    async fn what_is_held_goes_with_the_body() {
        let held = Arc::new(());
        let mut body = ResponseBody::stream(pieces(&[]), false);
        body.hold(Arc::clone(&held));
        assert_eq!(Arc::strong_count(&held), 2);
        drop(body);
        assert_eq!(Arc::strong_count(&held), 1);
        let bytes = Bytes::from(vec![7; 3 * PIECE_BYTES + 1]);
        let mut whole = ResponseBody::whole(bytes.clone());
        whole.hold(Arc::clone(&held));
        assert_eq!(whole.size_hint().exact(), Some(bytes.len() as u64));
        let first = whole.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((first.len(), Arc::strong_count(&held)), (PIECE_BYTES, 2));
        assert!(!whole.is_end_stream());
        assert_eq!(whole.collect().await.unwrap().to_bytes(), bytes[PIECE_BYTES..]);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
