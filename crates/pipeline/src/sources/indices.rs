//! Events that are stored already: each shard of some indices is a partition, and a sequence number an offset.
//!
//! A shard is read up to its checkpoint ([`Engine::checkpoints`]): writes that are on disk and searchable, so no crash gives a
//! number that was read to another event. What is read is an interval of sequence numbers, not of time: an event that comes late
//! is read like any other.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use firn_engine::admin::ShardCheckpoint;
use firn_engine::recovery::RecoverySource;
use firn_engine::{Engine, Knowledge, RequestContext, Scope};
use firn_model::metadata::IndexMetadata;
use firn_model::names::{IndicesOptions, matches_pattern};
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::{Hit, IndexTarget, SearchRequest};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::{Batch, Source, SourceEvent, SourceOutput, StoredAt};
use crate::definition::{Definition, IndexDefinition, ReadFrom, SourceDefinition};

/// Partition whose position says that the shards of the first start have theirs.
const STARTED: &str = "#started";
/// Start of the names of partitions whose position says where a shard is read from first.
const SKIPPED: &str = "#skipped ";
/// Start of the names of the data streams of alerts: a rule must not read its own.
const ALERTS: &str = ".alerts-";
/// Events that one search reads at first, at least and at most.
const PAGE: usize = 200;
const PAGE_MIN: usize = 10;
const PAGE_MAX: usize = 2_000;
/// Bytes of events that one search is to read.
const PAGE_BYTES: usize = 4 << 20;
/// Shards that are read at the same time.
const SHARDS_AT_ONCE: usize = 4;

/// Reads the events of indices.
struct IndexSource {
    engine: Arc<dyn Engine>,
    scope: Arc<Scope>,
    target: IndexTarget,
    every: Duration,
    read_from: ReadFrom,
    /// Names of indices, data streams and aliases that the pipeline writes to.
    written: Vec<String>,
    /// Whether a restored index is one that came after the first start.
    skips_restored: bool,
    /// Next sequence number by partition.
    next: HashMap<String, u64>,
}

/// One shard, and what of it is to be read.
struct Reader {
    engine: Arc<dyn Engine>,
    scope: Arc<Scope>,
    output: SourceOutput,
    /// Field of the tenant; `None`: the index does not hold events by tenant.
    tenant_field: Option<String>,
    /// Query of the aliases that the index is read through; `None`: all its events are read.
    filter: Option<Value>,
    checkpoint: ShardCheckpoint,
    partition: String,
    /// Next sequence number, and the last one to read.
    next: u64,
    last: u64,
}

/// Makes the source of a definition.
///
/// # Errors
/// [`ErrorKind::IllegalArgument`]: the definition has another source.
pub fn open_indices(engine: &Arc<dyn Engine>, definition: &Definition) -> Result<Box<dyn Source>> {
    let SourceDefinition::Index(IndexDefinition {
        indices,
        every,
        read_from,
    }) = &definition.source
    else {
        return Err(Error::illegal_argument("the source is not of type [index]"));
    };
    let mut expression = indices.clone();
    // What the pipeline writes because of an event must not be read as another one.
    if indices.iter().any(|name| name.contains('*')) {
        expression.extend(definition.written_indices().map(|name| format!("-{name}")));
    }
    Ok(Box::new(IndexSource {
        engine: Arc::clone(engine),
        scope: Arc::new(definition.tenant_id()?.map_or_else(Scope::operator, Scope::tenant)),
        target: IndexTarget {
            expression,
            options: IndicesOptions {
                ignore_unavailable: true,
                ..IndicesOptions::default()
            },
        },
        every: IndexDefinition::interval(every)?,
        read_from: *read_from,
        written: definition.written_indices().map(str::to_owned).collect(),
        skips_restored: false,
        next: HashMap::new(),
    }))
}

#[async_trait]
impl Source for IndexSource {
    async fn run(mut self: Box<Self>, output: SourceOutput) -> Result<()> {
        self.start(&output).await?;
        loop {
            self.look(&output).await?;
            tokio::select! {
                () = tokio::time::sleep(self.every) => {}
                () = output.stopped() => return Ok(()),
            }
        }
    }
}

