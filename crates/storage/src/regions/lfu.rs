//! Eviction order: decayed LFU. The least frequently used slot is evicted first, and old uses count less.
//!
//! Slots are in lists by level. Each use raises a slot by one level, to the end of that list. Eviction takes the front
//! of the lowest list; if it is empty, all slots sink by one level at once. So decay is as fast as evictions, and
//! without evictions nothing decays. A new slot starts one above the lowest level: prefetched pages stay until they are
//! read, even if all other slots are in frequent use. This is the policy of Elasticsearch's shared cache.

/// Number of levels. A slot on the highest level is evicted after this many rounds without a use.
const LEVELS: u32 = 16;

/// Level of a new slot.
const LEVEL_NEW: u32 = 1;

/// Absent slot.
const NONE: u32 = u32::MAX;

/// Ends of a list of slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> Self {
        Self {
            first: NONE,
            last: NONE,
        }
    }
}

impl List {
    /// Returns the slot that has been in the list longest.
    pub(super) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }
}

/// Neighbour links of all slots for one sort of lists. A slot is in at most one of them.
#[derive(Debug, Default)]
pub(super) struct Links(Vec<(u32, u32)>);

impl Links {
    /// Appends a slot that is in no list.
    pub(super) fn push(&mut self, list: &mut List, slot: u32) {
        if self.0.len() <= slot as usize {
            self.0.resize(slot as usize + 1, (NONE, NONE));
        }
        self.0[slot as usize] = (list.last, NONE);
        match list.last {
            NONE => list.first = slot,
            last => self.0[last as usize].1 = slot,
        }
        list.last = slot;
    }

    /// Removes a slot from its list.
    pub(super) fn remove(&mut self, list: &mut List, slot: u32) {
        let (before, after) = self.0[slot as usize];
        match before {
            NONE => list.first = after,
            before => self.0[before as usize].1 = after,
        }
        match after {
            NONE => list.last = before,
            after => self.0[after as usize].0 = before,
        }
    }
}

/// All evictable slots, by frequency of use.
#[derive(Debug, Default)]
pub(super) struct LfuList {
    links: Links,
    lists: [List; LEVELS as usize],
    /// Number of sinks so far: the rank of the lowest level.
    base: u32,
    /// Per slot: its level plus `base` at insertion, which a sink does not change. `None`: in no list.
    ranks: Vec<Option<u32>>,
}

impl LfuList {
    /// Adds a slot: a new one, or one with the level that it had at its removal.
    pub(super) fn insert(&mut self, slot: u32, level: Option<u32>) {
        let level = level.unwrap_or(LEVEL_NEW).min(LEVELS - 1);
        if self.ranks.len() <= slot as usize {
            self.ranks.resize(slot as usize + 1, None);
        }
        debug_assert!(self.ranks[slot as usize].is_none(), "slot {slot} is in a list already");
        let rank = self.base.wrapping_add(level);
        self.ranks[slot as usize] = Some(rank);
        self.links.push(&mut self.lists[(rank % LEVELS) as usize], slot);
    }

    /// Removes a slot and returns its level, if it is in a list.
    pub(super) fn remove(&mut self, slot: u32) -> Option<u32> {
        let rank = self.ranks.get_mut(slot as usize)?.take()?;
        self.links.remove(&mut self.lists[(rank % LEVELS) as usize], slot);
        Some(rank.wrapping_sub(self.base))
    }

    /// Returns the level of a slot in a list.
    pub(super) fn level(&self, slot: u32) -> Option<u32> {
        let rank = (*self.ranks.get(slot as usize)?)?;
        Some(rank.wrapping_sub(self.base))
    }

    /// Counts a use, or with `lift` false only a prefetch.
    pub(super) fn touch(&mut self, slot: u32, lift: bool) {
        if let Some(level) = self.remove(slot) {
            self.insert(slot, Some(level + u32::from(lift)));
        }
    }

    /// Returns the slot to evict next, without removing it. `None` if there is no slot.
    pub(super) fn victim(&mut self) -> Option<u32> {
        for _ in 0..LEVELS {
            if let Some(slot) = self.lists[(self.base % LEVELS) as usize].first() {
                return Some(slot);
            }
            self.base = self.base.wrapping_add(1);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(levels: &mut LfuList) -> Vec<u32> {
        std::iter::from_fn(|| {
            let slot = levels.victim()?;
            levels.remove(slot);
            Some(slot)
        })
        .collect()
    }

    #[test]
    fn unused_ones_go_in_the_order_they_came() {
        let mut levels = LfuList::default();
        for slot in [3, 0, 2] {
            levels.insert(slot, None);
        }
        levels.touch(3, false);
        assert_eq!(drain(&mut levels), [0, 2, 3]);
        assert_eq!(levels.victim(), None);
    }

    #[test]
    fn what_is_used_often_stays() {
        let mut levels = LfuList::default();
        for slot in 0..4 {
            levels.insert(slot, None);
        }
        for _ in 0..3 {
            levels.touch(0, true);
        }
        levels.touch(2, true);
        assert_eq!(drain(&mut levels), [1, 3, 2, 0]);
    }

    #[test]
    fn use_ages_as_room_is_needed() {
        let mut levels = LfuList::default();
        levels.insert(0, None);
        for _ in 0..100 {
            levels.touch(0, true);
        }
        assert_eq!(levels.level(0), Some(LEVELS - 1));
        // New slots come and go; each of them is evicted before all slots sink again.
        let rounds = (1..1000).position(|slot| {
            levels.insert(slot, None);
            let victim = levels.victim().unwrap();
            levels.remove(victim);
            victim == 0
        });
        assert_eq!(rounds, Some(LEVELS as usize - 2));
    }

    /// A search prefetches while all other slots are in frequent use: its first prefetched pages must still be present
    /// when it reads them.
    #[test]
    fn new_ones_do_not_push_each_other_out() {
        let mut levels = LfuList::default();
        for slot in 0..8 {
            levels.insert(slot, Some(5));
        }
        for slot in 8..12 {
            let victim = levels.victim().unwrap();
            assert!(victim < 8, "slot {victim} has just come");
            levels.remove(victim);
            levels.insert(slot, None);
        }
    }
}
