//! Definition of an event pipeline: the body of `PUT /_firn/pipelines/ID`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firn_model::dates::parse_duration_ms;
use firn_model::names::validate_index_name;
use firn_model::settings::parse_bytes_setting;
use firn_model::tenant::TenantId;
use firn_model::{Error, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::aggregation::AggregateDefinition;
use crate::mapping::{Pack, builtin, builtin_names, run_examples};
use crate::tables::TableDefinition;

/// Most aggregates of a pipeline.
const AGGREGATES_MAX: usize = 16;
/// Most patterns of indices of a source, and the longest one.
const INDICES_MAX: usize = 100;
const INDEX_BYTES_MAX: usize = 255;
/// Shortest and longest pause between two looks at indices.
const EVERY_MS_MIN: u64 = 100;
const EVERY_MS_MAX: u64 = 3_600_000;
const DAY_MS: u64 = 86_400_000;
/// Shortest time after which a last line without a line break is an event.
const PARTIAL_LINE_MS_MIN: u64 = 100;
/// Shortest and longest time after which the position of a file that is gone is removed.
const FORGET_MS_MIN: u64 = 1000;
const FORGET_MS_MAX: u64 = 10_000 * DAY_MS;
/// Smallest and largest bound of unfinished frames. A few frames of the largest size must fit in.
const BUFFER_BYTES_MIN: u64 = 4 << 20;
const BUFFER_BYTES_MAX: u64 = 16 << 30;

/// Definition of a pipeline. Unknown members are refused.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// For readers.
    #[serde(default)]
    pub description: String,
    /// A disabled pipeline does not run, and keeps its positions.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Where events come from.
    pub source: SourceDefinition,
    /// Pack that maps the records; `None`: each record is a JSON object, which is stored as it is.
    #[serde(default)]
    pub pack: Option<PackDefinition>,
    /// Enrichment tables, by the names that the pack uses.
    #[serde(default)]
    pub tables: BTreeMap<String, TableDefinition>,
    /// Aggregates at write time, by name.
    #[serde(default)]
    pub aggregates: BTreeMap<String, AggregateDefinition>,
    /// Data stream or index of the events. Empty if the events are stored already: see [`SourceDefinition::Index`].
    #[serde(default)]
    pub index: String,
    /// Tenant of the events; `None`: the tenant field of each event decides.
    #[serde(default)]
    pub tenant: Option<String>,
    /// Whether each event keeps its record in `event.original`.
    #[serde(default = "yes")]
    pub keep_original: bool,
    /// Data stream of the records that cannot be parsed or indexed.
    #[serde(default = "dead_letters")]
    pub dead_letter_index: String,
}

/// Pack of a definition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum PackDefinition {
    /// Name of a built-in pack, or path of a pack file (`*.yml`).
    Named(String),
    /// The pack itself.
    Inline(Map<String, Value>),
}

/// Source of a definition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum SourceDefinition {
    /// Requests to `POST /_firn/pipelines/ID/_events`.
    Http {},
    /// Splunk's HTTP Event Collector: requests to `/services/collector`.
    SplunkHec {},
    /// Log records of OpenTelemetry: requests to `/v1/logs`.
    Otlp {},
    /// Syslog and anything else that comes as lines or datagrams.
    Syslog(SyslogDefinition),
    /// Files that are followed.
    File(FileDefinition),
    /// Topics of Kafka, read as a member of a consumer group.
    Kafka(KafkaDefinition),
    /// Events that are stored already: they are read for detection rules and aggregates, and not stored again.
    Index(IndexDefinition),
}

/// Syslog source of a definition. It needs one of the three listeners.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyslogDefinition {
    /// Address of a UDP socket.
    #[serde(default)]
    pub udp: Option<SocketAddr>,
    /// Address of a TCP listener.
    #[serde(default)]
    pub tcp: Option<SocketAddr>,
    /// TLS listener.
    #[serde(default)]
    pub tls: Option<TlsDefinition>,
    /// Maximum bytes of frames that all connections together have begun and not ended.
    #[serde(default = "buffer_bytes_max")]
    pub buffer_bytes_max: String,
}

