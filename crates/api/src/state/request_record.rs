//! Records of completed requests, for the audit log and for the layout advisor.
//!
//! A record holds no body, no parameter and no secret. It is handed over when the request ends: answered, failed, or
//! abandoned by its client.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firn_auth::{Identity, Principal, View};
use firn_engine::WorkDone;
use firn_model::tenant::TenantId;

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

    pub(crate) fn take(&self) -> Vec<StageTiming> {
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

    pub(crate) fn take(&self) -> Option<View> {
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
    /// Returns the caller with an identity.
    pub(crate) fn of(identity: &Identity) -> Self {
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
