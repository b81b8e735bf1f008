//! The body of a response: whole, or written as it comes.
//!
//! A body keeps what its request holds (its share of memory, its place, its entry in the task list, its record) until the
//! last byte is on its way or the client is gone: hyper drops the body then, and with it everything that works for it.

use std::any::Any;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use http::HeaderValue;
use hyper::body::{Body, Frame, SizeHint};

/// What comes of a stream. An error breaks the connection, so that nobody takes what came for the whole.
pub(crate) type Pieces = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// Ready when a stream has to break off.
type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An answer that is written as it comes.
pub(crate) struct Streamed {
    pub(crate) content_type: &'static str,
    /// Further headers.
    pub(crate) headers: Vec<(&'static str, HeaderValue)>,
    pub(crate) pieces: Pieces,
    /// It ends with its client only, so a server that stops does not wait for it.
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
    /// Bytes that were taken of it.
    pub(crate) bytes: u64,
    /// Whether its end was reached: otherwise its client went away, or it broke.
    pub(crate) whole: bool,
}

/// A whole body is handed on in pieces, so that it is not taken for sent before it almost is.
const PIECE_BYTES: usize = 256 << 10;

/// The body of a response.
pub struct ResponseBody(Kind);

enum Kind {
    Whole(Whole),
    Stream(Box<Flow>),
}

struct Whole {
    /// Not handed on yet.
    rest: Bytes,
    held: Vec<Box<dyn Any + Send>>,
}

struct Flow {
    pieces: Pieces,
    endless: bool,
    /// Any of them is ready when the stream has to break off, for its reason.
    stops: Vec<(&'static str, Stop)>,
    ended: Ended,
    on_end: Option<Box<dyn FnOnce(Ended) + Send>>,
    held: Vec<Box<dyn Any + Send>>,
}

impl ResponseBody {
    /// All of it.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self(Kind::Whole(Whole {
            rest: bytes,
            held: Vec::new(),
        }))
    }

    /// As it comes.
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

    /// Whether it goes on after its head.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.0, Kind::Stream(_))
    }

    /// Drops `what` with the body.
    pub(crate) fn hold(&mut self, what: impl Any + Send) {
        match &mut self.0 {
            Kind::Whole(whole) => whole.held.push(Box::new(what)),
            Kind::Stream(flow) => flow.held.push(Box::new(what)),
        }
    }

    /// Calls `tell` when the stream has ended, however it does; never if it is none.
    pub(crate) fn on_end(&mut self, tell: impl FnOnce(Ended) + Send + 'static) {
        if let Kind::Stream(flow) = &mut self.0 {
            flow.on_end = Some(Box::new(tell));
        }
    }

    /// Breaks a stream off that would not end by itself once `stop` is ready.
    pub(crate) fn until(&mut self, stop: impl Future<Output = ()> + Send + 'static) {
        if let Kind::Stream(flow) = &mut self.0
            && flow.endless
        {
            flow.stops.push(("the server stops", Box::pin(stop)));
        }
    }

    /// Breaks a stream off once its reader may not go on reading.
    pub(crate) fn unless(&mut self, refused: impl Future<Output = ()> + Send + 'static) {
        if let Kind::Stream(flow) = &mut self.0 {
            flow.stops.push(("who reads is not let in any more", Box::pin(refused)));
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let flow = match &mut self.get_mut().0 {
            Kind::Whole(whole) if whole.rest.is_empty() => return Poll::Ready(None),
            Kind::Whole(whole) => {
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
            Kind::Whole(whole) => whole.rest.is_empty(),
            Kind::Stream(flow) => flow.ended.whole,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(whole) => SizeHint::with_exact(whole.rest.len() as u64),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        if let Some(tell) = self.on_end.take() {
            tell(self.ended);
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
    async fn the_end_is_told_with_what_was_taken() {
        for (read, expect) in [
            (false, Ended { bytes: 0, whole: false }),
            (true, Ended { bytes: 3, whole: true }),
        ] {
            let told = Arc::new(Mutex::new(None));
            let mut body = ResponseBody::stream(pieces(&["a", "bc"]), false);
            let its = Arc::clone(&told);
            body.on_end(move |ended| *its.lock().unwrap() = Some(ended));
            if read {
                assert_eq!(body.collect().await.unwrap().to_bytes(), "abc");
            } else {
                drop(body);
            }
            assert_eq!(*told.lock().unwrap(), Some(expect));
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
