//! A data stream of records: its template, its queue, and the task that writes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firn_engine::document::{BulkItem, BulkRequest, Expectation, Operation, Refresh};
use firn_engine::{Engine, ErrorKind, RequestContext, Result};
use firn_model::metadata::Command;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use crate::clock::now_ms;

/// Maximum of queued records: some seconds of thousands of requests a second, at most 16 MB with records of 1 KB.
const QUEUE_MAX: usize = 16_384;
/// Maximum of records in one write: a bulk of some MB.
const BATCH_MAX: usize = 4096;
/// How long the first record of a batch waits for more.
const BATCH_EVERY: Duration = Duration::from_secs(1);
/// Pause before a refused write is repeated.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// Higher than priorities of users, so that no template for `*` or `.*` changes these streams.
const PRIORITY: u64 = 1_000_000;

/// Definition of a stream.
pub(super) struct Definition {
    pub(super) name: &'static str,
    /// Description for people who find the stream.
    pub(super) description: &'static str,
    /// `index.period`.
    pub(super) period: &'static str,
    pub(super) properties: Value,
    /// Creates the record that `count` records were lost.
    pub(super) lost: fn(count: u64) -> Value,
}

impl Definition {
    fn template(&self, retention: Duration) -> Value {
        json!({
            "index_patterns": [self.name],
            "priority": PRIORITY,
            "data_stream": {"hidden": true},
            "template": {
                "settings": {
                    "index.number_of_shards": 1,
                    "index.hidden": true,
                    "index.period": self.period,
                },
                // Fields that a later version adds and this one does not know are stored, but not searchable.
                "mappings": {"dynamic": false, "properties": self.properties},
                "lifecycle": {"data_retention": print_retention(retention)},
            },
            "_meta": {"managed": true, "description": self.description},
        })
    }
}

/// Queue of a stream.
pub(super) struct Stream {
    name: &'static str,
    queue: mpsc::Sender<Vec<u8>>,
    written: AtomicU64,
    lost: AtomicU64,
    closing: Notify,
}

impl Stream {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Queues a record, or counts it as lost if the queue is full: the caller has a request to answer.
    pub(super) fn put(&self, record: Value) {
        let bytes = serde_json::to_vec(&record).expect("a tree is JSON");
        if self.queue.try_send(bytes).is_err() {
            self.lose(1);
        }
    }

    fn lose(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the records written since the start.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Returns the records lost since the start.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Makes the task write the queued records, and end.
    pub(super) fn close(&self) {
        self.closing.notify_one();
    }
}

/// Writes a stream.
pub(super) struct Writer {
    stream: Arc<Stream>,
    queue: mpsc::Receiver<Vec<u8>>,
    engine: Arc<dyn Engine>,
    /// Creates the stream before its first record is written; `None` afterwards.
    template: Option<Command>,
    lost: fn(count: u64) -> Value,
    /// Lost records that the stream already reports.
    lost_written: u64,
}

impl Writer {
    /// Creates a stream and its writer. Nothing is created in the engine before the first record.
    pub(super) fn new(definition: Definition, retention: Duration, engine: Arc<dyn Engine>) -> (Arc<Stream>, Self) {
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        let stream = Arc::new(Stream {
            name: definition.name,
            queue: sender,
            written: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            closing: Notify::new(),
        });
        let writer = Self {
            stream: Arc::clone(&stream),
            queue,
            engine,
            template: Some(Command::PutIndexTemplate {
                name: definition.name.to_owned(),
                body: definition.template(retention),
                create: false,
            }),
            lost: definition.lost,
            lost_written: 0,
        };
        (stream, writer)
    }

    /// Writes until the stream is closed and the queue is empty.
    pub(super) async fn run(mut self) {
        let mut batch = Vec::new();
        while self.fill(&mut batch).await {
            self.say_what_is_lost(&mut batch);
            self.write(std::mem::take(&mut batch)).await;
        }
    }

    /// Waits for records, and a while for more. Returns false if there will be none.
    async fn fill(&mut self, batch: &mut Vec<Vec<u8>>) -> bool {
        if self.receive(batch).await == 0 {
            return false;
        }
        let mut enough = std::pin::pin!(tokio::time::sleep(BATCH_EVERY));
        while batch.len() < BATCH_MAX {
            let received = tokio::select! {
                received = self.receive(batch) => received,
                () = &mut enough => break,
            };
            if received == 0 {
                break;
            }
        }
        true
    }

