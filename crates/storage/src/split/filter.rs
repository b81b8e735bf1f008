//! Term filters of a split: whether a field may contain a value.
//!
//! Binary fuse filters (Graf and Lemire, 2022) with one byte per slot; the false-positive rate is 0.4 %. The first bits
//! of the hashes divide the values of a field into slices. Each slice is a separate filter, and all slices have the
//! same length. So a lookup reads one short range, and the same slice of many splits can be stored side by side without
//! knowing any value. A slice of four thousand values takes ten bits per value; one filter of a million values would
//! take nine.

use std::ops::Range;

use xorf::{BinaryFuse8, BinaryFuse8Ref, DmaSerializable, Filter, FilterRef};

use super::reference::SplitFilter;

/// Maximum average number of values per slice: about 5 KB.
const SLICE_VALUES: usize = 4096;
/// Bytes before the slots of a slice: number of slots (u32), and the descriptor of the filter.
const HEAD_BYTES: usize = 4 + BinaryFuse8::DESCRIPTOR_LEN;

/// Returns the hash of a value. Part of the stored format: 64-bit FNV-1a, then the finalizer of SplitMix64, so that all
/// bits are well distributed.
pub fn hash(value: &[u8]) -> u64 {
    let mut hash = value.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Builds the filter of hashes, which need be neither sorted nor distinct. Returns its bytes and the number of slices,
/// or `None` if it cannot be built, which happens at most once in millions.
pub fn build(mut hashes: Vec<u64>) -> Option<(Vec<u8>, u32)> {
    hashes.sort_unstable();
    hashes.dedup();
    let slices = hashes.len().div_ceil(SLICE_VALUES).next_power_of_two() as u32;
    let mut filters = Vec::with_capacity(slices as usize);
    let mut rest = &hashes[..];
    for slice in 0..slices {
        let (own, later) = rest.split_at(rest.partition_point(|hash| slice_of(*hash, slices) <= slice));
        filters.push(BinaryFuse8::try_from(own).ok()?);
        rest = later;
    }
    let longest = filters.iter().map(|filter| filter.dma_fingerprints().len()).max()?;
    let mut bytes = Vec::with_capacity(filters.len() * (HEAD_BYTES + longest));
    for filter in filters {
        let slots = filter.dma_fingerprints();
        let mut descriptor = [0; BinaryFuse8::DESCRIPTOR_LEN];
        filter.dma_copy_descriptor_to(&mut descriptor);
        bytes.extend_from_slice(&(slots.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&descriptor);
        bytes.extend_from_slice(slots);
        bytes.resize(bytes.len() + longest - slots.len(), 0);
    }
    Some((bytes, slices))
}

/// Returns the slice of a hash. `slices` is a power of two.
pub fn slice_of(hash: u64, slices: u32) -> u32 {
    ((u128::from(hash) * u128::from(slices)) >> 64) as u32
}

/// Returns whether a slice may contain a hash; `None`: the bytes are not a slice.
pub fn may_hold(slice: &[u8], hash: u64) -> Option<bool> {
    let (len, rest) = slice.split_first_chunk()?;
    let (descriptor, slots) = rest.split_at_checked(BinaryFuse8::DESCRIPTOR_LEN)?;
    let slots = slots.get(..u32::from_le_bytes(*len) as usize)?;
    let number = |at: usize| descriptor[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let (segment, mask, all) = (number(8)?, number(12)?, number(16)?);
    // A lookup reads three slots, each at most two segments and a mask behind the range over which hashes are spread.
    let reach = u64::from(all) + 2 * u64::from(segment);
    let is_sound = mask.checked_add(1) == Some(segment)
        && segment.is_power_of_two()
        && all.is_multiple_of(segment)
        && reach <= slots.len() as u64;
    is_sound.then(|| BinaryFuse8Ref::from_dma(descriptor, slots).contains(&hash))
}

impl SplitFilter {
    /// Returns the logical range of the split that holds the slice of a hash.
    pub fn slice(&self, hash: u64) -> Range<u64> {
        let len = (self.range.end - self.range.start) / u64::from(self.slices.max(1));
        let start = self.range.start + u64::from(slice_of(hash, self.slices)) * len;
        start..start + len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(count: usize) -> Vec<u64> {
        (0..count).map(|number| hash(number.to_string().as_bytes())).collect()
    }

    #[test]
    fn all_values_and_few_others_are_found() {
        for count in [1, 2, 3, 100, 5000, 100_000] {
            let (bytes, slices) = build(hashes(count)).unwrap();
            assert_eq!(slices as usize, count.div_ceil(SLICE_VALUES).next_power_of_two());
            let filter = SplitFilter {
                field: "f".to_owned(),
                range: 100..100 + bytes.len() as u64,
                values: count as u32,
                slices,
            };
            let holds = |hash: u64| {
                let range = filter.slice(hash);
                may_hold(&bytes[range.start as usize - 100..range.end as usize - 100], hash).unwrap()
            };
            assert!(hashes(count).into_iter().all(holds));
            let others = (0..10_000)
                .filter(|number| holds(hash(format!("other {number}").as_bytes())))
                .count();
            assert!(others < 80, "{others} of {count}");
            if count > 50_000 {
                assert!(bytes.len() * 8 < count * 12, "{} bits", bytes.len() * 8 / count);
            }
        }
    }

    #[test]
    fn the_same_values_make_the_same_bytes() {
        let mut turned = hashes(9000);
        turned.reverse();
        turned.push(turned[5]);
        assert_eq!(build(turned), build(hashes(9000)));
    }

    #[test]
    fn other_bytes_are_no_slice() {
        let (bytes, _) = build(hashes(100)).unwrap();
        for len in 0..bytes.len() {
            assert_eq!(may_hold(&bytes[..len], 7), None, "{len}");
        }
        let mut wrong = bytes;
        wrong[12] ^= 1;
        assert_eq!(may_hold(&wrong, 7), None);
    }
}
