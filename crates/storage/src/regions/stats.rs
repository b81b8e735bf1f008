//! Counters of the region cache.

use firn_model::tenant::TenantId;

use crate::split::PartKind;

/// Counters of one part kind, in bytes since the start unless stated otherwise. All of them are whole pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindStats {
    /// Requested by readers.
    pub requested_bytes: u64,
    /// Of these: cached before the request.
    pub hit_bytes: u64,
    /// Of these: fetched by this reader, by its prefetch, or by another reader that it waited for.
    pub missed_bytes: u64,
    /// Fetched from stores, including gaps between neighbouring ranges that were fetched together.
    pub fetched_bytes: u64,
    /// Cached now.
    pub cached_bytes: u64,
    /// Evicted.
    pub evicted_bytes: u64,
}

/// A tenant's share of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerStats {
    /// The tenant.
    pub tenant: TenantId,
    /// Cached now.
    pub cached_bytes: u64,
    /// Quota; `None`: unlimited.
    pub quota_bytes: Option<u64>,
    /// Evicted since the start.
    pub evicted_bytes: u64,
}

/// Content of the cache, and counters since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegionCacheStats {
    /// Maximum disk space of the pages.
    pub size_bytes: u64,
    /// Disk space in use.
    pub used_bytes: u64,
    /// Of these: pinned.
    pub pinned_bytes: u64,
    /// Regions with at least one page.
    pub regions: u64,
    /// Maximum number of regions, whole or partial.
    pub regions_max: u64,
    /// Reads from the disk.
    pub disk_reads: u64,
    /// Bytes of these reads.
    pub disk_read_bytes: u64,
    /// Writes to the disk.
    pub disk_writes: u64,
    /// Bytes of these writes.
    pub disk_write_bytes: u64,
    /// Failed writes, as on a full disk. Their pages are fetched again on the next request.
    pub disk_write_failures: u64,
    /// Pages on the disk with a wrong checksum.
    pub damaged_pages: u64,
    /// Evicted regions.
    pub evictions: u64,
    /// Ranged reads from stores.
    pub store_requests: u64,
    /// Damaged answers of stores, which are retried.
    pub store_damaged: u64,
    /// Waits for another reader's fetch.
    pub joined: u64,
    /// Fetched bytes that were not cached for lack of space.
    pub bypassed_bytes: u64,
    /// By kind, in the order of [`PartKind::ALL`].
    pub kinds: [KindStats; PartKind::ALL.len()],
    /// By tenant, for objects that belong to one tenant.
    pub owners: Vec<OwnerStats>,
}

impl RegionCacheStats {
    /// Returns the counters of one kind.
    pub fn kind(&self, kind: PartKind) -> &KindStats {
        &self.kinds[number(kind)]
    }

    /// Returns the sums over all kinds.
    pub fn total(&self) -> KindStats {
        self.kinds.iter().fold(KindStats::default(), |sum, kind| KindStats {
            requested_bytes: sum.requested_bytes + kind.requested_bytes,
            hit_bytes: sum.hit_bytes + kind.hit_bytes,
            missed_bytes: sum.missed_bytes + kind.missed_bytes,
            fetched_bytes: sum.fetched_bytes + kind.fetched_bytes,
            cached_bytes: sum.cached_bytes + kind.cached_bytes,
            evicted_bytes: sum.evicted_bytes + kind.evicted_bytes,
        })
    }
}

/// Returns the index of a kind in [`PartKind::ALL`], which is also its number in the journal.
pub(super) fn number(kind: PartKind) -> usize {
    kind as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are persisted: new ones may be added, existing ones must not change.
    #[test]
    fn kinds_keep_their_numbers() {
        for (place, kind) in PartKind::ALL.into_iter().enumerate() {
            assert_eq!(number(kind), place);
        }
        assert_eq!(number(PartKind::Footer), 0);
        assert_eq!(number(PartKind::Lengths), 7);
    }
}