    /// Receives at least one record; returns 0 after the stream was closed and is empty.
    async fn receive(&mut self, batch: &mut Vec<Vec<u8>>) -> usize {
        let room = BATCH_MAX.saturating_sub(batch.len()).max(1);
        tokio::select! {
            biased;
            () = self.stream.closing.notified() => {
                self.queue.close();
                self.queue.recv_many(batch, room).await
            }
            received = self.queue.recv_many(batch, room) => received,
        }
    }

    fn say_what_is_lost(&mut self, batch: &mut Vec<Vec<u8>>) {
        let lost = self.stream.lost();
        let news = lost - self.lost_written;
        if news == 0 {
            return;
        }
        tracing::error!(
            stream = self.stream.name,
            lost = news,
            "records of requests are lost: they arrived faster than they could be written"
        );
        let mut record = (self.lost)(news);
        record["@timestamp"] = now_ms().into();
        batch.push(serde_json::to_vec(&record).expect("a tree is JSON"));
        self.lost_written = lost;
    }

    /// Retries until the engine accepts the records or the server stops.
    async fn write(&mut self, mut batch: Vec<Vec<u8>>) {
        loop {
            batch = match self.try_write(&batch).await {
                Ok(again) if again.is_empty() => return,
                Ok(again) => again,
                Err(error) => {
                    tracing::warn!(stream = self.stream.name, %error, "cannot write records of requests, retrying");
                    batch
                }
            };
            if self.queue.is_closed() {
                self.stream.lose(batch.len() as u64);
                tracing::error!(
                    stream = self.stream.name,
                    lost = batch.len(),
                    "records of requests are lost: the server is stopping"
                );
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_EVERY) => {}
                // One more attempt, and no other after it.
                () = self.stream.closing.notified() => self.queue.close(),
            }
        }
    }

    /// Writes a batch and returns the records that have to be retried.
    async fn try_write(&mut self, batch: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let ctx = RequestContext::new();
        if let Some(template) = &self.template {
            self.engine.execute(&ctx, template.clone()).await?;
            self.template = None;
        }
        let item = |source: &Vec<u8>| BulkItem {
            index: self.stream.name.to_owned(),
            id: None,
            routing: None,
            operation: Operation::Create {
                source: source.clone().into(),
            },
            expect: Expectation::Any,
            require_alias: false,
            require_data_stream: true,
        };
        let request = BulkRequest {
            items: batch.iter().map(item).collect(),
            refresh: Refresh::No,
            timeout: None,
            origin: None,
        };
        let response = self.engine.bulk(&ctx, request).await?;
        let mut again = Vec::new();
        for (source, item) in batch.iter().zip(response.items) {
            match item.result {
                Ok(_) => drop(self.stream.written.fetch_add(1, Ordering::Relaxed)),
                Err(error) if may_pass(error.kind()) => again.push(source.clone()),
                Err(error) => {
                    self.stream.lose(1);
                    tracing::error!(stream = self.stream.name, %error, "cannot write a record of a request");
                }
            }
        }
        Ok(again)
    }
}

/// Prints a retention in Elasticsearch's format: `30d`, or seconds if it is no whole number of days.
fn print_retention(retention: Duration) -> String {
    const DAY_SECONDS: u64 = 24 * 60 * 60;
    match retention.as_secs().max(1) {
        seconds if seconds.is_multiple_of(DAY_SECONDS) => format!("{}d", seconds / DAY_SECONDS),
        seconds => format!("{seconds}s"),
    }
}

/// Whether the same write may succeed later.
fn may_pass(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Rejected | ErrorKind::DiskFull | ErrorKind::CircuitBreaking | ErrorKind::Timeout
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retention_is_printed_in_days_where_it_can() {
        let check = |seconds, expect: &str| assert_eq!(print_retention(Duration::from_secs(seconds)), expect);
        check(30 * 86_400, "30d");
        check(90_000, "90000s");
        check(0, "1s");
    }
}
