//! Delivery of a batch: send, read the response, repeat if it is safe.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Deserialize;

use super::Shared;
use super::batch::{Batch, Shape};
use crate::client::{Answer, Client, Failure};

/// The first pause after a 429; it doubles from there.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Delivers batches; one per thread.
pub(super) struct Sender {
    client: Client,
    path: String,
    repeatable: bool,
    operation: &'static str,
    give_up_after: Duration,
    /// Pauses are random, so that many senders do not retry at the same moment.
    random: Mutex<fastrand::Rng>,
}

/// The used part of a bulk response.
#[derive(Deserialize)]
struct BulkAnswer {
    items: Vec<ItemAnswer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ItemAnswer {
    Index(Outcome),
    Create(Outcome),
    Update(Outcome),
    Delete(Outcome),
}

#[derive(Deserialize)]
struct Outcome {
    status: u16,
    error: Option<serde_json::Value>,
}

impl ItemAnswer {
    fn outcome(&self) -> &Outcome {
        match self {
            Self::Index(outcome) | Self::Create(outcome) | Self::Update(outcome) | Self::Delete(outcome) => outcome,
        }
    }
}

/// Action after one attempt.
enum Next {
    /// Every item has its outcome.
    Done,
    /// These items had no effect, or may be repeated; retry after a pause.
    Again(Batch, Option<Duration>, String),
    /// The server refuses the request as too large.
    Split(Batch),
}

impl Sender {
    pub(super) fn new(client: Client, path: &str, shape: &Shape, give_up_after: Duration, seed: u64) -> Self {
        Self {
            client,
            path: path.to_owned(),
            repeatable: shape.is_repeatable(),
            operation: shape.operation,
            give_up_after,
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
        }
    }

    /// Sends until every item is indexed, rejected or unknown. Problems of the whole run (no permission, no such index)
    /// stop it.
    pub(super) fn deliver(&self, batch: Batch, shared: &Shared) {
        let mut todo = vec![batch];
        while let Some(mut batch) = todo.pop() {
            let started = Instant::now();
            let mut tries = 0u32;
            loop {
                match self.try_once(batch, tries > 0, shared) {
                    Next::Done => break,
                    Next::Split(whole) => {
                        let (first, second) = whole.halves();
                        todo.push(second);
                        todo.push(first);
                        break;
                    }
                    Next::Again(rest, wish, reason) => {
                        let stopping = shared.stopping.load(Ordering::Relaxed);
                        if stopping || started.elapsed() >= self.give_up_after {
                            self.reject_all(&rest, None, "not_sent", &format!("gave up: {reason}"), shared);
                            break;
                        }
                        self.pause(tries, wish, shared);
                        tries += 1;
                        batch = rest;
                    }
                }
            }
        }
    }

    fn try_once(&self, batch: Batch, repeated: bool, shared: &Shared) -> Next {
        let sent = self
            .client
            .send("POST", &self.path, Some(("application/x-ndjson", &batch.body)));
        match sent {
            Ok(answer) if answer.status == 200 => self.read_answer(batch, &answer, repeated, shared),
            // Elasticsearch refuses the whole request before it executes any part of it.
            Ok(answer) if matches!(answer.status, 429 | 503) => {
                let reason = answer.problem();
                Next::Again(batch, answer.retry_after, reason)
            }
            Ok(answer) if answer.status == 413 && batch.items.len() > 1 => Next::Split(batch),
            Ok(answer) if answer.status < 500 => {
                let reason = answer.problem();
                self.reject_all(&batch, Some(answer.status), "request_refused", &reason, shared);
                // One event that is too large does not affect the next one.
                if answer.status != 413 {
                    shared.stop(reason);
                }
                Next::Done
            }
            Ok(answer) => self.unknown(batch, &answer.problem(), shared),
            Err(Failure::NotSent(reason)) => Next::Again(batch, None, reason),
            Err(Failure::Unknown(reason)) => self.unknown(batch, &reason, shared),
        }
    }

