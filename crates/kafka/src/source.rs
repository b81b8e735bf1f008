//! Member of a consumer group: one task that polls, cuts batches, and hands them to the pipeline.
//!
//! The task never waits for the pipeline. A partition whose batches are not taken is paused, and polling goes on, so that the
//! group keeps its member.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use firn_model::{Error, Result};
use firn_pipeline::definition::KafkaDefinition;
use firn_pipeline::sources::{BatchOutcome, SendRefused, Source, SourceOutput};
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::config::{self, KafkaConfig, OffsetReset};
use crate::context::{Change, Context, Place};
use crate::native;
use crate::partition::{Partition, Phase};
use crate::resume::{REQUEST_TIME_MAX, Resumed, resume};

/// Batches of one partition without an outcome.
const BATCHES_UNFINISHED_MAX: usize = 2;
/// How often batches that were not taken are sent again, and lingering ones are looked for.
const TICK_MAX: Duration = Duration::from_millis(20);
/// Pause before the place to continue is looked up again after a failure.
const LOOKUP_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// How often the topics are checked for having been deleted and made again.
const TOPIC_CHECK_EVERY: Duration = Duration::from_secs(1);
/// Messages that are handled before other work is looked at.
const MESSAGES_AT_ONCE: usize = 500;
/// Time at the stop for batches that were sent, so that their offsets are committed.
const STOP_TIME_MAX: Duration = Duration::from_secs(1);

/// Source of a consumer group.
#[derive(Debug)]
pub struct KafkaSource {
    config: KafkaConfig,
    client: ClientConfig,
    reset: OffsetReset,
}

impl KafkaSource {
    /// Checks the settings; nothing connects before the source runs.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::IllegalArgument`] names the setting that is unknown, invalid, missing or reserved.
    pub fn open(config: KafkaConfig) -> Result<Box<dyn Source>> {
        let (client, reset) = config::validate(&config)?;
        Ok(Box::new(Self { config, client, reset }))
    }

    /// As [`KafkaSource::open`], from a definition, whose file of settings is read.
    pub fn of_definition(definition: &KafkaDefinition) -> Result<Box<dyn Source>> {
        Self::open(KafkaConfig::of_definition(definition)?)
    }
}

#[async_trait]
impl Source for KafkaSource {
    async fn run(self: Box<Self>, output: SourceOutput) -> Result<()> {
        let (changes_sender, changes) = mpsc::unbounded_channel();
        let context = Context::new(changes_sender, output.counters());
        let consumer: KafkaResult<StreamConsumer<Context>> = self.client.create_with_context(context);
        let consumer = Arc::new(consumer.map_err(|error| config::refused(&error))?);
        let topics: Vec<&str> = self.config.topics.iter().map(String::as_str).collect();
        consumer
            .subscribe(&topics)
            .map_err(|error| Error::illegal_argument(format!("the Kafka setting [topics] is refused: {error}")))?;
        let mut member = Member {
            consumer,
            output,
            config: self.config,
            reset: self.reset,
            partitions: HashMap::new(),
            changes,
            assignments: 0,
            lookups: JoinSet::new(),
            outcomes: JoinSet::new(),
            topic_checks: JoinSet::new(),
        };
        let ended = member.run().await;
        member.close().await;
        ended
    }
}

/// Result of the lookup of an assignment.
struct Lookup {
    place: Place,
    assignment: u64,
    resumed: Result<Resumed>,
}

/// Outcome of a batch that was sent.
struct Finished {
    place: Place,
    assignment: u64,
    generation: u64,
    last_offset: u64,
    is_stored: bool,
}

struct Member {
    consumer: Arc<StreamConsumer<Context>>,
    output: SourceOutput,
    config: KafkaConfig,
    reset: OffsetReset,
    partitions: HashMap<Place, Partition>,
    changes: mpsc::UnboundedReceiver<Change>,
    /// Number of the last assignment.
    assignments: u64,
    lookups: JoinSet<Lookup>,
    outcomes: JoinSet<Finished>,
    /// At most one: topics with their ids.
    topic_checks: JoinSet<Vec<(Arc<str>, KafkaResult<String>)>>,
}

