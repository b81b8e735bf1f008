//! What a query says of shards and splits before any of them is opened.

use std::sync::Arc;

use firn_engine::RequestContext;
use firn_engine::query::Query;
use firn_engine::search::SearchRequest;

use super::Core;
use super::addressing::restriction;
use super::state::IndexState;
use crate::mounts::Conditions;
use crate::search::exact::Exact;
use crate::search::narrow;

/// What decides which shards and splits are left out.
#[derive(Clone, Copy)]
pub(super) struct Matches<'a> {
    pub(super) query: &'a Query,
    /// They have scores, in which documents count that do not match.
    scored: bool,
    /// The answer tells what was read.
    profiled: bool,
}

impl<'a> Matches<'a> {
    /// What a search looks for; aggregations must not look past it.
    pub(super) fn of(request: &'a SearchRequest) -> Self {
        Self {
            query: &request.query,
            scored: narrow::scores(request),
            profiled: request.profile,
        }
    }
}

impl Core {
    /// What every match in a mounted index has, so that splits that hold none need not be opened.
    pub(super) fn conditions(
        &self,
        ctx: &RequestContext,
        index: &IndexState,
        filters: &[Query],
        matches: Option<Matches<'_>>,
        now_ms: i64,
    ) -> Conditions {
        let query = matches.map(|matches| matches.query);
        let metadata = &index.metadata;
        let restriction = restriction(ctx, index).flatten();
        let tenant = restriction.as_ref().map(|own| own.tenant.as_str());
        let tenant_field = metadata.settings.tenant_field.as_deref();
        let tenants = match (tenant, query) {
            (Some(own), _) => Some(vec![own.to_owned()]),
            (None, Some(query)) => tenant_field.and_then(|field| narrow::tenants(field, query)),
            (None, None) => None,
        };
        let exact = Exact {
            mapping: &metadata.mapping,
            tag: index.tag,
            tenant_field,
            tenant,
        };
        Conditions {
            window: query.and_then(|query| narrow::window(&metadata.mapping, query, now_ms)),
            tenants: tenants.map(Arc::from),
            exact: match matches {
                // A tenant would learn which values others have.
                Some(matches) if matches.profiled && tenant.is_some() => Vec::new(),
                Some(matches) => exact.required(matches.query, filters),
                None => Vec::new(),
            },
            scored: matches.is_some_and(|matches| matches.scored),
        }
    }
}

/// The shards of an index that may hold a match, by what the query says of time and tenant; `None`: all.
/// What a tenant's own query says of tenants is not looked at: what is left out is counted in the answer,
/// and would tell who lies where.
pub(super) fn matching_shards(
    ctx: &RequestContext,
    index: &IndexState,
    query: &Query,
    now_ms: i64,
) -> Option<Vec<u32>> {
    let metadata = &index.metadata;
    if let Some(range) = &metadata.settings.time_range_ms
        && let Some((first, last)) = narrow::window(&metadata.mapping, query, now_ms)
        && (last < range.start || first >= range.end || first > last)
    {
        return Some(Vec::new());
    }
    if ctx.scope.tenant_id().is_some() {
        return None;
    }
    let tenants = narrow::tenants(metadata.settings.tenant_field.as_deref()?, query)?;
    Some(
        tenants
            .iter()
            .flat_map(|tenant| metadata.shards_of_routing(tenant))
            .collect(),
    )
}
