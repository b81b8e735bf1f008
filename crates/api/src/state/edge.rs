//! State of the REST edge that all requests share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use firn_auth::Identity;
use firn_engine::{Engine, Error, ErrorKind, FairSemaphore};
use firn_model::metadata::{self, IndexMetadata, Metadata};
use firn_model::tenant::TenantId;
use firn_pipeline::rule_history::OpenHoleList;
use firn_query::search::IndexTarget;
use http::Response;
use hyper::body::Body as _;

use crate::state::accounts::Accounts;
use crate::state::async_search_store::AsyncSearches;
use crate::state::auth::Gate;
use crate::state::config::ApiConfig;
use crate::state::discover_store::Discovers;
use crate::state::enrich_tables::EnrichTables;
use crate::state::host::HostMeter;
use crate::state::ingest::Ingest;
use crate::state::metrics::Metrics;
use crate::state::partition_claims::PartitionClaims;
use crate::state::rule_definitions::RuleDefinitions;
use crate::state::tasks::Tasks;
use crate::wire::body::{BodyBudget, BodyShare};
use crate::wire::error::ApiError;
use crate::wire::streaming::ResponseBody;

/// State shared by all requests.
pub(crate) struct Edge {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) config: ApiConfig,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) metrics: Metrics,
    /// Meter of the process and the host.
    pub(crate) host_meter: HostMeter,
    pub(crate) bodies: Arc<BodyBudget>,
    /// Budget of answer bytes that clients have not read yet.
    pub(crate) unread: Arc<BodyBudget>,
    /// Requests since the start, including those in progress.
    pub(crate) requests: AtomicU64,
    /// Permits of requests in progress.
    pub(crate) permits: Arc<FairSemaphore<Option<TenantId>>>,
    pub(crate) accounts: Accounts,
    /// Running and retained async searches.
    pub(crate) async_searches: Arc<AsyncSearches>,
    /// Permits of deletes by query that run in the background.
    pub(crate) by_queries: Arc<FairSemaphore<Option<TenantId>>>,
    /// Records of enrich policies.
    pub(crate) enrich: EnrichTables,
    /// Partitions that workers write.
    pub(crate) partition_claims: PartitionClaims,
    /// Ingest pipelines.
    pub(crate) ingest: Ingest,
    /// What lists show of detection rules.
    pub(crate) rule_definitions: RuleDefinitions,
    /// Holes in the coverage of detection rules.
    pub(crate) open_holes: OpenHoleList,
    /// Running and retained runs of `_firn/discover`.
    pub(crate) discovers: Arc<Discovers>,
    pub(crate) gate: Gate,
    /// Identity of every caller while security is off.
    pub(crate) anonymous: Arc<Identity>,
}

impl Edge {
    /// Reserves the memory of an answer until its client has read it; small answers need none.
    pub(crate) fn room_for(
        &self,
        response: &Response<ResponseBody>,
        tenant: Option<TenantId>,
    ) -> Result<BodyShare, ApiError> {
        const SMALL_BYTES: u64 = 64 << 10;
        let bytes = response.body().size_hint().exact().unwrap_or(0);
        let counted = if bytes <= SMALL_BYTES { 0 } else { bytes };
        let share = self.unread.take(tenant, counted);
        share.map_err(|before| {
            let limit = self.unread.limit();
            let reason = format!(
                "[unread_answers] Data too large, data for [<http_answer>] would be [{}b], which is larger than the limit \
                 of [{limit}b]: clients have not read earlier answers yet",
                before + counted
            );
            Error::new(ErrorKind::CircuitBreaking, reason).into()
        })
    }

    /// Returns the time of the clock.
    pub(crate) fn now_ms(&self) -> i64 {
        (self.config.now_ms)()
    }

    /// Returns the host part of the address.
    pub(crate) fn host(&self) -> &str {
        self.config
            .http_address
            .rsplit_once(':')
            .map_or(self.config.http_address.as_str(), |(host, _)| host)
    }

    /// Returns the indices that a target selects.
    pub(crate) fn resolve<'a>(
        &self,
        target: &IndexTarget,
        metadata: &'a Metadata,
    ) -> Result<Vec<&'a Arc<IndexMetadata>>, ApiError> {
        let resolved = metadata::resolve(&target.expression, target.options, metadata, self.now_ms())?;
        Ok(resolved
            .iter()
            .filter_map(|index| metadata.indices.get(&index.name))
            .collect())
    }

    /// Returns the names of the indices that a target selects.
    pub(crate) fn resolve_names(&self, target: &IndexTarget, metadata: &Metadata) -> Result<Vec<String>, ApiError> {
        let resolved = metadata::resolve(&target.expression, target.options, metadata, self.now_ms())?;
        Ok(resolved.into_iter().map(|index| index.name).collect())
    }
}
