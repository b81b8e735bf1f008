//! `_firn/alerts`: changes of alerts. They are read as documents of `.alerts-*`.

use std::sync::Arc;

use firn_auth::Privilege;
use firn_engine::{Error, RequestContext, Scope};
use firn_model::dates::{DateFormat, Zone};
use firn_model::names::IndicesOptions;
use firn_notify::{AlertChange, AlertKey, ChangeOutcome, change_alerts};
use firn_query::search::{IndexTarget, SearchRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::alert_channels::notifier;
use crate::endpoints::call::Call;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;

/// Most alerts that one request changes.
const ALERTS_MAX: usize = 10_000;
/// Alerts that are changed at a time.
const AT_ONCE: usize = 500;
/// Failures that an answer lists; the counter includes all.
const FAILURES_MAX: usize = 100;
/// Longest reason, in bytes.
const REASON_BYTES_MAX: usize = 10_000;
const STATUSES: [&str; 3] = ["open", "acknowledged", "closed"];

/// Which alerts a request changes.
#[derive(Debug, Deserialize)]
struct Selection {
    #[serde(default)]
    alerts: Option<Vec<Key>>,
    #[serde(default)]
    query: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Key {
    index: String,
    id: String,
    #[serde(default)]
    routing: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatusBody {
    #[serde(default)]
    alerts: Option<Vec<Key>>,
    #[serde(default)]
    query: Option<Value>,
    status: String,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResendBody {
    #[serde(default)]
    alerts: Option<Vec<Key>>,
    #[serde(default)]
    query: Option<Value>,
    #[serde(default)]
    channels: Vec<String>,
}

/// `POST /_firn/alerts/_status`: sets the status of alerts of the caller, which it must be allowed to read, too: what changes tells what
/// matches.
pub(crate) async fn status(edge: Arc<Edge>, mut call: Call) -> Result<Reply, ApiError> {
    call.ctx.scope = Arc::new(read_and_write(&call)?);
    let body: StatusBody = read(&call)?;
    if !STATUSES.contains(&&*body.status) {
        let reason = format!("[status] is one of {}, not [{}]", STATUSES.join(", "), body.status);
        return Err(Error::illegal_argument(reason).into());
    }
    if body
        .reason
        .as_ref()
        .is_some_and(|reason| reason.len() > REASON_BYTES_MAX)
    {
        return Err(Error::illegal_argument(format!("[reason] has at most {REASON_BYTES_MAX} bytes")).into());
    }
    let change = AlertChange::Status {
        status: body.status,
        by: call.identity.user_name().map(str::to_owned),
        reason: body.reason,
        at: now(&edge),
    };
    let selection = Selection {
        alerts: body.alerts,
        query: body.query,
    };
    change_selected(&edge, &call, selection, &change).await
}

/// `POST /_firn/alerts/_resend`: makes channels deliver alerts again, those that failed unless the body names others.
pub(crate) async fn resend(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let body: ResendBody = read(&call)?;
    let notifier = Arc::clone(notifier(&edge)?);
    let metadata = edge.metadata(&call).await?;
    if let Some(unknown) = body
        .channels
        .iter()
        .find(|id| !metadata.alert_channels.by_id.contains_key(*id))
    {
        return Err(Error::illegal_argument(format!("there is no channel [{unknown}]")).into());
    }
    let change = AlertChange::Resend {
        channels: body.channels,
        at: now(&edge),
    };
    let selection = Selection {
        alerts: body.alerts,
        query: body.query,
    };
    let reply = change_selected(&edge, &call, selection, &change).await;
    notifier.wake();
    reply
}

fn read<T: serde::de::DeserializeOwned>(call: &Call) -> Result<T, ApiError> {
    let body = call.required_json()?;
    if !body.is_object() {
        return Err(Error::parsing("the body must be a JSON object").into());
    }
    serde_json::from_value(body).map_err(|error| Error::parsing(error.to_string()).into())
}

/// Returns the scope that the caller may both read and write.
fn read_and_write(call: &Call) -> Result<Scope, Error> {
    let reads = call.identity.scope(Privilege::Read);
    let reads = reads.ok_or_else(|| call.identity.refusal("indices:data/read/search", Privilege::Read))?;
    let writes = call.ctx.scope.names().iter();
    Ok(writes.fold(reads, |scope, names| scope.within(Arc::clone(names))))
}

fn now(edge: &Edge) -> String {
    DateFormat::default_millis().print_ms(edge.now_ms(), &Zone::utc())
}

async fn change_selected(
    edge: &Edge,
    call: &Call,
    selection: Selection,
    change: &AlertChange,
) -> Result<Reply, ApiError> {
    let keys = match (selection.alerts, selection.query) {
        (Some(alerts), None) => {
            if alerts.len() > ALERTS_MAX {
                return Err(Error::illegal_argument(format!("[alerts] has at most {ALERTS_MAX} members")).into());
            }
            let key = |key: Key| AlertKey {
                index: key.index,
                id: key.id,
                routing: key.routing,
            };
            alerts.into_iter().map(key).collect()
        }
        (None, Some(query)) => found(edge, &call.ctx, &query).await?,
        _ => return Err(Error::illegal_argument("the body needs either [alerts] or [query]").into()),
    };
    let (mut updated, mut unchanged, mut failed) = (0_u64, 0_u64, 0_u64);
    let mut failures = Vec::new();
    for part in keys.chunks(AT_ONCE) {
        let outcomes = change_alerts(&*edge.engine, &call.ctx, part, change).await?;
        for (key, outcome) in part.iter().zip(outcomes) {
            match outcome {
                ChangeOutcome::Changed => updated += 1,
                ChangeOutcome::Unchanged => unchanged += 1,
                ChangeOutcome::Failed(error) => {
                    failed += 1;
                    if failures.len() < FAILURES_MAX {
                        failures.push(json!({"index": key.index, "id": key.id, "reason": error.reason()}));
                    }
                }
            }
        }
    }
    Ok(Reply::ok(&json!({
        "updated": updated, "unchanged": unchanged, "failed": failed, "failures": failures,
    })))
}

/// Returns the alerts of the caller that match a query. More than a request may change are an error, so that none is left out
/// without a word.
async fn found(edge: &Edge, ctx: &RequestContext, query: &Value) -> Result<Vec<AlertKey>, ApiError> {
    let target = IndexTarget {
        expression: vec![".alerts-*".to_owned()],
        options: IndicesOptions {
            ignore_unavailable: true,
            expand_hidden: true,
            ..IndicesOptions::default()
        },
    };
    let body = json!({
        "query": query, "size": ALERTS_MAX, "_source": false, "track_total_hits": true,
        "sort": [{"@timestamp": {"order": "asc", "unmapped_type": "date"}}],
    });
    let request = SearchRequest::parse(target, Some(&body))?;
    let response = edge.engine.search(ctx, request).await?;
    if let Some((index, _, error)) = response.shards.failures.first() {
        let reason = format!("the alerts in [{index}] cannot be read: {}", error.reason());
        return Err(Error::new(error.kind(), reason).into());
    }
    let total = response.total.map_or(0, |total| total.value);
    if total as usize > ALERTS_MAX {
        let reason = format!("the query matches {total} alerts, and one request changes at most {ALERTS_MAX}");
        return Err(Error::illegal_argument(reason).into());
    }
    let key = |hit: firn_query::search::Hit| AlertKey {
        index: hit.index,
        id: hit.id,
        routing: hit.routing,
    };
    Ok(response.hits.into_iter().map(key).collect())
}
