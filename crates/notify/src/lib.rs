//! Delivery of alerts to channels: e-mail, webhooks, syslog, Kafka.
//!
//! The alerts themselves are the queue: an alert names the channels that have not delivered it in `firn.alert.pending`. What is
//! acknowledged as an event has its alerts stored ([`firn_detect`]), so what is to be delivered survives as the alert does. The
//! [`Notifier`] has one task for each channel; it sends what is pending, and then writes into the alert that it is sent. A process that
//! is killed between the two sends again, with the same idempotency key: delivery is at least once.

mod alert_documents;
mod budget_exhausted;
mod channel;
mod delivery;
mod escalation;
mod failing_channel;
mod notification;
mod notifier;
mod own_alert;
mod queue;
mod rate_limit;
mod senders;
mod status;
mod template;

pub use alert_documents::{AlertChange, AlertKey, ChangeOutcome, change_alerts};
pub use channel::{Channel, ChannelKind, Secrets};
pub use notifier::{Notifier, NotifierConfig};
pub use senders::{KafkaConnector, KafkaError, KafkaRecord, KafkaTopic};
pub use status::ChannelStatus;
