//! Routing by tenant: in an index that holds events by tenant, a document's routing is its tenant.

use std::borrow::Cow;

use firn_engine::document::{BulkItem, Operation};
use firn_model::metadata::Metadata;
use firn_model::{Error, ErrorKind, Result};
use serde_json::Value;
use sonic_rs::JsonValueTrait;

use super::member_lookup;
use super::progress::source_of;
use crate::node::state::IndexState;

/// Returns the routing of an item: its tenant, which the item may also give as routing; `None`: it names none, and
/// its id selects the shard.
pub(super) fn routing(item: &BulkItem, given: Option<&str>, index: &str, field: &str) -> Result<Option<String>> {
    let tenant = match &item.operation {
        Operation::Update(update) => {
            let parts = [&update.doc, &update.upsert];
            let mut tenants = parts.into_iter().flatten().filter_map(|part| tenant_of(part, field));
            let tenant = tenants.next();
            if let (Some(tenant), Some(other)) = (&tenant, tenants.next())
                && *tenant != other
            {
                return Err(several(index, field));
            }
            tenant.map(Cow::Owned)
        }
        _ => match source_of(item) {
            Some(source) => tenant_in(source, field)?,
            None => None,
        },
    };
    match (given, tenant) {
        (Some(given), Some(tenant)) if given != tenant => Err(other_routing(index, field, given, Some(&tenant))),
        // An updated or deleted document has its tenant already.
        (Some(given), None) if source_of(item).is_some() => Err(other_routing(index, field, given, None)),
        (Some(given), None) => Ok(Some(given.to_owned())),
        (_, tenant) => Ok(tenant.map(Cow::into_owned)),
    }
}

/// Fails if the tenant is being deleted: later writes would never be removed.
pub(super) fn check_open(routing: Option<&str>, index: &IndexState, metadata: &Metadata) -> Result<()> {
    match routing {
        Some(tenant) if index.metadata.settings.tenant_field.is_some() && metadata.closed_tenants.contains(tenant) => {
            Err(Error::new(
                ErrorKind::Forbidden,
                format!("tenant [{tenant}] is being deleted: it accepts no more writes"),
            )
            .with_index(&*index.name))
        }
        _ => Ok(()),
    }
}

/// Returns the tenant that a source names, as the mapper will read it. A source that is not JSON names none, and
/// fails in the mapper.
fn tenant_in<'s>(source: &'s [u8], field: &str) -> Result<Option<Cow<'s, str>>> {
    let Ok(Some(value)) = member_lookup::member(source, field) else {
        return Ok(None);
    };
    if value.is_str() {
        return Ok(value.as_str().map(|text| Cow::Owned(text.to_owned())));
    }
    if value.is_number() || value.is_boolean() {
        return Ok(Some(Cow::Owned(value.as_raw_str().to_owned())));
    }
    if value.is_array() {
        let list: Value = serde_json::from_str(value.as_raw_str())?;
        let mut tenants = Vec::new();
        scalars(&list, &mut tenants);
        return match tenants.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(Cow::Owned(one.clone()))),
            _ => Err(Error::new(
                ErrorKind::DocumentParsing,
                format!("the tenant field [{field}] encountered multiple values"),
            )),
        };
    }
    Ok(None)
}

fn tenant_of(document: &Value, field: &str) -> Option<String> {
    let mut tenants = Vec::new();
    scalars(document.get(field)?, &mut tenants);
    tenants.pop()
}

/// Collects the values of a field as text, at any depth of lists.
fn scalars(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| scalars(value, found)),
        Value::String(text) => found.push(text.clone()),
        Value::Number(_) | Value::Bool(_) => found.push(value.to_string()),
        Value::Null | Value::Object(_) => {}
    }
}

fn several(index: &str, field: &str) -> Error {
    Error::illegal_argument(format!(
        "[doc] and [upsert] name different values of [{field}], the tenant field of index [{index}]"
    ))
}

fn other_routing(index: &str, field: &str, given: &str, tenant: Option<&str>) -> Error {
    let what = match tenant {
        Some(tenant) => format!("is [{tenant}]"),
        None => "is missing".to_owned(),
    };
    Error::illegal_argument(format!(
        "index [{index}] routes documents by their tenant, and [{field}] of the document {what}: it cannot have routing \
         [{given}]"
    ))
    .with_index(index)
}

#[cfg(test)]
mod tests {
    use firn_engine::document::Expectation;

    use super::*;

    fn item(operation: Operation) -> BulkItem {
        BulkItem {
            index: "logs".to_owned(),
            id: None,
            routing: None,
            operation,
            expect: Expectation::Any,
            require_alias: false,
            require_data_stream: false,
        }
    }

    fn of(source: &'static str, given: Option<&str>) -> Result<Option<String>> {
        let source = bytes::Bytes::from_static(source.as_bytes());
        routing(&item(Operation::Index { source }), given, "logs", "tenant")
    }

    #[test]
    fn the_tenant_is_the_routing() {
        for (source, expect) in [
            (r#"{"a":1,"tenant":"acme"}"#, Some("acme")),
            (r#"{"tenant":"a\u0063me"}"#, Some("acme")),
            (r#"{"t\u0065nant":"acme"}"#, Some("acme")),
            (r#"{"tenant":["acme"]}"#, Some("acme")),
            (r#"{"tenant":[null,["acme"]]}"#, Some("acme")),
            (r#"{"tenant":7}"#, Some("7")),
            (r#"{"tenant":true}"#, Some("true")),
            (r#"{"tenant":null}"#, None),
            (r#"{"a":{"tenant":"acme"}}"#, None),
            (r#"{"tenant":{"a":1}}"#, None),
            ("no json", None),
        ] {
            assert_eq!(of(source, None).unwrap().as_deref(), expect, "{source}");
        }
        assert_eq!(
            of(r#"{"tenant":"acme"}"#, Some("acme")).unwrap().as_deref(),
            Some("acme")
        );
    }

    #[test]
    fn another_routing_is_refused() {
        assert_eq!(
            of(r#"{"tenant":"acme"}"#, Some("zeta")).unwrap_err().reason(),
            "index [logs] routes documents by their tenant, and [tenant] of the document is [acme]: it cannot have \
             routing [zeta]"
        );
        assert!(
            of(r#"{"a":1}"#, Some("zeta"))
                .unwrap_err()
                .reason()
                .contains("is missing")
        );
        let several = of(r#"{"tenant":["a","b"]}"#, None).unwrap_err();
        assert!(several.reason().contains("multiple values"));
        let delete = item(Operation::Delete);
        assert_eq!(
            routing(&delete, Some("acme"), "logs", "tenant").unwrap().as_deref(),
            Some("acme")
        );
    }
}
