//! Inputs of a handler: one parsed and checked request, beside the [`Edge`] that all requests share.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use firn_auth::{Identity, Privilege};
use firn_engine::{Error, RequestContext, Scope};
use firn_model::metadata::Metadata;
use firn_model::names::IndicesOptions;
use firn_query::json::token;
use firn_query::search::IndexTarget;
use serde_json::{Map, Value};

use crate::state::auth::OfSession;
use crate::state::disclosure;
use crate::state::edge::Edge;
use crate::state::request_record::{Timings, Viewed};
use crate::wire::error::ApiError;
use crate::wire::filter_path::FilterPath;
use crate::wire::json_body::{missing_body, parse_json};
use crate::wire::media_type::{Accept, Format};
use crate::wire::params::Params;
use crate::wire::reply::Reply;

/// Future of a handler's reply.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Reply, ApiError>> + Send>>;
/// Function that answers one request.
pub(crate) type Handler = fn(Arc<Edge>, Call) -> Answer;

/// Values of a pattern's `{names}`.
pub(crate) type Captures = Vec<(&'static str, String)>;

/// One request.
#[derive(Debug)]
pub(crate) struct Call {
    /// Path as sent, without parameters.
    pub(crate) path: String,
    /// Values of the pattern's `{names}`, decoded.
    pub(crate) captures: Captures,
    pub(crate) params: Params,
    pub(crate) body: Bytes,
    /// Why the quotas of the caller's tenant refuse the events of the body, if that was found before it was decompressed. The body is
    /// empty then; [`Edge::check_events`] fails.
    pub(crate) over_quota: Option<Error>,
    /// Format of the body by its `Content-Type`; `None`: unknown or absent.
    pub(crate) content_format: Option<Format>,
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
    /// Returns all current metadata.
    pub(crate) async fn metadata(&self, call: &Call) -> Result<Arc<Metadata>, ApiError> {
        Ok(self.engine.metadata(&call.ctx).await?)
    }

    /// Returns the metadata with the mappings that the caller may see.
    pub(crate) async fn metadata_with_mappings(&self, call: &Call) -> Result<Arc<Metadata>, ApiError> {
        Ok(self.engine.metadata_with_mappings(&call.ctx).await?)
    }

    /// Fails if the caller's tenant has used its quotas up. Requests with events are checked with this before they are decoded, and before
    /// pipelines run: both take processor time.
    pub(crate) async fn check_events(&self, call: &Call) -> Result<(), Error> {
        match &call.over_quota {
            Some(error) => Err(error.clone()),
            None => self.check_quotas(&call.ctx.scope, true, call.ctx.started).await,
        }
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

    /// Returns whether the caller may access the request of `creator` ([`disclosure::may_reach`]).
    pub(crate) fn reaches(&self, creator: &Scope, operators: Privilege) -> bool {
        disclosure::may_reach(&self.identity, &self.ctx.scope, creator, operators)
    }

    /// Creates the context of work that continues after this request is answered, listed as `action`.
    pub(crate) fn lasting(&self, edge: &Edge, action: &'static str, description: String) -> RequestContext {
        let lasting = edge.tasks.lasting(action, description, edge.now_ms(), &self.ctx);
        RequestContext {
            lasting: Some(lasting),
            ..self.ctx.clone()
        }
    }

    /// Returns whether the caller may end an answer of the request of `creator` ([`disclosure::may_end`]).
    pub(crate) fn may_end(&self, creator: &Scope) -> bool {
        disclosure::may_end(&self.identity, &self.ctx.scope, creator)
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
