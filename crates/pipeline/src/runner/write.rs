//! Writes of a pipeline: a batch of documents, again and again until it is stored, and its dead letters.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use firn_detect::without_event;
use firn_engine::Scope;
use firn_engine::document::{BulkItem, BulkRequest, BulkResponse, Expectation, Operation, Refresh};
use firn_engine::origin::Origin;
use firn_model::dates::DateFormat;
use firn_model::{Error, ErrorKind, Result};
use tokio::sync::{Notify, watch};

use super::alert_template;
use super::counters::Counters;
use super::coverage_ledger::{CoverageLedger, Noted};
use super::dead_letter;
use super::destination::Destination;
use super::detection::Rules;
use super::steps::{Document, Steps};
use super::windows::WindowService;
use crate::aggregation::Sample;
use crate::sources::{Batch, BatchOutcome, SourceEvent};

/// Pause before the first repetition of a write, and the longest one.
const RETRY_AFTER: Duration = Duration::from_millis(50);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);
/// Longest pause between attempts at dead letters that their index rejects.
const LETTERS_AGAIN_AFTER_MAX: Duration = Duration::from_secs(60);
/// Added to the partition for the dead letters of events that their index rejected.
pub(super) const REJECTED: &str = "#rejected";

/// Added to the partition for the alerts of its events.
pub(super) const ALERTS: &str = "#alerts";
/// Alerts have offsets of their own: that of their event, moved by so many bits, and their number among those of the event.
const ALERT_BITS: u32 = 20;
/// Most alerts of one bulk, and their bytes.
const ALERTS_AT_ONCE: usize = 1000;
const ALERT_BYTES_AT_ONCE: usize = 4 << 20;

/// Returns the partition of the events whose dead letters a partition holds; another one is returned as it is.
pub fn partition_of_events(partition: &str) -> &str {
    let [letters, alerts] = [REJECTED, ALERTS].map(|mark| partition.split_once(mark));
    letters.or(alerts).map_or(partition, |(events, _)| events)
}

/// What the writes of a pipeline need.
pub(super) struct Writer {
    pub(super) destination: Arc<dyn Destination>,
    pub(super) scope: Arc<Scope>,
    pub(super) steps: Arc<Steps>,
    pub(super) counters: Arc<Counters>,
    pub(super) coverage: CoverageLedger,
    /// `None`: the pipeline has no aggregates.
    pub(super) windows: Option<Arc<WindowService>>,
    /// Notified when alerts were stored.
    pub(super) alerts_stored: Arc<Notify>,
    pub(super) stopped: watch::Receiver<bool>,
}

/// Alert on its way.
struct Alert {
    full: Entry,
    /// Its document without the copy of the event.
    reduced: Bytes,
}

/// Document on its way, with its place in the batch.
#[derive(Clone)]
struct Entry {
    index: String,
    offset: u64,
    source: Bytes,
}

/// Place of a write among those of a batch.
#[derive(Clone, Copy)]
struct Follow<'a> {
    /// Added to the partition.
    mark: &'a str,
    /// Whether alerts or windows of the same events are written after it.
    more_follows: bool,
}

impl<'a> Follow<'a> {
    /// Returns the place of the events.
    fn of(writer: &Writer, documents: &[Document]) -> Self {
        let has_alerts = documents.iter().any(|document| !document.alerts.is_empty());
        Self {
            mark: "",
            more_follows: has_alerts || writer.windows.is_some(),
        }
    }

    /// Returns the place of what is written because of them.
    fn mark(mark: &'a str) -> Self {
        Self {
            mark,
            more_follows: false,
        }
    }
}

/// What became of the items of a write.
struct Written {
    /// Places of those that were rejected for good, with the errors, sorted by place.
    rejected: Vec<(usize, Error)>,
    /// Index and id of the others. The id of one that an earlier attempt stored is empty.
    stored: Vec<Option<(String, String)>>,
}

impl Writer {
    /// Fails if the pipeline reads events that are stored already: there is nothing to store again.
    pub(super) fn check_stores(&self) -> Result<()> {
        let id = &self.steps.id;
        match self.steps.stores_events {
            true => Ok(()),
            false => Err(Error::illegal_argument(format!("pipeline [{id}] stores no events"))),
        }
    }

