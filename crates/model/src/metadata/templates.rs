//! Composition of templates for a new index.

use std::sync::Arc;

use serde_json::json;

use super::parse::parse_mapping;
use super::{IndexMetadata, IndexTemplate, Metadata, TemplateContent};
use crate::mapping::{FieldType, Mapping, Resolved};
use crate::names::matches_pattern;
use crate::settings::IndexSettings;
use crate::{Error, Result};

/// Field that every document of a data stream has.
pub const TIMESTAMP: &str = "@timestamp";

impl Metadata {
    /// Returns the composable template of a new index or data stream: the matching one with the highest priority.
    pub fn find_index_template(&self, name: &str) -> Option<(&str, &IndexTemplate)> {
        self.find_template(name, false)
    }

    /// Hidden indices skip templates whose pattern matches everything.
    pub(super) fn find_template(&self, name: &str, hidden: bool) -> Option<(&str, &IndexTemplate)> {
        self.index_templates
            .iter()
            .filter(|(_, template)| {
                template
                    .index_patterns
                    .iter()
                    .any(|pattern| matches_pattern(pattern, name) && !(hidden && pattern == "*"))
            })
            // The first of equals; overlapping templates cannot have equal priorities.
            .min_by_key(|(_, template)| std::cmp::Reverse(template.priority))
            .map(|(name, template)| (name.as_str(), &**template))
    }

    /// Composes an index template with its component templates, and with the mapping of `@timestamp` if it creates data
    /// streams. Missing component templates are skipped if the template allows it, else they fail with
    /// [`crate::ErrorKind::IllegalArgument`].
    pub fn compose(&self, template: &IndexTemplate) -> Result<TemplateContent> {
        let mut content = TemplateContent::default();
        let mut mapping = Mapping::default();
        let mut has_mapping = template.data_stream.is_some();
        if template.data_stream.is_some() {
            mapping = Mapping::parse(&json!({
                "_data_stream_timestamp": {"enabled": true},
                "properties": {TIMESTAMP: {"type": "date"}},
            }))?;
        }
        let mut parts = Vec::with_capacity(template.composed_of.len() + 1);
        for name in &template.composed_of {
            match self.component_templates.get(name) {
                Some(component) => parts.push(&component.template),
                None if template.ignore_missing_component_templates.contains(name) => {}
                None => {
                    return Err(Error::illegal_argument(format!(
                        "component template [{name}] does not exist"
                    )));
                }
            }
        }
        parts.push(&template.template);
        for part in parts {
            for (name, value) in &part.settings {
                content.settings.insert(name.clone(), value.clone());
            }
            if let Some(more) = &part.mappings {
                mapping = mapping.merge_template(&parse_mapping(more)?)?;
                has_mapping = true;
            }
            for (name, alias) in &part.aliases {
                content.aliases.insert(name.clone(), alias.clone());
            }
            if part.lifecycle.is_some() {
                content.lifecycle.clone_from(&part.lifecycle);
            }
        }
        content.settings.retain(|_, value| !value.is_null());
        content.mappings = has_mapping.then(|| mapping.print());
        Ok(content)
    }
}

/// Checks that [`TIMESTAMP`] is a date by which every document can be found.
pub(super) fn check_timestamp(mapping: &Mapping) -> Result<()> {
    let Some(Resolved::Field(path, field)) = mapping.resolve(TIMESTAMP) else {
        return Err(Error::illegal_argument(format!(
            "data stream timestamp field [{TIMESTAMP}] does not exist"
        )));
    };
    if path != TIMESTAMP || !matches!(field.field_type, FieldType::Date | FieldType::DateNanos) {
        return Err(Error::illegal_argument(format!(
            "data stream timestamp field [{TIMESTAMP}] is of type [{}], but [date,date_nanos] is expected",
            field.field_type.name()
        )));
    }
    let disallowed = [
        (!field.index, "is not indexed"),
        (!field.doc_values, "doesn't have doc values"),
        (
            field.null_value.is_some(),
            "has disallowed [null_value] attribute specified",
        ),
        (
            field.ignore_malformed == Some(true),
            "has disallowed [ignore_malformed] attribute specified",
        ),
    ];
    match disallowed.into_iter().find(|(wrong, _)| *wrong) {
        Some((_, why)) => Err(Error::illegal_argument(format!(
            "data stream timestamp field [{TIMESTAMP}] {why}"
        ))),
        None => Ok(()),
    }
}

/// Refuses a period: only data streams have an index for each period.
pub(super) fn refuse_period(settings: &IndexSettings) -> Result<()> {
    match settings.period {
        Some(_) => Err(Error::illegal_argument(
            "[index.period] is a setting of data streams: set it in a template with [data_stream]",
        )),
        None => Ok(()),
    }
}

/// Adds a complete index to the state.
pub(super) fn add_index(metadata: &mut Metadata, index: IndexMetadata) {
    metadata.indices.insert(Arc::new(index));
}
