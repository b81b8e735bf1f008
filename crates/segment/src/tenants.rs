//! Tenants of a segment: documents, time range and rows of each.
//!
//! Computed when the segment is written, from its columns, so it is exact: a search for a tenant skips segments without
//! documents of it in its window, and reads only the tenant's rows of the others.

use std::ops::Range;
use std::sync::Arc;

use tantivy::DocId;

/// One tenant's part of a segment. Deleted documents count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantRows {
    /// The value of the tenant field.
    pub tenant: Arc<str>,
    /// Documents that name this tenant.
    pub docs: u32,
    /// Inclusive bounds of their `@timestamp`, ms since epoch UTC; `None`: none has one.
    pub time_range_ms: Option<(i64, i64)>,
    /// Rows that contain all its documents; never empty.
    pub rows: Range<DocId>,
}

impl TenantRows {
    /// Whether [`TenantRows::rows`] contain no documents of other tenants.
    pub fn is_exclusive(&self) -> bool {
        self.rows.end - self.rows.start == self.docs
    }
}

/// The tenants of a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SegmentTenants {
    /// By tenant, ascending by bytes.
    pub rows: Vec<TenantRows>,
    /// Documents that name no tenant.
    pub without_tenant: u32,
    /// Documents are ordered by tenant; those of one tenant by `@timestamp`, newest first, those without one last;
    /// those without a tenant after all others. No document names two tenants or has two timestamps. Of equal
    /// timestamps the lower sequence number comes first.
    pub clustered: bool,
}

impl SegmentTenants {
    /// Returns a tenant's part; `None`: the segment has no documents of it.
    pub fn get(&self, tenant: &str) -> Option<&TenantRows> {
        let at = self.rows.binary_search_by(|rows| (*rows.tenant).cmp(tenant)).ok()?;
        self.rows.get(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_tenant() {
        let rows = |tenant: &str, docs, rows| TenantRows {
            tenant: tenant.into(),
            docs,
            time_range_ms: None,
            rows,
        };
        let tenants = SegmentTenants {
            rows: vec![rows("a", 2, 0..2), rows("b", 1, 1..9)],
            without_tenant: 0,
            clustered: false,
        };
        assert!(tenants.get("a").is_some_and(TenantRows::is_exclusive));
        assert!(tenants.get("b").is_some_and(|rows| !rows.is_exclusive()));
        assert_eq!(tenants.get("c"), None);
    }
}
