//! Paging: searches of points in time, and scrolls.

use std::sync::Arc;

use firn_engine::RequestContext;
use firn_engine::context::{ContextKind, OpenPointInTime, OpenedPointInTime, ScrollRequest};
use firn_model::{Error, ErrorKind, Result};
use firn_query::aggs::Aggregations;
use firn_query::search::{SearchRequest, SearchResponse, SearchShards, TrackTotalHits};
use firn_search::{FailedShard, can_match};

use super::addressed::Addressed;
use super::addressing::{ShardSelection, check_behind};
use super::contexts::{InUse, Scroll};
use super::search_service::SearchService;
use super::searching::with_failures;

impl SearchService {
    /// Opens a point in time over the searchable documents.
    pub(super) fn open_point_in_time(
        &self,
        ctx: &RequestContext,
        request: &OpenPointInTime,
    ) -> Result<OpenedPointInTime> {
        let keep_alive_ms = self.contexts.keep_alive_ms(Some(request.keep_alive))?;
        let now_ms = self.node.now_ms();
        let mut addressed = self.address(ctx, &ShardSelection::routed(&request.target, &request.routing), now_ms)?;
        let mut shards = SearchShards {
            total: addressed.len() as u32,
            ..SearchShards::default()
        };
        if let Some(filter) = &request.index_filter {
            let mut remaining = Vec::new();
            for shard in addressed {
                match &shard.search {
                    Ok(search) if !can_match(search, filter, now_ms, ctx)? => shards.skipped += 1,
                    _ => remaining.push(shard),
                }
            }
            addressed = remaining;
        }
        check_all(&addressed, request.allow_partial_results)?;
        for failed in addressed.iter().filter_map(|shard| shard.search.as_ref().err()) {
            shards
                .failures
                .push((failed.index.clone(), failed.shard, failed.error.clone()));
        }
        shards.successful = shards.total - shards.failures.len() as u32;
        let context = self.contexts.open(&ctx.scope, addressed, keep_alive_ms, now_ms, None)?;
        self.forget_vanished(&context.id, ContextKind::PointInTime);
        Ok(OpenedPointInTime {
            id: context.id.clone(),
            created_ms: context.created_ms,
            shards,
        })
    }

    /// Searches a point in time.
    pub(super) fn search_point_in_time(
        &self,
        ctx: &RequestContext,
        mut request: SearchRequest,
    ) -> Result<SearchResponse> {
        let Some(pit) = request.point_in_time.clone() else {
            return Err(Error::internal("a search without a point in time"));
        };
        request.break_ties();
        let keep_alive_ms = match pit.keep_alive {
            Some(keep_alive) => Some(self.contexts.keep_alive_ms(Some(keep_alive))?),
            None => None,
        };
        let clock = || self.node.now_ms();
        let used = self
            .contexts
            .use_context(&ctx.scope, ContextKind::PointInTime, &pit.id, keep_alive_ms, &clock)?;
        let held = used.held()?;
        let (response, _) = self.search_shards(
            &held.slots,
            held.shards,
            Arc::new(request),
            ctx,
            self.node.now_ms(),
            None,
        )?;
        let mut response = with_failures(response, held.behind);
        response.pit_id = Some(pit.id);
        Ok(response)
    }

    /// Runs the first page of a scroll; the scroll stays open unless that fails.
    pub(super) fn open_scroll(&self, ctx: &RequestContext, request: SearchRequest) -> Result<SearchResponse> {
        let keep_alive_ms = self.contexts.keep_alive_ms(request.scroll)?;
        let now_ms = self.node.now_ms();
        let mut first = request;
        // As in Elasticsearch, a scroll always counts all hits: a client that reads all of them wants the total.
        first.track_total_hits = TrackTotalHits::Exact;
        let addressed = self.address(ctx, &ShardSelection::of(&first), now_ms)?;
        check_behind(&addressed, first.allow_partial_results)?;
        let later = SearchRequest {
            aggs: Aggregations::default(),
            track_total_hits: TrackTotalHits::No,
            ..first.clone()
        };
        let scroll = Scroll {
            request: Arc::new(later),
            now_ms,
            after: None,
            total: None,
            max_score: None,
        };
        let context = self
            .contexts
            .open(&ctx.scope, addressed, keep_alive_ms, now_ms, Some(scroll))?;
        self.forget_vanished(&context.id, ContextKind::Scroll);
        let clock = || self.node.now_ms();
        let outcome = self
            .contexts
            .use_context(&ctx.scope, ContextKind::Scroll, &context.id, None, &clock)
            .and_then(|used| self.read_page(ctx, &used, Some(Arc::new(first))));
        if outcome.is_err() {
            // No client has its id.
            self.contexts.close(
                &ctx.scope,
                ContextKind::Scroll,
                &firn_engine::context::CloseContexts::Ids(vec![context.id.clone()]),
            )?;
        }
        outcome
    }

    /// Reads the next page of a scroll.
    pub(super) fn next_page(&self, ctx: &RequestContext, request: &ScrollRequest) -> Result<SearchResponse> {
        let keep_alive_ms = match request.keep_alive {
            Some(keep_alive) => Some(self.contexts.keep_alive_ms(Some(keep_alive))?),
            None => None,
        };
        let clock = || self.node.now_ms();
        let used = self
            .contexts
            .use_context(&ctx.scope, ContextKind::Scroll, &request.id, keep_alive_ms, &clock)?;
        self.read_page(ctx, &used, None)
    }

    /// Reads the page after the last one; if a page fails, the next request reads it again.
    fn read_page(
        &self,
        ctx: &RequestContext,
        used: &InUse<'_>,
        first: Option<Arc<SearchRequest>>,
    ) -> Result<SearchResponse> {
        let id = &used.context.id;
        let Some(scroll) = &used.context.scroll else {
            return Err(Error::internal("a scroll without a state"));
        };
        let mut scroll = scroll.try_lock().ok_or_else(|| {
            Error::new(
                ErrorKind::Rejected,
                format!("the scroll [{id}] is being read by another request"),
            )
        })?;
        let held = used.held()?;
        let is_first = first.is_some();
        let request = first.unwrap_or_else(|| Arc::clone(&scroll.request));
        let (response, last) = self.search_shards(
            &held.slots,
            held.shards,
            request,
            ctx,
            scroll.now_ms,
            scroll.after.as_ref(),
        )?;
        let mut response = with_failures(response, held.behind);
        if is_first {
            (scroll.total, scroll.max_score) = (response.total, response.max_score);
        }
        (response.total, response.max_score) = (scroll.total, scroll.max_score);
        if last.is_some() {
            scroll.after = last;
        }
        response.scroll_id = Some(id.clone());
        Ok(response)
    }

    /// Releases shards of indices that were deleted or closed before the context was registered.
    fn forget_vanished(&self, id: &str, kind: ContextKind) {
        let state = self.node.state();
        for uuid in self.contexts.indices_of(kind, id) {
            let lives = |index: &firn_model::metadata::IndexMetadata| index.uuid == uuid && !index.closed;
            if !state.metadata.indices.values().any(|index| lives(index)) {
                self.contexts.forget_index(&uuid);
            }
        }
    }
}

/// Fails if a shard fails or lacks documents and the request does not allow partial results.
fn check_all(addressed: &[Addressed], allow_partial: bool) -> Result<()> {
    let failed: Vec<&FailedShard> = addressed
        .iter()
        .filter_map(|shard| shard.search.as_ref().err())
        .collect();
    match failed.first() {
        Some(first) if !allow_partial || failed.len() == addressed.len() => Err(first.error.clone()),
        _ => check_behind(addressed, allow_partial),
    }
}
