//! Broker that all tests share, its topics, and a pipeline that stores each event once, as the engine does.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use firn_kafka::{KafkaConfig, KafkaSource};
use firn_model::Result;
use firn_pipeline::sources::{BatchOutcome, Positions, Received, SourceCounters, channel};
use firn_testkit::Kafka;
use parking_lot::Mutex;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::sync::{RwLock, mpsc, watch};
use tokio::task::JoinHandle;

const DEADLINE: Duration = Duration::from_secs(40);

pub(crate) struct Broker {
    pub(crate) kafka: Kafka,
    _folder: tempfile::TempDir,
}

/// A test that stops the broker locks it for writing.
pub(crate) static BROKER: LazyLock<RwLock<Broker>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let kafka = Kafka::start(folder.path()).expect("Kafka starts");
    RwLock::new(Broker { kafka, _folder: folder })
});

impl Broker {
    fn admin(&self) -> AdminClient<DefaultClientContext> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.kafka.address());
        config.create().expect("an admin client")
    }

    pub(crate) async fn create_topic(&self, name: &str, partitions: i32) {
        let started = Instant::now();
        loop {
            let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
            let created = self.admin().create_topics([&topic], &AdminOptions::new()).await;
            match created.expect("an answer").remove(0) {
                Ok(_) => return,
                // A topic that was just deleted.
                Err((_, RDKafkaErrorCode::TopicAlreadyExists)) if started.elapsed() < DEADLINE => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    pub(crate) async fn delete_topic(&self, name: &str) {
        let deleted = self.admin().delete_topics(&[name], &AdminOptions::new()).await;
        deleted.expect("an answer").remove(0).expect("the topic is deleted");
    }

    /// Removes the records of partition 0 before `offset`, as retention does.
    pub(crate) async fn delete_records(&self, topic: &str, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, 0, Offset::Offset(offset))
            .expect("a valid offset");
        self.admin()
            .delete_records(&list, &AdminOptions::new())
            .await
            .expect("records are deleted");
    }

    /// Writes records into one partition; `None`: a tombstone.
    pub(crate) async fn produce(&self, topic: &str, partition: i32, codec: &str, records: Vec<Option<String>>) {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", self.kafka.address())
            .set("compression.type", codec)
            .set("max.in.flight", "1")
            .set("linger.ms", "5");
        let topic = topic.to_owned();
        let written = tokio::task::spawn_blocking(move || {
            let producer: BaseProducer = config.create().expect("a producer");
            for record in &records {
                let mut to_send = BaseRecord::<str, str>::to(&topic).partition(partition).key("key");
                if let Some(record) = record {
                    to_send = to_send.payload(record);
                }
                producer
                    .send(to_send)
                    .map_err(|(error, _)| error)
                    .expect("the queue has room");
            }
            producer.flush(DEADLINE).expect("all records are written");
        });
        written.await.expect("the producer does not panic");
    }

    pub(crate) fn config(&self, topic: &str, group: &str, settings: &[(&str, &str)]) -> KafkaConfig {
        let address = self.kafka.address();
        let common = [
            ("bootstrap.servers", address.as_str()),
            ("group.id", group),
            ("session.timeout.ms", "1500"),
            ("heartbeat.interval.ms", "300"),
        ];
        let settings = common
            .iter()
            .chain(settings)
            .map(|(name, value)| ((*name).into(), (*value).into()));
        let mut config = KafkaConfig::new(vec![topic.to_owned()], settings.collect());
        config.linger = Duration::from_millis(20);
        config.batch_events_max = 700;
        config
    }
}

/// Numbered records of one partition.
pub(crate) fn records(prefix: &str, numbers: std::ops::Range<usize>) -> Vec<Option<String>> {
    numbers.map(|number| Some(format!("{prefix} {number}"))).collect()
}

/// What was stored; shared by the members of a group.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    events: Mutex<BTreeMap<(String, u64), Bytes>>,
    resume: Mutex<HashMap<String, u64>>,
    delivered: AtomicU64,
    /// Whether batches may leave offsets out.
    may_lose: AtomicBool,
}

#[async_trait]
impl Positions for Stored {
    async fn resume_offset(&self, partition: &str) -> Result<Option<u64>> {
        Ok(self.resume.lock().get(partition).copied())
    }
}

