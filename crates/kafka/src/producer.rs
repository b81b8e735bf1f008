//! Producer of records of one topic, each acknowledged by all replicas.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use firn_model::{Error, Result};
use parking_lot::Mutex;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Statistics};

use crate::config::refused;
use crate::context::log_line;

/// Settings that the producer owns, and why.
const RESERVED: [(&str, &str); 9] = [
    ("acks", "a record counts once all replicas have it"),
    ("request.required.acks", "a record counts once all replicas have it"),
    ("enable.idempotence", "a record that is sent again is stored once"),
    ("transactional.id", "records are sent without transactions"),
    ("allow.auto.create.topics", "a producer creates no topic"),
    ("dr_msg_cb", "a definition cannot set it"),
    ("plugin.library.paths", "no code is loaded"),
    ("ssl.engine.location", "no code is loaded"),
    ("ssl.providers", "no code is loaded"),
];
/// Values of a fresh configuration that users may change.
const DEFAULTS: [(&str, &str); 4] = [
    // Records are few, and are wanted soon.
    ("linger.ms", "0"),
    ("message.timeout.ms", "15000"),
    ("topic.metadata.propagation.max.ms", "10000"),
    // A broker that restarts is found again soon.
    ("reconnect.backoff.max.ms", "1000"),
];
const BOOTSTRAP: [&str; 2] = ["bootstrap.servers", "metadata.broker.list"];
/// Longest name of a topic, in bytes.
const TOPIC_BYTES_MAX: usize = 249;

/// Record to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducedRecord {
    /// Records with the same key go to the same partition; `None`: to any.
    pub key: Option<String>,
    /// The value.
    pub value: Vec<u8>,
    /// Names and values of headers.
    pub headers: Vec<(&'static str, String)>,
}

/// Why a record was not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProduceError {
    /// What the broker or the client said.
    pub reason: String,
    /// The broker will never take this record: it is too large or invalid. Otherwise it may be sent again later.
    pub is_permanent: bool,
}

impl fmt::Display for ProduceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for ProduceError {}

/// Sends records to one topic. Records with the same key keep their order.
pub struct KafkaProducer {
    /// `None` only while this is dropped.
    producer: Option<FutureProducer<Context>>,
    topic: String,
    last_error: Arc<Mutex<Option<String>>>,
}

impl fmt::Debug for KafkaProducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaProducer")
            .field("topic", &self.topic)
            .finish_non_exhaustive()
    }
}

struct Context {
    last_error: Arc<Mutex<Option<String>>>,
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log_line(level, facility, message);
    }

    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(%error, reason, "the Kafka producer has an error; retrying");
        *self.last_error.lock() = Some(reason.to_owned());
    }
}

impl KafkaProducer {
    /// Checks settings by librdkafka's names and the name of a topic. Nothing connects.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::IllegalArgument`] names the setting that is unknown, invalid, missing or reserved.
    pub fn check(topic: &str, settings: &BTreeMap<String, String>) -> Result<()> {
        config(topic, settings).map(drop)
    }

    /// Creates a producer, which connects by and by.
    ///
    /// # Errors
    /// As [`KafkaProducer::check`]; also for settings that contradict each other, and if no thread can be started.
    pub fn open(topic: &str, settings: &BTreeMap<String, String>) -> Result<Self> {
        let last_error = Arc::default();
        let context = Context {
            last_error: Arc::clone(&last_error),
        };
        let producer = config(topic, settings)?.create_with_context(context);
        Ok(Self {
            producer: Some(producer.map_err(|error| refused(&error))?),
            topic: topic.to_owned(),
            last_error,
        })
    }

