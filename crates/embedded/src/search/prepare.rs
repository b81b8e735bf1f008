//! A search made ready for one shard: its query resolved against the mapping and split into what is
//! known of rows and what has to be asked document by document.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use firn_engine::query::{Query, Rewrite, Term};
use firn_engine::search::SearchRequest;
use firn_model::Result;

use super::aggs::Plan;
use super::collapse::GroupField;
use super::compile::Compiler;
use super::docs::Selection;
use super::guard::{Guard, Stop};
use super::repeat::{Asked, Repeatable};
use super::segment_run::ShardPlan;
use super::sort::ShardKey;
use super::statistics::Statistics;
use super::tenant_rows::{self, Whose};
use super::time_window::Window;
use super::weight::Compiled;
use super::{After, ShardSearch, prune, slice, time_window};

/// Inclusive bounds of `@timestamp`, ms.
pub(super) type TimeBounds = Option<(i64, i64)>;

/// Compiles what a shard is searched for, and the time bounds that its hits have.
pub(super) fn prepare(
    shard: &ShardSearch,
    request: &SearchRequest,
    asked: &Asked,
    now_ms: i64,
    after: Option<&After>,
    stop: &Stop,
) -> Result<(ShardPlan, TimeBounds)> {
    let guard = Guard::new(stop);
    let filter = shard.compiler(now_ms, &guard);
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
        // Hits that all score the same come in index order, which can stop early.
        let differ = scoring || !request.indices_boost.is_empty();
        keys.push(if differ { ShardKey::score() } else { ShardKey::doc() });
    }
    let statistics = scoring.then(|| Statistics::new(&shard.snapshot.segments));
    let compiler = Compiler {
        statistics: statistics.as_ref(),
        ..filter
    };
    let conditions = Conditions::of(&filter, shard, &query, scoring);
    let mut compiled = compiler.compile(&conditions.query)?.boost(boost, scoring);
    let mut bounds = prune::time_bounds(&filter, &query);
    if !conditions.filters.is_empty() {
        let filters = any_of(&filter, &conditions.filters)?.constant(0.0, scoring);
        compiled = Compiled::all(vec![compiled, filters], scoring);
        if let Some((min, max)) = prune::any_bounds(&filter, &shard.filters) {
            bounds = Some(bounds.map_or((min, max), |own| (own.0.max(min), own.1.min(max))));
        }
    }
    let mut post_filter = None;
    if let Some(query) = &request.post_filter {
        let allowed = filter.compile(query)?;
        if aggs.is_empty() {
            // Nobody is to see more than the hits, so it is a filter like any other.
            compiled = Compiled::all(vec![compiled, allowed.constant(0.0, scoring)], scoring);
            if let Some((min, max)) = prune::time_bounds(&filter, query) {
                bounds = Some(bounds.map_or((min, max), |own| (own.0.max(min), own.1.min(max))));
            }
        } else {
            post_filter = Some(allowed.into_weight());
        }
    }
    if let Some(part) = &request.slice {
        compiled = Compiled::all(
            vec![compiled, slice::compile(&filter, part)?.constant(0.0, scoring)],
            scoring,
        );
    }
    let after = match (after, &request.search_after) {
        (Some(after), _) => Some(after.clone()),
        (None, Some(values)) => Some(After {
            values: keys
                .iter()
                .zip(values)
                .map(|(key, value)| key.read_after(value, now_ms))
                .collect::<Result<Vec<_>>>()?,
            tie: None,
        }),
        (None, None) => None,
    };
    let selection = select(&filter, shard, &conditions, compiled, scoring)?;
    let repeatable = repeatable(shard, request, asked, &conditions);
    let plan = ShardPlan {
        selection,
        everything: match aggs.looks_twice() {
            true => Selection::new(allowed(&filter, shard)?, None),
            false => Selection::new(Compiled::None, None),
        },
        constant_score,
        scoring,
        keys,
        after,
        aggs,
        repeatable,
        collapse: match &request.collapse {
            Some(collapse) => Some(GroupField::compile(&filter, &collapse.field)?),
            None => None,
        },
        post_filter,
        times: None,
        single_segment: false,
        collected: AtomicU64::new(0),
    };
    Ok((plan, bounds))
}

/// Under what the answers of segments may be kept.
fn repeatable(
    shard: &ShardSearch,
    request: &SearchRequest,
    asked: &Asked,
    conditions: &Conditions,
) -> Option<Repeatable> {
    if !request.request_cache.unwrap_or(shard.caches_by_default) {
        return None;
    }
    let tenant = match &conditions.whose {
        Whose::Anybody => None,
        Whose::One(tenant) => Some(tenant),
        Whose::Several(_) => return None,
    };
    let (query, filters) = (&conditions.query, &conditions.filters);
    Repeatable::of(shard.cache.as_ref()?, asked, query, filters, tenant, &shard.mapping)
}

/// The documents that match what is left of the query, in the window and of the tenant.
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
        Whose::One(tenant) if tenant_rows::are_counted(filter, field) => {
            Selection::new(compiled, conditions.window).of_tenant(Arc::clone(tenant), term, scoring)
        }
        _ => {
            let compiled = Compiled::all(vec![compiled, term.constant(0.0, scoring)], scoring);
            Selection::new(compiled, conditions.window)
        }
    })
}

/// What a query asks of documents, by how it is found out.
struct Conditions {
    /// What is left to be asked document by document.
    query: Query,
    /// What is left of the filters of the aliases; a document must match one. Empty: no filter.
    filters: Vec<Query>,
    /// The instants that they have to be within.
    window: Option<Window>,
    /// The tenants that they have to be of.
    whose: Whose,
}

impl Conditions {
    fn of(filter: &Compiler, shard: &ShardSearch, query: &Query, scoring: bool) -> Self {
        let mut conditions = Self {
            query: query.clone(),
            filters: shard.filters.clone(),
            window: None,
            whose: Whose::Anybody,
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

/// The documents that name a tenant.
fn of_tenant(field: &str, tenant: &str) -> Query {
    Query::Term(Term {
        field: field.to_owned(),
        value: tenant.into(),
        boost: 1.0,
        case_insensitive: false,
    })
}

/// What the tenant and the filters of the aliases let be seen of a shard.
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

/// The score of every hit, where the query gives all the same.
pub(super) fn constant_score(query: &Query) -> Option<f32> {
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
