//! Events that requests hand over. A body of many events, or for several pipelines, is stored in parts, and a sender whose request
//! failed sends the whole body again: the parts that are stored are not stored once more.
//!
//! What of a body is stored is remembered by the hash of its events until a request with it has succeeded. A request runs to its end
//! also if its sender has gone away, so that the repetition finds out what became of it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde_json::Map;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use crate::sources::{BATCH_EVENTS_MAX, Batch, BatchOutcome, SendRefused, SourceEvent, SourceOutput, StoredEvents};

/// How long a body whose request failed is remembered: longer than senders wait before they try again.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);
/// Bodies that are remembered; each takes some hundred bytes, and a bit for each event. The oldest are dropped.
const REMEMBERED_MAX: usize = 10_000;

/// What a sender that was refused is told to wait.
const RETRY_AFTER_SECONDS: u64 = 1;

type Hash = [u8; 32];

/// Event that a request hands over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushedEvent {
    /// The record.
    pub bytes: Bytes,
    /// Time of the event as its protocol states it, nanoseconds since the epoch; `None`: the time of arrival.
    pub time_ns: Option<i64>,
    /// See [`SourceEvent::context`].
    pub context: Option<Bytes>,
}

impl From<Bytes> for PushedEvent {
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }
}

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
    /// Its parts. Locked while a request stores them.
    stored: tokio::sync::Mutex<Vec<Stored>>,
    /// Dropped when the request has its answer, or its sender is gone.
    request: Mutex<Weak<()>>,
}

/// How far a part is stored.
#[derive(Debug, Default)]
struct Stored {
    /// `None`: some events are not stored.
    outcome: Option<BatchOutcome>,
    /// `None`: the part is the whole request, and no later one continues it.
    events: Option<StoredEvents>,
}

impl Stored {
    /// Returns a part of several, of which nothing is stored.
    fn new() -> Self {
        Self {
            events: Some(StoredEvents::default()),
            ..Self::default()
        }
    }
}

/// Events for one pipeline that are stored at once.
struct Part {
    id: Arc<str>,
    output: SourceOutput,
    events: Vec<PushedEvent>,
}

impl Bodies {
    /// Stores the events of one request, by the ids of their pipelines.
    pub(super) async fn submit(
        &self,
        by_pipeline: Vec<(String, SourceOutput, Vec<PushedEvent>)>,
    ) -> Result<BatchOutcome> {
        let mut parts = Vec::new();
        for (id, output, mut events) in by_pipeline {
            let id: Arc<str> = id.into();
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
            return store(parts, &mut [Stored::default()]).await;
        }
        let hashed = tokio::task::spawn_blocking(move || (hash(&parts), parts)).await;
        let (hash, parts) = hashed.map_err(|_| failed())?;
        let request = Arc::new(());
        let body = self.open(hash, parts.len(), &request);
        let storing = tokio::spawn({
            let body = Arc::clone(&body);
            async move { store(parts, &mut body.stored.lock().await).await }
        });
        let sum = storing.await.map_err(|_| failed())??;
        self.close(&hash, &body);
        drop(request);
        Ok(sum)
    }
}

fn failed() -> Error {
    Error::internal("a request failed because of a bug, see the log")
}

/// Stores the parts that are not stored. If it fails, `stored` says which are.
async fn store(parts: Vec<Part>, stored: &mut [Stored]) -> Result<BatchOutcome> {
    let (mut waiting, mut failure) = (Vec::new(), None);
    for (number, part) in parts.into_iter().enumerate() {
        if stored[number].outcome.is_some() {
            continue;
        }
        let events = stored[number].events.clone();
        let (done, outcome) = oneshot::channel();
        let sent = match waiting.is_empty() {
            // Nothing of this request waits yet, so it can be refused.
            true => part
                .output
                .try_send(part.batch(events, done))
                .map_err(|refused| refusal(&part.id, &refused)),
            false => part.output.send(part.batch(events, done)).await,
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
            Ok(outcome) => stored[number].outcome = Some(outcome),
            Err(error) => drop(failure.get_or_insert(error)),
        }
    }
    if let Some(failure) = failure {
        return Err(match failure.kind() {
            // The block will pass: a sender must keep the events, and does not after a 403.
            ErrorKind::IndexBlocked => Error::new(ErrorKind::Unavailable, failure.reason().to_owned()),
            _ => failure,
        });
    }
    let mut sum = BatchOutcome::default();
    for outcome in stored.iter().filter_map(|part| part.outcome.as_ref()) {
        sum.read += outcome.read;
        sum.indexed += outcome.indexed;
        sum.filtered += outcome.filtered;
        sum.dead_lettered += outcome.dead_lettered;
    }
    Ok(sum)
}

impl Part {
    fn batch(&self, stored: Option<StoredEvents>, done: oneshot::Sender<Result<BatchOutcome>>) -> Batch {
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
            stored,
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
            stored: tokio::sync::Mutex::new((0..parts).map(|_| Stored::new()).collect()),
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

fn refusal(id: &str, refused: &SendRefused) -> Error {
    match refused {
        SendRefused::Full(_) => Error::new(
            ErrorKind::Rejected,
            format!("pipeline [{id}] has as many events waiting as it may have"),
        )
        .with_details(Map::from_iter([(
            "retry_after_seconds".to_owned(),
            RETRY_AFTER_SECONDS.into(),
        )])),
        SendRefused::Stopped => Error::new(ErrorKind::Unavailable, format!("pipeline [{id}] stops")),
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use tokio::sync::watch;

    use super::*;
    use crate::sources::{Positions, channel};

    struct NoPositions;

    #[async_trait]
    impl Positions for NoPositions {
        async fn resume_offset(&self, _: &str) -> Result<Option<u64>> {
            Ok(None)
        }
    }

    #[tokio::test]
    async fn only_requests_in_parts_remember_which_events_are_stored() {
        let (_stop, stopped) = watch::channel(false);
        let (output, mut batches) = channel(1 << 20, Arc::new(NoPositions), Arc::default(), Arc::new(|| 7), stopped);
        let bodies = Bodies::default();
        for (parts, remembers) in [(1, false), (2, true)] {
            let event = || PushedEvent::from(Bytes::from_static(b"{}"));
            let by_pipeline = (0..parts).map(|part: u64| (part.to_string(), output.clone(), vec![event()]));
            let taking = async {
                for _ in 0..parts {
                    let batch = batches.recv().await.unwrap().batch;
                    assert_eq!(batch.stored.is_some(), remembers);
                    let outcome = BatchOutcome {
                        read: 1,
                        ..BatchOutcome::default()
                    };
                    batch.done.unwrap().send(Ok(outcome)).unwrap();
                }
            };
            let (outcome, ()) = tokio::join!(bodies.submit(by_pipeline.collect()), taking);
            assert_eq!(outcome.unwrap().read, parts);
        }
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
