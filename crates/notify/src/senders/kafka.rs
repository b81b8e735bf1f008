//! Kafka: each alert is a record of a topic.
//!
//! This crate links no client of Kafka: the program hands over a [`KafkaConnector`].

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::{SendError, SendErrorKind, Sender, SenderContext};
use crate::channel::Kafka;
use crate::notification::{Notification, StoredAlert};
use crate::template::one_line;

/// Header with the identity of an alert: the same when it is sent again.
const IDEMPOTENCY_KEY: &str = "firn-idempotency-key";
const CONTENT_TYPE: &str = "content-type";
/// Members of `firn.alert` that are about its delivery.
const DELIVERY_MEMBERS: [&str; 6] = [
    "pending",
    "failed",
    "deliveries",
    "resent_at",
    "escalate_at",
    "escalation",
];

/// Kafka client of the program.
pub trait KafkaConnector: Send + Sync {
    /// Checks the name of a topic and settings by librdkafka's names. Nothing connects.
    ///
    /// # Errors
    /// The reason, without the value of a setting, which may be a password.
    fn check(&self, topic: &str, settings: &BTreeMap<String, String>) -> Result<(), String>;

    /// Opens a topic; it connects by and by. Records are acknowledged by all replicas, and those that are sent again by the client are
    /// stored once.
    ///
    /// # Errors
    /// As [`KafkaConnector::check`].
    fn open(&self, topic: &str, settings: &BTreeMap<String, String>) -> Result<Box<dyn KafkaTopic>, String>;
}

/// Topic that records are sent to.
#[async_trait]
pub trait KafkaTopic: Send + Sync {
    /// Sends records; returns the outcome of each, in the same order, once the brokers have acknowledged or refused all of them.
    async fn send(&self, records: Vec<KafkaRecord>) -> Vec<Result<(), KafkaError>>;
}

/// Record of an alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaRecord {
    /// Records with the same key are in the same partition; `None`: in any.
    pub key: Option<String>,
    /// The value.
    pub value: Vec<u8>,
    /// Names and values of headers.
    pub headers: Vec<(&'static str, String)>,
}

/// Why a record was not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaError {
    /// What the broker or the client said.
    pub reason: String,
    /// The broker will never take this record. Otherwise it may be sent again later.
    pub is_permanent: bool,
}

/// Sends records to one topic.
pub(super) struct KafkaChannelSender {
    definition: Kafka,
    topic: Box<dyn KafkaTopic>,
}

/// Checks what can be checked of a definition without connecting. Secrets may be stored later.
pub(crate) fn check_kafka(kafka: &Kafka, context: &SenderContext) -> Result<(), String> {
    let settings = kafka.resolved(&context.secrets, true)?;
    connector(context)?.check(&kafka.topic, &settings)
}

fn connector(context: &SenderContext) -> Result<&dyn KafkaConnector, String> {
    let connector = context.kafka.as_deref();
    connector.ok_or_else(|| "this build of firn has no Kafka client: the type [kafka] cannot be used".to_owned())
}

impl KafkaChannelSender {
    pub(super) fn open(kafka: &Kafka, context: &SenderContext) -> Result<Self, String> {
        let settings = kafka.resolved(&context.secrets, false)?;
        Ok(Self {
            topic: connector(context)?.open(&kafka.topic, &settings)?,
            definition: kafka.clone(),
        })
    }

    fn record(&self, channel: &str, alert: &StoredAlert) -> KafkaRecord {
        let key = match &self.definition.key {
            Some(template) => template.render(&alert.document, one_line),
            None => alert.group().to_owned(),
        };
        // The same whichever alerts are sent with it.
        let id = Notification::new(channel, vec![alert.clone()]).id;
        KafkaRecord {
            key: (!key.is_empty()).then_some(key),
            value: Value::Object(without_delivery(&alert.document))
                .to_string()
                .into_bytes(),
            headers: vec![(IDEMPOTENCY_KEY, id), (CONTENT_TYPE, "application/json".to_owned())],
        }
    }
}

fn without_delivery(document: &Map<String, Value>) -> Map<String, Value> {
    let mut document = document.clone();
    let state = document.get_mut("firn").and_then(|firn| firn.get_mut("alert"));
    if let Some(Value::Object(state)) = state {
        DELIVERY_MEMBERS.iter().for_each(|member| drop(state.remove(*member)));
    }
    document
}

