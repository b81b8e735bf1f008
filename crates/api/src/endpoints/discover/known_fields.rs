//! Fields of some indices, and their capabilities.

use std::collections::{BTreeMap, BTreeSet};

use firn_engine::RequestContext;
use firn_engine::fields::FieldsInUseRequest;
use firn_model::metadata::Metadata;

use super::request::EventSelection;
use crate::endpoints::field_caps::{Capability, leaves};
use crate::state::edge::Edge;
use crate::wire::error::ApiError;

/// Fields by full path.
pub(super) type KnownFields = BTreeMap<String, KnownField>;

/// Field, merged over all indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownField {
    /// Type as in `_field_caps`; `conflict` if the indices disagree.
    pub(super) field_type: &'static str,
    /// Aggregatable in all indices.
    pub(super) aggregatable: bool,
}

/// Returns the fields of indices from the mappings in `metadata`.
pub(super) fn fields(metadata: &Metadata, indices: &[String]) -> KnownFields {
    let mut fields = KnownFields::new();
    for index in indices.iter().filter_map(|name| metadata.indices.get(name)) {
        for (path, capability) in leaves(&index.mapping) {
            add(&mut fields, path, capability);
        }
    }
    fields
}

fn add(fields: &mut KnownFields, path: String, capability: Capability) {
    let Capability {
        field_type,
        aggregatable,
        ..
    } = capability;
    fields
        .entry(path)
        .and_modify(|known| {
            known.aggregatable &= aggregatable;
            if known.field_type != field_type {
                known.field_type = "conflict";
            }
        })
        .or_insert(KnownField {
            field_type,
            aggregatable,
        });
}

/// Returns whether a path has no values, only fields below it.
pub(super) fn is_object(known: &KnownFields, path: &str) -> bool {
    let beneath = format!("{path}.");
    let mut following = known.range(beneath.clone()..);
    !known.contains_key(path) && following.next().is_some_and(|(found, _)| found.starts_with(&beneath))
}

/// Returns whether a search of these indices may fetch from a snapshot repository.
pub(super) fn any_mounted(metadata: &Metadata, indices: &[String]) -> bool {
    let mut found = indices.iter().filter_map(|name| metadata.indices.get(name));
    found.any(|index| index.settings.is_mounted())
}

/// Returns the fields with a value in some event, in indices that may match the time range of the question.
pub(super) async fn in_use(
    edge: &Edge,
    ctx: &RequestContext,
    question: &EventSelection,
) -> Result<BTreeSet<String>, ApiError> {
    let request = FieldsInUseRequest {
        target: question.target.clone(),
        index_filter: question.time_query()?,
    };
    let found = edge.engine.fields_in_use(ctx, request).await?.require()?;
    Ok(found.into_iter().flat_map(|index| index.fields).collect())
}

/// Returns the first of the wanted fields that is in use and aggregatable; for a text field its keyword subfield.
pub(super) fn default_split(wanted: &[String], known: &KnownFields, in_use: &BTreeSet<String>) -> Option<String> {
    let is_countable = |field: &str| known.get(field).is_some_and(|known| known.aggregatable);
    let mut names = wanted.iter().flat_map(|field| [field.clone(), keyword_of(field)]);
    names.find(|field| in_use.contains(field) && is_countable(field))
}

/// Returns the name of the keyword subfield that a dynamic mapping adds to a text field.
pub(super) fn keyword_of(field: &str) -> String {
    format!("{field}.keyword")
}
