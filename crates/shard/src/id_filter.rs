//! Bloom filter over the user-given ids of a segment: a write of a new id checks every segment, and
//! nearly all segments are excluded here without a term lookup.

use bytes::Bytes;

/// Bits of the filter for each id: 12 bits and 6 probes give 0.3 % false positives.
const BITS_PER_ID: usize = 12;
const PROBES: u64 = 6;
/// Size of a block: one cache line, so one cache miss per lookup.
const BLOCK_BYTES: usize = 64;

/// Bloom filter of 512-bit blocks; all probes of an id are in one block.
pub(super) struct IdFilter {
    bytes: Bytes,
}

/// Returns the hash of an id. Part of the stored format.
pub(super) fn hash(id: &str) -> u64 {
    // FNV-1a, then the finalizer of SplitMix64, so that all bits are well mixed.
    let mut hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

impl IdFilter {
    /// Builds a filter from hashes.
    pub(super) fn build(hashes: impl Iterator<Item = u64>, count: usize) -> Self {
        let blocks = (count * BITS_PER_ID).div_ceil(BLOCK_BYTES * 8).max(1);
        let mut bytes = vec![0; blocks * BLOCK_BYTES];
        for hash in hashes {
            let (start, bits) = probes(hash, blocks);
            for bit in bits {
                bytes[start + bit / 8] |= 1 << (bit % 8);
            }
        }
        Self { bytes: bytes.into() }
    }

    /// Reads [`Self::as_bytes`].
    pub(super) fn from_bytes(bytes: Bytes) -> Option<Self> {
        (!bytes.is_empty() && bytes.len().is_multiple_of(BLOCK_BYTES)).then_some(Self { bytes })
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// False: the id is certainly not in the segment.
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let (start, mut bits) = probes(hash, self.bytes.len() / BLOCK_BYTES);
        bits.all(|bit| self.bytes[start + bit / 8] & (1 << (bit % 8)) != 0)
    }
}

/// Returns the first byte of an id's block, and the bits within the block.
fn probes(hash: u64, blocks: usize) -> (usize, impl Iterator<Item = usize>) {
    let block = ((u128::from(hash) * blocks as u128) >> 64) as usize;
    // The block comes from the high bits; each probe uses nine of the low bits.
    let bits = (0..PROBES).map(move |probe| (hash >> (probe * 9)) as usize & 511);
    (block * BLOCK_BYTES, bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_all_added_ids_and_few_others() {
        let ids: Vec<String> = (0..10_000).map(|number| format!("id-{number}")).collect();
        let filter = IdFilter::build(ids.iter().map(|id| hash(id)), ids.len());
        assert!(ids.iter().all(|id| filter.may_contain(hash(id))));
        let others = (0..10_000)
            .filter(|number| filter.may_contain(hash(&format!("other-{number}"))))
            .count();
        assert!(others < 150, "{others}");
    }
}
