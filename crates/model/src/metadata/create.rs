//! Creation of indices.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::change::Change;
use super::ilm_commands::check_origination_date;
use super::parse::parse_mapping;
use super::templates::{add_index, check_timestamp, refuse_period};
use super::tenant_indices::add_tenant_field;
use super::{AliasMetadata, IndexMetadata, OpenShards, TemplateContent};
use crate::mapping::Mapping;
use crate::names::{matches_pattern, validate_alias_name, validate_index_name};
use crate::settings::{IndexSettings, SettingsMap, cluster_default_of, flatten};
use crate::tenant::TenantId;
use crate::{Error, ErrorKind, Result};

/// Inputs of a new index besides its template.
#[derive(Default)]
pub(super) struct NewIndex {
    pub(super) name: String,
    /// The name as the user wrote it, if it has date math.
    pub(super) provided_name: Option<String>,
    /// Override those of the template; `null` removes one.
    pub(super) settings: SettingsMap,
    pub(super) mapping: Option<Mapping>,
    pub(super) aliases: BTreeMap<String, AliasMetadata>,
    pub(super) data_stream: Option<String>,
    /// Span of time of the documents that it accepts, half-open, ms since epoch UTC.
    pub(super) time_range_ms: Option<Range<i64>>,
    /// The tenant whose write creates it.
    pub(super) made_by: Option<TenantId>,
}