/// Source of files of a definition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileDefinition {
    /// Paths with wildcards.
    pub paths: Vec<String>,
    /// How long a file must not grow until its last line without a line break is an event.
    #[serde(default = "partial_line_timeout")]
    pub partial_line_timeout: String,
    /// How long a file must be gone until its position is removed.
    #[serde(default = "forget_after")]
    pub forget_after: String,
}

/// Stored events of a definition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexDefinition {
    /// Names of indices, data streams and aliases, with wildcards.
    pub indices: Vec<String>,
    /// How often new events are looked for.
    #[serde(default = "every_second")]
    pub every: String,
    /// Where the indices are read from that are there when the pipeline starts for the first time.
    #[serde(default)]
    pub read_from: ReadFrom,
}

/// Where the shards of existing indices are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadFrom {
    /// Behind the events that are there.
    #[default]
    Latest,
    /// From their first event.
    Earliest,
}

/// Kafka source of a definition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaDefinition {
    /// Names of topics; a name that starts with `^` is a regular expression.
    pub topics: Vec<String>,
    /// Settings by librdkafka's names.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// File of further settings, `name=value` on each line: the place for secrets. Those of `settings` win.
    #[serde(default)]
    pub settings_file: Option<PathBuf>,
}

/// Settings of Kafka that a definition must not hold, because it can be read by its API.
const SECRET_SETTINGS: [&str; 6] = [
    "sasl.password",
    "sasl.oauthbearer.client.secret",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
    "sasl.oauthbearer.config",
];

/// TLS listener of a definition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsDefinition {
    /// Address of the listener.
    pub address: SocketAddr,
    /// File of the certificate chain (PEM).
    pub certificate: PathBuf,
    /// File of the private key (PEM).
    pub key: PathBuf,
}

fn yes() -> bool {
    true
}

fn every_second() -> String {
    "1s".to_owned()
}

fn buffer_bytes_max() -> String {
    "64mb".to_owned()
}

fn partial_line_timeout() -> String {
    "5m".to_owned()
}

fn forget_after() -> String {
    "7d".to_owned()
}

fn dead_letters() -> String {
    "dead-letters".to_owned()
}

impl Definition {
    /// Reads a definition.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::IllegalArgument`] names the member that is missing, unknown or has an invalid value.
    pub fn parse(id: &str, body: &Map<String, Value>) -> Result<Self> {
        let refuse = |reason: String| Error::illegal_argument(format!("pipeline [{id}]: {reason}"));
        let definition: Self =
            serde_json::from_value(Value::Object(body.clone())).map_err(|error| refuse(error.to_string()))?;
        match &definition.source {
            SourceDefinition::Index(source) => definition.check_stored(source).map_err(refuse)?,
            _ if definition.index.is_empty() => return Err(refuse("missing field `index`".to_owned())),
            _ => {}
        }
        let own = (!definition.index.is_empty()).then_some(("index", &definition.index));
        let names = own.into_iter();
        for (member, name) in names.chain([("dead_letter_index", &definition.dead_letter_index)]) {
            validate_index_name(name).map_err(|error| {
                let reason = error.reason();
                refuse(format!("[{member}] must name one index or data stream: {reason}"))
            })?;
        }
        if let Some(pack) = &definition.pack {
            pack.check().map_err(refuse)?;
        }
        for (name, table) in &definition.tables {
            table
                .check()
                .map_err(|reason| refuse(format!("table [{name}]: {reason}")))?;
        }
        if definition.aggregates.len() > AGGREGATES_MAX {
            return Err(refuse(format!("[aggregates] has at most {AGGREGATES_MAX} members")));
        }
        for (name, aggregate) in &definition.aggregates {
            aggregate
                .check()
                .map_err(|reason| refuse(format!("aggregate [{name}]: {reason}")))?;
        }
        definition.source.check().map_err(refuse)?;
        definition
            .tenant_id()
            .map_err(|error| refuse(error.reason().to_owned()))?;
        Ok(definition)
    }

