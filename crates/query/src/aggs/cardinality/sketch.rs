//! Sketch of distinct values: exact up to a threshold, then HyperLogLog.
//!
//! HyperLogLog as by Flajolet et al. (2007) with one byte per register and 64-bit hashes; the
//! estimate is Ertl's improved raw estimator ("New cardinality estimation algorithms for
//! HyperLogLog sketches", 2017, algorithm 6): without bias over the whole range, so it needs
//! neither a table of corrections nor a switch to linear counting.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use serde::{Deserialize, Serialize};

/// Maximum effective `precision_threshold`; higher values count as this one (as in Elasticsearch).
pub const PRECISION_THRESHOLD_MAX: u64 = 40_000;

/// Minimum and maximum index bits: 256 bytes (6.5 % error) to 256 KB (0.2 %) per sketch. The default threshold of 3000
/// takes 14 bits: 16 KB, 0.8 %.
const PRECISION_BITS: std::ops::RangeInclusive<u32> = 8..=18;

/// Index bits of [prepared](prepare) hashes.
pub const PREPARED_BITS: u32 = 14;
/// Bits of the rank of a prepared hash.
const RANK_BITS: u32 = 6;

/// Returns the register and the rank of a hash with [`PREPARED_BITS`] index bits, as `register << 6 | rank`: 20 bits.
/// A sketch of no more index bits takes it instead of the hash once it is [dense](Sketch::is_dense).
pub fn prepare(hash: u64) -> u32 {
    let register = (hash >> (64 - PREPARED_BITS)) as u32;
    register << RANK_BITS | u32::from(rank_of(hash, PREPARED_BITS))
}

/// Adds prepared hashes to `2^PREPARED_BITS` registers.
///
/// # Panics
///
/// If there are fewer registers.
pub fn record_prepared(registers: &mut [u8], prepared: impl Iterator<Item = u32>) {
    let registers = &mut registers[..1 << PREPARED_BITS];
    for prepared in prepared {
        let register = &mut registers[(prepared >> RANK_BITS) as usize & ((1 << PREPARED_BITS) - 1)];
        let rank = (prepared & ((1 << RANK_BITS) - 1)) as u8;
        // Most ranks are lower than that of their register: a branch costs less than a store.
        if rank > *register {
            *register = rank;
        }
    }
}

/// Distinct values seen, by a 64-bit hash of each. Merging is order-independent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Sketch {
    threshold: usize,
    bits: u32,
    state: State,
}

/// A sketch as it is read, not yet checked.
#[derive(Deserialize)]
struct Stored {
    threshold: usize,
    bits: u32,
    state: State,
}

impl TryFrom<Stored> for Sketch {
    type Error = &'static str;

