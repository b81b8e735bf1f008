//! Settings of a Kafka source, checked before anything connects.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use firn_model::{Error, Result};
use firn_pipeline::definition::KafkaDefinition;
use firn_pipeline::sources::BATCH_EVENTS_MAX;
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;

/// Settings that the source owns, and what to do instead.
const RESERVED: [(&str, &str); 7] = [
    (
        "enable.auto.commit",
        "offsets are committed once their events are stored",
    ),
    (
        "enable.auto.offset.store",
        "offsets are committed once their events are stored",
    ),
    ("partition.assignment.strategy", "it is always [cooperative-sticky]"),
    ("enable.partition.eof", "the source follows a partition for ever"),
    ("allow.auto.create.topics", "a source creates no topic"),
    ("group.protocol", "it is always [classic]"),
    ("plugin.library.paths", "no code is loaded"),
];
/// Values of a fresh configuration that users may change.
const DEFAULTS: [(&str, &str); 6] = [
    ("isolation.level", "read_committed"),
    // Messages fetched ahead are dropped when their partition is paused; the default of 64 MB would waste as much.
    ("queued.max.messages.kbytes", "16384"),
    ("session.timeout.ms", "45000"),
    // A broker that restarts is found again soon.
    ("reconnect.backoff.max.ms", "1000"),
    ("topic.metadata.refresh.interval.ms", "10000"),
    // For the lag.
    ("statistics.interval.ms", "2000"),
];
const OFFSET_RESET: &str = "auto.offset.reset";

/// What a Kafka source reads, and how it cuts batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaConfig {
    /// Names of topics; a name that starts with `^` is a regular expression.
    pub topics: Vec<String>,
    /// Settings by librdkafka's names: `bootstrap.servers` and `group.id` are required. `auto.offset.reset` (`earliest` or
    /// `latest`) holds only for a partition of which nothing is stored.
    pub settings: BTreeMap<String, String>,
    /// Maximum events of a batch.
    pub batch_events_max: usize,
    /// A batch is full at this size.
    pub batch_bytes_max: usize,
    /// Time after which a batch that is not full is sent.
    pub linger: Duration,
}

impl KafkaConfig {
    /// Creates a configuration with the default bounds of a batch.
    pub fn new(topics: Vec<String>, settings: BTreeMap<String, String>) -> Self {
        Self {
            topics,
            settings,
            batch_events_max: 5000,
            batch_bytes_max: 4 << 20,
            linger: Duration::from_millis(100),
        }
    }

    /// Creates the configuration of a definition. Reads its file of settings.
    pub(crate) fn of_definition(definition: &KafkaDefinition) -> Result<Self> {
        let mut settings = BTreeMap::new();
        if let Some(path) = &definition.settings_file {
            settings = read_settings(path)?;
        }
        settings.extend(definition.settings.clone());
        Ok(Self::new(definition.topics.clone(), settings))
    }
}

/// Reads a file with `name=value` on each line, as Kafka's tools do. Empty lines and lines that start with `#` or `!` are
/// comments. Errors name the line, and never its text, which may be a password.
fn read_settings(path: &Path) -> Result<BTreeMap<String, String>> {
    let refuse =
        |reason: String| Error::illegal_argument(format!("the file of Kafka settings [{}]: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
    let mut settings = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let (name, value) = line
            .split_once('=')
            .ok_or_else(|| refuse(format!("line {} is not [name=value]", number + 1)))?;
        settings.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    Ok(settings)
}

/// Where to start in a partition of which nothing is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OffsetReset {
    Earliest,
    Latest,
}

/// Checks a configuration and returns librdkafka's form of it.
pub(crate) fn validate(config: &KafkaConfig) -> Result<(ClientConfig, OffsetReset)> {
    if config.topics.is_empty() {
        return Err(Error::illegal_argument("a [kafka] source needs at least one topic"));
    }
    for topic in &config.topics {
        let is_name = |name: &str| {
            name.len() <= 249
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        if topic.is_empty() || !(topic.starts_with('^') || is_name(topic)) {
            return Err(Error::illegal_argument(format!(
                "[{topic}] is not a valid name of a Kafka topic"
            )));
        }
    }
    let bounds = [
        ("batch_events_max", config.batch_events_max, BATCH_EVENTS_MAX),
        ("batch_bytes_max", config.batch_bytes_max, u32::MAX as usize),
    ];
    for (name, value, max) in bounds {
        if value == 0 || value > max {
            let reason = format!("[{name}] of a [kafka] source must be from 1 to {max}, not {value}");
            return Err(Error::illegal_argument(reason));
        }
    }
    for required in ["bootstrap.servers", "group.id"] {
        if config
            .settings
            .get(required)
            .is_none_or(|value| value.trim().is_empty())
        {
            return Err(Error::illegal_argument(format!(
                "a [kafka] source needs the setting [{required}]"
            )));
        }
    }
    for (name, reason) in RESERVED {
        if config.settings.contains_key(name) {
            let reason = format!("the Kafka setting [{name}] cannot be set: {reason}");
            return Err(Error::illegal_argument(reason));
        }
    }
    let reset = match config.settings.get(OFFSET_RESET).map(String::as_str) {
        None | Some("earliest" | "smallest" | "beginning") => OffsetReset::Earliest,
        Some("latest" | "largest" | "end") => OffsetReset::Latest,
        Some(other) => {
            let reason = format!("the Kafka setting [{OFFSET_RESET}] must be [earliest] or [latest], not [{other}]");
            return Err(Error::illegal_argument(reason));
        }
    };
    let mut client = ClientConfig::new();
    for (name, value) in DEFAULTS {
        client.set(name, value);
    }
    for (name, value) in &config.settings {
        client.set(name, value);
    }
    client
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("partition.assignment.strategy", "cooperative-sticky")
        .set("allow.auto.create.topics", "false")
        // Where librdkafka continues by itself if an offset is no longer in the log; the source notices the jump.
        .set(OFFSET_RESET, "earliest");
    client.create_native_config().map_err(|error| refused(&error))?;
    Ok((client, reset))
}

/// Names the setting that librdkafka refuses, without its value, which may be a password.
pub(crate) fn refused(error: &KafkaError) -> Error {
    match error {
        KafkaError::ClientConfig(_, description, name, value) => {
            let description = description.replace(&format!("\"{value}\""), "of the definition");
            Error::illegal_argument(format!("the Kafka setting [{name}] is refused: {description}"))
        }
        other => Error::illegal_argument(format!("the Kafka settings are refused: {other}")),
    }
}