impl Stored {
    fn take(&self, received: Received) {
        let mut batch = received.batch;
        let partition = batch.partition.as_deref().expect("Kafka has partitions").to_owned();
        let mut before = None;
        for event in &batch.events {
            assert!((batch.first_offset..=batch.last_offset).contains(&event.offset));
            assert!(before.is_none_or(|before| before < event.offset), "offsets ascend");
            before = Some(event.offset);
            let place = (partition.clone(), event.offset);
            let same = self.events.lock().insert(place, event.bytes.clone());
            assert!(same.is_none_or(|same| same == event.bytes), "an offset has two events");
        }
        let read = batch.events.len() as u64;
        self.delivered.fetch_add(read, Ordering::Relaxed);
        let mut resume = self.resume.lock();
        let stored = resume.entry(partition).or_insert(batch.first_offset);
        let leaves_gap = batch.first_offset > *stored;
        assert!(
            !leaves_gap || self.may_lose.load(Ordering::Relaxed),
            "{} > {stored}",
            batch.first_offset
        );
        *stored = (*stored).max(batch.last_offset + 1);
        drop(resume);
        let outcome = BatchOutcome {
            read,
            indexed: read,
            ..BatchOutcome::default()
        };
        if let Some(done) = batch.done.take() {
            let _ = done.send(Ok(outcome));
        }
    }

    /// Returns the records of each partition in the order of their offsets.
    pub(crate) fn by_partition(&self) -> BTreeMap<String, Vec<(u64, String)>> {
        let mut partitions: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
        for ((partition, offset), bytes) in &*self.events.lock() {
            let text = String::from_utf8_lossy(bytes).into_owned();
            partitions.entry(partition.clone()).or_default().push((*offset, text));
        }
        partitions
    }

    pub(crate) fn count(&self) -> usize {
        self.events.lock().len()
    }

    /// Events that were delivered, an event that came twice counted twice.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    pub(crate) fn allow_lost_offsets(&self) {
        self.may_lose.store(true, Ordering::Relaxed);
    }

    /// Has the record of the only partition end at `offset`, as if records up to there had been stored.
    pub(crate) fn resume_at(&self, offset: u64) {
        self.resume.lock().values_mut().for_each(|resume| *resume = offset);
    }

    /// Forgets the events from `offset` on of the only partition, as if they had never been stored.
    pub(crate) fn forget_from(&self, offset: u64) {
        self.events.lock().retain(|(_, at), _| *at < offset);
        self.resume.lock().values_mut().for_each(|resume| *resume = offset);
        self.delivered.store(0, Ordering::Relaxed);
    }
}

/// A running member of a group.
pub(crate) struct Member {
    pub(crate) counters: Arc<SourceCounters>,
    /// Batches that this member delivered.
    pub(crate) batches: Arc<AtomicU64>,
    stop: watch::Sender<bool>,
    takes: watch::Sender<bool>,
    source: JoinHandle<Result<()>>,
    taking: JoinHandle<()>,
}

impl Member {
    pub(crate) fn start(config: KafkaConfig, stored: &Arc<Stored>) -> Self {
        let source = KafkaSource::open(config).expect("the settings are valid");
        let (stop, stopped) = watch::channel(false);
        let (takes, open) = watch::channel(true);
        let counters = Arc::new(SourceCounters::default());
        let positions = Arc::clone(stored) as Arc<dyn Positions>;
        let (output, received) = channel(32 << 10, positions, Arc::clone(&counters), Arc::new(|| 7), stopped);
        let batches = Arc::new(AtomicU64::new(0));
        Self {
            counters,
            batches: Arc::clone(&batches),
            stop,
            takes,
            source: tokio::spawn(source.run(output)),
            taking: tokio::spawn(take(received, open, Arc::clone(stored), batches)),
        }
    }

    pub(crate) fn takes_batches(&self, takes: bool) {
        self.takes.send_replace(takes);
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.counters.values().get(name).copied().unwrap_or(0)
    }

    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        self.source
            .await
            .expect("the source does not panic")
            .expect("the source ends well");
        self.taking.await.expect("no event is wrong");
    }

    /// Ends the source at once. A static member does not leave its group then, as after a kill.
    pub(crate) async fn kill(self) {
        self.source.abort();
        let _ = self.source.await;
        self.taking.await.expect("no event is wrong");
    }
}

async fn take(
    mut received: mpsc::Receiver<Received>,
    mut open: watch::Receiver<bool>,
    stored: Arc<Stored>,
    batches: Arc<AtomicU64>,
) {
    loop {
        if open.wait_for(|open| *open).await.is_err() {
            return;
        }
        let Some(batch) = received.recv().await else { return };
        if open.wait_for(|open| *open).await.is_err() {
            return;
        }
        stored.take(batch);
        batches.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) async fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
