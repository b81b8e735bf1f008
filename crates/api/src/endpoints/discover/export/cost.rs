//! Cost control of exports from snapshot repositories: the estimate before the start, and the limits during the run.

use std::sync::Arc;

use firn_engine::cost::SearchCost;
use firn_engine::{Error, ErrorKind, RequestContext, Work};
use firn_query::search::SearchRequest;
use serde_json::{Map, Value, json};

use super::super::request::{EventSelection, Frozen};
use super::super::stage_run::{estimate_of, is_free};
use super::reading::BATCH_MAX;
use crate::endpoints::search;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;

/// Approximate events per document block: reading one of them fetches the others. Engines that report a block per event
/// report that many.
const BLOCK_EVENTS: u64 = 100;
/// Bytes per event for the first `BLOCK_EVENTS`, which may each need a block, in pages. Further events take the mean
/// size of a document, since they share blocks.
const EVENT_BYTES: u64 = 20 << 10;
/// Sequential requests per batch of events: their positions, and the events.
const BATCH_ROUNDS: u64 = 2;
/// Name of the operator's limit in errors.
const NODE_LIMIT: &str = "search.max_repository_bytes";
/// Name of a tenant's limit in errors.
const TENANT_LIMIT: &str = "search_repository_bytes";

/// Bytes that an export may fetch.
pub(super) struct Allowance {
    /// Bytes and name of the limit; `None`: unlimited.
    max: Option<(u64, &'static str)>,
    /// Work of all its searches.
    work: Arc<Work>,
}

impl Allowance {
    fn of(edge: &Edge, ctx: &RequestContext) -> Self {
        let node = edge.config.discover.repository_bytes_max.map(|max| (max, NODE_LIMIT));
        let tenant = ctx.repository_bytes_max.map(|max| (max, TENANT_LIMIT));
        Self {
            max: node.into_iter().chain(tenant).min(),
            work: Arc::clone(&ctx.work),
        }
    }

    /// Fails if the estimate exceeds the limit.
    fn check_estimate(&self, cost: &SearchCost) -> Result<(), Error> {
        match self.max {
            Some((max, name)) if cost.bytes > max => {
                let reason = format!(
                    "the export was not started: it would fetch about {cost}, from snapshot repositories, and \
                     [{name}] allows [{max}] bytes. Narrow it in time or to fewer indices"
                );
                let mut details = limit(name, max);
                details.insert("estimate".to_owned(), Value::Object(estimate_of(cost)));
                Err(Error::new(ErrorKind::IllegalArgument, reason).with_details(details))
            }
            _ => Ok(()),
        }
    }

    /// Fails after more bytes were fetched than the limit allows.
    pub(super) fn check(&self) -> Result<(), Error> {
        let fetched = self.work.done().repository_bytes;
        match self.max {
            Some((max, name)) if fetched > max => {
                let reason = format!(
                    "the export has fetched [{fetched}] bytes from snapshot repositories, and [{name}] allows [{max}]"
                );
                Err(Error::new(ErrorKind::IllegalArgument, reason).with_details(limit(name, max)))
            }
            _ => Ok(()),
        }
    }
}

fn limit(name: &str, max: u64) -> Map<String, Value> {
    let details = json!({"limit": name, "limit_bytes": max});
    details.as_object().cloned().unwrap_or_default()
}

/// Returns the allowance of an export that may start. Fails with the estimate if the client must confirm it, or if it
/// exceeds the limit.
pub(super) async fn agree(
    edge: &Edge,
    ctx: &RequestContext,
    question: &EventSelection,
    frozen: Frozen,
    reads_repositories: bool,
) -> Result<Allowance, ApiError> {
    let allowance = Allowance::of(edge, ctx);
    if !reads_repositories || frozen != Frozen::Ask && allowance.max.is_none() {
        return Ok(allowance);
    }
    let cost = estimate(edge, ctx, question).await?;
    allowance.check_estimate(&cost)?;
    match frozen == Frozen::Ask && !is_free(&edge.config.discover, &cost) {
        true => Err(asks(&cost).into()),
        false => Ok(allowance),
    }
}

/// Builds the error by which the client is asked to confirm the cost.
fn asks(cost: &SearchCost) -> Error {
    let reason = format!(
        "the export was not started: it would fetch about {cost}, from snapshot repositories, in about [{}] ms. To \
         start it all the same, set [frozen] to [run]",
        cost.time_ms
    );
    let details = Map::from_iter([("estimate".to_owned(), Value::Object(estimate_of(cost)))]);
    Error::new(ErrorKind::Conflict, reason).with_details(details)
}

/// Estimates the cost of finding the positions of the events and of reading them in batches. It counts the events as a
/// sample would.
async fn estimate(edge: &Edge, ctx: &RequestContext, question: &EventSelection) -> Result<SearchCost, ApiError> {
    let count_all = || json!({"size": 0, "track_total_hits": true});
    let events = count(edge, ctx, question.search(count_all())?).await?;
    // Reading an event also fetches other events in its block, but none outside the time range.
    let around = match events == 0 || question.conditions().is_empty() {
        true => events,
        false => count(edge, ctx, question.search_for(question.time_dsl(), count_all())?).await?,
    };
    let further = events.saturating_sub(BLOCK_EVENTS).saturating_mul(BLOCK_EVENTS);
    let fetched = events + further.min(around.saturating_sub(events));
    let mut request = question.search(json!({"size": 0, "sort": question.sort, "track_total_hits": false}))?;
    request.size = usize::try_from(fetched).unwrap_or(usize::MAX);
    let mut cost = edge.engine.search_cost(ctx, request).await?.require()?;
    share_blocks(&mut cost, fetched);
    add_batches(&mut cost, events);
    Ok(cost)
}

async fn count(edge: &Edge, ctx: &RequestContext, mut request: SearchRequest) -> Result<u64, ApiError> {
    request.allow_partial_results = false;
    request.timeout = None;
    let response = search::run(edge, ctx, request, b"").await?;
    Ok(response.total.map_or(0, |total| total.value))
}

/// Limits the cost to `events` that share blocks. The estimate of a search ignores sharing and has one block per event.
fn share_blocks(cost: &mut SearchCost, events: u64) {
    let (bytes, documents) = cost.stored;
    let further = u128::from(events.saturating_sub(BLOCK_EVENTS)) * u128::from(bytes) / u128::from(documents.max(1));
    let first = u128::from(events.min(BLOCK_EVENTS)) * u128::from(EVENT_BYTES);
    let shared = u64::try_from(first + further).unwrap_or(u64::MAX);
    for (name, kind) in &mut cost.kinds {
        if *name == "store" && kind.bytes > shared {
            cost.bytes -= kind.bytes - shared;
            kind.bytes = shared;
        }
    }
}

/// Adds the cost of the batches, each with separate requests.
fn add_batches(cost: &mut SearchCost, events: u64) {
    if cost.requests == 0 {
        return;
    }
    let rounds = events.div_ceil(BATCH_MAX as u64).saturating_sub(1) * BATCH_ROUNDS;
    let round_ms = cost.time_ms / cost.rounds.max(1);
    cost.requests += rounds;
    cost.rounds += rounds;
    cost.time_ms += rounds * round_ms;
}

#[cfg(test)]
mod tests {
    use firn_engine::cost::KindCost;

