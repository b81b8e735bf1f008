//! State of one run of a Discover request, which its stages share.

use std::collections::BTreeSet;
use std::sync::Arc;

use firn_auth::SearchPermit;
use firn_engine::RequestContext;
use firn_model::metadata::Metadata;
use firn_query::search::SearchResponse;
use tokio::sync::OnceCell;

use super::known_fields::{self, KnownFields};
use super::request::{EventSelection, Frozen};
use crate::state::edge::Edge;
use crate::state::partial_results::ResultBoard;
use crate::state::request_record::Timings;
use crate::state::tasks::TaskGuard;
use crate::wire::error::ApiError;

/// Running request.
pub(super) struct Run {
    pub(super) edge: Arc<Edge>,
    pub(super) ctx: RequestContext,
    pub(super) question: EventSelection,
    pub(super) frozen: Frozen,
    pub(super) metadata: Arc<Metadata>,
    /// Concrete indices of the request.
    pub(super) indices: Vec<String>,
    pub(super) board: Arc<ResultBoard>,
    pub(super) timings: Arc<Timings>,
    pub(super) newest: OnceCell<SearchResponse>,
    pub(super) known: OnceCell<KnownFields>,
    pub(super) in_use: OnceCell<BTreeSet<String>>,
    pub(super) _permit: Option<SearchPermit>,
    /// Task of a background run.
    pub(super) _task: Option<TaskGuard>,
}

impl Run {
    /// Returns the fields of the indices, read once for all stages.
    pub(super) async fn known(&self) -> Result<&KnownFields, ApiError> {
        let ask = || async {
            let metadata = self.edge.engine.metadata_with_mappings(&self.ctx).await?;
            Ok(known_fields::fields(&metadata, &self.indices))
        };
        self.known.get_or_try_init(ask).await
    }

    /// Returns the fields with a value in some event, in indices that may match the time range. Read once for all
    /// stages.
    pub(super) async fn in_use(&self) -> Result<&BTreeSet<String>, ApiError> {
        let ask = || known_fields::in_use(&self.edge, &self.ctx, &self.question);
        self.in_use.get_or_try_init(ask).await
    }

    /// Returns whether an index of a field's values finds the events of one value faster than a scan of all events.
    pub(super) async fn finds_by_value(&self, field: &str) -> Result<bool, ApiError> {
        let known = self.known().await?.get(field);
        let is_indexed = known.is_some_and(|known| matches!(known.field_type, "keyword" | "ip"));
        Ok(is_indexed && !self.reads_repositories())
    }

    /// Returns whether the request may fetch from a snapshot repository.
    pub(super) fn reads_repositories(&self) -> bool {
        known_fields::any_mounted(&self.metadata, &self.indices)
    }
}
