//! Windows of a running pipeline: its journal, the decisions to close windows, and the events of closed ones.
//!
//! Everything happens under one lock, so the journal has one order. A record whose write failed may be stored all the same:
//! the journal is read anew before anything else is decided. The events of closed windows are written as those of a source that
//! can be read again, whose offsets count them; so each is stored once.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firn_detect::{DetectionRule, EventPlace};
use firn_engine::Scope;
use firn_engine::document::{BulkItem, BulkRequest, Expectation, Operation, Refresh};
use firn_engine::origin::Origin;
use firn_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::dead_letter;
use super::destination::Destination;
use super::detection::{self, RunnerRules};
use crate::aggregation::{
    AggregateDefinition, Content, Delta, Emission, EmissionContent, ReceivedSample, Record, WindowCounts, Windows,
    last_base,
};
use crate::definition::Definition;
use crate::mapping::dates::push_iso;
use crate::sources::{Clock, SourceEvent};

/// Index of the journals of all pipelines.
pub(super) const INDEX: &str = ".firn-windows";
const TEMPLATE: &str = "firn-windows";
/// Start of the names of partitions of the events of closed windows; the generation of the journal follows.
pub(super) const PARTITION: &str = "#windows ";
/// How often windows are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A partition without batches for so long holds no window open.
const IDLE_AFTER: Duration = Duration::from_secs(60);
/// Records since the last base after which a new one is written.
const RECORDS_MAX: usize = 1_000;
/// Tokens of records before the last base that are remembered.
const TOKENS_MAX: usize = 10_000;
/// Events of closed windows of one bulk.
const BULK_EVENTS: usize = 5_000;
const NANOS_PER_MS: i64 = 1_000_000;

/// See the module.
pub(super) struct WindowService {
    pipeline: Arc<str>,
    dead_letter_index: String,
    definitions: BTreeMap<String, Arc<AggregateDefinition>>,
    destination: Arc<dyn Destination>,
    scope: Arc<Scope>,
    /// Tenant of the pipeline.
    tenant: Option<String>,
    rules: Arc<Mutex<RunnerRules>>,
    /// Notified when alerts were stored.
    alerts_stored: Arc<Notify>,
    /// Notified when alerts are to be stored.
    wake: Notify,
    /// Alerts that were stored.
    alerts: AtomicU64,
    clock: Clock,
    journal: tokio::sync::Mutex<Journal>,
    /// When the last batch of each partition came, and the latest time of an event, also of those that are in no window; ms.
    last_batches: Mutex<HashMap<String, (Instant, i64)>>,
    started: Instant,
    /// Tells the batches of sources without offsets apart, with the start of the service.
    batches: AtomicU64,
    started_ns: i64,
    rejected: AtomicU64,
    status: Mutex<WindowStatus>,
}

/// What the windows of all pipelines share.
pub(super) struct WindowContext {
    pub(super) destination: Arc<dyn Destination>,
    pub(super) clock: Clock,
    pub(super) rules: Arc<Mutex<RunnerRules>>,
    pub(super) alerts_stored: Arc<Notify>,
}

/// State of the windows of a pipeline, for operators.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowStatus {
    /// Counts.
    pub counts: WindowCounts,
    /// Events of closed windows that their index rejected; they are dead letters.
    pub rejected: u64,
    /// Why windows cannot be closed now; it is tried again.
    pub error: Option<String>,
}

/// Document of an emission.
struct EmittedDocument {
    index: String,
    document: Value,
}

/// The journal as this node knows it.
struct Journal {
    windows: Arc<Mutex<Windows>>,
    next_order: u64,
    /// The stored journal may hold more than is known here.
    is_stale: bool,
    /// It is new, or an older one than its events say: those of its closings would pass for events that are stored.
    is_behind: bool,
    tokens: HashSet<String>,
    records_since_base: usize,
    /// Order of the first record of the last base.
    first_order: u64,
    /// Orders of records before it that are not removed.
    replaced: Vec<u64>,
    /// Events of closed windows that are not stored.
    pending: VecDeque<Emission>,
}

