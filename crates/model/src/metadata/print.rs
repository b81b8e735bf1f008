//! Printing of metadata in Elasticsearch's format.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{AliasMetadata, ComponentTemplate, IndexMetadata, IndexTemplate, TemplateContent};
use crate::settings::{SettingsMap, print_nested};

impl AliasMetadata {
    /// Prints the properties below the alias's name.
    pub fn print(&self) -> Value {
        let mut out = Map::new();
        if let Some(filter) = self.filter.as_ref().filter(|_| !self.is_filter_untold) {
            out.insert("filter".into(), filter.clone());
        }
        for (name, routing) in [
            ("index_routing", &self.index_routing),
            ("search_routing", &self.search_routing),
        ] {
            if let Some(routing) = routing {
                out.insert(name.into(), routing.as_str().into());
            }
        }
        for (name, flag) in [("is_write_index", self.is_write_index), ("is_hidden", self.is_hidden)] {
            if let Some(flag) = flag {
                out.insert(name.into(), flag.into());
            }
        }
        Value::Object(out)
    }
}

impl IndexMetadata {
    /// Prints the settings as `GET /index/_settings?flat_settings=true` does, including those that the server sets.
    pub fn print_settings(&self) -> SettingsMap {
        let mut flat = self.settings.print_flat();
        flat.insert("index.uuid".into(), self.uuid.as_str().into());
        flat.insert("index.creation_date".into(), self.created_ms.to_string().into());
        flat.entry("index.provided_name".into())
            .or_insert_with(|| self.name.as_str().into());
        flat
    }
}

impl TemplateContent {
    /// Prints the content as in `GET /_index_template`: settings nested under `index` with values as strings.
    pub fn print(&self) -> Value {
        let mut out = Map::new();
        if !self.settings.is_empty() {
            out.insert("settings".into(), Value::Object(print_nested(&self.settings)));
        }
        if let Some(mappings) = &self.mappings {
            out.insert("mappings".into(), mappings.clone());
        }
        if !self.aliases.is_empty() {
            out.insert("aliases".into(), print_aliases(&self.aliases));
        }
        if let Some(lifecycle) = &self.lifecycle {
            out.insert("lifecycle".into(), lifecycle.clone());
        }
        Value::Object(out)
    }
}

impl ComponentTemplate {
    /// Prints the template as in `GET /_component_template`; [`ComponentTemplate::parse`] reads it back.
    pub fn print(&self) -> Value {
        let mut out = Map::new();
        out.insert("template".into(), self.template.print());
        put_common(&mut out, self.version, self.meta.as_ref());
        Value::Object(out)
    }
}

impl IndexTemplate {
    /// Prints the template as in `GET /_index_template`; [`IndexTemplate::parse`] reads it back.
    pub fn print(&self) -> Value {
        let mut out = Map::new();
        out.insert("index_patterns".into(), json!(self.index_patterns));
        if self.template != TemplateContent::default() {
            out.insert("template".into(), self.template.print());
        }
        out.insert("composed_of".into(), json!(self.composed_of));
        if self.priority > 0 {
            out.insert("priority".into(), self.priority.into());
        }
        put_common(&mut out, self.version, self.meta.as_ref());
        if let Some(stream) = &self.data_stream {
            let mut stream = stream.clone();
            for name in ["hidden", "allow_custom_routing"] {
                stream.entry(name).or_insert(false.into());
            }
            out.insert("data_stream".into(), Value::Object(stream));
        }
        if let Some(allow) = self.allow_auto_create {
            out.insert("allow_auto_create".into(), allow.into());
        }
        if !self.ignore_missing_component_templates.is_empty() {
            out.insert(
                "ignore_missing_component_templates".into(),
                json!(self.ignore_missing_component_templates),
            );
        }
        Value::Object(out)
    }
}

pub(super) fn print_aliases(aliases: &BTreeMap<String, AliasMetadata>) -> Value {
    let map: Map<String, Value> = aliases
        .iter()
        .map(|(name, alias)| (name.clone(), alias.print()))
        .collect();
    Value::Object(map)
}

fn put_common(out: &mut Map<String, Value>, version: Option<i64>, meta: Option<&Value>) {
    if let Some(version) = version {
        out.insert("version".into(), version.into());
    }
    if let Some(meta) = meta {
        out.insert("_meta".into(), meta.clone());
    }
}
