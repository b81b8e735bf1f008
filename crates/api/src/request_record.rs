//! Records of completed requests, for the audit log and for the layout advisor.
//!
//! A record holds no body, no parameter and no secret. It is handed over when the request ends: answered, failed, or
//! abandoned by its client.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use firn_auth::{Identity, Principal, View};
use firn_engine::{Work, WorkDone};
use firn_model::tenant::TenantId;
use http::StatusCode;
use http::request::Parts;

use crate::auth;
use crate::console;
use crate::request::{Edge, Peer};
use crate::router::{Captures, Route};
use crate::streaming::Ended;

/// Longer paths and index expressions are cut, because the rest adds no information.
const TEXT_BYTES_MAX: usize = 512;
/// Status of a request whose client did not wait for the answer.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// Consumer of records. Its methods run on the threads that answer requests, so they must not block.
pub trait Recorder: Send + Sync {
    /// Receives the record of a completed request.
    fn record(&self, record: RequestRecord);
}

/// Completed request.
#[derive(Debug, Clone)]
pub struct RequestRecord {
    /// Arrival, ms since epoch UTC.
    pub at_ms: i64,
    /// Id of the request, unique on this node.
    pub id: String,
    /// `X-Opaque-Id` of the client.
    pub opaque_id: Option<String>,
    /// HTTP method.
    pub method: String,
    /// Path as sent, cut after 512 bytes, without parameters.
    pub path: String,
    /// Name of the endpoint; `none` if the path names none.
    pub endpoint: &'static str,
    /// Elasticsearch's name of the action; empty if the path names no endpoint.
    pub action: &'static str,
    /// Index expression of the path.
    pub index: Option<String>,
    /// Address of the client.
    pub peer: Option<SocketAddr>,
    /// Authenticated caller.
    pub caller: Caller,
    /// Tenant of the request; `None`: no tenant, as for operators.
    pub tenant: Option<TenantId>,
    /// Tenant view that the operator used or started.
    pub view: Option<View>,
    /// Status of the answer; 499 if the client did not wait.
    pub status: u16,
    /// Type of the error in the body of the answer.
    pub error: Option<&'static str>,
    /// Time from the head of the request to the answer.
    pub took: Duration,
    /// Bytes of the request body, decompressed.
    pub bytes_in: u64,
    /// Bytes of the answer's body, as sent.
    pub bytes_out: u64,
    /// Work of the engine for the request.
    pub work: WorkDone,
    /// Stages of the answer, if it has any, in the order of their ends.
    pub stages: Vec<StageTiming>,
}

/// Timing of one stage of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageTiming {
    /// Name of the stage.
    pub stage: &'static str,
    /// `done`, `failed`, or `estimate` for a stage that did not run.
    pub outcome: &'static str,
    /// Time from the beginning of the stage to its end.
    pub took: Duration,
}

/// Collector of stage timings while a request is answered.
#[derive(Debug, Default)]
pub(crate) struct Timings(Mutex<Vec<StageTiming>>);

impl Timings {
    /// Adds the timing of a stage that has ended.
    pub(crate) fn push(&self, timing: StageTiming) {
        self.lock().push(timing);
    }

    fn take(&self) -> Vec<StageTiming> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<StageTiming>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cell for the tenant view of an operator while a request is answered.
#[derive(Debug, Default)]
pub(crate) struct Viewed(Mutex<Option<View>>);

impl Viewed {
    /// Stores the view.
    pub(crate) fn set(&self, view: View) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(view);
    }

    fn take(&self) -> Option<View> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Authentication is off, so every caller is an operator.
    Anyone,
    /// Caller without credentials, with wrong ones, or not authenticated yet.
    Unknown {
        /// Claimed name of the user, or id of the API key.
        claimed: Option<String>,
    },
    /// User with a password.
    User {
        /// Name of the user.
        name: String,
    },
    /// An API key.
    ApiKey {
        /// Id of the key.
        id: String,
        /// Name of the key.
        name: String,
        /// User who created the key.
        owner: String,
    },
}

impl Caller {
    fn of(identity: &Identity) -> Self {
        match identity.principal() {
            Principal::Open => Self::Anyone,
            Principal::User(user) => Self::User {
                name: user.name.clone(),
            },
            Principal::ApiKey(key) => Self::ApiKey {
                id: key.id.clone(),
                name: key.name.clone(),
                owner: key.owner.clone(),
            },
        }
    }
}

