//! The condition on the tenant that nearly every question has, taken out of its query.
//!
//! As a part of the query it would be a list of documents to walk. Most segments know which rows
//! hold a tenant's documents ([`SegmentTenants`]): a segment without any is left out, and of one
//! that is ordered by tenant and time just those rows are read that are in the window, found by
//! binary search.
//!
//! [`SegmentTenants`]: crate::tenants::SegmentTenants

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use firn_engine::query::Query;
use firn_model::Result;
use firn_model::mapping::FieldType;
use serde_json::Value;
use tantivy::DocId;
use tantivy::columnar::Column;

use super::column::{NumColumn, NumRange};
use super::compile::Compiler;
use super::conditions::take_out;
use super::field::{Field, Target, scalar_text};
use super::prune::TIMESTAMP;
use super::query::term::normalized;
use super::time_window::Window;
use crate::schema::Class;
use crate::segment::Segment;

/// Whose documents a shard is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Whose {
    /// Everybody's.
    Anybody,
    /// Those of one tenant.
    One(Arc<str>),
    /// Those that are two tenants' at once, which hardly any document is.
    Several(Vec<Arc<str>>),
}

impl Whose {
    /// Adds a condition.
    pub(super) fn and(&mut self, tenant: Arc<str>) {
        match self {
            Self::Anybody => *self = Self::One(tenant),
            Self::One(own) if *own == tenant => {}
            Self::One(own) => *self = Self::Several(vec![Arc::clone(own), tenant]),
            Self::Several(all) => all.push(tenant),
        }
    }

    /// The tenants, all of whom a document has to name.
    pub(super) fn tenants(&self) -> &[Arc<str>] {
        match self {
            Self::Anybody => &[],
            Self::One(tenant) => std::slice::from_ref(tenant),
            Self::Several(tenants) => tenants,
        }
    }
}

/// Takes the conditions on the tenant field out of a query; `None`: there are none.
pub(super) fn split(
    compiler: &Compiler,
    tenant_field: &str,
    query: &Query,
    scoring: bool,
    whose: &mut Whose,
) -> Option<Query> {
    let field = tenant_keyword(compiler, tenant_field)?;
    take_out(query, scoring, &mut |query| match tenant_of(compiler, &field, query) {
        Some(tenant) => {
            whose.and(tenant);
            true
        }
        None => false,
    })
}

/// Whether segments count the documents that each value of the tenant field has.
pub(super) fn are_counted(compiler: &Compiler, tenant_field: &str) -> bool {
    tenant_keyword(compiler, tenant_field).is_some()
}

/// The tenant field, if its values are what segments count.
fn tenant_keyword(compiler: &Compiler, path: &str) -> Option<Field> {
    match compiler.resolve(path) {
        Target::Field(field) => {
            let is_keyword = field.class == Class::Keyword && field.field_type == FieldType::Keyword;
            (is_keyword && field.path == path).then_some(field)
        }
        Target::Meta(_) | Target::Nothing => None,
    }
}

/// The one tenant whose documents a query matches.
fn tenant_of(compiler: &Compiler, field: &Field, query: &Query) -> Option<Arc<str>> {
    let value: &Value = match query {
        Query::Term(term) if !term.case_insensitive && names(compiler, field, &term.field) => &term.value,
        Query::Terms(terms) if terms.values.len() == 1 && names(compiler, field, &terms.field) => &terms.values[0],
        _ => return None,
    };
    Some(normalized(field, &scalar_text(value)?).into())
}

/// Whether a path is that field or an alias of it.
fn names(compiler: &Compiler, field: &Field, path: &str) -> bool {
    path == field.path || matches!(compiler.resolve(path), Target::Field(other) if other.path == field.path)
}

/// Which rows of a segment are a tenant's.
pub(super) enum TenantPart {
    /// None.
    Nothing,
    /// All of these are, and nobody else's are among them.
    Rows(TenantSpan),
    /// Some within these.
    Among(Range<DocId>),
}

/// Rows of one tenant alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TenantSpan {
    pub(super) rows: Range<DocId>,
    /// They are ordered by `@timestamp`, newest first; those without one come last.
    pub(super) newest_first: bool,
}

/// Finds a tenant's rows; a segment that does not know them may have them anywhere.
pub(super) fn rows_of(segment: &Segment, tenant: &str) -> TenantPart {
    let Some(tenants) = &segment.tenants else {
        return TenantPart::Among(0..segment.max_doc);
    };
    match tenants.get(tenant) {
        None => TenantPart::Nothing,
        Some(part) if part.is_exclusive() => TenantPart::Rows(TenantSpan {
            rows: part.rows.clone(),
            newest_first: tenants.clustered,
        }),
        Some(part) => TenantPart::Among(part.rows.clone()),
    }
}

/// Whether what is counted of a tenant tells that all its rows are within a window.
pub(super) fn are_within(segment: &Segment, tenant: &str, window: &Window) -> bool {
    let part = segment.tenants.as_ref().and_then(|tenants| tenants.get(tenant));
    let range = part.and_then(|part| part.time_range_ms);
    // Some without an instant may be the tenant's.
    segment.without_time_count == 0 && range.is_some_and(|range| window.covers(range))
}

/// Rows within a window, where the order of rows tells them; `None`: it does not.
pub(super) fn rows_within(segment: &Segment, span: &TenantSpan, window: &NumRange) -> Result<Option<Range<DocId>>> {
    if !span.newest_first {
        return Ok(None);
    }
    let Some(column) = NumColumn::open(&segment.reader, TIMESTAMP)? else {
        return Ok(Some(0..0));
    };
    let Some(range) = column.raw_range(window) else {
        return Ok(Some(0..0));
    };
    if column.column.get_cardinality().is_multivalue() {
        return Ok(None);
    }
    Ok(Some(rows_between(&column.column, &span.rows, &range)))
}

/// The rows of ordered ones whose values are in a range.
fn rows_between(column: &Column<u64>, rows: &Range<DocId>, range: &RangeInclusive<u64>) -> Range<DocId> {
    let start = first_row(rows, |row| column.first(row).is_none_or(|value| value <= *range.end()));
    let end = first_row(&(start..rows.end), |row| {
        column.first(row).is_none_or(|value| value < *range.start())
    });
    start..end
}

/// The first row from which on `is_past` holds, or the end.
pub(super) fn first_row(rows: &Range<DocId>, is_past: impl Fn(DocId) -> bool) -> DocId {
    // Mostly all rows are wanted, and of a split the middle one would have to be fetched to see that.
    if rows.is_empty() || is_past(rows.start) {
        return rows.start;
    }
    let (mut low, mut high) = (rows.start + 1, rows.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_past(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// How many of some rows are alive.
pub(super) fn count_alive(segment: &Segment, rows: Range<DocId>) -> u64 {
    if segment.deleted_count == 0 && segment.alive.is_none() {
        return (rows.end - rows.start).into();
    }
    rows.filter(|row| segment.is_alive(*row)).count() as u64
}
