//! Events that requests hand over. A body of many events, or for several pipelines, is stored in parts, and a sender whose request
//! failed sends the whole body again: the parts that are stored are not stored once more.
//!
//! What of a body is stored is remembered by the hash of its events until a request with it has succeeded. A request runs to its end
//! also if its sender has gone away, so that the repetition finds out what became of it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use super::{PushedEvent, Runner, refusal};
use crate::sources::{BATCH_EVENTS_MAX, Batch, BatchOutcome, SourceEvent, SourceOutput};

/// How long a body whose request failed is remembered: longer than senders wait before they try again.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);
/// Bodies that are remembered; each takes some hundred bytes. The oldest are dropped.
const REMEMBERED_MAX: usize = 10_000;

type Hash = [u8; 32];

/// Bodies that are being stored, or are stored in part.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    by_hash: Mutex<HashMap<Hash, Remembered>>,
}

#[derive(Debug)]
struct Remembered {
    body: Arc<Body>,
    since: Instant,
}

/// A body, as far as it is stored.
#[derive(Debug)]
struct Body {
    /// Outcomes of the parts that are stored. Locked while a request stores the others.
    stored: tokio::sync::Mutex<Vec<Option<BatchOutcome>>>,
    /// Dropped when the request has its answer, or its sender is gone.
    request: Mutex<Weak<()>>,
}

/// Events for one pipeline that are stored at once.
struct Part {
    id: Arc<str>,
    output: SourceOutput,
    events: Vec<PushedEvent>,
}

impl Runner {
    /// Hands events to a pipeline whose source takes them by requests, and waits until they are stored.
    ///
    /// # Errors
    /// [`ErrorKind::ResourceNotFound`]: no such pipeline. [`ErrorKind::IllegalArgument`]: its source is another one.
    /// [`ErrorKind::Rejected`]: it has as many events waiting as it may have; nothing was taken. Other errors are those of the write: the
    /// events may be stored in part. If the same events are submitted again, parts of [`BATCH_EVENTS_MAX`] events that are stored stay so.
    pub async fn submit(&self, id: &str, events: Vec<impl Into<PushedEvent>>) -> Result<BatchOutcome> {
        let events = events.into_iter().map(Into::into).collect();
        self.submit_all(vec![(id.to_owned(), events)]).await
    }

    /// The same with the events of one request for several pipelines.
    ///
    /// # Errors
    /// As [`Runner::submit`].
    pub async fn submit_all(&self, by_pipeline: Vec<(String, Vec<PushedEvent>)>) -> Result<BatchOutcome> {
        let mut parts = Vec::new();
        for (id, mut events) in by_pipeline {
            let (id, output) = (Arc::from(id.as_str()), self.output(&id)?);
            while !events.is_empty() {
                let rest = events.split_off(events.len().min(BATCH_EVENTS_MAX));
                parts.push(Part {
                    id: Arc::clone(&id),
                    output: output.clone(),
                    events: std::mem::replace(&mut events, rest),
                });
            }
        }
        if parts.len() <= 1 {
            return store(parts, &mut [None]).await;
        }
        let hashed = tokio::task::spawn_blocking(move || (hash(&parts), parts)).await;
        let (hash, parts) = hashed.map_err(|_| failed())?;
        let request = Arc::new(());
        let body = self.bodies.open(hash, parts.len(), &request);
        let storing = tokio::spawn({
            let body = Arc::clone(&body);
            async move { store(parts, &mut body.stored.lock().await).await }
        });
        let sum = storing.await.map_err(|_| failed())??;
        self.bodies.close(&hash, &body);
        drop(request);
        Ok(sum)
    }
}

fn failed() -> Error {
    Error::internal("a request failed because of a bug, see the log")
}

/// Stores the parts that are not stored. If it fails, `stored` says which are.
async fn store(parts: Vec<Part>, stored: &mut [Option<BatchOutcome>]) -> Result<BatchOutcome> {
    let (mut waiting, mut failure) = (Vec::new(), None);
    for (number, part) in parts.into_iter().enumerate() {
        if stored[number].is_some() {
            continue;
        }
        let (done, outcome) = oneshot::channel();
        let sent = match waiting.is_empty() {
            // Nothing of this request waits yet, so it can be refused.
            true => part
                .output
                .try_send(part.batch(done))
                .map_err(|refused| refusal(&part.id, &refused)),
            false => part.output.send(part.batch(done)).await,
        };
        if let Err(error) = sent {
            failure = Some(error);
            break;
        }
        waiting.push((number, part.id, outcome));
    }
    for (number, id, outcome) in waiting {
        let stopped = |_| Error::new(ErrorKind::Unavailable, format!("pipeline [{id}] stops"));
        match outcome.await.map_err(stopped).flatten() {
            Ok(outcome) => stored[number] = Some(outcome),
            Err(error) => drop(failure.get_or_insert(error)),
        }
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    let mut sum = BatchOutcome::default();
    for outcome in stored.iter().flatten() {
        sum.read += outcome.read;
        sum.indexed += outcome.indexed;
        sum.filtered += outcome.filtered;
        sum.dead_lettered += outcome.dead_lettered;
    }
    Ok(sum)
}

impl Part {
    fn batch(&self, done: oneshot::Sender<Result<BatchOutcome>>) -> Batch {
        let now_ns = self.output.now_ns();
        let event = |event: &PushedEvent| SourceEvent {
            bytes: event.bytes.clone(),
            offset: 0,
            received_ns: event.time_ns.unwrap_or(now_ns),
            context: event.context.clone(),
            stored_at: None,
        };
        Batch {
            partition: None,
            events: self.events.iter().map(event).collect(),
            first_offset: 0,
            last_offset: 0,
            retries: false,
            note: None,
            done: Some(done),
        }
    }
}

fn hash(parts: &[Part]) -> Hash {
    let mut hasher = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_be_bytes());
        hasher.update(bytes);
    };
    for part in parts {
        add(part.id.as_bytes());
        add(&part.events.len().to_be_bytes());
        for event in &part.events {
            add(&event.bytes);
            add(&event.time_ns.map_or([0; 8], i64::to_be_bytes));
            add(event.context.as_deref().unwrap_or_default());
        }
    }
    hasher.finalize().into()
}

