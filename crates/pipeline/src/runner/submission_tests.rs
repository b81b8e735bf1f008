//! Requests with many events, over a destination that fails.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use firn_engine::Scope;
use firn_engine::document::{BulkItemResponse, BulkRequest, BulkResponse, Effect, Operation, Written};
use firn_engine::origin::SourcePosition;
use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{Connectors, Destination, PushedEvent, Runner};
use crate::sources::BATCH_EVENTS_MAX;

/// Destination that counts what it stores.
#[derive(Default)]
struct Counting {
    stored: Mutex<BTreeMap<(String, Vec<u8>), usize>>,
    /// Fails bulks with an event that contains this.
    failing: Mutex<Option<&'static str>>,
    /// Blocks the index after so many events of a bulk.
    blocked_after: Mutex<Option<usize>>,
    /// Most items of a bulk; 0: any number.
    items_max: Mutex<usize>,
    /// Bulks wait while it is set.
    is_closed: Mutex<bool>,
    opened: Notify,
    arrived: Notify,
}

#[async_trait]
impl Destination for Counting {
    async fn bulk(&self, _: &Arc<Scope>, request: BulkRequest) -> Result<BulkResponse> {
        self.arrived.notify_one();
        while *self.is_closed.lock() {
            self.opened.notified().await;
        }
        let sources = request.items.iter().map(|item| match &item.operation {
            Operation::Create { source } => (item.index.clone(), source.to_vec()),
            _ => panic!("events are created"),
        });
        let sources: Vec<(String, Vec<u8>)> = sources.collect();
        let failing = *self.failing.lock();
        let items_max = *self.items_max.lock();
        if items_max > 0 && sources.len() > items_max {
            return Err(Error::new(ErrorKind::TooLarge, "too many"));
        }
        if let Some(text) = failing
            && sources
                .iter()
                .any(|(_, source)| String::from_utf8_lossy(source).contains(text))
        {
            return Err(Error::new(ErrorKind::Unavailable, "not now"));
        }
        let mut response = BulkResponse::default();
        let blocked_after = self.blocked_after.lock().unwrap_or(usize::MAX);
        for (number, place) in sources.into_iter().enumerate() {
            if number >= blocked_after {
                response.items.push(BulkItemResponse {
                    index: place.0,
                    id: String::new(),
                    result: Err(Error::new(ErrorKind::IndexBlocked, "index [one] blocked")),
                });
                continue;
            }
            response.items.push(BulkItemResponse {
                index: place.0.clone(),
                id: String::new(),
                result: Ok(Written {
                    effect: Effect::Created,
                    version: 1,
                    seq_no: 0,
                    primary_term: 1,
                    forced_refresh: false,
                    get: None,
                }),
            });
            *self.stored.lock().entry(place).or_default() += 1;
        }
        Ok(response)
    }

    async fn resume_offset(&self, _: &str, _: &str) -> Result<Option<u64>> {
        Ok(None)
    }

    async fn settle(&self, _: &str, _: &str, _: u64) {}

    async fn source_positions(&self, _: &str) -> Result<Vec<SourcePosition>> {
        Ok(Vec::new())
    }

    async fn create_template(&self, _: &str, _: &Value) -> Result<()> {
        Ok(())
    }
}

impl Counting {
    /// Returns how many different events are stored, and how often the most frequent one.
    fn stored(&self) -> (usize, usize) {
        let stored = self.stored.lock();
        (stored.len(), stored.values().copied().max().unwrap_or(0))
    }
}

async fn runner(destination: &Arc<Counting>) -> Arc<Runner> {
    let connectors = Connectors::of_sources(Arc::new(|_| Err(Error::internal("no source"))));
    let runner = Runner::new(
        Arc::clone(destination) as Arc<dyn Destination>,
        connectors,
        Arc::new(|| 7),
        2,
    );
    let body = |index: &str| {
        let body = json!({"source": {"type": "http"}, "index": index});
        Arc::new(body.as_object().unwrap().clone())
    };
    runner
        .apply(&BTreeMap::from([
            ("one".to_owned(), body("one")),
            ("two".to_owned(), body("two")),
        ]))
        .await;
    runner
}

fn events(numbers: std::ops::Range<usize>) -> Vec<PushedEvent> {
    numbers
        .map(|n| Bytes::from(format!("{{\"@timestamp\":0,\"n\":{n}}}")).into())
        .collect()
}

