//! Table of buckets by parent bucket and key, with their counts.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

use firn_model::Result;

use super::counts::{CountRow, Counts};
use crate::run::memory::Memory;

/// Most keys for which the counts of one parent are in a vector by key.
const DENSE_ONE_MAX: u64 = 1 << 24;
/// Most cells for which the counts of several parents are in one vector.
const DENSE_MANY_MAX: u64 = 1 << 22;
/// Approximate bytes of a bucket: its entry and its hash table slot.
const ENTRY_BYTES: usize = 48;

/// A bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) parent: u32,
    pub(super) key: u64,
    pub(super) count: u64,
}

/// Buckets of one aggregation on one segment. A bucket's slot is its number; without sub-aggregations, slots are
/// not needed and may not exist.
pub(super) struct Table {
    places: Places,
    entries: Vec<Entry>,
    memory: Memory,
    taken: usize,
    /// The caller needs slots.
    slotted: bool,
}

enum Places {
    /// Counts by `parent * width + key`.
    Direct { width: u64, counts: Counts },
    /// Slot plus one by `parent * width + key`; 0: none yet.
    Dense { width: u64, slots: Vec<u32> },
    /// Slots by parent and key.
    Hashed(HashMap<(u32, u64), u32, Mixer>),
}

impl Table {
    /// Creates a table for keys below `width`; `None`: any keys.
    pub(super) fn new(width: Option<u64>, slotted: bool, memory: &Memory) -> Self {
        let places = match width {
            Some(width) if width <= DENSE_ONE_MAX && slotted => Places::Dense {
                width,
                slots: Vec::new(),
            },
            Some(width) if width <= DENSE_ONE_MAX => Places::Direct {
                width,
                counts: Counts::for_width(width),
            },
            _ => Places::Hashed(HashMap::default()),
        };
        Self {
            places,
            entries: Vec::new(),
            memory: memory.clone(),
            taken: 0,
            slotted,
        }
    }

    /// Counts a block of documents: `parents[i]` and `keys[i]` for each. Writes the slots to `slots`, if they are
    /// needed.
    pub(super) fn add(&mut self, parents: &[u32], keys: &[u64], slots: &mut Vec<u32>) -> Result<()> {
        slots.clear();
        if keys.is_empty() {
            return Ok(());
        }
        let (first, last) = bounds(parents);
        self.make_room(last)?;
        match &mut self.places {
            Places::Direct { width, counts } => {
                let before = counts.extra_bytes();
                if first == last {
                    let start = u64::from(first) * *width;
                    counts.add_row(start as usize, *width as usize, keys);
                } else {
                    for (&parent, &key) in parents.iter().zip(keys) {
                        counts.add((u64::from(parent) * *width + key) as usize, 1);
                    }
                }
                let grown = counts.extra_bytes() - before;
                self.take(grown)
            }
            Places::Dense { width, slots: places } => {
                let before = self.entries.len();
                for (&parent, &key) in parents.iter().zip(keys) {
                    let place = &mut places[(u64::from(parent) * *width + key) as usize];
                    if *place == 0 {
                        self.entries.push(Entry { parent, key, count: 0 });
                        *place = self.entries.len() as u32;
                    }
                    let slot = *place - 1;
                    self.entries[slot as usize].count += 1;
                    slots.push(slot);
                }
                let grown = self.entries.len() - before;
                self.take(grown * ENTRY_BYTES)
            }
            Places::Hashed(map) => {
                let before = self.entries.len();
                for (&parent, &key) in parents.iter().zip(keys) {
                    let slot = *map.entry((parent, key)).or_insert_with(|| {
                        self.entries.push(Entry { parent, key, count: 0 });
                        self.entries.len() as u32 - 1
                    });
                    self.entries[slot as usize].count += 1;
                    slots.push(slot);
                }
                let grown = self.entries.len() - before;
                self.take(grown * ENTRY_BYTES)
            }
        }
    }

    /// Works like [`Self::add`] for documents with the same key.
    pub(super) fn add_same(&mut self, parents: &[u32], key: u64, slots: &mut Vec<u32>) -> Result<()> {
        let (first, last) = bounds(parents);
        if first != last || parents.is_empty() {
            return self.add(parents, &vec![key; parents.len()], slots);
        }
        self.add_many(first, key, parents.len() as u64, slots)?;
        if let Some(&slot) = slots.first() {
            slots.resize(parents.len(), slot);
        }
        Ok(())
    }

    /// Counts `count` documents of a bucket, at least one. Writes its slot to `slots`, if slots are needed.
    pub(super) fn add_many(&mut self, parent: u32, key: u64, count: u64, slots: &mut Vec<u32>) -> Result<()> {
        slots.clear();
        // The first document creates the bucket, the others are added in one step.
        self.add(&[parent], &[key], slots)?;
        let others = count - 1;
        match (&mut self.places, slots.first().copied()) {
            (Places::Direct { width, counts }, _) => {
                counts.add((u64::from(parent) * *width + key) as usize, others as u32);
            }
            (_, Some(slot)) => self.entries[slot as usize].count += others,
            (_, None) => {}
        }
        Ok(())
    }

