//! Entries of 20 bits: prepared hashes, two in five bytes.

use std::io;
use std::ops::Range;

use tantivy::directory::{FileSlice, OwnedBytes};

use crate::columns::column::is_run;

/// Bytes of two entries.
const PAIR_BYTES: usize = 5;
/// Bits of an entry.
const BITS: u32 = 20;
const MASK: u32 = (1 << BITS) - 1;
/// Bytes after the last entry: an entry is read as four bytes.
const PADDING_BYTES: usize = 4;

/// Packs entries.
pub fn pack(entries: &[u32], out: &mut Vec<u8>) {
    for pair in entries.chunks(2) {
        let second = pair.get(1).copied().unwrap_or_default();
        let both = u64::from(pair[0] & MASK) | u64::from(second & MASK) << BITS;
        out.extend_from_slice(&both.to_le_bytes()[..PAIR_BYTES]);
    }
    out.extend_from_slice(&[0; PADDING_BYTES]);
}

/// Returns the bytes of so many packed entries.
pub(super) fn packed_len(count: u32) -> u64 {
    u64::from(count).div_ceil(2) * PAIR_BYTES as u64 + PADDING_BYTES as u64
}

/// Reader of packed entries, a window at a time: only the blocks of the file that it needs are read and verified.
pub struct EntryReader {
    slice: FileSlice,
    count: u32,
    /// Entries of a window; even.
    window_len: u32,
    window: OwnedBytes,
    /// The entries in the window.
    current: Range<u32>,
}

impl EntryReader {
    pub(super) fn new(slice: FileSlice, count: u32, window_len: u32) -> Self {
        Self {
            slice,
            count,
            window_len: window_len.next_multiple_of(2).max(2),
            window: OwnedBytes::empty(),
            current: 0..0,
        }
    }

    /// Returns an entry; 0 if it does not exist.
    #[inline]
    pub fn get(&mut self, number: u32) -> io::Result<u32> {
        if !self.current.contains(&number) && !self.load(number)? {
            return Ok(0);
        }
        Ok(entry(&self.window, number - self.current.start))
    }

    /// Appends the entries of `numbers`, which ascend and may repeat, to `out`. Those that do not exist are left out.
    pub fn read(&mut self, mut numbers: &[u32], out: &mut Vec<u32>) -> io::Result<()> {
        while let Some(&first) = numbers.first() {
            if !self.current.contains(&first) && !self.load(first)? {
                return Ok(());
            }
            let (now, later) = numbers.split_at(numbers.partition_point(|number| *number < self.current.end));
            let start = self.current.start;
            match is_run(now, first) {
                true => unpack(&self.window, first - start, now.len(), out),
                false => out.extend(now.iter().map(|number| entry(&self.window, number - start))),
            }
            numbers = later;
        }
        Ok(())
    }

    /// Loads the window of an entry; returns false if it does not exist.
    fn load(&mut self, number: u32) -> io::Result<bool> {
        if number >= self.count {
            return Ok(false);
        }
        let start = number / self.window_len * self.window_len;
        let end = start.saturating_add(self.window_len).min(self.count);
        let from = start as usize / 2 * PAIR_BYTES;
        let to = packed_len(end) as usize;
        self.window = self.slice.read_bytes_slice(from..to)?;
        self.current = start..end;
        Ok(true)
    }
}

/// Reads an entry of a window.
#[inline]
fn entry(window: &[u8], position: u32) -> u32 {
    let (pair, odd) = (position as usize / 2, position % 2);
    let at = pair * PAIR_BYTES + 2 * odd as usize;
    let bytes = window.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes) >> (4 * odd) & MASK)
}

/// Appends `count` consecutive entries from `first` on.
fn unpack(window: &[u8], first: u32, count: usize, out: &mut Vec<u32>) {
    let end = out.len() + count;
    out.reserve(count + 1);
    let mut first = first;
    if !first.is_multiple_of(2) {
        out.push(entry(window, first));
        first += 1;
    }
    let at = first as usize / 2 * PAIR_BYTES;
    let pairs = end.saturating_sub(out.len()).div_ceil(2);
    let (packed, _) = window.get(at..).unwrap_or_default().as_chunks::<PAIR_BYTES>();
    out.extend(packed.iter().take(pairs).flat_map(|pair| {
        let low = u32::from_le_bytes([pair[0], pair[1], pair[2], pair[3]]);
        let high = u32::from(pair[4]) << 12 | low >> BITS;
        [low & MASK, high]
    }));
    out.truncate(end);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn reader(entries: &[u32], window_len: u32) -> EntryReader {
        let mut bytes = Vec::new();
        pack(entries, &mut bytes);
        assert_eq!(bytes.len() as u64, packed_len(entries.len() as u32));
        let slice = FileSlice::new(Arc::new(OwnedBytes::new(bytes)));
        EntryReader::new(slice, entries.len() as u32, window_len)
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        for count in [0, 1, 2, 3, 100, 1001] {
            let mut random = fastrand::Rng::with_seed(count);
            let entries: Vec<u32> = (0..count).map(|_| random.u32(..1 << BITS)).collect();
            for window_len in [1, 4, 64, 5000] {
                let mut reader = reader(&entries, window_len);
                for (number, expect) in entries.iter().enumerate() {
                    assert_eq!(
                        reader.get(number as u32).unwrap(),
                        *expect,
                        "{count} {window_len} {number}"
                    );
                }
                assert_eq!(reader.get(count as u32).unwrap(), 0);
                for step in [1, 2, 7, 300] {
                    for start in [0, 1, 5] {
                        let numbers: Vec<u32> = (start..count as u32).step_by(step).flat_map(|at| [at; 2]).collect();
                        let once: Vec<u32> = numbers.iter().copied().step_by(2).collect();
                        for numbers in [numbers, once] {
                            let mut found = vec![7];
                            reader.read(&numbers, &mut found).unwrap();
                            let expect = numbers.iter().map(|at| entries[*at as usize]);
                            assert!(
                                found[1..].iter().copied().eq(expect),
                                "{count} {window_len} {step} {start}"
                            );
                        }
                    }
                }
            }
        }
    }
}
