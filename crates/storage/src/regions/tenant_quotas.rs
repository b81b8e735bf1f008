//! Tenants' shares of the cache, and the eviction order within a tenant that has reached its quota.

use std::collections::HashMap;

use firn_model::tenant::TenantId;

use super::PAGE_BYTES;
use super::lfu::{LfuList, Links, List};
use super::stats::OwnerStats;

/// Maximum number of frequently used slots that a search for a victim skips; then it takes the next one.
const SECOND_CHANCES: usize = 32;

/// Number of a tenant; small, because every object has one.
pub(super) type OwnerNumber = u32;

#[derive(Debug)]
struct Owner {
    tenant: TenantId,
    quota_pages: Option<u64>,
    pages: u64,
    evicted_pages: u64,
    /// Evictable slots, the longest unused first.
    slots: List,
}

/// All tenants that ever had pages in the cache or a quota.
#[derive(Debug)]
pub(super) struct TenantQuotas {
    /// Quota of tenants without a specific one.
    quota_pages: u64,
    numbers: HashMap<TenantId, OwnerNumber>,
    owners: Vec<Owner>,
    links: Links,
}

impl TenantQuotas {
    pub(super) fn new(quota_pages: u64) -> Self {
        Self {
            quota_pages,
            numbers: HashMap::new(),
            owners: Vec::new(),
            links: Links::default(),
        }
    }

    fn quota(&self, owner: OwnerNumber) -> u64 {
        self.owners[owner as usize].quota_pages.unwrap_or(self.quota_pages)
    }

    /// Returns the number of a tenant.
    pub(super) fn number(&mut self, tenant: &TenantId) -> OwnerNumber {
        if let Some(number) = self.numbers.get(tenant) {
            return *number;
        }
        let number = self.owners.len() as OwnerNumber;
        self.numbers.insert(tenant.clone(), number);
        self.owners.push(Owner {
            tenant: tenant.clone(),
            quota_pages: None,
            pages: 0,
            evicted_pages: 0,
            slots: List::default(),
        });
        number
    }

    pub(super) fn tenant(&self, owner: OwnerNumber) -> &TenantId {
        &self.owners[owner as usize].tenant
    }

    pub(super) fn set_quota(&mut self, owner: OwnerNumber, quota_pages: Option<u64>) {
        self.owners[owner as usize].quota_pages = quota_pages;
    }

    /// Adds pages to a tenant's count.
    pub(super) fn add(&mut self, owner: OwnerNumber, pages: u64) {
        self.owners[owner as usize].pages += pages;
    }

    /// Subtracts pages from a tenant's count; `evicted` if they were evicted.
    pub(super) fn subtract(&mut self, owner: OwnerNumber, pages: u64, evicted: bool) {
        let owner = &mut self.owners[owner as usize];
        owner.pages -= pages;
        owner.evicted_pages += if evicted { pages } else { 0 };
    }

    /// Adds an evictable slot.
    pub(super) fn insert(&mut self, owner: OwnerNumber, slot: u32) {
        self.links.push(&mut self.owners[owner as usize].slots, slot);
    }

    /// Removes a slot that is no longer evictable.
    pub(super) fn remove(&mut self, owner: OwnerNumber, slot: u32) {
        self.links.remove(&mut self.owners[owner as usize].slots, slot);
    }

    /// Returns by how many pages a tenant would exceed its quota with `more` pages.
    pub(super) fn excess(&self, owner: OwnerNumber, more: u64) -> u64 {
        (self.owners[owner as usize].pages + more).saturating_sub(self.quota(owner))
    }

    /// Returns whether the quota of a tenant is at least this many pages.
    pub(super) fn fits(&self, owner: OwnerNumber, pages: u64) -> bool {
        pages <= self.quota(owner)
    }

    /// Returns the tenant's slot to evict next: the longest unused one; slots above the lowest levels get a second
    /// chance.
    pub(super) fn victim(&mut self, owner: OwnerNumber, levels: &LfuList) -> Option<u32> {
        let mut list = self.owners[owner as usize].slots;
        for _ in 0..SECOND_CHANCES {
            let slot = list.first()?;
            if levels.level(slot).is_none_or(|level| level <= 1) {
                break;
            }
            self.links.remove(&mut list, slot);
            self.links.push(&mut list, slot);
        }
        self.owners[owner as usize].slots = list;
        list.first()
    }

    /// Returns all tenants with pages or a quota, by name.
    pub(super) fn stats(&self) -> Vec<OwnerStats> {
        let mut stats: Vec<_> = self
            .owners
            .iter()
            .map(|owner| OwnerStats {
                tenant: owner.tenant.clone(),
                cached_bytes: owner.pages * PAGE_BYTES,
                quota_bytes: Some(owner.quota_pages.unwrap_or(self.quota_pages))
                    .filter(|pages| *pages <= u64::MAX / PAGE_BYTES)
                    .map(|pages| pages * PAGE_BYTES),
                evicted_bytes: owner.evicted_pages * PAGE_BYTES,
            })
            .collect();
        stats.sort_by(|left, right| left.tenant.cmp(&right.tenant));
        stats
    }
}
