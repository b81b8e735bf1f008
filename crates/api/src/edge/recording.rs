//! Record of a request while it is answered.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use firn_auth::{Identity, View};
use firn_engine::{Work, WorkDone};
use http::StatusCode;
use http::request::Parts;

use crate::edge::console;
use crate::edge::router::Route;
use crate::endpoints::call::Captures;
use crate::state::auth;
use crate::state::edge::Edge;
use crate::state::request_record::{Caller, Recorder, RequestRecord, Timings, Viewed};
use crate::wire::peer::Peer;
use crate::wire::streaming::Ended;

/// Longer paths and index expressions are cut, because the rest adds no information.
const TEXT_BYTES_MAX: usize = 512;
/// Status of a request whose client did not wait for the answer.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// Record of a request in progress; dropping it hands the record over.
pub(crate) struct Recording {
    endpoint: &'static str,
    started: Instant,
    work: Arc<Work>,
    timings: Arc<Timings>,
    viewed: Arc<Viewed>,
    /// `None`: there is no recorder.
    record: Option<(Arc<dyn Recorder>, RequestRecord)>,
}

impl Recording {
    /// Starts the record of a request.
    pub(crate) fn start(edge: &Edge, parts: &Parts, started: Instant) -> Self {
        let begin = |recorder: &Arc<dyn Recorder>| {
            let number = edge.requests.fetch_add(1, Ordering::Relaxed) + 1;
            let opaque_id = parts.headers.get("x-opaque-id");
            let record = RequestRecord {
                at_ms: edge.now_ms(),
                id: format!("{:x}-{number:x}", edge.config.started_ms),
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
        Self {
            endpoint: "none",
            started,
            work: Arc::default(),
            timings: Arc::default(),
            viewed: Arc::default(),
            record: edge.config.recorder.as_ref().map(begin),
        }
    }

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
        if let Some((_, record)) = &mut self.record {
            note(record);
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some((recorder, mut record)) = self.record.take() {
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
