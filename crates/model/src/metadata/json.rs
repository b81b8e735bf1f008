//! Stored form of metadata: one JSON object per entity.
//!
//! Every object has a `format` and describes its entity completely. The format is 1. It is higher where an older firn
//! that skips unknown fields would do harm: 2 with documents by tenant, period or placement, or retention, 3 with
//! shards on other tiers. The meaning of a field name never changes. A reader refuses a higher format and skips unknown
//! fields only within a known format, so a new field that matters needs a new number.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::print::print_aliases;
use super::tiers::parse_tiers;
use super::{AliasMetadata, ComponentTemplate, DataStream, IndexMetadata, IndexTemplate, TemplateContent};
use crate::ilm::Execution;
use crate::lifecycle::Lifecycle;
use crate::mapping::Mapping;
use crate::placement::Placement;
use crate::settings::{IndexSettings, SettingsMap};
use crate::tenant::TenantId;
use crate::{Error, Result};

/// Format that every firn reads.
const FORMAT: u64 = 1;
/// Format whose fields a reader must all know.
const FORMAT_WHOLE: u64 = 2;
/// Format of an index with shards outside `path.data`: an older firn would consider them lost.
const FORMAT_OF_TIERS: u64 = 3;
/// Highest format that this firn reads.
const FORMAT_MAX: u64 = FORMAT_OF_TIERS;

impl IndexMetadata {
    /// Prints `format`, `name`, `uuid`, `created_ms`, `closed`, `settings` (flat, as typed), `mapping`, `aliases`,
    /// `data_stream`; and, if set, `declared_fields`, `placement`, `rolled_over_ms`, `ilm` (lifecycle progress),
    /// `tiers` (shards outside `path.data`) and `made_by`. A firn that skips `declared_fields` shows tenants less; one
    /// that skips `made_by` limits them less.
    pub fn to_json(&self) -> Value {
        let settings = &self.settings;
        let is_plain = settings.tenant_field.is_none() && settings.period.is_none() && self.placement.is_none();
        let mut json = json!({
            "format": if is_plain { FORMAT } else { FORMAT_WHOLE },
            "name": self.name,
            "uuid": self.uuid,
            "created_ms": self.created_ms,
            "closed": self.closed,
            "settings": self.settings.typed,
            "mapping": self.mapping.print(),
            "aliases": print_aliases(&self.aliases),
            "data_stream": self.data_stream,
        });
        if let Some(fields) = &self.declared_fields {
            json["declared_fields"] = json!(**fields);
        }
        if let Some(placement) = &self.placement {
            json["placement"] = placement.print();
        }
        if let Some(rolled_over_ms) = self.rolled_over_ms {
            json["rolled_over_ms"] = rolled_over_ms.into();
        }
        if let Some(execution) = &self.execution {
            json["ilm"] = execution.to_json();
        }
        if let Some(tenant) = &self.made_by {
            json["made_by"] = tenant.as_str().into();
        }
        if !self.tiers.is_empty() {
            json["format"] = FORMAT_OF_TIERS.into();
            json["tiers"] = self.print_tiers();
        }
        json
    }

    /// Reads the output of [`IndexMetadata::to_json`]; [`crate::ErrorKind::Internal`] names the missing or invalid
    /// field.
    pub fn from_json(json: &Value) -> Result<Self> {
        let reader = Reader::new(json)?;
        let aliases = AliasMetadata::parse_all(Some(reader.get("aliases")?))?;
        Ok(Self {
            name: reader.text("name")?,
            uuid: reader.text("uuid")?,
            created_ms: reader.get("created_ms")?.as_i64().ok_or_else(|| wrong("created_ms"))?,
            closed: reader.flag("closed")?,
            settings: IndexSettings::from_checked(reader.settings("settings")?)?,
            mapping: Arc::new(Mapping::parse(reader.get("mapping")?)?),
            declared_fields: match json.get("declared_fields") {
                Some(_) => Some(Arc::new(reader.strings("declared_fields")?.into_iter().collect())),
                None => None,
            },
            aliases,
            data_stream: reader.optional_text("data_stream")?,
            placement: match reader.optional("placement") {
                Some(placement) => Some(Arc::new(Placement::parse(&placement)?)),
                None => None,
            },
            rolled_over_ms: reader.optional("rolled_over_ms").and_then(|ms| ms.as_i64()),
            execution: match reader.optional("ilm") {
                Some(execution) => Some(Arc::new(Execution::from_json(&execution)?)),
                None => None,
            },
            tiers: match reader.optional("tiers") {
                Some(tiers) => parse_tiers(&tiers).ok_or_else(|| wrong("tiers"))?,
                None => BTreeMap::new(),
            },
            made_by: reader.optional_tenant("made_by")?,
        })
    }
}

impl DataStream {
    /// Prints `format`, `name`, `indices`, `generation`, `template`, `meta`, `hidden`; and `lifecycle` and `made_by` if
    /// set.
    pub fn to_json(&self) -> Value {
        let mut json = json!({
            "format": if self.lifecycle.is_none() { FORMAT } else { FORMAT_WHOLE },
            "name": self.name,
            "indices": self.indices,
            "generation": self.generation,
            "template": self.template,
            "meta": self.meta,
            "hidden": self.hidden,
        });
        if let Some(lifecycle) = &self.lifecycle {
            json["lifecycle"] = Value::Object(lifecycle.print());
        }
        if let Some(tenant) = &self.made_by {
            json["made_by"] = tenant.as_str().into();
        }
        json
    }

