//! Recount of all sums, for tests.

use super::*;

impl Index {
    /// Panics if a sum differs from its parts. No slot may be being filled.
    pub(in crate::regions) fn check(&self) {
        let in_use = || (0..).zip(&self.slots).filter(|(_, slot)| slot.object.is_some());
        let taken: u64 = in_use().map(|(slot, _)| self.price(slot)).sum();
        assert_eq!(taken, self.taken_pages, "taken pages");
        let pinned = in_use().filter(|(_, slot)| slot.is_pinned);
        assert_eq!(
            pinned.map(|(slot, _)| self.price(slot)).sum::<u64>(),
            self.pinned_pages,
            "pinned pages"
        );
        assert_eq!(in_use().count(), self.regions.len(), "regions");
        assert_eq!(
            self.slots.len(),
            self.regions.len() + self.free_slots.len(),
            "every slot is in use or free"
        );
        for (number, slot) in in_use() {
            assert_eq!((slot.claimed, slot.fills), (0, 0));
            assert_ne!(slot.present, 0, "a slot without pages is free");
            assert_eq!(slot.fresh & !slot.present, 0);
            assert_eq!(self.regions[&(slot.object.unwrap(), slot.region)], number);
            assert_eq!(
                self.levels.level(number).is_none(),
                slot.is_pinned,
                "an unpinned slot is evictable"
            );
        }
        for (number, object) in (0..).zip(&self.objects) {
            let Some(object) = object else { continue };
            let slots = || in_use().filter(|(_, slot)| slot.object == Some(number));
            assert_eq!(slots().count(), object.slots as usize, "slots of {}", object.id);
            let pages = slots().map(|(_, slot)| u64::from(slot.present.count_ones()));
            assert_eq!(pages.sum::<u64>(), object.pages, "pages of {}", object.id);
            assert_eq!(self.numbers[&object.id], number);
        }
        let cached: u64 = self.stats.kinds.iter().map(|kind| kind.cached_bytes).sum();
        let present: u64 = in_use().map(|(_, slot)| bytes(slot.present)).sum();
        assert_eq!(cached, present, "cached bytes by kind");
        let owned = in_use().filter(|(_, slot)| {
            let object = self.objects[slot.object.unwrap() as usize].as_ref().unwrap();
            object.owner.is_some()
        });
        let owners: u64 = self.owners.stats().iter().map(|owner| owner.cached_bytes).sum();
        assert_eq!(
            owned.map(|(slot, _)| self.price(slot)).sum::<u64>() * PAGE_BYTES,
            owners,
            "owners' pages"
        );
    }
}
