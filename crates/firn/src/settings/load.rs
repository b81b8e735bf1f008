//! Loader of settings: collects the raw text of each setting from all sources.
//!
//! Later sources win: defaults, then the file, then `FIRN_…` variables, then `-E`, then flags.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_norway::Value as Yaml;

use super::SettingsError;
use super::accepted::{self, Meaning};
use super::definitions::{self, Definition, Kind};

/// A configuration file is a page of text; a larger file is a mistake.
const FILE_LIMIT_BYTES: u64 = 1024 * 1024;

/// Variables with the prefix of settings that are not settings.
const OTHER_VARIABLES: &[&str] = &[
    "FIRN_API_KEY",
    "FIRN_KEYSTORE_PASSWORD",
    "FIRN_KEYSTORE_PASSWORD_FILE",
    "FIRN_OPERATOR_PASSWORD",
];

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// In a configuration file.
    File(PathBuf),
    /// In this variable.
    Environment(String),
    /// As `-E name=value`.
    Option,
    /// As a separate flag.
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(formatter, "in {}", path.display()),
            Self::Environment(variable) => write!(formatter, "in the environment variable {variable}"),
            Self::Option => formatter.write_str("given with -E"),
            Self::Flag(flag) => write!(formatter, "given with {flag}"),
        }
    }
}

/// The raw text of each setting, not yet validated.
#[derive(Debug, Default)]
pub(crate) struct Typed {
    values: BTreeMap<String, (String, Source)>,
    /// Warnings for the log after its start: settings without effect and unknown variables.
    pub(crate) warnings: Vec<String>,
}

/// The sources of one start.
#[derive(Debug, Default)]
pub(crate) struct Sources<'a> {
    /// `-c`.
    pub(crate) file: Option<&'a Path>,
    /// The environment variables of the process.
    pub(crate) environment: Vec<(String, String)>,
    /// `-E`, in their order.
    pub(crate) options: &'a [String],
    /// Flag, setting, value.
    pub(crate) flags: Vec<(&'static str, &'static str, String)>,
}

impl Typed {
    /// Collects all sources.
    pub(crate) fn load(sources: Sources<'_>) -> Result<Self, SettingsError> {
        let mut typed = Self::default();
        if let Some(path) = sources.file {
            typed.read_file(path, &sources.environment)?;
        }
        typed.read_environment(&sources.environment)?;
        for option in sources.options {
            typed.read_option(option)?;
        }
        for (flag, name, value) in sources.flags {
            let definition = definitions::find(name).expect("flags name settings of the table");
            typed.set(definition, name, value, Source::Flag(flag))?;
        }
        Ok(typed)
    }

    /// Returns the raw text of a setting, and its source.
    pub(crate) fn get(&self, name: &str) -> Option<(&str, &Source)> {
        self.values.get(name).map(|(value, source)| (value.as_str(), source))
    }

    /// Returns the settings of families that are set, by their completed name.
    pub(crate) fn of_families(&self) -> impl Iterator<Item = (&str, &'static Definition)> {
        self.values.keys().filter_map(|name| {
            let definition = definitions::find(name).filter(|definition| definition.is_family())?;
            Some((name.as_str(), definition))
        })
    }

    /// Stores a value. A secret is refused, because `_nodes` shows these values.
    fn set(
        &mut self,
        definition: &'static Definition,
        name: &str,
        value: String,
        source: Source,
    ) -> Result<(), SettingsError> {
        if matches!(definition.kind, Kind::Secret) {
            return Err(SettingsError(format!(
                "setting [{name}] {source}: it is a secret, store it in the keystore (`firn keystore add {name}`)"
            )));
        }
        self.values.insert(name.to_owned(), (value, source));
        Ok(())
    }

