//! Filling and eviction of slots.
//!
//! A fill takes three steps, because the index is locked and the disk is slow. [`reserve`](Index::reserve) counts the
//! pages and returns the evicted slots. The caller releases their disk space and reports it with
//! [`release`](Index::release). The caller then writes, and [`settle`](Index::settle) makes the pages readable. An
//! evicted slot is reused only after its release: otherwise no slot would account for its space on the disk.

use super::*;

/// Part of a slot that may be written.
#[derive(Debug)]
pub(in crate::regions) struct Grant {
    pub(in crate::regions) slot: u32,
    /// Pages to write: the requested pages that are absent.
    pub(in crate::regions) mask: u16,
}

/// Outcome of a reservation.
#[derive(Debug)]
pub(in crate::regions) enum Reservation {
    /// Write, then settle.
    Granted(Grant),
    /// Slots were evicted: release their space and reserve again.
    Emptied(Vec<u32>),
    /// All pages are present or being written by another reader.
    Present,
    /// There is no space, or not for this tenant.
    Refused,
}

impl Index {
    /// Reserves space for pages of a region.
    pub(in crate::regions) fn reserve(&mut self, object: &CachedObject, region: u32, wanted: u16) -> Reservation {
        let number = self.number_of(object.id, object.owner.as_ref());
        let found = self.regions.get(&(number, region)).copied();
        // A slot that is to be filled must not be evicted for itself.
        if let Some(slot) = found.filter(|slot| self.slots[*slot as usize].fills == 0) {
            self.unlink(slot);
        }
        let reservation = self.reserve_unlinked(number, region, wanted, found);
        if let Some(slot) = found.filter(|slot| self.slots[*slot as usize].fills == 0) {
            self.link(slot);
        }
        self.forget_if_empty(number);
        reservation
    }

    fn reserve_unlinked(&mut self, number: u32, region: u32, wanted: u16, found: Option<u32>) -> Reservation {
        let held = found.map_or(0, |slot| {
            let slot = &self.slots[slot as usize];
            slot.present | slot.claimed
        });
        let mask = wanted & !held;
        if mask == 0 {
            return Reservation::Present;
        }
        let price = match (self.limits.is_sparse, found) {
            (true, _) => u64::from(mask.count_ones()),
            (false, None) => REGION_PAGES,
            (false, Some(_)) => 0,
        };
        let owner = self.object(number).owner;
        let fits = price <= self.limits.pages && owner.is_none_or(|owner| self.owners.fits(owner, price));
        if !fits || self.limits.slots == 0 {
            return Reservation::Refused;
        }
        let mut emptied = Vec::new();
        while let Some(victim) = self.who_makes_room(price, owner, found.is_none() && emptied.is_empty()) {
            match victim {
                Some(slot) => {
                    self.evict(slot);
                    emptied.push(slot);
                }
                None if emptied.is_empty() => return Reservation::Refused,
                None => break,
            }
        }
        if !emptied.is_empty() {
            return Reservation::Emptied(emptied);
        }
        let slot = found.unwrap_or_else(|| self.occupy(number, region));
        let held = &mut self.slots[slot as usize];
        held.claimed |= mask;
        held.fills += 1;
        self.taken_pages += price;
        if let Some(owner) = owner {
            self.owners.add(owner, price);
        }
        Reservation::Granted(Grant { slot, mask })
    }

    /// Returns the slot to evict. `None`: there is space. `Some(None)`: there is not, and no slot is evictable.
    fn who_makes_room(&mut self, price: u64, owner: Option<OwnerNumber>, needs_slot: bool) -> Option<Option<u32>> {
        if let Some(owner) = owner.filter(|owner| self.owners.excess(*owner, price) > 0) {
            return Some(self.owners.victim(owner, &self.levels));
        }
        let has_slot = !self.free_slots.is_empty() || (self.slots.len() as u32) < self.limits.slots;
        let is_full = self.taken_pages + price > self.limits.pages || needs_slot && !has_slot;
        is_full.then(|| self.levels.victim())
    }

    /// Assigns a free slot to a region.
    fn occupy(&mut self, number: u32, region: u32) -> u32 {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let generation = self.slots[slot as usize].generation;
        self.slots[slot as usize] = Slot {
            object: Some(number),
            region,
            generation,
            ..Slot::default()
        };
        self.regions.insert((number, region), slot);
        self.object(number).slots += 1;
        slot
    }

