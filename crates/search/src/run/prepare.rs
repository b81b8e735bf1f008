//! Preparation of a search for one shard: resolves its query against the mapping and splits it into conditions on
//! rows and a rest that is evaluated document by document.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use firn_model::Result;
use firn_query::query::{Query, Rewrite, Term};
use firn_query::search::SearchRequest;
use tantivy::query::Weight;

use super::collapse::GroupField;
use super::matching_docs::Selection;
use super::shard_plan::{ShardPlan, TimeBounds};
use crate::aggs::Plan;
use crate::compile::Compiler;
use crate::compile::limits::{Guard, Stop};
use crate::compile::slice;
use crate::compile::statistics::Statistics;
use crate::compile::weight::Compiled;
use crate::pruning::time_window::Window;
use crate::pruning::{segment_pruning, time_window};
use crate::result_cache::cached_segments::{Repeatable, RepeatableRequest};
use crate::sort::ShardKey;
use crate::tenancy::tenant_rows;
use crate::tenancy::tenant_rows::TenantCondition;
use crate::{After, ShardSearch};

/// Compiles the plan of a shard, and the time bounds of its hits.
pub(crate) fn prepare(
    shard: &ShardSearch,
    request: &SearchRequest,
    repeatable_request: &RepeatableRequest,
    now_ms: i64,
    after: Option<&After>,
    stop: &Stop,
) -> Result<(ShardPlan, TimeBounds)> {
    let guard = Guard::new(stop);
    let filter = Compiler::of_shard(shard, now_ms, &guard);
    let query = request.query.without_kql(&shard.mapping)?;
    let mut keys = request
        .sort
        .iter()
        .map(|key| ShardKey::compile(&filter, key))
        .collect::<Result<Vec<_>>>()?;
    let by_score = keys.is_empty() || keys.iter().any(ShardKey::is_score);
    let aggs = Plan::compile(&filter, &request.aggs)?;
    let boost = request.boost_of(&shard.snapshot.index);
    let wants_scores =
        by_score && request.size > 0 || request.track_scores || request.min_score.is_some() || aggs.wants_scores();
    let constant_score = if wants_scores {
        constant_score(&query).map(|score| score * boost)
    } else {
        None
    };
    let scoring = wants_scores && constant_score.is_none();
    if keys.is_empty() {
        // Hits with equal scores are returned in index order, which can stop early.
        let differ = scoring || !request.indices_boost.is_empty();
        keys.push(if differ { ShardKey::score() } else { ShardKey::doc() });
    }
    let statistics = scoring.then(|| Statistics::new(&shard.snapshot.segments));
    let compiler = Compiler {
        statistics: statistics.as_ref(),
        ..filter
    };
    let conditions = Conditions::of(&filter, shard, &query, scoring);
    let matching = Matching::compile(&compiler, shard, request, &query, &conditions, !aggs.is_empty())?;
    let plan = ShardPlan {
        selection: select(&filter, shard, &conditions, matching.compiled, scoring)?,
        everything: match aggs.looks_twice() {
            true => Selection::new(allowed(&filter, shard)?, None),
            false => Selection::new(Compiled::None, None),
        },
        constant_score,
        scoring,
        after: start_after(request, after, &keys, now_ms)?,
        keys,
        aggs,
        repeatable: repeatable(shard, request, repeatable_request, &conditions),
        collapse: match &request.collapse {
            Some(collapse) => Some(GroupField::compile(&filter, &collapse.field)?),
            None => None,
        },
        post_filter: matching.post_filter,
        times: None,
        single_segment: false,
        collected: AtomicU64::new(0),
    };
    Ok((plan, matching.bounds))
}

/// Returns the position after which hits start: that of the page before, or the request's `search_after`.
fn start_after(
    request: &SearchRequest,
    after: Option<&After>,
    keys: &[ShardKey],
    now_ms: i64,
) -> Result<Option<After>> {
    let Some(values) = &request.search_after else {
        return Ok(after.cloned());
    };
    if let Some(after) = after {
        return Ok(Some(after.clone()));
    }
    let values = keys
        .iter()
        .zip(values)
        .map(|(key, value)| key.read_after(value, now_ms));
    Ok(Some(After {
        values: values.collect::<Result<Vec<_>>>()?,
        tie: None,
    }))
}

