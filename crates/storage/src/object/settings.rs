//! Parser of repository settings. It rejects settings that no reader consumed, by name.

use std::collections::BTreeMap;
use std::time::Duration;

use firn_model::dates::parse_duration_setting_ms;
use firn_model::settings::{SettingsMap, parse_bytes_setting};
use firn_model::{Error, ErrorKind, Result};
use serde_json::Value;

/// Client of a repository that names none.
const CLIENT_DEFAULT: &str = "default";

/// Settings common to all repository types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Common {
    pub(super) is_readonly: bool,
    /// `None`: unlimited.
    pub(super) snapshot_bytes_per_second: Option<u64>,
    pub(super) restore_bytes_per_second: Option<u64>,
    pub(super) retries_max: Option<u32>,
}

/// Elasticsearch's default of `max_snapshot_bytes_per_sec`.
const SNAPSHOT_BYTES_PER_SECOND: u64 = 40 << 20;
/// Node-wide rate limit of restores, stored beside the client settings.
const RECOVERY_RATE: &str = "indices.recovery.max_bytes_per_sec";
/// More retries would delay a request by minutes.
const RETRIES_MAX: u64 = 20;

/// Settings of one repository and of the client that it names.
pub(super) struct Fields<'a> {
    repository: &'a str,
    kind: &'a str,
    settings: BTreeMap<&'a str, &'a Value>,
    /// Flat, of all clients of all types: `s3.client.default.endpoint`.
    clients: &'a BTreeMap<String, String>,
    client: String,
}

impl<'a> Fields<'a> {
    pub(super) fn new(
        repository: &'a str,
        kind: &'a str,
        settings: &'a SettingsMap,
        clients: &'a BTreeMap<String, String>,
    ) -> Result<Self> {
        let settings = settings
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.as_str(), value))
            .collect();
        let mut fields = Self {
            repository,
            kind,
            settings,
            clients,
            client: String::new(),
        };
        fields.client = fields.text("client")?.unwrap_or_else(|| CLIENT_DEFAULT.to_owned());
        Ok(fields)
    }

    /// Returns the error for a repository that cannot be created from its settings, with Elasticsearch's text.
    pub(super) fn refused(&self, reason: impl AsRef<str>) -> Error {
        refused(self.repository, reason)
    }

    /// Consumes a setting of the repository.
    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.settings.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(value.to_string())),
            Some(value) => Err(Error::illegal_argument(format!(
                "setting [{name}] of repository [{}] must be a string, number or boolean, found {value}",
                self.repository
            ))),
        }
    }

    /// Like [`Fields::text`]; an empty value counts as missing.
    pub(super) fn filled(&mut self, name: &str) -> Result<Option<String>> {
        Ok(self.text(name)?.filter(|text| !text.is_empty()))
    }

    /// Consumes a setting of the repository, or returns that of its client.
    pub(super) fn either(&mut self, name: &str) -> Result<Option<String>> {
        Ok(self.filled(name)?.or_else(|| self.of_client(name)))
    }

    /// Returns a setting of the repository's client, from the settings file or the keystore.
    pub(super) fn of_client(&self, name: &str) -> Option<String> {
        let full = format!("{}.client.{}.{name}", self.kind, self.client);
        self.clients.get(&full).filter(|value| !value.is_empty()).cloned()
    }

    /// Fails if the repository names a client without settings: the name is probably a typing error.
    pub(super) fn require_client(&self) -> Result<()> {
        let prefix = format!("{}.client.{}.", self.kind, self.client);
        if self.client == CLIENT_DEFAULT || self.clients.keys().any(|name| name.starts_with(&prefix)) {
            return Ok(());
        }
        let known: Vec<&str> = self
            .clients
            .keys()
            .filter_map(|name| {
                name.strip_prefix(self.kind)?
                    .strip_prefix(".client.")?
                    .split('.')
                    .next()
            })
            .collect();
        let reason = format!(
            "Unknown {} client name [{}]. Existing client configs: {}",
            self.kind,
            self.client,
            known.join(",")
        );
        Err(self.refused(reason))
    }

    pub(super) fn boolean(&mut self, name: &str, default: bool) -> Result<bool> {
        match self.either(name)?.as_deref() {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(Error::illegal_argument(format!(
                "Failed to parse value [{other}] as only [true] or [false] are allowed."
            ))),
        }
    }

    pub(super) fn bytes(&mut self, name: &str) -> Result<Option<u64>> {
        let text = self.either(name)?;
        text.map(|text| parse_bytes_setting(name, &text)).transpose()
    }

    /// Parses bytes per second; 0 and -1 mean no limit.
    fn rate(&mut self, name: &str, default: Option<u64>) -> Result<Option<u64>> {
        match self.either(name)? {
            None => Ok(default),
            Some(text) if text == "-1" => Ok(None),
            Some(text) => Ok(Some(parse_bytes_setting(name, &text)?).filter(|rate| *rate > 0)),
        }
    }

    /// Returns the restore rate of the repository, or else that of the node.
    fn restore_rate(&mut self) -> Result<Option<u64>> {
        let of_node = match self.clients.get(RECOVERY_RATE) {
            Some(text) => Some(parse_bytes_setting(RECOVERY_RATE, text)?).filter(|rate| *rate > 0),
            None => None,
        };
        self.rate("max_restore_bytes_per_sec", of_node)
    }

    pub(super) fn duration(&mut self, name: &str, default: Duration) -> Result<Duration> {
        let Some(text) = self.either(name)? else {
            return Ok(default);
        };
        let ms = parse_duration_setting_ms(name, &text)?;
        Ok(Duration::from_millis(ms.max(1)))
    }

    /// Consumes the settings common to all types.
    pub(super) fn common(&mut self) -> Result<Common> {
        // Manifests and splits are always compressed as their formats require; the setting has no effect.
        self.boolean("compress", true)?;
        let retries_max = self.either("max_retries")?;
        let retries_max = retries_max.map(|text| {
            let number = text.parse::<u64>().ok().filter(|number| *number <= RETRIES_MAX);
            number.map(|number| number as u32).ok_or_else(|| {
                Error::illegal_argument(format!(
                    "failed to parse setting [max_retries] with value [{text}]: must be a number up to {RETRIES_MAX}"
                ))
            })
        });
        Ok(Common {
            is_readonly: self.boolean("readonly", false)?,
            snapshot_bytes_per_second: self.rate("max_snapshot_bytes_per_sec", Some(SNAPSHOT_BYTES_PER_SECOND))?,
            restore_bytes_per_second: self.restore_rate()?,
            retries_max: retries_max.transpose()?,
        })
    }

    /// Accepts a setting only with the one value that firn implements.
    pub(super) fn only(&mut self, name: &str, accepted: &str) -> Result<()> {
        match self.filled(name)? {
            Some(value) if value != accepted => Err(Error::not_implemented(format!(
                "[{name}: {value}] of a repository of type [{}]",
                self.kind
            ))),
            _ => Ok(()),
        }
    }

    /// Fails if a setting was not consumed.
    pub(super) fn end(self) -> Result<()> {
        match self.settings.keys().next() {
            None => Ok(()),
            Some(name) => Err(Error::illegal_argument(format!(
                "unknown setting [{name}] of repository [{}] of type [{}]",
                self.repository, self.kind
            ))),
        }
    }
}

/// Returns the error for a repository that cannot be created, with Elasticsearch's text.
pub(super) fn refused(repository: &str, reason: impl AsRef<str>) -> Error {
    Error::new(ErrorKind::Repository, format!("[{repository}] {}", reason.as_ref()))
}
