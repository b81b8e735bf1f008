//! Life of one REST request from its head to its answer.

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use firn_auth::{Identity, SearchPermit};
use firn_engine::{BackgroundTask, Engine, Error, ErrorKind, FairPermit, FairSemaphore, RequestContext, Scope};
use firn_model::tenant::TenantId;
use firn_pipeline::rule_history::OpenHoleList;
use firn_query::Cancel;
use futures_util::FutureExt as _;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use hyper::body::Body;

use crate::edge::console;
use crate::edge::offload;
use crate::edge::offload::Offload;
use crate::edge::recording::Recording;
use crate::edge::router::{BodyKind, EventBody, Found, Route, Router};
use crate::edge::server::connection_slots::SignedInFlag;
use crate::endpoints::bulk;
use crate::endpoints::by_query;
use crate::endpoints::call::{Call, Captures};
use crate::endpoints::sessions;
use crate::state::accounts::Accounts;
use crate::state::async_search_store::AsyncSearches;
use crate::state::auth;
use crate::state::auth::{Csrf, Gate, Known, OfSession, Revocation};
use crate::state::config::{ApiConfig, Security};
use crate::state::disclosure::disclose_error;
use crate::state::discover_store::Discovers;
use crate::state::edge::Edge;
use crate::state::enrich_tables::EnrichTables;
use crate::state::host::HostMeter;
use crate::state::ingest::Ingest;
use crate::state::metrics::Metrics;
use crate::state::partition_claims::PartitionClaims;
use crate::state::rule_definitions::RuleDefinitions;
use crate::state::tasks::{TaskGuard, Tasks};
use crate::wire::body;
use crate::wire::body::{BodyBudget, BodyShare, ReceivedBody};
use crate::wire::error::ApiError;
use crate::wire::filter_path::FilterPath;
use crate::wire::media_type;
use crate::wire::media_type::{Accept, Format};
use crate::wire::params::Params;
use crate::wire::peer::Peer;
use crate::wire::reply::{Reply, Shape};
use crate::wire::streaming::ResponseBody;

/// Resources that a request holds until it is answered, in the order of their release.
struct Holds {
    _task: TaskGuard,
    _body: BodyShare,
    _search: Option<SearchPermit>,
    _permit: Option<FairPermit<Option<TenantId>>>,
    /// `None`: authentication is off.
    standing: Option<Revocation>,
}

/// The REST edge as a tower service. Clones share everything.
#[derive(Clone)]
pub struct Api {
    edge: Arc<Edge>,
    router: Arc<Router>,
    /// Offload of requests with large bodies.
    offload: Offload,
}

/// Creates the REST edge over an engine.
pub fn router(engine: Arc<dyn Engine>, config: ApiConfig) -> Api {
    let edge = Edge {
        engine,
        tasks: Arc::new(Tasks::default()),
        metrics: Metrics::new(),
        requests: AtomicU64::new(0),
        bodies: BodyBudget::new(config.body_memory_max),
        unread: BodyBudget::new(config.unread_answers_max),
        host_meter: HostMeter::default(),
        gate: Gate::new(config.tls.is_some()),
        anonymous: Arc::new(Identity::open()),
        permits: FairSemaphore::new(config.max_concurrent_requests.max(1) as u64),
        accounts: Accounts::default(),
        async_searches: AsyncSearches::new(config.async_searches),
        ingest: Ingest::new(config.ingest_threads),
        enrich: EnrichTables::default(),
        partition_claims: PartitionClaims::default(),
        rule_definitions: RuleDefinitions::default(),
        open_holes: OpenHoleList::default(),
        by_queries: FairSemaphore::new(by_query::BACKGROUND_MAX),
        discovers: Discovers::new(&config.discover),
        config,
    };
    Api {
        edge: Arc::new(edge),
        router: Arc::new(Router::new()),
        offload: Offload::default(),
    }
}

impl<B> tower::Service<Request<B>> for Api
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display + Send,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let api = self.clone();
        Box::pin(async move { Ok(api.handle(request).await) })
    }
}

