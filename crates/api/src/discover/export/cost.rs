//! What an export would fetch from snapshot repositories: told before it is begun, and held against what it may.

use std::sync::Arc;

use firn_engine::cost::SearchCost;
use firn_engine::search::SearchRequest;
use firn_engine::{Error, ErrorKind, RequestContext, Work};
use serde_json::{Map, Value, json};

use super::super::request::{Frozen, Question};
use super::super::step::{estimate_of, is_free};
use super::reading::BATCH_MAX;
use crate::error::ApiError;
use crate::request::Edge;
use crate::search;

/// Events that lie in one block of documents, about: who reads one of them has fetched the others. So many are told by
/// engines with a block for each.
const BLOCK_EVENTS: u64 = 100;
/// What an event takes of the first so many, which may lie in a block of documents each, in pages; of further ones each as much as
/// a document takes in the mean, since they share their blocks.
const EVENT_BYTES: u64 = 20 << 10;
/// Requests of a batch of events that wait for each other: where they lie, and the events.
const BATCH_ROUNDS: u64 = 2;
/// The operator's limit, as errors name it.
const NODE_LIMIT: &str = "search.max_repository_bytes";
/// A tenant's.
const TENANT_LIMIT: &str = "search_repository_bytes";

/// What an export may fetch.
pub(super) struct Allowance {
    /// Bytes, and which limit that is; `None`: as many as it takes.
    max: Option<(u64, &'static str)>,
    /// Of all of its searches.
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

    /// Fails if so much would be fetched.
    fn check_estimate(&self, cost: &SearchCost) -> Result<(), Error> {
        match self.max {
            Some((max, name)) if cost.bytes > max => {
                let reason = format!(
                    "the export was not begun: it would fetch about {cost}, from snapshot repositories, and [{name}] allows \
                     [{max}] bytes. Narrow it in time or to fewer indices"
                );
                let mut details = limit(name, max);
                details.insert("estimate".to_owned(), Value::Object(estimate_of(cost)));
                Err(Error::new(ErrorKind::IllegalArgument, reason).with_details(details))
            }
            _ => Ok(()),
        }
    }

    /// Fails once more was fetched than may be.
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

/// What the export may fetch, if it may be begun. Fails, with the estimate, if that takes a word of who asks for it, and if
/// it takes more than is allowed.
pub(super) async fn agree(
    edge: &Edge,
    ctx: &RequestContext,
    question: &Question,
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

/// Nothing is wrong: who asks is to say that it is worth that.
fn asks(cost: &SearchCost) -> Error {
    let reason = format!(
        "the export was not begun: it would fetch about {cost}, from snapshot repositories, which takes about [{}] ms. To begin it \
         all the same, ask with [frozen] set to [run]",
        cost.time_ms
    );
    let details = Map::from_iter([("estimate".to_owned(), Value::Object(estimate_of(cost)))]);
    Error::new(ErrorKind::Conflict, reason).with_details(details)
}

/// What finding the places of the events takes, and reading them in batches. The events are counted for that, as a sample of them
/// would count them.
async fn estimate(edge: &Edge, ctx: &RequestContext, question: &Question) -> Result<SearchCost, ApiError> {
    let count_all = || json!({"size": 0, "track_total_hits": true});
    let events = count(edge, ctx, question.search(count_all())?).await?;
    // Events that others stand between are fetched with some of those; but with none of another time.
    let around = match events == 0 || question.conditions().is_empty() {
        true => events,
        false => count(edge, ctx, question.search_for(question.time_dsl(), count_all())?).await?,
    };
    let further = events.saturating_sub(BLOCK_EVENTS).saturating_mul(BLOCK_EVENTS);
    let fetched = events + further.min(around.saturating_sub(events));
    let mut request = question.search(json!({"size": 0, "sort": question.sort, "track_total_hits": false}))?;
    request.size = usize::try_from(fetched).unwrap_or(usize::MAX);
    let mut cost = edge.engine.search_cost(ctx, request).await?;
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

/// So many events are read, of those that lie in the same blocks all: they take no more than that. The estimate of a search knows
/// nothing of it, and has a block for each.
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

/// Each batch is looked for and read by itself.
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
