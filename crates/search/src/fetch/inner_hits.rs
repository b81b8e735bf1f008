//! `inner_hits` of `collapse`: searches within the group of each hit of the page.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firn_engine::RequestContext;
use firn_model::Result;
use firn_query::query::{Bool, Query};
use firn_query::search::{Collapse, Hit, InnerHits, InnerPage, SearchRequest};
use firn_scheduler::Pool;
use serde_json::Value;

use crate::run::collapse::group_query;
use crate::{SearchLimits, ShardSearch};

/// The inputs of the inner searches.
pub(crate) struct Surroundings<'a> {
    pub(crate) shards: Vec<ShardSearch>,
    pub(crate) request: &'a SearchRequest,
    pub(crate) pool: &'a Arc<Pool>,
    pub(crate) ctx: &'a RequestContext,
    pub(crate) now_ms: i64,
    pub(crate) limits: SearchLimits,
    /// Set if one of them timed out.
    pub(crate) timed_out: &'a AtomicBool,
}

impl Surroundings<'_> {
    /// Adds the inner hits to a hit that represents the group of `value`.
    pub(crate) fn expand(&self, collapse: &Collapse, value: &Value, hit: &mut Hit) -> Result<()> {
        // Only the outer search reports progress.
        let ctx = RequestContext {
            progress: None,
            ..self.ctx.clone()
        };
        for inner in &collapse.inner_hits {
            ctx.check()?;
            let request = self.inner_request(inner, group_query(&collapse.field, value));
            let shards = self.shards.iter().cloned().map(Ok).collect();
            let found = crate::search(
                shards,
                Arc::new(request),
                self.pool,
                &ctx,
                self.now_ms,
                self.limits.clone(),
            )?;
            self.timed_out.fetch_or(found.timed_out, Ordering::Relaxed);
            let page = InnerPage {
                total: found.total,
                max_score: found.max_score,
                hits: found.hits,
            };
            hit.inner_hits.push((inner.name.clone(), page));
        }
        Ok(())
    }

    fn inner_request(&self, inner: &InnerHits, group: Query) -> SearchRequest {
        let outer = self.request;
        let mut filter = vec![group];
        filter.extend(outer.post_filter.clone());
        let query = Query::Bool(Bool {
            must: vec![outer.query.clone()],
            filter,
            ..Bool::default()
        });
        SearchRequest {
            query,
            from: inner.from,
            size: inner.size,
            sort: inner.sort.clone(),
            track_scores: inner.track_scores,
            collapse: inner.collapse.clone().map(|field| Collapse {
                field,
                inner_hits: Vec::new(),
            }),
            shape: inner.shape.clone(),
            timeout: outer.timeout,
            allow_partial_results: outer.allow_partial_results,
            ..SearchRequest::new(outer.target.clone())
        }
    }
}
