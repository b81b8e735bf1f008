//! Split reference in a manifest, with enough statistics that most searches need no request to rule the split out.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::pages;

/// Reference to a split in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitRef {
    /// SHA-256 of the split's bytes, 64 lower-case hex digits.
    pub id: String,
    /// Length of the object in bytes.
    pub len: u64,
    /// Salt of the page checksums.
    pub salt: u64,
    /// Physical range of the pages that hold the footer, up to the end of the object.
    pub footer: Range<u64>,
    /// Id of the source segment, which no other segment ever has.
    pub segment: String,
    /// Documents, including deleted ones.
    pub docs: u32,
    /// Inclusive bounds of `@timestamp`, ms since epoch UTC, including deleted documents; `None`: no document has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_range_ms: Option<(i64, i64)>,
    /// Documents without `@timestamp`.
    #[serde(default)]
    pub without_time: u32,
    /// Inclusive bounds of sequence numbers.
    pub seq_no_range: (u64, u64),
    /// Bytes of the source segment's files.
    pub segment_bytes: u64,
    /// Statistics per tenant, ascending by tenant; `None`: unknown, or not stored per tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Vec<SplitTenant>>,
    /// Filters of fields with many distinct values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<SplitFilter>,
}

impl SplitRef {
    /// Returns the logical range of the footer's pages.
    pub fn footer_logical(&self) -> Range<u64> {
        pages::logical(&self.footer)
    }

    /// Returns the key of the split's object.
    pub fn key(&self) -> String {
        let folder = self.id.get(..2).unwrap_or_default();
        format!("splits/{folder}/{}.split", self.id)
    }

    /// Returns the filter for the values of a field.
    pub fn filter_of(&self, field: &str) -> FilterOf<'_> {
        let named = |name: &str| self.filters.iter().find(|filter| filter.field == name);
        match (named(field), named(SplitFilter::SHARED)) {
            (Some(own), _) if own.slices == 0 => FilterOf::None,
            (Some(own), _) => FilterOf::Own(own),
            (None, Some(shared)) => FilterOf::Shared(shared),
            (None, None) => FilterOf::None,
        }
    }

    /// Returns a tenant's statistics. If [`SplitRef::tenants`] are known, `None` means that it has no document here.
    pub fn tenant(&self, tenant: &str) -> Option<&SplitTenant> {
        let tenants = self.tenants.as_ref()?;
        let at = tenants.binary_search_by(|own| own.tenant.as_str().cmp(tenant)).ok()?;
        tenants.get(at)
    }
}

/// Statistics of a tenant in a split. Deleted documents count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitTenant {
    /// Value of the tenant field.
    pub tenant: String,
    /// Documents of the tenant.
    pub docs: u32,
    /// Inclusive bounds of their `@timestamp`, ms since epoch UTC; `None`: no document has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_range_ms: Option<(i64, i64)>,
}

/// Location of a field's filter in its split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitFilter {
    /// Path of the field, or [`SplitFilter::SHARED`].
    pub field: String,
    /// Logical range of its slices.
    pub range: Range<u64>,
    /// Number of slices, a power of two ([`super::filter`]); 0: no filter, the field may have any value.
    pub slices: u32,
    /// Number of distinct values in the filter.
    pub values: u32,
}

impl SplitFilter {
    /// Name of the filter that is shared by all fields without a separate filter.
    pub const SHARED: &str = "";
}

/// Filter that decides whether a split may contain a value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterOf<'a> {
    /// Filter of the field.
    Own(&'a SplitFilter),
    /// Filter of all fields without a separate one: no such field has a value that it does not contain.
    Shared(&'a SplitFilter),
    /// No filter: the split may contain any value.
    None,
}
