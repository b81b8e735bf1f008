//! Point in time for answers that take more than one search.

use std::sync::Arc;
use std::time::Duration;

use firn_engine::context::{CloseContexts, ContextKind, OpenPointInTime};
use firn_engine::{RequestContext, Result};
use firn_query::query::Query;
use firn_query::search::{IndexTarget, SearchRequest, SearchResponse};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::endpoints::search;
use crate::endpoints::search::whole_failure;
use crate::state::edge::Edge;
use crate::wire::error::ApiError;

/// Keep-alive after the last search. A reader that reads nothing for so long counts as gone.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(300);

/// Point in time that is closed when this value is dropped.
pub(crate) struct SharedPointInTime {
    edge: Arc<Edge>,
    ctx: RequestContext,
    id: String,
}

impl SharedPointInTime {
    /// Opens a point in time over all indices of a target, or over the shards of `routing` if it is not empty. Of
    /// frozen indices it covers only what can hold an event that matches `filter`. Fails if one of the shards does not
    /// serve.
    pub(crate) async fn open(
        edge: &Arc<Edge>,
        ctx: &RequestContext,
        target: &IndexTarget,
        routing: Vec<String>,
        filter: Option<Query>,
    ) -> Result<Self, ApiError> {
        let request = OpenPointInTime {
            target: target.clone(),
            routing,
            keep_alive: KEEP_ALIVE,
            index_filter: filter,
            allow_partial_results: false,
        };
        let opened = edge.engine.open_point_in_time(ctx, request).await;
        let opened = opened.map_err(|error| whole_failure(edge, error, &target.expression))?;
        Ok(Self {
            edge: Arc::clone(edge),
            ctx: ctx.clone(),
            id: opened.id,
        })
    }

    /// Builds a search of this point in time; `rest` is the search body without the query.
    pub(crate) fn request(&self, query: &Value, mut rest: Value) -> Result<SearchRequest> {
        rest["query"] = query.clone();
        rest["pit"] = json!({"id": self.id, "keep_alive": format!("{}s", KEEP_ALIVE.as_secs())});
        let request = SearchRequest::parse(IndexTarget::default(), Some(&rest))?;
        request.check_context()?;
        Ok(request)
    }

    /// Runs a search.
    pub(crate) async fn search(&self, request: SearchRequest) -> Result<SearchResponse, ApiError> {
        search::run(&self.edge, &self.ctx, request, b"").await
    }
}

impl Drop for SharedPointInTime {
    fn drop(&mut self) {
        let (edge, ctx) = (Arc::clone(&self.edge), self.ctx.clone());
        let which = CloseContexts::Ids(vec![std::mem::take(&mut self.id)]);
        // Without a runtime the server has stopped, and its points in time with it.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = edge.engine.close_contexts(&ctx, ContextKind::PointInTime, which).await {
                    tracing::warn!(%error, "closing a point in time failed; it stays open until it expires");
                }
            });
        }
    }
}
