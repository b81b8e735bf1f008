//! Counts by number, in one byte each where there are many.
//!
//! The counts of a field with millions of values do not fit into the caches of a processor. Most values of such a field
//! are rare, so a byte is enough for nearly all of them, and the others carry into a map.

use std::collections::HashMap;

use super::table::Mixer;

/// Fewer counts than this fit into the caches with four bytes each, too.
/// Small in tests, so that most of them count in bytes.
const NARROW_MIN: u64 = if cfg!(test) { 64 } else { 1 << 16 };
/// Approximate bytes of an entry in the map of carries.
const CARRY_BYTES: usize = 32;
/// Counts that are looked at together.
const CHUNK: usize = 64;

/// Counts of cells, from 0 on.
#[derive(Debug)]
pub(super) enum Counts {
    Wide(Vec<u32>),
    Narrow {
        /// The lowest byte of each count.
        low: Vec<u8>,
        carries: Carries,
    },
}

/// The rest of the counts above 255, by cell.
type Carries = HashMap<u64, u32, Mixer>;

/// The counts of consecutive cells.
#[derive(Debug, Clone, Copy)]
pub(super) enum CountRow<'a> {
    Wide(&'a [u32]),
    Narrow {
        low: &'a [u8],
        carries: &'a Carries,
        /// The cell of the first count.
        start: u64,
    },
}

/// Sums over the counts of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RowTotals {
    /// The sum of the counts.
    pub(super) total: u64,
    /// The number of counts above 0.
    pub(super) value_count: usize,
}

impl Counts {
    /// Creates counts without cells for tables of rows with `width` cells each.
    pub(super) fn for_width(width: u64) -> Self {
        match width < NARROW_MIN {
            true => Self::Wide(Vec::new()),
            false => Self::Narrow {
                low: Vec::new(),
                carries: HashMap::default(),
            },
        }
    }

    pub(super) fn cell_count(&self) -> usize {
        match self {
            Self::Wide(counts) => counts.len(),
            Self::Narrow { low, .. } => low.len(),
        }
    }

    /// Returns the bytes of a cell.
    pub(super) fn cell_bytes(&self) -> usize {
        match self {
            Self::Wide(_) => size_of::<u32>(),
            Self::Narrow { .. } => 1,
        }
    }

    /// Returns the bytes that the counts take beside their cells.
    pub(super) fn extra_bytes(&self) -> usize {
        match self {
            Self::Wide(_) => 0,
            Self::Narrow { carries, .. } => carries.len() * CARRY_BYTES,
        }
    }

    /// Adds cells with the count 0.
    pub(super) fn grow(&mut self, cell_count: usize) {
        // New vectors of zeros need no write to their memory.
        match self {
            Self::Wide(counts) if counts.is_empty() => *counts = vec![0; cell_count],
            Self::Wide(counts) => counts.resize(cell_count, 0),
            Self::Narrow { low, .. } if low.is_empty() => *low = vec![0; cell_count],
            Self::Narrow { low, .. } => low.resize(cell_count, 0),
        }
    }

    pub(super) fn get(&self, cell: usize) -> u32 {
        match self {
            Self::Wide(counts) => counts.get(cell).copied().unwrap_or_default(),
            Self::Narrow { low, carries } => {
                let carry = carries.get(&(cell as u64)).copied().unwrap_or_default();
                carry << 8 | u32::from(low.get(cell).copied().unwrap_or_default())
            }
        }
    }

    /// Adds `count` to a cell, which must exist.
    pub(super) fn add(&mut self, cell: usize, count: u32) {
        match self {
            Self::Wide(counts) => counts[cell] += count,
            Self::Narrow { low, carries } => {
                let sum = u32::from(low[cell]) + (count & 0xff);
                low[cell] = sum as u8;
                let carry = (count >> 8) + (sum >> 8);
                if carry > 0 {
                    *carries.entry(cell as u64).or_default() += carry;
                }
            }
        }
    }

    /// Adds 1 to the cells `start + key`; the keys are below `width`.
    pub(super) fn add_row(&mut self, start: usize, width: usize, keys: &[u64]) {
        match self {
            Self::Wide(counts) => count_row(&mut counts[start..start + width], keys),
            Self::Narrow { low, carries } => {
                let row = &mut low[start..start + width];
                for &key in keys {
                    let count = &mut row[key as usize];
                    *count = count.wrapping_add(1);
                    if *count == 0 {
                        *carries.entry(start as u64 + key).or_default() += 1;
                    }
                }
            }
        }
    }

