//! Merging of mappings.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use super::resolve::join;
use super::{Analyzer, FieldMapping, FieldType, Mapping, Node, ObjectMapping, Resolved};
use crate::dates::DateFormat;
use crate::{Error, Result};

/// Reason of a merge: an update of an index, or composition of templates.
#[derive(Clone, Copy, PartialEq)]
enum Reason {
    Update,
    Template,
}

impl Mapping {
    /// Returns this mapping with `new` merged in. Refuses the changes that Elasticsearch refuses, by field
    /// ([`crate::ErrorKind::IllegalArgument`]): another type, a leaf in place of an object, another value of a
    /// parameter that cannot change.
    pub fn merge(&self, new: &Mapping) -> Result<Mapping> {
        self.merge_as(new, Reason::Update)
    }

    /// Merges a template: a leaf of `new` replaces the leaf of that name completely, objects are merged, dynamic
    /// templates replace those of the same name.
    pub fn merge_template(&self, new: &Mapping) -> Result<Mapping> {
        self.merge_as(new, Reason::Template)
    }

    fn merge_as(&self, new: &Mapping, reason: Reason) -> Result<Mapping> {
        if new.routing_required
            && !self.routing_required
            && reason == Reason::Update
            && !self.root.properties.is_empty()
        {
            return Err(Error::illegal_argument(
                "Mapper for [_routing] conflicts with existing mapper:\n\t\
                 Cannot update parameter [required] from [false] to [true]",
            ));
        }
        let dynamic_templates = match (&self.dynamic_templates, &new.dynamic_templates) {
            (Some(old), Some(new)) if reason == Reason::Template => {
                let mut merged = old.clone();
                for template in new {
                    match merged.iter_mut().find(|existing| existing.name == template.name) {
                        Some(existing) => *existing = template.clone(),
                        None => merged.push(template.clone()),
                    }
                }
                Some(merged)
            }
            (old, new) => new.clone().or_else(|| old.clone()),
        };
        Ok(Mapping {
            root: merge_object("", &self.root, &new.root, reason)?,
            dynamic_templates,
            date_detection: new.date_detection.or(self.date_detection),
            numeric_detection: new.numeric_detection.or(self.numeric_detection),
            dynamic_date_formats: new
                .dynamic_date_formats
                .clone()
                .or_else(|| self.dynamic_date_formats.clone()),
            routing_required: self.routing_required || new.routing_required,
            meta: new.meta.clone().or_else(|| self.meta.clone()),
            data_stream_timestamp: self.data_stream_timestamp || new.data_stream_timestamp,
            source: new.source.clone().or_else(|| self.source.clone()),
            foreign: merge_foreign(&self.foreign, &new.foreign),
        })
    }

    /// Checks rules about several fields, after the last merge: aliases name existing leaves, `copy_to` names no object
    /// and no multi-field.
    pub fn validate(&self) -> Result<()> {
        let mut failure = None;
        self.for_each(&mut |path, node| {
            if let (Node::Field(field), None) = (node, &failure) {
                failure = self.validate_field(path, field).err();
            }
        });
        failure.map_or(Ok(()), Err)
    }

    fn validate_field(&self, path: &str, field: &FieldMapping) -> Result<()> {
        if let Some(target) = field.path.as_deref().filter(|_| field.field_type == FieldType::Alias) {
            let invalid = |why: &str| {
                Err(Error::new(
                    crate::ErrorKind::MapperParsing,
                    format!("Invalid [path] value [{target}] for field alias [{path}]: {why}"),
                ))
            };
            if target == path {
                return invalid("an alias cannot refer to itself.");
            }
            if let Some(Node::Field(other)) = self.node(target)
                && other.field_type == FieldType::Alias
            {
                return invalid("an alias cannot refer to another alias.");
            }
            if !matches!(self.resolve(target), Some(Resolved::Field(..))) {
                return invalid("an alias must refer to an existing field in the mappings.");
            }
        }
        for target in &field.copy_to {
            let reason = match self.node(target) {
                Some(Node::Object(_)) => "Cannot copy to field [{}] since it is mapped as an object",
                None if matches!(self.resolve(target), Some(Resolved::Field(..))) => {
                    "[copy_to] may not be used to copy to a multi-field: [{}]"
                }
                _ => continue,
            };
            return Err(Error::illegal_argument(reason.replace("{}", target)));
        }
        Ok(())
    }
}

