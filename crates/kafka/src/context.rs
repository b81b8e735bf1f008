//! Callbacks of librdkafka: they only pass on what happened, since a callback that blocks stops the whole group member.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firn_pipeline::sources::SourceCounters;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::{ClientContext, Statistics};
use tokio::sync::mpsc;

/// Topic and number of a partition.
pub(crate) type Place = (Arc<str>, i32);

/// Change of the partitions that this member reads.
#[derive(Debug)]
pub(crate) enum Change {
    Assigned(Vec<Place>),
    Revoked(Vec<Place>),
    AllRevoked,
}

pub(crate) struct Context {
    changes: mpsc::UnboundedSender<Change>,
    errors: Arc<AtomicU64>,
    lag: Arc<AtomicU64>,
}

impl Context {
    pub(crate) fn new(changes: mpsc::UnboundedSender<Change>, counters: &SourceCounters) -> Self {
        let errors = counters.counter("kafka_errors");
        let lag = counters.counter("lag");
        Self { changes, errors, lag }
    }
}

/// Writes a line of librdkafka's log to firn's.
pub(crate) fn log_line(level: RDKafkaLogLevel, facility: &str, message: &str) {
    match level {
        RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
            tracing::error!(facility, "kafka: {message}");
        }
        RDKafkaLogLevel::Warning | RDKafkaLogLevel::Notice => tracing::warn!(facility, "kafka: {message}"),
        RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => tracing::debug!(facility, "kafka: {message}"),
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log_line(level, facility, message);
    }

    fn stats(&self, statistics: Statistics) {
        let partitions = statistics.topics.values().flat_map(|topic| topic.partitions.values());
        let lag = partitions.filter(|partition| partition.desired).map(|partition| {
            // A partition that was not read yet has no offset: librdkafka shows a negative number.
            let end = partition.ls_offset.max(partition.hi_offset);
            let read = partition.app_offset.max(partition.committed_offset);
            if read < 0 { 0 } else { (end - read).max(0) as u64 }
        });
        self.lag.store(lag.sum(), Ordering::Relaxed);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%error, reason, "the Kafka client has an error; retrying");
    }
}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        // The receiver is gone once the source has stopped.
        let _ = match rebalance {
            Rebalance::Assign(_) => Ok(()),
            Rebalance::Revoke(partitions) => self.changes.send(Change::Revoked(places(partitions))),
            Rebalance::Error(_) => self.changes.send(Change::AllRevoked),
        };
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(partitions) = rebalance {
            // Nothing is fetched until the source has sought to where it continues. This only queues a request.
            if let Err(error) = consumer.pause(partitions) {
                tracing::warn!(%error, "cannot pause new Kafka partitions");
            }
            let _ = self.changes.send(Change::Assigned(places(partitions)));
        }
    }
}

fn places(partitions: &TopicPartitionList) -> Vec<Place> {
    let elements = partitions.elements();
    elements
        .iter()
        .map(|element| (Arc::from(element.topic()), element.partition()))
        .collect()
}
