//! Packed runs of some thousand column numbers, each readable independently.
//!
//! The encoding subtracts the minimum, divides by the greatest common divisor, and writes the results byte by byte:
//! first the lowest byte of each number, then the next one. Such a byte plane has similar values; zstd compresses the
//! planes. If neighbouring numbers are close, such as timestamps, it encodes the difference to the previous number
//! instead. The shorter of both encodings is written; a reader needs no other run.

use std::io;

use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, Strategy};

/// zstd level. Numbers are written once and fetched often.
const COMPRESSION_LEVEL: i32 = 9;
/// If numbers follow no pattern, such as status codes or request methods, short matches cost more than the bytes
/// themselves, which zstd compresses by their frequency. A second attempt without short matches saves a seventh.
const LONG_MATCHES: [CParameter; 2] = [CParameter::Strategy(Strategy::ZSTD_btopt), CParameter::MinMatch(6)];
/// Flag of the first byte: differences to the previous number are written.
const DIFFERENCES: u8 = 0x10;
/// Flag of the first byte: zstd compresses the planes.
const PACKED: u8 = 0x20;
/// Bits of the first byte that hold the number of planes.
const PLANES: u8 = 0x0f;

/// Packs numbers, of which there is at least one. The same numbers give the same bytes.
pub fn pack(numbers: &[u64]) -> io::Result<Vec<u8>> {
    let min = numbers.iter().copied().min().unwrap_or_default();
    let step = numbers
        .iter()
        .fold(0, |step, number| greatest_common_divisor(step, number - min))
        .max(1);
    let places: Vec<u64> = numbers.iter().map(|number| (number - min) / step).collect();
    let differences: Vec<u64> = places
        .windows(2)
        .map(|pair| zigzag(pair[1].wrapping_sub(pair[0]) as i64))
        .collect();
    let head = |flags: u8| {
        let mut bytes = vec![flags];
        bytes.extend_from_slice(&min.to_le_bytes());
        bytes.extend_from_slice(&step.to_le_bytes());
        bytes
    };
    let mut plain = head(0);
    put_planes(&places, &mut plain)?;
    let mut differing = head(DIFFERENCES);
    differing.extend_from_slice(&places.first().copied().unwrap_or_default().to_le_bytes());
    put_planes(&differences, &mut differing)?;
    Ok(if differing.len() < plain.len() {
        differing
    } else {
        plain
    })
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn zigzag(difference: i64) -> u64 {
    (difference << 1 ^ difference >> 63) as u64
}

fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

/// Appends planes, and sets their count and compression flag in the first byte.
fn put_planes(numbers: &[u64], bytes: &mut Vec<u8>) -> io::Result<()> {
    let all = numbers.iter().fold(0, |all, number| all | number);
    let count = (u64::BITS - all.leading_zeros()).div_ceil(8);
    let mut planes = Vec::with_capacity(numbers.len() * count as usize);
    for plane in 0..count {
        planes.extend(numbers.iter().map(|number| (number >> (8 * plane)) as u8));
    }
    let mut packed = zstd::bulk::compress(&planes, COMPRESSION_LEVEL)?;
    let mut compressor = Compressor::new(COMPRESSION_LEVEL)?;
    for parameter in LONG_MATCHES {
        compressor.set_parameter(parameter)?;
    }
    let other = compressor.compress(&planes)?;
    if other.len() < packed.len() {
        packed = other;
    }
    bytes[0] |= count as u8;
    if packed.len() < planes.len() {
        bytes[0] |= PACKED;
        bytes.extend_from_slice(&packed);
    } else {
        bytes.extend_from_slice(&planes);
    }
    Ok(())
}

/// Unpacked numbers, each as narrow as the largest one allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbers {
    min: u64,
    step: u64,
    places: Places,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Places {
    /// All numbers equal the minimum; their count.
    Same(usize),
    Bytes(Box<[u8]>),
    Shorts(Box<[u16]>),
    Ints(Box<[u32]>),
    Longs(Box<[u64]>),
}

impl Numbers {
    /// Unpacks `count` numbers from [`pack`]; `None`: the bytes are invalid.
    pub fn unpack(bytes: &[u8], count: usize) -> Option<Self> {
        let (&[flags], rest) = bytes.split_first_chunk()?;
        let (min, rest) = take_number(rest)?;
        let (step, mut rest) = take_number(rest)?;
        let mut first = None;
        if flags & DIFFERENCES != 0 {
            let (number, after) = take_number(rest)?;
            (first, rest) = (Some(number), after);
        }
        let plane_count = usize::from(flags & PLANES);
        let plane_len = count.checked_sub(usize::from(first.is_some()))?;
        let len = plane_len.checked_mul(plane_count).filter(|_| plane_count <= 8)?;
        let unpacked;
        let planes = match flags & PACKED != 0 {
            true => {
                unpacked = zstd::bulk::decompress(rest, len).ok()?;
                &unpacked[..]
            }
            false => rest,
        };
        if planes.len() != len {
            return None;
        }
        let mut numbers = vec![0u64; plane_len];
        for plane in 0..plane_count {
            let bytes = &planes[plane * plane_len..(plane + 1) * plane_len];
            for (number, byte) in numbers.iter_mut().zip(bytes) {
                *number |= u64::from(*byte) << (8 * plane);
            }
        }
        if let Some(first) = first {
            let mut place = first;
            for number in &mut numbers {
                place = place.wrapping_add(unzigzag(*number));
                *number = place;
            }
            numbers.insert(0, first);
        }
        Some(Self {
            min,
            step,
            places: Places::of(numbers),
        })
    }

    /// Returns the count.
    pub fn count(&self) -> usize {
        match &self.places {
            Places::Same(count) => *count,
            Places::Bytes(places) => places.len(),
            Places::Shorts(places) => places.len(),
            Places::Ints(places) => places.len(),
            Places::Longs(places) => places.len(),
        }
    }

    /// Returns a number. Panics beyond the end.
    #[inline]
    pub fn get(&self, index: usize) -> u64 {
        let place = match &self.places {
            Places::Same(_) => 0,
            Places::Bytes(places) => places[index].into(),
            Places::Shorts(places) => places[index].into(),
            Places::Ints(places) => places[index].into(),
            Places::Longs(places) => places[index],
        };
        self.min.wrapping_add(self.step.wrapping_mul(place))
    }

    /// Reads consecutive numbers. Panics if they exceed the end.
    pub fn read(&self, start: usize, out: &mut [u64]) {
        let end = start + out.len();
        match &self.places {
            Places::Same(_) => out.fill(self.min),
            Places::Bytes(places) => self.widen(&places[start..end], out),
            Places::Shorts(places) => self.widen(&places[start..end], out),
            Places::Ints(places) => self.widen(&places[start..end], out),
            Places::Longs(places) => self.widen(&places[start..end], out),
        }
    }

    fn widen<T: Copy + Into<u64>>(&self, places: &[T], out: &mut [u64]) {
        for (out, place) in out.iter_mut().zip(places) {
            *out = self.min.wrapping_add(self.step.wrapping_mul((*place).into()));
        }
    }

    /// Returns the size in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let places = match &self.places {
            Places::Same(_) => 0,
            Places::Bytes(places) => places.len(),
            Places::Shorts(places) => places.len() * 2,
            Places::Ints(places) => places.len() * 4,
            Places::Longs(places) => places.len() * 8,
        };
        size_of::<Self>() + places
    }
}

