//! Audit log: who did what, when, from where, and whether it was allowed.
//!
//! The names of events and fields are those of Elasticsearch's audit log. Reads and writes of documents are not in it:
//! the traffic record contains every request.

use std::collections::HashMap;
use std::net::IpAddr;

use firn_api::{Caller, RequestRecord};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::stream::Definition;

/// Callers whose last sign-in is remembered. A forgotten one costs one more event.
const SIGNED_IN_MAX: usize = 10_000;
/// After this time without requests a caller's next request counts as a new sign-in.
const SIGNED_IN_FOR_MS: i64 = 5 * 60 * 1000;
/// The endpoint of an explicit sign-in, which is an event even if the last one was recent.
const SIGN_IN: &str = "create_session";
/// Path that the console requests to find out whether it is signed in, before it shows anything. For unknown callers
/// the endpoint is not resolved.
const SESSION_PATH: &str = "/_firn/session";
/// Actions that only read, or that accompany every write, although their names are those of administration.
const NO_MANAGEMENT: &[&str] = &[
    "indices:admin/refresh",
    "indices:admin/validate/query",
    "indices:admin/analyze",
    "indices:admin/resolve/index",
    "indices:admin/index_template/simulate_index",
];

/// Returns the definition of the stream.
pub(super) fn definition() -> Definition {
    let keyword = || json!({"type": "keyword", "ignore_above": 1024});
    Definition {
        name: ".firn-audit",
        description: "who did what, when, from where, and whether it was allowed",
        period: "month",
        properties: json!({
            "@timestamp": {"type": "date"},
            "event": {"properties": {"action": keyword(), "outcome": keyword()}},
            "user": {"properties": {"name": keyword()}},
            "authentication": {"properties": {"type": keyword()}},
            "apikey": {"properties": {"id": keyword(), "name": keyword()}},
            "tenant": keyword(),
            "view": {"properties": {"tenant": keyword(), "reason": keyword()}},
            "origin": {"properties": {"address": {"type": "ip"}, "port": {"type": "integer"}}},
            "request": {"properties": {"id": keyword(), "method": keyword(), "name": keyword()}},
            "url": {"properties": {"path": keyword()}},
            "action": keyword(),
            "indices": keyword(),
            "opaque_id": keyword(),
            "status": {"type": "short"},
            "error": {"properties": {"type": keyword()}},
            "items_denied": {"type": "long"},
            "records_lost": {"type": "long"},
            "node": {"properties": {"name": keyword()}},
        }),
        lost: |count| json!({"event": {"action": "records_lost"}, "records_lost": count}),
    }
}

/// Kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// An unknown caller.
    AuthenticationFailed,
    /// The first request of a caller in a while.
    AuthenticationSuccess,
    /// An authenticated caller requested something without the privilege, as a whole or in items of a bulk.
    AccessDenied,
    /// A caller changed something other than documents, or tried to; or an operator viewed data as a tenant.
    AccessGranted,
}

impl Event {
    fn name(self) -> &'static str {
        match self {
            Self::AuthenticationFailed => "authentication_failed",
            Self::AuthenticationSuccess => "authentication_success",
            Self::AccessDenied => "access_denied",
            Self::AccessGranted => "access_granted",
        }
    }
}

/// Decides which requests are events.
#[derive(Debug, Default)]
pub(super) struct Audit {
    /// Time of the last request, by name and address.
    signed_in: Mutex<HashMap<(String, Option<IpAddr>), i64>>,
}

impl Audit {
    /// Returns the event of a request, if there is one.
    pub(super) fn event(&self, record: &RequestRecord) -> Option<Event> {
        if let Caller::Unknown { .. } = record.caller {
            // A malformed request is refused before authentication.
            let is_refused = matches!(record.status, 401 | 429 | 499);
            return (is_refused && !is_session_probe(record)).then_some(Event::AuthenticationFailed);
        }
        let is_new = self.signs_in(record);
        if record.error == Some("security_exception") || record.work.denied > 0 {
            Some(Event::AccessDenied)
        } else if record.endpoint == SIGN_IN {
            Some(Event::AuthenticationSuccess)
        } else if is_management(record) || record.view.is_some() {
            Some(Event::AccessGranted)
        } else {
            is_new.then_some(Event::AuthenticationSuccess)
        }
    }

