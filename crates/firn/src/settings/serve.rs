//! Validated settings of the server: every setting checked and derived, once.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use firn_api::DiscoverLimits;
use firn_auth::SessionLimits;
use firn_detect::BudgetLimits;
use firn_model::settings::SettingsMap;
use ipnet::IpNet;
use serde_json::{Map, Value as Json};

use super::SettingsError;
use super::address::Address;
use super::definitions::{self, DefaultValue};
use super::load::Typed;
use super::value::{self, Value};
use crate::keystore::Secrets;
use crate::rule_budget;
use crate::tls::TlsFiles;

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One object per line.
    Json,
}

/// Limit at which the disk counts as full.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FloodStage {
    /// More than this part is used, 0 to 1.
    UsedShare(f64),
    /// Less than this is free.
    FreeBytes(u64),
}

/// A size that may be a part of another one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Size {
    /// Bytes.
    Bytes(u64),
    /// This part, 0 to 1.
    Share(f64),
}

impl Size {
    /// Returns the bytes if the whole has `whole` bytes.
    pub(crate) fn of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(share) => (whole as f64 * share) as u64,
        }
    }
}

/// Whether records of one kind are kept, and how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeepRecords {
    /// `None`: if authentication is on.
    pub(crate) is_on: Option<bool>,
    pub(crate) retention: Duration,
}

/// The validated settings of `firn serve`.
#[derive(Debug, Clone)]
pub(crate) struct ServeSettings {
    pub(crate) cluster_name: String,
    pub(crate) node_name: String,
    /// `None`: the default roles of a node.
    pub(crate) node_roles: Option<Vec<String>>,
    pub(crate) node_attributes: BTreeMap<String, String>,
    /// Settings of `_cluster/settings` that are set.
    pub(crate) cluster_settings: SettingsMap,
    pub(crate) path_data: PathBuf,
    pub(crate) path_warm: Option<PathBuf>,
    pub(crate) path_geoip: Option<PathBuf>,
    pub(crate) path_cold: Option<PathBuf>,
    pub(crate) path_frozen: Option<PathBuf>,
    pub(crate) http_address: Address,
    /// `None`: plain HTTP.
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) insecure_open_to_network: bool,
    pub(crate) audit: KeepRecords,
    pub(crate) traffic: KeepRecords,
    /// `xpack.security.enabled`; `None`: depends on the address and the record of users.
    pub(crate) security_enabled: Option<bool>,
    pub(crate) operator_password_file: Option<PathBuf>,
    pub(crate) sessions: SessionLimits,
    pub(crate) http_max_content_bytes: u64,
    pub(crate) shutdown_grace: Duration,
    pub(crate) index_buffer_bytes: u64,
    pub(crate) indexing_pressure_bytes: u64,
    pub(crate) write_threads: usize,
    pub(crate) write_queue: usize,
    pub(crate) search_threads: usize,
    pub(crate) search_queue: usize,
    pub(crate) search_queue_wait_max: Duration,
    pub(crate) snapshot_threads: usize,
    pub(crate) merge_threads: usize,
    pub(crate) flood_stage: FloodStage,
    pub(crate) flood_stage_headroom_bytes: u64,
    pub(crate) shared_cache_size: Size,
    pub(crate) shared_cache_tenant_size: Size,
    pub(crate) lifecycle_poll_interval: Duration,
    pub(crate) policies_poll_interval: Duration,
    pub(crate) max_buckets: u64,
    pub(crate) search_memory_bytes: u64,
    pub(crate) search_memory_bytes_total: u64,
    pub(crate) request_cache_bytes: u64,
    pub(crate) open_splits_bytes: u64,
    /// `None`: no limit.
    pub(crate) search_repository_bytes: Option<u64>,
    pub(crate) max_open_scrolls: usize,
    pub(crate) max_open_points_in_time: usize,
    pub(crate) max_keep_alive: Duration,
    pub(crate) default_keep_alive: Duration,
    pub(crate) max_async_searches: usize,
    pub(crate) async_search_response_bytes: u64,
    pub(crate) async_search_bytes: u64,
    pub(crate) discover: DiscoverLimits,
    pub(crate) rule_budget: BudgetLimits,
    pub(crate) search_idle_after: Duration,
    /// `None`: never.
    pub(crate) scrub_period: Option<Duration>,
    /// `None`: nothing is logged.
    pub(crate) slow_query: Option<Duration>,
    pub(crate) log_level: String,
    pub(crate) log_format: LogFormat,
    pub(crate) repositories: RepositorySettings,
    /// Private networks that webhooks may reach.
    pub(crate) webhook_networks: Vec<IpNet>,
    /// From the keystore.
    pub(crate) secrets: Secrets,
    /// All settings as text, for `_nodes` and `_cluster/settings`.
    pub(crate) flat: Map<String, Json>,
}