impl WindowService {
    /// Reads the journal. If aggregates were changed, closes the windows of their old definitions.
    pub(super) async fn open(
        id: &str,
        definition: &Definition,
        aggregates: BTreeMap<String, Arc<AggregateDefinition>>,
        scope: Arc<Scope>,
        context: WindowContext,
    ) -> Result<Arc<Self>> {
        let WindowContext {
            destination,
            clock,
            rules,
            alerts_stored,
        } = context;
        destination.create_template(TEMPLATE, &template()).await?;
        let pipeline: Arc<str> = id.into();
        let journal = Journal::read(&pipeline, &*destination).await?;
        let service = Arc::new(Self {
            dead_letter_index: definition.dead_letter_index.clone(),
            definitions: aggregates,
            tenant: definition.tenant.clone(),
            rules,
            alerts_stored,
            wake: Notify::new(),
            alerts: AtomicU64::new(0),
            started_ns: clock(),
            pipeline,
            destination,
            scope,
            clock,
            journal: tokio::sync::Mutex::new(journal),
            last_batches: Mutex::default(),
            started: Instant::now(),
            batches: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            status: Mutex::default(),
        });
        service.redefine(&mut *service.journal.lock().await).await?;
        Ok(service)
    }

    /// Brings the definitions of the journal up to date.
    async fn redefine(&self, journal: &mut Journal) -> Result<()> {
        let changed = journal.windows.lock().changed(&self.definitions);
        if journal.windows.lock().has_open(&changed) {
            let closing = Content::Closing {
                watermark: journal.windows.lock().counts().watermark_ms.unwrap_or(i64::MIN),
                retired: changed,
            };
            let token = self.token();
            self.append(journal, closing, token).await?;
        }
        self.emit(journal).await?;
        let is_current = {
            let mut windows = journal.windows.lock();
            let is_current = !journal.is_behind && windows.definitions() == self.definitions;
            if journal.is_behind {
                windows.start_generation(self.token());
            }
            windows.define(&self.definitions);
            is_current
        };
        if !is_current {
            self.write_base(journal).await?;
            journal.is_behind = false;
        }
        Ok(())
    }

    /// Returns a token that no other record has.
    fn token(&self) -> String {
        format!("{}-{}", self.started_ns, self.batches.fetch_add(1, Ordering::Relaxed))
    }

    /// Adds the samples of stored events: each with its offset and its time of arrival (ms). `covered` are the partition
    /// and the last offset of their batch; `None`: the source has no offsets. Returns once they are durable.
    ///
    /// # Errors
    /// Unknown whether they are: the same call may be made again with the same `token`.
    pub(super) async fn add(
        &self,
        covered: Option<(&str, u64)>,
        samples: &Arc<Vec<ReceivedSample>>,
        token: &str,
    ) -> Result<()> {
        let (partition, through) = match covered {
            Some((partition, last)) => (partition, Some(last)),
            None => ("", None),
        };
        let mut journal = self.journal.lock().await;
        self.read_again_if_stale(&mut journal).await?;
        if journal.tokens.contains(token) {
            return Ok(());
        }
        let held = journal.windows.lock().through(partition);
        let parts = {
            let (definitions, partition) = (self.definitions.clone(), partition.to_owned());
            let samples = Arc::clone(samples);
            blocking(move || Delta::parts_of_samples(&definitions, &partition, held, through, &samples)).await?
        };
        self.note_batch(partition, samples);
        let is_whole = parts.len() == 1;
        for (name, delta) in parts {
            let token = if is_whole {
                token.to_owned()
            } else {
                format!("{token} {name}")
            };
            if !delta.is_empty() && !journal.tokens.contains(&token) {
                self.append(&mut journal, Content::Delta(delta), token).await?;
            }
        }
        // A window that these events close, too, raises its alerts at once, and not at the next look.
        let is_due = {
            let windows = journal.windows.lock();
            self.watermark(&windows)
                .is_some_and(|watermark| windows.is_due(watermark))
        };
        if !journal.pending.is_empty() || is_due {
            self.wake.notify_one();
        }
        Ok(())
    }

    fn note_batch(&self, partition: &str, samples: &[ReceivedSample]) {
        let times = samples
            .iter()
            .map(|(_, received_ms, sample)| sample.time_ms.min(*received_ms));
        let latest = times.max().unwrap_or(i64::MIN);
        let mut last_batches = self.last_batches.lock();
        let known = last_batches
            .entry(partition.to_owned())
            .or_insert((Instant::now(), latest));
        *known = (Instant::now(), latest.max(known.1));
    }

    /// Returns the token of a batch: that of its offsets, or one of its own.
    pub(super) fn batch_token(&self, partition: Option<&str>, first_offset: u64, last_offset: u64) -> String {
        match partition {
            Some(partition) => format!("{partition} {first_offset}-{last_offset}"),
            None => self.token(),
        }
    }

    /// Closes windows and writes their events, until the pipeline stops.
    pub(super) async fn run(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        loop {
            let error = self.look().await.err().map(|error| error.to_string());
            {
                let mut status = self.status.lock();
                if error.is_some() && status.error != error {
                    tracing::warn!(
                        pipeline = &*self.pipeline,
                        error,
                        "the windows of a pipeline cannot be closed"
                    );
                }
                status.error = error;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = self.wake.notified() => {}
                _ = stopped.wait_for(|stopped| *stopped) => return,
            }
        }
    }

