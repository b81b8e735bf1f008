//! Actions of a lifecycle phase: one variant per action, with Elasticsearch's names and JSON.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::validate::allowed_in;
use super::{PhaseName, object, text, unknown_field};
use crate::dates::parse_duration_setting_ms;
use crate::settings::{SettingsMap, parse_bytes_setting};
use crate::{Error, Result};

/// Action with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// `index.priority`; `None`: none.
    SetPriority(Option<u64>),
    /// Elasticsearch stops following another cluster here; firn follows none, so the action does nothing.
    Unfollow,
    /// Creates a new write index, once the conditions (as typed) are met.
    Rollover(IndexMap<String, Value>),
    /// Refuses writes from then on.
    ReadOnly,
    /// Reduces the number of shards; stored as typed. A shard of firn is as large as its segments and costs little, so
    /// there is no benefit: the step reports that and does nothing.
    Shrink(Map<String, Value>),
    /// Reduces the number of segments.
    ForceMerge(ForceMerge),
    /// Sets the number of replicas and allocation rules.
    Allocate(Allocate),
    /// Moves the index to the tier of the phase; false: the index stays where it is.
    Migrate(bool),
    /// Copies the index to a repository and mounts it from there.
    SearchableSnapshot(SearchableSnapshot),
    /// Waits until this snapshot policy has a snapshot of the index.
    WaitForSnapshot(String),
    /// Deletes the index; true: also the snapshot that the lifecycle created of it.
    Delete(bool),
}

/// `forcemerge`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForceMerge {
    /// Maximum segments per shard.
    pub max_num_segments: u64,
    /// `best_compression`, stored as typed.
    pub index_codec: Option<String>,
}

/// `allocate`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Allocate {
    /// `number_of_replicas`.
    pub number_of_replicas: Option<u64>,
    /// `total_shards_per_node`.
    pub total_shards_per_node: Option<i64>,
    /// `include`, `exclude` and `require`, each with node attributes.
    pub rules: IndexMap<&'static str, Map<String, Value>>,
}

/// `searchable_snapshot`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchableSnapshot {
    /// Target repository.
    pub repository: String,
    /// Merge the segments before the snapshot (default true).
    pub force_merge_index: bool,
}

/// Conditions of `rollover`, in the order in which Elasticsearch prints them.
const SIZES: [&str; 4] = [
    "max_size",
    "max_primary_shard_size",
    "min_size",
    "min_primary_shard_size",
];
const AGES: [&str; 2] = ["max_age", "min_age"];
const COUNTS: [&str; 4] = [
    "max_docs",
    "max_primary_shard_docs",
    "min_docs",
    "min_primary_shard_docs",
];

impl Action {
    /// Reads an action of a phase.
    pub fn parse(phase: PhaseName, kind: &str, body: &Value) -> Result<Self> {
        if !allowed_in(phase).contains(&kind) {
            let phase = phase.as_str();
            return Err(match kind {
                "downsample" => Error::not_implemented(format!("the action [{kind}] in phase [{phase}]")),
                _ => Error::illegal_argument(format!("invalid action [{kind}] defined in phase [{phase}]")),
            });
        }
        let fields = Fields {
            kind,
            map: object(kind, body)?,
        };
        match kind {
            "set_priority" => {
                fields.only(&["priority"])?;
                match fields.map.get("priority") {
                    None => Err(fields.missing("priority")),
                    Some(Value::Null) => Ok(Self::SetPriority(None)),
                    Some(_) => match fields.integer("priority")? {
                        Some(priority) if priority >= 0 => Ok(Self::SetPriority(Some(priority as u64))),
                        _ => Err(Error::illegal_argument("[priority] must be 0 or greater")),
                    },
                }
            }
            "rollover" => Ok(Self::Rollover(fields.conditions()?)),
            "shrink" => fields.shrink(),
            "forcemerge" => {
                fields.only(&["max_num_segments", "index_codec"])?;
                let max_num_segments = match fields.integer("max_num_segments")? {
                    None => return Err(fields.missing("max_num_segments")),
                    Some(number) if number > 0 => number as u64,
                    Some(_) => {
                        return Err(Error::illegal_argument("[max_num_segments] must be a positive integer"));
                    }
                };
                let index_codec = fields.text("index_codec")?;
                if let Some(codec) = index_codec.as_deref().filter(|codec| *codec != "best_compression") {
                    return Err(Error::illegal_argument(format!("unknown index codec: [{codec}]")));
                }
                Ok(Self::ForceMerge(ForceMerge {
                    max_num_segments,
                    index_codec,
                }))
            }
            "allocate" => fields.allocate(),
            "migrate" => {
                fields.only(&["enabled"])?;
                Ok(Self::Migrate(fields.flag("enabled", true)?))
            }
            "searchable_snapshot" => {
                // The number of shards per node and of replicas have no effect on one node.
                fields.only(&[
                    "snapshot_repository",
                    "force_merge_index",
                    "total_shards_per_node",
                    "replicate_for",
                ])?;
                for name in ["total_shards_per_node", "replicate_for"] {
                    if fields.map.contains_key(name) {
                        return Err(Error::not_implemented(format!("[{name}] of [searchable_snapshot]")));
                    }
                }
                let repository = fields.text("snapshot_repository")?.filter(|name| !name.is_empty());
                Ok(Self::SearchableSnapshot(SearchableSnapshot {
                    repository: repository.ok_or_else(|| fields.missing("snapshot_repository"))?,
                    force_merge_index: fields.flag("force_merge_index", true)?,
                }))
            }
            "wait_for_snapshot" => {
                fields.only(&["policy"])?;
                let policy = fields.text("policy")?.filter(|name| !name.is_empty());
                Ok(Self::WaitForSnapshot(policy.ok_or_else(|| fields.missing("policy"))?))
            }
            "delete" => {
                fields.only(&["delete_searchable_snapshot"])?;
                Ok(Self::Delete(fields.flag("delete_searchable_snapshot", true)?))
            }
            "readonly" => fields.only(&[]).map(|()| Self::ReadOnly),
            _ => fields.only(&[]).map(|()| Self::Unfollow),
        }
    }

