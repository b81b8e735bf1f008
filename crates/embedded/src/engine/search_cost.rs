//! Cost estimate of a search: bytes it would fetch from repositories, checked against limits before it runs.

use std::sync::Arc;

use firn_engine::RequestContext;
use firn_engine::cost::{KindCost, SearchCost};
use firn_model::{Error, ErrorKind, Result};
use firn_query::search::{SearchRequest, SearchResponse};
use firn_search::{SearchReads, ShardSearch, Unopened, search_page};
use firn_segment::splits::dry_run::metered;
use firn_storage::object::Operation;
use firn_storage::split::PartKind;
use serde_json::{Map, Value};

use super::addressed::Addressed;
use super::addressing::ShardSelection;
use super::search_service::SearchService;
use crate::mounts::{SampledOut, sampled, sampled_alike};

/// Assumed latency of a request to a store without measurements, ms.
const LATENCY_MS: u64 = 30;
/// Assumed throughput with many requests in flight, bytes per ms: one gigabit per second.
const BYTES_PER_MS: u64 = 125_000;
/// Name of the operator's limit in errors.
const NODE_LIMIT: &str = "search.max_repository_bytes";
/// Name of a tenant's limit in errors.
const TENANT_LIMIT: &str = "search_repository_bytes";

impl SearchService {
    /// See [`firn_engine::Engine::search_cost`].
    pub(super) fn search_cost(&self, ctx: &RequestContext, request: &SearchRequest) -> Result<SearchCost> {
        self.estimate(ctx, request, 0)
    }

    /// Estimates the bytes that a search would fetch at most. More than `enough` is returned only if not all data is
    /// cached locally.
    fn estimate(&self, ctx: &RequestContext, request: &SearchRequest, enough: u64) -> Result<SearchCost> {
        if request.point_in_time.is_some() {
            return Err(Error::not_implemented(
                "estimating what a search of a point in time fetches",
            ));
        }
        if ctx.scope.tenant_id().is_some() {
            // As in a profile, nothing may depend on what term filters know of other tenants' values.
            let profiled = SearchRequest {
                profile: true,
                ..request.clone()
            };
            return self.estimate_for_tenant(ctx, profiled);
        }
        let now_ms = self.node.now_ms();
        let wanted = ShardSelection::narrowed(request);
        let (addressed, left_out) = sampled(|| self.address_narrowed(ctx, &wanted, now_ms));
        let (addressed, skipped) = addressed?;
        let shards = addressed.len() as u32 + skipped;
        let searches = searches(addressed);
        let limits = self.search_limits();
        let mut reads = firn_search::cost(&searches, &Arc::new(request.clone()), ctx, now_ms, &limits)?;
        let sampled = reads.splits;
        let is_near = reads.bytes() == 0 && left_out.splits == 0;
        scale(&mut reads, left_out);
        let searched = reads.clone();
        reads.add_unknown(left_out.splits, request);
        // Only the search itself knows which documents it fetches: if all data is local, the search is tried.
        if is_near && reads.bytes() > enough && self.is_at_hand(ctx, searches, request, now_ms)? {
            reads = searched;
        }
        reads.rounds += u64::from(left_out.footers.0 > 0);
        reads.add(PartKind::Footer, left_out.footers);
        let cost = SearchCost {
            shards,
            skipped,
            sampled,
            time_ms: self.time_of(&reads, self.latency_ms()),
            ..of_reads(&reads)
        };
        Ok(cost)
    }

    /// Estimates for a tenant: nothing depends on writes or searches of other tenants ([`firn_search::cost_for_tenant`]).
    fn estimate_for_tenant(&self, ctx: &RequestContext, request: SearchRequest) -> Result<SearchCost> {
        let now_ms = self.node.now_ms();
        let wanted = ShardSelection::narrowed(&request);
        let (addressed, left_out) = sampled_alike(|| self.address_narrowed(ctx, &wanted, now_ms));
        let (addressed, skipped) = addressed?;
        let shards = addressed.len() as u32 + skipped;
        let (searches, limits) = (searches(addressed), self.search_limits());
        let request = Arc::new(request);
        let unopened = Unopened {
            splits: left_out.splits,
            footers: left_out.footers,
        };
        let reads = firn_search::cost_for_tenant(&searches, &request, ctx, now_ms, &limits, unopened)?;
        Ok(SearchCost {
            shards,
            skipped,
            sampled: reads.splits - left_out.splits,
            time_ms: self.time_of(&reads, LATENCY_MS),
            ..of_reads(&reads)
        })
    }

    /// Refuses a search that would fetch more than the limit; the error has the estimate.
    pub(super) fn check_cost(&self, ctx: &RequestContext, request: &SearchRequest) -> Result<()> {
        let node = self
            .node
            .config
            .search_repository_bytes_max
            .map(|max| (max, NODE_LIMIT));
        let tenant = ctx.repository_bytes_max.map(|max| (max, TENANT_LIMIT));
        let Some((max, name)) = node.into_iter().chain(tenant).min() else {
            return Ok(());
        };
        if request.point_in_time.is_some() || !self.node.state().has_mounted() {
            return Ok(());
        }
        match self.estimate(ctx, request, max)?.bytes > max {
            true => Err(refusal(&self.search_cost(ctx, request)?, max, name)),
            false => Ok(()),
        }
    }

