//! Kafka: the source of event pipelines, by consumer groups, and a producer.
//!
//! The offsets that a broker stores are never the truth: on assignment of a partition the source asks the engine's record of
//! stored events where to continue, and seeks there. Offsets are committed to Kafka only so that its tools show the lag.
//!
//! A partition is named `TOPICID/PARTITION`. A topic that was deleted and made again has a new id, hence a new record. `+N` is
//! appended after the broker has lost records N times, since it gives their offsets to other records.

mod config;
mod context;
mod native;
mod partition;
mod producer;
mod resume;
mod source;

pub use config::KafkaConfig;
pub use producer::{KafkaProducer, ProduceError, ProducedRecord};
pub use source::KafkaSource;