impl Bodies {
    /// Returns the body of a request: a new one, or that of an earlier request with the same events that has failed, or whose sender is
    /// gone. While another request with the same events has a sender, they are two bodies.
    fn open(&self, hash: Hash, parts: usize, request: &Arc<()>) -> Arc<Body> {
        let now = Instant::now();
        let mut by_hash = self.by_hash.lock();
        by_hash.retain(|_, remembered| now.saturating_duration_since(remembered.since) < REMEMBERED_FOR);
        if let Some(earlier) = by_hash.get_mut(&hash) {
            let mut sender = earlier.body.request.lock();
            if sender.upgrade().is_none() {
                *sender = Arc::downgrade(request);
                earlier.since = now;
                drop(sender);
                return Arc::clone(&earlier.body);
            }
        }
        let body = Arc::new(Body {
            stored: tokio::sync::Mutex::new(vec![None; parts]),
            request: Mutex::new(Arc::downgrade(request)),
        });
        if by_hash.contains_key(&hash) {
            return body;
        }
        if by_hash.len() >= REMEMBERED_MAX
            && let Some(oldest) = by_hash.iter().min_by_key(|(_, remembered)| remembered.since)
        {
            let oldest = *oldest.0;
            by_hash.remove(&oldest);
        }
        let remembered = Remembered {
            body: Arc::clone(&body),
            since: now,
        };
        by_hash.insert(hash, remembered);
        body
    }

    /// Forgets a body that is stored as a whole.
    fn close(&self, hash: &Hash, body: &Arc<Body>) {
        let mut by_hash = self.by_hash.lock();
        if by_hash
            .get(hash)
            .is_some_and(|remembered| Arc::ptr_eq(&remembered.body, body))
        {
            by_hash.remove(hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use async_trait::async_trait;
    use bytes::Bytes;
    use firn_engine::Scope;
    use firn_engine::document::{BulkItemResponse, BulkRequest, BulkResponse, Effect, Operation, Written};
    use firn_engine::origin::SourcePosition;
    use serde_json::{Value, json};
    use tokio::sync::Notify;

    use super::super::{Connectors, Destination};
    use super::*;

    /// Destination that counts what it stores.
    #[derive(Default)]
    struct Counting {
        stored: Mutex<BTreeMap<(String, Vec<u8>), usize>>,
        /// Fails bulks with an event that contains this.
        failing: Mutex<Option<&'static str>>,
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
            if let Some(text) = failing
                && sources
                    .iter()
                    .any(|(_, source)| String::from_utf8_lossy(source).contains(text))
            {
                return Err(Error::new(ErrorKind::Unavailable, "not now"));
            }
            let mut response = BulkResponse::default();
            for place in sources {
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

    #[test]
    fn a_body_continues_once_its_request_has_ended() {
        let bodies = Bodies::default();
        let (first, second) = (Arc::new(()), Arc::new(()));
        let one = bodies.open([1; 32], 3, &first);
        let twin = bodies.open([1; 32], 3, &second);
        assert!(!Arc::ptr_eq(&one, &twin), "two senders have sent the same");
        bodies.close(&[1; 32], &twin);
        assert!(!Arc::ptr_eq(&one, &bodies.open([2; 32], 3, &second)));
        drop(first);
        let again = bodies.open([1; 32], 3, &second);
        assert!(Arc::ptr_eq(&one, &again));
        bodies.close(&[1; 32], &again);
        drop(second);
        assert!(
            !Arc::ptr_eq(&one, &bodies.open([1; 32], 3, &Arc::new(()))),
            "it was stored"
        );
    }

    #[test]
    fn the_number_of_bodies_is_bounded() {
        let bodies = Bodies::default();
        for number in 0..REMEMBERED_MAX + 10 {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&number.to_be_bytes());
            bodies.open(hash, 2, &Arc::new(()));
        }
        assert_eq!(bodies.by_hash.lock().len(), REMEMBERED_MAX);
    }
}
