//! What the cache counts.

use firn_model::tenant::TenantId;

use crate::split::PartKind;

/// Counters of one kind of part, in bytes since the start unless said otherwise. All of them are whole pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindStats {
    /// Asked for by readers.
    pub requested_bytes: u64,
    /// Of these: were there before the question came.
    pub hit_bytes: u64,
    /// Of these: had to be fetched, by this reader, ahead of it, or by another one that it waited for.
    pub missed_bytes: u64,
    /// Fetched from stores, with the gaps between neighbours that were fetched as one.
    pub fetched_bytes: u64,
    /// In the cache now.
    pub cached_bytes: u64,
    /// Made room for others.
    pub evicted_bytes: u64,
}

/// What a tenant has of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerStats {
    /// Whose.
    pub tenant: TenantId,
    /// In the cache now.
    pub cached_bytes: u64,
    /// At most so much; `None`: as much as there is.
    pub quota_bytes: Option<u64>,
    /// Made room for others since the start.
    pub evicted_bytes: u64,
}

/// What the cache holds, and what it did since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegionCacheStats {
    /// What the pages in the cache may take of the disk.
    pub size_bytes: u64,
    /// What they take.
    pub used_bytes: u64,
    /// Of these: never make room for others.
    pub pinned_bytes: u64,
    /// Regions of which something is there.
    pub regions: u64,
    /// Regions of which something may be there, whole ones or not.
    pub regions_max: u64,
    /// Reads from the disk.
    pub disk_reads: u64,
    /// Bytes of them.
    pub disk_read_bytes: u64,
    /// Writes to the disk.
    pub disk_writes: u64,
    /// Bytes of them.
    pub disk_write_bytes: u64,
    /// Writes that failed, as on a full disk. What they should have kept is fetched again when asked for.
    pub disk_write_failures: u64,
    /// Pages on the disk that were not what had been written.
    pub damaged_pages: u64,
    /// Regions that made room for others.
    pub evictions: u64,
    /// Ranges asked of stores.
    pub store_requests: u64,
    /// Answers of stores that were damaged, and asked for again.
    pub store_damaged: u64,
    /// Waits for what another reader was fetching.
    pub joined: u64,
    /// Fetched bytes that found no room.
    pub bypassed_bytes: u64,
    /// By kind, in the order of [`PartKind::ALL`].
    pub kinds: [KindStats; PartKind::ALL.len()],
    /// By tenant, for objects that belong to one.
    pub owners: Vec<OwnerStats>,
}

impl RegionCacheStats {
    /// The counters of one kind.
    pub fn kind(&self, kind: PartKind) -> &KindStats {
        &self.kinds[number(kind)]
    }

    /// The counters of all kinds together.
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

/// The place of a kind in [`PartKind::ALL`], which is also its number in the journal.
pub(super) fn number(kind: PartKind) -> usize {
    kind as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are in files: they may grow in number, never change.
    #[test]
    fn kinds_keep_their_numbers() {
        for (place, kind) in PartKind::ALL.into_iter().enumerate() {
            assert_eq!(number(kind), place);
        }
        assert_eq!(number(PartKind::Footer), 0);
        assert_eq!(number(PartKind::Lengths), 7);
    }
}