    /// Reads the output of [`DataStream::to_json`].
    pub fn from_json(json: &Value) -> Result<Self> {
        let reader = Reader::new(json)?;
        Ok(Self {
            name: reader.text("name")?,
            indices: reader.strings("indices")?,
            generation: reader.number("generation")?,
            template: reader.text("template")?,
            meta: reader.optional("meta"),
            hidden: reader.flag("hidden")?,
            lifecycle: match reader.optional("lifecycle") {
                Some(lifecycle) => Some(Lifecycle::parse(&lifecycle)?),
                None => None,
            },
            made_by: reader.optional_tenant("made_by")?,
        })
    }
}

impl ComponentTemplate {
    /// Prints `format`, `template` (`settings` flat, `mappings`, `aliases`, `lifecycle`), `version`, `meta`.
    pub fn to_json(&self) -> Value {
        json!({
            "format": FORMAT,
            "template": content_to_json(&self.template),
            "version": self.version,
            "meta": self.meta,
        })
    }

    /// Reads the output of [`ComponentTemplate::to_json`].
    pub fn from_json(json: &Value) -> Result<Self> {
        let reader = Reader::new(json)?;
        Ok(Self {
            template: content_from_json(reader.get("template")?)?,
            version: reader.optional("version").and_then(|version| version.as_i64()),
            meta: reader.optional("meta"),
        })
    }
}

impl IndexTemplate {
    /// Prints `format`, `index_patterns`, `composed_of`, `ignore_missing_component_templates`, `priority`, `template`,
    /// `data_stream`, `allow_auto_create`, `version`, `meta`.
    pub fn to_json(&self) -> Value {
        json!({
            "format": FORMAT,
            "index_patterns": self.index_patterns,
            "composed_of": self.composed_of,
            "ignore_missing_component_templates": self.ignore_missing_component_templates,
            "priority": self.priority,
            "template": content_to_json(&self.template),
            "data_stream": self.data_stream,
            "allow_auto_create": self.allow_auto_create,
            "version": self.version,
            "meta": self.meta,
        })
    }

    /// Reads the output of [`IndexTemplate::to_json`].
    pub fn from_json(json: &Value) -> Result<Self> {
        let reader = Reader::new(json)?;
        let data_stream = match reader.optional("data_stream") {
            None => None,
            Some(Value::Object(map)) => Some(map),
            Some(_) => return Err(wrong("data_stream")),
        };
        Ok(Self {
            index_patterns: reader.strings("index_patterns")?,
            composed_of: reader.strings("composed_of")?,
            ignore_missing_component_templates: reader.strings("ignore_missing_component_templates")?,
            priority: reader.number("priority")?,
            template: content_from_json(reader.get("template")?)?,
            data_stream,
            allow_auto_create: reader.optional("allow_auto_create").and_then(|allow| allow.as_bool()),
            version: reader.optional("version").and_then(|version| version.as_i64()),
            meta: reader.optional("meta"),
        })
    }
}

fn content_to_json(content: &TemplateContent) -> Value {
    json!({
        "settings": content.settings,
        "mappings": content.mappings,
        "aliases": print_aliases(&content.aliases),
        "lifecycle": content.lifecycle,
    })
}

fn content_from_json(json: &Value) -> Result<TemplateContent> {
    let reader = Reader(json.as_object().ok_or_else(|| wrong("template"))?);
    let aliases: BTreeMap<String, AliasMetadata> = AliasMetadata::parse_all(Some(reader.get("aliases")?))?;
    Ok(TemplateContent {
        settings: reader.settings("settings")?,
        mappings: reader.optional("mappings"),
        aliases,
        lifecycle: reader.optional("lifecycle"),
    })
}

struct Reader<'a>(&'a Map<String, Value>);

impl<'a> Reader<'a> {
    fn new(json: &'a Value) -> Result<Self> {
        let reader = Self(json.as_object().ok_or_else(|| wrong("format"))?);
        match reader.number("format")? {
            FORMAT..=FORMAT_MAX => Ok(reader),
            other => Err(Error::internal(format!(
                "stored metadata has format [{other}], this firn reads up to [{FORMAT_MAX}]"
            ))),
        }
    }

    fn get(&self, name: &str) -> Result<&'a Value> {
        self.0.get(name).ok_or_else(|| wrong(name))
    }

    /// Returns a field; a `null` field counts as missing.
    fn optional(&self, name: &str) -> Option<Value> {
        self.0.get(name).filter(|value| !value.is_null()).cloned()
    }

    fn text(&self, name: &str) -> Result<String> {
        self.optional_text(name)?.ok_or_else(|| wrong(name))
    }

    fn optional_text(&self, name: &str) -> Result<Option<String>> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(wrong(name)),
        }
    }

    fn optional_tenant(&self, name: &str) -> Result<Option<TenantId>> {
        let tenant = self.optional_text(name)?;
        tenant.map(|tenant| TenantId::parse(&tenant)).transpose()
    }

    fn flag(&self, name: &str) -> Result<bool> {
        self.get(name)?.as_bool().ok_or_else(|| wrong(name))
    }

    fn number(&self, name: &str) -> Result<u64> {
        self.get(name)?.as_u64().ok_or_else(|| wrong(name))
    }

    fn strings(&self, name: &str) -> Result<Vec<String>> {
        let list = self.get(name)?.as_array().ok_or_else(|| wrong(name))?;
        list.iter()
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong(name)))
            .collect()
    }

    fn settings(&self, name: &str) -> Result<SettingsMap> {
        let map = self.get(name)?.as_object().ok_or_else(|| wrong(name))?;
        Ok(map.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}

fn wrong(field: &str) -> Error {
    Error::internal(format!("stored metadata lacks a valid [{field}]"))
}