    /// Returns why the pipeline cannot read these events.
    fn check_stored(&self, source: &IndexDefinition) -> Result<(), String> {
        if !self.index.is_empty() {
            return Err("the events of a source of type [index] are stored already: leave [index] out".to_owned());
        }
        match source
            .indices
            .iter()
            .find(|name| self.written_indices().any(|written| *name == written))
        {
            Some(name) => Err(format!("the pipeline writes to [{name}], and must not read it")),
            None => Ok(()),
        }
    }

    /// Returns the indices that the pipeline writes to.
    pub(crate) fn written_indices(&self) -> impl Iterator<Item = &str> {
        let own = [&self.index, &self.dead_letter_index];
        let aggregates = self.aggregates.values().map(|aggregate| &aggregate.index);
        own.into_iter()
            .chain(aggregates)
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    }

    /// Returns the indices of the events: the one that they are stored in, or those that they are read from.
    pub fn event_indices(&self) -> &[String] {
        match &self.source {
            SourceDefinition::Index(source) => &source.indices,
            _ => std::slice::from_ref(&self.index),
        }
    }

    /// Whether the pipeline stores its events: those of a source of type `index` are stored already.
    pub fn stores_events(&self) -> bool {
        !matches!(self.source, SourceDefinition::Index(_))
    }

    /// Whether a table is read by a query.
    pub(crate) fn has_queries(&self) -> bool {
        let mut tables = self.tables.values();
        self.pack.is_some() && tables.any(|table| matches!(table, TableDefinition::Postgresql(_)))
    }

    /// Returns the tenant of the events.
    pub fn tenant_id(&self) -> Result<Option<TenantId>> {
        self.tenant.as_deref().map(TenantId::parse).transpose()
    }
}

impl PackDefinition {
    /// Returns why the pack cannot be used. A file is not read.
    fn check(&self) -> Result<(), String> {
        match self {
            Self::Named(name) if Self::is_file(name) || builtin_names().any(|known| known == name) => Ok(()),
            Self::Named(name) => {
                let known = builtin_names().collect::<Vec<_>>().join(", ");
                Err(format!(
                    "there is no pack [{name}]; there are [{known}], and files whose names end in .yml"
                ))
            }
            Self::Inline(_) => self.load().map(drop).map_err(|error| error.reason().to_owned()),
        }
    }

    fn is_file(name: &str) -> bool {
        name.ends_with(".yml") || name.ends_with(".yaml")
    }

    /// Compiles the pack. Reads its file, if it is in one.
    ///
    /// # Errors
    /// [`firn_model::ErrorKind::IllegalArgument`]: the pack or the file cannot be used, or an example of the pack fails.
    pub fn load(&self) -> Result<Arc<Pack>> {
        let pack = match self {
            Self::Named(path) if Self::is_file(path) => {
                let refuse = |reason: String| Error::illegal_argument(format!("the pack [{path}]: {reason}"));
                let yaml = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
                Pack::parse(&yaml).map_err(|error| refuse(error.to_string()))?
            }
            Self::Named(name) => match builtin(name) {
                Some(pack) => {
                    let pack = pack.map_err(|error| Error::illegal_argument(error.to_string()))?;
                    return Ok(Arc::new(pack));
                }
                None => return Err(Error::illegal_argument(format!("there is no pack [{name}]"))),
            },
            Self::Inline(body) => {
                let refuse = |reason: String| Error::illegal_argument(format!("[pack]: {reason}"));
                // JSON is YAML.
                Pack::parse(&Value::Object(body.clone()).to_string()).map_err(|error| refuse(error.to_string()))?
            }
        };
        let pack = Arc::new(pack);
        let (_, failures) = run_examples(&pack);
        if let Some(failure) = failures.first() {
            let (name, difference) = (&failure.name, failure.difference.join("\n"));
            return Err(Error::illegal_argument(format!(
                "the example [{name}] of the pack [{}] fails: {difference}",
                pack.name()
            )));
        }
        Ok(pack)
    }
}

