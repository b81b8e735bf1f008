//! 64-bit hash functions of values; every output bit depends on every input bit.
//!
//! `hash_bytes` folds 16-byte blocks through 64 × 64 → 128 bit multiplications, the construction of wyhash (Wang Yi,
//! public domain), reimplemented with different constants (fractions of π and e); `hash_u64` is the finaliser of
//! SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). Both are fixed functions:
//! partial results of different processes merge. They are not keyed, so they must not place untrusted keys in a hash
//! table.
//! processes merge. They are not keyed, so they must not place untrusted keys in a hash table.

const SEED: u64 = 0x243f_6a88_85a3_08d3;
const FIRST: u64 = 0xb7e1_5162_8aed_2a6b;
const SECOND: u64 = 0x1319_8a2e_0370_7345;
const LENGTH: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the hash of a byte string (keyword and ip values).
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let mut state = SEED ^ (bytes.len() as u64).wrapping_mul(LENGTH);
    let mut blocks = bytes.chunks_exact(16);
    for block in &mut blocks {
        state = fold(word(&block[..8]) ^ FIRST ^ state, word(&block[8..]) ^ SECOND);
    }
    let rest = blocks.remainder();
    let (low, high) = rest.split_at(rest.len().min(8));
    state = fold(word(low) ^ FIRST ^ state, word(high) ^ SECOND);
    hash_u64(state)
}

/// Returns the hash of a number (bits of integers, dates, booleans; bits of floats).
pub fn hash_u64(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(LENGTH);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns up to eight bytes as a little-endian number; missing bytes are zero.
fn word(bytes: &[u8]) -> u64 {
    let mut buffer = [0; 8];
    buffer[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(buffer)
}

fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn lengths_and_neighbours_do_not_collide() {
        let mut seen = HashSet::new();
        for length in 0..100 {
            assert!(seen.insert(hash_bytes(&vec![0; length])), "zeros of length {length}");
        }
        for number in 1..100_000_u64 {
            assert!(seen.insert(hash_u64(number)));
            assert!(seen.insert(hash_bytes(&number.to_be_bytes())));
            assert!(seen.insert(hash_bytes(format!("user-{number}@example.com").as_bytes())));
        }
    }

    #[test]
    fn a_flipped_bit_flips_half_of_the_hash() {
        let text = *b"10.11.12.13, a somewhat longer value";
        let base = hash_bytes(&text);
        for bit in 0..text.len() * 8 {
            let mut other = text;
            other[bit / 8] ^= 1 << (bit % 8);
            let flipped = (hash_bytes(&other) ^ base).count_ones();
            assert!((12..=52).contains(&flipped), "bit {bit} flips {flipped}");
        }
    }
}