impl Api {
    /// Returns the configuration.
    pub fn config(&self) -> &ApiConfig {
        &self.edge.config
    }

    /// Counts an open connection until the returned guard is dropped.
    pub(crate) fn connection_opened(&self) -> impl Sized + Send + 'static {
        let edge = Arc::clone(&self.edge);
        edge.metrics.connections_total.inc();
        edge.metrics.connections_open.inc();
        scope_guard(move || edge.metrics.connections_open.dec())
    }

    /// Returns a function that lists background work of the node as a task: its action and its description. The task
    /// stays listed until the returned value is dropped. It also ends when an operator cancels it.
    pub fn background_work(&self) -> Arc<dyn Fn(&'static str, String) -> BackgroundTask + Send + Sync> {
        let edge = Arc::clone(&self.edge);
        Arc::new(move |action, about| {
            let ctx = RequestContext::new();
            edge.tasks.lasting(action, about, edge.now_ms(), &ctx)
        })
    }

    /// Answers one request. Dropping the future cancels the engine's work on it.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display + Send,
    {
        let started = Instant::now();
        self.edge.metrics.in_flight.inc();
        // The guard counts down also when the client goes away and this future is dropped.
        let edge = Arc::clone(&self.edge);
        let in_flight = scope_guard(move || edge.metrics.in_flight.dec());
        let (parts, body) = request.into_parts();
        let mut body = Box::pin(body);
        let mut recording = Recording::start(&self.edge, &parts, started);
        if let Some(response) = console::answer(&self.edge.config, &parts) {
            recording.found_console();
            return self.sent(response.map(ResponseBody::whole), recording, started, None);
        }
        let mut shape = Shape {
            accept: Accept {
                format: None,
                compatible_with: None,
            },
            pretty: false,
            filter_path: None,
            error_trace: false,
            gzip: accepts_gzip(&parts.headers),
            head: parts.method == Method::HEAD,
            opaque_id: parts.headers.get("x-opaque-id").cloned(),
            challenge: auth::takes_challenge(self.edge.gate.cookies, &parts),
        };
        // Context of the caller once it is known; it decides which details an error shows.
        let mut known: Option<RequestContext> = None;
        let outcome = self
            .answer(&parts, body.as_mut(), started, &mut shape, &mut recording, &mut known)
            .await;
        let mut error = outcome.as_ref().err().and_then(ApiError::error_type);
        let mut held = None;
        let mut response = match outcome {
            Ok((reply, holds)) => {
                held = Some(holds);
                shape.response(reply).await
            }
            Err(error) => {
                // Runs beside the answer: a client may wait for the answer before it sends more.
                body::discard(&parts.headers, body, self.config().body_limits());
                if error.status().is_server_error() {
                    tracing::error!(
                        method = %parts.method,
                        path = parts.uri.path(),
                        peer = parts.extensions.get::<Peer>().map(|peer| tracing::field::display(peer.0)),
                        status = error.status().as_u16(),
                        error = ?error,
                        "a request failed"
                    );
                }
                let metadata = match &known {
                    Some(ctx) => self.edge.engine.metadata(ctx).await.ok(),
                    None => None,
                };
                shape.error_response(&error, metadata.as_deref()).await
            }
        };
        if response.body().is_stream() {
            let (edge, status) = (Arc::clone(&self.edge), response.status());
            response.body_mut().on_end(move |ended| {
                let took = started.elapsed().as_secs_f64();
                edge.metrics
                    .answered(recording.endpoint(), status.as_u16(), took, ended.bytes);
                recording.streamed(status, ended);
            });
            if let Some(standing) = held.as_mut().and_then(|held| held.standing.take()) {
                response.body_mut().unless(standing.lost());
            }
            response.body_mut().hold((in_flight, held));
            return response;
        }
        let tenant = known.as_ref().and_then(|ctx| ctx.scope.tenant_id().cloned());
        match self.edge.room_for(&response, tenant) {
            Ok(share) => response.body_mut().hold(share),
            Err(refused) => {
                error = refused.error_type();
                response = shape.error_response(&refused, None).await;
            }
        }
        self.sent(response, recording, started, error)
    }

    /// Counts and records an answer before it is sent.
    fn sent(
        &self,
        response: Response<ResponseBody>,
        mut recording: Recording,
        started: Instant,
        error: Option<&'static str>,
    ) -> Response<ResponseBody> {
        let status = response.status();
        let sent = Body::size_hint(response.body()).exact().unwrap_or(0);
        self.edge.metrics.answered(
            recording.endpoint(),
            status.as_u16(),
            started.elapsed().as_secs_f64(),
            sent,
        );
        recording.answered(status, error, sent);
        response
    }

    async fn answer<B>(
        &self,
        parts: &http::request::Parts,
        mut body: Pin<&mut B>,
        started: Instant,
        shape: &mut Shape,
        recording: &mut Recording,
        known: &mut Option<RequestContext>,
    ) -> Result<(Reply, Holds), ApiError>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let path = parts.uri.path();
        let params = Params::parse(parts.uri.query())?;
        // Parameters that shape the answer come first, so that errors have the requested form too.
        read_shape(shape, parts, &params)?;
        let (caller, early) = self.authenticate(parts, body.as_mut(), recording).await?;
        if let Some(known) = parts.extensions.get::<SignedInFlag>() {
            known.note();
        }
        let Known { identity, session } = caller;
        let standing = self.standing(&identity, session.as_ref());
        recording.identified(&identity, session.as_ref().and_then(OfSession::view));
        let (route, captures) = self.find(parts)?;
        recording.found(route, &captures);
        let csrf = match &session {
            // A sign-in proves more than a page of another site could, so it needs no CSRF check.
            Some(session) if early.is_none() => session.check_head(parts, route.only_reads())?,
            _ => Csrf::Settled,
        };
        params.check(path, route.params)?;
        let scope = route
            .scope(&identity)
            .ok_or_else(|| identity.refusal(route.action, route.privilege))?;

        let permit = self.permit(route, parts, &scope)?;
        let search = self.edge.admit(&scope, route.action)?;
        let mut share = self.edge.bodies.open(scope.tenant_id().cloned());
        let limits = self.config().body_limits();
        let mut over_quota = None;
        let mut body = match early {
            Some(bytes) => bytes,
            None => {
                let received = body::receive(&parts.headers, body, limits, &mut share).await?;
                over_quota = self.check_compressed(route, &received, &scope, started).await;
                match over_quota {
                    None => received.decompress(limits, &mut share).await?,
                    Some(_) => Bytes::new(),
                }
            }
        };
        self.edge.metrics.received(body.len() as u64);
        recording.received(body.len() as u64);
        if let (Csrf::InForm, Some(session)) = (csrf, &session) {
            session.check_form(&body)?;
        }
        check_body(route, parts, &params, &mut body)?;

        let ctx = self.context(route, scope, shape, started, recording);
        *known = Some(ctx.clone());
        let task = self.edge.tasks.start(
            route.action,
            format!("{} {path}", parts.method),
            self.edge.now_ms(),
            &ctx,
        );
        let call = Call {
            path: path.to_owned(),
            captures,
            params,
            body,
            over_quota,
            content_format: media_type::stated_format(&parts.headers),
            accept: shape.accept,
            filter_path: shape.filter_path.clone(),
            identity,
            session,
            ctx,
            task: task.id(),
            timings: recording.timings(),
            viewed: recording.viewed(),
        };
        let reply = self.run(route, call).await?;
        let holds = Holds {
            _task: task,
            _body: share,
            _search: search,
            _permit: permit,
            standing,
        };
        Ok((reply, holds))
    }

    /// Returns why the quotas of the caller's tenant refuse a compressed body with events. Decompressing a large one takes seconds of
    /// processor time.
    async fn check_compressed(
        &self,
        route: &Route,
        received: &ReceivedBody,
        scope: &Scope,
        started: Instant,
    ) -> Option<Error> {
        scope.tenant_id()?;
        let has_events = match route.events {
            EventBody::None => return None,
            EventBody::Always => received.start_of_compressed(0).map(|_| true)?,
            EventBody::Bulk => bulk::begins_with_event(&received.start_of_compressed(bulk::ACTION_BYTES_MAX)?),
        };
        self.edge.check_quotas(scope, has_events, started).await.err()
    }

    /// Authenticates the caller. A sign-in request carries the credentials in its body, which is returned too.
    async fn authenticate<B>(
        &self,
        parts: &http::request::Parts,
        body: Pin<&mut B>,
        recording: &mut Recording,
    ) -> Result<(Known, Option<Bytes>), ApiError>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        match &self.edge.config.security {
            Security::On(control) if sessions::is_sign_in(parts) => {
                let bytes = self.sign_in_body(parts, body).await?;
                let credentials = sessions::credentials(parts, &bytes)?;
                recording.claims(credentials.principal());
                let known = self.edge.gate.sign_in(control, parts, &credentials).await?;
                Ok((known, Some(bytes)))
            }
            Security::On(control) => Ok((self.edge.gate.identify(control, parts).await?, None)),
            Security::Off(_) => Ok((Arc::clone(&self.edge.anonymous).into(), None)),
        }
    }

    /// Returns the watch for the end of the caller's rights; `None`: authentication is off.
    fn standing(&self, identity: &Arc<Identity>, session: Option<&OfSession>) -> Option<Revocation> {
        match &self.edge.config.security {
            Security::On(control) => {
                let token = session.map(|session| &session.token);
                Some(Revocation::of(control, identity, token))
            }
            Security::Off(_) => None,
        }
    }

    /// Takes one of the permits of concurrent requests; `None`: the endpoint is always served.
    fn permit(
        &self,
        route: &Route,
        parts: &http::request::Parts,
        scope: &Scope,
    ) -> Result<Option<FairPermit<Option<TenantId>>>, ApiError> {
        if route.always {
            return Ok(None);
        }
        let permit = self.edge.permits.take(scope.tenant_id().cloned(), 1);
        permit.map(Some).map_err(|_| {
            let (path, limit) = (parts.uri.path(), self.edge.config.max_concurrent_requests);
            let reason = format!(
                "rejected execution of [{} {path}]: the limit of [{limit}] concurrent requests is reached",
                parts.method
            );
            Error::new(ErrorKind::Rejected, reason).into()
        })
    }

    /// Returns the context for the engine.
    fn context(
        &self,
        route: &Route,
        scope: Scope,
        shape: &Shape,
        started: Instant,
        recording: &Recording,
    ) -> RequestContext {
        RequestContext {
            cancel: Cancel::default(),
            started,
            opaque_id: shape
                .opaque_id
                .as_ref()
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned),
            action: route.action,
            repository_bytes_max: self.edge.repository_bytes_max(&scope),
            scope: Arc::new(scope),
            work: recording.work(),
            ..RequestContext::new()
        }
    }

    /// Runs the handler; large bodies on another thread. A panic of the handler is an error of the request.
    async fn run(&self, route: &Route, call: Call) -> Result<Reply, ApiError> {
        let ctx = call.ctx.clone();
        let is_large = call.body.len() >= offload::FROM_BYTES;
        let answer = (route.handler)(Arc::clone(&self.edge), call);
        let answer = async {
            match is_large {
                true => self.offload.run(answer).await,
                false => answer.await,
            }
        };
        AssertUnwindSafe(answer)
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(Error::internal("a bug: the request's handler panicked, see the log").into()))
            .map_err(|error| disclose_error(&ctx, error))
    }

    /// Reads the body of a sign-in request. This is the only body that is read before the caller is authenticated.
    async fn sign_in_body<B>(&self, parts: &http::request::Parts, body: Pin<&mut B>) -> Result<Bytes, ApiError>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let mut share = self.edge.bodies.open(None);
        let limits = sessions::body_limits(self.config());
        let read = body::read(&parts.headers, body, limits, &mut share);
        let read = tokio::time::timeout(sessions::BODY_PATIENCE, read).await;
        read.map_err(|_| body::too_slow(sessions::BODY_PATIENCE))?
    }

    fn find(&self, parts: &http::request::Parts) -> Result<(&Route, Captures), ApiError> {
        let (method, uri) = (
            &parts.method,
            parts.uri.path_and_query().map_or("/", |path| path.as_str()),
        );
        match self.router.find(method, parts.uri.path())? {
            Found::Route(route, captures) => Ok((route, captures)),
            Found::WrongMethod(allowed) => Err(ApiError::Plain {
                status: StatusCode::METHOD_NOT_ALLOWED,
                sentence: format!(
                    "Incorrect HTTP method for uri [{uri}] and method [{method}], allowed: [{}]",
                    allowed.join(", ")
                ),
                allow: Some(allowed.join(",")),
            }),
            Found::NotImplemented => Err(Error::not_implemented(format!("[{method} {}]", parts.uri.path())).into()),
            Found::Unknown => Err(ApiError::Plain {
                status: StatusCode::BAD_REQUEST,
                sentence: format!("no handler found for uri [{uri}] and method [{method}]"),
                allow: None,
            }),
        }
    }
}

