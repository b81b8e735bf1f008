//! Conversion between journal and index.

use super::*;

impl Index {
    /// Creates an index from journal entries. Evicts slots that no longer fit; the space of unused slots must still be
    /// [released](Index::free_ranges).
    pub(in crate::regions) fn restore(limits: Limits, owner_pages_max: u64, entries: &[Entry]) -> Self {
        let mut index = Self::new(limits, owner_pages_max);
        // Numbers in the journal differ from those in the index: objects without slots have none.
        let mut objects: HashMap<u32, (ObjectId, Option<TenantId>)> = HashMap::new();
        let mut held: HashMap<u32, &Entry> = HashMap::new();
        let mut owned: HashMap<u32, (ObjectId, Option<TenantId>)> = HashMap::new();
        for entry in entries {
            match entry {
                Entry::Object { number, id, owner } => drop(objects.insert(*number, (*id, owner.clone()))),
                Entry::Slot { slot, object, .. } => {
                    if let Some(named) = objects.get(object) {
                        held.insert(*slot, entry);
                        owned.insert(*slot, named.clone());
                    }
                }
                Entry::Free { slot } => drop(held.remove(slot)),
            }
        }
        let mut slots: Vec<(u32, &Entry)> = held.into_iter().filter(|(slot, _)| *slot < limits.slots).collect();
        slots.sort_unstable_by_key(|(slot, _)| *slot);
        for (slot, entry) in slots {
            let (id, owner) = &owned[&slot];
            index.restore_slot(slot, entry, *id, owner.as_ref());
        }
        index.free_slots = (0..index.slots.len() as u32)
            .filter(|slot| index.slots[*slot as usize].object.is_none())
            .rev()
            .collect();
        while index.taken_pages > limits.pages {
            let Some(victim) = index.levels.victim() else { break };
            index.evict(victim);
            index.free_slots.push(victim);
        }
        index.stats = RegionCacheStats {
            kinds: index.stats.kinds.map(|kind| super::super::KindStats {
                evicted_bytes: 0,
                ..kind
            }),
            ..RegionCacheStats::default()
        };
        index
    }

    fn restore_slot(&mut self, slot: u32, entry: &Entry, id: ObjectId, owner: Option<&TenantId>) {
        let Entry::Slot {
            region,
            present,
            kinds,
            level,
            ..
        } = entry
        else {
            return;
        };
        let are_kinds = bits(*present)
            .flatten()
            .all(|page| (kinds >> (4 * page) & 15) < PartKind::ALL.len() as u64);
        if *present == 0 || !are_kinds {
            return;
        }
        let number = self.number_of(id, owner);
        // After lost entries two slots may claim the same region; checksums decide about either one.
        if self.regions.contains_key(&(number, *region)) {
            return;
        }
        if self.slots.len() <= slot as usize {
            self.slots.resize(slot as usize + 1, Slot::default());
        }
        self.slots[slot as usize] = Slot {
            object: Some(number),
            region: *region,
            present: *present,
            kinds: *kinds,
            level: Some(u32::from(*level)),
            ..Slot::default()
        };
        self.regions.insert((number, *region), slot);
        for page in bits(*present).flatten() {
            let kind = self.slots[slot as usize].kind(page);
            self.stats.kinds[kind].cached_bytes += PAGE_BYTES;
        }
        let price = self.price(slot);
        self.taken_pages += price;
        let object = self.object(number);
        object.slots += 1;
        object.pages += u64::from(present.count_ones());
        if let Some(owner) = object.owner {
            self.owners.add(owner, price);
        }
        self.link(slot);
    }

    /// Returns all entries, as the start of a new journal. They include pending entries.
    pub(in crate::regions) fn write_all(&mut self) -> Vec<u8> {
        self.log = Log::default();
        for object in self.objects.iter_mut().flatten() {
            object.is_logged = false;
        }
        for slot in 0..self.slots.len() as u32 {
            if self.slots[slot as usize].present != 0 {
                self.log_slot(slot);
            }
        }
        self.log.take()
    }

    /// Returns the ranges of the file before the end of the last slot that hold no page.
    pub(in crate::regions) fn free_ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (slot, held) in self.slots.iter().enumerate() {
            let present = if held.object.is_some() { held.present } else { 0 };
            for pages in bits(!present) {
                let range = offset(slot as u32, pages.start)..offset(slot as u32, pages.end);
                match ranges.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => ranges.push(range),
                }
            }
        }
        ranges
    }

    /// Returns the end of the last slot.
    pub(in crate::regions) fn file_len(&self) -> u64 {
        offset(self.slots.len() as u32, 0)
    }
}
