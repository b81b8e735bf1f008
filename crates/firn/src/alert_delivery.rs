//! Delivery of alerts: the notifier of the server, which follows the channels in the catalog.

use std::collections::BTreeMap;
use std::sync::Arc;

use firn_engine::Engine;
use firn_kafka::{KafkaProducer, ProducedRecord};
use firn_notify::{KafkaConnector, KafkaError, KafkaRecord, KafkaTopic, Notifier, NotifierConfig};
use firn_pipeline::runner::Runner;

use crate::clock::now_ms;
use crate::settings::ServeSettings;

/// Creates the notifier; its channels run once they are applied.
pub(crate) fn notifier(settings: &ServeSettings, engine: &Arc<dyn Engine>, runner: &Runner) -> Arc<Notifier> {
    let secrets = settings.secrets.clone();
    let config = NotifierConfig {
        engine: Arc::clone(engine),
        clock: Arc::new(now_ms),
        secrets: Arc::new(move |name| secrets.of_channels(name).map(str::to_owned)),
        allowed_networks: settings.webhook_networks.clone(),
        kafka: Some(Arc::new(Librdkafka)),
    };
    Notifier::new(config, runner.alerts_stored())
}

/// Kafka client of channels.
struct Librdkafka;

impl KafkaConnector for Librdkafka {
    fn check(&self, topic: &str, settings: &BTreeMap<String, String>) -> Result<(), String> {
        KafkaProducer::check(topic, settings).map_err(|error| error.reason().to_owned())
    }

    fn open(&self, topic: &str, settings: &BTreeMap<String, String>) -> Result<Box<dyn KafkaTopic>, String> {
        let producer = KafkaProducer::open(topic, settings).map_err(|error| error.reason().to_owned())?;
        Ok(Box::new(Topic(producer)))
    }
}

struct Topic(KafkaProducer);

#[async_trait::async_trait]
impl KafkaTopic for Topic {
    async fn send(&self, records: Vec<KafkaRecord>) -> Vec<Result<(), KafkaError>> {
        let record = |record: KafkaRecord| ProducedRecord {
            key: record.key,
            value: record.value,
            headers: record.headers,
        };
        let records: Vec<ProducedRecord> = records.into_iter().map(record).collect();
        let outcomes = self.0.send(&records).await.into_iter();
        let outcome = |outcome: Result<(), firn_kafka::ProduceError>| {
            outcome.map_err(|error| KafkaError {
                reason: error.reason,
                is_permanent: error.is_permanent,
            })
        };
        outcomes.map(outcome).collect()
    }
}
