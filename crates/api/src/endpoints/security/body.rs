//! JSON form of roles in requests and answers.

use std::collections::BTreeMap;

use firn_auth::{IndexEntry, RoleDescriptor};
use serde_json::{Map, Value, json};

use crate::wire::error::ApiError;
use crate::wire::json_fields::Fields;

/// Restrictions to documents and fields of an index; firn has tenants instead.
const LACKING_OF_ENTRY: &[&str] = &["field_security", "query"];
const LACKING_OF_ROLE: &[&str] = &[
    "applications",
    "global",
    "remote_cluster",
    "remote_indices",
    "restriction",
    "run_as",
    "workflows",
];

/// Parses the privileges of a role.
pub(super) fn role(value: Value) -> Result<RoleDescriptor, ApiError> {
    let mut fields = Fields::of("role", value)?;
    fields.refuse(LACKING_OF_ROLE)?;
    // Fields that firn prints, or that are only informative.
    fields.object("transient_metadata")?;
    fields.string("description")?;
    let cluster = fields.strings("cluster")?.unwrap_or_default();
    let metadata = fields.object("metadata")?.unwrap_or_default();
    let mut indices = Vec::new();
    for name in ["indices", "index"] {
        match fields.take(name) {
            None => {}
            Some(Value::Array(entries)) => {
                for entry in entries {
                    indices.push(index_entry(entry)?);
                }
            }
            Some(one) => indices.push(index_entry(one)?),
        }
    }
    fields.finish()?;
    Ok(RoleDescriptor {
        cluster,
        indices,
        metadata,
    })
}

fn index_entry(value: Value) -> Result<IndexEntry, ApiError> {
    let mut fields = Fields::of("role's entry for indices", value)?;
    fields.refuse(LACKING_OF_ENTRY)?;
    // firn has no restricted indices.
    fields.bool("allow_restricted_indices")?;
    let entry = IndexEntry {
        names: fields.strings("names")?.unwrap_or_default(),
        privileges: fields.strings("privileges")?.unwrap_or_default(),
    };
    fields.finish()?;
    Ok(entry)
}

/// Parses roles by name.
pub(super) fn roles(object: Map<String, Value>) -> Result<BTreeMap<String, RoleDescriptor>, ApiError> {
    object
        .into_iter()
        .map(|(name, value)| Ok((name, role(value)?)))
        .collect()
}

/// Prints a role.
pub(super) fn print_role(role: &RoleDescriptor) -> Value {
    let indices: Vec<Value> = role
        .indices
        .iter()
        .map(|entry| {
            json!({
                "names": entry.names,
                "privileges": entry.privileges,
                "allow_restricted_indices": false,
            })
        })
        .collect();
    json!({
        "cluster": role.cluster,
        "indices": indices,
        "applications": [],
        "run_as": [],
        "metadata": role.metadata,
        "transient_metadata": {"enabled": true},
    })
}

/// Prints roles by name.
pub(super) fn print_roles(roles: &BTreeMap<String, RoleDescriptor>) -> Map<String, Value> {
    roles
        .iter()
        .map(|(name, role)| (name.clone(), print_role(role)))
        .collect()
}