    fn read_file(&mut self, path: &Path, environment: &[(String, String)]) -> Result<(), SettingsError> {
        let fail = |reason: String| SettingsError(format!("cannot read the settings in {}: {reason}", path.display()));
        let size = std::fs::metadata(path).map_err(|error| fail(error.to_string()))?.len();
        if size > FILE_LIMIT_BYTES {
            return Err(fail(format!(
                "it has {size} bytes, more than the {FILE_LIMIT_BYTES} allowed"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        let yaml: Yaml = serde_norway::from_str(&text).map_err(|error| fail(error.to_string()))?;
        let mut flat = BTreeMap::new();
        match yaml {
            Yaml::Null => {}
            Yaml::Mapping(_) => flatten("", &yaml, &mut flat).map_err(fail)?,
            _ => return Err(fail("it is not a list of `name: value` lines".to_owned())),
        }
        for (name, value) in flat {
            let source = Source::File(path.to_owned());
            let Some(definition) = self.known(&name, &value, &source)? else {
                continue;
            };
            let value = substitute(&value, environment).map_err(|reason| fail(format!("[{name}]: {reason}")))?;
            self.set(definition, &name, value, source)?;
        }
        Ok(())
    }

    /// A `FIRN_…` variable that is no setting causes a warning, not an error: Kubernetes sets `FIRN_SERVICE_HOST` and
    /// similar variables in every pod beside a service called `firn`.
    fn read_environment(&mut self, environment: &[(String, String)]) -> Result<(), SettingsError> {
        for (variable, value) in environment {
            if !variable.starts_with("FIRN_") || OTHER_VARIABLES.contains(&variable.as_str()) {
                continue;
            }
            match definitions::find_by_environment(variable) {
                Some(definition) => {
                    let source = Source::Environment(variable.clone());
                    self.set(definition, definition.name, value.clone(), source)?;
                }
                None => {
                    let known: Vec<String> = definitions::DEFINITIONS
                        .iter()
                        .filter(|definition| !definition.is_family())
                        .map(|definition| definitions::environment_name(definition.name))
                        .collect();
                    // Lower case on both sides, because names are compared like that.
                    let lower: Vec<String> = known.iter().map(|name| name.to_lowercase()).collect();
                    let hint = definitions::nearest(variable, lower.iter().map(String::as_str))
                        .map(|name| format!(", did you mean {}?", name.to_uppercase()))
                        .unwrap_or_default();
                    self.warnings
                        .push(format!("the environment variable {variable} is not a setting{hint}"));
                }
            }
        }
        Ok(())
    }

    fn read_option(&mut self, option: &str) -> Result<(), SettingsError> {
        let Some((name, value)) = option.split_once('=') else {
            return Err(SettingsError(format!("-E {option} is not name=value")));
        };
        match self.known(name.trim(), value, &Source::Option)? {
            Some(definition) => self.set(definition, name.trim(), value.to_owned(), Source::Option),
            None => Ok(()),
        }
    }

    /// Returns the setting of a name. `None`: firn accepts it as an Elasticsearch setting without effect, with a
    /// warning.
    fn known(
        &mut self,
        name: &str,
        value: &str,
        source: &Source,
    ) -> Result<Option<&'static Definition>, SettingsError> {
        if let Some(definition) = definitions::find(name) {
            return Ok(Some(definition));
        }
        match accepted::find(name, value) {
            Some(Meaning::Nothing(why)) => {
                self.warnings
                    .push(format!("setting [{name}] {source} has no effect here: {why}"));
                Ok(None)
            }
            Some(Meaning::Refused(why)) => Err(SettingsError(format!("setting [{name}] {source}: {why}"))),
            None => {
                let hint = match definitions::suggestion(name) {
                    Some(near) => format!(", did you mean [{near}]?"),
                    None => "; `firn settings` lists all settings".to_owned(),
                };
                Err(SettingsError(format!("unknown setting [{name}] {source}{hint}")))
            }
        }
    }
}

/// Converts nested maps to dotted names, and lists to comma-separated text.
fn flatten(prefix: &str, yaml: &Yaml, into: &mut BTreeMap<String, String>) -> Result<(), String> {
    let Yaml::Mapping(mapping) = yaml else {
        let text = scalar_or_list(yaml).map_err(|reason| format!("[{prefix}] {reason}"))?;
        if into.insert(prefix.to_owned(), text).is_some() {
            return Err(format!("[{prefix}] is set twice"));
        }
        return Ok(());
    };
    for (key, value) in mapping {
        let Yaml::String(key) = key else {
            return Err(format!("a name under [{prefix}] is not text"));
        };
        let name = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        flatten(&name, value, into)?;
    }
    Ok(())
}

fn scalar_or_list(yaml: &Yaml) -> Result<String, String> {
    match yaml {
        Yaml::Null => Ok(String::new()),
        Yaml::Bool(value) => Ok(value.to_string()),
        Yaml::Number(value) => Ok(value.to_string()),
        Yaml::String(value) => Ok(value.clone()),
        Yaml::Sequence(values) => {
            let parts: Result<Vec<String>, String> = values
                .iter()
                .map(|value| match value {
                    Yaml::Sequence(_) => Err("contains a nested list".to_owned()),
                    other => scalar_or_list(other),
                })
                .collect();
            Ok(parts?.join(","))
        }
        Yaml::Mapping(_) | Yaml::Tagged(_) => Err("is not a simple value".to_owned()),
    }
}

/// Replaces `${NAME}` and `${NAME:default}` with the value of a variable, as in elasticsearch.yml.
fn substitute(text: &str, environment: &[(String, String)]) -> Result<String, String> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        result.push_str(&rest[..start]);
        let after = &rest[start + 2..];
        let end = after
            .find('}')
            .ok_or_else(|| format!("`${{` without `}}` in [{text}]"))?;
        let (name, default) = match after[..end].split_once(':') {
            Some((name, default)) => (name, Some(default)),
            None => (&after[..end], None),
        };
        let value = environment
            .iter()
            .find(|(variable, _)| variable == name)
            .map(|(_, value)| value.as_str());
        match value.or(default) {
            Some(value) => result.push_str(value),
            None => return Err(format!("the environment variable {name} is not set")),
        }
        rest = &after[end + 1..];
    }
    result.push_str(rest);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_yaml(text: &str, environment: &[(&str, &str)], options: &[&str]) -> Result<Typed, SettingsError> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("firn.yml");
        std::fs::write(&path, text).expect("a written file");
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        Typed::load(Sources {
            file: Some(&path),
            environment: environment.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect(),
            options: &options,
            flags: Vec::new(),
        })
    }