    /// Returns the state of the windows.
    pub(super) fn status(&self) -> WindowStatus {
        self.status.lock().clone()
    }

    async fn look(&self) -> Result<()> {
        let mut journal = self.journal.lock().await;
        self.read_again_if_stale(&mut journal).await?;
        // While events cannot be stored, no more windows are closed.
        self.emit(&mut journal).await?;
        if journal.records_since_base >= RECORDS_MAX {
            self.write_base(&mut journal).await?;
        }
        let (watermark, retired, is_due) = {
            let windows = journal.windows.lock();
            let watermark = self.watermark(&windows).unwrap_or(i64::MIN);
            (watermark, windows.crowded(), windows.is_due(watermark))
        };
        if is_due || !retired.is_empty() {
            let token = self.token();
            let closing = Content::Closing { watermark, retired };
            self.append(&mut journal, closing, token).await?;
            self.emit(&mut journal).await?;
        }
        let mut status = self.status.lock();
        status.counts = journal.windows.lock().counts();
        status.rejected = self.rejected.load(Ordering::Relaxed);
        Ok(())
    }

    /// Returns the time that all partitions have reached; a partition without batches has reached a time of a moment ago.
    fn watermark(&self, windows: &Windows) -> Option<i64> {
        let idle_ms = IDLE_AFTER.as_millis() as i64;
        let idle_to = (self.clock)() / NANOS_PER_MS - idle_ms;
        let last_batches = self.last_batches.lock();
        let mut latest: HashMap<&str, (Instant, i64)> = windows
            .latest_times()
            .map(|(partition, latest)| (partition, (self.started, latest)))
            .collect();
        for (partition, (batch, of_batch)) in last_batches.iter() {
            let known = latest.entry(partition).or_insert((*batch, *of_batch));
            *known = (*batch, known.1.max(*of_batch));
        }
        let reached = latest
            .into_values()
            .map(|(last, latest)| match last.elapsed() >= IDLE_AFTER {
                true => latest.max(idle_to),
                false => latest,
            });
        reached.min()
    }

    async fn read_again_if_stale(&self, journal: &mut Journal) -> Result<()> {
        if journal.is_stale {
            let read = Journal::read(&self.pipeline, &*self.destination).await?;
            if read.next_order < journal.next_order {
                tracing::error!(
                    pipeline = &*self.pipeline,
                    "records of open windows are gone from [{INDEX}]"
                );
            }
            let known = std::mem::replace(journal, read).tokens;
            // A base may have replaced the record of a batch whose answer was lost.
            journal.tokens.extend(known);
        }
        let is_current = !journal.is_behind && journal.windows.lock().definitions() == self.definitions;
        match is_current {
            true => Ok(()),
            false => self.redefine(journal).await,
        }
    }

    /// Appends a record, and applies it once it is durable.
    async fn append(&self, journal: &mut Journal, content: Content, token: String) -> Result<()> {
        let record = Record {
            order: journal.next_order,
            token,
            content,
        };
        self.write(journal, std::slice::from_ref(&record)).await?;
        journal.tokens.insert(record.token.clone());
        let windows = Arc::clone(&journal.windows);
        let made = blocking(move || windows.lock().apply(&record.content)).await;
        if made.is_err() {
            journal.is_stale = true;
        }
        journal.pending.extend(made?);
        Ok(())
    }

    /// Writes the state as a base, and removes the records that it replaces.
    async fn write_base(&self, journal: &mut Journal) -> Result<()> {
        let first = journal.next_order;
        let token = self.token();
        let windows = Arc::clone(&journal.windows);
        let parts = blocking(move || windows.lock().to_base()).await?;
        let records = parts.into_iter().zip(first..).map(|(base, order)| Record {
            order,
            token: token.clone(),
            content: Content::Base(base),
        });
        let records: Vec<Record> = records.collect();
        for part in records.chunks(8) {
            self.write(journal, part).await?;
        }
        journal.replaced.extend(journal.first_order..first);
        journal.first_order = first;
        journal.records_since_base = 0;
        if journal.tokens.len() > TOKENS_MAX {
            journal.tokens.clear();
        }
        let replaced: Vec<u64> = journal.replaced.clone();
        for orders in replaced.chunks(BULK_EVENTS) {
            let items = orders.iter().map(|order| BulkItem {
                id: Some(self.record_id(*order)),
                operation: Operation::Delete,
                ..create(INDEX, None, Vec::new())
            });
            // What is not removed now is removed after the next base.
            match self.bulk(&Arc::new(Scope::operator()), items.collect(), None).await {
                Ok(_) => journal.replaced.retain(|order| !orders.contains(order)),
                Err(error) => tracing::debug!(pipeline = &*self.pipeline, %error, "cannot remove records of windows"),
            }
        }
        Ok(())
    }

