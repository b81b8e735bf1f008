//! Which slot makes room: the least frequently used one, where use that is long past counts less.
//!
//! Slots stand in lists by level. Each use lifts a slot by one level, to the end of its list. Room is made at the front of the
//! lowest list; when that is empty, all slots sink by one level at once. So time passes as fast as room is needed, and a cache
//! that has room forgets nothing. A new slot begins one above the lowest level: the pages that a question fetches
//! ahead stay until it reads them, even where all others are used often. This is the policy of Elasticsearch's shared cache.

/// Levels above which use no longer counts. A slot that was in constant use goes after this many rounds without any.
const LEVELS: u32 = 16;

/// Where a new slot begins.
const LEVEL_NEW: u32 = 1;

/// No slot.
const NONE: u32 = u32::MAX;

/// The two ends of a list of slots.
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
    /// The slot that has been in it for longest.
    pub(super) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }
}

/// The neighbours of all slots in lists of one sort. A slot stands in at most one of them.
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

    /// Takes a slot out of the list that it is in.
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

/// All slots that may make room, by how often they were used.
#[derive(Debug, Default)]
pub(super) struct Levels {
    links: Links,
    lists: [List; LEVELS as usize],
    /// How often everything has sunk so far: the rank of the lowest level.
    base: u32,
    /// Of each slot: its level plus `base` when it got there, which sinking does not change. `None`: in no list.
    ranks: Vec<Option<u32>>,
}

impl Levels {
    /// Adds a slot: a new one, or one that had this level when it was taken out.
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

    /// Takes a slot out and says its level, if it is in.
    pub(super) fn remove(&mut self, slot: u32) -> Option<u32> {
        let rank = self.ranks.get_mut(slot as usize)?.take()?;
        self.links.remove(&mut self.lists[(rank % LEVELS) as usize], slot);
        Some(rank.wrapping_sub(self.base))
    }

    /// The level of a slot that is in.
    pub(super) fn level(&self, slot: u32) -> Option<u32> {
        let rank = (*self.ranks.get(slot as usize)?)?;
        Some(rank.wrapping_sub(self.base))
    }

    /// Counts a use, or with `lift` false only that it will be used soon.
    pub(super) fn touch(&mut self, slot: u32, lift: bool) {
        if let Some(level) = self.remove(slot) {
            self.insert(slot, Some(level + u32::from(lift)));
        }
    }

    /// Who makes room next; it stays in. `None` if there is nobody.
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

    fn drain(levels: &mut Levels) -> Vec<u32> {
        std::iter::from_fn(|| {
            let slot = levels.victim()?;
            levels.remove(slot);
            Some(slot)
        })
        .collect()
    }

    #[test]
    fn unused_ones_go_in_the_order_they_came() {
        let mut levels = Levels::default();
        for slot in [3, 0, 2] {
            levels.insert(slot, None);
        }
        levels.touch(3, false);
        assert_eq!(drain(&mut levels), [0, 2, 3]);
        assert_eq!(levels.victim(), None);
    }

    #[test]
    fn what_is_used_often_stays() {
        let mut levels = Levels::default();
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
        let mut levels = Levels::default();
        levels.insert(0, None);
        for _ in 0..100 {
            levels.touch(0, true);
        }
        assert_eq!(levels.level(0), Some(LEVELS - 1));
        // New ones come and go; each of them is gone before all sink again.
        let rounds = (1..1000).position(|slot| {
            levels.insert(slot, None);
            let victim = levels.victim().unwrap();
            levels.remove(victim);
            victim == 0
        });
        assert_eq!(rounds, Some(LEVELS as usize - 2));
    }

    /// A question fetches ahead while everything else is in frequent use: what it fetched first must still be there when it
    /// reads.
    #[test]
    fn new_ones_do_not_push_each_other_out() {
        let mut levels = Levels::default();
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
