//! `GET /_snapshot/{repository}/{snapshot}`: list of snapshots.

use std::cmp::Ordering;
use std::sync::Arc;

use firn_engine::Error;
use firn_engine::snapshot::SnapshotInfo;
use firn_model::names::matches_pattern;
use firn_model::period::print_instant;
use serde_json::{Map, Value, json};

use crate::endpoints::call::Call;
use crate::endpoints::settings::VERSION_CREATED;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::params::split_list;
use crate::wire::reply::Reply;

pub(crate) const GET_PARAMS: &[&str] = &[
    "after",
    "from_sort_value",
    "ignore_unavailable",
    "include_repository",
    "index_details",
    "index_names",
    "offset",
    "order",
    "size",
    "slm_policy_filter",
    "sort",
    "verbose",
];

/// Optional parts of a printed snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Detail {
    verbose: bool,
    index_names: bool,
    index_details: bool,
    repository: bool,
}

impl Default for Detail {
    fn default() -> Self {
        Self {
            verbose: true,
            index_names: true,
            index_details: false,
            repository: true,
        }
    }
}

/// Sort criterion of snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    StartTime,
    Duration,
    Name,
    Repository,
    IndexCount,
    ShardCount,
    FailedShardCount,
}

/// Sort value of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(i64),
    Text(String),
}

impl Sort {
    fn parse(text: &str) -> Result<Self, Error> {
        Ok(match text {
            "start_time" => Self::StartTime,
            "duration" => Self::Duration,
            "name" => Self::Name,
            "repository" => Self::Repository,
            "index_count" => Self::IndexCount,
            "shard_count" => Self::ShardCount,
            "failed_shard_count" => Self::FailedShardCount,
            other => return Err(Error::illegal_argument(format!("unknown sort order [{other}]"))),
        })
    }

    fn key(self, info: &SnapshotInfo) -> Key {
        match self {
            Self::StartTime => Key::Number(info.start_ms),
            Self::Duration => Key::Number(info.end_ms.map_or(0, |end_ms| end_ms - info.start_ms)),
            Self::Name => Key::Text(info.name.clone()),
            Self::Repository => Key::Text(info.repository.clone()),
            Self::IndexCount => Key::Number(info.indices.len() as i64),
            Self::ShardCount => Key::Number(i64::from(info.total_shards)),
            Self::FailedShardCount => Key::Number(info.failures.len() as i64),
        }
    }

    fn read_key(self, text: &str) -> Result<Key, Error> {
        match self {
            Self::Name | Self::Repository => Ok(Key::Text(text.to_owned())),
            _ => {
                let number = text.parse().map(Key::Number);
                number.map_err(|_| Error::illegal_argument(format!("failed to parse [from_sort_value] value [{text}]")))
            }
        }
    }
}

/// Start of a page: after the snapshot with this key, name and repository.
type After = (Key, String, String);