/// Checks a body against what its endpoint accepts; `source` in the URL replaces an absent body.
fn check_body(route: &Route, parts: &http::request::Parts, params: &Params, body: &mut Bytes) -> Result<(), ApiError> {
    let mut source_content_type = None;
    if body.is_empty()
        && let Some(source) = params.get("source")
    {
        source_content_type = Some(
            params
                .get("source_content_type")
                .ok_or_else(|| Error::illegal_argument("source and source_content_type parameters are required"))?,
        );
        *body = Bytes::copy_from_slice(source.as_bytes());
    }
    if body.is_empty() {
        return Ok(());
    }
    if route.body == BodyKind::None {
        return Err(Error::illegal_argument(format!(
            "request [{} {}] does not support having a body",
            parts.method,
            parts.uri.path()
        ))
        .into());
    }
    let is_form = route.body == BodyKind::JsonOrForm && media_type::is_form(&parts.headers);
    if is_form || route.body == BodyKind::AnyType {
        return Ok(());
    }
    let no_headers = HeaderMap::new();
    let headers = if source_content_type.is_some() {
        &no_headers
    } else {
        &parts.headers
    };
    let format = media_type::content_type(headers, source_content_type)?;
    if format == Format::Ndjson && route.body != BodyKind::Ndjson {
        return Err(ApiError::Plain {
            status: StatusCode::NOT_ACCEPTABLE,
            sentence: "Content-Type header [application/x-ndjson] is not supported".to_owned(),
            allow: None,
        });
    }
    Ok(())
}

/// Path whose `format` is that of a file.
const RULES_EXPORT: &str = "/_firn/rules/_export";

/// Reads the parameters that shape the answer.
fn read_shape(shape: &mut Shape, parts: &http::request::Parts, params: &Params) -> Result<(), ApiError> {
    shape.pretty = params.bool("pretty", false)?;
    shape.error_trace = params.bool("error_trace", false)?;
    params.flag("human")?;
    let format = params.get("format").filter(|_| parts.uri.path() != RULES_EXPORT);
    shape.accept = media_type::accept(&parts.headers, format)?;
    shape.filter_path = params.get("filter_path").map(FilterPath::parse).transpose()?.flatten();
    Ok(())
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            matches!(parts.next(), Some("gzip" | "x-gzip" | "*"))
                && !parts.any(|parameter| matches!(parameter, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
        })
}

/// Runs an action when the returned guard is dropped.
fn scope_guard<F: FnMut() + Send + 'static>(action: F) -> impl Drop + Send + 'static {
    struct Guard<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Guard<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    Guard(action)
}
