//! Tenant indices: indices that hold events by tenant (`index.tenant.field`).

use std::sync::Arc;

use super::change::Change;
use crate::mapping::{DynamicTemplate, FieldMapping, FieldType, Mapping, Node};
use crate::placement::Placement;
use crate::settings::IndexSettings;
use crate::tenant::TenantId;
use crate::{Error, Result};

impl Change<'_> {
    pub(super) fn put_placement(&mut self, placement: Option<&Placement>) {
        if self.next.placement.as_deref() != placement {
            self.next.placement = placement.cloned().map(Arc::new);
            self.changed();
        }
    }

    pub(super) fn set_tenant_closed(&mut self, tenant: &str, closed: bool) {
        if self.next.closed_tenants.contains(tenant) == closed {
            return;
        }
        let tenants = Arc::make_mut(&mut self.next.closed_tenants);
        match closed {
            true => tenants.insert(tenant.to_owned()),
            false => tenants.remove(tenant),
        };
        self.changed();
    }

    /// Returns the placement table that a new index copies, if it holds events by tenant and has the table's number of
    /// shards.
    pub(super) fn placement_for(&self, settings: &IndexSettings) -> Option<Arc<Placement>> {
        let placement = self.next.placement.as_ref()?;
        let fits = settings.tenant_field.is_some() && placement.number_of_shards == settings.number_of_shards;
        fits.then(|| Arc::clone(placement))
    }
}

/// Checks that no document sets the value of a `constant_keyword` in an index with several tenants: the value applies
/// to all documents of the index.
fn check_constants(mapping: &Mapping) -> Result<()> {
    let is_open = |field: &FieldMapping| field.field_type == FieldType::ConstantKeyword && field.constant.is_none();
    let of_template = |template: &DynamicTemplate| {
        template.mapping.get("type").and_then(|name| name.as_str()) == Some(FieldType::ConstantKeyword.name())
    };
    let templates = mapping.dynamic_templates.iter().flatten();
    let mut named = templates
        .filter(|template| of_template(template))
        .map(|template| template.name.clone());
    let leaf = mapping
        .leaves()
        .into_iter()
        .find(|(_, field)| is_open(field))
        .map(|(path, _)| path);
    match leaf.or_else(|| named.next()) {
        Some(name) => Err(Error::illegal_argument(format!(
            "[{name}] of type [constant_keyword] needs a [value] in an index that holds events by tenant: the first \
             event would set it for all tenants"
        ))),
        None => Ok(()),
    }
}

/// Ensures that the mapping has the tenant field as a keyword whose terms are exactly the values of the events: they
/// decide who sees an event.
pub(super) fn add_tenant_field(mapping: &mut Mapping, field: &str) -> Result<()> {
    let wrong = |why: &str| {
        Error::illegal_argument(format!(
            "[{field}] cannot be the tenant field of an index ([index.tenant.field]): {why}"
        ))
    };
    if field.contains('.') {
        return Err(wrong("it must be a field at the top level"));
    }
    check_constants(mapping)?;
    if mapping.root.disabled {
        return Err(wrong("the mapping is disabled"));
    }
    let known = match mapping.root.properties.get(field) {
        Some(Node::Field(known)) => known,
        Some(Node::Object(_)) => return Err(wrong("it is an object")),
        None => {
            let keyword = FieldMapping::of(FieldType::Keyword);
            mapping
                .root
                .properties
                .insert(field.to_owned(), Node::Field(keyword.into()));
            return Ok(());
        }
    };
    if known.field_type != FieldType::Keyword {
        return Err(wrong(&format!(
            "it is of type [{}], not [keyword]",
            known.field_type.name()
        )));
    }
    let disallowed = [
        (!known.index, "it is not indexed"),
        (!known.doc_values, "it has no doc values"),
        (known.null_value.is_some(), "it has a [null_value]"),
        (known.lowercase, "it has a normalizer"),
        (
            known
                .ignore_above
                .is_some_and(|limit| (limit as usize) < TenantId::BYTES_MAX),
            "its [ignore_above] is shorter than names of tenants may be",
        ),
    ];
    match disallowed.into_iter().find(|(is_so, _)| *is_so) {
        Some((_, why)) => Err(wrong(why)),
        None => Ok(()),
    }
}