/// Handles the request; see the module.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let params = &call.params;
    let detail = Detail {
        verbose: params.bool("verbose", true)?,
        index_names: params.bool("index_names", true)?,
        index_details: params.bool("index_details", false)?,
        repository: params.bool("include_repository", true)?,
    };
    let sort = Sort::parse(params.get("sort").unwrap_or("start_time"))?;
    let descending = match params.get("order").unwrap_or("asc") {
        "asc" => false,
        "desc" => true,
        other => return Err(Error::illegal_argument(format!("Unknown sort order [{other}]")).into()),
    };
    let size = match params.number::<i64>("size")? {
        None | Some(-1) => None,
        Some(size) if size > 0 => Some(size as usize),
        Some(_) => return Err(ApiError::validation(&["size must be -1 or greater than 0".to_owned()])),
    };
    let offset: usize = params.number("offset")?.unwrap_or(0);
    let after = params.get("after").map(|after| read_after(sort, after)).transpose()?;
    if after.is_some() && offset > 0 {
        return Err(ApiError::validation(&[
            "can't use after and offset simultaneously".to_owned()
        ]));
    }
    let infos = all(&edge, &call).await?;
    let mut keyed: Vec<(After, SnapshotInfo)> = infos
        .into_iter()
        .map(|info| ((sort.key(&info), info.name.clone(), info.repository.clone()), info))
        .collect();
    if let Some(policies) = params.list("slm_policy_filter") {
        keyed.retain(|(_, info)| is_of_policy(policy_of(info), &policies));
    }
    if let Some(from) = params.get("from_sort_value") {
        let from = sort.read_key(from)?;
        keyed.retain(|((key, _, _), _)| match descending {
            false => *key >= from,
            true => *key <= from,
        });
    }
    let compare = |one: &After, other: &After| match descending {
        false => one.cmp(other),
        true => other.cmp(one),
    };
    keyed.sort_by(|(one, _), (other, _)| compare(one, other));
    let total = keyed.len();
    if let Some(after) = &after {
        keyed.retain(|(key, _)| compare(key, after) == Ordering::Greater);
    }
    let from = offset.min(keyed.len());
    let to = size.map_or(keyed.len(), |size| keyed.len().min(from + size));
    let page = &keyed[from..to];
    let remaining = keyed.len() - to;
    let printed: Vec<Value> = page.iter().map(|(_, info)| print(info, detail)).collect();
    let mut answer = json!({"snapshots": printed, "total": total, "remaining": remaining});
    if remaining > 0
        && let Some((last, _)) = page.last()
    {
        answer["next"] = print_after(last).into();
    }
    Ok(Reply::ok(&answer))
}

/// Returns the snapshots of every repository that the path names.
async fn all(edge: &Edge, call: &Call) -> Result<Vec<SnapshotInfo>, ApiError> {
    let ignore_unavailable = call.params.bool("ignore_unavailable", false)?;
    let repositories = split_list(call.capture("repository"));
    let names = split_list(call.capture("snapshot"));
    let found = edge
        .engine
        .require_snapshots()?
        .repositories(&call.ctx, &repositories)
        .await?;
    let is_one = found.len() == 1;
    let mut infos = Vec::new();
    for repository in found {
        // A single repository must have every name; with several repositories each may lack some.
        let lenient = ignore_unavailable || !is_one;
        infos.extend(
            edge.engine
                .require_snapshots()?
                .list_snapshots(&call.ctx, &repository.name, &names, lenient)
                .await?,
        );
    }
    Ok(infos)
}

/// Returns the policy that created a snapshot.
fn policy_of(info: &SnapshotInfo) -> Option<&str> {
    info.metadata.as_ref()?.get("policy")?.as_str()
}

/// Returns whether the policy matches. As for index names, a pattern with `-` in front excludes names after the first
/// wildcard.
fn is_of_policy(policy: Option<&str>, policies: &[String]) -> bool {
    let mut is_wanted = false;
    let mut was_wild = false;
    for pattern in policies {
        match pattern.strip_prefix('-').filter(|_| was_wild) {
            Some(out) if policy.is_some_and(|policy| matches_pattern(out, policy)) => return false,
            Some(_) => {}
            None => {
                was_wild |= pattern.contains('*');
                is_wanted |= match pattern.as_str() {
                    "_none" => policy.is_none(),
                    pattern => policy.is_some_and(|policy| matches_pattern(pattern, policy)),
                };
            }
        }
    }
    is_wanted
}

/// Encodes the position opaquely for clients: its parts, each with its length in front.
fn print_after((key, name, repository): &After) -> String {
    use base64::Engine as _;
    let key = match key {
        Key::Number(number) => number.to_string(),
        Key::Text(text) => text.clone(),
    };
    let text = json!([key, name, repository]).to_string();
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
}

