//! What tenants have of the cache, and who of a tenant's slots makes room when its quota is used up.

use std::collections::HashMap;

use firn_model::tenant::TenantId;

use super::PAGE_BYTES;
use super::levels::{Levels, Links, List};
use super::stats::OwnerStats;

/// Slots that one search for a victim passes by because they are in use; then the next one goes all the same.
const SECOND_CHANCES: usize = 32;

/// A tenant's number; small, because every object has one.
pub(super) type OwnerNumber = u32;

#[derive(Debug)]
struct Owner {
    tenant: TenantId,
    quota_pages: Option<u64>,
    pages: u64,
    evicted_pages: u64,
    /// Slots that may make room, the longest unused first.
    slots: List,
}

/// All tenants that ever had something in the cache or were given a quota.
#[derive(Debug)]
pub(super) struct Owners {
    /// The quota of those that have none of their own.
    quota_pages: u64,
    numbers: HashMap<TenantId, OwnerNumber>,
    owners: Vec<Owner>,
    links: Links,
}

impl Owners {
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

    /// The number of a tenant.
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

    /// Counts pages that a tenant gets.
    pub(super) fn add(&mut self, owner: OwnerNumber, pages: u64) {
        self.owners[owner as usize].pages += pages;
    }

    /// Counts pages that a tenant loses; `evicted` if others needed the room.
    pub(super) fn subtract(&mut self, owner: OwnerNumber, pages: u64, evicted: bool) {
        let owner = &mut self.owners[owner as usize];
        owner.pages -= pages;
        owner.evicted_pages += if evicted { pages } else { 0 };
    }

    /// A slot may make room from now on.
    pub(super) fn insert(&mut self, owner: OwnerNumber, slot: u32) {
        self.links.push(&mut self.owners[owner as usize].slots, slot);
    }

    /// A slot may not make room any more.
    pub(super) fn remove(&mut self, owner: OwnerNumber, slot: u32) {
        self.links.remove(&mut self.owners[owner as usize].slots, slot);
    }

    /// How many pages a tenant with so many more has too many.
    pub(super) fn excess(&self, owner: OwnerNumber, more: u64) -> u64 {
        (self.owners[owner as usize].pages + more).saturating_sub(self.quota(owner))
    }

    /// Whether a tenant may ever have so many pages at once.
    pub(super) fn fits(&self, owner: OwnerNumber, pages: u64) -> bool {
        pages <= self.quota(owner)
    }

    /// Who of a tenant's slots makes room next: the longest unused one, where slots above the lowest level get another chance.
    pub(super) fn victim(&mut self, owner: OwnerNumber, levels: &Levels) -> Option<u32> {
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

    /// All tenants that have something or a quota, by name.
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
