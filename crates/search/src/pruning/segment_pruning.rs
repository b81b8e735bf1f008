//! Segment pruning by `@timestamp` and tenant.

use std::sync::Arc;

use firn_model::metadata::TIMESTAMP;
use firn_query::query::{Bool, Query};
use firn_segment::segment::Segment;

use crate::compile::Compiler;
use crate::compile::field::{NANOS, Target};
use crate::compile::query::range;

/// Returns inclusive bounds of `@timestamp`, in ms, for every match; `None`: matches may have any time. An empty
/// range (`min > max`) matches nothing.
pub(crate) fn time_bounds(compiler: &Compiler, query: &Query) -> Option<(i64, i64)> {
    match query {
        Query::Range(part) => {
            let Target::Field(field) = compiler.resolve(&part.field) else {
                return None;
            };
            if field.path != TIMESTAMP {
                return None;
            }
            let numeric = field.numeric()?;
            let format = numeric.date_format()?;
            let (lower, upper) = range::date_bounds(compiler.now_ms, format, part).ok()?;
            // Finer digits than a ms are compared within a segment.
            let ms = |(nanos, _): (i128, bool)| i64::try_from(nanos.div_euclid(NANOS.into()));
            let min = lower.map_or(i64::MIN, |bound| ms(bound).unwrap_or(i64::MIN));
            let max = upper.map_or(i64::MAX, |bound| ms(bound).unwrap_or(i64::MAX));
            Some((min, max))
        }
        Query::ConstantScore(part) => time_bounds(compiler, &part.filter),
        Query::Named(part) => time_bounds(compiler, &part.query),
        Query::Kql(part) => time_bounds(compiler, &part.lower(compiler.mapping).ok()?),
        Query::Boosting(part) => time_bounds(compiler, &part.positive),
        Query::DisMax(part) => any_bounds(compiler, &part.queries),
        Query::Bool(part) => bool_bounds(compiler, part),
        _ => None,
    }
}

fn bool_bounds(compiler: &Compiler, part: &Bool) -> Option<(i64, i64)> {
    let required = part.must.iter().chain(&part.filter);
    let bounds = required
        .filter_map(|query| time_bounds(compiler, query))
        .reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)));
    let only_should = part.must.is_empty() && part.filter.is_empty() && part.minimum_should_match.is_none();
    if !only_should || part.should.is_empty() {
        return bounds;
    }
    any_bounds(compiler, &part.should)
}

/// Returns the bounds of a match of any of `queries`.
pub(crate) fn any_bounds(compiler: &Compiler, queries: &[Query]) -> Option<(i64, i64)> {
    let mut all: Option<(i64, i64)> = None;
    for query in queries {
        let bounds = time_bounds(compiler, query)?;
        all = Some(all.map_or(bounds, |all| (all.0.min(bounds.0), all.1.max(bounds.1))));
    }
    all
}

/// Returns inclusive bounds of the times in a segment, in ms: those of the tenant, if they are known.
pub(crate) fn time_range_of(segment: &Segment, tenant: Option<&Arc<str>>) -> Option<(i64, i64)> {
    let rows = segment.tenants.as_ref().zip(tenant);
    match rows.and_then(|(tenants, tenant)| tenants.get(tenant)) {
        Some(part) => part.time_range_ms,
        None => segment.time_range_ms,
    }
}

/// Returns whether the segment is known to hold no document of a tenant.
pub(crate) fn lacks(segment: &Segment, tenant: Option<&Arc<str>>) -> bool {
    let known = segment.tenants.as_ref().zip(tenant);
    known.is_some_and(|(tenants, tenant)| tenants.get(tenant).is_none())
}

/// Returns whether a time range, which may be empty, overlaps the bounds.
pub(crate) fn overlaps(range: Option<(i64, i64)>, bounds: Option<(i64, i64)>) -> bool {
    match (bounds, range) {
        (None, _) => true,
        (Some((min, max)), _) if min > max => false,
        (Some(_), None) => false,
        (Some((min, max)), Some((first, last))) => first <= max && min <= last,
    }
}
