//! In-memory index of the cache file: the location of each page.
//!
//! A slot is *linked* while it is evictable, that is unless it is pinned or being filled. The pages of a slot are
//! counted when a fill is granted, before a byte is written, so that the file never exceeds its limit.

#[cfg(test)]
mod check;
mod eviction;
mod restore;

use std::collections::HashMap;
use std::ops::Range;

use firn_model::tenant::TenantId;

use super::journal::{Entry, Log};
use super::lfu::LfuList;
use super::object::{CachedObject, ObjectId};
use super::plan::Run;
use super::stats::{RegionCacheStats, number};
use super::tenant_quotas::{OwnerNumber, TenantQuotas};
use super::{PAGE_BYTES, REGION_BYTES, REGION_PAGES};
use crate::split::PartKind;
pub(super) use eviction::Reservation;

/// Limits of the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Maximum pages of all slots together.
    pub(super) pages: u64,
    /// Maximum number of slots, however small they are.
    pub(super) slots: u32,
    /// Maximum pages of pinned slots.
    pub(super) pinned_pages: u64,
    /// Whether a slot takes only its present pages; otherwise it takes its whole length.
    pub(super) is_sparse: bool,
}

/// Object that has slots or is pinned.
#[derive(Debug)]
struct Object {
    id: ObjectId,
    owner: Option<OwnerNumber>,
    slots: u32,
    pages: u64,
    is_pinned: bool,
    /// Whether the journal contains its number.
    is_logged: bool,
}

/// Slot of the file. Bit n of a mask stands for page n of the region.
#[derive(Debug, Clone, Default)]
struct Slot {
    /// Number of the object; `None`: the slot is free, or its space is being released.
    object: Option<u32>,
    region: u32,
    /// Pages that are readable.
    present: u16,
    /// Pages that are being written.
    claimed: u16,
    /// Prefetched pages that were not read yet.
    fresh: u16,
    /// Number of active writers.
    fills: u16,
    is_pinned: bool,
    /// Incremented when the slot is emptied, so that a reader can distinguish evicted pages from damaged ones.
    generation: u32,
    /// Level at the time when it was unlinked to be filled.
    level: Option<u32>,
    /// Kinds of its pages, four bits each.
    kinds: u64,
}

impl Slot {
    fn kind(&self, page: u32) -> usize {
        (self.kinds >> (4 * page) & 15) as usize
    }

    fn set_kind(&mut self, page: u32, kind: PartKind) {
        self.kinds &= !(15 << (4 * page));
        self.kinds |= (number(kind) as u64) << (4 * page);
    }
}

/// Location of pages of one region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// Consecutive pages of one region, all present or all absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) pages: Range<u64>,
    pub(super) place: Option<Place>,
}

/// All slots and objects.
#[derive(Debug)]
pub(super) struct Index {
    limits: Limits,
    objects: Vec<Option<Object>>,
    numbers: HashMap<ObjectId, u32>,
    free_numbers: Vec<u32>,
    slots: Vec<Slot>,
    regions: HashMap<(u32, u32), u32>,
    free_slots: Vec<u32>,
    levels: LfuList,
    owners: TenantQuotas,
    taken_pages: u64,
    pinned_pages: u64,
    /// Entries for the journal.
    pub(super) log: Log,
    pub(super) stats: RegionCacheStats,
}

/// Returns a mask of pages within their region.
pub(super) fn mask(pages: &Range<u64>) -> u16 {
    let count = (pages.end - pages.start) as u32;
    let ones = if count >= 16 { u16::MAX } else { (1 << count) - 1 };
    ones << (pages.start % REGION_PAGES)
}

/// Returns the runs of ones in a mask.
pub(super) fn bits(mut mask: u16) -> impl Iterator<Item = Range<u32>> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let start = mask.trailing_zeros();
        let len = (mask >> start).trailing_ones();
        let end = start + len;
        mask = if end >= 16 { 0 } else { mask >> end << end };
        Some(start..end)
    })
}

fn bytes(mask: u16) -> u64 {
    u64::from(mask.count_ones()) * PAGE_BYTES
}

impl Index {
    pub(super) fn new(limits: Limits, owner_pages_max: u64) -> Self {
        Self {
            limits,
            objects: Vec::new(),
            numbers: HashMap::new(),
            free_numbers: Vec::new(),
            slots: Vec::new(),
            regions: HashMap::new(),
            free_slots: Vec::new(),
            levels: LfuList::default(),
            owners: TenantQuotas::new(owner_pages_max),
            taken_pages: 0,
            pinned_pages: 0,
            log: Log::default(),
            stats: RegionCacheStats::default(),
        }
    }