impl Change<'_> {
    pub(super) fn create_index_command(
        &mut self,
        name: &str,
        settings: &Value,
        mappings: Option<&Value>,
        aliases: Option<&Value>,
    ) -> Result<()> {
        let resolved = self.date_math(name)?;
        let settings = flatten(settings, true)?;
        // The user's settings are checked alone first, so that an error is about what the user sent.
        let own = IndexSettings::from_flat(settings.clone())?;
        let template = self.next.find_template(&resolved, own.hidden);
        if let Some((template_name, template)) = template
            && template.data_stream.is_some()
        {
            return Err(Error::illegal_argument(format!(
                "cannot create index with name [{resolved}], because it matches with template [{template_name}] that \
                 creates data streams only, use create data stream api instead"
            )));
        }
        let content = match template {
            Some((_, template)) => self.next.compose(template)?,
            None => TemplateContent::default(),
        };
        let new = NewIndex {
            provided_name: (resolved != name).then(|| name.to_owned()),
            name: resolved,
            settings,
            mapping: mappings.map(parse_mapping).transpose()?,
            aliases: AliasMetadata::parse_all(aliases)?,
            ..NewIndex::default()
        };
        self.create_index(new, content)
    }

    /// Adds an index to the state, from its template's content and the overrides.
    pub(super) fn create_index(&mut self, new: NewIndex, content: TemplateContent) -> Result<()> {
        let name = new.name;
        validate_index_name(&name)?;
        self.refuse_taken_name(&name)?;

        let mut settings = content.settings;
        settings.extend(new.settings);
        let mut settings = IndexSettings::from_flat(settings)?;
        if let Some(provided_name) = new.provided_name {
            settings
                .typed
                .insert("index.provided_name".to_owned(), provided_name.into());
        }
        match new.time_range_ms {
            Some(range) => settings.set_time_range(range),
            None if new.data_stream.is_none() => refuse_period(&settings)?,
            None => {}
        }
        // The new index gets a fresh uuid, also if the settings were copied from another index.
        settings.typed.remove("index.uuid");
        let created_ms = match settings.typed.remove("index.creation_date") {
            Some(value) => crate::settings::creation_date(&value).unwrap_or(self.now_ms),
            None => self.now_ms,
        };
        check_origination_date(&name, &settings)?;
        self.check_shard_limit([&settings])?;

        let mut mapping = match &content.mappings {
            Some(mappings) => parse_mapping(mappings)?,
            None => Mapping::default(),
        };
        if let Some(own) = &new.mapping {
            mapping = mapping.merge_template(own)?;
        }
        if let Some(field) = &settings.tenant_field {
            add_tenant_field(&mut mapping, field)?;
        }
        mapping.validate()?;
        mapping.check_limits(settings.total_fields_limit, settings.depth_limit)?;
        if new.data_stream.is_some() {
            check_timestamp(&mapping)?;
        }
        let placement = self.placement_for(&settings);
        let declared_fields = settings.tenant_field.is_some().then(|| Arc::new(mapping.fields()));

        let mut aliases = BTreeMap::new();
        for (alias, metadata) in content.aliases.into_iter().chain(new.aliases) {
            let alias = self.date_math(&alias)?;
            self.check_alias_name(&alias, &name)?;
            aliases.insert(alias, metadata);
        }
        let names: Vec<String> = aliases.keys().cloned().collect();
        add_index(
            &mut self.next,
            IndexMetadata {
                name: name.clone(),
                uuid: (self.fresh_id)(),
                created_ms,
                closed: false,
                settings,
                mapping: Arc::new(mapping),
                declared_fields,
                aliases,
                data_stream: new.data_stream,
                placement,
                rolled_over_ms: None,
                execution: None,
                tiers: BTreeMap::new(),
                made_by: new.made_by,
            },
        );
        for alias in names {
            self.check_write_index(&alias)?;
        }
        self.outcome.created_index = Some(name);
        self.changed();
        Ok(())
    }

    pub(super) fn refuse_taken_name(&self, name: &str) -> Result<()> {
        if let Some(existing) = self.next.indices.get(name) {
            let reason = format!("index [{name}/{}] already exists", existing.uuid);
            return Err(Error::new(ErrorKind::ResourceAlreadyExists, reason).with_index(name));
        }
        let kind = if self.next.data_streams.contains_key(name) {
            "data stream"
        } else if self.next.has_alias(name) {
            "alias"
        } else {
            return Ok(());
        };
        Err(Error::new(
            ErrorKind::InvalidIndexName,
            format!("Invalid index name [{name}], already exists as {kind}"),
        )
        .with_index(name))
    }

    /// Checks whether an alias of `index` may have this name.
    pub(super) fn check_alias_name(&self, alias: &str, index: &str) -> Result<()> {
        validate_alias_name(alias)?;
        if alias == index || self.next.indices.contains_key(alias) || self.next.data_streams.contains_key(alias) {
            return Err(Error::new(
                ErrorKind::InvalidAliasName,
                format!("Invalid alias name [{alias}]: an index or data stream exists with the same name as the alias"),
            )
            .with_index(index));
        }
        Ok(())
    }

    /// Checks that an alias has at most one write index.
    pub(super) fn check_write_index(&self, alias: &str) -> Result<()> {
        let writers: Vec<&str> = self
            .next
            .indices
            .with_alias(alias)
            .filter(|index| {
                index
                    .aliases
                    .get(alias)
                    .is_some_and(|metadata| metadata.is_write_index == Some(true))
            })
            .map(|index| index.name.as_str())
            .collect();
        if writers.len() > 1 {
            return Err(Error::illegal_argument(format!(
                "alias [{alias}] has more than one write index [{}]",
                writers.join(",")
            )));
        }
        Ok(())
    }

    /// Checks `cluster.max_shards_per_node`; each open shard costs memory and file handles. Frozen shards cost little,
    /// so they have a separate limit, `cluster.max_shards_per_node.frozen`.
    pub(super) fn check_shard_limit<'s>(&self, added: impl IntoIterator<Item = &'s IndexSettings>) -> Result<()> {
        let open = self.next.indices.open_shards();
        let mut more = OpenShards::default();
        for settings in added {
            *more.of(settings) += u64::from(settings.number_of_shards);
        }
        self.check_group(more.normal, open.normal, "normal", "cluster.max_shards_per_node")?;
        self.check_group(more.frozen, open.frozen, "frozen", "cluster.max_shards_per_node.frozen")
    }

    /// Returns how many shards that are not frozen may be open.
    pub(super) fn shards_max(&self) -> u64 {
        self.limit_of("cluster.max_shards_per_node")
    }

    fn limit_of(&self, setting: &str) -> u64 {
        let limit = match self.next.cluster_setting(setting) {
            Some(value) => value.to_string(),
            None => cluster_default_of(setting).to_owned(),
        };
        limit.trim_matches('"').parse().unwrap_or(u64::MAX)
    }

    fn check_group(&self, more: u64, open: u64, group: &str, setting: &str) -> Result<()> {
        let limit = self.limit_of(setting);
        if more > 0 && open + more > limit {
            return Err(Error::new(
                ErrorKind::RequestValidation,
                format!(
                    "Validation Failed: 1: this action would add [{more}] shards, but this cluster currently has \
                     [{open}]/[{limit}] maximum {group} shards open;"
                ),
            ));
        }
        Ok(())
    }

    pub(super) fn auto_create(&mut self, name: &str, made_by: Option<&TenantId>) -> Result<()> {
        if self.next.has_name(name) {
            return Ok(());
        }
        validate_index_name(name)?;
        self.check_auto_creation(name)?;
        match self.next.find_template(name, false) {
            Some((_, template)) if template.data_stream.is_some() => self.create_data_stream(name, made_by),
            Some((_, template)) => {
                let content = self.next.compose(template)?;
                self.create_index(
                    NewIndex {
                        name: name.to_owned(),
                        made_by: made_by.cloned(),
                        ..NewIndex::default()
                    },
                    content,
                )
            }
            None => self.create_index(
                NewIndex {
                    name: name.to_owned(),
                    ..NewIndex::default()
                },
                TemplateContent::default(),
            ),
        }
    }

    /// Checks whether a write may create this index: its template decides, or else a setting.
    pub(super) fn check_auto_creation(&self, name: &str) -> Result<()> {
        let template = self.next.find_template(name, false);
        match template.and_then(|(template_name, template)| Some((template_name, template.allow_auto_create?))) {
            Some((_, true)) => Ok(()),
            Some((template_name, false)) => Err(not_created(
                name,
                &format!("composable template [{template_name}] forbids index auto creation"),
            )),
            None => self.check_auto_create(name),
        }
    }

    /// Checks `action.auto_create_index`: true, false, or patterns with `+` and `-`, of which the first match decides.
    fn check_auto_create(&self, name: &str) -> Result<()> {
        let setting = match self.next.cluster_setting("action.auto_create_index") {
            None | Some(Value::Bool(true)) => return Ok(()),
            Some(Value::Bool(false)) => "false".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
            Some(other) => other.to_string(),
        };
        match setting.as_str() {
            "true" => return Ok(()),
            "false" => return Err(not_created(name, "[action.auto_create_index] is [false]")),
            _ => {}
        }
        for part in setting.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (allowed, pattern) = match part.strip_prefix('-') {
                Some(pattern) => (false, pattern),
                None => (true, part.strip_prefix('+').unwrap_or(part)),
            };
            if matches_pattern(pattern, name) {
                if allowed {
                    return Ok(());
                }
                return Err(not_created(
                    name,
                    &format!(
                        "[action.auto_create_index] contains [{part}] which forbids automatic creation of the index"
                    ),
                ));
            }
        }
        Err(not_created(
            name,
            &format!("[action.auto_create_index] ([{setting}]) doesn't match"),
        ))
    }
}

fn not_created(name: &str, why: &str) -> Error {
    Error::new(ErrorKind::IndexNotFound, format!("no such index [{name}] and {why}")).with_index(name)
}