/// The documents that match on a shard, compiled: the rest of the query with all filters of the request and the shard.
struct Matching {
    compiled: Compiled,
    /// Bounds of the hits.
    bounds: TimeBounds,
    /// The `post_filter`, if aggregations ignore it.
    post_filter: Option<Box<dyn Weight>>,
}

impl Matching {
    fn compile(
        compiler: &Compiler,
        shard: &ShardSearch,
        request: &SearchRequest,
        query: &Query,
        conditions: &Conditions,
        has_aggs: bool,
    ) -> Result<Self> {
        let (filter, scoring) = (compiler.filter(), compiler.scoring());
        let boost = request.boost_of(&shard.snapshot.index);
        let mut matching = Self {
            compiled: compiler.compile(&conditions.query)?.boost(boost, scoring),
            bounds: segment_pruning::time_bounds(&filter, query),
            post_filter: None,
        };
        if !conditions.filters.is_empty() {
            let filters = any_of(&filter, &conditions.filters)?;
            matching.restrict(filters, segment_pruning::any_bounds(&filter, &shard.filters), scoring);
        }
        if let Some(query) = &request.post_filter {
            let allowed = filter.compile(query)?;
            if has_aggs {
                matching.post_filter = Some(allowed.into_weight());
            } else {
                // A tenant or an alias filter restricts everything that the search reads, so it is a filter like any
                // other.
                matching.restrict(allowed, segment_pruning::time_bounds(&filter, query), scoring);
            }
        }
        if let Some(part) = &request.slice {
            matching.restrict(slice::compile(&filter, part)?, None, scoring);
        }
        Ok(matching)
    }

    /// Adds a filter, and the bounds of the documents that pass it.
    fn restrict(&mut self, filter: Compiled, bounds: TimeBounds, scoring: bool) {
        let compiled = std::mem::replace(&mut self.compiled, Compiled::None);
        self.compiled = Compiled::all(vec![compiled, filter.constant(0.0, scoring)], scoring);
        if let Some((min, max)) = bounds {
            self.bounds = Some(self.bounds.map_or((min, max), |own| (own.0.max(min), own.1.min(max))));
        }
    }
}

/// Returns the cache key under which the partial results of segments may be cached.
fn repeatable(
    shard: &ShardSearch,
    request: &SearchRequest,
    repeatable_request: &RepeatableRequest,
    conditions: &Conditions,
) -> Option<Repeatable> {
    if !request.request_cache.unwrap_or(shard.caches_by_default) {
        return None;
    }
    let tenant = match &conditions.whose {
        TenantCondition::AnyTenant => None,
        TenantCondition::One(tenant) => Some(tenant),
        TenantCondition::Several(_) => return None,
    };
    let (query, filters) = (&conditions.query, &conditions.filters);
    Repeatable::of(
        shard.cache.as_ref()?,
        repeatable_request,
        query,
        filters,
        tenant,
        &shard.mapping,
    )
}

/// Selects the documents that match the rest of the query, in the window and of the tenant.
fn select(
    filter: &Compiler,
    shard: &ShardSearch,
    conditions: &Conditions,
    compiled: Compiled,
    scoring: bool,
) -> Result<Selection> {
    let restricted = shard.tenant.as_ref().map(|own| &own.field);
    let Some(field) = shard.tenant_field.as_ref().or(restricted) else {
        return Ok(Selection::new(compiled, conditions.window));
    };
    let mut terms = Vec::new();
    for tenant in conditions.whose.tenants() {
        terms.push(filter.compile(&of_tenant(field, tenant))?);
    }
    let term = Compiled::all(terms, false);
    Ok(match &conditions.whose {
        TenantCondition::One(tenant) if tenant_rows::are_counted(filter, field) => {
            Selection::new(compiled, conditions.window).of_tenant(Arc::clone(tenant), term, scoring)
        }
        _ => {
            let compiled = Compiled::all(vec![compiled, term.constant(0.0, scoring)], scoring);
            Selection::new(compiled, conditions.window)
        }
    })
}