/// Permitted targets and clients of snapshot repositories.
#[derive(Debug, Clone)]
pub(crate) struct RepositorySettings {
    pub(crate) path_repo: Vec<PathBuf>,
    pub(crate) allowed_urls: Vec<String>,
    pub(crate) requests_max: usize,
    /// Settings of clients, without secrets; and `indices.recovery.max_bytes_per_sec`.
    pub(crate) clients: BTreeMap<String, String>,
}

impl ServeSettings {
    /// Validates all raw values and derives the rest.
    pub(crate) fn validate(typed: &Typed) -> Result<Self, SettingsError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let values = Values(typed);
        let host = values.host()?;
        let port = u16::try_from(values.number("http.port")?.expect("a fixed default")).expect("checked bounds");
        let settings = Self {
            cluster_name: values.text("cluster.name")?.expect("a fixed default"),
            node_name: values.text("node.name")?.unwrap_or_else(host_name),
            node_roles: values.roles()?,
            node_attributes: values.attributes()?,
            cluster_settings: values.cluster_settings()?,
            path_data: values.paths("path.data")?.pop().expect("one path"),
            path_warm: values.path("path.data.warm")?,
            path_geoip: values.path("path.geoip")?,
            path_cold: values.path("path.data.cold")?,
            path_frozen: values.path("path.data.frozen")?,
            http_address: Address::resolve(&host, port)?,
            tls: values.tls()?,
            insecure_open_to_network: values.boolean("http.insecure_open_to_network")?,
            audit: values.records("xpack.security.audit.enabled", "xpack.security.audit.retention")?,
            traffic: values.records("traffic.enabled", "traffic.retention")?,
            security_enabled: values.text("xpack.security.enabled")?.map(|text| text == "true"),
            operator_password_file: values.path("operator.password_file")?,
            sessions: values.sessions()?,
            http_max_content_bytes: values.bytes("http.max_content_length")?,
            shutdown_grace: values.finite("http.shutdown_grace_period")?,
            index_buffer_bytes: values.bytes("indices.memory.index_buffer_size")?,
            indexing_pressure_bytes: values.bytes("indexing_pressure.memory.limit")?,
            write_threads: values.count("thread_pool.write.size")?.unwrap_or(cores),
            write_queue: values.fixed_count("thread_pool.write.queue_size")?,
            search_threads: values.count("thread_pool.search.size")?.unwrap_or(cores * 3 / 2 + 1),
            search_queue: values.fixed_count("thread_pool.search.queue_size")?,
            search_queue_wait_max: values.finite("thread_pool.search.queue_wait_max")?,
            snapshot_threads: values.fixed_count("thread_pool.snapshot.max")?,
            merge_threads: values.fixed_count("thread_pool.force_merge.size")?,
            flood_stage: values.flood_stage()?,
            flood_stage_headroom_bytes: values
                .bytes("cluster.routing.allocation.disk.watermark.flood_stage.max_headroom")?,
            shared_cache_size: values.size("xpack.searchable.snapshot.shared_cache.size")?,
            shared_cache_tenant_size: values.size("xpack.searchable.snapshot.shared_cache.tenant_size")?,
            lifecycle_poll_interval: values.finite("data_streams.lifecycle.poll_interval")?,
            policies_poll_interval: values.finite("indices.lifecycle.poll_interval")?,
            max_buckets: values.number("search.max_buckets")?.expect("a fixed default"),
            search_memory_bytes: values.bytes("indices.breaker.request.limit")?,
            search_memory_bytes_total: values.bytes("indices.breaker.total.limit")?,
            request_cache_bytes: values.bytes("indices.requests.cache.size")?,
            search_repository_bytes: values.maybe_bytes("search.max_repository_bytes")?,
            open_splits_bytes: values.bytes("xpack.searchable.snapshot.open_splits.size")?,
            max_open_scrolls: values.fixed_count("search.max_open_scroll_context")?,
            max_open_points_in_time: values.fixed_count("search.max_open_pit_context")?,
            max_keep_alive: values.finite("search.max_keep_alive")?,
            default_keep_alive: values.finite("search.default_keep_alive")?,
            max_async_searches: values.fixed_count("search.max_async_searches")?,
            async_search_response_bytes: values.bytes("search.max_async_search_response_size")?,
            async_search_bytes: values.bytes("search.max_async_search_memory")?,
            discover: values.discover()?,
            rule_budget: values.rule_budget(cores)?,
            search_idle_after: values.finite("index.search.idle.after")?,
            scrub_period: values.duration("indices.scrub.period")?,
            slow_query: values.duration("index.search.slowlog.threshold.query.warn")?,
            log_level: values.text("logger.level")?.expect("a fixed default"),
            log_format: match values.text("logger.format")?.as_deref() {
                Some("json") => LogFormat::Json,
                _ => LogFormat::Text,
            },
            repositories: values.repositories()?,
            webhook_networks: values.networks("notify.webhook.allowed_networks")?,
            secrets: Secrets::default(),
            flat: values.flat(),
        };
        settings.check_relations()?;
        Ok(settings)
    }

    /// Checks limits that depend on each other.
    fn check_relations(&self) -> Result<(), SettingsError> {
        if self.http_max_content_bytes > self.indexing_pressure_bytes {
            return Err(SettingsError(format!(
                "http.max_content_length is {} bytes and indexing_pressure.memory.limit only {}: a body of that size \
                 could never be written",
                self.http_max_content_bytes, self.indexing_pressure_bytes
            )));
        }
        Ok(())
    }
}

