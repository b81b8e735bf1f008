//! Extraction of the tenant condition, which nearly every request has, from its query.
//!
//! Inside the query it would be a postings list to walk. Most segments know which rows hold a tenant's documents
//! ([`SegmentTenants`]): a segment without any is pruned. If a segment is ordered by tenant and time, a binary
//! search finds the rows in the window, and only these are read.
//!
//! [`SegmentTenants`]: crate::tenants::SegmentTenants

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use firn_model::Result;
use firn_model::mapping::FieldType;
use firn_model::metadata::TIMESTAMP;
use firn_query::query::Query;
use firn_segment::columns::column::{NumColumn, NumRange};
use firn_segment::schema::Class;
use firn_segment::segment::Segment;
use serde_json::Value;
use tantivy::DocId;
use tantivy::columnar::Column;

use crate::compile::Compiler;
use crate::compile::field::{Field, Target, scalar_text};
use crate::compile::query::term::normalized;
use crate::pruning::conditions::take_out;
use crate::pruning::time_window::Window;

/// The tenants whose documents a request selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TenantCondition {
    /// All documents.
    AnyTenant,
    /// The documents of one tenant.
    One(Arc<str>),
    /// Documents that belong to all of these tenants, which hardly any document does.
    Several(Vec<Arc<str>>),
}

impl TenantCondition {
    /// Adds a condition.
    pub(crate) fn and(&mut self, tenant: Arc<str>) {
        match self {
            Self::AnyTenant => *self = Self::One(tenant),
            Self::One(own) if *own == tenant => {}
            Self::One(own) => *self = Self::Several(vec![Arc::clone(own), tenant]),
            Self::Several(all) => all.push(tenant),
        }
    }

    /// Returns the tenants, all of which a document must have.
    pub(crate) fn tenants(&self) -> &[Arc<str>] {
        match self {
            Self::AnyTenant => &[],
            Self::One(tenant) => std::slice::from_ref(tenant),
            Self::Several(tenants) => tenants,
        }
    }
}

/// Extracts the conditions on the tenant field from a query; `None`: there are none.
pub(crate) fn split(
    compiler: &Compiler,
    tenant_field: &str,
    query: &Query,
    scoring: bool,
    whose: &mut TenantCondition,
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

/// Returns whether segments count documents by the values of the tenant field.
pub(crate) fn are_counted(compiler: &Compiler, tenant_field: &str) -> bool {
    tenant_keyword(compiler, tenant_field).is_some()
}

/// Returns the tenant field, if segments count its values.
fn tenant_keyword(compiler: &Compiler, path: &str) -> Option<Field> {
    match compiler.resolve(path) {
        Target::Field(field) => {
            let is_keyword = field.class == Class::Keyword && field.field_type == FieldType::Keyword;
            (is_keyword && field.path == path).then_some(field)
        }
        Target::Meta(_) | Target::Nothing => None,
    }
}

/// Returns the one tenant whose documents a query matches.
fn tenant_of(compiler: &Compiler, field: &Field, query: &Query) -> Option<Arc<str>> {
    let value: &Value = match query {
        Query::Term(term) if !term.case_insensitive && names(compiler, field, &term.field) => &term.value,
        Query::Terms(terms) if terms.values.len() == 1 && names(compiler, field, &terms.field) => &terms.values[0],
        _ => return None,
    };
    Some(normalized(field, &scalar_text(value)?).into())
}

/// Returns whether a path is that field or an alias of it.
fn names(compiler: &Compiler, field: &Field, path: &str) -> bool {
    path == field.path || matches!(compiler.resolve(path), Target::Field(other) if other.path == field.path)
}

/// A tenant's rows of a segment.
pub(crate) enum TenantPart {
    /// The tenant has no rows.
    Nothing,
    /// All of these rows belong to the tenant.
    Rows(TenantSpan),
    /// Some of these rows belong to the tenant.
    Among(Range<DocId>),
}

/// Rows of one tenant only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TenantSpan {
    pub(crate) rows: Range<DocId>,
    /// They are ordered by `@timestamp`, newest first; rows without one are last.
    pub(crate) newest_first: bool,
}

/// Returns a tenant's rows; if the segment does not know them, they may be anywhere.
pub(crate) fn rows_of(segment: &Segment, tenant: &str) -> TenantPart {
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

/// Returns whether the tenant's statistics show that all its rows are within a window.
pub(crate) fn are_within(segment: &Segment, tenant: &str, window: &Window) -> bool {
    let part = segment.tenants.as_ref().and_then(|tenants| tenants.get(tenant));
    let range = part.and_then(|part| part.time_range_ms);
    // Documents without a timestamp may belong to the tenant.
    segment.without_time_count == 0 && range.is_some_and(|range| window.covers(range))
}

/// Returns the rows within a window, if the order of rows shows them; `None`: it does not.
pub(crate) fn rows_within(segment: &Segment, span: &TenantSpan, window: &NumRange) -> Result<Option<Range<DocId>>> {
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

/// Returns those of the ordered rows whose values are in a range.
fn rows_between(column: &Column<u64>, rows: &Range<DocId>, range: &RangeInclusive<u64>) -> Range<DocId> {
    let start = first_row(rows, |row| column.first(row).is_none_or(|value| value <= *range.end()));
    let end = first_row(&(start..rows.end), |row| {
        column.first(row).is_none_or(|value| value < *range.start())
    });
    start..end
}

/// Returns the first row from which `is_past` holds, or the end.
pub(crate) fn first_row(rows: &Range<DocId>, is_past: impl Fn(DocId) -> bool) -> DocId {
    // Mostly all rows match; in a split, a probe of the middle row would have to be fetched.
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

/// Returns how many of some rows are alive.
pub(crate) fn count_alive(segment: &Segment, rows: Range<DocId>) -> u64 {
    if segment.deleted_count == 0 && segment.alive.is_none() {
        return (rows.end - rows.start).into();
    }
    rows.filter(|row| segment.is_alive(*row)).count() as u64
}
