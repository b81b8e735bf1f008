//! Changes of stored alerts: their status, and what of their delivery is done.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_engine::document::{
    BulkItem, BulkRequest, Effect, Expectation, GetRequest, Operation, Refresh, StoredDocument, Update,
};
use firn_engine::{Engine, RequestContext};
use firn_model::{Error, ErrorKind, Result};
use serde_json::{Map, Value, json};

/// Start of the names of the indices of alerts.
const INDEX_PREFIX: &str = ".ds-.alerts-";
/// Attempts at an alert that others change at the same time.
const ATTEMPTS_MAX: usize = 10;
/// Most deliveries that an alert lists: the newest.
const DELIVERIES_MAX: usize = 50;

/// Where an alert is stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AlertKey {
    /// Index.
    pub index: String,
    /// Document id.
    pub id: String,
    /// Routing, as hits of searches and events have it: an alert with an id of its own is not found without.
    pub routing: Option<String>,
}

/// Change of an alert. Times are RFC 3339.
#[derive(Debug, Clone, PartialEq)]
pub enum AlertChange {
    /// Sets the status.
    Status {
        /// `open`, `acknowledged` or `closed`.
        status: String,
        /// User who changes it; `None`: there is no authentication.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
        /// When.
        at: String,
    },
    /// Makes channels deliver it again.
    Resend {
        /// Ids of the channels; empty: those that failed.
        channels: Vec<String>,
        /// When.
        at: String,
    },
    /// A channel has delivered it.
    Delivered(Delivery),
    /// A channel has given it up.
    Failed(Delivery),
    /// Channels that do not exist cannot deliver it.
    Unknown {
        /// Ids of the channels that exist.
        known: Arc<BTreeSet<String>>,
        /// When.
        at: String,
    },
    /// It was not acknowledged in time: see [`crate::escalation`].
    Escalated {
        /// Now.
        now: String,
    },
}

/// Delivery of an alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Id of the channel.
    pub channel: String,
    /// When.
    pub at: String,
    /// Attempts at the message.
    pub attempts: u32,
    /// Alerts in the message.
    pub alerts: usize,
    /// Why it was given up, or what of it did not arrive.
    pub note: Option<String>,
}

/// What became of a change.
#[derive(Debug, Clone)]
pub enum ChangeOutcome {
    /// It is stored.
    Changed,
    /// The alert was so before.
    Unchanged,
    /// The alert stays as it was.
    Failed(Error),
}

/// Changes alerts that the caller may read; returns one outcome for each key, in the same order. Stored changes are visible to searches.
///
/// # Errors
/// Of the engine, for the request as a whole.
pub async fn change_alerts(
    engine: &dyn Engine,
    ctx: &RequestContext,
    keys: &[AlertKey],
    change: &AlertChange,
) -> Result<Vec<ChangeOutcome>> {
    let mut outcomes: Vec<Option<ChangeOutcome>> = keys
        .iter()
        .map(|key| match key.index.starts_with(INDEX_PREFIX) {
            true => None,
            false => {
                let reason = format!("[{}] is not an index of alerts", key.index);
                Some(ChangeOutcome::Failed(Error::illegal_argument(reason)))
            }
        })
        .collect();
    // Only firn writes to alerts.
    let writer = RequestContext {
        scope: Arc::default(),
        ..ctx.clone()
    };
    for attempt in 1..=ATTEMPTS_MAX {
        let open: Vec<usize> = (0..keys.len()).filter(|place| outcomes[*place].is_none()).collect();
        if open.is_empty() {
            break;
        }
        let open_keys: Vec<&AlertKey> = open.iter().map(|place| &keys[*place]).collect();
        let found = read(engine, ctx, &writer, &open_keys).await?;
        let (mut items, mut places) = (Vec::new(), Vec::new());
        for (place, found) in open.into_iter().zip(found) {
            let stored = match found {
                Ok(stored) => stored,
                Err(error) => {
                    outcomes[place] = Some(ChangeOutcome::Failed(error));
                    continue;
                }
            };
            let document: Option<Map<String, Value>> = serde_json::from_slice(&stored.source).ok();
            let state = document
                .as_ref()
                .and_then(|document| document.get("firn")?.get("alert"));
            let Some(state) = state.and_then(Value::as_object) else {
                let reason = Error::illegal_argument("the document is not an alert");
                outcomes[place] = Some(ChangeOutcome::Failed(reason));
                continue;
            };
            match change.of(state) {
                None => outcomes[place] = Some(ChangeOutcome::Unchanged),
                Some(members) => {
                    items.push(update(
                        &keys[place],
                        stored.routing,
                        members,
                        (stored.seq_no, stored.primary_term),
                    ));
                    places.push(place);
                }
            }
        }
        if items.is_empty() {
            continue;
        }
        let request = BulkRequest {
            items,
            refresh: Refresh::Now,
            ..BulkRequest::default()
        };
        let response = engine.bulk(&writer, request).await?;
        for (place, item) in places.into_iter().zip(response.items) {
            outcomes[place] = match item.result {
                Ok(written) if written.effect == Effect::Noop => Some(ChangeOutcome::Unchanged),
                Ok(_) => Some(ChangeOutcome::Changed),
                // Another one has changed it since it was read.
                Err(error) if error.kind() == ErrorKind::VersionConflict && attempt < ATTEMPTS_MAX => None,
                Err(error) => Some(ChangeOutcome::Failed(error)),
            };
        }
    }
    let outcome = |outcome: Option<ChangeOutcome>| {
        outcome.unwrap_or_else(|| ChangeOutcome::Failed(Error::internal("a bug: an alert without an outcome")))
    };
    Ok(outcomes.into_iter().map(outcome).collect())
}