/// The family of the node's attributes.
const ATTRIBUTES: &str = "node.attr.*";
const RECOVERY_RATE: &str = "indices.recovery.max_bytes_per_sec";

/// Reads settings by name with their kind's type.
struct Values<'a>(&'a Typed);

impl Values<'_> {
    fn get(&self, name: &str) -> Result<Option<Value>, SettingsError> {
        let definition = definitions::find(name).expect("a setting of the table");
        let (text, place) = match (self.0.get(name), definition.default) {
            (Some((text, source)), _) => (text, format!(" {source}")),
            (None, DefaultValue::Fixed(text)) => (text, String::new()),
            (None, DefaultValue::Derived(_)) => return Ok(None),
        };
        value::check(definition, text)
            .map(Some)
            .map_err(|reason| SettingsError(format!("setting [{name}]{place}: {reason}")))
    }

    /// Returns texts separated by commas.
    fn list(&self, name: &str) -> Result<Vec<String>, SettingsError> {
        let text = self.text(name)?.unwrap_or_default();
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        Ok(parts.map(str::to_owned).collect())
    }

    /// Returns networks; an address is a network of one.
    fn networks(&self, name: &str) -> Result<Vec<IpNet>, SettingsError> {
        let parse = |text: String| {
            let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            network.map_err(|_| SettingsError(format!("setting [{name}]: [{text}] is not a network")))
        };
        self.list(name)?.into_iter().map(parse).collect()
    }

    /// Returns a duration that cannot be never.
    fn finite(&self, name: &str) -> Result<Duration, SettingsError> {
        Ok(self.duration(name)?.expect("a duration that cannot be never"))
    }

    /// Returns a count that has a fixed default.
    fn fixed_count(&self, name: &str) -> Result<usize, SettingsError> {
        Ok(self.count(name)?.expect("a fixed default"))
    }

    fn flood_stage(&self) -> Result<FloodStage, SettingsError> {
        match self.get("cluster.routing.allocation.disk.watermark.flood_stage")? {
            Some(Value::Share(share)) => Ok(FloodStage::UsedShare(share)),
            Some(Value::Bytes(bytes)) => Ok(FloodStage::FreeBytes(bytes)),
            other => unreachable!("a watermark is a share or bytes, not {other:?}"),
        }
    }

    /// Returns the limits of sessions of the console.
    fn sessions(&self) -> Result<SessionLimits, SettingsError> {
        Ok(SessionLimits {
            idle: self.finite("xpack.security.session.idle_timeout")?,
            lifespan: self.finite("xpack.security.session.lifespan")?,
        })
    }

    /// Returns the limits of Discover.
    fn discover(&self) -> Result<DiscoverLimits, SettingsError> {
        Ok(DiscoverLimits {
            count_max: self.fixed_count("discover.max_open")?,
            per_tenant_max: self.fixed_count("discover.max_per_tenant")?,
            bytes_max: self.bytes("discover.max_memory")?,
            ask_over_bytes: self.bytes("discover.frozen.ask_over")?,
            repository_bytes_max: self.maybe_bytes("search.max_repository_bytes")?,
            split_by: self.list("discover.histogram.split_by")?,
        })
    }

    /// Returns the budget of detection rules.
    fn rule_budget(&self, cores: usize) -> Result<BudgetLimits, SettingsError> {
        Ok(rule_budget::limits(
            self.count("rules.budget.operator.core_percent")?.unwrap_or(cores * 50),
            self.fixed_count("rules.budget.tenant.core_percent")?,
            self.finite("rules.budget.window")?,
            self.finite("rules.budget.pause")?,
        ))
    }

    fn repositories(&self) -> Result<RepositorySettings, SettingsError> {
        let mut clients = BTreeMap::new();
        if self.maybe_bytes(RECOVERY_RATE)?.is_some() {
            clients.extend(
                self.typed(RECOVERY_RATE)
                    .map(|text| (RECOVERY_RATE.to_owned(), text.to_owned())),
            );
        }
        for (name, definition) in self.0.of_families() {
            if definition.name == ATTRIBUTES {
                continue;
            }
            let Some((text, source)) = self.0.get(name) else {
                continue;
            };
            value::check(definition, text)
                .map_err(|reason| SettingsError(format!("setting [{name}] {source}: {reason}")))?;
            clients.insert(name.to_owned(), text.to_owned());
        }
        Ok(RepositorySettings {
            path_repo: self.paths("path.repo")?,
            allowed_urls: self.list("repositories.url.allowed_urls")?,
            requests_max: self.fixed_count("repositories.max_requests")?,
            clients,
        })
    }

    fn typed(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|(text, _)| text)
    }

    /// Returns the address to listen on, in Elasticsearch's order.
    fn host(&self) -> Result<String, SettingsError> {
        for name in ["http.bind_host", "http.host", "network.bind_host", "network.host"] {
            if let Some(host) = self.text(name)? {
                return Ok(host);
            }
        }
        Ok("127.0.0.1".to_owned())
    }

    fn roles(&self) -> Result<Option<Vec<String>>, SettingsError> {
        const NAME: &str = "node.roles";
        let Some((text, source)) = self.0.get(NAME) else {
            return Ok(None);
        };
        let roles = text.split(',').map(str::trim).filter(|role| !role.is_empty());
        let roles: Vec<String> = roles.map(str::to_owned).collect();
        match roles.iter().find(|role| !firn_api::is_node_role(role)) {
            None => Ok(Some(roles)),
            Some(role) => Err(SettingsError(format!(
                "setting [{NAME}] {source}: unknown role [{role}], it is not an Elasticsearch role"
            ))),
        }
    }

    fn attributes(&self) -> Result<BTreeMap<String, String>, SettingsError> {
        let attributes = self
            .0
            .of_families()
            .filter(|(_, definition)| definition.name == ATTRIBUTES);
        let start = ATTRIBUTES.len() - 1;
        Ok(attributes
            .filter_map(|(name, _)| Some((name[start..].to_owned(), self.typed(name)?.to_owned())))
            .collect())
    }

    fn cluster_settings(&self) -> Result<SettingsMap, SettingsError> {
        let mut settings = SettingsMap::new();
        for name in ["action.auto_create_index", "action.destructive_requires_name"] {
            if let (Some(_), Some(text)) = (self.typed(name), self.text(name)?) {
                settings.insert(name.to_owned(), text.into());
            }
        }
        Ok(settings)
    }

    fn size(&self, name: &str) -> Result<Size, SettingsError> {
        match self.get(name)? {
            Some(Value::Share(share)) => Ok(Size::Share(share)),
            Some(Value::Bytes(bytes)) => Ok(Size::Bytes(bytes)),
            other => unreachable!("{name} is a share or bytes, not {other:?}"),
        }
    }

    /// Returns every setting that is set or has a fixed default, by name.
    fn flat(&self) -> Map<String, Json> {
        let families = self.0.of_families().filter_map(|(name, _)| {
            let (text, _) = self.0.get(name)?;
            Some((name.to_owned(), Json::from(text)))
        });
        definitions::DEFINITIONS
            .iter()
            .filter_map(|definition| {
                let text = match (self.0.get(definition.name), definition.default) {
                    (Some((text, _)), _) | (None, DefaultValue::Fixed(text)) => text,
                    (None, DefaultValue::Derived(_)) => return None,
                };
                Some((definition.name.to_owned(), Json::from(text)))
            })
            .chain(families)
            .collect()
    }

    fn text(&self, name: &str) -> Result<Option<String>, SettingsError> {
        Ok(match self.get(name)? {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        })
    }

    fn boolean(&self, name: &str) -> Result<bool, SettingsError> {
        Ok(self.text(name)?.as_deref() == Some("true"))
    }

    fn records(&self, enabled: &str, retention: &str) -> Result<KeepRecords, SettingsError> {
        let is_on = self.text(enabled)?.map(|text| text == "true");
        let retention = self.finite(retention)?;
        Ok(KeepRecords { is_on, retention })
    }

    fn path(&self, name: &str) -> Result<Option<PathBuf>, SettingsError> {
        Ok(self.paths(name)?.pop())
    }

    fn tls(&self) -> Result<Option<TlsFiles>, SettingsError> {
        if !self.boolean("xpack.security.http.ssl.enabled")? {
            return Ok(None);
        }
        let path = |name: &str| {
            self.path(name)?.ok_or_else(|| {
                SettingsError(format!(
                    "xpack.security.http.ssl.enabled is true and [{name}] is not set"
                ))
            })
        };
        Ok(Some(TlsFiles {
            certificate: path("xpack.security.http.ssl.certificate")?,
            key: path("xpack.security.http.ssl.key")?,
        }))
    }

    fn number(&self, name: &str) -> Result<Option<u64>, SettingsError> {
        Ok(match self.get(name)? {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        })
    }

    fn count(&self, name: &str) -> Result<Option<usize>, SettingsError> {
        Ok(self
            .number(name)?
            .map(|number| usize::try_from(number).expect("bounded by the table")))
    }

    fn maybe_bytes(&self, name: &str) -> Result<Option<u64>, SettingsError> {
        Ok(match self.get(name)? {
            Some(Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        })
    }

    fn bytes(&self, name: &str) -> Result<u64, SettingsError> {
        match self.get(name)? {
            Some(Value::Bytes(bytes)) => Ok(bytes),
            other => unreachable!("[{name}] is a size with a default, not {other:?}"),
        }
    }

    fn duration(&self, name: &str) -> Result<Option<Duration>, SettingsError> {
        Ok(match self.get(name)? {
            Some(Value::Duration(duration)) => duration,
            _ => None,
        })
    }

    fn paths(&self, name: &str) -> Result<Vec<PathBuf>, SettingsError> {
        Ok(match self.get(name)? {
            Some(Value::Paths(paths)) => paths,
            _ => Vec::new(),
        })
    }
}