    /// Adds other counts of the same width.
    pub(super) fn absorb(&mut self, other: &Self) {
        if self.cell_count() < other.cell_count() {
            self.grow(other.cell_count());
        }
        match (self, other) {
            (Self::Wide(own), Self::Wide(other)) => {
                for (own, other) in own.iter_mut().zip(other) {
                    *own += other;
                }
            }
            (
                Self::Narrow { low, carries },
                Self::Narrow {
                    low: other_low,
                    carries: other_carries,
                },
            ) => {
                absorb_low(low, carries, other_low);
                for (cell, carry) in other_carries {
                    *carries.entry(*cell).or_default() += carry;
                }
            }
            // The width decides the variant, so both have the same.
            (own, other) => {
                other.row(0, other.cell_count()).scan(|cell, count| {
                    own.add(cell as usize, count);
                    0
                });
            }
        }
    }

    /// Returns the counts of `width` cells; empty if the cells do not exist.
    pub(super) fn row(&self, start: usize, width: usize) -> CountRow<'_> {
        match self {
            Self::Wide(counts) => CountRow::Wide(counts.get(start..start + width).unwrap_or(&[])),
            Self::Narrow { low, carries } => CountRow::Narrow {
                low: low.get(start..start + width).unwrap_or(&[]),
                carries,
                start: start as u64,
            },
        }
    }
}

fn absorb_low(low: &mut [u8], carries: &mut Carries, other: &[u8]) {
    for (number, (own, other)) in low.chunks_mut(CHUNK).zip(other.chunks(CHUNK)).enumerate() {
        if u32::from(highest(own)) + u32::from(highest(other)) <= u32::from(u8::MAX) {
            for (own, other) in own.iter_mut().zip(other) {
                *own += other;
            }
            continue;
        }
        for (position, (own, other)) in own.iter_mut().zip(other).enumerate() {
            let (sum, has_carry) = own.overflowing_add(*other);
            *own = sum;
            if has_carry {
                *carries.entry((number * CHUNK + position) as u64).or_default() += 1;
            }
        }
    }
}

impl CountRow<'_> {
    /// Returns sums over the counts.
    pub(super) fn totals(&self) -> RowTotals {
        self.scan(|_, _| u32::MAX)
    }

    /// Calls `visit` with the position and the count of each cell whose count is above a floor, in order. `visit`
    /// returns the floor for the cells after it, which must not fall; before the first call it is 0.
    pub(super) fn scan(&self, mut visit: impl FnMut(u64, u32) -> u32) -> RowTotals {
        let (mut totals, mut floor) = (RowTotals::default(), 0);
        let mut pass = |totals: &mut RowTotals, floor: &mut u32, position: u64, count: u32| {
            totals.total += u64::from(count);
            totals.value_count += usize::from(count > 0);
            if count > *floor {
                *floor = visit(position, count);
            }
        };
        match self {
            Self::Wide(counts) => {
                for (position, &count) in counts.iter().enumerate() {
                    pass(&mut totals, &mut floor, position as u64, count);
                }
            }
            Self::Narrow { low, carries, start } => {
                let cells = *start..*start + low.len() as u64;
                let mut carried: Vec<(u64, u32)> = carries
                    .iter()
                    .filter(|(cell, _)| cells.contains(cell))
                    .map(|(cell, carry)| (cell - start, *carry))
                    .collect();
                carried.sort_unstable();
                let mut carried = carried.into_iter().peekable();
                for (number, chunk) in low.chunks(CHUNK).enumerate() {
                    let first = (number * CHUNK) as u64;
                    let is_plain = carried.peek().is_none_or(|(at, _)| *at >= first + chunk.len() as u64);
                    if is_plain && u32::from(highest(chunk)) <= floor {
                        totals.total += chunk.iter().map(|count| u64::from(*count)).sum::<u64>();
                        totals.value_count += chunk.iter().filter(|count| **count > 0).count();
                        continue;
                    }
                    for (position, &count) in (first..).zip(chunk) {
                        let carry = carried.next_if(|(at, _)| *at == position).map_or(0, |(_, carry)| carry);
                        pass(&mut totals, &mut floor, position, carry << 8 | u32::from(count));
                    }
                }
            }
        }
        totals
    }
}