impl Member {
    async fn run(&mut self) -> Result<()> {
        let output = self.output.clone();
        let stopped = output.stopped();
        tokio::pin!(stopped);
        let consumer = Arc::clone(&self.consumer);
        let mut tick = tokio::time::interval(self.config.linger.clamp(Duration::from_millis(1), TICK_MAX));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut topic_check = tokio::time::interval(TOPIC_CHECK_EVERY);
        topic_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = &mut stopped => return Ok(()),
                // `self` holds the sender's context, so the channel stays open.
                Some(change) = self.changes.recv() => self.change(change),
                Some(Ok(lookup)) = self.lookups.join_next() => self.looked_up(lookup),
                Some(Ok(finished)) = self.outcomes.join_next() => self.finished(&finished),
                Some(Ok(ids)) = self.topic_checks.join_next() => self.check_topics(ids),
                _ = topic_check.tick() => self.start_topic_check(),
                _ = tick.tick() => self.tick(),
                received = consumer.recv() => {
                    self.received(received)?;
                    // Messages that were fetched ahead need no wait.
                    for _ in 1..MESSAGES_AT_ONCE {
                        let Some(received) = now_or_never(consumer.recv()) else { break };
                        self.received(received)?;
                    }
                }
            }
        }
    }

    /// Waits a short time for batches that were sent, and leaves the group (a static member keeps its place).
    async fn close(mut self) {
        let _ = tokio::time::timeout(STOP_TIME_MAX, async {
            while let Some(finished) = self.outcomes.join_next().await {
                if let Ok(finished) = finished {
                    self.finished_at_stop(&finished);
                }
            }
        })
        .await;
        self.lookups.shutdown().await;
        // A request in a blocking thread ends by itself.
        self.topic_checks.detach_all();
        // Closing blocks until the coordinator has answered.
        let consumer = self.consumer;
        let _ = tokio::task::spawn_blocking(move || drop(consumer)).await;
    }

    fn apply_changes(&mut self) {
        while let Ok(change) = self.changes.try_recv() {
            self.change(change);
        }
    }

    fn change(&mut self, change: Change) {
        self.count("rebalances", 1);
        match change {
            Change::Assigned(places) => {
                for place in places {
                    self.assignments += 1;
                    self.partitions.insert(place, Partition::new(self.assignments));
                }
                self.start_lookups();
            }
            Change::Revoked(places) => {
                for place in places {
                    self.partitions.remove(&place);
                }
            }
            Change::AllRevoked => self.partitions.clear(),
        }
    }

    /// Starts lookups for partitions that wait for one. A partition with unfinished batches waits for their outcomes, because
    /// they move the record of stored events.
    fn start_lookups(&mut self) {
        let now = std::time::Instant::now();
        for (place, partition) in &mut self.partitions {
            let is_due = matches!(partition.phase, Phase::Waiting(from) if from <= now);
            if !is_due || partition.unfinished > 0 {
                continue;
            }
            partition.phase = Phase::Resolving;
            if !partition.is_paused {
                partition.is_paused = self.consumer.pause(&list_of(place)).is_ok();
            }
            let (consumer, output, reset) = (Arc::clone(&self.consumer), self.output.clone(), self.reset);
            let (place, assignment) = (place.clone(), partition.assignment);
            self.lookups.spawn(async move {
                let resumed = resume(consumer, output, place.clone(), reset).await;
                Lookup {
                    place,
                    assignment,
                    resumed,
                }
            });
        }
    }

    fn looked_up(&mut self, lookup: Lookup) {
        self.apply_changes();
        let Some(partition) = self.partitions.get_mut(&lookup.place) else {
            return;
        };
        if partition.assignment != lookup.assignment || partition.phase != Phase::Resolving {
            return;
        }
        match lookup.resumed {
            Ok(resumed) => {
                partition.activate(resumed.name, resumed.offset);
                match self.consumer.resume(&list_of(&lookup.place)) {
                    Ok(()) => partition.is_paused = false,
                    Err(error) => {
                        tracing::warn!(%error, "cannot resume a Kafka partition; retrying");
                        partition.rewind(LOOKUP_AGAIN_AFTER);
                    }
                }
                self.count("offsets_lost", resumed.lost);
            }
            Err(error) => {
                tracing::warn!(%error, topic = %lookup.place.0, partition = lookup.place.1,
                    "cannot find the offset at which to resume a Kafka partition; retrying");
                partition.rewind(LOOKUP_AGAIN_AFTER);
                self.count("lookups_failed", 1);
            }
        }
    }

    fn received(&mut self, received: KafkaResult<BorrowedMessage<'_>>) -> Result<()> {
        // A callback of this poll may have taken the partition of the message away.
        self.apply_changes();
        match received {
            Ok(message) => self.message(&message),
            Err(KafkaError::MessageConsumptionFatal(code)) => {
                return Err(Error::new(
                    firn_model::ErrorKind::Unavailable,
                    format!("the Kafka client has failed permanently: {code}"),
                ));
            }
            Err(KafkaError::PartitionEOF(_)) => {}
            Err(error) => {
                tracing::warn!(%error, "reading from Kafka failed; retrying");
                self.count("kafka_errors", 1);
                self.start_topic_check();
            }
        }
        Ok(())
    }

    fn message(&mut self, message: &BorrowedMessage<'_>) {
        let place: Place = (Arc::from(message.topic()), message.partition());
        let Some(partition) = self.partitions.get_mut(&place) else {
            return;
        };
        let (Phase::Active { .. }, Ok(offset)) = (&partition.phase, u64::try_from(message.offset())) else {
            // It is read again from the offset that is being looked up.
            return;
        };
        if offset < partition.next_offset {
            // The log starts anew: the topic was made again, or its broker lost records.
            tracing::warn!(topic = %place.0, partition = place.1, offset, expected = partition.next_offset,
                "the offsets of a Kafka partition went back; looking up the resume offset again");
            partition.rewind(Duration::ZERO);
            self.count("offsets_went_back", 1);
            self.start_lookups();
            return;
        }
        let mut lost = 0;
        if offset > partition.next_offset {
            // Control records and compacted records are skipped as a matter of course; records before the log's start are lost.
            let start = native::log_start(self.consumer.client(), &place.0, place.1).unwrap_or(0);
            lost = start.min(offset).saturating_sub(partition.next_offset);
            if lost > 0 {
                tracing::error!(topic = %place.0, partition = place.1, expected = partition.next_offset, log_start = start,
                    lost, "Kafka's retention removed records before they were read");
            }
        }
        let is_tombstone = message.payload().is_none();
        // The time of the record, so that an event without a time of its own has the same one however often it is read.
        let written_ns = message.timestamp().to_millis().filter(|ms| *ms > 0);
        let received_ns = written_ns.map_or_else(|| self.output.now_ns(), |ms| ms.saturating_mul(1_000_000));
        partition.push(offset, message.payload(), received_ns, &self.config);
        let is_ready = !partition.ready.is_empty();
        self.count("offsets_lost", lost);
        self.count("tombstones", u64::from(is_tombstone));
        if is_ready {
            self.pump(&place);
        }
    }

    /// Sends the batches of a partition that may be sent, and pauses or resumes it.
    fn pump(&mut self, place: &Place) {
        let Some(partition) = self.partitions.get_mut(place) else {
            return;
        };
        while partition.unfinished < BATCHES_UNFINISHED_MAX {
            let Some(mut batch) = partition.ready.pop_front() else {
                break;
            };
            let last_offset = batch.last_offset;
            let (done, outcome) = oneshot::channel::<Result<BatchOutcome>>();
            batch.done = Some(done);
            match self.output.try_send(batch) {
                Ok(()) => {}
                Err(SendRefused::Full(batch)) => {
                    partition.ready.push_front(batch);
                    break;
                }
                // The source is about to be stopped.
                Err(SendRefused::Stopped) => return,
            }
            partition.unfinished += 1;
            let (place, assignment, generation) = (place.clone(), partition.assignment, partition.generation);
            self.outcomes.spawn(async move {
                Finished {
                    place,
                    assignment,
                    generation,
                    last_offset,
                    is_stored: matches!(outcome.await, Ok(Ok(_))),
                }
            });
        }
        if !matches!(partition.phase, Phase::Active { .. }) {
            return;
        }
        let must_pause = !partition.ready.is_empty();
        if must_pause == partition.is_paused {
            return;
        }
        let changed = if must_pause {
            self.consumer.pause(&list_of(place))
        } else {
            self.consumer.resume(&list_of(place))
        };
        match changed {
            Ok(()) => partition.is_paused = must_pause,
            Err(error) => tracing::warn!(%error, "cannot pause or resume a Kafka partition; retrying"),
        }
        self.count("pauses", u64::from(must_pause));
    }

    fn finished(&mut self, finished: &Finished) {
        self.apply_changes();
        let Some(partition) = self.partitions.get_mut(&finished.place) else {
            return;
        };
        if partition.assignment != finished.assignment {
            return;
        }
        partition.unfinished -= 1;
        if partition.generation == finished.generation {
            if finished.is_stored {
                self.commit(&finished.place, finished.last_offset);
            } else {
                // The batch is read again. The record of stored events tells from where.
                partition.rewind(LOOKUP_AGAIN_AFTER);
                self.count("batches_refused", 1);
            }
        }
        self.pump(&finished.place);
        self.start_lookups();
    }

    fn finished_at_stop(&mut self, finished: &Finished) {
        self.apply_changes();
        let partition = self.partitions.get(&finished.place);
        let is_current = partition.is_some_and(|partition| {
            partition.assignment == finished.assignment && partition.generation == finished.generation
        });
        if is_current && finished.is_stored {
            self.commit(&finished.place, finished.last_offset);
        }
    }

    /// Commits an offset of a partition that is assigned, so that Kafka's tools show the lag.
    fn commit(&self, place: &Place, last_offset: u64) {
        let mut list = TopicPartitionList::with_capacity(1);
        let added = list.add_partition_offset(&place.0, place.1, Offset::Offset(last_offset as i64 + 1));
        if let Err(error) = added.and_then(|()| self.consumer.commit(&list, CommitMode::Async)) {
            tracing::debug!(%error, "an offset was not committed to Kafka");
        }
    }

    fn tick(&mut self) {
        let linger = self.config.linger;
        let mut places = Vec::new();
        for (place, partition) in &mut self.partitions {
            partition.cut_if_due(linger);
            if !partition.ready.is_empty() || partition.is_paused {
                places.push(place.clone());
            }
        }
        for place in places {
            self.pump(&place);
        }
        self.start_lookups();
    }

    /// Asks for the ids of all topics that are read, unless that is under way.
    fn start_topic_check(&mut self) {
        if !self.topic_checks.is_empty() {
            return;
        }
        let mut topics: Vec<Arc<str>> = self.partitions.keys().map(|(topic, _)| Arc::clone(topic)).collect();
        topics.sort_unstable();
        topics.dedup();
        if topics.is_empty() {
            return;
        }
        let consumer = Arc::clone(&self.consumer);
        self.topic_checks.spawn_blocking(move || {
            let ids = topics.into_iter().map(|topic| {
                let id = native::topic_id(consumer.client(), &topic, REQUEST_TIME_MAX);
                (topic, id)
            });
            ids.collect()
        });
    }

    fn check_topics(&mut self, ids: Vec<(Arc<str>, KafkaResult<String>)>) {
        for (topic, id) in ids {
            let id = match id {
                Ok(id) => id,
                // A deleted topic may come back; its partitions are revoked meanwhile.
                Err(KafkaError::AdminOp(RDKafkaErrorCode::UnknownTopicOrPartition)) => continue,
                Err(error) => {
                    tracing::debug!(%error, %topic, "the id of a Kafka topic was not found");
                    continue;
                }
            };
            for ((of_topic, number), partition) in &mut self.partitions {
                let Phase::Active { name } = &partition.phase else {
                    continue;
                };
                let known_id = name.split('/').next();
                if *of_topic == topic && known_id != Some(&id) {
                    tracing::warn!(%topic, partition = number, "a Kafka topic was deleted and created again");
                    partition.rewind(Duration::ZERO);
                }
            }
        }
        self.start_lookups();
    }

    fn count(&self, name: &'static str, count: u64) {
        if count > 0 {
            let counter = self.output.counters().counter(name);
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }
}

fn list_of(place: &Place) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(1);
    list.add_partition(&place.0, place.1);
    list
}

/// Polls a future once.
fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    let future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}
