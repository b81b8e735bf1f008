//! Senders of messages, one for each type of channel.

mod addresses;
mod bounded_stream;
mod cef;
mod email;
mod email_text;
mod kafka;
mod syslog;
mod webhook;
mod webhook_formats;

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ipnet::IpNet;

use crate::channel::{Channel, ChannelKind, Secrets};
use crate::notification::Notification;

pub(crate) use email::check_addresses;
pub(crate) use kafka::check_kafka;
pub use kafka::{KafkaConnector, KafkaError, KafkaRecord, KafkaTopic};
pub(crate) use webhook::check_webhook;

/// Longest part of an answer in a reason, in characters.
const SHOWN_CHARS_MAX: usize = 300;

/// The clock: milliseconds since the epoch.
pub(crate) type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// What senders need beside the definition.
pub(crate) struct SenderContext {
    pub(crate) secrets: Secrets,
    /// Networks that webhooks may reach although they are private.
    pub(crate) allowed_networks: Arc<[IpNet]>,
    pub(crate) clock: Clock,
    /// `None`: the program has no client of Kafka.
    pub(crate) kafka: Option<Arc<dyn KafkaConnector>>,
}

#[cfg(test)]
impl SenderContext {
    fn of_tests() -> Self {
        Self {
            secrets: Arc::new(|name| (name == "key").then(|| "a key".to_owned())),
            allowed_networks: Arc::new([]),
            clock: Arc::new(|| 1_700_000_000_000),
            kafka: None,
        }
    }
}

/// Sends messages of one channel.
#[async_trait]
pub(crate) trait Sender: Send + Sync {
    /// Sends a message; it may arrive although this fails. Returns what of it did not arrive, if anything.
    async fn send(&self, notification: &Notification) -> Result<Option<String>, SendError>;
}

/// Why a message was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SendError {
    pub(crate) reason: String,
    pub(crate) kind: SendErrorKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SendErrorKind {
    /// The receiver will never take this message.
    Message,
    /// The receiver will never take these alerts of the message, by their places in ascending order; it has the others.
    Alerts(Vec<usize>),
    /// The channel does not work now; the receiver may say when to try again.
    Channel { retry_after: Option<Duration> },
}

impl SendError {
    pub(crate) fn message(reason: impl fmt::Display) -> Self {
        Self {
            reason: shown(&reason.to_string()),
            kind: SendErrorKind::Message,
        }
    }

    pub(crate) fn channel(reason: impl fmt::Display) -> Self {
        Self {
            reason: shown(&reason.to_string()),
            kind: SendErrorKind::Channel { retry_after: None },
        }
    }
}

/// Makes the sender of a channel. Reads secrets and files; nothing connects.
///
/// # Errors
/// The reason: a secret or a file that is missing.
pub(crate) fn open(channel: &Channel, context: &SenderContext) -> Result<Box<dyn Sender>, String> {
    Ok(match &channel.kind {
        ChannelKind::Email(email) => Box::new(email::EmailSender::open(email, &context.secrets)?),
        ChannelKind::Webhook(webhook) => Box::new(webhook::WebhookSender::open(webhook, context)?),
        ChannelKind::Syslog(syslog) => Box::new(syslog::SyslogSender::new(syslog, Arc::clone(&context.clock))),
        ChannelKind::Kafka(kafka) => Box::new(kafka::KafkaChannelSender::open(kafka, context)?),
    })
}

/// Longest file of certificates, bytes.
const CERTIFICATE_BYTES_MAX: u64 = 1 << 20;

/// Reads a file of certificates.
fn read_certificates(path: &Path) -> Result<Vec<u8>, String> {
    let refuse = |reason: &dyn fmt::Display| format!("[certificate_authority] {}: {reason}", path.display());
    let file = File::open(path).map_err(|error| refuse(&error))?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(refuse(&"not a file"));
    }
    let mut pem = Vec::new();
    let mut bounded = file.take(CERTIFICATE_BYTES_MAX + 1);
    bounded.read_to_end(&mut pem).map_err(|error| refuse(&error))?;
    match pem.len() as u64 > CERTIFICATE_BYTES_MAX {
        true => Err(refuse(&format!("more than {CERTIFICATE_BYTES_MAX} bytes"))),
        false => Ok(pem),
    }
}

/// Shortens what a receiver answered.
fn shown(text: &str) -> String {
    let line = crate::template::one_line(text.trim());
    match line.char_indices().nth(SHOWN_CHARS_MAX) {
        None => line,
        Some((at, _)) => format!("{}…", &line[..at]),
    }
}

/// Returns an error with its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let next = inner.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = inner.source();
    }
    text
}
