//! Inputs of a handler: the shared state of the edge, and one parsed and checked request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use firn_auth::Identity;
use firn_engine::{Engine, Error, ErrorKind, FairSemaphore, RequestContext};
use firn_model::metadata::{self, IndexMetadata, Metadata};
use firn_model::names::IndicesOptions;
use firn_model::tenant::TenantId;
use firn_query::json::token;
use firn_query::search::IndexTarget;
use http::Response;
use hyper::body::Body as _;
use serde_json::{Map, Value};

use crate::async_search::AsyncSearches;
use crate::auth::{Gate, OfSession};
use crate::body::{BodyBudget, BodyShare};
use crate::config::ApiConfig;
use crate::discover::Discovers;
use crate::error::ApiError;
use crate::filter_path::FilterPath;
use crate::media_type::{Accept, Format};
use crate::metrics::Metrics;
use crate::nodes::host::HostMeter;
use crate::offload::Offload;
use crate::params::Params;
use crate::quotas::Accounts;
use crate::request_record::{Timings, Viewed};
use crate::router::Captures;
use crate::streaming::ResponseBody;
use crate::tasks::Tasks;

/// Maximum bytes of a JSON body that is parsed into a tree: a tree takes some ten times its text.
const MAX_JSON_TREE_BYTES: usize = 16 << 20;

/// State shared by all requests.
pub(crate) struct Edge {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) config: ApiConfig,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) metrics: Metrics,
    /// Meter of the process and the host.
    pub(crate) host_meter: HostMeter,
    pub(crate) bodies: Arc<BodyBudget>,
    /// Budget of answer bytes that clients have not read yet.
    pub(crate) unread: Arc<BodyBudget>,
    /// Requests since the start, including those in progress.
    pub(crate) requests: AtomicU64,
    /// Permits of requests in progress.
    pub(crate) permits: Arc<FairSemaphore<Option<TenantId>>>,
    pub(crate) accounts: Accounts,
    /// Running and retained async searches.
    pub(crate) async_searches: Arc<AsyncSearches>,
    /// Permits of deletes by query that run in the background.
    pub(crate) by_queries: Arc<FairSemaphore<Option<TenantId>>>,
    /// Running and retained runs of `_firn/discover`.
    pub(crate) discovers: Arc<Discovers>,
    pub(crate) gate: Gate,
    /// Offload of requests with large bodies.
    pub(crate) elsewhere: Offload,
    /// Identity of every caller while security is off.
    pub(crate) anonymous: Arc<Identity>,
}

/// Address of the client: an extension of the request head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// One request.
#[derive(Debug)]
pub(crate) struct Call {
    /// Path as sent, without parameters.
    pub(crate) path: String,
    /// Values of the pattern's `{names}`, decoded.
    pub(crate) captures: Captures,
    pub(crate) params: Params,
    pub(crate) body: Bytes,
    pub(crate) accept: Accept,
    pub(crate) filter_path: Option<FilterPath>,
    /// Authenticated caller.
    pub(crate) identity: Arc<Identity>,
    /// Session of the caller; at sign-in the session that the new one replaces.
    pub(crate) session: Option<OfSession>,
    pub(crate) ctx: RequestContext,
    /// Number in `_tasks`.
    pub(crate) task: u64,
    /// Collector of stage timings for the record of the request.
    pub(crate) timings: Arc<Timings>,
    /// Cell for the tenant view of an operator.
    pub(crate) viewed: Arc<Viewed>,
}

impl Edge {
    /// Reserves the memory of an answer until its client has read it; small answers need none.
    pub(crate) fn room_for(
        &self,
        response: &Response<ResponseBody>,
        tenant: Option<TenantId>,
    ) -> Result<BodyShare, ApiError> {
        const SMALL_BYTES: u64 = 64 << 10;
        let bytes = response.body().size_hint().exact().unwrap_or(0);
        let counted = if bytes <= SMALL_BYTES { 0 } else { bytes };
        let share = self.unread.take(tenant, counted);
        share.map_err(|before| {
            let limit = self.unread.limit();
            let reason = format!(
                "[unread_answers] Data too large, data for [<http_answer>] would be [{}b], which is larger than the limit \
                 of [{limit}b]: clients have not read earlier answers yet",
                before + counted
            );
            Error::new(ErrorKind::CircuitBreaking, reason).into()
        })
    }