    /// Writes records at the end of the journal.
    async fn write(&self, journal: &mut Journal, records: &[Record]) -> Result<()> {
        let items = records.iter().map(|record| {
            let document = record.to_document(&self.pipeline)?;
            Ok(create(INDEX, Some(self.record_id(record.order)), document))
        });
        let items = items.collect::<Result<Vec<_>>>()?;
        // Also if this is never finished.
        journal.is_stale = true;
        let errors = self.bulk(&Arc::new(Scope::operator()), items, None).await?;
        if let Some(error) = errors.into_iter().flatten().next() {
            return Err(error);
        }
        journal.is_stale = false;
        journal.next_order += records.len() as u64;
        journal.records_since_base += records.len();
        Ok(())
    }

    fn record_id(&self, order: u64) -> String {
        format!("{}-{order}", self.pipeline)
    }

    /// Stores the events of closed windows.
    async fn emit(&self, journal: &mut Journal) -> Result<()> {
        while let Some(first) = journal.pending.front() {
            let is_alert = matches!(first.content, EmissionContent::Alert(_));
            // Alerts are firn's: a tenant's pipeline may not write to their index itself.
            let of_kind = |event: &&Emission| matches!(event.content, EmissionContent::Alert(_)) == is_alert;
            let events: Vec<&Emission> = journal.pending.iter().take_while(of_kind).take(BULK_EVENTS).collect();
            let (Some(first), Some(last)) = (events.first(), events.last()) else {
                return Ok(());
            };
            let partition = partition_of(journal.windows.lock().generation());
            let drafts = self.drafts(&events, &partition)?;
            let origin = Origin {
                source: Arc::clone(&self.pipeline),
                partition: partition.as_str().into(),
                first_offset: first.offset,
                last_offset: last.offset,
                offsets: events.iter().map(|event| event.offset).collect(),
                dead_letters: 0,
                filtered: 0,
                more_follows: false,
                note: None,
            };
            let items = drafts.iter().map(|draft| {
                let document = draft.document.to_string().into_bytes();
                BulkItem {
                    require_data_stream: is_alert,
                    ..create(&draft.index, None, document)
                }
            });
            let scope = if is_alert {
                Arc::new(Scope::operator())
            } else {
                Arc::clone(&self.scope)
            };
            let errors = self.bulk(&scope, items.collect(), Some(origin)).await?;
            let mut letters = Vec::new();
            for ((event, draft), error) in events.iter().zip(&drafts).zip(errors) {
                match error {
                    None => {}
                    // The tenant is being deleted, and its alerts with it.
                    Some(error) if is_alert && error.kind() == ErrorKind::Forbidden => {
                        tracing::warn!(pipeline = &*self.pipeline, "an alert is not stored: {}", error.reason());
                    }
                    Some(error) if error.kind().is_of_document() => {
                        letters.push(self.letter(&partition, event.offset, draft, error.reason()))
                    }
                    Some(error) => return Err(error),
                }
            }
            let count = events.len();
            if !letters.is_empty() {
                let rejected = letters.len() as u64;
                for error in self.bulk(&self.scope, letters, None).await?.into_iter().flatten() {
                    // It was written by an attempt whose answer was lost.
                    if error.kind() != ErrorKind::VersionConflict {
                        return Err(error);
                    }
                }
                self.rejected.fetch_add(rejected, Ordering::Relaxed);
            }
            journal.pending.drain(..count);
            if is_alert {
                self.alerts.fetch_add(count as u64, Ordering::Relaxed);
                self.alerts_stored.notify_one();
            }
        }
        Ok(())
    }