impl IndexSource {
    /// At the first start of the pipeline, moves the positions of the shards that are there to their ends, unless they are to be read.
    /// If it is interrupted, the next start does it again.
    async fn start(&mut self, output: &SourceOutput) -> Result<()> {
        if output.resume_offset(STARTED).await?.is_some() {
            self.skips_restored = true;
            return Ok(());
        }
        if self.read_from == ReadFrom::Latest {
            for checkpoint in self.checkpoints().await? {
                let partition = partition_of(&checkpoint);
                if let Some(last) = checkpoint.seq_no {
                    skip(output, &partition, last).await?;
                }
            }
        }
        send(output, STARTED, Vec::new(), (0, 0)).await
    }

    async fn checkpoints(&self) -> Result<Vec<ShardCheckpoint>> {
        // Sequence numbers count the events of all tenants.
        let ctx = RequestContext::new();
        self.engine.checkpoints(&ctx, self.target.clone()).await?.require()
    }

    /// Reads what was written since the last look.
    async fn look(&mut self, output: &SourceOutput) -> Result<()> {
        let checkpoints = self.checkpoints().await?;
        let metadata = self.engine.metadata(&RequestContext::new()).await?;
        let partitions: Vec<String> = checkpoints.iter().map(partition_of).collect();
        // An index that was deleted has nothing more to read.
        self.next.retain(|partition, _| partitions.contains(partition));
        let mut readers = Vec::new();
        for (checkpoint, partition) in checkpoints.into_iter().zip(partitions) {
            let (Some(last), Some(index)) = (checkpoint.seq_no, metadata.indices.get(&checkpoint.index)) else {
                continue;
            };
            if self.is_written(index) {
                continue;
            }
            let next = match self.next.get(&partition) {
                Some(next) => *next,
                None => self.first_offset(&checkpoint, &partition, output).await?,
            };
            self.next.insert(partition.clone(), next);
            if next <= last {
                readers.push(Reader {
                    engine: Arc::clone(&self.engine),
                    scope: Arc::clone(&self.scope),
                    output: output.clone(),
                    tenant_field: index.settings.tenant_field.clone(),
                    filter: filter_of_aliases(&self.target.expression, index),
                    checkpoint,
                    partition,
                    next,
                    last,
                });
            }
        }
        let failed = output.counters().counter("unreadable_shards");
        let (mut running, mut unreadable) = (JoinSet::new(), 0);
        let mut readers = readers.into_iter();
        loop {
            while running.len() < SHARDS_AT_ONCE
                && let Some(reader) = readers.next()
            {
                running.spawn(reader.read());
            }
            let Some(ended) = running.join_next().await else {
                break;
            };
            let panicked = |_| Error::internal("a source failed because of a bug, see the log");
            let (reader, result) = ended.map_err(panicked)?;
            match result {
                Ok(()) => {}
                // The batch was handed back: the position says where to go on.
                Err(Failure::Pipeline(error)) => return Err(error),
                Err(Failure::Shard(error)) => {
                    unreadable += 1;
                    let (index, shard) = (&reader.checkpoint.index, reader.checkpoint.shard);
                    tracing::warn!(index, shard, %error, "a shard cannot be read for detection rules; it is tried again");
                }
            }
            self.next.insert(reader.partition, reader.next);
        }
        failed.store(unreadable, Ordering::Relaxed);
        self.skips_restored = true;
        Ok(())
    }

    /// Whether the pipeline writes to an index, by whichever of its names: reading it would never end.
    fn is_written(&self, index: &IndexMetadata) -> bool {
        let names = std::iter::once(&index.name)
            .chain(&index.data_stream)
            .chain(index.aliases.keys());
        names
            .into_iter()
            .any(|name| name.starts_with(ALERTS) || self.written.contains(name))
    }

