//! Values of the targets of one event: one item for each value, lists as chains of items.

use super::raw_fields::recycle;

/// Items of a list up to which equal values are stored once. Longer lists are stored as they come, so that a long array
/// costs no quadratic time.
const UNIQUE_MAX: usize = 64;

/// Source of a value that comes from no raw field.
pub(crate) const NO_SOURCE: usize = u32::MAX as usize;

/// Value that is ready to print.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Item<'a> {
    /// Text without escapes.
    Plain(&'a str),
    /// Inside of a JSON string.
    Escaped(&'a str),
    /// JSON, printed as it is.
    Json(&'a str),
    Int(i64),
    Bool(bool),
    /// Text in the scratch buffer, from an offset to another.
    Scratch(u32, u32),
    /// JSON in the scratch buffer.
    ScratchJson(u32, u32),
    /// JSON of a constant of the pack.
    Constant(u32),
}

#[derive(Debug, Clone, Copy)]
struct Link<'a> {
    item: Item<'a>,
    /// Place + 1 of the next item of the list.
    next: u32,
}

/// First and last item of a target: places + 1.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    first: u32,
    last: u32,
    /// Of a list, the number of items; of a value, its rank.
    count_or_rank: u32,
    /// Place of the raw field + 1, so that a value that loses goes to the unmapped fields.
    source: u32,
}

/// Buffers of [`Items`] between two events.
#[derive(Debug, Default)]
pub(crate) struct ItemBuffers {
    links: Vec<Link<'static>>,
    slots: Vec<Slot>,
    filled: Vec<u64>,
    scratch: String,
}

/// Values of all targets of one event.
pub(crate) struct Items<'a> {
    links: Vec<Link<'a>>,
    slots: Vec<Slot>,
    /// One bit for each target that has a value.
    filled: Vec<u64>,
    pub(crate) scratch: String,
}

/// What became of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    /// It is in the target, or an equal one is.
    Yes,
    /// Another value is in the target.
    Lost,
    /// It is in the target, where the value of this raw field (its place) was.
    Replaced(usize),
}

impl<'a> Items<'a> {
    pub(crate) fn new(targets: usize, buffers: &mut ItemBuffers) -> Self {
        let mut slots = std::mem::take(&mut buffers.slots);
        slots.resize(targets, Slot::default());
        let mut filled = std::mem::take(&mut buffers.filled);
        filled.resize(targets.div_ceil(64), 0);
        let mut scratch = std::mem::take(&mut buffers.scratch);
        scratch.clear();
        Self {
            links: recycle(std::mem::take(&mut buffers.links)),
            slots,
            filled,
            scratch,
        }
    }

    /// Gives the buffers back, empty.
    pub(crate) fn return_to(mut self, buffers: &mut ItemBuffers) {
        for (at, word) in self.filled.iter_mut().enumerate() {
            while *word != 0 {
                let bit = word.trailing_zeros() as usize;
                self.slots[at * 64 + bit] = Slot::default();
                *word &= *word - 1;
            }
        }
        self.links.clear();
        buffers.links = recycle(self.links);
        buffers.slots = self.slots;
        buffers.filled = self.filled;
        buffers.scratch = self.scratch;
    }

    #[inline]
    pub(crate) fn is_filled(&self, target: u16) -> bool {
        self.slots[usize::from(target)].first != 0
    }

    #[inline]
    fn fill(&mut self, target: u16) {
        self.filled[usize::from(target) / 64] |= 1 << (target % 64);
    }

    #[inline]
    fn link(&mut self, item: Item<'a>) -> u32 {
        self.links.push(Link { item, next: 0 });
        self.links.len() as u32
    }

    /// Marks a target as printed although it has no item (the object of unmapped fields).
    pub(crate) fn mark(&mut self, target: u16) {
        self.fill(target);
    }

    /// Stores the only value of a target. Of two the one with the lower rank stays; of equal ranks the first.
    #[inline]
    pub(crate) fn set(&mut self, target: u16, item: Item<'a>, rank: u16, source: usize) -> Stored {
        let slot = self.slots[usize::from(target)];
        if slot.first == 0 {
            let place = self.link(item);
            self.slots[usize::from(target)] = Slot {
                first: place,
                last: place,
                count_or_rank: u32::from(rank),
                source: (source as u32).wrapping_add(1),
            };
            self.fill(target);
            return Stored::Yes;
        }
        self.compete(target, item, rank, source)
    }

    fn compete(&mut self, target: u16, item: Item<'a>, rank: u16, source: usize) -> Stored {
        let slot = self.slots[usize::from(target)];
        let is_single = slot.first == slot.last;
        if is_single && self.is_equal(self.links[slot.first as usize - 1].item, item) {
            return Stored::Yes;
        }
        if u32::from(rank) >= slot.count_or_rank {
            return Stored::Lost;
        }
        let place = self.link(item);
        self.slots[usize::from(target)] = Slot {
            first: place,
            last: place,
            count_or_rank: u32::from(rank),
            source: (source as u32).wrapping_add(1),
        };
        match slot.source {
            0 => Stored::Yes,
            source => Stored::Replaced(source as usize - 1),
        }
    }