fn highest(counts: &[u8]) -> u8 {
    counts.iter().fold(0, |highest, count| highest.max(*count))
}

/// Rows up to this length are counted in several lanes.
const SHORT: usize = 64;

/// Counts keys. With few distinct keys, the same key often repeats immediately, and its next increment would wait
/// for the previous one to reach memory; alternating lanes avoid that.
fn count_row(row: &mut [u32], keys: &[u64]) {
    if row.len() > SHORT || keys.len() < SHORT {
        for &key in keys {
            row[key as usize] += 1;
        }
        return;
    }
    const LANES: usize = 4;
    let mut lanes = [[0u32; SHORT]; LANES];
    let (fours, rest) = keys.as_chunks::<LANES>();
    for four in fours {
        for (lane, key) in lanes.iter_mut().zip(four) {
            // Keys are below the length of the row; the remainder avoids a bounds check.
            lane[*key as usize % SHORT] += 1;
        }
    }
    for &key in rest {
        lanes[0][key as usize % SHORT] += 1;
    }
    for (key, count) in row.iter_mut().enumerate() {
        *count += lanes.iter().map(|lane| lane[key]).sum::<u32>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 70_000;

    /// Returns keys of which few are frequent.
    fn keys(seed: u64, count: usize) -> Vec<u64> {
        let mut state = seed;
        let mut random = move |bound: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        (0..count)
            .map(|_| match random(4) {
                0 => random(3),
                1 => random(500) * 131,
                _ => random(WIDTH as u64),
            })
            .collect()
    }

    fn counts_of(keys: &[u64], narrow: bool) -> Counts {
        let mut counts = Counts::for_width(if narrow { WIDTH as u64 } else { 1 });
        assert_eq!(matches!(counts, Counts::Narrow { .. }), narrow);
        counts.grow(2 * WIDTH);
        counts.add_row(WIDTH, WIDTH, keys);
        counts
    }

    /// Returns all counts above 0 of the second row, and the totals.
    fn all(counts: &Counts) -> (Vec<(u64, u32)>, RowTotals) {
        let mut seen = Vec::new();
        let totals = counts.row(WIDTH, WIDTH).scan(|position, count| {
            seen.push((position, count));
            0
        });
        (seen, totals)
    }

    #[test]
    fn narrow_counts_are_wide_counts() {
        for seed in 0..5 {
            let (first, second) = (keys(seed, 40_000), keys(seed + 100, 30_000));
            let (mut wide, mut narrow) = (counts_of(&first, false), counts_of(&first, true));
            assert!(narrow.extra_bytes() > 0, "no count is above 255");
            for counts in [&mut wide, &mut narrow] {
                counts.add(WIDTH + 7, 100_000);
                counts.add(WIDTH + 8, 255);
                counts.add(WIDTH, 1);
            }
            assert_eq!(all(&narrow), all(&wide), "seed {seed}");
            wide.absorb(&counts_of(&second, false));
            narrow.absorb(&counts_of(&second, true));
            let (seen, totals) = all(&narrow);
            assert_eq!((&seen, totals), (&all(&wide).0, all(&wide).1), "seed {seed}");
            assert_eq!(totals.total, 40_000 + 30_000 + 100_256);
            assert_eq!(totals, narrow.row(WIDTH, WIDTH).totals());
            for cell in WIDTH..2 * WIDTH {
                assert_eq!(narrow.get(cell), wide.get(cell), "seed {seed}, cell {cell}");
            }
        }
    }

    #[test]
    fn counts_at_or_below_the_floor_are_passed_over() {
        for narrow in [false, true] {
            let counts = counts_of(&keys(3, 50_000), narrow);
            let (everything, expect) = all(&counts);
            let mut seen = Vec::new();
            let mut floor = 0;
            let totals = counts.row(WIDTH, WIDTH).scan(|position, count| {
                assert!(count > floor);
                seen.push((position, count));
                floor = count;
                floor
            });
            assert_eq!(totals, expect);
            let mut records = Vec::new();
            for (position, count) in everything {
                if records.last().is_none_or(|(_, last)| count > *last) {
                    records.push((position, count));
                }
            }
            assert_eq!(seen, records, "narrow: {narrow}");
        }
    }
}
