//! What a manifest says of a split, so that most searches need no more of it.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::pages;

/// A split as manifests name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitRef {
    /// The SHA-256 of its bytes, 64 lower-case hex digits.
    pub id: String,
    /// Bytes of the object.
    pub len: u64,
    /// What the checksums of its pages begin with.
    pub salt: u64,
    /// The pages that hold the footer, to the end of the object: physical bytes.
    pub footer: Range<u64>,
    /// The id of the segment that it was written from, which no other segment ever has.
    pub segment: String,
    /// Documents, the deleted ones included.
    pub docs: u32,
    /// Inclusive bounds of `@timestamp`, ms since epoch UTC, deleted documents included; `None`: no
    /// document has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_range_ms: Option<(i64, i64)>,
    /// Documents without an `@timestamp`.
    #[serde(default)]
    pub without_time: u32,
    /// Inclusive bounds of sequence numbers.
    pub seq_no_range: (u64, u64),
    /// Bytes of the segment's files as they were.
    pub segment_bytes: u64,
    /// What it holds of each tenant, ascending; `None`: unknown, or not held by tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<Vec<SplitTenant>>,
    /// Filters of fields with many distinct values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<SplitFilter>,
}

impl SplitRef {
    /// The footer's pages, logical.
    pub fn footer_logical(&self) -> Range<u64> {
        pages::logical(&self.footer)
    }

    /// The key of its object.
    pub fn key(&self) -> String {
        let folder = self.id.get(..2).unwrap_or_default();
        format!("splits/{folder}/{}.split", self.id)
    }

    /// What tells whether it holds a value of a field.
    pub fn filter_of(&self, field: &str) -> FilterOf<'_> {
        let named = |name: &str| self.filters.iter().find(|filter| filter.field == name);
        match (named(field), named(SplitFilter::SHARED)) {
            (Some(own), _) if own.slices == 0 => FilterOf::None,
            (Some(own), _) => FilterOf::Own(own),
            (None, Some(shared)) => FilterOf::Shared(shared),
            (None, None) => FilterOf::None,
        }
    }

    /// A tenant's part; `None`: it holds nothing of it, if [`SplitRef::tenants`] are known.
    pub fn tenant(&self, tenant: &str) -> Option<&SplitTenant> {
        let tenants = self.tenants.as_ref()?;
        let at = tenants.binary_search_by(|own| own.tenant.as_str().cmp(tenant)).ok()?;
        tenants.get(at)
    }
}

/// What a split holds of a tenant. Deleted documents count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitTenant {
    /// The value of the tenant field.
    pub tenant: String,
    /// Documents that name it.
    pub docs: u32,
    /// Inclusive bounds of their `@timestamp`, ms since epoch UTC; `None`: none has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_range_ms: Option<(i64, i64)>,
}

/// Where the filter of a field lies in its split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitFilter {
    /// The field's path, or [`SplitFilter::SHARED`].
    pub field: String,
    /// The bytes of its slices, logical.
    pub range: Range<u64>,
    /// How many slices it is cut into, a power of two ([`super::filter`]); 0: there is none, and the field may have any value.
    pub slices: u32,
    /// Distinct values that it was made of.
    pub values: u32,
}

impl SplitFilter {
    /// The name of the filter that all fields share which have none of their own.
    pub const SHARED: &str = "";
}

/// Which filter tells whether a split holds a value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterOf<'a> {
    /// The field's own.
    Own(&'a SplitFilter),
    /// That of all fields without one: what it does not hold no such field has.
    Shared(&'a SplitFilter),
    /// None does: the split may hold any value.
    None,
}
