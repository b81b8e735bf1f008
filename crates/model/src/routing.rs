//! Routing: the shard of a routing value.
//!
//! Follows Elasticsearch's `OperationRouting` and `Murmur3HashFunction`, so that an index keeps its distribution when
//! it moves between the two.

/// Returns the shard of a routing value: Elasticsearch's murmur3 (x86, 32 bit, seed 0) over the UTF-16 little-endian
/// bytes of `routing`, floor-modulo the number of routing shards, divided by the routing factor.
///
/// The result is below `number_of_shards`; zero shards count as one.
pub fn shard_for(routing: &str, number_of_shards: u32) -> u32 {
    let number_of_shards = number_of_shards.max(1);
    let routing_shards = routing_num_shards(number_of_shards);
    let factor = routing_shards / number_of_shards;
    (hash(routing) as i32).rem_euclid(routing_shards as i32) as u32 / factor
}

/// Returns `index.number_of_routing_shards` as Elasticsearch 7 and later choose it: the number of shards times the
/// power of two that comes closest to 1024, and at least twice the number of shards.
pub fn routing_num_shards(number_of_shards: u32) -> u32 {
    const LOG2_SHARDS_MAX: u32 = 10;
    let log2_shards = 32 - (number_of_shards.max(1) - 1).leading_zeros();
    let splits = LOG2_SHARDS_MAX.saturating_sub(log2_shards).max(1);
    number_of_shards.max(1) << splits
}

/// Hashes the UTF-16LE bytes of `text` with murmur3 x86 32, seed 0. Two code units make a block, so nothing is copied.
pub fn hash(text: &str) -> u32 {
    let mut state = 0u32;
    let mut units = 0u32;
    let mut iterator = text.encode_utf16();
    while let Some(low) = iterator.next() {
        match iterator.next() {
            Some(high) => {
                units += 2;
                state ^= mix(u32::from(low) | (u32::from(high) << 16));
                state = state.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
            }
            None => {
                units += 1;
                state ^= mix(u32::from(low));
            }
        }
    }
    finish(state, units.wrapping_mul(2))
}

/// Hashes plain bytes with murmur3 x86 32, seed 0.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u32 {
    murmur3(bytes, 0)
}

/// Hashes plain bytes with murmur3 x86 32.
pub fn murmur3(bytes: &[u8], seed: u32) -> u32 {
    let mut state = seed;
    let (blocks, tail) = bytes.as_chunks::<4>();
    for block in blocks {
        state ^= mix(u32::from_le_bytes(*block));
        state = state.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    if !tail.is_empty() {
        let mut block = [0; 4];
        block[..tail.len()].copy_from_slice(tail);
        state ^= mix(u32::from_le_bytes(block));
    }
    finish(state, bytes.len() as u32)
}

fn mix(block: u32) -> u32 {
    block
        .wrapping_mul(0xcc9e_2d51)
        .rotate_left(15)
        .wrapping_mul(0x1b87_3593)
}

fn finish(state: u32, length: u32) -> u32 {
    let mut state = state ^ length;
    state ^= state >> 16;
    state = state.wrapping_mul(0x85eb_ca6b);
    state ^= state >> 13;
    state = state.wrapping_mul(0xc2b2_ae35);
    state ^ (state >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of Elasticsearch's `Murmur3HashFunctionTests`.
    #[test]
    fn hashes_like_elasticsearch() {
        for (text, expect) in [
            ("hell", 0x5a0c_b7c3),
            ("hello", 0xd7c3_1989),
            ("hello w", 0x22ab_2984),
            ("hello wo", 0xdf0c_a123),
            ("hello wor", 0xe774_4d61),
            ("The quick brown fox jumps over the lazy dog", 0xe07d_b09c),
            ("The quick brown fox jumps over the lazy cog", 0x4e63_d2ad),
        ] {
            assert_eq!(hash(text), expect, "{text}");
            let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            assert_eq!(hash_bytes(&bytes), expect, "{text}");
        }
    }

    #[test]
    fn routing_shards_are_near_1024() {
        for (shards, expect) in [
            (1, 1024),
            (2, 1024),
            (3, 768),
            (5, 640),
            (6, 768),
            (512, 1024),
            (1024, 2048),
        ] {
            assert_eq!(routing_num_shards(shards), expect, "{shards}");
        }
    }

    #[test]
    fn every_shard_gets_its_share() {
        for shards in [1, 2, 3, 5, 7, 16] {
            let mut counts = vec![0u32; shards as usize];
            for number in 0..10_000 {
                counts[shard_for(&format!("user-{number}"), shards) as usize] += 1;
            }
            let share = 10_000 / shards;
            assert!(
                counts
                    .iter()
                    .all(|count| *count > share * 8 / 10 && *count < share * 12 / 10),
                "{counts:?}"
            );
        }
    }
}
