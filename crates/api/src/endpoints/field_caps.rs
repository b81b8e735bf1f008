//! `_field_caps`: the fields of indices and their capabilities.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firn_engine::Error;
use firn_engine::fields::FieldsInUseRequest;
use firn_model::mapping::{FieldMapping, FieldType, Mapping, Node, ObjectMapping, Resolved};
use firn_model::names::{self, IndicesOptions};
use firn_query::query::Query;
use firn_query::search::IndexTarget;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

pub(crate) const PARAMS: &[&str] = &["fields", "filters", "include_empty_fields", "include_unmapped", "types"];

/// Capabilities of one field in one index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capability {
    pub(crate) field_type: &'static str,
    pub(crate) metadata_field: bool,
    pub(crate) searchable: bool,
    pub(crate) aggregatable: bool,
}

/// Capabilities of one field: by type, the indices and their entries.
type ByType<'a> = BTreeMap<&'static str, Vec<(&'a str, Capability)>>;

/// `GET /_field_caps` and `GET /{index}/_field_caps`.
pub(crate) async fn field_caps(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let params = &call.params;
    let mut patterns = params.list("fields").unwrap_or_default();
    let mut index_filter = None;
    for (name, value) in call.object()? {
        match (name.as_str(), value) {
            ("fields", Value::String(field)) => patterns.extend(split_list(&field)),
            ("fields", Value::Array(fields)) => {
                patterns.extend(fields.iter().filter_map(Value::as_str).map(str::to_owned));
            }
            ("index_filter", filter) => index_filter = Some(Query::parse(&filter)?),
            ("runtime_mappings", Value::Object(fields)) if fields.is_empty() => {}
            ("runtime_mappings", _) => {
                return Err(Error::not_implemented(format!("[{name}] of [_field_caps]")).into());
            }
            (other, _) => return Err(Error::parsing(format!("[field_caps_request] unknown field [{other}]")).into()),
        }
    }
    if patterns.is_empty() {
        return Err(ApiError::validation(&["no fields specified".to_owned()]));
    }
    let include_empty = params.bool("include_empty_fields", true)?;
    let filters = params.list("filters").unwrap_or_default();
    let keep = Filters::parse(&filters)?;
    let types = params.list("types");
    let include_unmapped = params.bool("include_unmapped", false)?;
    let metadata = edge.metadata_with_mappings(&call).await?;
    let target = call.target(IndicesOptions::default())?;
    let mut indices = edge.resolve(&target, &metadata)?;
    let in_use = match index_filter.is_some() || !include_empty {
        true => Some(in_use(&edge, &call, target, index_filter).await?),
        false => None,
    };
    if let Some(in_use) = &in_use {
        indices.retain(|index| in_use.contains_key(&index.name));
    }
    let with_values = |index: &str, path: &str| match &in_use {
        Some(in_use) if !include_empty => in_use.get(index).is_some_and(|fields| has_values(fields, path)),
        _ => true,
    };

    // By field and type: the indices and their capabilities.
    let mut fields: BTreeMap<String, ByType<'_>> = BTreeMap::new();
    for index in &indices {
        let mut found = Vec::new();
        metadata_fields(&mut found);
        objects("", &index.mapping.root, &mut found);
        found.extend(leaves(&index.mapping));
        for (path, capability) in found {
            let wanted = patterns.iter().any(|pattern| names::matches_pattern(pattern, &path))
                && keep.keeps(&path, &capability, &index.mapping)
                && (capability.metadata_field || with_values(&index.name, &path))
                && types
                    .as_ref()
                    .is_none_or(|types| types.iter().any(|name| name == capability.field_type));
            if wanted {
                fields
                    .entry(path)
                    .or_default()
                    .entry(capability.field_type)
                    .or_default()
                    .push((&index.name, capability));
            }
        }
    }
    let all: Vec<&str> = indices.iter().map(|index| index.name.as_str()).collect();
    let printed: Map<String, Value> = fields
        .into_iter()
        .map(|(path, types)| (path, Value::Object(print_types(&types, &all, include_unmapped))))
        .collect();
    Ok(Reply::ok(&json!({"indices": all, "fields": printed})))
}

/// Returns by index the fields that have values, without the indices that the filter excludes.
async fn in_use(
    edge: &Edge,
    call: &Call,
    target: IndexTarget,
    index_filter: Option<Query>,
) -> Result<BTreeMap<String, BTreeSet<String>>, ApiError> {
    let request = FieldsInUseRequest { target, index_filter };
    let found = edge.engine.fields_in_use(&call.ctx, request).await?.require()?;
    Ok(found.into_iter().map(|index| (index.index, index.fields)).collect())
}

/// Returns whether a field has values, or an object has fields with values.
fn has_values(fields: &BTreeSet<String>, path: &str) -> bool {
    let inside = format!("{path}.");
    fields.contains(path)
        || fields
            .range(inside.clone()..)
            .next()
            .is_some_and(|field| field.starts_with(&inside))
}

fn print_types(types: &ByType<'_>, all: &[&str], include_unmapped: bool) -> Map<String, Value> {
    let mut output = Map::new();
    let mapped: usize = types.values().map(Vec::len).sum();
    let several = types.len() > 1 || (include_unmapped && mapped < all.len());
    for (name, entries) in types {
        let searchable = entries.iter().all(|(_, capability)| capability.searchable);
        let aggregatable = entries.iter().all(|(_, capability)| capability.aggregatable);
        let mut object = json!({
            "type": name,
            "metadata_field": entries.iter().all(|(_, capability)| capability.metadata_field),
            "searchable": searchable,
            "aggregatable": aggregatable,
        });
        if several {
            object["indices"] = entries.iter().map(|(index, _)| *index).collect();
        }
        // If indices disagree, the answer names those without the capability.
        let lacking = |able: fn(&Capability) -> bool| -> Vec<&str> {
            let without: Vec<&str> = entries
                .iter()
                .filter(|(_, capability)| !able(capability))
                .map(|(index, _)| *index)
                .collect();
            if without.len() < entries.len() {
                without
            } else {
                Vec::new()
            }
        };
        for (key, names) in [
            ("non_searchable_indices", lacking(|capability| capability.searchable)),
            (
                "non_aggregatable_indices",
                lacking(|capability| capability.aggregatable),
            ),
        ] {
            if !names.is_empty() {
                object[key] = names.into();
            }
        }
        output.insert((*name).to_owned(), object);
    }
    if include_unmapped && mapped < all.len() {
        let unmapped: Vec<&&str> = all
            .iter()
            .filter(|index| !types.values().flatten().any(|(name, _)| name == *index))
            .collect();
        output.insert(
            "unmapped".to_owned(),
            json!({
                "type": "unmapped",
                "metadata_field": false,
                "searchable": false,
                "aggregatable": false,
                "indices": unmapped,
            }),
        );
    }
    output
}

/// `filters`.
struct Filters {
    metadata: Option<bool>,
    without_parents: bool,
    without_multi_fields: bool,
    without_nested: bool,
}

impl Filters {
    fn parse(names: &[String]) -> Result<Self, Error> {
        let mut filters = Self {
            metadata: None,
            without_parents: false,
            without_multi_fields: false,
            without_nested: false,
        };
        for name in names {
            match name.as_str() {
                "+metadata" | "metadata" => filters.metadata = Some(true),
                "-metadata" => filters.metadata = Some(false),
                "-parent" => filters.without_parents = true,
                "-nested" => filters.without_nested = true,
                "-multifield" => filters.without_multi_fields = true,
                other => return Err(Error::not_implemented(format!("the filter [{other}] of [_field_caps]"))),
            }
        }
        Ok(filters)
    }

    fn keeps(&self, path: &str, capability: &Capability, mapping: &Mapping) -> bool {
        let is_multi_field = || {
            let parent = path.rsplit_once('.').and_then(|(parent, _)| mapping.resolve(parent));
            matches!(parent, Some(Resolved::Field(..)))
        };
        !(self.without_multi_fields && is_multi_field())
            && self.metadata.is_none_or(|wanted| wanted == capability.metadata_field)
            && !((self.without_parents || self.without_nested && capability.field_type == "nested")
                && capability.field_type == "object")
    }
}

fn metadata_fields(found: &mut Vec<(String, Capability)>) {
    for (name, searchable, aggregatable) in [
        ("_id", true, false),
        ("_ignored", true, true),
        ("_source", false, false),
    ] {
        found.push((
            name.to_owned(),
            Capability {
                field_type: name_of(name),
                metadata_field: true,
                searchable,
                aggregatable,
            },
        ));
    }
}

/// Returns the type of a metadata field, which is its name.
fn name_of(name: &str) -> &'static str {
    match name {
        "_id" => "_id",
        "_ignored" => "_ignored",
        _ => "_source",
    }
}

