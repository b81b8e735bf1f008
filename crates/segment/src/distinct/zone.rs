//! Registers of the values of some consecutive documents, half a byte each.

use firn_query::aggs::cardinality::PREPARED_BITS;

/// Registers of a zone.
const REGISTERS: usize = 1 << PREPARED_BITS;
/// Ranks above this are listed: one in thirty thousand.
const NIBBLE_MAX: u8 = 15;
/// Bytes of a listed rank: its register (u16) and itself.
const LISTED_BYTES: usize = 3;

/// Encodes registers: for each pair of the first and the second half a byte with the lower one in its low bits, then
/// the higher ranks.
pub(super) fn encode(registers: &[u8], out: &mut Vec<u8>) {
    let (first, second) = registers.split_at(REGISTERS / 2);
    out.extend(
        first
            .iter()
            .zip(second)
            .map(|(first, second)| (*first).min(NIBBLE_MAX) | (*second).min(NIBBLE_MAX) << 4),
    );
    for (register, &rank) in registers.iter().enumerate().filter(|(_, rank)| **rank > NIBBLE_MAX) {
        out.extend_from_slice(&(register as u16).to_le_bytes());
        out.push(rank);
    }
}

/// Merges an encoded zone into registers; `None`: the bytes are invalid.
pub(super) fn merge(bytes: &[u8], registers: &mut [u8]) -> Option<()> {
    let (packed, listed) = bytes.split_at_checked(REGISTERS / 2)?;
    let (listed, rest) = listed.as_chunks::<LISTED_BYTES>();
    if !rest.is_empty() || registers.len() != REGISTERS {
        return None;
    }
    let (first, second) = registers.split_at_mut(REGISTERS / 2);
    for ((first, second), both) in first.iter_mut().zip(second).zip(packed) {
        *first = (*first).max(both & NIBBLE_MAX);
        *second = (*second).max(both >> 4);
    }
    for [low, high, rank] in listed {
        let register = registers.get_mut(usize::from(u16::from_le_bytes([*low, *high])))?;
        *register = (*register).max(*rank);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_merge_as_their_registers() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut registers = || -> Vec<u8> {
            let mut rank = || match random.u8(..20) {
                0 => random.u8(..52),
                _ => random.u8(..17),
            };
            (0..REGISTERS).map(|_| rank()).collect()
        };
        let (one, other) = (registers(), registers());
        let mut merged = vec![0; REGISTERS];
        for zone in [&one, &other] {
            let mut bytes = Vec::new();
            encode(zone, &mut bytes);
            merge(&bytes, &mut merged).unwrap();
            assert_eq!(merge(&bytes[..bytes.len() - 1], &mut merged.clone()), None);
        }
        let expect = one.iter().zip(&other).map(|(one, other)| *one.max(other));
        assert!(merged.iter().copied().eq(expect));
        assert_eq!(merge(&[0; REGISTERS / 2 - 1], &mut merged), None);
        let mut beyond = vec![0; REGISTERS / 2];
        beyond.extend_from_slice(&[0xff, 0xff, 20]);
        assert_eq!(merge(&beyond, &mut merged), None);
    }
}