    use super::*;

    fn allowance(max: u64) -> Allowance {
        Allowance {
            max: Some((max, TENANT_LIMIT)),
            work: Arc::default(),
        }
    }

    #[test]
    fn batches_wait_for_each_other() {
        let cost = |requests, events| {
            let mut cost = SearchCost {
                requests,
                rounds: 3,
                time_ms: 90,
                ..SearchCost::default()
            };
            add_batches(&mut cost, events);
            (cost.requests, cost.rounds, cost.time_ms)
        };
        assert_eq!(cost(10, 64), (10, 3, 90));
        assert_eq!(cost(10, 129), (14, 7, 210));
        assert_eq!(cost(0, 1_000_000), (0, 3, 90), "all of it is at hand");
    }

    #[test]
    fn events_share_their_blocks() {
        let check = |store: u64, events: u64| {
            let kind = |bytes| KindCost { requests: 1, bytes };
            let mut cost = SearchCost {
                bytes: store + 7,
                kinds: vec![("terms", kind(7)), ("store", kind(store))],
                stored: (1_000_000, 10_000),
                ..SearchCost::default()
            };
            share_blocks(&mut cost, events);
            assert_eq!(cost.bytes, cost.kinds[1].1.bytes + 7);
            cost.kinds[1].1.bytes
        };
        assert_eq!(check(500_000, 100), 500_000, "no more is missing");
        assert_eq!(check(50_000_000, 100), 100 * EVENT_BYTES);
        assert_eq!(check(50_000_000, 10_000), 100 * EVENT_BYTES + 9900 * 100);
    }

    #[test]
    fn a_limit_holds_before_and_on_the_way() {
        let cost = |bytes| SearchCost {
            bytes,
            requests: 2,
            ..SearchCost::default()
        };
        let limited = allowance(100);
        assert!(limited.check_estimate(&cost(100)).is_ok());
        let error = limited.check_estimate(&cost(101)).unwrap_err();
        let details = error.details().unwrap();
        assert_eq!(error.kind(), ErrorKind::IllegalArgument);
        assert_eq!(
            (
                &details["limit"],
                &details["estimate"]["bytes"],
                &details["estimate"]["requests"]
            ),
            (&json!(TENANT_LIMIT), &json!(101), &json!(2))
        );
        limited.work.add_fetched(1, 100);
        assert!(limited.check().is_ok());
        limited.work.add_fetched(1, 1);
        let error = limited.check().unwrap_err();
        assert!(error.reason().contains("[101] bytes"), "{error}");
        assert_eq!(error.details().unwrap()["limit_bytes"], 100);
    }
}