    /// Returns its name.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::SetPriority(_) => "set_priority",
            Self::Unfollow => "unfollow",
            Self::Rollover(_) => "rollover",
            Self::ReadOnly => "readonly",
            Self::Shrink(_) => "shrink",
            Self::ForceMerge(_) => "forcemerge",
            Self::Allocate(_) => "allocate",
            Self::Migrate(_) => "migrate",
            Self::SearchableSnapshot(_) => "searchable_snapshot",
            Self::WaitForSnapshot(_) => "wait_for_snapshot",
            Self::Delete(_) => "delete",
        }
    }

    /// Prints its parameters, the inverse of [`Action::parse`]; defaults are printed as in Elasticsearch.
    pub fn print(&self) -> Value {
        match self {
            Self::SetPriority(priority) => json!({"priority": priority}),
            Self::Unfollow | Self::ReadOnly => json!({}),
            Self::Rollover(conditions) => Value::Object(conditions.clone().into_iter().collect()),
            Self::Shrink(typed) => Value::Object(typed.clone()),
            Self::ForceMerge(merge) => {
                let mut out = json!({"max_num_segments": merge.max_num_segments});
                if let Some(codec) = &merge.index_codec {
                    out["index_codec"] = codec.as_str().into();
                }
                out
            }
            Self::Allocate(allocate) => {
                let mut out = Map::new();
                if let Some(replicas) = allocate.number_of_replicas {
                    out.insert("number_of_replicas".into(), replicas.into());
                }
                if let Some(shards) = allocate.total_shards_per_node {
                    out.insert("total_shards_per_node".into(), shards.into());
                }
                for kind in RULES {
                    let rules = allocate.rules.get(kind).cloned().unwrap_or_default();
                    out.insert((*kind).into(), Value::Object(rules));
                }
                Value::Object(out)
            }
            Self::Migrate(enabled) => json!({"enabled": enabled}),
            Self::SearchableSnapshot(snapshot) => json!({
                "snapshot_repository": snapshot.repository,
                "force_merge_index": snapshot.force_merge_index,
            }),
            Self::WaitForSnapshot(policy) => json!({"policy": policy}),
            Self::Delete(with_snapshot) => json!({"delete_searchable_snapshot": with_snapshot}),
        }
    }
}

impl Allocate {
    /// Returns the settings that the action sets on an index.
    pub fn settings(&self) -> SettingsMap {
        let mut settings = SettingsMap::new();
        if let Some(replicas) = self.number_of_replicas {
            settings.insert("index.number_of_replicas".into(), replicas.into());
        }
        if let Some(shards) = self.total_shards_per_node {
            settings.insert("index.routing.allocation.total_shards_per_node".into(), shards.into());
        }
        for (kind, rules) in &self.rules {
            for (attribute, value) in rules {
                settings.insert(format!("index.routing.allocation.{kind}.{attribute}"), value.clone());
            }
        }
        settings
    }
}