/// Returns the host's name, or `firn` if it cannot be read.
fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "firn".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::load::Sources;

    fn validate(options: &[&str]) -> Result<ServeSettings, SettingsError> {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let typed = Typed::load(Sources {
            options: &options,
            ..Sources::default()
        })?;
        ServeSettings::validate(&typed)
    }

    #[test]
    fn defaults_are_elasticsearch_s_where_it_has_them() {
        let settings = validate(&[]).expect("settings");
        assert_eq!(settings.http_address.socket.to_string(), "127.0.0.1:9200");
        assert_eq!(settings.http_max_content_bytes, 100 << 20);
        assert_eq!(settings.flood_stage, FloodStage::UsedShare(0.95));
        assert_eq!(settings.max_buckets, 65_536);
        assert_eq!(settings.flat["http.port"], "9200");
        assert!(!settings.node_name.is_empty());
    }

    #[test]
    fn hosts_have_elasticsearch_s_order() {
        let check = |options: &[&str], expect: &str| {
            let settings = validate(options).expect("settings");
            assert_eq!(settings.http_address.socket.ip().to_string(), expect, "{options:?}");
        };
        let (network, http, bind) = (
            "network.host=127.0.0.2",
            "http.host=127.0.0.3",
            "http.bind_host=127.0.0.4",
        );
        check(&[network], "127.0.0.2");
        check(&[network, http], "127.0.0.3");
        check(&[network, http, bind], "127.0.0.4");
        let open = validate(&["network.host=0.0.0.0"]).expect("settings");
        assert!(open.http_address.is_exposed);
    }

    #[test]
    fn a_node_has_roles_and_attributes() {
        let settings = validate(&["node.roles=data_hot, data_frozen", "node.attr.rack=r1"]).expect("settings");
        assert_eq!(
            settings.node_roles,
            Some(vec!["data_hot".to_owned(), "data_frozen".to_owned()])
        );
        assert_eq!(settings.node_attributes["rack"], "r1");
        assert_eq!(
            validate(&["node.roles="]).expect("settings").node_roles,
            Some(Vec::new())
        );
        let error = validate(&["node.roles=data_frosen"]).expect_err("an error").0;
        assert!(error.contains("unknown role [data_frosen]"), "{error}");
    }

    #[test]
    fn tls_needs_its_files() {
        assert_eq!(
            validate(&["xpack.security.http.ssl.key=k"]).expect("settings").tls,
            None
        );
        let on = "xpack.security.http.ssl.enabled=true";
        let (certificate, key) = ("xpack.security.http.ssl.certificate=c", "xpack.security.http.ssl.key=k");
        let check = |options: &[&str], missing: &str| {
            let error = validate(options).expect_err("an error").0;
            assert!(error.contains(missing), "{error}");
        };
        check(&[on], "[xpack.security.http.ssl.certificate] is not set");
        check(&[on, certificate], "[xpack.security.http.ssl.key] is not set");
        let tls = validate(&[on, certificate, key]).expect("settings").tls.expect("files");
        assert_eq!((tls.certificate, tls.key), (PathBuf::from("c"), PathBuf::from("k")));
    }

    #[test]
    fn limits_must_fit_each_other() {
        let error = validate(&["http.max_content_length=500mb"]).expect_err("an error").0;
        assert!(error.contains("indexing_pressure.memory.limit"), "{error}");
        validate(&["http.max_content_length=500mb", "indexing_pressure.memory.limit=1gb"]).expect("settings");
    }

    #[test]
    fn an_error_names_setting_and_place() {
        let error = validate(&["http.port=ninety"]).expect_err("an error").0;
        assert!(
            error.starts_with("setting [http.port] given with -E: failed to parse value [ninety]"),
            "{error}"
        );
    }
}