    fn signs_in(&self, record: &RequestRecord) -> bool {
        let name = match &record.caller {
            Caller::Anyone | Caller::Unknown { .. } => return false,
            Caller::User { name } => name.clone(),
            Caller::ApiKey { id, .. } => id.clone(),
        };
        let who = (name, record.peer.map(|peer| peer.ip()));
        // After a clock that went back, no caller stays known forever.
        let is_recent = |seen: i64| (record.at_ms - seen).abs() < SIGNED_IN_FOR_MS;
        let mut signed_in = self.signed_in.lock();
        if signed_in.len() >= SIGNED_IN_MAX && !signed_in.contains_key(&who) {
            signed_in.retain(|_, seen| is_recent(*seen));
            if signed_in.len() >= SIGNED_IN_MAX {
                signed_in.clear();
            }
        }
        let before = signed_in.insert(who, record.at_ms);
        !before.is_some_and(is_recent)
    }
}

/// Whether a page without credentials checks whether it is signed in: the answer "no" is not a failed attempt.
fn is_session_probe(record: &RequestRecord) -> bool {
    let has_no_credentials = matches!(record.caller, Caller::Unknown { claimed: None });
    has_no_credentials && record.method == "GET" && record.path == SESSION_PATH
}

fn is_management(record: &RequestRecord) -> bool {
    let is_of_administration = ["cluster:admin/", "indices:admin/"]
        .iter()
        .any(|start| record.action.starts_with(start));
    let only_looks = record.method == "GET" || record.method == "HEAD" || NO_MANAGEMENT.contains(&record.action);
    is_of_administration && !only_looks
}

/// Returns the event as it is stored.
pub(super) fn print(record: &RequestRecord, event: Event, node: &str) -> Value {
    let is_success = match event {
        Event::AuthenticationSuccess => true,
        Event::AccessGranted => record.status < 400,
        Event::AuthenticationFailed | Event::AccessDenied => false,
    };
    let outcome = if is_success { "success" } else { "failure" };
    let mut out = Map::new();
    out.insert("@timestamp".to_owned(), record.at_ms.into());
    out.insert("event".to_owned(), json!({"action": event.name(), "outcome": outcome}));
    print_caller(record, &mut out);
    if let Some(peer) = record.peer {
        out.insert(
            "origin".to_owned(),
            json!({"address": peer.ip().to_canonical(), "port": peer.port()}),
        );
    }
    out.insert(
        "request".to_owned(),
        json!({"id": record.id, "method": record.method, "name": record.endpoint}),
    );
    out.insert("url".to_owned(), json!({"path": record.path}));
    out.insert("status".to_owned(), record.status.into());
    out.insert("node".to_owned(), json!({"name": node}));
    let texts = [
        ("action", (!record.action.is_empty()).then_some(record.action)),
        ("opaque_id", record.opaque_id.as_deref()),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            out.insert(name.to_owned(), text.into());
        }
    }
    if let Some(index) = &record.index {
        out.insert("indices".to_owned(), index.split(',').collect());
    }
    if let Some(error) = record.error {
        out.insert("error".to_owned(), json!({"type": error}));
    }
    if let Some(view) = &record.view {
        let view = json!({"tenant": view.tenant.as_str(), "reason": view.reason});
        out.insert("view".to_owned(), view);
    }
    if record.work.denied > 0 {
        out.insert("items_denied".to_owned(), record.work.denied.into());
    }
    Value::Object(out)
}