const RULES: &[&str] = &["include", "exclude", "require"];

/// Parameters of an action.
struct Fields<'a> {
    kind: &'a str,
    map: &'a Map<String, Value>,
}

impl Fields<'_> {
    fn only(&self, known: &[&str]) -> Result<()> {
        match self.map.keys().find(|key| !known.contains(&key.as_str())) {
            Some(other) => Err(unknown_field(self.kind, other)),
            None => Ok(()),
        }
    }

    fn missing(&self, name: &str) -> Error {
        Error::illegal_argument(format!("[{}] Required [{name}]", self.kind))
    }

    fn wrong(&self, name: &str, value: &Value) -> Error {
        Error::parsing(format!("[{}] failed to parse field [{name}]: [{value}]", self.kind))
    }

    fn text(&self, name: &str) -> Result<Option<String>> {
        match self.map.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.wrong(name, other)),
        }
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.map.get(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text == "true" || text == "false" => Ok(text == "true"),
            Some(other) => Err(self.wrong(name, other)),
        }
    }

    fn integer(&self, name: &str) -> Result<Option<i64>> {
        match self.map.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
                number.map(Some).ok_or_else(|| self.wrong(name, value))
            }
        }
    }

    fn conditions(&self) -> Result<IndexMap<String, Value>> {
        let known: Vec<&str> = SIZES.into_iter().chain(AGES).chain(COUNTS).collect();
        self.only(&known)?;
        let mut conditions = IndexMap::new();
        for name in known {
            let Some(value) = self.map.get(name).filter(|value| !value.is_null()) else {
                continue;
            };
            if SIZES.contains(&name) {
                parse_bytes_setting(name, &text(name, value)?)?;
            } else if AGES.contains(&name) {
                parse_duration_setting_ms(name, &text(name, value)?)?;
            } else if self.integer(name)?.is_none_or(|count| count < 0) {
                return Err(self.wrong(name, value));
            }
            conditions.insert(name.to_owned(), value.clone());
        }
        if !conditions.keys().any(|name| name.starts_with("max_")) {
            return Err(Error::illegal_argument(
                "At least one max_* rollover condition must be set.",
            ));
        }
        Ok(conditions)
    }

    fn shrink(&self) -> Result<Action> {
        self.only(&["number_of_shards", "max_primary_shard_size", "allow_write_after_shrink"])?;
        let shards = self.integer("number_of_shards")?;
        let size = self.text("max_primary_shard_size")?;
        match (shards, &size) {
            (Some(shards), None) if shards > 0 => {}
            (None, Some(size)) => drop(parse_bytes_setting("max_primary_shard_size", size)?),
            (Some(_), None) => return Err(Error::illegal_argument("[number_of_shards] must be greater than 0")),
            (Some(_), Some(_)) => {
                return Err(Error::illegal_argument(
                    "Cannot configure both [number_of_shards] and [max_primary_shard_size]",
                ));
            }
            (None, None) => {
                return Err(Error::illegal_argument(
                    "Either [number_of_shards] or [max_primary_shard_size] must be configured",
                ));
            }
        }
        let mut typed = self.map.clone();
        let writable = self.flag("allow_write_after_shrink", false)?;
        typed.insert("allow_write_after_shrink".into(), writable.into());
        Ok(Action::Shrink(typed))
    }

    fn allocate(&self) -> Result<Action> {
        self.only(&[
            "number_of_replicas",
            "total_shards_per_node",
            "include",
            "exclude",
            "require",
        ])?;
        let mut allocate = Allocate {
            total_shards_per_node: self.integer("total_shards_per_node")?,
            ..Allocate::default()
        };
        allocate.number_of_replicas = match self.integer("number_of_replicas")? {
            Some(replicas) if replicas < 0 => {
                return Err(Error::illegal_argument("[number_of_replicas] must be >= 0"));
            }
            replicas => replicas.map(|replicas| replicas as u64),
        };
        for kind in RULES {
            match self.map.get(*kind) {
                None | Some(Value::Null) => {}
                Some(Value::Object(rules)) if rules.is_empty() => {}
                Some(Value::Object(rules)) => drop(allocate.rules.insert(kind, rules.clone())),
                Some(other) => return Err(self.wrong(kind, other)),
            }
        }
        if allocate == Allocate::default() {
            return Err(Error::illegal_argument(
                "At least one of include, exclude, require, number_of_replicas or total_shards_per_node must be set \
                 for action [allocate]",
            ));
        }
        Ok(Action::Allocate(allocate))
    }
}