    /// Returns all current metadata.
    pub(crate) async fn metadata(&self, call: &Call) -> Result<Arc<Metadata>, ApiError> {
        Ok(self.engine.metadata(&call.ctx).await?)
    }

    /// Returns the metadata with the mappings that the caller may see.
    pub(crate) async fn metadata_with_mappings(&self, call: &Call) -> Result<Arc<Metadata>, ApiError> {
        Ok(self.engine.metadata_with_mappings(&call.ctx).await?)
    }

    /// Returns the time of the clock.
    pub(crate) fn now_ms(&self) -> i64 {
        (self.config.now_ms)()
    }

    /// Returns the host part of the address.
    pub(crate) fn host(&self) -> &str {
        self.config
            .http_address
            .rsplit_once(':')
            .map_or(self.config.http_address.as_str(), |(host, _)| host)
    }

    /// Returns the indices that a target selects.
    pub(crate) fn resolve<'a>(
        &self,
        target: &IndexTarget,
        metadata: &'a Metadata,
    ) -> Result<Vec<&'a Arc<IndexMetadata>>, ApiError> {
        let resolved = metadata::resolve(&target.expression, target.options, metadata, self.now_ms())?;
        Ok(resolved
            .iter()
            .filter_map(|index| metadata.indices.get(&index.name))
            .collect())
    }

    /// Returns the names of the indices that a target selects.
    pub(crate) fn resolve_names(&self, target: &IndexTarget, metadata: &Metadata) -> Result<Vec<String>, ApiError> {
        let resolved = metadata::resolve(&target.expression, target.options, metadata, self.now_ms())?;
        Ok(resolved.into_iter().map(|index| index.name).collect())
    }
}

impl Call {
    /// Returns the value of a `{name}` that all path forms of the endpoint have.
    pub(crate) fn capture(&self, name: &str) -> &str {
        self.captured(name).unwrap_or("")
    }

    /// Returns the value of a `{name}` if this form of the path has it.
    pub(crate) fn captured(&self, name: &str) -> Option<&str> {
        self.captures
            .iter()
            .find(|(candidate, _)| *candidate == name)
            .map(|(_, value)| value.as_str())
    }

    /// Builds the target of `{index}` with the parameters.
    pub(crate) fn target(&self, defaults: IndicesOptions) -> Result<IndexTarget, Error> {
        self.params.target(self.captured("index"), defaults)
    }

    /// Parses the body as JSON; `None` if it is empty.
    pub(crate) fn json(&self) -> Result<Option<Value>, ApiError> {
        if self.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        Ok(Some(parse_json(&self.body)?))
    }

    /// Parses the body as a JSON object; an absent body is an empty object.
    pub(crate) fn object(&self) -> Result<Map<String, Value>, ApiError> {
        match self.json()? {
            None => Ok(Map::new()),
            Some(Value::Object(object)) => Ok(object),
            Some(other) => Err(Error::parsing(format!(
                "expected a JSON object as the request's body but found [{}]",
                token(&other)
            ))
            .into()),
        }
    }

    /// Parses the body as JSON; fails with Elasticsearch's error if it is absent.
    pub(crate) fn required_json(&self) -> Result<Value, ApiError> {
        self.json()?.ok_or_else(missing_body)
    }

    /// Returns the raw body; fails with Elasticsearch's error if it is absent.
    pub(crate) fn required_body(&self) -> Result<Bytes, ApiError> {
        if self.body.is_empty() {
            return Err(missing_body());
        }
        Ok(self.body.clone())
    }

    /// Returns whether the client prefers JSON at endpoints that also answer with text.
    pub(crate) fn wants_json(&self) -> bool {
        self.accept.format == Some(Format::Json)
    }
}

/// Returns Elasticsearch's error for an absent body.
pub(crate) fn missing_body() -> ApiError {
    ApiError::bad_request("parse_exception", "request body is required")
}

/// Parses JSON into a tree: bounded in bytes, and in depth by serde_json (128).
pub(crate) fn parse_json(bytes: &[u8]) -> Result<Value, ApiError> {
    if bytes.len() > MAX_JSON_TREE_BYTES {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "a JSON body of [{}] bytes is longer than the limit of [{MAX_JSON_TREE_BYTES}] for requests other than _bulk",
                bytes.len()
            ),
        )
        .into());
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let reason = format!("[{}:{}] {error}", error.line(), error.column());
        Error::new(ErrorKind::JsonParse, reason).into()
    })
}
