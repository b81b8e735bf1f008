//! Slot positions of values in a filter.

/// Bytes of a slice before its slots: their number, and the descriptor of the filter.
const HEAD_BYTES: usize = 24;

/// Shape of a filter. Filters of one shape use the same slots for the same value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Seed that is mixed into hashes.
    pub seed: u64,
    /// Slots of each segment, a power of two.
    pub segment: u32,
    /// Slots of all segments except the last two.
    pub first: u32,
}

/// Data for the lookup of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    /// Expected XOR of the slots at these positions.
    pub(super) fingerprint: u8,
    /// Three different positions.
    pub(super) places: [u32; 3],
}

impl Shape {
    /// Returns the shape and the slots of a slice in the format of splits; `None`: the bytes are not a slice.
    pub(super) fn of(slice: &[u8]) -> Option<(Self, &[u8])> {
        let (head, slots) = slice.split_first_chunk::<HEAD_BYTES>()?;
        let number = |at: usize| head[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let seed = head[4..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes))?;
        let shape = Self::checked(seed, number(12)?, number(20)?)?;
        let slots = slots.get(..number(0)? as usize)?;
        let is_sound = number(16)? == shape.segment - 1 && slots.len() as u64 >= u64::from(shape.places());
        is_sound.then(|| (shape, &slots[..shape.places() as usize]))
    }

    /// Creates a shape from untrusted numbers; `None`: they are invalid.
    pub(super) fn checked(seed: u64, segment: u32, first: u32) -> Option<Self> {
        let places = u64::from(first) + 2 * u64::from(segment);
        let is_sound = segment.is_power_of_two()
            && first >= segment
            && first.is_multiple_of(segment)
            && u32::try_from(places).is_ok();
        is_sound.then_some(Self { seed, segment, first })
    }

    /// Returns the number of slots in use.
    pub(super) fn places(&self) -> u32 {
        self.first + 2 * self.segment
    }

    /// Returns the slots for a value's [hash](crate::split::filter::hash). The computation equals that of the library
    /// that builds the filters; a test compares them.
    pub(super) fn probe(&self, hash: u64) -> Probe {
        let mut hash = hash.wrapping_add(self.seed);
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^= hash >> 33;
        let within = self.segment - 1;
        let a = ((u128::from(hash) * u128::from(self.first)) >> 64) as u32;
        let b = (a + self.segment) ^ ((hash >> 18) as u32 & within);
        let c = (a + 2 * self.segment) ^ (hash as u32 & within);
        Probe {
            fingerprint: (hash ^ (hash >> 32)) as u8,
            places: [a, b, c],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::filter;

    #[test]
    fn asks_as_the_filter_does() {
        let hashes = |of: &str, count: usize| -> Vec<u64> {
            (0..count)
                .map(|number| filter::hash(format!("{of} {number}").as_bytes()))
                .collect()
        };
        for count in [1, 2, 10, 700, 4000] {
            let own = hashes("own", count);
            let (slice, slices) = filter::build(own.clone()).unwrap();
            assert_eq!(slices, 1);
            let (shape, slots) = Shape::of(&slice).unwrap();
            for hash in own.into_iter().chain(hashes("other", 3000)) {
                let Probe { fingerprint, places } = shape.probe(hash);
                let left = places
                    .iter()
                    .fold(fingerprint, |left, place| left ^ slots[*place as usize]);
                assert_eq!(Some(left == 0), filter::may_hold(&slice, hash));
            }
        }
    }

    #[test]
    fn other_bytes_are_no_slice() {
        let (slice, _) = filter::build(vec![1, 2, 3]).unwrap();
        for len in 0..slice.len() {
            assert_eq!(Shape::of(&slice[..len]), None, "{len} bytes");
        }
        for (place, value) in [(3, 255), (12, 3), (16, 9), (20, 1), (23, 255)] {
            let mut slice = slice.clone();
            slice[place] = value;
            assert_eq!(Shape::of(&slice), None, "byte {place}");
        }
    }
}