    /// Splits a run at region borders and at changes between present and absent pages.
    pub(super) fn spans(&self, object: ObjectId, run: &Range<u64>) -> Vec<Span> {
        let number = self.numbers.get(&object).copied();
        let mut spans: Vec<Span> = Vec::new();
        let mut start = run.start;
        while start < run.end {
            let region = start / REGION_PAGES;
            let end = run.end.min((region + 1) * REGION_PAGES);
            let found = number.and_then(|number| self.regions.get(&(number, u32::try_from(region).ok()?)));
            let wanted = mask(&(start..end));
            let there = found.map_or(0, |slot| self.slots[*slot as usize].present & wanted);
            let place = found.map(|slot| Place {
                slot: *slot,
                generation: self.slots[*slot as usize].generation,
            });
            let base = region * REGION_PAGES;
            let range = |bits: Range<u32>| base + u64::from(bits.start)..base + u64::from(bits.end);
            let present = bits(there).map(|bits| Span {
                pages: range(bits),
                place,
            });
            let absent = bits(wanted & !there).map(|bits| Span {
                pages: range(bits),
                place: None,
            });
            let first = spans.len();
            spans.extend(present.chain(absent));
            spans[first..].sort_by_key(|span| span.pages.start);
            start = end;
        }
        spans
    }

    /// Returns whether a slot has not been emptied since the place was found.
    pub(super) fn is_current(&self, place: Place) -> bool {
        self.slots[place.slot as usize].generation == place.generation
    }

    /// Counts a read of pages in a slot, or a prefetch.
    pub(super) fn take(&mut self, place: Place, run: &Run, is_read: bool) {
        self.levels.touch(place.slot, is_read);
        if is_read {
            let slot = &mut self.slots[place.slot as usize];
            let wanted = mask(&run.pages);
            let missed = slot.fresh & wanted;
            slot.fresh &= !wanted;
            let stats = &mut self.stats.kinds[number(run.kind)];
            stats.missed_bytes += bytes(missed);
            stats.hit_bytes += bytes(wanted & !missed);
        }
    }

    /// Marks pages as read that a reader got from another reader's prefetch flight.
    pub(super) fn seen(&mut self, object: ObjectId, pages: &Range<u64>) {
        for span in self.spans(object, pages) {
            if let Some(place) = span.place {
                self.slots[place.slot as usize].fresh &= !mask(&span.pages);
            }
        }
    }

    /// Returns the cached bytes of an object.
    pub(super) fn object_bytes(&self, object: ObjectId) -> u64 {
        let number = self.numbers.get(&object);
        let object = number.and_then(|number| self.objects[*number as usize].as_ref());
        object.map_or(0, |object| object.pages * PAGE_BYTES)
    }

    pub(super) fn set_quota(&mut self, tenant: &TenantId, quota_bytes: Option<u64>) {
        let owner = self.owners.number(tenant);
        self.owners
            .set_quota(owner, quota_bytes.map(|bytes| bytes / PAGE_BYTES));
    }

    /// Pins or unpins objects, including those without cached pages. Slots beyond the limit of pinned pages stay
    /// evictable.
    pub(super) fn pin(&mut self, objects: &[ObjectId], is_pinned: bool) {
        let mut chosen = vec![false; self.objects.len()];
        for id in objects {
            if !is_pinned && !self.numbers.contains_key(id) {
                continue;
            }
            let number = self.number_of(*id, None) as usize;
            chosen.resize(chosen.len().max(number + 1), false);
            chosen[number] = true;
            if let Some(object) = &mut self.objects[number] {
                object.is_pinned = is_pinned;
            }
        }
        for slot in 0..self.slots.len() as u32 {
            let is_chosen = self.slots[slot as usize]
                .object
                .is_some_and(|number| chosen[number as usize]);
            if is_chosen && self.slots[slot as usize].fills == 0 {
                self.unlink(slot);
                self.link(slot);
            }
        }
        for (number, _) in chosen.iter().enumerate().filter(|(_, is_chosen)| **is_chosen) {
            self.forget_if_empty(number as u32);
        }
    }