#[async_trait]
impl Sender for KafkaChannelSender {
    async fn send(&self, notification: &Notification) -> Result<Option<String>, SendError> {
        let alerts = notification.alerts.iter();
        let records = alerts.map(|alert| self.record(&notification.channel, alert)).collect();
        let outcomes = self.topic.send(records).await;
        let failed = |is_permanent: bool| {
            let failures = outcomes.iter().enumerate();
            failures.filter_map(move |(place, outcome)| {
                let error = outcome.as_ref().err()?;
                (error.is_permanent == is_permanent).then_some((place, &error.reason))
            })
        };
        // All are sent again, those that were stored with the same header.
        if let Some((_, reason)) = failed(false).next() {
            return Err(SendError::channel(reason));
        }
        let refused: Vec<usize> = failed(true).map(|(place, _)| place).collect();
        match failed(true).next() {
            None => Ok(None),
            Some((_, reason)) if refused.len() == notification.alerts.len() => Err(SendError::message(reason)),
            Some((_, reason)) => Err(SendError {
                kind: SendErrorKind::Alerts(refused),
                ..SendError::message(reason)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::notification::alert;

    /// Refuses records with these keys, for good or for now.
    struct Refusing {
        for_good: &'static str,
        for_now: &'static str,
    }

    #[async_trait]
    impl KafkaTopic for Refusing {
        async fn send(&self, records: Vec<KafkaRecord>) -> Vec<Result<(), KafkaError>> {
            let outcome = |record: KafkaRecord| {
                let key = record.key.unwrap_or_default();
                let refuse = |is_permanent| KafkaError {
                    reason: format!("refused {key}"),
                    is_permanent,
                };
                match () {
                    () if key == self.for_good => Err(refuse(true)),
                    () if key == self.for_now => Err(refuse(false)),
                    () => Ok(()),
                }
            };
            records.into_iter().map(outcome).collect()
        }
    }

    fn sender(definition: Value, topic: Refusing) -> KafkaChannelSender {
        KafkaChannelSender {
            definition: serde_json::from_value(definition).unwrap(),
            topic: Box::new(topic),
        }
    }

    fn refusing(for_good: &'static str, for_now: &'static str) -> KafkaChannelSender {
        let definition = json!({"topic": "t", "key": "{{firn.alert.id}}"});
        sender(definition, Refusing { for_good, for_now })
    }

    #[test]
    fn a_record_is_the_alert_without_its_delivery() {
        let sent = alert("1", "Root", "high");
        let own = sender(
            json!({"topic": "t"}),
            Refusing {
                for_good: "",
                for_now: "",
            },
        );
        let record = own.record("c", &sent);
        let value: Value = serde_json::from_slice(&record.value).unwrap();
        assert_eq!(record.key.as_deref(), Some("g"));
        assert_eq!(value["rule"]["name"], "Root");
        assert_eq!(value["firn"]["alert"]["status"], "open");
        assert_eq!(value["firn"]["alert"].get("pending"), None);
        let of_message = Notification::new("c", vec![sent.clone()]).id;
        assert_eq!(record.headers[0], (IDEMPOTENCY_KEY, of_message));
        assert_eq!(record.headers[1].1, "application/json");

        let by_host = sender(
            json!({"topic": "t", "key": "{{host.name}}"}),
            Refusing {
                for_good: "",
                for_now: "",
            },
        );
        assert_eq!(by_host.record("c", &sent).key.as_deref(), Some("<web>"));
        let by_nothing = sender(
            json!({"topic": "t", "key": "{{no.field}}"}),
            Refusing {
                for_good: "",
                for_now: "",
            },
        );
        assert_eq!(by_nothing.record("c", &sent).key, None);
    }

    #[tokio::test]
    async fn a_refused_record_fails_alone_and_a_broken_channel_fails_all() {
        let three = || Notification::new("c", ["1", "2", "3"].map(|id| alert(id, "r", "low")).to_vec());
        assert_eq!(refusing("", "").send(&three()).await, Ok(None));
        let error = refusing("2", "").send(&three()).await.unwrap_err();
        assert_eq!(
            (error.kind, &*error.reason),
            (SendErrorKind::Alerts(vec![1]), "refused 2")
        );
        let error = refusing("2", "3").send(&three()).await.unwrap_err();
        assert_eq!(error, SendError::channel("refused 3"));
        let one = Notification::new("c", vec![alert("2", "r", "low")]);
        assert_eq!(refusing("2", "").send(&one).await, Err(SendError::message("refused 2")));
    }

    #[test]
    fn a_build_without_a_client_says_so() {
        let kafka: Kafka = serde_json::from_value(json!({"bootstrap_servers": "k:1", "topic": "t"})).unwrap();
        let context = SenderContext::of_tests();
        assert!(check_kafka(&kafka, &context).unwrap_err().contains("the type [kafka]"));
        assert!(
            KafkaChannelSender::open(&kafka, &context)
                .err()
                .unwrap()
                .contains("no Kafka client")
        );
    }

    #[test]
    fn secrets_are_resolved_and_need_not_be_there_at_the_check() {
        struct Recording;
        impl KafkaConnector for Recording {
            fn check(&self, _: &str, settings: &BTreeMap<String, String>) -> Result<(), String> {
                Err(format!("{settings:?}"))
            }
            fn open(&self, topic: &str, settings: &BTreeMap<String, String>) -> Result<Box<dyn KafkaTopic>, String> {
                Err(format!("{topic} {settings:?}"))
            }
        }
        let context = SenderContext {
            kafka: Some(Arc::new(Recording)),
            ..SenderContext::of_tests()
        };
        let kafka = |secret: &str| -> Kafka {
            let settings = json!({"sasl.password": format!("secret:{secret}")});
            serde_json::from_value(json!({"bootstrap_servers": "k:1", "topic": "t", "settings": settings})).unwrap()
        };
        let both = r#"{"bootstrap.servers": "k:1", "sasl.password": "a key"}"#;
        assert_eq!(check_kafka(&kafka("key"), &context).unwrap_err(), both);
        assert_eq!(
            check_kafka(&kafka("later"), &context).unwrap_err(),
            r#"{"bootstrap.servers": "k:1"}"#
        );
        let opened = KafkaChannelSender::open(&kafka("key"), &context).err().unwrap();
        assert_eq!(opened, format!("t {both}"));
        let missing = KafkaChannelSender::open(&kafka("later"), &context).err().unwrap();
        assert!(missing.contains("[notify.secret.later]"), "{missing}");
    }
}