/// Record of a request in progress; dropping it hands the record over.
pub(crate) struct Recording {
    endpoint: &'static str,
    started: Instant,
    work: Arc<Work>,
    timings: Arc<Timings>,
    viewed: Arc<Viewed>,
    /// `None`: there is no recorder.
    kept: Option<(Arc<dyn Recorder>, RequestRecord)>,
}

impl Edge {
    /// Starts the record of a request.
    pub(crate) fn recording(&self, parts: &Parts, started: Instant) -> Recording {
        let begin = |recorder: &Arc<dyn Recorder>| {
            let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
            let opaque_id = parts.headers.get("x-opaque-id");
            let record = RequestRecord {
                at_ms: self.now_ms(),
                id: format!("{:x}-{number:x}", self.config.started_ms),
                opaque_id: opaque_id.and_then(|value| value.to_str().ok()).map(cut),
                method: cut(parts.method.as_str()),
                path: cut(parts.uri.path()),
                endpoint: "none",
                action: "",
                index: None,
                peer: parts.extensions.get::<Peer>().map(|peer| peer.0),
                caller: Caller::Unknown {
                    claimed: auth::claimed(parts),
                },
                tenant: None,
                view: None,
                status: CLIENT_CLOSED_REQUEST,
                error: None,
                took: Duration::ZERO,
                bytes_in: 0,
                bytes_out: 0,
                work: WorkDone::default(),
                stages: Vec::new(),
            };
            (Arc::clone(recorder), record)
        };
        Recording {
            endpoint: "none",
            started,
            work: Arc::default(),
            timings: Arc::default(),
            viewed: Arc::default(),
            kept: self.config.recorder.as_ref().map(begin),
        }
    }
}

impl Recording {
    /// Returns the name of the endpoint; `none` if the path names none.
    pub(crate) fn endpoint(&self) -> &'static str {
        self.endpoint
    }

    /// Returns the counters for the work of the engine.
    pub(crate) fn work(&self) -> Arc<Work> {
        Arc::clone(&self.work)
    }

    /// Returns the collector of stage timings.
    pub(crate) fn timings(&self) -> Arc<Timings> {
        Arc::clone(&self.timings)
    }

    /// Returns the cell for the tenant view of an operator.
    pub(crate) fn viewed(&self) -> Arc<Viewed> {
        Arc::clone(&self.viewed)
    }

    /// Records the user name that the body of a sign-in claims.
    pub(crate) fn claims(&mut self, name: &str) {
        self.note(|record| {
            record.caller = Caller::Unknown {
                claimed: Some(name.to_owned()),
            };
        });
    }

    /// Records the authenticated caller.
    pub(crate) fn identified(&mut self, identity: &Identity, view: Option<&View>) {
        if let Some(view) = view {
            self.viewed.set(view.clone());
        }
        self.note(|record| {
            record.caller = Caller::of(identity);
            record.tenant = identity.tenant().cloned();
        });
    }

    /// Records the endpoint and the index expression of its path.
    pub(crate) fn found(&mut self, route: &Route, captures: &Captures) {
        self.endpoint = route.name;
        self.note(|record| {
            record.endpoint = route.name;
            record.action = route.action;
            let index = captures.iter().find(|(name, _)| *name == "index");
            record.index = index.map(|(_, value)| cut(value));
        });
    }

    /// Records that the request is for a file of the console, not for an endpoint.
    pub(crate) fn found_console(&mut self) {
        self.endpoint = console::ENDPOINT;
        self.note(|record| record.endpoint = console::ENDPOINT);
    }

    /// Records the size of the body.
    pub(crate) fn received(&mut self, bytes: u64) {
        self.note(|record| record.bytes_in = bytes);
    }

    /// Records the answer.
    pub(crate) fn answered(&mut self, status: StatusCode, error: Option<&'static str>, bytes: u64) {
        self.note(|record| {
            record.status = status.as_u16();
            record.error = error;
            record.bytes_out = bytes;
        });
    }

    /// Records a streamed answer. An answer that its client did not read to the end keeps its status.
    pub(crate) fn streamed(mut self, status: StatusCode, ended: Ended) {
        self.note(|record| {
            record.bytes_out = ended.bytes;
            if ended.whole {
                record.status = status.as_u16();
            }
        });
    }

    fn note(&mut self, note: impl FnOnce(&mut RequestRecord)) {
        if let Some((_, record)) = &mut self.kept {
            note(record);
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some((recorder, mut record)) = self.kept.take() {
            record.took = self.started.elapsed();
            record.work = self.work.done();
            record.stages = self.timings.take();
            record.view = self.viewed.take();
            recorder.record(record);
        }
    }
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()
}