    /// Returns a snapshot of the counters.
    pub(super) fn stats(&self) -> RegionCacheStats {
        RegionCacheStats {
            size_bytes: self.limits.pages * PAGE_BYTES,
            used_bytes: self.taken_pages * PAGE_BYTES,
            pinned_bytes: self.pinned_pages * PAGE_BYTES,
            regions: self.regions.len() as u64,
            regions_max: u64::from(self.limits.slots),
            owners: self.owners.stats(),
            ..self.stats.clone()
        }
    }

    /// Returns the disk space of all slots, as counted by the index.
    pub(super) fn taken_bytes(&self) -> u64 {
        self.taken_pages * PAGE_BYTES
    }

    /// Returns the number of an object, a new one if needed.
    fn number_of(&mut self, id: ObjectId, owner: Option<&TenantId>) -> u32 {
        let owner = owner.map(|tenant| self.owners.number(tenant));
        if let Some(number) = self.numbers.get(&id).copied() {
            // An object that was pinned before its first page has no known owner yet.
            let object = self.object(number);
            object.owner = if object.slots == 0 { owner } else { object.owner };
            return number;
        }
        let object = Some(Object {
            id,
            owner,
            slots: 0,
            pages: 0,
            is_pinned: false,
            is_logged: false,
        });
        let number = match self.free_numbers.pop() {
            Some(number) => {
                self.objects[number as usize] = object;
                number
            }
            None => {
                self.objects.push(object);
                self.objects.len() as u32 - 1
            }
        };
        self.numbers.insert(id, number);
        number
    }

    fn object(&mut self, number: u32) -> &mut Object {
        self.objects[number as usize]
            .as_mut()
            .expect("slots name objects that are there")
    }

    /// Removes an object without slots, unless it is pinned.
    fn forget_if_empty(&mut self, number: u32) {
        let Some(object) = &self.objects[number as usize] else {
            return;
        };
        if object.slots == 0 && !object.is_pinned {
            self.numbers.remove(&object.id);
            self.objects[number as usize] = None;
            self.free_numbers.push(number);
        }
    }

    /// Returns the pages that a slot takes.
    fn price(&self, slot: u32) -> u64 {
        let slot = &self.slots[slot as usize];
        match self.limits.is_sparse {
            true => u64::from((slot.present | slot.claimed).count_ones()),
            false => REGION_PAGES,
        }
    }

    /// Makes a slot evictable, or counts it as pinned.
    fn link(&mut self, slot: u32) {
        let number = self.slots[slot as usize].object.expect("a slot in use");
        let price = self.price(slot);
        let has_room = self.pinned_pages + price <= self.limits.pinned_pages;
        let object = self.object(number);
        let owner = object.owner;
        if object.is_pinned && has_room {
            self.slots[slot as usize].is_pinned = true;
            self.pinned_pages += price;
            return;
        }
        let level = self.slots[slot as usize].level.take();
        self.levels.insert(slot, level);
        if let Some(owner) = owner {
            self.owners.insert(owner, slot);
        }
    }

    /// Removes a slot from the eviction lists, or from the pinned ones.
    fn unlink(&mut self, slot: u32) {
        if self.slots[slot as usize].is_pinned {
            self.pinned_pages -= self.price(slot);
            self.slots[slot as usize].is_pinned = false;
            return;
        }
        let level = self.levels.remove(slot);
        self.slots[slot as usize].level = level;
        let number = self.slots[slot as usize].object.expect("a slot in use");
        if let Some(owner) = self.object(number).owner {
            self.owners.remove(owner, slot);
        }
    }

    /// Adds the content of a slot to the journal.
    fn log_slot(&mut self, slot: u32) {
        let held = &self.slots[slot as usize];
        let Some(number) = held.object else {
            self.log.push(&Entry::Free { slot });
            return;
        };
        let entry = Entry::Slot {
            slot,
            object: number,
            region: held.region,
            present: held.present,
            kinds: held.kinds,
            level: self.levels.level(slot).or(held.level).unwrap_or(0) as u8,
        };
        let object = self.objects[number as usize]
            .as_mut()
            .expect("slots name objects that are there");
        if !object.is_logged {
            object.is_logged = true;
            let owner = object.owner.map(|owner| self.owners.tenant(owner).clone());
            self.log.push(&Entry::Object {
                number,
                id: object.id,
                owner,
            });
        }
        self.log.push(&entry);
    }
}

/// Returns the offset of a slot's page in the file.
pub(super) fn offset(slot: u32, page: u32) -> u64 {
    u64::from(slot) * REGION_BYTES + u64::from(page) * PAGE_BYTES
}