    /// Returns the counts by key of one parent, if they are stored that way.
    pub(super) fn row(&self, parent: u32) -> Option<CountRow<'_>> {
        match &self.places {
            Places::Direct { width, counts } => {
                let start = usize::try_from(u64::from(parent) * *width).ok()?;
                Some(counts.row(start, *width as usize))
            }
            _ => None,
        }
    }

    /// Moves the counts of the only parent out, with the memory reserved for them, if they are stored by key.
    pub(super) fn take_row(&mut self) -> Option<(Counts, Memory, usize)> {
        match &mut self.places {
            Places::Direct { width, counts } => {
                let bytes = std::mem::take(&mut self.taken);
                let counts = std::mem::replace(counts, Counts::for_width(*width));
                Some((counts, self.memory.clone(), bytes))
            }
            _ => None,
        }
    }

    /// Adds the counts of a table for other documents of the same segment; both are without slots and have one parent.
    pub(super) fn absorb(&mut self, mut other: Self) -> Result<()> {
        debug_assert!(!self.slotted && !other.slotted);
        if let (Places::Direct { counts, .. }, Places::Direct { counts: others, .. }) =
            (&mut self.places, &other.places)
        {
            let missing = others.cell_count().saturating_sub(counts.cell_count());
            let bytes = missing * counts.cell_bytes();
            self.memory.take(bytes)?;
            self.taken += bytes;
            let before = counts.extra_bytes();
            counts.absorb(others);
            let grown = counts.extra_bytes() - before;
            return self.take(grown);
        }
        let (mut watch, mut slots) = (self.memory.watch(), Vec::new());
        for entry in other.entries() {
            watch.tick()?;
            self.add_many(entry.parent, entry.key, entry.count, &mut slots)?;
        }
        Ok(())
    }

    /// Extends the vectors to the largest parent, or replaces them by a hash table.
    fn make_room(&mut self, largest: u32) -> Result<()> {
        let (width, length, cell) = match &self.places {
            Places::Direct { width, counts } => (*width, counts.cell_count() as u64, counts.cell_bytes()),
            Places::Dense { width, slots } => (*width, slots.len() as u64, size_of::<u32>()),
            Places::Hashed(_) => return Ok(()),
        };
        let largest = u64::from(largest);
        let needed = (largest + 1).saturating_mul(width);
        if needed <= length {
            return Ok(());
        }
        if largest > 0 && needed > DENSE_MANY_MAX {
            return self.become_hashed();
        }
        // Grow by doubling, in whole parents.
        let target = match largest {
            0 => needed,
            _ => needed.max(length.saturating_mul(2)).min(DENSE_MANY_MAX.max(needed)),
        };
        self.take((target - length) as usize * cell)?;
        match &mut self.places {
            Places::Direct { counts, .. } => counts.grow(target as usize),
            Places::Dense { slots, .. } => slots.resize(target as usize, 0),
            Places::Hashed(_) => {}
        }
        Ok(())
    }

    fn become_hashed(&mut self) -> Result<()> {
        if let Places::Direct { width, counts } = &self.places {
            self.entries = counted(*width, counts);
            let bytes = self.entries.len() * ENTRY_BYTES;
            self.take(bytes)?;
        }
        let map = self
            .entries
            .iter()
            .enumerate()
            .map(|(slot, entry)| ((entry.parent, entry.key), slot as u32))
            .collect();
        self.places = Places::Hashed(map);
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Result<()> {
        if bytes > 0 {
            self.memory.take(bytes)?;
            self.taken += bytes;
        }
        Ok(())
    }

    /// Returns the buckets in the order of their slots (or of parent and key, without slots).
    pub(super) fn entries(&mut self) -> Vec<Entry> {
        match &self.places {
            Places::Direct { width, counts } => counted(*width, counts),
            _ => std::mem::take(&mut self.entries),
        }
    }

    /// Returns the memory budget of the table.
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns the number of slots.
    pub(super) fn slot_count(&self) -> usize {
        debug_assert!(self.slotted || self.entries.is_empty() || matches!(self.places, Places::Hashed(_)));
        self.entries.len()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.memory.give(self.taken);
    }
}

/// Returns the smallest and the largest; 0 and 0 for none.
fn bounds(parents: &[u32]) -> (u32, u32) {
    let Some(&first) = parents.first() else {
        return (0, 0);
    };
    parents
        .iter()
        .fold((first, first), |(min, max), &parent| (min.min(parent), max.max(parent)))
}

fn counted(width: u64, counts: &Counts) -> Vec<Entry> {
    let mut entries = Vec::new();
    let width = width.max(1) as usize;
    for parent in 0..counts.cell_count() / width {
        counts.row(parent * width, width).scan(|key, count| {
            entries.push(Entry {
                parent: parent as u32,
                key,
                count: count.into(),
            });
            0
        });
    }
    entries
}

/// Hashes numbers by one multiplication with a secret of this process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mixer;

static SECRET: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0) | 1);

impl BuildHasher for Mixer {
    type Hasher = MixHasher;

    fn build_hasher(&self) -> MixHasher {
        MixHasher(*SECRET)
    }
}

/// 2^64 divided by the golden ratio: spreads adjacent numbers.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// See [`Mixer`].
pub(super) struct MixHasher(u64);

impl Hasher for MixHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * u128::from(GOLDEN);
        self.0 = ((product >> 64) as u64 ^ product as u64).wrapping_add(*SECRET);
    }
}
