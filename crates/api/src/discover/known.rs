//! The fields of some indices, and what can be done with them.

use std::collections::BTreeMap;

use firn_model::mapping::{FieldType, Resolved};
use firn_model::metadata::Metadata;

use crate::field_caps::{Capability, capability};

/// By full path.
pub(super) type KnownFields = BTreeMap<String, KnownField>;

/// A field, of all indices together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownField {
    /// As `_field_caps` calls it; `conflict` where indices disagree.
    pub(super) field_type: &'static str,
    /// In all of them.
    pub(super) aggregatable: bool,
}

/// The fields of indices, of the mappings that `metadata` shows.
pub(super) fn fields(metadata: &Metadata, indices: &[String]) -> KnownFields {
    let mut fields = KnownFields::new();
    for index in indices.iter().filter_map(|name| metadata.indices.get(name)) {
        for (path, field) in index.mapping.leaves() {
            let capability = match field.field_type {
                FieldType::Alias => match field.path.as_deref().and_then(|path| index.mapping.resolve(path)) {
                    Some(Resolved::Field(_, target)) => capability(target),
                    _ => continue,
                },
                _ => capability(&field),
            };
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
