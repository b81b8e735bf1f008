//! `_security/user/_has_privileges`: checks privileges of the caller; `_privileges`: lists all of them.

use std::sync::Arc;

use firn_auth::{Privilege, PrivilegeSet};
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::json_fields::Fields;
use crate::wire::reply::Reply;

pub(crate) async fn has_privileges(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    super::control(&edge)?;
    let identity = &call.identity;
    let mut has_all = true;
    let mut fields = Fields::of("privileges to check", call.required_json()?)?;
    fields.refuse(&["application"])?;

    let mut cluster = Map::new();
    for name in fields.strings("cluster")?.unwrap_or_default() {
        let set = PrivilegeSet::of_cluster_name(&name)?;
        // A key may have the privilege to manage users without being allowed to use it.
        let has = set.iter().all(|privilege| identity.has(privilege))
            && (!set.contains(Privilege::ManageSecurity) || identity.may_change_users());
        has_all &= has;
        cluster.insert(name, has.into());
    }
    let mut index: Map<String, Value> = Map::new();
    let entries = match fields.take("index") {
        None => Vec::new(),
        Some(Value::Array(entries)) => entries,
        Some(one) => vec![one],
    };
    for entry in entries {
        let mut entry = Fields::of("privileges to check for indices", entry)?;
        entry.bool("allow_restricted_indices")?;
        let names = entry.strings("names")?.unwrap_or_default();
        let privileges = entry.strings("privileges")?.unwrap_or_default();
        entry.finish()?;
        for name in names {
            let answers = index.entry(name.clone()).or_insert_with(|| json!({}));
            for privilege in &privileges {
                let set = PrivilegeSet::of_index_name(privilege)?;
                let has = set.iter().all(|one| identity.has_for(one, &name));
                has_all &= has;
                answers[privilege] = has.into();
            }
        }
    }
    fields.finish()?;
    Ok(Reply::ok(&json!({
        "username": identity.user_name(),
        "has_all_requested": has_all,
        "cluster": cluster,
        "index": index,
        "application": {},
    })))
}

/// `GET /_security/user/_privileges`.
pub(crate) async fn own(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    super::control(&edge)?;
    let granted = call.identity.granted()?;
    let indices = granted.indices.iter().map(|entry| {
        json!({
            "names": entry.names,
            "privileges": entry.privileges,
            "allow_restricted_indices": false,
        })
    });
    Ok(Reply::ok(&json!({
        "cluster": granted.cluster,
        "global": [],
        "indices": indices.collect::<Vec<_>>(),
        "applications": [],
        "run_as": [],
    })))
}
