//! Writer of event streams: server-sent events, or JSON lines.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::StatusCode;

use crate::endpoints::call::Call;
use crate::state::partial_results::{PartialResult, ResultBoard};
use crate::wire::media_type::Format;
use crate::wire::reply::{Body, Reply};
use crate::wire::streaming::Streamed;

/// Keep-alive interval: most proxies close connections that are silent for a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Wire format of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// <https://html.spec.whatwg.org/multipage/server-sent-events.html>
    Events,
    /// JSON lines.
    Lines,
}

impl Wire {
    /// Returns the format that the client accepts.
    pub(crate) fn of(call: &Call) -> Self {
        match call.accept.format {
            Some(Format::EventStream) => Self::Events,
            _ => Self::Lines,
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Events => "text/event-stream; charset=utf-8",
            Self::Lines => "application/x-ndjson",
        }
    }

    /// Writes one event.
    pub(super) fn write(self, output: &mut Vec<u8>, number: u64, news: &PartialResult) {
        match self {
            Self::Events => {
                output.extend_from_slice(format!("id: {number}\nevent: {}\ndata: ", news.event).as_bytes());
                // A line break inside JSON is white space, but would end the event's data here.
                match memchr::memchr2(b'\n', b'\r', &news.json) {
                    None => output.extend_from_slice(&news.json),
                    Some(_) => output.extend(news.json.iter().map(|byte| match byte {
                        b'\n' | b'\r' => b' ',
                        other => *other,
                    })),
                }
                output.extend_from_slice(b"\n\n");
            }
            Self::Lines => {
                let start = output.len();
                output.extend_from_slice(&news.json);
                for byte in &mut output[start..] {
                    if matches!(byte, b'\n' | b'\r') {
                        *byte = b' ';
                    }
                }
                output.push(b'\n');
            }
        }
    }

    /// Returns a keep-alive message; `None`: the format has none.
    fn keep_alive(self) -> Option<Bytes> {
        match self {
            Self::Events => Some(Bytes::from_static(b": still here\n\n")),
            Self::Lines => None,
        }
    }

    /// Builds a streamed response of chunks.
    pub(crate) fn reply(
        self,
        pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
        endless: bool,
    ) -> Reply {
        Reply {
            status: StatusCode::OK,
            body: Body::Stream(Streamed {
                content_type: self.content_type(),
                headers: Vec::new(),
                pieces: pieces.boxed(),
                endless,
            }),
        }
    }
}

/// Streams all current and future events of a board; `held` is dropped with the stream.
pub(super) fn read(
    board: Arc<ResultBoard>,
    wire: Wire,
    held: impl Send + 'static,
) -> impl Stream<Item = std::io::Result<Bytes>> + Send {
    let watch = board.watch();
    stream::unfold(
        (board, watch, 0, held),
        move |(board, mut watch, last_sent, held)| async move {
            loop {
                watch.borrow_and_update();
                // `is_closed` is read first, so that all events before the end are seen with it.
                let closed = board.is_closed();
                let news = board.after(last_sent);
                if let Some((last, _)) = news.last() {
                    let last_sent = *last;
                    let mut output = Vec::new();
                    for (number, news) in &news {
                        wire.write(&mut output, *number, news);
                    }
                    return Some((Ok(output.into()), (board, watch, last_sent, held)));
                }
                if closed {
                    return None;
                }
                // Fails only without a board, which this holds.
                let _ = watch.changed().await;
            }
        },
    )
}

/// Adds keep-alive messages to a stream with long pauses.
pub(super) fn with_keep_alive(
    pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    wire: Wire,
) -> impl Stream<Item = std::io::Result<Bytes>> + Send {
    with_keep_alive_every(pieces, wire, KEEP_ALIVE)
}

/// Does the same with another interval.
fn with_keep_alive_every(
    pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    wire: Wire,
    every: Duration,
) -> impl Stream<Item = std::io::Result<Bytes>> + Send {
    stream::unfold(pieces.boxed(), move |mut pieces| async move {
        loop {
            match tokio::time::timeout(every, pieces.next()).await {
                Ok(piece) => return piece.map(|piece| (piece, pieces)),
                Err(_) => {
                    if let Some(piece) = wire.keep_alive() {
                        return Some((Ok(piece), pieces));
                    }
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use firn_engine::FairSemaphore;

    use super::*;
    use crate::state::partial_results::ResultKey;

    fn news(event: &'static str, json: &'static str) -> PartialResult {
        PartialResult {
            event,
            json: Bytes::from_static(json.as_bytes()),
        }
    }

    #[test]
    fn an_event_is_one_line_even_with_line_breaks() {
        let write = |wire: Wire, json| {
            let mut output = Vec::new();
            wire.write(&mut output, 3, &news("done", json));
            String::from_utf8(output).unwrap()
        };
        assert_eq!(
            write(Wire::Events, "{\"a\":1}"),
            "id: 3\nevent: done\ndata: {\"a\":1}\n\n"
        );
        assert_eq!(
            write(Wire::Events, "{\"a\":\r\n 1}"),
            "id: 3\nevent: done\ndata: {\"a\":   1}\n\n"
        );
        assert_eq!(write(Wire::Lines, "{\n}"), "{ }\n");
    }

    #[tokio::test]
    async fn a_reader_gets_all_events_and_then_the_end() {
        let board = ResultBoard::new(FairSemaphore::new(1000).open(None), |_| false);
        board.post(ResultKey::Opened, news("opened", "1")).unwrap();
        let mut pieces = Box::pin(read(Arc::clone(&board), Wire::Lines, ()));
        assert_eq!(pieces.next().await.unwrap().unwrap(), "1\n");
        board.post(ResultKey::Result(0), news("partial", "2")).unwrap();
        board.post(ResultKey::Result(0), news("done", "3")).unwrap();
        board.post(ResultKey::End, news("end", "4")).unwrap();
        board.close();
        assert_eq!(pieces.next().await.unwrap().unwrap(), "3\n4\n");
        assert!(pieces.next().await.is_none());
        let again: Vec<_> = read(board, Wire::Lines, ()).collect().await;
        assert_eq!(again.len(), 1, "a later reader gets all events at once");
    }

    #[tokio::test]
    async fn keep_alives_break_the_silence_of_event_streams() {
        let every = Duration::from_millis(1);
        let mut silent = Box::pin(with_keep_alive_every(stream::pending(), Wire::Events, every));
        assert!(silent.next().await.unwrap().unwrap().starts_with(b":"));
        let lines = stream::once(async { Ok(Bytes::from_static(b"x")) });
        let pieces: Vec<_> = with_keep_alive_every(lines, Wire::Lines, every).collect().await;
        assert_eq!(pieces.len(), 1);
    }
}