/// Adds the caller, in the format of both streams.
pub(super) fn print_caller(record: &RequestRecord, out: &mut Map<String, Value>) {
    let (user, kind) = match &record.caller {
        Caller::Anyone => (None, "ANONYMOUS"),
        Caller::Unknown { claimed } => (claimed.as_ref(), "NONE"),
        Caller::User { name } => (Some(name), "REALM"),
        Caller::ApiKey { owner, .. } => (Some(owner), "API_KEY"),
    };
    if let Some(user) = user {
        out.insert("user".to_owned(), json!({"name": user}));
    }
    out.insert("authentication".to_owned(), json!({"type": kind}));
    if let Caller::ApiKey { id, name, .. } = &record.caller {
        out.insert("apikey".to_owned(), json!({"id": id, "name": name}));
    }
    if let Some(tenant) = &record.tenant {
        out.insert("tenant".to_owned(), tenant.as_str().into());
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use firn_auth::View;
    use firn_engine::WorkDone;
    use firn_model::tenant::TenantId;

    use super::*;

    pub(in crate::records) fn record(caller: Caller) -> RequestRecord {
        RequestRecord {
            at_ms: 1_000_000,
            id: "n-1".to_owned(),
            opaque_id: None,
            method: "GET".to_owned(),
            path: "/events/_search".to_owned(),
            endpoint: "search",
            action: "indices:data/read/search",
            index: Some("events,logs-*".to_owned()),
            peer: Some(([10, 0, 0, 1], 4000).into()),
            caller,
            tenant: None,
            view: None,
            status: 200,
            error: None,
            took: Duration::from_micros(1500),
            bytes_in: 10,
            bytes_out: 20,
            work: WorkDone::default(),
            stages: Vec::new(),
        }
    }

    fn user(name: &str) -> Caller {
        Caller::User { name: name.to_owned() }
    }

    #[test]
    fn a_caller_signs_in_once_in_a_while_from_each_address() {
        let audit = Audit::default();
        let mut request = record(user("ann"));
        assert_eq!(audit.event(&request), Some(Event::AuthenticationSuccess));
        assert_eq!(audit.event(&request), None);
        request.peer = Some(([10, 0, 0, 2], 4000).into());
        assert_eq!(audit.event(&request), Some(Event::AuthenticationSuccess));
        request.at_ms += SIGNED_IN_FOR_MS - 1;
        assert_eq!(audit.event(&request), None, "each request counts");
        request.at_ms += SIGNED_IN_FOR_MS;
        assert_eq!(audit.event(&request), Some(Event::AuthenticationSuccess));
        // The clock goes back by a day.
        request.at_ms -= 24 * 60 * 60 * 1000;
        assert_eq!(audit.event(&request), Some(Event::AuthenticationSuccess));
        assert_eq!(audit.event(&request), None);
        assert_eq!(audit.event(&record(Caller::Anyone)), None);
    }

    #[test]
    fn the_memory_of_callers_is_bounded() {
        let audit = Audit::default();
        for number in 0..SIGNED_IN_MAX + 10 {
            audit.event(&record(user(&number.to_string())));
        }
        assert!(audit.signed_in.lock().len() <= SIGNED_IN_MAX);
    }

    #[test]
    fn refusals_and_management_are_events() {
        let check = |change: fn(&mut RequestRecord), expect: Option<Event>| {
            let audit = Audit::default();
            audit.event(&record(user("ann")));
            let mut request = record(user("ann"));
            change(&mut request);
            assert_eq!(audit.event(&request), expect, "{request:?}");
        };
        check(|_| {}, None);
        check(
            |r| (r.caller, r.status) = (Caller::Unknown { claimed: None }, 401),
            Some(Event::AuthenticationFailed),
        );
        check(
            |r| (r.caller, r.status) = (Caller::Unknown { claimed: None }, 400),
            None,
        );
        let probe = |claimed: Option<&str>| {
            let mut request = record(Caller::Unknown {
                claimed: claimed.map(str::to_owned),
            });
            (request.endpoint, request.path, request.status) = ("none", "/_firn/session".to_owned(), 401);
            Audit::default().event(&request)
        };
        assert_eq!(probe(None), None, "the console asks whether it is signed in");
        assert_eq!(probe(Some("ann")), Some(Event::AuthenticationFailed), "a guess");
        check(|r| r.error = Some("security_exception"), Some(Event::AccessDenied));
        check(|r| r.work.denied = 1, Some(Event::AccessDenied));
        // A block on writes has a 403 too, and is not an access attempt.
        check(|r| (r.status, r.error) = (403, Some("cluster_block_exception")), None);
        check(
            |r| (r.method, r.action) = ("DELETE".to_owned(), "indices:admin/delete"),
            Some(Event::AccessGranted),
        );
        check(|r| r.action = "indices:admin/get", None);
        check(|r| r.endpoint = "create_session", Some(Event::AuthenticationSuccess));
        check(
            |r| {
                r.view = Some(View {
                    tenant: TenantId::parse("acme").unwrap(),
                    reason: "ticket 1".to_owned(),
                });
            },
            Some(Event::AccessGranted),
        );
        check(
            |r| (r.method, r.action) = ("POST".to_owned(), "indices:admin/refresh"),
            None,
        );
        check(
            |r| (r.method, r.action) = ("PUT".to_owned(), "cluster:admin/settings/update"),
            Some(Event::AccessGranted),
        );
    }

    #[test]
    fn an_event_says_who_what_when_and_from_where() {
        let mut request = record(Caller::ApiKey {
            id: "id1".to_owned(),
            name: "shipper".to_owned(),
            owner: "ann".to_owned(),
        });
        request.status = 403;
        request.error = Some("security_exception");
        let expect = json!({
            "@timestamp": 1_000_000,
            "event": {"action": "access_denied", "outcome": "failure"},
            "user": {"name": "ann"},
            "authentication": {"type": "API_KEY"},
            "apikey": {"id": "id1", "name": "shipper"},
            "origin": {"address": "10.0.0.1", "port": 4000},
            "request": {"id": "n-1", "method": "GET", "name": "search"},
            "url": {"path": "/events/_search"},
            "status": 403,
            "node": {"name": "node-1"},
            "action": "indices:data/read/search",
            "indices": ["events", "logs-*"],
            "error": {"type": "security_exception"},
        });
        assert_eq!(print(&request, Event::AccessDenied, "node-1"), expect);
    }
}