fn merge_object(path: &str, old: &ObjectMapping, new: &ObjectMapping, reason: Reason) -> Result<ObjectMapping> {
    if new.disabled && !old.disabled && reason == Reason::Update && !path.is_empty() {
        return Err(Error::illegal_argument(format!(
            "the [enabled] parameter can't be updated for the object mapping [{path}]"
        )));
    }
    let mut merged = ObjectMapping {
        dynamic: new.dynamic.or(old.dynamic),
        disabled: old.disabled || new.disabled,
        properties: old.properties.clone(),
        foreign: merge_foreign(&old.foreign, &new.foreign),
    };
    for (name, new_node) in &new.properties {
        let path = join(path, name);
        let node = match old.properties.get(name) {
            Some(old_node) => merge_node(&path, old_node, new_node, reason)?,
            None => new_node.clone(),
        };
        merged.properties.insert(name.clone(), node);
    }
    Ok(merged)
}

/// Merges parts of another engine's mapping: that engine decided already whether the change is allowed.
fn merge_foreign(old: &IndexMap<String, Value>, new: &IndexMap<String, Value>) -> IndexMap<String, Value> {
    let mut merged = old.clone();
    merged.extend(new.iter().map(|(name, raw)| (name.clone(), raw.clone())));
    merged
}

/// Merges `new` into `old` if both occur in one mapping (`a.b` next to `a: {properties: …}`).
pub(super) fn merge_duplicate(path: &str, old: &Node, new: &Node) -> Result<Node> {
    merge_node(path, old, new, Reason::Update)
}

fn merge_node(path: &str, old: &Node, new: &Node, reason: Reason) -> Result<Node> {
    match (old, new) {
        (Node::Object(old), Node::Object(new)) => Ok(Node::Object(merge_object(path, old, new, reason)?)),
        (Node::Field(_), Node::Field(new)) if reason == Reason::Template => Ok(Node::Field(Arc::clone(new))),
        (Node::Field(old), Node::Field(new)) if old == new => Ok(Node::Field(Arc::clone(old))),
        (Node::Field(old), Node::Field(new)) => Ok(Node::Field(Arc::new(merge_field(path, old, new)?))),
        _ => Err(Error::illegal_argument(format!(
            "can't merge a non object mapping [{path}] with an object mapping"
        ))),
    }
}

fn merge_field(path: &str, old: &FieldMapping, new: &FieldMapping) -> Result<FieldMapping> {
    if old.field_type != new.field_type {
        return Err(Error::illegal_argument(format!(
            "mapper [{path}] cannot be changed from type [{}] to [{}]",
            old.field_type.name(),
            new.field_type.name()
        )));
    }
    let mut conflicts = Conflicts::default();
    conflicts.check("index", old.index, new.index);
    conflicts.check("doc_values", old.doc_values, new.doc_values);
    conflicts.check("store", old.store, new.store);
    conflicts.check("analyzer", analyzer_name(old.analyzer), analyzer_name(new.analyzer));
    let normalizer = |field: &FieldMapping| if field.lowercase { "lowercase" } else { "null" };
    conflicts.check("normalizer", normalizer(old), normalizer(new));
    let format = |field: &FieldMapping| {
        field
            .format
            .as_deref()
            .map_or(DEFAULT_DATE_FORMAT, DateFormat::pattern)
            .to_owned()
    };
    conflicts.check("format", format(old), format(new));
    let null_value = |field: &FieldMapping| field.null_value.as_ref().map_or("null".to_owned(), plain);
    conflicts.check("null_value", null_value(old), null_value(new));
    conflicts.check("scaling_factor", old.scaling_factor, new.scaling_factor);
    if let (Some(old), Some(new)) = (&old.constant, &new.constant) {
        conflicts.check("value", old, new);
    }
    conflicts.into_result(path)?;

    let mut fields = old.fields.clone();
    for (name, new_field) in &new.fields {
        let merged = match old.fields.get(name) {
            Some(old_field) => Arc::new(merge_field(&join(path, name), old_field, new_field)?),
            None => Arc::clone(new_field),
        };
        fields.insert(name.clone(), merged);
    }
    Ok(FieldMapping {
        constant: new.constant.clone().or_else(|| old.constant.clone()),
        fields,
        ..new.clone()
    })
}

const DEFAULT_DATE_FORMAT: &str = "strict_date_optional_time||epoch_millis";

fn analyzer_name(analyzer: Analyzer) -> &'static str {
    match analyzer {
        Analyzer::Standard => "default",
        other => other.name(),
    }
}

fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Parameters of one field that differ but must not change.
#[derive(Default)]
struct Conflicts(Vec<String>);

impl Conflicts {
    fn check<T: PartialEq + std::fmt::Display>(&mut self, parameter: &str, old: T, new: T) {
        if old != new {
            self.0
                .push(format!("Cannot update parameter [{parameter}] from [{old}] to [{new}]"));
        }
    }

    fn into_result(self, path: &str) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(Error::illegal_argument(format!(
            "Mapper for [{path}] conflicts with existing mapper:\n\t{}",
            self.0.join("\n\t")
        )))
    }
}