    /// Ends a fill. If nothing was written, the reservation is undone; a slot that is empty then must be released.
    #[must_use]
    pub(in crate::regions) fn settle(
        &mut self,
        grant: Grant,
        is_written: bool,
        fresh: u16,
        kind: impl Fn(u32) -> PartKind,
    ) -> Option<u32> {
        let Grant { slot, mask } = grant;
        let number = self.slots[slot as usize]
            .object
            .expect("a slot being filled is not evicted");
        let before = self.price(slot);
        let held = &mut self.slots[slot as usize];
        held.claimed &= !mask;
        held.fills -= 1;
        if is_written {
            held.present |= mask;
            held.fresh |= fresh & mask;
            for page in bits(mask).flatten() {
                held.set_kind(page, kind(page));
                self.stats.kinds[number_of_kind(held, page)].cached_bytes += PAGE_BYTES;
            }
            self.object(number).pages += u64::from(mask.count_ones());
        }
        self.refund(number, before - self.price(slot), false);
        if self.slots[slot as usize].fills > 0 {
            return None;
        }
        if self.slots[slot as usize].present == 0 {
            self.empty(slot, false);
            return Some(slot);
        }
        self.link(slot);
        self.log_slot(slot);
        None
    }

    /// Removes damaged pages. Returns `None` if they were already removed; otherwise whether their slot is empty now
    /// and must be released.
    #[must_use]
    pub(in crate::regions) fn forget(&mut self, place: Place, pages: u16) -> Option<bool> {
        let slot = place.slot;
        let held = &self.slots[slot as usize];
        let lost = held.present & pages;
        if held.generation != place.generation || held.object.is_none() || lost == 0 {
            return None;
        }
        let is_linked = held.fills == 0;
        if is_linked {
            self.unlink(slot);
        }
        self.lose(slot, lost, false);
        let held = &self.slots[slot as usize];
        if held.fills > 0 {
            return Some(false);
        }
        if held.present == 0 {
            self.empty(slot, false);
            return Some(true);
        }
        self.link(slot);
        self.log_slot(slot);
        Some(false)
    }

    /// Empties the slots of the chosen objects, except those being filled. Returns the slots, which must be released.
    #[must_use]
    pub(in crate::regions) fn clear(&mut self, is_chosen: impl Fn(&ObjectId) -> bool) -> Vec<u32> {
        let mut emptied = Vec::new();
        for slot in 0..self.slots.len() as u32 {
            let held = &self.slots[slot as usize];
            let Some(number) = held.object.filter(|_| held.fills == 0) else {
                continue;
            };
            if is_chosen(&self.object(number).id) {
                self.unlink(slot);
                let present = self.slots[slot as usize].present;
                self.lose(slot, present, false);
                self.empty(slot, false);
                emptied.push(slot);
            }
        }
        emptied
    }

    /// Marks slots as reusable, after their space was released.
    pub(in crate::regions) fn release(&mut self, slots: &[u32]) {
        self.free_slots.extend_from_slice(slots);
    }

    /// Evicts a linked slot.
    pub(super) fn evict(&mut self, slot: u32) {
        self.unlink(slot);
        let present = self.slots[slot as usize].present;
        self.lose(slot, present, true);
        self.empty(slot, true);
        self.stats.evictions += 1;
    }

    /// Removes pages from an unlinked slot.
    fn lose(&mut self, slot: u32, lost: u16, evicted: bool) {
        let number = self.slots[slot as usize].object.expect("a slot in use");
        let before = self.price(slot);
        let held = &mut self.slots[slot as usize];
        held.present &= !lost;
        held.fresh &= !lost;
        for page in bits(lost).flatten() {
            let stats = &mut self.stats.kinds[number_of_kind(held, page)];
            stats.cached_bytes -= PAGE_BYTES;
            stats.evicted_bytes += if evicted { PAGE_BYTES } else { 0 };
        }
        self.object(number).pages -= u64::from(lost.count_ones());
        self.refund(number, before - self.price(slot), evicted);
    }

    /// Removes the region from an unlinked slot without pages.
    fn empty(&mut self, slot: u32, evicted: bool) {
        let number = self.slots[slot as usize].object.expect("a slot in use");
        self.refund(number, self.price(slot), evicted);
        let held = &mut self.slots[slot as usize];
        self.regions.remove(&(number, held.region));
        held.object = None;
        held.generation = held.generation.wrapping_add(1);
        self.object(number).slots -= 1;
        self.log_slot(slot);
        self.forget_if_empty(number);
    }

    fn refund(&mut self, number: u32, pages: u64, evicted: bool) {
        self.taken_pages -= pages;
        if let Some(owner) = self.object(number).owner {
            self.owners.subtract(owner, pages, evicted);
        }
    }
}

fn number_of_kind(slot: &Slot, page: u32) -> usize {
    // Four bits can hold more than the existing kinds; a restored slot was checked.
    slot.kind(page).min(PartKind::ALL.len() - 1)
}