fn objects(prefix: &str, object: &ObjectMapping, found: &mut Vec<(String, Capability)>) {
    for (name, node) in &object.properties {
        if let Node::Object(child) = node {
            let path = if prefix.is_empty() {
                name.clone()
            } else {
                format!("{prefix}.{name}")
            };
            objects(&path, child, found);
            found.push((
                path,
                Capability {
                    field_type: "object",
                    metadata_field: false,
                    searchable: false,
                    aggregatable: false,
                },
            ));
        }
    }
}

/// Returns the fields that may have values, by full path, with their capabilities; an alias counts as its target field.
pub(crate) fn leaves(mapping: &Mapping) -> Vec<(String, Capability)> {
    let mut found = Vec::new();
    for (path, field) in mapping.leaves() {
        if field.field_type == FieldType::Alias {
            let target = field.path.as_deref().and_then(|path| mapping.resolve(path));
            if let Some(Resolved::Field(_, target)) = target {
                found.push((path, capability(target)));
            }
        } else {
            found.push((path, capability(&field)));
        }
    }
    found
}

/// Returns the capabilities of a field.
fn capability(field: &FieldMapping) -> Capability {
    let aggregatable = match field.field_type {
        FieldType::Text | FieldType::MatchOnlyText | FieldType::Binary => false,
        FieldType::ConstantKeyword => true,
        // Geo points have no aggregation yet.
        FieldType::GeoPoint => false,
        _ => field.doc_values,
    };
    let searchable = match field.field_type {
        FieldType::Binary => false,
        FieldType::ConstantKeyword => true,
        FieldType::Text | FieldType::MatchOnlyText => field.index,
        // A field with doc values alone is searchable too.
        _ => field.index || field.doc_values,
    };
    Capability {
        field_type: family(field.field_type),
        metadata_field: false,
        searchable,
        aggregatable,
    }
}

/// Returns the type family: clients treat types that behave alike as one.
fn family(field_type: FieldType) -> &'static str {
    match field_type {
        FieldType::Wildcard | FieldType::ConstantKeyword => "keyword",
        FieldType::MatchOnlyText => "text",
        other => other.name(),
    }
}