    /// Returns where a shard is read from that this source has not seen since its start.
    async fn first_offset(&self, checkpoint: &ShardCheckpoint, partition: &str, output: &SourceOutput) -> Result<u64> {
        if let Some(offset) = output.resume_offset(partition).await? {
            return Ok(offset);
        }
        if let Some(offset) = output.resume_offset(&skipped(partition)).await? {
            return Ok(offset / 2);
        }
        let Some(last) = checkpoint.seq_no.filter(|_| self.skips_restored) else {
            return Ok(0);
        };
        if !self.is_restored(checkpoint).await? {
            return Ok(0);
        }
        // Its events are those of an index that was there before.
        tracing::info!(
            index = checkpoint.index,
            "a restored index is not read for detection rules"
        );
        output
            .counters()
            .counter("restored_shards")
            .fetch_add(1, Ordering::Relaxed);
        skip(output, partition, last).await?;
        Ok(last + 1)
    }

    async fn is_restored(&self, checkpoint: &ShardCheckpoint) -> Result<bool> {
        let target = IndexTarget {
            expression: vec![checkpoint.index.clone()],
            options: self.target.options,
        };
        let recoveries = self.engine.recoveries(&RequestContext::new(), target).await?;
        let Knowledge::Known(recoveries) = recoveries else {
            return Ok(false);
        };
        let mut of_shard = recoveries.iter().filter(|recovery| recovery.shard == checkpoint.shard);
        Ok(of_shard.any(|recovery| matches!(recovery.source, RecoverySource::Snapshot { .. })))
    }
}

/// Why a shard was not read to its checkpoint.
enum Failure {
    /// The pipeline did not take the events.
    Pipeline(Error),
    /// They cannot be read.
    Shard(Error),
}

impl Reader {
    /// Reads the shard up to its checkpoint.
    async fn read(mut self) -> (Self, std::result::Result<(), Failure>) {
        let result = self.read_pages().await;
        (self, result)
    }

    async fn read_pages(&mut self) -> std::result::Result<(), Failure> {
        let index: Arc<str> = self.checkpoint.index.as_str().into();
        let mut size = PAGE;
        while self.next <= self.last && !self.output.is_stopped() {
            let hits = match self.page(size).await {
                Ok(hits) => hits,
                // Its events are gone with it.
                Err(error) if error.kind() == ErrorKind::IndexNotFound => return Ok(()),
                Err(error) => return Err(Failure::Shard(error)),
            };
            let is_whole = hits.len() < size;
            let now_ns = self.output.now_ns();
            let (mut events, mut bytes) = (Vec::with_capacity(hits.len()), 0);
            for hit in hits {
                let (seq_no, event) = self.event(&index, hit, now_ns).map_err(Failure::Shard)?;
                bytes += event.bytes.len();
                events.push((seq_no, event));
            }
            let last = match (is_whole, events.last()) {
                (false, Some((seq_no, _))) => *seq_no,
                _ => self.last,
            };
            let events = events.into_iter().map(|(_, event)| event).collect();
            send(&self.output, &self.partition, events, (self.next, last))
                .await
                .map_err(Failure::Pipeline)?;
            self.next = last + 1;
            let next = size.saturating_mul(PAGE_BYTES) / bytes.max(1);
            size = next.clamp(PAGE_MIN, (size * 2).min(PAGE_MAX));
        }
        Ok(())
    }

    async fn page(&self, size: usize) -> Result<Vec<Hit>> {
        let target = IndexTarget {
            expression: vec![self.checkpoint.index.clone()],
            options: IndicesOptions {
                expand_hidden: true,
                ..IndicesOptions::default()
            },
        };
        let mut filters = vec![json!({"range": {"_seq_no": {"gte": self.next, "lte": self.last}}})];
        filters.extend(self.filter.clone());
        let body = json!({
            "size": size, "query": {"bool": {"filter": filters}}, "sort": [{"_seq_no": "asc"}], "track_total_hits": false,
        });
        let mut request = SearchRequest::parse(target, Some(&body))?;
        request.only_shards = vec![self.checkpoint.shard];
        let ctx = RequestContext {
            scope: Arc::clone(&self.scope),
            ..RequestContext::new()
        };
        let response = self.engine.search(&ctx, request).await?;
        if let Some((_, _, error)) = response.shards.failures.into_iter().next() {
            return Err(error);
        }
        match response.timed_out {
            true => Err(Error::new(ErrorKind::Unavailable, "the search took too long")),
            false => Ok(response.hits),
        }
    }