#[tokio::test]
async fn a_body_that_is_sent_again_is_stored_once() {
    let destination = Arc::new(Counting::default());
    let runner = runner(&destination).await;
    // Three parts; the second one fails.
    let end = 2 * BATCH_EVENTS_MAX + 5;
    *destination.failing.lock() = Some("\"n\":15000}");
    for _ in 0..2 {
        let failed = runner.submit("one", events(0..end)).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Unavailable);
        assert_eq!(destination.stored(), (BATCH_EVENTS_MAX + 5, 1));
    }
    *destination.failing.lock() = None;
    let outcome = runner.submit("one", events(0..end)).await.unwrap();
    assert_eq!((outcome.read, outcome.indexed), (end as u64, end as u64));
    assert_eq!(destination.stored(), (end, 1));
    // It has succeeded: the same events are others now.
    runner.submit("one", events(0..end)).await.unwrap();
    assert_eq!(destination.stored(), (end, 2));
    runner.stop().await;
}

#[tokio::test]
async fn a_part_of_which_some_events_are_stored_is_stored_once() {
    let destination = Arc::new(Counting::default());
    let runner = runner(&destination).await;
    let end = 2 * BATCH_EVENTS_MAX + 5;
    *destination.blocked_after.lock() = Some(4096);
    for attempt in 1..=2 {
        let failed = runner.submit("one", events(0..end)).await.unwrap_err();
        // A block will pass: senders keep the events then.
        assert_eq!(failed.kind(), ErrorKind::Unavailable, "{failed}");
        assert_eq!(destination.stored(), (2 * 4096 * attempt + 5, 1));
    }
    *destination.blocked_after.lock() = None;
    let outcome = runner.submit("one", events(0..end)).await.unwrap();
    assert_eq!((outcome.read, outcome.indexed), (end as u64, end as u64));
    assert_eq!(destination.stored(), (end, 1));
    runner.stop().await;
}

#[tokio::test]
async fn a_part_that_is_written_in_halves_is_stored_once() {
    let destination = Arc::new(Counting::default());
    let runner = runner(&destination).await;
    let end = BATCH_EVENTS_MAX + 5;
    *destination.items_max.lock() = BATCH_EVENTS_MAX / 2;
    // In the second half of the first part.
    *destination.failing.lock() = Some("\"n\":7000}");
    for _ in 0..2 {
        runner.submit("one", events(0..end)).await.unwrap_err();
        assert_eq!(destination.stored(), (BATCH_EVENTS_MAX / 2 + 5, 1));
    }
    *destination.failing.lock() = None;
    let outcome = runner.submit("one", events(0..end)).await.unwrap();
    assert_eq!((outcome.read, outcome.indexed), (end as u64, end as u64));
    assert_eq!(destination.stored(), (end, 1));
    runner.stop().await;
}

#[tokio::test]
async fn a_request_for_two_pipelines_is_one_body() {
    let destination = Arc::new(Counting::default());
    let runner = runner(&destination).await;
    let both = || vec![("one".to_owned(), events(0..3)), ("two".to_owned(), events(3..6))];
    *destination.failing.lock() = Some("\"n\":4}");
    runner.submit_all(both()).await.unwrap_err();
    assert_eq!(destination.stored(), (3, 1));
    *destination.failing.lock() = None;
    assert_eq!(runner.submit_all(both()).await.unwrap().indexed, 6);
    assert_eq!(destination.stored(), (6, 1));
    runner.stop().await;
}

#[tokio::test]
async fn a_body_whose_sender_went_away_is_stored_once() {
    let destination = Arc::new(Counting::default());
    let runner = runner(&destination).await;
    let end = BATCH_EVENTS_MAX + 5;
    *destination.is_closed.lock() = true;
    tokio::select! {
        _ = runner.submit("one", events(0..end)) => panic!("the destination waits"),
        () = destination.arrived.notified() => {}
    }
    let again = tokio::spawn({
        let runner = Arc::clone(&runner);
        async move { runner.submit("one", events(0..end)).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    *destination.is_closed.lock() = false;
    destination.opened.notify_waiters();
    assert_eq!(again.await.unwrap().unwrap().indexed, end as u64);
    assert_eq!(destination.stored(), (end, 1));
    runner.stop().await;
}
