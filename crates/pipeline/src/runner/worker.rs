//! Worker of one pipeline: its source in one task, and the way of each batch from the source to its answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use firn_model::{Error, ErrorKind, Result};
use firn_scheduler::{Flow, Pool};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::connectors::OpenSource;
use super::detection::Rules;
use super::steps::Document;
use super::write::Writer;
use crate::definition::Definition;
use crate::sources::{BATCH_EVENTS_MAX, Batch, BatchOutcome, Received, SourceOutput};

/// Batches of one pipeline that are processed at the same time.
const BATCHES_AT_ONCE: usize = 4;
/// Partitions whose last end is remembered without need.
const ENDS_MAX: usize = 1000;
/// Pause before a source that ended with an error is started again.
const START_AGAIN_AFTER: Duration = Duration::from_secs(1);
const START_AGAIN_AFTER_MAX: Duration = Duration::from_secs(30);

/// Processes the batches of a channel until it closes: batches of different partitions side by side, those of one partition in
/// order.
pub(super) async fn process(writer: Arc<Writer>, pool: Arc<Pool>, mut batches: mpsc::Receiver<Received>) {
    let at_once = Arc::new(Semaphore::new(BATCHES_AT_ONCE));
    // For each partition, the end of its last batch.
    let mut ends: HashMap<Arc<str>, watch::Receiver<Option<End>>> = HashMap::new();
    while let Some(received) = batches.recv().await {
        let Received {
            batch,
            follows_position,
            permit,
        } = received;
        let Ok(running) = Arc::clone(&at_once).acquire_owned().await else {
            return;
        };
        let (ended, end) = watch::channel(None);
        let before = batch
            .partition
            .as_ref()
            .and_then(|partition| ends.insert(Arc::clone(partition), end));
        if ends.len() > ENDS_MAX {
            // Where events are missing, later ones must not be stored before them.
            ends.retain(|_, end| end.borrow().is_none_or(|end| end.missing_from.is_some()));
        }
        let bytes = batch.events.iter().map(|event| event.bytes.len() as u64).sum();
        writer.counters.add_read(batch.events.len() as u64, bytes);
        let (writer, pool) = (Arc::clone(&writer), Arc::clone(&pool));
        tokio::spawn(async move {
            // The steps of a batch run while the batch before is written.
            let mapped = map(&writer, &pool, &batch).await;
            let missing_from = missing_before(&batch, before).await.filter(|_| !follows_position);
            let outcome = match (mapped, missing_from) {
                (Err(error), _) => Err(error),
                (Ok(mapped), None) => store(&writer, &batch, mapped).await,
                // The source delivers both again.
                (Ok(_), Some(_)) => Err(Error::new(
                    ErrorKind::Unavailable,
                    "the batch before in the partition was not stored",
                )),
            };
            let read = batch.events.len() as u64;
            match &outcome {
                Ok(outcome) => writer.counters.add_outcome(outcome),
                Err(_) => drop(writer.counters.refused.fetch_add(read, Ordering::Relaxed)),
            }
            let missing_from = missing_from.or_else(|| outcome.is_err().then_some(batch.first_offset));
            ended.send_replace(Some(End { missing_from }));
            if let Some(done) = batch.done {
                // The source may have given the batch up.
                let _ = done.send(outcome);
            }
            drop((permit, running));
        });
    }
    // All batches have ended when nothing runs any more.
    let _ = at_once.acquire_many(BATCHES_AT_ONCE as u32).await;
}

/// Documents of a batch, and the rules that were evaluated on it.
type Mapped = (Vec<Document>, Option<Arc<Rules>>);

/// How a batch ended.
#[derive(Debug, Clone, Copy)]
struct End {
    /// First offset of the partition that is not stored; `None`: everything before the next batch is.
    missing_from: Option<u64>,
}

/// Waits for the batch before, and returns the first offset that must be delivered before this batch.
async fn missing_before(batch: &Batch, before: Option<watch::Receiver<Option<End>>>) -> Option<u64> {
    let mut before = before?;
    let ended = before.wait_for(Option::is_some).await.map(|end| *end);
    let missing_from = match ended {
        Ok(Some(end)) => end.missing_from?,
        // The task of the batch ended because of a bug: what it stored is unknown.
        _ => return Some(batch.first_offset),
    };
    (missing_from < batch.first_offset).then_some(missing_from)
}

/// Makes the documents of a batch, on a thread of the pool.
async fn map(writer: &Writer, pool: &Pool, batch: &Batch) -> Result<Mapped> {
    if batch.events.len() > BATCH_EVENTS_MAX {
        return Err(Error::internal("a batch of a source has too many events"));
    }
    let (sender, receiver) = oneshot::channel();
    let (steps, counters) = (Arc::clone(&writer.steps), Arc::clone(&writer.counters));
    let (partition, events) = (batch.partition.clone(), batch.events.clone());
    // The bytes of events that wait are bounded by the channel, so the queue of the pool need not refuse.
    pool.spawn_admitted(&Flow::of(&writer.scope), move || {
        let started = Instant::now();
        let mapped = steps.run_with_rules(partition.as_deref(), &events);
        counters
            .map_nanos
            .fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        let _ = sender.send(mapped);
    });
    receiver
        .await
        .map_err(|_| Error::internal("the steps of a pipeline failed because of a bug, see the log"))
}

async fn store(writer: &Writer, batch: &Batch, (documents, rules): Mapped) -> Result<BatchOutcome> {
    if documents.is_empty() && batch.partition.is_none() {
        return Ok(BatchOutcome::default());
    }
    if let Some(rules) = rules {
        writer.note_rules(batch, &documents, &rules).await?;
    }
    writer.store(batch, documents).await
}

/// Runs the source of a pipeline, and starts it again after a pause if it ends.
pub(super) fn run_source(
    definition: Definition,
    open_source: OpenSource,
    writer: Arc<Writer>,
    output: SourceOutput,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut pause = START_AGAIN_AFTER;
        while !output.is_stopped() {
            let counters = &writer.counters;
            counters.is_running.store(true, Ordering::Relaxed);
            let started = Instant::now();
            let (open_source, to_open) = (Arc::clone(&open_source), definition.clone());
            // Reads files of settings and of certificates.
            let opened = tokio::task::spawn_blocking(move || open_source(&to_open)).await;
            let panicked = |_| Err(Error::internal("a source failed because of a bug, see the log"));
            let ended = match opened.unwrap_or_else(panicked) {
                Ok(source) => {
                    *counters.source_error.lock() = None;
                    source.run(output.clone()).await
                }
                Err(error) => Err(error),
            };
            counters.is_running.store(false, Ordering::Relaxed);
            if output.is_stopped() {
                return;
            }
            if let Err(error) = ended {
                tracing::warn!(pipeline = &*writer.steps.id, %error, "the source of a pipeline ended; it is started again");
                *counters.source_error.lock() = Some(error.to_string());
            }
            if started.elapsed() > START_AGAIN_AFTER_MAX {
                pause = START_AGAIN_AFTER;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = output.stopped() => return,
            }
            pause = (pause * 2).min(START_AGAIN_AFTER_MAX);
        }
    })
}