    fn read_answer(&self, batch: Batch, answer: &Answer, repeated: bool, shared: &Shared) -> Next {
        let parsed: BulkAnswer = match serde_json::from_slice(&answer.body) {
            Ok(parsed) => parsed,
            Err(error) => return self.unknown(batch, &format!("the response is not a bulk response: {error}"), shared),
        };
        if parsed.items.len() != batch.items.len() {
            let reason = format!(
                "the response has {} items for {} events",
                parsed.items.len(),
                batch.items.len()
            );
            return self.unknown(batch, &reason, shared);
        }
        let mut again = Vec::new();
        let mut reason = String::new();
        let (mut indexed, mut rejected) = (0, 0);
        for (position, (item, answer)) in batch.items.iter().zip(&parsed.items).enumerate() {
            let outcome = answer.outcome();
            match outcome.status {
                200..=299 => indexed += 1,
                // The first attempt of a repeated request had arrived after all.
                409 if repeated && self.repeatable && self.operation == "create" => indexed += 1,
                429 | 503 => {
                    if again.is_empty() {
                        reason = describe(outcome).1;
                    }
                    again.push(position);
                }
                status => {
                    rejected += 1;
                    let (error_type, reason) = describe(outcome);
                    let raw = batch.raw_line(item);
                    if let Err(error) = batch.rejects.write(item.line, Some(status), &error_type, &reason, &raw) {
                        shared.stop(format!("{error:#}"));
                    }
                }
            }
        }
        shared.counters.add_indexed(indexed);
        shared.counters.add_rejected(rejected);
        if again.is_empty() {
            return Next::Done;
        }
        Next::Again(batch.subset(&again), None, reason)
    }

    /// Handles a request that may have been executed.
    fn unknown(&self, batch: Batch, reason: &str, shared: &Shared) -> Next {
        if self.repeatable {
            return Next::Again(batch, None, reason.to_owned());
        }
        shared.counters.add_unknown(batch.items.len() as u64);
        self.write_all(&batch, None, "unknown_outcome", reason, shared);
        Next::Done
    }

    fn reject_all(&self, batch: &Batch, status: Option<u16>, error_type: &str, reason: &str, shared: &Shared) {
        shared.counters.add_rejected(batch.items.len() as u64);
        self.write_all(batch, status, error_type, reason, shared);
    }

    fn write_all(&self, batch: &Batch, status: Option<u16>, error_type: &str, reason: &str, shared: &Shared) {
        for item in &batch.items {
            let raw = batch.raw_line(item);
            if let Err(error) = batch.rejects.write(item.line, status, error_type, reason, &raw) {
                shared.stop(format!("{error:#}"));
                return;
            }
        }
    }

    /// Waits; half of the pause is fixed, half is random. Ends early when the run stops.
    fn pause(&self, tries: u32, wish: Option<Duration>, shared: &Shared) {
        let full = PAUSE_MIN.saturating_mul(1 << tries.min(10)).min(PAUSE_MAX);
        let random = self.random.lock().f64();
        let pause = full
            .mul_f64(0.5 + random / 2.0)
            .max(wish.unwrap_or_default().min(PAUSE_MAX));
        let until = Instant::now() + pause;
        shared.counters.waiting().fetch_add(1, Ordering::Relaxed);
        while !shared.stopping.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        shared.counters.waiting().fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns type and reason of an item's error, with its cause.
fn describe(outcome: &Outcome) -> (String, String) {
    let Some(error) = &outcome.error else {
        return ("unknown".to_owned(), format!("status {}", outcome.status));
    };
    let text = |value: Option<&serde_json::Value>| value.and_then(serde_json::Value::as_str).map(str::to_owned);
    let error_type = text(error.get("type")).unwrap_or_else(|| "unknown".to_owned());
    let mut reason = text(error.get("reason")).unwrap_or_else(|| error.to_string());
    if let Some(cause) = text(error.pointer("/caused_by/reason")) {
        reason = format!("{reason}: {cause}");
    }
    (error_type, reason)
}