    /// Returns the event of a hit, and its sequence number.
    fn event(&self, index: &Arc<str>, hit: Hit, now_ns: i64) -> Result<(u64, SourceEvent)> {
        let Some(offset) = hit.sort.first().and_then(Value::as_u64) else {
            return Err(Error::internal("a bug: a hit came without its sequence number"));
        };
        let lacks = || {
            let reason = format!("the index [{index}] keeps no [_source], which detection rules read");
            Error::new(ErrorKind::IllegalArgument, reason)
        };
        let bytes = hit.source.ok_or_else(lacks)?;
        let event = SourceEvent {
            offset,
            received_ns: now_ns,
            context: None,
            stored_at: Some(Box::new(StoredAt {
                tenant: self.tenant_field.as_deref().and_then(|field| tenant_of(&bytes, field)),
                index: Arc::clone(index),
                id: hit.id,
            })),
            bytes,
        };
        Ok((offset, event))
    }
}

/// Returns the query of the aliases through which alone these names reach an index, as a search by the names has it: an event must match
/// one of them. `None`: the index is reached by its own name, by its data stream, or by an alias without a filter.
fn filter_of_aliases(names: &[String], index: &IndexMetadata) -> Option<Value> {
    let is_named = |name: &str| names.iter().any(|pattern| matches_pattern(pattern, name));
    if is_named(&index.name) || index.data_stream.as_deref().is_some_and(is_named) {
        return None;
    }
    let aliases = index.aliases.iter().filter(|(name, _)| is_named(name));
    let filters: Vec<Value> = aliases.map(|(_, alias)| alias.filter.clone()).collect::<Option<_>>()?;
    (!filters.is_empty()).then(|| json!({"bool": {"should": filters, "minimum_should_match": 1}}))
}

/// Returns the tenant of an event of an index that holds events by tenant, which `field` of it names.
pub fn tenant_of(event: &[u8], field: &str) -> Option<String> {
    let event: Map<String, Value> = serde_json::from_slice(event).ok()?;
    if let Some(text) = event.get(field).and_then(Value::as_str) {
        return Some(text.to_owned());
    }
    let (first, rest) = field.split_once('.')?;
    let inner = event.get(first)?.pointer(&format!("/{}", rest.replace('.', "/")))?;
    inner.as_str().map(str::to_owned)
}

/// Hands over events and waits until the pipeline has done its part.
async fn send(output: &SourceOutput, partition: &str, events: Vec<SourceEvent>, covered: (u64, u64)) -> Result<()> {
    let (done, outcome) = oneshot::channel();
    let batch = Batch {
        stored: None,
        partition: Some(partition.into()),
        events,
        first_offset: covered.0,
        last_offset: covered.1,
        retries: true,
        note: None,
        done: Some(done),
    };
    output.send(batch).await?;
    let stops = |_| Error::new(ErrorKind::Unavailable, "the pipeline stops");
    outcome.await.map_err(stops)?.map(drop)
}

/// Moves the start of a shard behind its event `last`. A position may be answered as the start or as the end of its last batch; a
/// partition of its own, whose offsets are twice as large, tells the same in both cases.
async fn skip(output: &SourceOutput, partition: &str, last: u64) -> Result<()> {
    let place = (last + 1) * 2;
    send(output, &skipped(partition), Vec::new(), (place, place)).await
}

fn skipped(partition: &str) -> String {
    format!("{SKIPPED}{partition}")
}

fn partition_of(checkpoint: &ShardCheckpoint) -> String {
    let ShardCheckpoint {
        index,
        index_uuid,
        shard,
        ..
    } = checkpoint;
    format!("{index}/{index_uuid}/{shard}")
}
