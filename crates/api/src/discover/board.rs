//! What is known so far of an answer that still grows, for any number of readers.
//!
//! It keeps the latest of each kind of news, not all of them: a slow reader skips what is out of date, one who comes
//! later is told all that still holds, and memory is bounded by what the whole answer takes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use firn_engine::{Error, ErrorKind, Share};
use firn_model::tenant::TenantId;
use tokio::sync::watch;

/// What a piece of news is about. Later news about the same replace earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// What was understood of the request.
    Opened,
    /// How far a stage is, by its number.
    Progress(usize),
    /// What a stage has found so far, or came to.
    Result(usize),
    /// What may be wrong with the query.
    Hints,
    /// That all is told.
    End,
}

/// Something to tell.
#[derive(Debug, Clone)]
pub(super) struct News {
    /// The name of the event.
    pub(super) event: &'static str,
    /// A JSON object on one line.
    pub(super) json: Bytes,
}

/// See the module.
pub(crate) struct Board {
    inner: Mutex<Inner>,
    /// Lets something that is kept go for so many bytes more; whether there was anything.
    make_room: Box<dyn Fn(u64) -> bool + Send + Sync>,
    /// How much was posted.
    posted: watch::Sender<u64>,
}

#[derive(Debug)]
struct Inner {
    topics: BTreeMap<Topic, (u64, News)>,
    /// Bytes of all that is kept.
    held: Share<Option<TenantId>>,
    bytes: u64,
    closed: bool,
}

impl Board {
    /// Empty; `held` is what it may grow in. Where that is full, `make_room` lets something that is kept go for so many
    /// bytes more, and tells whether there was anything.
    pub(super) fn new(
        held: Share<Option<TenantId>>,
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

    /// Tells news. Fails, and tells nothing, if there is no room.
    pub(super) fn post(&self, topic: Topic, news: News) -> Result<(), Error> {
        let mut inner = self.lock();
        if let Topic::Result(stage) = topic {
            inner.remove(Topic::Progress(stage));
        }
        inner.remove(topic);
        inner.grow(news.json.len() as u64, &*self.make_room)?;
        let number = *self.posted.borrow() + 1;
        inner.topics.insert(topic, (number, news));
        drop(inner);
        self.posted.send_replace(number);
        Ok(())
    }

    /// What it takes.
    pub(super) fn bytes(&self) -> u64 {
        self.lock().held.amount()
    }

    /// Nothing will follow.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.posted.send_modify(|number| *number += 1);
    }

    /// The news after those that were told with `number`, in the order in which they came, with the number of the last.
    pub(super) fn after(&self, number: u64) -> Vec<(u64, News)> {
        let inner = self.lock();
        let mut news: Vec<(u64, News)> = inner
            .topics
            .values()
            .filter(|(posted, _)| *posted > number)
            .cloned()
            .collect();
        news.sort_by_key(|(posted, _)| *posted);
        news
    }

    /// Whether nothing will follow.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Wakes up with each post.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.posted.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn remove(&mut self, topic: Topic) {
        if let Some((_, news)) = self.topics.remove(&topic) {
            self.bytes -= news.json.len() as u64;
        }
    }

    /// Room for so many bytes more. What was taken once is kept: the next result is about as large.
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
                    "[discover] Data too large, [{held}] bytes of answers are kept already, with the limit of [{limit}]. \
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
    use firn_engine::Shares;

    use super::*;

    fn news(text: &'static str) -> News {
        News {
            event: "x",
            json: Bytes::from_static(text.as_bytes()),
        }
    }

    fn told(board: &Board, number: u64) -> Vec<String> {
        let news = board.after(number);
        news.iter()
            .map(|(number, news)| format!("{number}{}", String::from_utf8_lossy(&news.json)))
            .collect()
    }

    #[test]
    fn later_news_replace_earlier_ones() {
        let board = Board::new(Shares::new(1000).open(None), |_| false);
        board.post(Topic::Opened, news("o")).unwrap();
        board.post(Topic::Progress(0), news("p")).unwrap();
        board.post(Topic::Progress(1), news("q")).unwrap();
        assert_eq!(told(&board, 0), ["1o", "2p", "3q"]);
        board.post(Topic::Progress(0), news("r")).unwrap();
        assert_eq!(told(&board, 0), ["1o", "3q", "4r"]);
        // With its result nobody asks any more how far it is.
        board.post(Topic::Result(0), news("s")).unwrap();
        assert_eq!(told(&board, 3), ["5s"]);
        assert_eq!(told(&board, 0), ["1o", "3q", "5s"]);
        assert!(!board.is_closed());
        board.close();
        assert!(board.is_closed());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let shares = Shares::new(10);
        let board = Board::new(shares.open(None), |_| false);
        board.post(Topic::Result(0), news("12345678")).unwrap();
        let error = board.post(Topic::Result(1), news("1234")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CircuitBreaking);
        assert_eq!(told(&board, 0), ["112345678"]);
        board.post(Topic::Result(0), news("87654321")).unwrap();
        drop(board);
        assert_eq!(shares.held(), 0);
    }

    #[test]
    fn what_is_kept_makes_room_for_what_grows() {
        let shares = Shares::new(10);
        let kept = Mutex::new(vec![shares.take(None, 4).unwrap(), shares.take(None, 4).unwrap()]);
        let board = Board::new(shares.open(None), move |bytes| {
            assert_eq!(bytes, 8);
            kept.lock().unwrap().pop().is_some()
        });
        board.post(Topic::Result(0), news("12345678")).unwrap();
        assert_eq!((shares.held(), board.bytes()), (8, 8));
    }

    #[tokio::test]
    async fn readers_wake_up() {
        let board = Board::new(Shares::new(10).open(None), |_| false);
        let mut watch = board.watch();
        watch.borrow_and_update();
        board.post(Topic::End, news("e")).unwrap();
        watch.changed().await.unwrap();
        board.close();
        watch.changed().await.unwrap();
    }
}