    #[test]
    fn nested_dotted_and_list_forms_are_the_same() {
        let typed = load_yaml(
            "cluster.name: a\nhttp:\n  port: 9201\n  host: '::1'\npath:\n  repo: [/x, /y]\nnode: {name: '${WHO:b}'}\n",
            &[("WHO", "c")],
            &[],
        )
        .expect("settings");
        let value = |name: &str| typed.get(name).map(|(value, _)| value.to_owned());
        assert_eq!(value("cluster.name").as_deref(), Some("a"));
        assert_eq!(value("http.port").as_deref(), Some("9201"));
        assert_eq!(value("http.host").as_deref(), Some("::1"));
        assert_eq!(value("path.repo").as_deref(), Some("/x,/y"));
        assert_eq!(value("node.name").as_deref(), Some("c"));
        assert_eq!(value("search.max_buckets"), None);
    }

    /// Like the files in packages and in guides for the frozen tier.
    const ELASTICSEARCH_YML: &str = r#"
# ======================== Elasticsearch Configuration =========================
cluster.name: logs-prod
node.name: ${HOSTNAME:es-frozen-1}
node.roles: [ data_hot, data_content, data_frozen, master, ingest ]
node.attr.rack: r1
node:
  attr:
    zone: eu-central-1a
path.data: /var/lib/elasticsearch
path.logs: /var/log/elasticsearch
path.repo: ["/mnt/backups"]
bootstrap.memory_lock: true
network.host: 127.0.0.1
http.port: 9200-9300
transport.port: 9300
discovery.type: single-node
discovery.seed_hosts: ["es-1", "es-2"]
cluster.initial_master_nodes: ["es-1"]
gateway.recover_after_data_nodes: 1
action.auto_create_index: "-secret*,+*"
action.destructive_requires_name: true
indices.recovery.max_bytes_per_sec: 500mb
thread_pool.snapshot.max: 10
thread_pool.write.queue_size: 1000
xpack.searchable.snapshot.shared_cache.size: 90%
xpack.ml.enabled: false
xpack.monitoring.collection.enabled: true
xpack.security.enabled: false
xpack.security.enrollment.enabled: true
xpack.security.transport.ssl:
  enabled: true
  verification_mode: certificate
  keystore.path: certs/transport.p12
http.cors.enabled: true
http.cors.allow-origin: "*"
ingest.geoip.downloader.enabled: false
"#;

