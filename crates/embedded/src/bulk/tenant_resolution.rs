//! Tenant of a document in indices that hold events by tenant: required field value, shard and key.
//!
//! A document's tenant is determined before mapping, from the request's scope or from the event, and
//! compared with the values that the mapper found: repeated keys, lists or
//! copies of fields cannot produce a document whose terms name another tenant than its routing.

use bytes::Bytes;
use firn_engine::Scope;
use firn_engine::document::BulkItem;
use firn_model::ids::{AutoId, key_of};
use firn_model::tenant::TenantId;
use firn_model::{Error, ErrorKind, Result};
use firn_shard::mapper::MappedDocument;

use super::plan::routing_missing;
use super::{member_lookup, tenant_routing};
use crate::engine::addressing::foreign_routing;
use crate::node::state::IndexState;

/// Returns the tenant of an item: the tenant that writes; for operators the one in the event or the routing. `None`:
/// neither names one.
pub(super) fn owner_of(
    scope: &Scope,
    item: &BulkItem,
    routing: Option<&str>,
    index: &IndexState,
    field: &str,
) -> Result<Option<String>> {
    if let Some(tenant) = scope.tenant_id() {
        return match routing {
            Some(other) if other != tenant.as_str() => Err(foreign_routing(other, tenant.as_str())),
            _ => Ok(Some(tenant.as_str().to_owned())),
        };
    }
    let owner = tenant_routing::routing(item, routing, &index.name, field)?;
    if let Some(owner) = &owner {
        // The name becomes part of keys.
        TenantId::parse(owner)?;
    }
    Ok(owner)
}

/// Location of a document by its id, and its key if that differs from the id.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) shard: u32,
    pub(crate) key: Option<String>,
}

/// Locates a document of an index that holds events by tenant. A generated id contains its shard and is valid
/// only for its owner; for another tenant, or if the document is gone, it is treated as an ordinary id.
/// Without an owner only generated ids can be located: [`ErrorKind::RoutingMissing`].
pub(crate) fn locate(index: &IndexState, owner: Option<&str>, id: &str) -> Result<Located> {
    let made = AutoId::decode(id)
        .filter(|made| made.index_tag == index.tag && usize::from(made.shard) < index.shards.len())
        .map(|made| Located {
            shard: u32::from(made.shard),
            key: None,
        });
    match (owner, made) {
        (None, Some(made)) => Ok(made),
        (None, None) => Err(routing_missing(index, id)),
        (Some(owner), Some(made)) if owns(index, made.shard, owner, id)? => Ok(made),
        (Some(owner), _) => Ok(Located {
            shard: index.metadata.shard_of_routed_id(owner, id, index.tag),
            key: Some(key_of(owner, id)),
        }),
    }
}

fn owns(index: &IndexState, shard: u32, owner: &str, id: &str) -> Result<bool> {
    let stored = index.shards[shard as usize].shard()?.get(id, true)?;
    Ok(stored.is_some_and(|document| document.routing.as_deref() == Some(owner)))
}

/// Returns an event with the tenant field added. `None`: the event has the field already, or is not an
/// event, which the mapper reports.
pub(super) fn stamped(source: &Bytes, field: &str, tenant: &str) -> Option<Bytes> {
    let Ok(None) = member_lookup::member(source, field) else {
        return None;
    };
    let brace = source.iter().position(|byte| !byte.is_ascii_whitespace())?;
    if source[brace] != b'{' {
        return None;
    }
    let rest = &source[brace + 1..];
    let is_empty = rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'}');
    let name = serde_json::Value::from(field).to_string();
    let comma = if is_empty { "" } else { "," };
    // A tenant's name needs no escapes.
    let member = format!("{{{name}:\"{tenant}\"{comma}");
    Some([member.as_bytes(), rest].concat().into())
}

/// Checks the indexed tenant of a document against its owner.
pub(super) fn check_owner(scope: &Scope, document: &MappedDocument, field: &str, owner: Option<&str>) -> Result<()> {
    let mut found = document.keywords(field);
    match (found.next(), found.next(), owner) {
        (None, None, None) => Ok(()),
        (Some(one), None, Some(owner)) if one == owner => Ok(()),
        _ if scope.tenant_id().is_some() => Err(Error::new(
            ErrorKind::Forbidden,
            format!("[{field}] of the event names another tenant than the one that writes it"),
        )),
        (_, Some(_), _) => Err(not_one(field)),
        _ => Err(Error::illegal_argument(format!(
            "[{field}] of the event names another tenant than its routing"
        ))),
    }
}

fn not_one(field: &str) -> Error {
    Error::new(
        ErrorKind::DocumentParsing,
        format!("field [{field}] names more than one tenant"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_without_a_tenant_gets_one() {
        let check = |source: &'static str, expect: Option<&str>| {
            let stamped = stamped(&Bytes::from_static(source.as_bytes()), "tenant", "acme");
            assert_eq!(
                stamped.as_deref().map(|bytes| std::str::from_utf8(bytes).unwrap()),
                expect,
                "{source}"
            );
        };
        check("{}", Some(r#"{"tenant":"acme"}"#));
        check(" { } ", Some(r#"{"tenant":"acme" } "#));
        check(r#"{"a":1}"#, Some(r#"{"tenant":"acme","a":1}"#));
        check(
            r#"{"a":{"tenant":"x"}}"#,
            Some(r#"{"tenant":"acme","a":{"tenant":"x"}}"#),
        );
        for untouched in [
            r#"{"tenant":"acme"}"#,
            r#"{"tenant":"other"}"#,
            r#"{"tenant":null}"#,
            r#"{"\u0074enant":"other"}"#,
            "[1]",
            "",
            "{",
            "5",
        ] {
            check(untouched, None);
        }
    }
}