    fn try_from(stored: Stored) -> Result<Self, &'static str> {
        let fits = match &stored.state {
            State::Exact(_) => true,
            State::Dense(registers) => {
                let rank_max = 64_u32.saturating_sub(stored.bits) + 1;
                Some(registers.len()) == 1_usize.checked_shl(stored.bits)
                    && registers.iter().all(|rank| u32::from(*rank) <= rank_max)
            }
        };
        match fits && PRECISION_BITS.contains(&stored.bits) {
            true => Ok(Self {
                threshold: stored.threshold,
                bits: stored.bits,
                state: stored.state,
            }),
            false => Err("not the registers of a sketch"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum State {
    /// At most `threshold` hashes. Since the union only grows, a sketch is dense exactly if the union of all inserted
    /// hashes is larger, in any order.
    Exact(HashSet<u64, BuildHasherDefault<Identity>>),
    /// `2^bits` registers, each with the highest rank seen.
    Dense(Box<[u8]>),
}

/// Identity hasher: the inserted values are hashes already.
#[derive(Debug, Clone, Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 << 8) | u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Sketch {
    /// Creates a sketch that counts exactly up to `precision_threshold` (at most [`PRECISION_THRESHOLD_MAX`]). Beyond
    /// it, the memory depends on the threshold, as in Elasticsearch.
    pub fn new(precision_threshold: u64) -> Self {
        let threshold = precision_threshold.min(PRECISION_THRESHOLD_MAX) as usize;
        // Elasticsearch: an open-addressed table of that many entries of four bytes.
        let table_bytes = (threshold as u64).div_ceil(3) * 4 * 4;
        let bits = 64 - table_bytes.leading_zeros();
        Self {
            threshold,
            bits: bits.clamp(*PRECISION_BITS.start(), *PRECISION_BITS.end()),
            state: State::Exact(HashSet::default()),
        }
    }

    /// Adds a hash (of well-mixed bits).
    pub fn insert(&mut self, hash: u64) {
        match &mut self.state {
            State::Exact(hashes) => {
                hashes.insert(hash);
                if hashes.len() > self.threshold {
                    self.become_dense();
                }
            }
            State::Dense(registers) => record(registers, self.bits, hash),
        }
    }

    /// Returns the number of hashes up to which it is exact.
    pub fn threshold(&self) -> usize {
        self.threshold
    }

    /// Whether it takes [prepared](prepare) hashes: it has no more index bits than they have.
    pub fn takes_prepared(&self) -> bool {
        self.bits <= PREPARED_BITS
    }

    /// Whether it has registers and no exact hashes.
    pub fn is_dense(&self) -> bool {
        matches!(self.state, State::Dense(_))
    }

    /// Adds prepared hashes. The caller knows that all hashes of the sketch together are more than its threshold, and
    /// that it [takes](Self::takes_prepared) them; the sketch becomes dense.
    pub fn insert_prepared(&mut self, prepared: impl Iterator<Item = u32>) {
        if !self.is_dense() {
            self.become_dense();
        }
        let bits = self.bits;
        let State::Dense(registers) = &mut self.state else {
            return;
        };
        if bits == PREPARED_BITS {
            return record_prepared(registers, prepared);
        }
        let dropped = PREPARED_BITS - bits;
        for prepared in prepared {
            let index = (prepared >> RANK_BITS) as usize & ((1 << PREPARED_BITS) - 1);
            let rank = (prepared & ((1 << RANK_BITS) - 1)).min(65 - PREPARED_BITS) as u8;
            let register = &mut registers[index >> dropped];
            *register = (*register).max(reduced_rank(index, rank, dropped));
        }
    }

    /// Adds the registers of prepared hashes, under the same conditions.
    pub fn merge_prepared(&mut self, prepared: &[u8]) {
        let set = prepared.iter().enumerate().filter(|(_, rank)| **rank > 0);
        self.insert_prepared(set.map(|(index, rank)| (index as u32) << RANK_BITS | u32::from(*rank)));
    }

    /// Returns the estimated number of distinct hashes.
    pub fn estimate(&self) -> u64 {
        match &self.state {
            State::Exact(hashes) => hashes.len() as u64,
            State::Dense(registers) => estimate(registers, self.bits),
        }
    }

    /// Adds another sketch. If the precisions differ, the lower one wins.
    pub fn merge(&mut self, other: &Sketch) {
        self.threshold = self.threshold.min(other.threshold);
        if other.bits < self.bits {
            if let State::Dense(registers) = &self.state {
                self.state = State::Dense(reduce(registers, self.bits, other.bits));
            }
            self.bits = other.bits;
        }
        match &other.state {
            State::Exact(hashes) => {
                for &hash in hashes {
                    self.insert(hash);
                }
                if matches!(&self.state, State::Exact(own) if own.len() > self.threshold) {
                    self.become_dense();
                }
            }
            State::Dense(registers) => {
                if matches!(self.state, State::Exact(_)) {
                    self.become_dense();
                }
                let reduced;
                let theirs = if other.bits > self.bits {
                    reduced = reduce(registers, other.bits, self.bits);
                    &reduced
                } else {
                    registers
                };
                if let State::Dense(own) = &mut self.state {
                    for (own, theirs) in own.iter_mut().zip(theirs) {
                        *own = (*own).max(*theirs);
                    }
                }
            }
        }
    }

    /// Returns the memory in bytes, without the struct.
    pub fn size_bytes(&self) -> usize {
        match &self.state {
            State::Exact(hashes) => hashes.capacity() * 9,
            State::Dense(registers) => registers.len(),
        }
    }

    fn become_dense(&mut self) {
        let mut registers = vec![0; 1 << self.bits].into_boxed_slice();
        if let State::Exact(hashes) = &self.state {
            for &hash in hashes {
                record(&mut registers, self.bits, hash);
            }
        }
        self.state = State::Dense(registers);
    }
}

/// The top bits pick the register; the rank is the number of leading zeros of the rest, plus one.
fn record(registers: &mut [u8], bits: u32, hash: u64) {
    let register = (hash >> (64 - bits)) as usize;
    registers[register] = registers[register].max(rank_of(hash, bits));
}

fn rank_of(hash: u64, bits: u32) -> u8 {
    ((hash << bits).leading_zeros().min(64 - bits) + 1) as u8
}

/// Returns the rank of a hash with `dropped` fewer index bits than those of its register `index`.
fn reduced_rank(index: usize, rank: u8, dropped: u32) -> u8 {
    let low = (index as u64) & ((1 << dropped) - 1);
    match low {
        0 => rank + dropped as u8,
        _ => (low.leading_zeros() - (64 - dropped) + 1) as u8,
    }
}

/// Returns the registers that the same hashes would set with fewer index bits.
fn reduce(registers: &[u8], from_bits: u32, to_bits: u32) -> Box<[u8]> {
    let dropped = from_bits - to_bits;
    let mut reduced = vec![0; 1 << to_bits].into_boxed_slice();
    for (index, &rank) in registers.iter().enumerate().filter(|(_, rank)| **rank > 0) {
        let target = &mut reduced[index >> dropped];
        *target = (*target).max(reduced_rank(index, rank, dropped));
    }
    reduced
}

fn estimate(registers: &[u8], bits: u32) -> u64 {
    let count = registers.len() as f64;
    let rank_max = (64 - bits) as usize;
    let mut ranks = [0_u32; 66];
    for &rank in registers {
        ranks[usize::from(rank)] += 1;
    }
    let mut denominator = count * tau(1.0 - f64::from(ranks[rank_max + 1]) / count);
    for rank in (1..=rank_max).rev() {
        denominator = 0.5 * (denominator + f64::from(ranks[rank]));
    }
    denominator += count * sigma(f64::from(ranks[0]) / count);
    (count * count / (2.0 * std::f64::consts::LN_2 * denominator)).round() as u64
}

/// Corrects for empty registers (Ertl, algorithm 6).
fn sigma(mut share: f64) -> f64 {
    if share >= 1.0 {
        return f64::INFINITY;
    }
    let mut power = 1.0;
    let mut sum = share;
    loop {
        share *= share;
        let before = sum;
        sum += share * power;
        power += power;
        if sum == before {
            return sum;
        }
    }
}

/// Corrects for saturated registers (Ertl, algorithm 6).
fn tau(mut share: f64) -> f64 {
    if share <= 0.0 || share >= 1.0 {
        return 0.0;
    }
    let mut power = 1.0;
    let mut sum = 1.0 - share;
    loop {
        share = share.sqrt();
        let before = sum;
        power *= 0.5;
        sum -= (1.0 - share).powi(2) * power;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::hash_u64;
    use super::*;

    fn sketch(threshold: u64, values: impl IntoIterator<Item = u64>) -> Sketch {
        let mut sketch = Sketch::new(threshold);
        for value in values {
            sketch.insert(hash_u64(value));
        }
        sketch
    }

    #[test]
    fn exact_up_to_the_threshold() {
        assert_eq!(Sketch::new(3000).estimate(), 0);
        assert_eq!(sketch(3000, (0..3000).chain(0..3000)).estimate(), 3000);
    }

    /// The relative error over many sketches is centred and as wide as 1.04 / √registers.
    #[test]
    fn close_beyond_the_threshold() {
        const SKETCHES: u64 = 40;
        for (threshold, count, width) in [
            (3000, 3001_u64, 0.0081),
            (3000, 10_000, 0.0081),
            (3000, 40_000, 0.0081),
            (3000, 100_000, 0.0081),
            (100, 50_000, 0.0325),
        ] {
            let errors: Vec<f64> = (0..SKETCHES)
                .map(|seed| {
                    let estimate = sketch(threshold, (0..count).map(|value| (seed << 32) | value)).estimate();
                    estimate as f64 / count as f64 - 1.0
                })
                .collect();
            let mean = errors.iter().sum::<f64>() / SKETCHES as f64;
            let deviation = (errors.iter().map(|error| error * error).sum::<f64>() / SKETCHES as f64).sqrt();
            assert!(mean.abs() < width / 2.0, "{count}: mean error {mean}");
            assert!(deviation < width * 1.3, "{count}: deviation {deviation}");
        }
    }

    #[test]
    fn memory_follows_the_threshold() {
        let size = |threshold| sketch(threshold, 0..100_000).size_bytes();
        assert_eq!((size(0), size(3000), size(1_000_000)), (256, 1 << 14, 1 << 18));
    }

    #[test]
    fn fewer_bits_are_the_same_as_counting_with_fewer_bits() {
        let mut fine = sketch(40_000, 0..100_000);
        let coarse = sketch(100, 0..100_000);
        fine.merge(&coarse);
        assert_eq!(fine, coarse);
        let mut other = coarse.clone();
        other.merge(&sketch(40_000, 0..100_000));
        assert_eq!(other, coarse);
    }

    #[test]
    fn prepared_hashes_are_the_same_as_hashes() {
        for threshold in [0, 60, 100, 1533, 3000, 3069] {
            let expect = sketch(threshold, 0..5000);
            assert!(expect.takes_prepared() && expect.is_dense(), "{threshold}");
            let prepared = || (0..5000).map(|value| prepare(hash_u64(value)));
            let mut own = sketch(threshold, 0..threshold / 2);
            own.insert_prepared(prepared());
            assert_eq!(own, expect, "{threshold}");

            let mut registers = vec![0; 1 << PREPARED_BITS];
            record_prepared(&mut registers, prepared());
            let mut own = Sketch::new(threshold);
            own.merge_prepared(&registers);
            assert_eq!(own, expect, "{threshold}");
        }
        assert!(!Sketch::new(3070).takes_prepared());
        assert!(prepare(u64::MAX) < 1 << 20);
        assert_eq!(prepare(0), 51);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn merging_does_not_depend_on_split_or_order(
            threshold in 0_u64..60,
            values in prop::collection::vec(0_u64..200, 0..200),
            parts in 1_usize..6,
        ) {
            let whole = sketch(threshold, values.iter().copied());
            let split: Vec<Sketch> = (0..parts)
                .map(|part| sketch(threshold, values.iter().copied().skip(part).step_by(parts)))
                .collect();
            let mut forward = Sketch::new(threshold);
            split.iter().for_each(|part| forward.merge(part));
            let mut backward = Sketch::new(threshold);
            split.iter().rev().for_each(|part| backward.merge(part));
            prop_assert_eq!(&forward, &whole);
            prop_assert_eq!(&backward, &whole);
        }
    }
}
