//! Current state of a growing answer, for any number of readers.
//!
//! It stores the latest event per topic, not all of them: a slow reader skips outdated events, a late reader gets all
//! current ones, and memory is bounded by the size of the whole answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use firn_engine::{Error, ErrorKind, FairPermit};
use firn_model::tenant::TenantId;
use tokio::sync::watch;

/// Topic of an event. Later events replace earlier ones with the same topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ResultKey {
    /// Interpretation of the request.
    Opened,
    /// Progress of a stage, by its number.
    Progress(usize),
    /// Partial or final result of a stage.
    Result(usize),
    /// Hints about problems of the query.
    Hints,
    /// End of the answer.
    End,
}

/// Event.
#[derive(Debug, Clone)]
pub(crate) struct PartialResult {
    /// Name of the event.
    pub(crate) event: &'static str,
    /// JSON object on one line.
    pub(crate) json: Bytes,
}

/// State of an answer; see the module.
pub(crate) struct ResultBoard {
    inner: Mutex<Inner>,
    /// Evicts a retained answer to free bytes; returns whether there was one.
    make_room: Box<dyn Fn(u64) -> bool + Send + Sync>,
    /// Number of posted events.
    posted: watch::Sender<u64>,
}

#[derive(Debug)]
struct Inner {
    topics: BTreeMap<ResultKey, (u64, PartialResult)>,
    /// Budget share for the bytes of all events.
    held: FairPermit<Option<TenantId>>,
    bytes: u64,
    closed: bool,
}

impl ResultBoard {
    /// Creates an empty board; `held` is its budget share. If the budget is full, `make_room` evicts a retained answer
    /// to free bytes and returns whether there was one.
    pub(crate) fn new(
        held: FairPermit<Option<TenantId>>,
        make_room: impl Fn(u64) -> bool + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            make_room: Box::new(make_room),
            inner: Mutex::new(Inner {
                topics: BTreeMap::new(),
                held,
                bytes: 0,
                closed: false,
            }),
            posted: watch::Sender::new(0),
        })
    }

    /// Posts an event. If there is no memory for it, fails and posts nothing.
    pub(crate) fn post(&self, topic: ResultKey, news: PartialResult) -> Result<(), Error> {
        let mut inner = self.lock();
        if let ResultKey::Result(stage) = topic {
            inner.remove(ResultKey::Progress(stage));
        }
        inner.remove(topic);
        inner.grow(news.json.len() as u64, &*self.make_room)?;
        let number = *self.posted.borrow() + 1;
        inner.topics.insert(topic, (number, news));
        drop(inner);
        self.posted.send_replace(number);
        Ok(())
    }

    /// Returns the memory size of the board.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().held.amount()
    }

    /// Closes the board: no events will follow.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.posted.send_modify(|number| *number += 1);
    }

    /// Returns the events after `number` in the order of their posts, each with its number.
    pub(crate) fn after(&self, number: u64) -> Vec<(u64, PartialResult)> {
        let inner = self.lock();
        let mut news: Vec<(u64, PartialResult)> = inner
            .topics
            .values()
            .filter(|(posted, _)| *posted > number)
            .cloned()
            .collect();
        news.sort_by_key(|(posted, _)| *posted);
        news
    }

    /// Returns whether the board is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Returns a receiver that wakes up with each post.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.posted.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn remove(&mut self, topic: ResultKey) {
        if let Some((_, news)) = self.topics.remove(&topic) {
            self.bytes -= news.json.len() as u64;
        }
    }

    /// Grows the budget share by `bytes`. The share never shrinks, because the next result is about as large.
    fn grow(&mut self, bytes: u64, make_room: &dyn Fn(u64) -> bool) -> Result<(), Error> {
        let after = self.bytes + bytes;
        let missing = after.saturating_sub(self.held.amount());
        let mut grown = self.held.grow(missing);
        while grown.is_err() && make_room(missing) {
            grown = self.held.grow(missing);
        }
        grown.map_err(|held| {
            let limit = self.held.of().limit();
            Error::new(
                ErrorKind::CircuitBreaking,
                format!(
                    "[discover] Data too large, [{held}] bytes of answers are in memory, with the limit of [{limit}]. \
                     This limit can be set by changing the [discover.max_memory] setting."
                ),
            )
        })?;
        self.bytes = after;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use firn_engine::FairSemaphore;

    use super::*;

    fn news(text: &'static str) -> PartialResult {
        PartialResult {
            event: "x",
            json: Bytes::from_static(text.as_bytes()),
        }
    }

    fn events_after(board: &ResultBoard, number: u64) -> Vec<String> {
        let news = board.after(number);
        news.iter()
            .map(|(number, news)| format!("{number}{}", String::from_utf8_lossy(&news.json)))
            .collect()
    }

    #[test]
    fn later_news_replace_earlier_ones() {
        let board = ResultBoard::new(FairSemaphore::new(1000).open(None), |_| false);
        board.post(ResultKey::Opened, news("o")).unwrap();
        board.post(ResultKey::Progress(0), news("p")).unwrap();
        board.post(ResultKey::Progress(1), news("q")).unwrap();
        assert_eq!(events_after(&board, 0), ["1o", "2p", "3q"]);
        board.post(ResultKey::Progress(0), news("r")).unwrap();
        assert_eq!(events_after(&board, 0), ["1o", "3q", "4r"]);
        // The result of a stage replaces its progress.
        board.post(ResultKey::Result(0), news("s")).unwrap();
        assert_eq!(events_after(&board, 3), ["5s"]);
        assert_eq!(events_after(&board, 0), ["1o", "3q", "5s"]);
        assert!(!board.is_closed());
        board.close();
        assert!(board.is_closed());
    }

    #[test]
    fn stored_events_are_bounded() {
        let shares = FairSemaphore::new(10);
        let board = ResultBoard::new(shares.open(None), |_| false);
        board.post(ResultKey::Result(0), news("12345678")).unwrap();
        let error = board.post(ResultKey::Result(1), news("1234")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CircuitBreaking);
        assert_eq!(events_after(&board, 0), ["112345678"]);
        board.post(ResultKey::Result(0), news("87654321")).unwrap();
        drop(board);
        assert_eq!(shares.held(), 0);
    }

    #[test]
    fn retained_answers_make_room_for_growing_ones() {
        let shares = FairSemaphore::new(10);
        let retained = Mutex::new(vec![shares.take(None, 4).unwrap(), shares.take(None, 4).unwrap()]);
        let board = ResultBoard::new(shares.open(None), move |bytes| {
            assert_eq!(bytes, 8);
            retained.lock().unwrap().pop().is_some()
        });
        board.post(ResultKey::Result(0), news("12345678")).unwrap();
        assert_eq!((shares.held(), board.bytes()), (8, 8));
    }

    #[tokio::test]
    async fn readers_wake_up() {
        let board = ResultBoard::new(FairSemaphore::new(10).open(None), |_| false);
        let mut watch = board.watch();
        watch.borrow_and_update();
        board.post(ResultKey::End, news("e")).unwrap();
        watch.changed().await.unwrap();
        board.close();
        watch.changed().await.unwrap();
    }
}