/// Reads alerts as firn sees them, those that the caller may read, too. A name in a tenant's view may be an index of its own, so a
/// tenant's alert must be the tenant's in firn's view as well.
async fn read(
    engine: &dyn Engine,
    ctx: &RequestContext,
    writer: &RequestContext,
    keys: &[&AlertKey],
) -> Result<Vec<Result<StoredDocument>>> {
    let missing = || Error::new(ErrorKind::ResourceNotFound, "there is no such alert");
    let request = |key: &AlertKey, routing: Option<String>| GetRequest {
        index: key.index.clone(),
        id: key.id.clone(),
        routing,
        realtime: true,
        version: None,
    };
    let reads = keys.iter().map(|key| request(key, key.routing.clone())).collect();
    let found = engine.get(ctx, reads).await?;
    let found: Vec<Result<StoredDocument>> = found
        .into_iter()
        .map(|result| result?.found.ok_or_else(missing))
        .collect();
    let Some(tenant) = ctx.scope.tenant_id() else {
        return Ok(found);
    };
    let routing = |stored: &Result<StoredDocument>| stored.as_ref().ok().and_then(|stored| stored.routing.clone());
    let again = keys
        .iter()
        .zip(&found)
        .map(|(key, stored)| request(key, routing(stored)));
    let as_firn = engine.get(writer, again.collect()).await?;
    let is_own = |stored: &StoredDocument| {
        let document: Option<Map<String, Value>> = serde_json::from_slice(&stored.source).ok();
        document.is_some_and(|document| document.get("tenant").and_then(Value::as_str) == Some(tenant.as_str()))
    };
    let both = found.into_iter().zip(as_firn).map(|(as_caller, as_firn)| {
        as_caller?;
        as_firn?.found.filter(is_own).ok_or_else(missing)
    });
    Ok(both.collect())
}

fn update(
    key: &AlertKey,
    routing: Option<String>,
    members: Map<String, Value>,
    (seq_no, primary_term): (u64, u64),
) -> BulkItem {
    BulkItem {
        index: key.index.clone(),
        id: Some(key.id.clone()),
        routing,
        operation: Operation::Update(Box::new(Update {
            doc: Some(json!({"firn": {"alert": members}})),
            upsert: None,
            doc_as_upsert: false,
            detect_noop: true,
            retry_on_conflict: 0,
            source: None,
        })),
        expect: Expectation::SeqNo { seq_no, primary_term },
        require_alias: false,
        require_data_stream: false,
    }
}

