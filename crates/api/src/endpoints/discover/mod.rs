//! `_firn/discover`: all data of an event search page, as one stream.
//!
//! A request ([`request`]) consists of stages ([`stages`]) that run independently ([`run_stages`]). They post results
//! on a board ([`crate::state::partial_results`]), which stores the latest state for its readers ([`event_stream`]):
//! the connection of the request, and for a background run any later connection of its caller. All searches go through
//! the `Engine` trait, so this works with every engine.
//!
//! A run ends with its connection unless it runs in the background; the server has no other state of its clients.
//!
//! Further endpoints have single answers: the available sources ([`sources`], [`fields`]), completions of a query
//! ([`suggest`]), one event ([`event`]), its neighbours ([`surrounding`]), and an export of all events as a file
//! ([`export`]).

mod csv;
mod event;
mod event_stream;
mod export;
mod field_hints;
mod field_usage;
mod fields;
mod highlights;
mod interval;
mod known_fields;
mod language;
mod live_tail;
mod opening;
mod request;
mod run;
mod run_stages;
mod sources;
mod stage_run;
mod stages;
mod suggest;
mod surrounding;
mod time_range;

use std::sync::Arc;
use std::time::Duration;

use firn_engine::{RequestContext, Scope};
use firn_query::Cancel;
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;

use crate::endpoints::call::Call;
use crate::state::discover_store::Discover;
use crate::state::edge::Edge;
use crate::state::partial_results::ResultKey;
use crate::state::retained;
use crate::wire::error::ApiError;
use crate::wire::reply::Reply;
use event_stream::Wire;
use opening::{body, opened, resolve};
use request::{DiscoverRequest, Frozen};
use run::Run;

pub(crate) use event::{PARAMS as EVENT_PARAMS, event};
pub(crate) use export::export;
pub(crate) use fields::fields;
pub(crate) use live_tail::tail;
pub(crate) use sources::{PARAMS as SOURCES_PARAMS, sources};
pub(crate) use suggest::suggest;
pub(crate) use surrounding::surrounding;

/// Action of a background run in `_tasks`.
const RUN_ACTION: &str = "indices:data/read/firn/discover/run";
/// Retention of a background run: over a long weekend.
const KEEP_ALIVE: Duration = Duration::from_secs(3 * 86_400);

/// `POST /_firn/discover`.
pub(crate) async fn discover(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let wire = Wire::of(&call);
    let now_ms = edge.now_ms();
    let request = DiscoverRequest::read(body(&call)?, now_ms)?;
    let (metadata, indices) = resolve(&edge, &call, &request.question).await?;
    // The run counts as one search of its tenant until it ends, which may be after this request.
    let permit = edge.admit(&call.ctx.scope, "indices:data/read/search")?;
    let goes_on = request.frozen == Frozen::Background;
    let ctx = RequestContext {
        cancel: match goes_on {
            true => Cancel::default(),
            false => call.ctx.cancel.clone(),
        },
        ..call.ctx.clone()
    };
    let discover = edge.discovers.open(
        Arc::clone(&ctx.scope),
        ctx.cancel.clone(),
        goes_on.then(|| retained::after(now_ms, KEEP_ALIVE)),
        &*edge.config.random,
    )?;
    let mut claim = Claim {
        edge: Arc::clone(&edge),
        discover: Arc::clone(&discover),
        run: None,
        goes_on,
    };
    discover.answer.post(
        ResultKey::Opened,
        opened(&discover.id, &request.question, &indices, now_ms),
    )?;
    let task = goes_on.then(|| {
        edge.tasks
            .start(RUN_ACTION, format!("POST {}", call.path), now_ms, &ctx)
    });
    let run = Run {
        edge: Arc::clone(&edge),
        ctx,
        question: request.question.clone(),
        frozen: request.frozen,
        metadata,
        indices,
        board: Arc::clone(&discover.answer),
        timings: Arc::clone(&call.timings),
        newest: OnceCell::new(),
        known: OnceCell::new(),
        in_use: OnceCell::new(),
        _permit: permit,
        _task: task,
    };
    let background = goes_on.then(|| (Arc::clone(&edge), Arc::clone(&discover)));
    let going = async move {
        run_stages::run_all(run, request).await;
        if let Some((edge, discover)) = background {
            edge.discovers.end(&discover, discover.answer.bytes());
        }
    };
    claim.run = Some(tokio::spawn(going).abort_handle());
    if goes_on {
        let discovers = Arc::clone(&edge.discovers);
        tokio::spawn(discovers.expire(Arc::clone(&discover), Arc::clone(&edge.config.now_ms)));
    }
    Ok(reply(&discover, wire, claim))
}

/// `GET /_firn/discover/{id}`: streams the current state of a run and all later events.
pub(crate) async fn get(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let wire = Wire::of(&call);
    let discover = edge
        .discovers
        .find(&call.ctx.scope, call.capture("id"), edge.now_ms())?;
    Ok(reply(&discover, wire, ()))
}

/// Streams the events of a board; `held` is dropped with the connection.
fn reply(discover: &Discover, wire: Wire, held: impl Send + 'static) -> Reply {
    let pieces = event_stream::read(Arc::clone(&discover.answer), wire, held);
    wire.reply(event_stream::with_keep_alive(pieces, wire), false)
}

/// `DELETE /_firn/discover/{id}`: ends the run if it is still active. An admin of its tenant may do so too.
pub(crate) async fn delete(edge: Arc<Edge>, call: Call) -> Result<Reply, ApiError> {
    let may_end = |creator: &Scope| call.may_end(creator);
    let discover = edge.discovers.find_where(call.capture("id"), edge.now_ms(), may_end)?;
    edge.discovers.remove(&discover);
    Ok(Reply::acknowledged())
}

/// Ends a run with its connection, unless it runs in the background.
struct Claim {
    edge: Arc<Edge>,
    discover: Arc<Discover>,
    /// `None`: the run was not started.
    run: Option<AbortHandle>,
    goes_on: bool,
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.goes_on && self.run.is_some() {
            return;
        }
        self.edge.discovers.remove(&self.discover);
        if let Some(run) = &self.run {
            run.abort();
        }
    }
}
