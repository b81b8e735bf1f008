//! What is kept of a request once it is over: for the audit, and for whoever improves the layout.
//!
//! A record holds no body, no parameter and no secret. It is handed over when the request is over
//! however it ends: answered, failed, or given up by its client.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use firn_control::{Identity, Principal, View};
use firn_engine::{Work, WorkDone};
use firn_model::tenant::TenantId;
use http::StatusCode;
use http::request::Parts;

use crate::auth;
use crate::console;
use crate::request::{Edge, Peer};
use crate::router::{Captures, Route};
use crate::streaming::Ended;

/// Longer paths and index expressions are cut: they say nothing more.
const TEXT_BYTES_MAX: usize = 512;
/// What stands for a status where nobody waited for the answer.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// Takes records. Called on the threads that answer requests: it must not wait.
pub trait Recorder: Send + Sync {
    /// A request is over.
    fn record(&self, record: RequestRecord);
}

/// A request that is over.
#[derive(Debug, Clone)]
pub struct RequestRecord {
    /// When it came, ms since epoch UTC.
    pub at_ms: i64,
    /// Its own, of this node: no other request has the same.
    pub id: String,
    /// `X-Opaque-Id` of the client.
    pub opaque_id: Option<String>,
    /// HTTP's.
    pub method: String,
    /// As sent, cut after 512 bytes, without parameters.
    pub path: String,
    /// Name of the endpoint; `none` if the path names none.
    pub endpoint: &'static str,
    /// Elasticsearch's name of what it does; empty if the path names no endpoint.
    pub action: &'static str,
    /// The index expression of the path.
    pub index: Option<String>,
    /// Where it came from.
    pub peer: Option<SocketAddr>,
    /// Who asked.
    pub caller: Caller,
    /// Whose request it was; `None`: nobody's in particular, as an operator's.
    pub tenant: Option<TenantId>,
    /// The view with which an operator looked, or which he took.
    pub view: Option<View>,
    /// What was answered; 499 if the client did not wait.
    pub status: u16,
    /// The type of the error that was answered, as in its body.
    pub error: Option<&'static str>,
    /// From its head to its answer.
    pub took: Duration,
    /// Bytes of its body, inflated.
    pub bytes_in: u64,
    /// Bytes of the answer's body, as sent.
    pub bytes_out: u64,
    /// What the engine did for it.
    pub work: WorkDone,
    /// The stages of an answer that has some, in the order in which they ended.
    pub stages: Vec<StageTiming>,
}

/// A part of an answer that was found by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageTiming {
    /// Its name.
    pub stage: &'static str,
    /// `done`, `failed`, or `estimate` for one that was not run.
    pub outcome: &'static str,
    /// From its beginning to its end.
    pub took: Duration,
}

/// Where stages are noted while a request is answered.
#[derive(Debug, Default)]
pub(crate) struct Timings(Mutex<Vec<StageTiming>>);

impl Timings {
    /// Notes one that has ended.
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

/// Where the view of an operator is noted while a request is answered.
#[derive(Debug, Default)]
pub(crate) struct Viewed(Mutex<Option<View>>);

impl Viewed {
    /// Notes it.
    pub(crate) fn set(&self, view: View) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(view);
    }

    fn take(&self) -> Option<View> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Who asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// Everybody is an operator: authentication is off.
    Anyone,
    /// Who did not say who he is, said something wrong, or was not asked yet.
    Unknown {
        /// The name of the user, or id of the API key, that he claimed to be.
        claimed: Option<String>,
    },
    /// A user with his password.
    User {
        /// His name.
        name: String,
    },
    /// An API key.
    ApiKey {
        /// Its id.
        id: String,
        /// Its name.
        name: String,
        /// Who made it.
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

/// A request on its way to a record, which is handed over when this is dropped.
pub(crate) struct Recording {
    endpoint: &'static str,
    started: Instant,
    work: Arc<Work>,
    timings: Arc<Timings>,
    viewed: Arc<Viewed>,
    /// `None`: nobody wants to know.
    kept: Option<(Arc<dyn Recorder>, RequestRecord)>,
}

impl Edge {
    /// Begins the record of a request.
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
    /// `none` if the path names none.
    pub(crate) fn endpoint(&self) -> &'static str {
        self.endpoint
    }

    /// What the engine counts on.
    pub(crate) fn work(&self) -> Arc<Work> {
        Arc::clone(&self.work)
    }

    /// Where stages are noted.
    pub(crate) fn timings(&self) -> Arc<Timings> {
        Arc::clone(&self.timings)
    }

    /// Where it is noted whose view was taken.
    pub(crate) fn viewed(&self) -> Arc<Viewed> {
        Arc::clone(&self.viewed)
    }

    /// Notes who somebody says he is, in the body of his request.
    pub(crate) fn claims(&mut self, name: &str) {
        self.note(|record| {
            record.caller = Caller::Unknown {
                claimed: Some(name.to_owned()),
            };
        });
    }

    /// Notes who asks.
    pub(crate) fn identified(&mut self, identity: &Identity, view: Option<&View>) {
        if let Some(view) = view {
            self.viewed.set(view.clone());
        }
        self.note(|record| {
            record.caller = Caller::of(identity);
            record.tenant = identity.tenant().cloned();
        });
    }

    /// Notes the endpoint and what its path names.
    pub(crate) fn found(&mut self, route: &Route, captures: &Captures) {
        self.endpoint = route.name;
        self.note(|record| {
            record.endpoint = route.name;
            record.action = route.action;
            let index = captures.iter().find(|(name, _)| *name == "index");
            record.index = index.map(|(_, value)| cut(value));
        });
    }

    /// Notes that it is for the console, of which no endpoint is asked.
    pub(crate) fn found_console(&mut self) {
        self.endpoint = console::ENDPOINT;
        self.note(|record| record.endpoint = console::ENDPOINT);
    }

    /// Notes the body.
    pub(crate) fn received(&mut self, bytes: u64) {
        self.note(|record| record.bytes_in = bytes);
    }

    /// Notes the answer.
    pub(crate) fn answered(&mut self, status: StatusCode, error: Option<&'static str>, bytes: u64) {
        self.note(|record| {
            record.status = status.as_u16();
            record.error = error;
            record.bytes_out = bytes;
        });
    }

    /// Notes an answer that was written as it came. The status of one that nobody read to its end stays what it was.
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
