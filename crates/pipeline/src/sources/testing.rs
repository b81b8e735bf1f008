//! Pipeline of a test: stores what a source delivers, each event once, as the engine does.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use firn_engine::origin::{SourcePosition, SourceTotals};
use firn_model::Result;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::{BatchOutcome, Positions, Received, Resume, Source, SourceCounters, SourceOutput, channel};

/// What was stored; shared by the runs of a source.
#[derive(Debug, Default)]
pub(super) struct Stored {
    by_place: Mutex<BTreeMap<(String, u64), Bytes>>,
    resume: Mutex<HashMap<String, Resume>>,
    /// Records of batches without a partition.
    live: Mutex<Vec<Bytes>>,
    /// How long a batch takes.
    delay: Mutex<Duration>,
}

#[async_trait]
impl Positions for Stored {
    async fn resume_offset(&self, partition: &str) -> Result<Option<u64>> {
        Ok(self.resume.lock().get(partition).map(|resume| resume.offset))
    }

    async fn resume(&self, partition: &str) -> Result<Option<Resume>> {
        Ok(self.resume.lock().get(partition).cloned())
    }

    async fn all(&self) -> Result<Vec<SourcePosition>> {
        let position = |(partition, resume): (&String, &Resume)| SourcePosition {
            partition: partition.clone(),
            resume_offset: resume.offset,
            complete_offset: None,
            totals: SourceTotals::default(),
            note: resume.note.clone(),
        };
        Ok(self.resume.lock().iter().map(position).collect())
    }

    async fn forget(&self, partitions: &[String]) -> Result<()> {
        self.resume
            .lock()
            .retain(|partition, _| !partitions.contains(partition));
        Ok(())
    }
}

impl Stored {
    fn take(&self, received: Received) {
        let batch = received.batch;
        let read = batch.events.len() as u64;
        match &batch.partition {
            None => self
                .live
                .lock()
                .extend(batch.events.into_iter().map(|event| event.bytes)),
            Some(partition) => {
                let partition = partition.to_string();
                for event in batch.events {
                    assert!((batch.first_offset..=batch.last_offset).contains(&event.offset));
                    let before = self
                        .by_place
                        .lock()
                        .insert((partition.clone(), event.offset), event.bytes.clone());
                    assert!(
                        before.is_none_or(|before| before == event.bytes),
                        "an offset has two events"
                    );
                }
                let resume = Resume {
                    offset: batch.last_offset + 1,
                    note: batch.note,
                };
                self.resume.lock().insert(partition, resume);
            }
        }
        let outcome = BatchOutcome {
            read,
            indexed: read,
            ..BatchOutcome::default()
        };
        if let Some(done) = batch.done {
            let _ = done.send(Ok(outcome));
        }
    }

    /// Sets how long each batch takes.
    pub(super) fn set_delay(&self, delay: Duration) {
        *self.delay.lock() = delay;
    }

    /// Whether a record ends with these bytes.
    pub(super) fn has_end(&self, end: &str) -> bool {
        let ends = |record: &Bytes| record.ends_with(end.as_bytes());
        self.live.lock().iter().any(ends) || self.by_place.lock().values().any(ends)
    }

    /// Makes the source read its last batch of each partition again, as an engine that was killed does.
    pub(super) fn resume_earlier(&self, offset: u64) {
        for resume in self.resume.lock().values_mut() {
            resume.offset = resume.offset.min(offset);
        }
    }

    /// Sets a position as older versions stored it, without a note.
    pub(super) fn set_position(&self, partition: String, offset: u64) {
        self.resume.lock().insert(partition, Resume { offset, note: None });
    }

    /// Returns the partitions that have positions, sorted.
    pub(super) fn partitions(&self) -> Vec<String> {
        let mut partitions: Vec<String> = self.resume.lock().keys().cloned().collect();
        partitions.sort_unstable();
        partitions
    }

    /// Returns the stored records, sorted.
    pub(super) fn records(&self) -> Vec<String> {
        let mut records: Vec<String> = self.live.lock().iter().map(text).collect();
        records.extend(self.by_place.lock().values().map(text));
        records.sort_unstable();
        records
    }

    pub(super) fn count(&self) -> usize {
        self.live.lock().len() + self.by_place.lock().len()
    }
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A running source.
pub(super) struct Run {
    pub(super) stored: Arc<Stored>,
    pub(super) counters: Arc<SourceCounters>,
    stop: watch::Sender<bool>,
    /// Whether batches are taken.
    open: watch::Sender<bool>,
    source: JoinHandle<Result<()>>,
    taking: JoinHandle<()>,
}

impl Run {
    pub(super) fn start(source: Box<dyn Source>, stored: &Arc<Stored>) -> Self {
        Self::start_with(stored, 1 << 20, |output| source.run(output))
    }

    /// Runs `source` over a channel of `bytes_max` bytes.
    pub(super) fn start_with<F>(stored: &Arc<Stored>, bytes_max: usize, source: impl FnOnce(SourceOutput) -> F) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let (stop, stopped) = watch::channel(false);
        let (open, opened) = watch::channel(true);
        let counters = Arc::new(SourceCounters::default());
        let positions = Arc::clone(stored) as Arc<dyn Positions>;
        let (output, batches) = channel(bytes_max, positions, Arc::clone(&counters), Arc::new(|| 7), stopped);
        Self {
            stored: Arc::clone(stored),
            counters,
            stop,
            open,
            source: tokio::spawn(source(output)),
            taking: tokio::spawn(take(batches, opened, Arc::clone(stored))),
        }
    }

    /// Takes batches, or none.
    pub(super) fn take_batches(&self, takes: bool) {
        self.open.send_replace(takes);
    }

    pub(super) async fn wait_for_count(&self, count: usize) {
        wait_for(&format!("{count} events"), || self.stored.count() >= count).await;
        assert_eq!(self.stored.count(), count);
    }

    /// Stops the source, takes what it still delivers, and returns how it ended.
    pub(super) async fn stop(self) -> Result<()> {
        self.stop.send_replace(true);
        let ended = self.source.await.expect("the source does not panic");
        self.taking.await.expect("no event is wrong");
        ended
    }

    /// Ends the source at once, as a kill does.
    pub(super) async fn kill(self) {
        self.source.abort();
        self.taking.abort();
        let _ = self.source.await;
        let _ = self.taking.await;
    }
}

async fn take(mut batches: mpsc::Receiver<Received>, mut open: watch::Receiver<bool>, stored: Arc<Stored>) {
    loop {
        // An error means that the test has ended.
        if open.wait_for(|open| *open).await.is_err() {
            return;
        }
        let Some(received) = batches.recv().await else { return };
        if open.wait_for(|open| *open).await.is_err() {
            return;
        }
        let delay = *stored.delay.lock();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        stored.take(received);
    }
}

pub(super) async fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not come within 20 s");
}
