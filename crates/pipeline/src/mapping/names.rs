//! Table from names to numbers, for names that are fixed when a pack is compiled.

/// Multiplier of the hash: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// Slots per name; a sparse table answers "unknown" at the first look.
const SLOTS_PER_NAME: usize = 4;
/// Most names of one table; numbers are 16 bits wide.
pub(crate) const NAMES_MAX: usize = 16_000;

/// Names, numbered in the order in which they were given.
#[derive(Debug, Default)]
pub(crate) struct NameTable {
    /// Number + 1, or 0 if empty.
    slots: Box<[u16]>,
    names: Vec<Box<str>>,
    /// By the place of the name.
    numbers: Vec<u16>,
    count: usize,
}

impl NameTable {
    /// Numbers the names in their order. Of equal names the first is found. At most [`NAMES_MAX`] names are taken.
    pub(crate) fn new<S: AsRef<str>>(names: &[S]) -> Self {
        let numbers = (0..names.len().min(NAMES_MAX) as u16).collect();
        Self::with_numbers(names, numbers)
    }

    /// Builds the table of names that have numbers: several names may have the same. The first names are those of the
    /// numbers from 0 on.
    pub(crate) fn with_numbers<S: AsRef<str>>(names: &[S], numbers: Vec<u16>) -> Self {
        let names: Vec<Box<str>> = names.iter().take(NAMES_MAX).map(|name| name.as_ref().into()).collect();
        let count = numbers.iter().max().map_or(0, |max| usize::from(*max) + 1);
        let size = (names.len() * SLOTS_PER_NAME).next_power_of_two().max(8);
        let mut slots = vec![0u16; size].into_boxed_slice();
        for (number, name) in names.iter().enumerate() {
            let mut at = hash(name) as usize & (size - 1);
            while slots[at] != 0 {
                at = (at + 1) & (size - 1);
            }
            slots[at] = number as u16 + 1;
        }
        Self {
            slots,
            names,
            numbers,
            count,
        }
    }

    /// Returns the number of a name.
    #[inline]
    pub(crate) fn find(&self, name: &str) -> Option<u16> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash(name) as usize & mask;
        loop {
            let place = usize::from(self.slots[at].checked_sub(1)?);
            if &*self.names[place] == name {
                return Some(self.numbers[place]);
            }
            at = (at + 1) & mask;
        }
    }

    /// Returns the first name of a number.
    pub(crate) fn name(&self, number: u16) -> &str {
        &self.names[usize::from(number)]
    }

    /// Number of numbers.
    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

/// Returns a hash of the length, the first 8 and the last 8 bytes: names of fields differ there.
#[inline]
pub(super) fn hash(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let (first, last) = match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
            (Some(first), Some(last)) => (
                u64::from(u32::from_le_bytes(*first)),
                u64::from(u32::from_le_bytes(*last)),
            ),
            _ => {
                let byte = |at: usize| u64::from(bytes.get(at).copied().unwrap_or(0));
                (byte(0) | byte(1) << 8, byte(2))
            }
        },
    };
    let mixed = (first ^ last.rotate_left(29) ^ ((bytes.len() as u64) << 56)).wrapping_mul(SPREAD);
    mixed ^ (mixed >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_each_name_and_no_other() {
        let names: Vec<String> = (0..3000).map(|n| format!("deviceCustomString{n}Label")).collect();
        let table = NameTable::new(&names);
        for (number, name) in names.iter().enumerate() {
            assert_eq!(table.find(name), Some(number as u16));
        }
        for unknown in [
            "",
            "a",
            "deviceCustomString",
            "deviceCustomString3000Label",
            "x9999Label",
        ] {
            assert_eq!(table.find(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn of_equal_names_the_first_is_found() {
        assert_eq!(NameTable::new(&["a", "b", "a"]).find("a"), Some(0));
        assert_eq!(NameTable::default().find("a"), None);
    }
}
