//! Pruning conditions of a query: which shards and splits cannot hold a match, before any of them is opened.

use std::sync::Arc;

use firn_engine::RequestContext;
use firn_query::query::Query;
use firn_query::search::SearchRequest;
use firn_search::pruning::required_terms::Exact;
use firn_search::pruning::shard_conditions;

use super::addressing::restriction;
use super::search_service::SearchService;
use crate::mounts::Conditions;
use crate::node::state::IndexState;

/// Parts of a search that decide which shards and splits are pruned.
#[derive(Clone, Copy)]
pub(super) struct CanMatch<'a> {
    pub(super) query: &'a Query,
    /// The hits have scores, which also depend on documents that do not match.
    scored: bool,
    /// The answer shows what was read (`profile`).
    profiled: bool,
}

impl<'a> CanMatch<'a> {
    /// Returns the conditions of a search; its aggregations must not need documents that do not match the query.
    pub(super) fn of(request: &'a SearchRequest) -> Self {
        Self {
            query: &request.query,
            scored: shard_conditions::scores(request),
            profiled: request.profile,
        }
    }
}

impl SearchService {
    /// Returns conditions that every match in a mounted index meets, so that splits without a match are not opened.
    pub(super) fn conditions(
        &self,
        ctx: &RequestContext,
        index: &IndexState,
        filters: &[Query],
        matches: Option<CanMatch<'_>>,
        now_ms: i64,
    ) -> Conditions {
        let query = matches.map(|matches| matches.query);
        let metadata = &index.metadata;
        let restriction = restriction(ctx, index).flatten();
        let tenant = restriction.as_ref().map(|own| own.tenant.as_str());
        let tenant_field = metadata.settings.tenant_field.as_deref();
        let tenants = match (tenant, query) {
            (Some(own), _) => Some(vec![own.to_owned()]),
            (None, Some(query)) => tenant_field.and_then(|field| shard_conditions::tenants(field, query)),
            (None, None) => None,
        };
        let exact = Exact {
            mapping: &metadata.mapping,
            tag: index.tag,
            tenant_field,
            tenant,
        };
        Conditions {
            window: query.and_then(|query| shard_conditions::window(&metadata.mapping, query, now_ms)),
            tenants: tenants.map(Arc::from),
            exact: match matches {
                // A profile would show a tenant which values other tenants have.
                Some(matches) if matches.profiled && tenant.is_some() => Vec::new(),
                Some(matches) => exact.required(matches.query, filters),
                None => Vec::new(),
            },
            scored: matches.is_some_and(|matches| matches.scored),
        }
    }
}

/// Returns the shards of an index that may hold a match, by the conditions on time and tenant; `None`: all.
/// Conditions on tenants in a tenant's query are ignored: the answer counts skipped shards, and the count
/// would show which tenants are on which shard.
pub(super) fn matching_shards(
    ctx: &RequestContext,
    index: &IndexState,
    query: &Query,
    now_ms: i64,
) -> Option<Vec<u32>> {
    let metadata = &index.metadata;
    if let Some(range) = &metadata.settings.time_range_ms
        && let Some((first, last)) = shard_conditions::window(&metadata.mapping, query, now_ms)
        && (last < range.start || first >= range.end || first > last)
    {
        return Some(Vec::new());
    }
    if ctx.scope.tenant_id().is_some() {
        return None;
    }
    let tenants = shard_conditions::tenants(metadata.settings.tenant_field.as_deref()?, query)?;
    Some(
        tenants
            .iter()
            .flat_map(|tenant| metadata.shards_of_routing(tenant))
            .collect(),
    )
}