impl SourceDefinition {
    /// Whether requests hand the events over.
    pub fn is_pushed(&self) -> bool {
        matches!(self, Self::Http {} | Self::SplunkHec {} | Self::Otlp {})
    }

    /// Whether it reads Kafka.
    pub fn is_kafka(&self) -> bool {
        matches!(self, Self::Kafka(_))
    }

    /// Returns why the source cannot run.
    fn check(&self) -> Result<(), String> {
        match self {
            Self::Http {} | Self::SplunkHec {} | Self::Otlp {} => Ok(()),
            Self::Syslog(syslog) => syslog.check(),
            Self::File(file) => file.check(),
            Self::Kafka(kafka) => kafka.check(),
            Self::Index(index) => index.check(),
        }
    }
}

impl SyslogDefinition {
    fn check(&self) -> Result<(), String> {
        if self.udp.is_none() && self.tcp.is_none() && self.tls.is_none() {
            return Err("a [syslog] source needs [udp], [tcp] or [tls]".to_owned());
        }
        if let Some(tls) = &self.tls {
            for (member, file) in [("certificate", &tls.certificate), ("key", &tls.key)] {
                if file.as_os_str().is_empty() {
                    return Err(format!("[{member}] of [tls] must be a path"));
                }
            }
        }
        self.buffer_bytes().map(drop).map_err(|error| error.reason().to_owned())
    }

    /// Reads `buffer_bytes_max`.
    pub(crate) fn buffer_bytes(&self) -> Result<usize> {
        let text = &self.buffer_bytes_max;
        let bytes = parse_bytes_setting("buffer_bytes_max", text)?;
        match (BUFFER_BYTES_MIN..=BUFFER_BYTES_MAX).contains(&bytes) {
            true => Ok(bytes as usize),
            false => Err(Error::illegal_argument(format!(
                "[buffer_bytes_max] is 4mb to 16gb, not [{text}]"
            ))),
        }
    }
}

impl FileDefinition {
    fn check(&self) -> Result<(), String> {
        if self.paths.is_empty() {
            return Err("a [file] source needs [paths]".to_owned());
        }
        for path in &self.paths {
            if !path.starts_with('/') {
                return Err(format!("[{path}] in [paths] must be an absolute path"));
            }
            for name in path.split('/') {
                glob::Pattern::new(name).map_err(|error| format!("[{path}] is no pattern of paths: {}", error.msg))?;
            }
        }
        let times = [self.partial_line_after(), self.forget_positions_after()];
        let mut refused = times.into_iter().filter_map(Result::err);
        refused.next().map_or(Ok(()), |error| Err(error.reason().to_owned()))
    }

    /// Reads `partial_line_timeout`.
    pub(crate) fn partial_line_after(&self) -> Result<Duration> {
        let range = (PARTIAL_LINE_MS_MIN, DAY_MS);
        duration("partial_line_timeout", &self.partial_line_timeout, range, "100ms to 1d")
    }

    /// Reads `forget_after`.
    pub(crate) fn forget_positions_after(&self) -> Result<Duration> {
        let range = (FORGET_MS_MIN, FORGET_MS_MAX);
        duration("forget_after", &self.forget_after, range, "1s to 10000d")
    }
}

/// Reads a member that is a duration.
fn duration(member: &str, text: &str, (min_ms, max_ms): (u64, u64), range: &str) -> Result<Duration> {
    let refuse = |reason: String| Error::illegal_argument(format!("[{member}] {reason}"));
    let ms = parse_duration_ms(text).map_err(|error| refuse(error.reason().to_owned()))?;
    match (min_ms..=max_ms).contains(&ms) {
        true => Ok(Duration::from_millis(ms)),
        false => Err(refuse(format!("is {range}, not [{text}]"))),
    }
}