impl AlertChange {
    /// Returns the members of `firn.alert` that change; `None`: none.
    fn of(&self, state: &Map<String, Value>) -> Option<Map<String, Value>> {
        let mut changed = Map::new();
        match self {
            Self::Status { status, by, reason, at } => {
                if state.get("status").and_then(Value::as_str) == Some(status) && reason.is_none() {
                    return None;
                }
                changed.insert("status".to_owned(), status.as_str().into());
                // Null removes what an earlier change said.
                changed.insert("changed".to_owned(), json!({"at": at, "by": by, "reason": reason}));
                if state.contains_key("escalate_at") {
                    changed.insert("escalate_at".to_owned(), Value::Null);
                }
            }
            Self::Resend { channels, at } => {
                let again = match channels.is_empty() {
                    true => names(state, "failed"),
                    false => channels.iter().cloned().collect(),
                };
                if again.is_empty() {
                    return None;
                }
                let mut failed = names(state, "failed");
                failed.retain(|channel| !again.contains(channel));
                let mut pending = names(state, "pending");
                pending.extend(again);
                set(&mut changed, "pending", pending);
                set(&mut changed, "failed", failed);
                changed.insert("resent_at".to_owned(), at.as_str().into());
            }
            Self::Delivered(delivery) => {
                if !take_from_pending(state, &delivery.channel, &mut changed) {
                    return None;
                }
                add_delivery(state, delivery, false, &mut changed);
            }
            Self::Failed(delivery) => {
                if !take_from_pending(state, &delivery.channel, &mut changed) {
                    return None;
                }
                let mut failed = names(state, "failed");
                failed.insert(delivery.channel.clone());
                set(&mut changed, "failed", failed);
                add_delivery(state, delivery, true, &mut changed);
            }
            Self::Unknown { known, at } => {
                let (pending, unknown): (BTreeSet<String>, BTreeSet<String>) = names(state, "pending")
                    .into_iter()
                    .partition(|channel| known.contains(channel));
                let first = unknown.first()?.clone();
                let reason = match unknown.len() {
                    1 => format!("there is no channel [{first}]"),
                    count => format!("there are no channels [{first}] and {} others", count - 1),
                };
                let delivery = Delivery {
                    channel: first,
                    at: at.clone(),
                    attempts: 0,
                    alerts: 1,
                    note: Some(reason),
                };
                let mut failed = names(state, "failed");
                failed.extend(unknown);
                set(&mut changed, "pending", pending);
                set(&mut changed, "failed", failed);
                add_delivery(state, &delivery, true, &mut changed);
            }
            Self::Escalated { now } => return crate::escalation::escalate(state, now),
        }
        Some(changed)
    }
}