/// The conditions of a query on documents, grouped by how they are evaluated.
struct Conditions {
    /// The rest of the query, which is evaluated document by document.
    query: Query,
    /// The rest of the alias filters; a document must match one of them. Empty: no filter.
    filters: Vec<Query>,
    /// The time range that the documents must be in.
    window: Option<Window>,
    /// The tenants that the documents must belong to.
    whose: TenantCondition,
}

impl Conditions {
    fn of(filter: &Compiler, shard: &ShardSearch, query: &Query, scoring: bool) -> Self {
        let mut conditions = Self {
            query: query.clone(),
            filters: shard.filters.clone(),
            window: None,
            whose: TenantCondition::AnyTenant,
        };
        if let Some((rest, window)) = time_window::split(filter, query, scoring) {
            (conditions.query, conditions.window) = (rest, Some(window));
        }
        if let Some(field) = &shard.tenant_field {
            conditions.take_tenants(filter, field, scoring);
        }
        if let Some(restriction) = &shard.tenant {
            conditions.whose.and(restriction.tenant.as_str().into());
        }
        conditions
    }

    fn take_tenants(&mut self, filter: &Compiler, field: &str, scoring: bool) {
        if let Some(rest) = tenant_rows::split(filter, field, &self.query, scoring, &mut self.whose) {
            self.query = rest;
        }
        if let [only] = self.filters.as_slice()
            && let Some(rest) = tenant_rows::split(filter, field, only, false, &mut self.whose)
        {
            self.filters = match rest {
                Query::MatchAll(_) => Vec::new(),
                rest => vec![rest],
            };
        }
    }
}

/// Returns the query for the documents of a tenant.
fn of_tenant(field: &str, tenant: &str) -> Query {
    Query::Term(Term {
        field: field.to_owned(),
        value: tenant.into(),
        boost: 1.0,
        case_insensitive: false,
    })
}

/// Returns the part of a shard that the tenant and the alias filters allow.
fn allowed(filter: &Compiler, shard: &ShardSearch) -> Result<Compiled> {
    let mut parts = Vec::new();
    if let Some(restriction) = &shard.tenant {
        parts.push(filter.compile(&of_tenant(&restriction.field, restriction.tenant.as_str()))?);
    }
    if !shard.filters.is_empty() {
        parts.push(any_of(filter, &shard.filters)?);
    }
    match parts.is_empty() {
        true => Ok(Compiled::All),
        false => Ok(Compiled::all(parts, false)),
    }
}

fn any_of(filter: &Compiler, queries: &[Query]) -> Result<Compiled> {
    let parts = queries.iter().map(|query| filter.compile(query));
    Ok(Compiled::any(parts.collect::<Result<_>>()?, false))
}

/// Returns the score of every hit, if the query gives all hits the same.
pub(crate) fn constant_score(query: &Query) -> Option<f32> {
    Some(match query {
        Query::MatchAll(part) => part.boost,
        Query::MatchNone => 0.0,
        Query::ConstantScore(part) => part.boost,
        Query::Range(part) => part.boost,
        Query::Terms(part) => part.boost,
        Query::Exists(part) => part.boost,
        Query::Ids(part) => part.boost,
        Query::Prefix(part) | Query::Wildcard(part) if part.rewrite == Rewrite::Constant => part.boost,
        Query::Regexp(part) if part.pattern.rewrite == Rewrite::Constant => part.pattern.boost,
        Query::Named(part) => return constant_score(&part.query),
        Query::Bool(part) if part.should.is_empty() => {
            if part.must.is_empty() && part.filter.is_empty() && part.must_not.is_empty() {
                return Some(part.boost.0);
            }
            let mut sum = 0.0;
            for query in &part.must {
                sum += constant_score(query)?;
            }
            sum * part.boost.0
        }
        _ => return None,
    })
}