    /// Records which rules were evaluated on a batch, before it is stored.
    pub(super) async fn note_rules(&self, batch: &Batch, documents: &[Document], rules: &Rules) -> Result<()> {
        let Some(first) = batch.events.first() else {
            return Ok(());
        };
        let noted = Noted {
            partition: batch.partition.as_deref().unwrap_or_default(),
            offset: batch.first_offset,
            last_offset: batch.last_offset,
            received_ns: first.received_ns,
            times_ms: match rules.skipped.is_empty() {
                true => None,
                false => times_ms(documents),
            },
        };
        let mut pause = RETRY_AFTER;
        loop {
            let Err(failure) = self.coverage.note(noted, rules.recorded()).await else {
                return Ok(());
            };
            *self.counters.write_error.lock() = Some(failure.to_string());
            if !batch.retries {
                return Err(failure);
            }
            self.pause(pause, failure).await?;
            pause = (pause * 2).min(RETRY_AFTER_MAX);
        }
    }

    /// Stores the documents of a batch, one for each event, and the dead letters among them: at once, or in halves if they are more
    /// than the destination takes at once. A half has its dead letters stored before the next one is sent, since that moves the
    /// position.
    pub(super) async fn store(&self, batch: &Batch, documents: Vec<Document>) -> Result<BatchOutcome> {
        let mut sum = BatchOutcome::default();
        // Places that are not stored, the first ones last.
        let mut parts: Vec<Range<usize>> = std::iter::once(0..documents.len()).collect();
        while let Some(place) = parts.pop() {
            let part = (place.len() < documents.len()).then(|| part_of(batch, &place));
            let part = part.as_ref().unwrap_or(batch);
            match self.store_at_once(part, &documents[place.clone()]).await {
                Ok(outcome) => {
                    sum.read += outcome.read;
                    sum.indexed += outcome.indexed;
                    sum.filtered += outcome.filtered;
                    sum.dead_lettered += outcome.dead_lettered;
                }
                Err(error) if error.kind() == ErrorKind::TooLarge && place.len() > 1 => {
                    let middle = place.start + place.len() / 2;
                    parts.push(middle..place.end);
                    parts.push(place.start..middle);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(sum)
    }

    async fn store_at_once(&self, batch: &Batch, documents: &[Document]) -> Result<BatchOutcome> {
        if !self.steps.stores_events {
            return self.store_findings(batch, documents).await;
        }
        let read = documents.len() as u64;
        let dead: Vec<bool> = documents.iter().map(|document| document.error.is_some()).collect();
        let parse_failures = dead.iter().filter(|is_dead| **is_dead).count() as u64;
        let entries = documents.iter().map(|document| Entry {
            index: match &document.error {
                None => self.steps.index.clone(),
                Some(_) => self.steps.dead_letter_index.clone(),
            },
            offset: document.offset,
            source: document.source.clone(),
        });
        let entries: Vec<Entry> = entries.collect();
        let counts = (parse_failures, 0);
        let written = self
            .write(&self.scope, batch, Follow::of(self, documents), &entries, counts)
            .await?;
        let rejected = &written.rejected;
        let as_events = rejected.iter().filter(|(place, _)| !dead[*place]).count() as u64;
        let letters = rejected.iter().map(|(place, error)| match dead[*place] {
            // Its index refused the letter itself.
            true => entries[*place].clone(),
            false => self.letter(batch, *place, error.reason()),
        });
        self.write_letters(batch, letters.collect()).await?;
        self.write_alerts(batch, documents, &written).await?;
        if let Some(windows) = &self.windows {
            let mut samples: Vec<Option<Sample>> = documents.iter().map(|document| document.sample.clone()).collect();
            for (place, _) in rejected {
                samples[*place] = None;
            }
            self.add_to_windows(windows, batch, samples).await?;
        }
        if let Some(partition) = &batch.partition {
            self.destination
                .settle(&self.steps.id, partition, batch.last_offset)
                .await;
        }
        let dead_lettered = parse_failures + as_events;
        Ok(BatchOutcome {
            read,
            indexed: read - dead_lettered,
            filtered: 0,
            dead_lettered,
        })
    }

    /// Stores what is found in events that are stored already: their alerts, windows, and the dead letters of those that cannot be
    /// mapped.
    async fn store_findings(&self, batch: &Batch, documents: &[Document]) -> Result<BatchOutcome> {
        let dead = documents.iter().filter(|document| document.error.is_some());
        let letters: Vec<Entry> = dead
            .map(|document| Entry {
                index: self.steps.dead_letter_index.clone(),
                offset: document.offset,
                source: document.source.clone(),
            })
            .collect();
        let (read, dead_lettered) = (documents.len() as u64, letters.len() as u64);
        let counts = (dead_lettered, read - dead_lettered);
        let written = self
            .write(&self.scope, batch, Follow::of(self, documents), &letters, counts)
            .await?;
        let rejected = written.rejected.iter().map(|(place, _)| letters[*place].clone());
        self.write_letters(batch, rejected.collect()).await?;
        self.write_alerts_of_stored(batch, documents).await?;
        if let Some(windows) = &self.windows {
            let samples = documents.iter().map(|document| document.sample.clone());
            self.add_to_windows(windows, batch, samples.collect()).await?;
        }
        Ok(BatchOutcome {
            read,
            indexed: 0,
            filtered: counts.1,
            dead_lettered,
        })
    }

    /// Stores the alerts of events that are stored already.
    pub(super) async fn write_alerts_of_stored(&self, batch: &Batch, documents: &[Document]) -> Result<()> {
        let place = |event: &SourceEvent| {
            let stored = event.stored_at.as_ref()?;
            Some((stored.index.to_string(), stored.id.clone()))
        };
        let mut documents = documents.to_vec();
        for (document, event) in documents.iter_mut().zip(&batch.events) {
            if let Some(stored) = &event.stored_at {
                document
                    .alerts
                    .iter_mut()
                    .for_each(|draft| draft.set_id_of_stored(&stored.index, &stored.id));
            }
        }
        let places = Written {
            rejected: Vec::new(),
            stored: batch.events.iter().map(place).collect(),
        };
        self.write_alerts(batch, &documents, &places).await
    }

    /// Adds the stored events of a batch to the windows of the pipeline's aggregates. The batch is not stored before: if this is
    /// interrupted, its source delivers it again.
    async fn add_to_windows(&self, windows: &WindowService, batch: &Batch, samples: Vec<Option<Sample>>) -> Result<()> {
        let samples = batch.events.iter().zip(samples).filter_map(|(event, sample)| {
            let received_ms = event.received_ns / 1_000_000;
            Some((event.offset, received_ms, sample?))
        });
        let samples = Arc::new(samples.collect());
        let partition = batch.partition.as_deref();
        let token = windows.batch_token(partition, batch.first_offset, batch.last_offset);
        let mut pause = RETRY_AFTER;
        loop {
            let covered = partition.map(|partition| (partition, batch.last_offset));
            let Err(failure) = windows.add(covered, &samples, &token).await else {
                *self.counters.write_error.lock() = None;
                return Ok(());
            };
            *self.counters.write_error.lock() = Some(failure.to_string());
            if !batch.retries {
                return Err(failure);
            }
            self.pause(pause, failure).await?;
            pause = (pause * 2).min(RETRY_AFTER_MAX);
        }
    }

    /// Writes dead letters until their index takes them all. With an origin, what is rejected stays rejected, so each attempt
    /// has a partition of its own.
    async fn write_letters(&self, batch: &Batch, mut letters: Vec<Entry>) -> Result<()> {
        let mut pause = RETRY_AFTER;
        for attempt in 0_u64.. {
            if letters.is_empty() {
                break;
            }
            let suffix = format!("{REJECTED}-{attempt}");
            let count = letters.len() as u64;
            let follow = Follow::mark(&suffix);
            let rejected = self
                .write(&self.scope, batch, follow, &letters, (count, 0))
                .await?
                .rejected;
            letters = rejected.iter().map(|(place, _)| letters[*place].clone()).collect();
            if let Some((_, error)) = rejected.first() {
                let (index, reason) = (&self.steps.dead_letter_index, error.reason());
                let reason = format!("the index [{index}] rejects dead letters: {reason}");
                *self.counters.write_error.lock() = Some(reason.clone());
                let failure = Error::new(ErrorKind::Unavailable, reason);
                if !batch.retries {
                    return Err(failure);
                }
                self.pause(pause, failure).await?;
                pause = (pause * 2).min(LETTERS_AGAIN_AFTER_MAX);
            }
        }
        Ok(())
    }

    /// Stores the alerts of a batch. Its events are stored; if this is interrupted, the source delivers the batch again.
    async fn write_alerts(&self, batch: &Batch, documents: &[Document], written: &Written) -> Result<()> {
        let mut alerts = Vec::new();
        for (document, stored) in documents.iter().zip(&written.stored) {
            for (number, draft) in document.alerts.iter().enumerate() {
                let mut draft = draft.clone();
                match stored {
                    Some((index, id)) => draft.set_event(index, id),
                    // Its index rejected the event.
                    None => draft.set_event(&self.steps.dead_letter_index, ""),
                }
                let reduced = without_event(&draft.document);
                alerts.push(Alert {
                    full: Entry {
                        index: draft.index.clone(),
                        offset: (document.offset << ALERT_BITS) + number as u64,
                        source: serde_json::to_vec(&draft.document)?.into(),
                    },
                    reduced: serde_json::to_vec(&reduced)?.into(),
                });
            }
        }
        let mut first_offset = batch.first_offset << ALERT_BITS;
        let mut rest = &alerts[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = rest.iter().take(ALERTS_AT_ONCE).take_while(|alert| {
                bytes += alert.full.source.len();
                bytes <= ALERT_BYTES_AT_ONCE
            });
            let (part, after) = rest.split_at(fits.count().max(1));
            let last_offset = match (after.is_empty(), part.last()) {
                (false, Some(last)) => last.full.offset,
                _ => (batch.last_offset << ALERT_BITS) | ((1 << ALERT_BITS) - 1),
            };
            let of_part = Batch {
                stored: None,
                partition: batch.partition.clone(),
                events: Vec::new(),
                first_offset,
                last_offset,
                retries: batch.retries,
                note: None,
                done: None,
            };
            self.write_some_alerts(&of_part, part).await?;
            self.counters.alerts.fetch_add(part.len() as u64, Ordering::Relaxed);
            self.alerts_stored.notify_one();
            first_offset = last_offset + 1;
            rest = after;
        }
        Ok(())
    }

    /// Returns the dead letter of an alert that its index rejects in any form.
    fn letter_of_alert(&self, batch: &Batch, alert: &Alert, reason: &str) -> Entry {
        let record = SourceEvent {
            bytes: alert.reduced.clone(),
            offset: alert.full.offset,
            received_ns: 0,
            context: None,
            stored_at: None,
        };
        let (steps, partition) = (&self.steps, batch.partition.as_deref());
        Entry {
            index: steps.dead_letter_index.clone(),
            offset: alert.full.offset,
            source: dead_letter::document(&steps.id, &alert.full.index, partition, &record, "alert", reason).into(),
        }
    }

    /// Stores alerts; one that its index rejects is stored without the copy of its event, and one that is rejected so, too, as a dead
    /// letter: it must not hold up the pipeline.
    async fn write_some_alerts(&self, batch: &Batch, alerts: &[Alert]) -> Result<()> {
        let scope = Arc::new(Scope::operator());
        let mut entries: Vec<(usize, Entry)> = alerts.iter().map(|alert| alert.full.clone()).enumerate().collect();
        let mut pause = RETRY_AFTER;
        for attempt in 0_u64.. {
            let suffix = match attempt {
                0 => ALERTS.to_owned(),
                attempt => format!("{ALERTS}-{attempt}"),
            };
            let items: Vec<Entry> = entries.iter().map(|(_, entry)| entry.clone()).collect();
            let follow = Follow::mark(&suffix);
            let mut rejected = self.write(&scope, batch, follow, &items, (0, 0)).await?.rejected;
            if let Some((_, error)) = rejected.iter().find(|(_, error)| error.kind() == ErrorKind::Forbidden) {
                // The tenant is being deleted, and its alerts with it.
                tracing::warn!(pipeline = &*self.steps.id, "alerts are not stored: {}", error.reason());
            }
            rejected.retain(|(_, error)| error.kind() != ErrorKind::Forbidden);
            let Some((_, error)) = rejected.first() else {
                break;
            };
            let reason = format!("the alerts of the pipeline are rejected: {}", error.reason());
            if attempt > 0 {
                tracing::error!(pipeline = &*self.steps.id, "{reason}; they are dead letters");
            }
            let again = rejected.iter().map(|(place, error)| {
                let (number, entry) = &entries[*place];
                let alert = &alerts[*number];
                let next = match attempt {
                    0 => Entry {
                        source: alert.reduced.clone(),
                        ..entry.clone()
                    },
                    1 => self.letter_of_alert(batch, alert, error.reason()),
                    _ => entry.clone(),
                };
                (*number, next)
            });
            entries = again.collect();
            if attempt > 1 {
                *self.counters.write_error.lock() = Some(reason.clone());
                let failure = Error::new(ErrorKind::Unavailable, reason);
                if !batch.retries {
                    return Err(failure);
                }
                self.pause(pause, failure).await?;
                pause = (pause * 2).min(LETTERS_AGAIN_AFTER_MAX);
            }
        }
        Ok(())
    }

    /// Pauses before a repetition; fails with `failure` if the pipeline stops.
    async fn pause(&self, pause: Duration, failure: Error) -> Result<()> {
        self.counters.retries.fetch_add(1, Ordering::Relaxed);
        let mut stopped = self.stopped.clone();
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            _ = stopped.wait_for(|stopped| *stopped) => Err(failure),
        }
    }

    fn letter(&self, batch: &Batch, place: usize, reason: &str) -> Entry {
        let event = &batch.events[place];
        let steps = &self.steps;
        let partition = batch.partition.as_deref();
        Entry {
            index: steps.dead_letter_index.clone(),
            offset: event.offset,
            source: dead_letter::document(&steps.id, &steps.index, partition, event, "index", reason).into(),
        }
    }

    /// Writes until every item is stored or rejected for good. A batch that is not tried again fails with the first failure that
    /// may pass. `counts` are the dead letters, and the events without an item.
    async fn write(
        &self,
        scope: &Arc<Scope>,
        batch: &Batch,
        follow: Follow<'_>,
        entries: &[Entry],
        (dead_letters, filtered): (u64, u64),
    ) -> Result<Written> {
        let origin = batch.partition.as_deref().map(|partition| Origin {
            source: Arc::clone(&self.steps.id),
            partition: format!("{partition}{}", follow.mark).into(),
            first_offset: batch.first_offset,
            last_offset: batch.last_offset,
            offsets: entries.iter().map(|entry| entry.offset).collect(),
            dead_letters,
            filtered,
            more_follows: follow.more_follows,
            note: batch.note.clone().filter(|_| follow.mark.is_empty()),
        });
        // Places of the items to write. With an origin a bulk is always sent as a whole.
        let mut open: Vec<usize> = (0..entries.len()).collect();
        let mut written = Written {
            rejected: Vec::new(),
            stored: vec![None; entries.len()],
        };
        let of_events = batch
            .stored
            .as_ref()
            .filter(|_| follow.mark.is_empty() && origin.is_none());
        if let Some(earlier) = of_events {
            open.retain(|place| !earlier.contains(*place));
            for place in (0..entries.len()).filter(|place| earlier.contains(*place)) {
                written.stored[place] = Some((entries[place].index.clone(), String::new()));
            }
            if open.is_empty() {
                return Ok(written);
            }
        }
        let mut pause = RETRY_AFTER;
        loop {
            let request = BulkRequest {
                items: open.iter().map(|place| item(&entries[*place])).collect(),
                refresh: Refresh::No,
                timeout: None,
                origin: origin.clone(),
            };
            let started = Instant::now();
            let response = self.destination.bulk(scope, request).await;
            self.counters
                .write_nanos
                .fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
            let failure = match response {
                Ok(response) => {
                    if origin.is_some() {
                        written.rejected.clear();
                    }
                    let (still_open, failure) = sort(&open, response, &mut written);
                    if let Some(stored) = of_events {
                        let places = open.iter().filter(|place| written.stored[**place].is_some());
                        places.for_each(|place| stored.insert(*place));
                    }
                    if origin.is_none() {
                        open = still_open;
                    }
                    failure
                }
                Err(error) => Some(error),
            };
            let Some(failure) = failure else {
                *self.counters.write_error.lock() = None;
                written.rejected.sort_by_key(|(place, _)| *place);
                return Ok(written);
            };
            *self.counters.write_error.lock() = Some(failure.to_string());
            // Another worker writes the partition: only its source can know whether it still has the partition.
            let is_taken_over = origin.is_some() && failure.kind() == ErrorKind::Conflict;
            // Only a smaller one may succeed.
            let is_too_large = failure.kind() == ErrorKind::TooLarge && batch.events.len() > 1;
            if !batch.retries || is_taken_over || is_too_large {
                return Err(failure);
            }
            self.pause(pause, failure).await?;
            pause = (pause * 2).min(RETRY_AFTER_MAX);
        }
    }
}

/// Returns the times of the first and the last event, ms since the epoch; `None`: none has a time.
fn times_ms(documents: &[Document]) -> Option<(i64, i64)> {
    #[derive(serde::Deserialize)]
    struct Event<'a> {
        #[serde(rename = "@timestamp", borrow)]
        timestamp: Option<&'a serde_json::value::RawValue>,
    }
    let format = DateFormat::default_millis();
    let time = |document: &Document| {
        let event: Event<'_> = serde_json::from_slice(&document.source).ok()?;
        let time: serde_json::Value = serde_json::from_str(event.timestamp?.get()).ok()?;
        let time = time.as_str().map_or_else(|| time.to_string(), str::to_owned);
        format.parse_ms(&time).ok()
    };
    let times = documents
        .iter()
        .filter(|document| document.error.is_none())
        .filter_map(time);
    times.fold(None, |known: Option<(i64, i64)>, time| {
        let (first, last) = known.unwrap_or((time, time));
        Some((first.min(time), last.max(time)))
    })
}

/// Returns a part of a batch. The parts of a batch follow each other without a gap.
fn part_of(batch: &Batch, place: &Range<usize>) -> Batch {
    let offset = |place: usize| batch.events.get(place).map(|event| event.offset);
    let next = offset(place.end).filter(|_| batch.partition.is_some());
    Batch {
        stored: batch.stored.as_ref().map(|stored| stored.from_place(place.start)),
        partition: batch.partition.clone(),
        events: batch.events[place.clone()].to_vec(),
        first_offset: match place.start {
            0 => batch.first_offset,
            start => offset(start).unwrap_or(batch.first_offset),
        },
        last_offset: next.map_or(batch.last_offset, |next| next - 1),
        retries: batch.retries,
        note: batch.note.clone(),
        done: None,
    }
}

/// Sorts the results of a bulk: returns the places that may succeed later, and the first such failure.
fn sort(open: &[usize], response: BulkResponse, written: &mut Written) -> (Vec<usize>, Option<Error>) {
    let (mut still_open, mut failure) = (Vec::new(), None);
    for (place, item) in open.iter().zip(response.items) {
        match item.result {
            Ok(_) => written.stored[*place] = Some((item.index, item.id)),
            Err(error) if error.kind().is_of_document() => written.rejected.push((*place, error)),
            Err(error) => {
                still_open.push(*place);
                failure.get_or_insert(error);
            }
        }
    }
    (still_open, failure)
}

fn item(entry: &Entry) -> BulkItem {
    BulkItem {
        index: entry.index.clone(),
        id: None,
        routing: None,
        operation: Operation::Create {
            source: entry.source.clone(),
        },
        expect: Expectation::Any,
        require_alias: false,
        require_data_stream: entry.index.starts_with(alert_template::PREFIX),
    }
}