fn read_after(sort: Sort, text: &str) -> Result<After, Error> {
    use base64::Engine as _;
    let wrong = || Error::illegal_argument(format!("invalid after parameter [{text}]"));
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| wrong())?;
    let [key, name, repository]: [String; 3] = serde_json::from_slice(&bytes).map_err(|_| wrong())?;
    Ok((sort.read_key(&key)?, name, repository))
}

/// Prints one snapshot.
pub(crate) fn print(info: &SnapshotInfo, detail: Detail) -> Value {
    let mut printed = Map::new();
    let mut put = |name: &str, value: Value| {
        printed.insert(name.to_owned(), value);
    };
    put("snapshot", info.name.as_str().into());
    put("uuid", info.uuid.as_str().into());
    if detail.repository {
        put("repository", info.repository.as_str().into());
    }
    if detail.verbose {
        put("version_id", VERSION_CREATED.parse::<u64>().unwrap_or_default().into());
        put("version", VERSION_CREATED.into());
    }
    if detail.index_names {
        put("indices", info.indices.clone().into());
    }
    if detail.index_details {
        let details: Map<String, Value> = info
            .index_details
            .iter()
            .map(|(name, details)| {
                let printed = json!({
                    "shard_count": details.shard_count,
                    "size_in_bytes": details.size_bytes,
                    "max_segments_per_shard": details.segments_per_shard_max,
                });
                (name.clone(), printed)
            })
            .collect();
        put("index_details", Value::Object(details));
    }
    put("data_streams", info.data_streams.clone().into());
    if !detail.verbose {
        put("state", info.state.name().into());
        return Value::Object(printed);
    }
    put("include_global_state", info.include_global_state.into());
    if let Some(metadata) = &info.metadata {
        put("metadata", Value::Object(metadata.clone()));
    }
    put("state", info.state.name().into());
    put("start_time", print_instant(info.start_ms).into());
    put("start_time_in_millis", info.start_ms.into());
    if let Some(end_ms) = info.end_ms {
        put("end_time", print_instant(end_ms).into());
        put("end_time_in_millis", end_ms.into());
        put("duration_in_millis", (end_ms - info.start_ms).into());
    }
    let failures: Vec<Value> = info
        .failures
        .iter()
        .map(|failure| {
            json!({
                "index": failure.index,
                "index_uuid": failure.index_uuid,
                "shard_id": failure.shard,
                "reason": failure.reason,
                "status": "INTERNAL_SERVER_ERROR",
            })
        })
        .collect();
    put("failures", failures.into());
    put(
        "shards",
        json!({
            "total": info.total_shards,
            "failed": info.failures.len(),
            "successful": info.successful_shards,
        }),
    );
    put("feature_states", json!([]));
    Value::Object(printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_taken_out_after_a_wildcard() {
        for (patterns, policy, is_wanted) in [
            ("n*,-nightly", Some("nightly"), false),
            ("n*,-nightly", Some("noon"), true),
            ("*,-night*", Some("nightly"), false),
            ("-nightly", Some("nightly"), false),
            ("-nightly", Some("-nightly"), true),
            ("*", None, false),
            ("_none,x", None, true),
            ("_none", Some("nightly"), false),
        ] {
            assert_eq!(
                is_of_policy(policy, &split_list(patterns)),
                is_wanted,
                "{patterns} {policy:?}"
            );
        }
    }

    #[test]
    fn a_place_is_read_as_it_was_printed() {
        for (sort, key) in [
            (Sort::StartTime, Key::Number(5)),
            (Sort::Name, Key::Text("n,\"1".to_owned())),
        ] {
            let after = (key, "name".to_owned(), "r".to_owned());
            assert_eq!(read_after(sort, &print_after(&after)).unwrap(), after);
        }
        assert!(read_after(Sort::Name, "%%").is_err());
        assert!(
            read_after(
                Sort::StartTime,
                &print_after(&(Key::Text("x".to_owned()), String::new(), String::new()))
            )
            .is_err()
        );
    }
}