impl IndexDefinition {
    fn check(&self) -> Result<(), String> {
        if self.indices.is_empty() || self.indices.len() > INDICES_MAX {
            return Err(format!("a source of type [index] has 1 to {INDICES_MAX} [indices]"));
        }
        for name in &self.indices {
            // The alerts of a rule must not raise alerts of the rule.
            if name.is_empty()
                || name.len() > INDEX_BYTES_MAX
                || name.starts_with(['.', '-', '_', '<'])
                || name.contains(',')
            {
                return Err(format!(
                    "[{name}] in [indices] must be a name or a pattern of at most {INDEX_BYTES_MAX} bytes that does not start with [.], [-], [_] or [<]"
                ));
            }
        }
        Self::interval(&self.every)
            .map(drop)
            .map_err(|error| error.reason().to_owned())
    }

    /// Reads `every`.
    pub(crate) fn interval(text: &str) -> Result<Duration> {
        duration("every", text, (EVERY_MS_MIN, EVERY_MS_MAX), "100ms to 1h")
    }
}

impl KafkaDefinition {
    fn check(&self) -> Result<(), String> {
        if self.topics.is_empty() {
            return Err("a [kafka] source needs [topics]".to_owned());
        }
        if self.topics.iter().any(String::is_empty) {
            return Err("[] in [topics] must be the name of a topic".to_owned());
        }
        if self
            .settings_file
            .as_ref()
            .is_some_and(|file| file.as_os_str().is_empty())
        {
            return Err("[settings_file] must be a path".to_owned());
        }
        for secret in SECRET_SETTINGS {
            if self.settings.contains_key(secret) {
                return Err(format!(
                    "the setting [{secret}] is a secret, and definitions can be read: put it into a [settings_file]"
                ));
            }
        }
        for needed in ["bootstrap.servers", "group.id"] {
            let is_empty = self.settings.get(needed).map(String::is_empty);
            if is_empty.unwrap_or(self.settings_file.is_none()) {
                return Err(format!("a [kafka] source needs the setting [{needed}]"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_and_relative_names_of_sources_are_refused() {
        let refused = |source: Value, words: &str| {
            let stored = !matches!(source["type"].as_str(), Some("index"));
            let mut body = json!({"source": source});
            if stored {
                body["index"] = "a".into();
            }
            let error = Definition::parse("p", body.as_object().unwrap()).err();
            let reason = error.map_or_else(String::new, |error| error.reason().to_owned());
            assert!(reason.contains(words), "{source}: {reason}");
        };
        refused(json!({"type": "file", "paths": []}), "needs [paths]");
        for path in ["", "a.log", "./a.log", "*"] {
            let words = format!("[{path}] in [paths] must be an absolute path");
            refused(json!({"type": "file", "paths": ["/ok", path]}), &words);
        }
        refused(json!({"type": "file", "paths": ["/a/[b/c]"]}), "is no pattern of paths");
        let settings = |group: &str| json!({"group.id": group, "bootstrap.servers": "b"});
        refused(
            json!({"type": "kafka", "topics": [], "settings": settings("g")}),
            "needs [topics]",
        );
        refused(
            json!({"type": "kafka", "topics": ["t", ""], "settings": settings("g")}),
            "in [topics]",
        );
        refused(
            json!({"type": "kafka", "topics": ["t"], "settings": settings("")}),
            "[group.id]",
        );
        refused(
            json!({"type": "kafka", "topics": ["t"], "settings_file": ""}),
            "[settings_file]",
        );
        for (certificate, key, member) in [("", "/k", "certificate"), ("/c", "", "key")] {
            let tls = json!({"address": "127.0.0.1:1", "certificate": certificate, "key": key});
            refused(
                json!({"type": "syslog", "tls": tls}),
                &format!("[{member}] of [tls] must be a path"),
            );
        }
        refused(json!({"type": "index", "indices": []}), "[indices]");
        refused(json!({"type": "index", "indices": [""]}), "[indices]");
    }
}