    #[test]
    fn an_elasticsearch_yml_starts_firn() {
        let typed = load_yaml(ELASTICSEARCH_YML, &[], &[]).expect("settings");
        let settings = crate::settings::ServeSettings::validate(&typed).expect("valid settings");
        assert_eq!(settings.node_name, "es-frozen-1");
        assert_eq!(settings.node_roles.as_ref().map(Vec::len), Some(5));
        assert_eq!(settings.node_attributes["rack"], "r1");
        assert_eq!(settings.node_attributes["zone"], "eu-central-1a");
        assert_eq!(settings.http_address.socket.to_string(), "127.0.0.1:9200");
        assert_eq!(settings.snapshot_threads, 10);
        assert_eq!(settings.cluster_settings["action.auto_create_index"], "-secret*,+*");
        assert_eq!(
            settings.repositories.clients["indices.recovery.max_bytes_per_sec"],
            "500mb"
        );
        assert_eq!(settings.security_enabled, Some(false));
        let without_effect = [
            "bootstrap.memory_lock",
            "cluster.initial_master_nodes",
            "discovery.seed_hosts",
            "discovery.type",
            "gateway.recover_after_data_nodes",
            "http.cors.allow-origin",
            "http.cors.enabled",
            "ingest.geoip.downloader.enabled",
            "path.logs",
            "transport.port",
            "xpack.ml.enabled",
            "xpack.monitoring.collection.enabled",
            "xpack.security.enrollment.enabled",
            "xpack.security.transport.ssl.enabled",
            "xpack.security.transport.ssl.keystore.path",
            "xpack.security.transport.ssl.verification_mode",
        ];
        for name in without_effect {
            let about: Vec<&String> = typed
                .warnings
                .iter()
                .filter(|line| line.contains(&format!("[{name}]")))
                .collect();
            assert_eq!(about.len(), 1, "{name}: {about:?}");
            assert!(about[0].contains("has no effect here: "), "{}", about[0]);
        }
        assert_eq!(typed.warnings.len(), without_effect.len(), "{:#?}", typed.warnings);
    }

    #[test]
    fn what_elasticsearch_does_not_know_is_refused() {
        for (yaml, part) in [
            (
                "xpack.security.enabld: true\n",
                "did you mean [xpack.security.enabled]?",
            ),
            ("node.rols: [master]\n", "did you mean [node.roles]?"),
            ("network.hots: 0.0.0.0\n", "did you mean [network.host]?"),
            (
                "cluster.initial_master_node: a\n",
                "unknown setting [cluster.initial_master_node]",
            ),
        ] {
            let error = load_yaml(yaml, &[], &[]).expect_err("an error").0;
            assert!(error.contains(part), "{yaml}: {error}");
        }
    }

    #[test]
    fn later_sources_win() {
        let check = |environment: &[(&str, &str)], options: &[&str], expect: &str, from: &str| {
            let typed = load_yaml("http.port: 1\n", environment, options).expect("settings");
            let (value, source) = typed.get("http.port").expect("a value");
            assert_eq!(value, expect);
            assert!(source.to_string().contains(from), "{source}");
        };
        check(&[], &[], "1", "firn.yml");
        check(&[("FIRN_HTTP_PORT", "2")], &[], "2", "FIRN_HTTP_PORT");
        check(&[("FIRN_HTTP_PORT", "2")], &["http.port=3"], "3", "-E");
        check(&[], &["http.port=3", "http.port=4"], "4", "-E");
    }

    #[test]
    fn underscores_in_variables_are_solved_from_the_table() {
        let typed = load_yaml("", &[("FIRN_SEARCH_MAX_BUCKETS", "7")], &[]).expect("settings");
        assert_eq!(typed.get("search.max_buckets").map(|(value, _)| value), Some("7"));
    }

    #[test]
    fn a_strange_variable_is_reported() {
        let typed =
            load_yaml("", &[("FIRN_HTTP_PROT", "1"), ("FIRN_SERVICE_HOST", "10.0.0.1")], &[]).expect("settings");
        assert_eq!(typed.warnings.len(), 2);
        assert!(
            typed.warnings[0].contains("did you mean FIRN_HTTP_PORT?"),
            "{:?}",
            typed.warnings
        );
    }

    #[test]
    fn refuses_what_it_cannot_read() {
        let check = |yaml: &str, options: &[&str], part: &str| {
            let error = load_yaml(yaml, &[], options).expect_err("an error").0;
            assert!(error.contains(part), "{yaml} {options:?}: {error}");
        };
        check("http.prot: 1\n", &[], "unknown setting [http.prot]");
        check("http.prot: 1\n", &[], "did you mean [http.port]?");
        check("http.port: 1\nhttp:\n  port: 2\n", &[], "[http.port] is set twice");
        check("- 1\n", &[], "not a list of");
        check("http: {port: {a: 1}}\n", &[], "unknown setting [http.port.a]");
        check("node.name: ${NOWHERE_AT_ALL}\n", &[], "NOWHERE_AT_ALL is not set");
        check("a: [\n", &[], "firn.yml");
        check("", &["http.port"], "is not name=value");
        check("", &["frobnicate=true"], "`firn settings` lists");
        check(
            "xpack.security.http.ssl.client_authentication: required\n",
            &[],
            "would admit clients that Elasticsearch refuses",
        );
        check("bootstrap.password: x\n", &[], "firn keystore add bootstrap.password");
        check("", &["bootstrap.password=x"], "given with -E: it is a secret");
    }
}