    /// Whether a search finds all data locally; tested by running it without any wait.
    fn is_at_hand(
        &self,
        ctx: &RequestContext,
        searches: Vec<ShardSearch>,
        request: &SearchRequest,
        now_ms: i64,
    ) -> Result<bool> {
        let ctx = ctx.at_hand();
        let mut request = request.clone();
        self.resolve_boosts(&ctx, &mut request)?;
        let shards = searches.into_iter().map(Ok).collect();
        let limits = self.search_limits();
        let run = || {
            search_page(
                shards,
                Arc::new(request),
                &self.pools.search,
                &ctx,
                now_ms,
                limits,
                None,
            )
        };
        let outcome = metered(&ctx, run);
        ctx.check()?;
        // Other failures are reported when the search runs.
        let is_whole = |response: &SearchResponse| !response.timed_out && response.shards.failures.is_empty();
        Ok(outcome.is_ok_and(|(response, _)| is_whole(&response)) && !ctx.waiting().is_timed_out())
    }

    /// Returns the mean latency of store requests so far, ms.
    fn latency_ms(&self) -> u64 {
        let (mut requests, mut ms) = (0, 0);
        for (_, meter) in self.node.config.object_stores.meters() {
            let stats = meter.stats(Operation::Get);
            requests += stats.requests;
            ms += stats.time.as_millis() as u64;
        }
        match requests {
            0 => LATENCY_MS,
            _ => (ms / requests).max(1),
        }
    }

    /// Estimates how long the fetches take, ms.
    fn time_of(&self, reads: &SearchReads, latency_ms: u64) -> u64 {
        let turns = reads.requests() / self.node.config.object_stores.limit().count().max(1) as u64;
        (reads.rounds.saturating_add(turns))
            .saturating_mul(latency_ms)
            .saturating_add(reads.bytes() / BYTES_PER_MS)
    }
}

/// Converts reads to a [`SearchCost`]; the caller sets shards and time.
fn of_reads(reads: &SearchReads) -> SearchCost {
    let kinds = PartKind::ALL.into_iter().zip(reads.kinds);
    SearchCost {
        splits: reads.splits,
        requests: reads.requests(),
        bytes: reads.bytes(),
        rounds: reads.rounds,
        stored: reads.stored,
        kinds: kinds
            .map(|(kind, (requests, bytes))| (kind.name(), KindCost { requests, bytes }))
            .collect(),
        ..SearchCost::default()
    }
}

fn searches(addressed: Vec<Addressed>) -> Vec<ShardSearch> {
    addressed.into_iter().filter_map(|shard| shard.search.ok()).collect()
}

/// Extrapolates a sample: splits that were left out count as the mean of the sampled ones.
fn scale(reads: &mut SearchReads, left_out: SampledOut) {
    let opened = reads.splits;
    reads.splits += left_out.splits;
    if opened == 0 {
        return;
    }
    let scaled = |count: u64| (u128::from(count) * u128::from(reads.splits) / u128::from(opened)) as u64;
    reads.kinds = reads.kinds.map(|(requests, bytes)| (scaled(requests), scaled(bytes)));
}

/// Returns the refusal. Neither more time nor a retry helps, so it is an error of the request.
fn refusal(cost: &SearchCost, max: u64, name: &str) -> Error {
    let reason = format!(
        "the search was not run: it would fetch about {cost}, from snapshot repositories, and [{name}] allows [{max}] bytes. Narrow \
         it in time or to fewer indices, or ask for less"
    );
    let mut details = Map::new();
    details.insert("limit".to_owned(), name.into());
    details.insert("limit_bytes".to_owned(), max.into());
    details.insert("estimate".to_owned(), Value::Object(cost.print()));
    Error::new(ErrorKind::IllegalArgument, reason).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_outside_of_the_sample_count_as_the_mean() {
        let mut reads = SearchReads::default();
        reads.add(PartKind::Columns, (8, 400));
        reads.splits = 4;
        let left_out = SampledOut {
            splits: 12,
            footers: (0, 0),
        };
        scale(&mut reads, left_out);
        assert_eq!((reads.splits, reads.requests(), reads.bytes()), (16, 32, 1600));
        let mut none = SearchReads::default();
        scale(&mut none, left_out);
        assert_eq!((none.splits, none.bytes()), (12, 0));
    }

    #[test]
    fn a_refusal_contains_the_estimate() {
        let cost = SearchCost {
            bytes: 70,
            requests: 3,
            splits: 2,
            ..SearchCost::default()
        };
        let error = refusal(&cost, 50, NODE_LIMIT);
        assert_eq!(error.kind(), ErrorKind::IllegalArgument);
        assert!(
            error.reason().contains("[70] bytes in [3] requests, of [2] splits"),
            "{error}"
        );
        let details = error.details().unwrap();
        assert_eq!(
            (&details["limit_bytes"], &details["estimate"]["requests"]),
            (&50.into(), &3.into())
        );
    }
}