fn take_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), rest))
}

impl Places {
    fn of(numbers: Vec<u64>) -> Self {
        match numbers.iter().fold(0, |all, number| all | number) {
            0 => Self::Same(numbers.len()),
            0x1..=0xff => Self::Bytes(numbers.iter().map(|number| *number as u8).collect()),
            0x100..=0xffff => Self::Shorts(numbers.iter().map(|number| *number as u16).collect()),
            0x1_0000..=0xffff_ffff => Self::Ints(numbers.iter().map(|number| *number as u32).collect()),
            _ => Self::Longs(numbers.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(numbers: &[u64]) -> usize {
        let bytes = pack(numbers).unwrap();
        let found = Numbers::unpack(&bytes, numbers.len()).unwrap();
        assert_eq!(found.count(), numbers.len());
        for (index, number) in numbers.iter().enumerate() {
            assert_eq!(found.get(index), *number);
        }
        let middle = numbers.len() / 2;
        let mut read = vec![0; numbers.len() - middle];
        found.read(middle, &mut read);
        assert_eq!(read, numbers[middle..]);
        bytes.len()
    }

    #[test]
    fn numbers_come_back() {
        check(&[0]);
        check(&[u64::MAX, 0, u64::MAX, 1]);
        check(&[7, 7, 8]);
        check(&[1 << 63, u64::MAX - 3, 5]);
    }

    #[test]
    fn what_neighbours_have_in_common_is_not_written() {
        let instants: Vec<u64> = (0..16_384).map(|number| (1 << 40) + number * 2500 * 1000).collect();
        assert!(check(&instants) < 100);
        let down: Vec<u64> = instants
            .iter()
            .rev()
            .map(|instant| instant + instant / 2500 % 7 * 1000)
            .collect();
        assert!(check(&down) < 16_384 * 3 / 2);
        let few: Vec<u64> = (0..16_384u64).map(|number| number * number % 5).collect();
        assert!(check(&few) < 16_384 / 2);
    }

    #[test]
    fn other_bytes_are_no_numbers() {
        let numbers: Vec<u64> = (0..1000).map(|number| number * number).collect();
        let bytes = pack(&numbers).unwrap();
        for len in 0..bytes.len() {
            assert_eq!(Numbers::unpack(&bytes[..len], 1000), None, "{len}");
        }
        assert_eq!(Numbers::unpack(&bytes, 999), None);
        let mut wide = bytes;
        wide[0] = PACKED | 9;
        assert_eq!(Numbers::unpack(&wide, 1000), None);
    }

    proptest! {
        #[test]
        fn any_numbers_come_back(numbers in prop::collection::vec(any::<u64>(), 1..200), shift in 0u32..64) {
            let shifted: Vec<u64> = numbers.iter().map(|number| number >> shift).collect();
            check(&shifted);
        }

        #[test]
        fn damage_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..100), count in 0usize..50) {
            let _ = Numbers::unpack(&bytes, count);
        }
    }
}