    /// Returns the documents of emissions, and where they go.
    fn drafts(&self, emissions: &[&Emission], partition: &str) -> Result<Vec<EmittedDocument>> {
        let mut detected = String::new();
        push_iso((self.clock)(), &mut detected);
        let all = self.rules.lock().clone();
        // A definition is compiled once for all its alerts.
        let mut rules: HashMap<&str, DetectionRule> = HashMap::new();
        let mut drafts = Vec::with_capacity(emissions.len());
        for emission in emissions {
            let alert = match &emission.content {
                EmissionContent::Event { index, document } => {
                    drafts.push(EmittedDocument {
                        index: index.clone(),
                        document: document.clone(),
                    });
                    continue;
                }
                EmissionContent::Alert(alert) => alert,
            };
            let of_rule = alert.definition.rule.as_ref();
            let of_rule = of_rule.ok_or_else(|| Error::internal("a bug: an alert without a rule"))?;
            let rule = match rules.entry(&of_rule.id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(DetectionRule::parse(&of_rule.id, &of_rule.body)?),
            };
            let place = EventPlace {
                pipeline: &self.pipeline,
                partition: Some(partition),
                offset: emission.offset,
                tenant: self.tenant.as_deref(),
            };
            let draft = detection::window_alert(rule, alert, place, &detected, &all);
            drafts.push(EmittedDocument {
                index: draft.index,
                document: draft.document.into(),
            });
        }
        Ok(drafts)
    }

    /// Returns the number of alerts that were stored.
    pub(super) fn alerts(&self) -> u64 {
        self.alerts.load(Ordering::Relaxed)
    }

    fn letter(&self, partition: &str, offset: u64, event: &EmittedDocument, reason: &str) -> BulkItem {
        let record = SourceEvent {
            bytes: event.document.to_string().into(),
            offset,
            received_ns: (self.clock)(),
            context: None,
            stored_at: None,
        };
        let id = format!("{}{partition}-{offset}", self.pipeline);
        let partition = Some(partition);
        let letter = dead_letter::document(&self.pipeline, &event.index, partition, &record, "aggregate", reason);
        create(&self.dead_letter_index, Some(id), letter)
    }

    /// Writes items; returns the error of each.
    async fn bulk(
        &self,
        scope: &Arc<Scope>,
        items: Vec<BulkItem>,
        origin: Option<Origin>,
    ) -> Result<Vec<Option<Error>>> {
        let request = BulkRequest {
            items,
            refresh: Refresh::No,
            timeout: None,
            origin,
        };
        let response = self.destination.bulk(scope, request).await?;
        Ok(response.items.into_iter().map(|item| item.result.err()).collect())
    }
}

impl Journal {
    /// Reads the stored journal of a pipeline.
    async fn read(pipeline: &Arc<str>, destination: &dyn Destination) -> Result<Self> {
        let documents = destination.window_records(INDEX, pipeline).await?;
        let positions = destination.source_positions(pipeline).await?;
        let pipeline = Arc::clone(pipeline);
        blocking(move || {
            let records = documents.iter().map(|document| Record::of_document(document));
            let mut records = records.collect::<Result<Vec<_>>>()?;
            records.sort_by_key(|record| record.order);
            let (windows, emissions) = Windows::of_journal(&pipeline, &BTreeMap::new(), &records);
            let partition = partition_of(windows.generation());
            let position = positions.iter().find(|position| position.partition == partition);
            let resume = position.map(|position| position.resume_offset);
            let sent = position.map(|position| position.complete_offset.unwrap_or(position.resume_offset));
            let is_behind = windows.generation().is_empty() || sent.is_some_and(|sent| sent >= windows.emitted());
            let base = last_base(&records).unwrap_or(0..0);
            let replaced = records[..base.start].iter().map(|record| record.order);
            Ok(Self {
                next_order: records.last().map_or(0, |record| record.order + 1),
                first_order: records.get(base.start).map_or(0, |record| record.order),
                is_stale: false,
                tokens: records[base.end..].iter().map(|record| record.token.clone()).collect(),
                records_since_base: records.len() - base.end,
                replaced: replaced.collect(),
                pending: emissions
                    .into_iter()
                    .filter(|event| event.offset >= resume.unwrap_or(0))
                    .collect(),
                is_behind,
                windows: Arc::new(Mutex::new(windows)),
            })
        })
        .await?
    }
}

fn partition_of(generation: &str) -> String {
    format!("{PARTITION}{generation}")
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Error::internal("the windows of a pipeline failed because of a bug, see the log"))
}

fn create(index: &str, id: Option<String>, document: Vec<u8>) -> BulkItem {
    BulkItem {
        index: index.to_owned(),
        id,
        routing: None,
        operation: Operation::Create {
            source: document.into(),
        },
        expect: Expectation::Any,
        require_alias: false,
        require_data_stream: false,
    }
}

fn template() -> Value {
    json!({
        "index_patterns": [INDEX],
        "priority": 500,
        "template": {
            "settings": {"index": {"number_of_shards": 1, "hidden": true}},
            "mappings": {
                "dynamic": false,
                "properties": {"pipeline": {"type": "keyword"}, "order": {"type": "long"}},
            },
        },
        "_meta": {"managed": true, "description": "journals of the aggregates of event pipelines"},
    })
}