/// Returns the ids of channels in a member of `firn.alert`.
pub(crate) fn names(state: &Map<String, Value>, member: &str) -> BTreeSet<String> {
    let values = match state.get(member) {
        Some(Value::Array(values)) => &values[..],
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(crate) fn set(changed: &mut Map<String, Value>, member: &str, names: BTreeSet<String>) {
    changed.insert(member.to_owned(), names.into_iter().collect::<Vec<_>>().into());
}

/// Returns whether the channel was among those that have not delivered the alert.
fn take_from_pending(state: &Map<String, Value>, channel: &str, changed: &mut Map<String, Value>) -> bool {
    let mut pending = names(state, "pending");
    let was_there = pending.remove(channel);
    set(changed, "pending", pending);
    was_there
}

fn add_delivery(state: &Map<String, Value>, delivery: &Delivery, is_failed: bool, changed: &mut Map<String, Value>) {
    let mut deliveries = match state.get("deliveries") {
        Some(Value::Array(deliveries)) => deliveries.clone(),
        _ => Vec::new(),
    };
    let mut entry = json!({
        "channel": delivery.channel, "at": delivery.at, "attempts": delivery.attempts, "digest": delivery.alerts > 1,
        "outcome": if is_failed { "failed" } else { "delivered" },
    });
    if let Some(note) = &delivery.note {
        entry["reason"] = note.as_str().into();
    }
    deliveries.push(entry);
    let surplus = deliveries.len().saturating_sub(DELIVERIES_MAX);
    deliveries.drain(..surplus);
    changed.insert("deliveries".to_owned(), deliveries.into());
}

/// Engine and context of changes that firn itself makes.
#[derive(Clone)]
pub(crate) struct Alerts {
    pub(crate) engine: Arc<dyn Engine>,
}

impl Alerts {
    pub(crate) async fn change(&self, keys: &[AlertKey], change: &AlertChange) -> Result<Vec<ChangeOutcome>> {
        change_alerts(&*self.engine, &RequestContext::new(), keys, change).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    fn delivery(channel: &str) -> Delivery {
        Delivery {
            channel: channel.to_owned(),
            at: "2026-01-01T00:00:00Z".to_owned(),
            attempts: 2,
            alerts: 1,
            note: Some("550".to_owned()),
        }
    }

    #[test]
    fn a_delivery_takes_its_channel_from_the_pending_ones() {
        let alert = state(json!({"pending": ["a", "b"], "deliveries": [{"channel": "z"}]}));
        let changed = AlertChange::Delivered(delivery("a")).of(&alert).unwrap();
        assert_eq!(changed["pending"], json!(["b"]));
        assert_eq!(changed["deliveries"][1]["outcome"], "delivered");
        assert!(AlertChange::Delivered(delivery("c")).of(&alert).is_none());

        let changed = AlertChange::Failed(delivery("b")).of(&alert).unwrap();
        assert_eq!(
            (&changed["pending"], &changed["failed"]),
            (&json!(["a"]), &json!(["b"]))
        );
        assert_eq!(changed["deliveries"][1]["reason"], "550");

        let known = Arc::new(BTreeSet::from(["a".to_owned()]));
        let at = "2026-01-01T00:00:00Z".to_owned();
        let changed = AlertChange::Unknown { known, at }.of(&alert).unwrap();
        assert_eq!(
            (&changed["pending"], &changed["failed"]),
            (&json!(["a"]), &json!(["b"]))
        );

        let many = vec![json!({"channel": "z"}); 60];
        let alert = state(json!({"pending": "a", "deliveries": many}));
        let changed = AlertChange::Delivered(delivery("a")).of(&alert).unwrap();
        assert_eq!(changed["deliveries"].as_array().unwrap().len(), DELIVERIES_MAX);
        assert_eq!(changed["deliveries"][DELIVERIES_MAX - 1]["channel"], "a");
    }

    #[test]
    fn failed_channels_are_resent() {
        let alert = state(json!({"pending": ["a"], "failed": ["b", "c"]}));
        let resend = |channels: &[&str]| AlertChange::Resend {
            channels: channels.iter().map(|&name| name.to_owned()).collect(),
            at: "2026-01-01T00:00:00Z".to_owned(),
        };
        let changed = resend(&[]).of(&alert).unwrap();
        assert_eq!(
            (&changed["pending"], &changed["failed"]),
            (&json!(["a", "b", "c"]), &json!([]))
        );
        let changed = resend(&["c", "d"]).of(&alert).unwrap();
        assert_eq!(
            (&changed["pending"], &changed["failed"]),
            (&json!(["a", "c", "d"]), &json!(["b"]))
        );
        assert!(resend(&[]).of(&state(json!({"pending": ["a"]}))).is_none());
    }

    #[test]
    fn a_status_is_changed_once() {
        let to = |status: &str, reason: Option<&str>| AlertChange::Status {
            status: status.to_owned(),
            by: Some("ann".to_owned()),
            reason: reason.map(str::to_owned),
            at: "2026-01-01T00:00:00Z".to_owned(),
        };
        let alert = state(json!({"status": "open"}));
        let changed = to("closed", None).of(&alert).unwrap();
        assert_eq!(changed["status"], "closed");
        assert_eq!(
            changed["changed"],
            json!({"at": "2026-01-01T00:00:00Z", "by": "ann", "reason": null})
        );
        assert!(to("open", None).of(&alert).is_none());
        assert!(to("open", Some("seen again")).of(&alert).is_some());
    }
}