    /// Sends records; returns the outcome of each, in the same order, once the brokers have acknowledged or refused them all, or
    /// `message.timeout.ms` is over. A record may be stored although its outcome is an error.
    pub async fn send(&self, records: &[ProducedRecord]) -> Vec<Result<(), ProduceError>> {
        let mut sent: Vec<Result<DeliveryFuture, KafkaError>> = Vec::with_capacity(records.len());
        for record in records {
            sent.push(self.enqueue(record));
        }
        let mut outcomes = Vec::with_capacity(sent.len());
        for sent in sent {
            outcomes.push(match sent {
                Err(error) => Err(self.failure(&error)),
                Ok(delivery) => match delivery.await {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err((error, _))) => Err(self.failure(&error)),
                    Err(_) => Err(ProduceError {
                        reason: "the Kafka producer has ended".to_owned(),
                        is_permanent: false,
                    }),
                },
            });
        }
        if outcomes.iter().any(Result::is_ok) {
            *self.last_error.lock() = None;
        }
        outcomes
    }

    /// Hands a record to librdkafka's queue, which holds at most `queue.buffering.max.messages` (100,000) records.
    fn enqueue(&self, record: &ProducedRecord) -> Result<DeliveryFuture, KafkaError> {
        let headers = record
            .headers
            .iter()
            .fold(OwnedHeaders::new(), |headers, (name, value)| {
                headers.insert(Header {
                    key: name,
                    value: Some(value),
                })
            });
        let mut of_topic = FutureRecord::<str, [u8]>::to(&self.topic)
            .payload(&record.value)
            .headers(headers);
        if let Some(key) = &record.key {
            of_topic = of_topic.key(key);
        }
        let producer = self.producer.as_ref().ok_or(KafkaError::Canceled)?;
        producer.send_result(of_topic).map_err(|(error, _)| error)
    }

    fn failure(&self, error: &KafkaError) -> ProduceError {
        let code = error.rdkafka_error_code();
        let is_permanent = matches!(
            code,
            Some(
                RDKafkaErrorCode::MessageSizeTooLarge
                    | RDKafkaErrorCode::InvalidMessageSize
                    | RDKafkaErrorCode::MessageBatchTooLarge
                    | RDKafkaErrorCode::InvalidMessage
                    | RDKafkaErrorCode::InvalidRecord
            )
        );
        let said = code.map_or_else(|| error.to_string(), |code| code.to_string());
        let reason = match (&*self.last_error.lock(), is_permanent) {
            (Some(last), false) => format!(
                "topic [{}]: {said}; the last error of the connection: {last}",
                self.topic
            ),
            _ => format!("topic [{}]: {said}", self.topic),
        };
        ProduceError { reason, is_permanent }
    }
}

impl Drop for KafkaProducer {
    fn drop(&mut self) {
        let producer = self.producer.take();
        // librdkafka waits for what is in flight, half a second at most, which would stop a thread that runs other tasks.
        let ending = std::thread::Builder::new().name("firn-kafka-end".to_owned());
        drop(ending.spawn(move || drop(producer)));
    }
}

fn config(topic: &str, settings: &BTreeMap<String, String>) -> Result<ClientConfig> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if topic.is_empty() || topic.len() > TOPIC_BYTES_MAX || !topic.bytes().all(is_allowed) {
        return Err(Error::illegal_argument(format!(
            "[{topic}] is not a valid name of a Kafka topic"
        )));
    }
    let is_named = |name: &str| settings.get(name).is_some_and(|value| !value.trim().is_empty());
    if !BOOTSTRAP.iter().any(|name| is_named(name)) {
        return Err(Error::illegal_argument(
            "the Kafka setting [bootstrap.servers] is missing",
        ));
    }
    for (name, reason) in RESERVED {
        if settings.contains_key(name) {
            return Err(Error::illegal_argument(format!(
                "the Kafka setting [{name}] cannot be set: {reason}"
            )));
        }
    }
    let mut client = ClientConfig::new();
    for (name, value) in DEFAULTS {
        // librdkafka's other name of the same setting wins if it is given.
        if !(name == "message.timeout.ms" && settings.contains_key("delivery.timeout.ms")) {
            client.set(name, value);
        }
    }
    for (name, value) in settings {
        client.set(name, value);
    }
    client
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("allow.auto.create.topics", "false");
    client.create_native_config().map_err(|error| refused(&error))?;
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(settings: &[(&str, &str)]) -> Result<(), String> {
        let settings = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        KafkaProducer::check("alerts", &settings.collect()).map_err(|error| error.reason().to_owned())
    }

    #[test]
    fn settings_are_checked_before_anything_connects() {
        let broker = ("bootstrap.servers", "127.0.0.1:1");
        check(&[broker]).unwrap();
        check(&[broker, ("delivery.timeout.ms", "5000"), ("compression.type", "zstd")]).unwrap();
        for (settings, reason) in [
            (&[][..], "[bootstrap.servers] is missing"),
            (&[broker, ("acks", "1")], "[acks] cannot be set"),
            (&[broker, ("enable.idempotence", "false")], "[enable.idempotence]"),
            (&[broker, ("plugin.library.paths", "/tmp/x.so")], "no code is loaded"),
            (&[broker, ("linger.ms", "soon")], "[linger.ms] is refused"),
            (&[broker, ("colour", "red")], "[colour] is refused"),
        ] {
            let error = check(settings).unwrap_err();
            assert!(error.contains(reason), "{settings:?}: {error}");
        }
        assert!(KafkaProducer::check("a b", &BTreeMap::new()).is_err());
    }

    #[test]
    fn a_refusal_does_not_show_the_value_of_a_setting() {
        let broker = ("bootstrap.servers", "127.0.0.1:1");
        let error = check(&[broker, ("security.protocol", "hunter2")]).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