    /// Adds a further value of an array to a target that [`Items::set`] filled.
    pub(crate) fn extend(&mut self, target: u16, item: Item<'a>) {
        let place = self.link(item);
        let slot = &mut self.slots[usize::from(target)];
        if slot.last != 0 {
            self.links[slot.last as usize - 1].next = place;
        }
        slot.last = place;
    }

    /// Appends a value to a list; a list stores equal values once.
    #[inline]
    pub(crate) fn append(&mut self, target: u16, item: Item<'a>) {
        let slot = self.slots[usize::from(target)];
        if slot.first == 0 {
            let place = self.link(item);
            self.slots[usize::from(target)] = Slot {
                first: place,
                last: place,
                count_or_rank: 1,
                source: 0,
            };
            self.fill(target);
            return;
        }
        if slot.count_or_rank as usize <= UNIQUE_MAX && self.of(target).any(|other| self.is_equal(other, item)) {
            return;
        }
        let place = self.link(item);
        self.links[slot.last as usize - 1].next = place;
        let slot = &mut self.slots[usize::from(target)];
        slot.last = place;
        slot.count_or_rank += 1;
    }

    /// Iterates over the values of a target.
    pub(crate) fn of(&self, target: u16) -> impl Iterator<Item = Item<'a>> {
        let mut next = self.slots[usize::from(target)].first;
        std::iter::from_fn(move || {
            let link = self.links[next.checked_sub(1)? as usize];
            next = link.next;
            Some(link.item)
        })
    }

    /// Returns the first value of a target, and the place of the next.
    #[inline]
    pub(crate) fn first(&self, target: u16) -> Option<(&Item<'a>, Option<u32>)> {
        let place = self.slots[usize::from(target)].first.checked_sub(1)?;
        Some(self.at(place))
    }

    /// Returns the value at a place, and the place of the next.
    #[inline]
    pub(crate) fn at(&self, place: u32) -> (&Item<'a>, Option<u32>) {
        let link = &self.links[place as usize];
        (&link.item, link.next.checked_sub(1))
    }

    /// Returns the text of the first value of a target, if it is one that needs no escapes.
    pub(crate) fn plain(&self, target: u16) -> Option<&str> {
        match self.of(target).next()? {
            Item::Plain(text) | Item::Escaped(text) => Some(text),
            Item::Scratch(start, end) => Some(&self.scratch[start as usize..end as usize]),
            _ => None,
        }
    }

    /// Iterates over the filled targets in the order of their numbers.
    pub(crate) fn filled(&self) -> impl Iterator<Item = u16> {
        self.filled.iter().enumerate().flat_map(|(at, word)| {
            let mut word = *word;
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some((at * 64) as u16 + bit as u16)
            })
        })
    }

    fn bytes(&self, item: Item<'a>) -> Option<&str> {
        match item {
            Item::Plain(text) => Some(text),
            Item::Scratch(start, end) => Some(&self.scratch[start as usize..end as usize]),
            _ => None,
        }
    }

    fn is_equal(&self, a: Item<'a>, b: Item<'a>) -> bool {
        match (self.bytes(a), self.bytes(b)) {
            (Some(a), Some(b)) => a == b,
            _ => a == b,
        }
    }

    /// Appends text to the scratch buffer.
    #[inline]
    pub(crate) fn scratch(&mut self, text: &str) -> Item<'a> {
        let start = self.scratch.len() as u32;
        self.scratch.push_str(text);
        Item::Scratch(start, self.scratch.len() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_rank_wins_and_equal_values_are_one() {
        let mut items = Items::new(2, &mut ItemBuffers::default());
        assert_eq!(items.set(1, Item::Plain("a"), 5, 10), Stored::Yes);
        assert_eq!(items.set(1, Item::Plain("b"), 6, 11), Stored::Lost);
        assert_eq!(items.set(1, Item::Plain("a"), 6, 11), Stored::Yes);
        assert_eq!(items.set(1, Item::Plain("c"), 4, 12), Stored::Replaced(10));
        assert_eq!(items.of(1).collect::<Vec<_>>(), [Item::Plain("c")]);
        assert_eq!(items.filled().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_list_stores_equal_values_once() {
        let mut buffers = ItemBuffers::default();
        let mut items = Items::new(70, &mut buffers);
        let scratch = items.scratch("a");
        for item in [Item::Plain("a"), Item::Plain("b"), scratch, Item::Plain("b")] {
            items.append(69, item);
        }
        assert_eq!(items.of(69).collect::<Vec<_>>(), [Item::Plain("a"), Item::Plain("b")]);
        items.return_to(&mut buffers);
        assert_eq!(Items::new(70, &mut buffers).filled().count(), 0);
    }

    #[test]
    fn a_long_list_is_appended_in_linear_time() {
        let mut items = Items::new(1, &mut ItemBuffers::default());
        for n in 0..1_000_000 {
            items.append(0, Item::Int(n));
        }
        assert_eq!(items.of(0).count(), 1_000_000);
    }
}
