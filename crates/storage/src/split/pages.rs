//! Pages with checksums, so that any range of an object can be verified independently.
//!
//! A page is 4,092 bytes of payload and a CRC32C. The checksum also covers the object's salt and the page's number, so
//! a page of another object or another position fails like a flipped bit. What surprises: there is no table of
//! checksums. A reader would have to fetch a table before it could trust the first byte; four bytes in 4,096 cost 0.1 %
//! and stay with the page, also in the local cache. *Logical* offsets count payload only, *physical* offsets are those
//! of the object.

use std::fmt;
use std::io::{self, Write};
use std::ops::Range;

use bytes::Bytes;

/// Length of a page in the object, in bytes.
pub const PAGE_BYTES: u64 = 4096;
/// Payload bytes of a page; the checksum takes the rest.
pub const PAYLOAD_BYTES: u64 = PAGE_BYTES - SUM_BYTES as u64;

const SUM_BYTES: usize = 4;
const PAGE: usize = PAGE_BYTES as usize;
const PAYLOAD: usize = PAYLOAD_BYTES as usize;

/// Page with a wrong checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageDamage {
    /// Number of the page in the object.
    pub page: u64,
}

impl fmt::Display for PageDamage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = self.page * PAGE_BYTES;
        write!(formatter, "the checksum of the page at offset {offset} does not match")
    }
}

impl std::error::Error for PageDamage {}

/// Returns the physical range of the whole pages that hold a logical range; empty for an empty range.
pub fn physical(logical: &Range<u64>) -> Range<u64> {
    if logical.is_empty() {
        return 0..0;
    }
    let first = logical.start / PAYLOAD_BYTES;
    let last = (logical.end - 1) / PAYLOAD_BYTES;
    first * PAGE_BYTES..(last + 1) * PAGE_BYTES
}

/// Returns the logical range that whole pages hold.
pub fn logical(physical: &Range<u64>) -> Range<u64> {
    physical.start / PAGE_BYTES * PAYLOAD_BYTES..physical.end / PAGE_BYTES * PAYLOAD_BYTES
}

/// Returns the physical length of an object with `logical_len` payload bytes: zeros fill the last page.
pub fn physical_len(logical_len: u64) -> u64 {
    logical_len.div_ceil(PAYLOAD_BYTES) * PAGE_BYTES
}

/// Checks whole pages, of which the first is at a physical offset. Input that is not whole pages counts as damage:
/// reads request whole pages, so an answer of another shape is wrong.
pub fn verify(salt: u64, physical_start: u64, pages: &[u8]) -> Result<(), PageDamage> {
    let first = physical_start / PAGE_BYTES;
    let (whole, rest) = pages.as_chunks::<PAGE>();
    if !physical_start.is_multiple_of(PAGE_BYTES) {
        return Err(PageDamage { page: first });
    }
    for (number, page) in (first..).zip(whole) {
        let (payload, sum) = page.split_at(PAYLOAD);
        if checksum(salt, number, payload).to_le_bytes() != *sum {
            return Err(PageDamage { page: number });
        }
    }
    match rest.is_empty() {
        true => Ok(()),
        false => Err(PageDamage {
            page: first + whole.len() as u64,
        }),
    }
}

/// Extracts a logical range from verified pages that begin at a physical offset and hold all of it. A range within one
/// page is not copied.
pub fn payload(physical_start: u64, pages: &Bytes, logical: &Range<u64>) -> Bytes {
    if logical.is_empty() {
        return Bytes::new();
    }
    let first_page = physical_start / PAGE_BYTES;
    let place = |offset: u64| {
        (
            (offset / PAYLOAD_BYTES - first_page) as usize,
            (offset % PAYLOAD_BYTES) as usize,
        )
    };
    let (first, start) = place(logical.start);
    let (last, end) = place(logical.end - 1);
    if first == last {
        return pages.slice(first * PAGE + start..first * PAGE + end + 1);
    }
    let mut bytes = Vec::with_capacity((logical.end - logical.start) as usize);
    for number in first..=last {
        let from = if number == first { start } else { 0 };
        let to = if number == last { end + 1 } else { PAYLOAD };
        bytes.extend_from_slice(&pages[number * PAGE + from..number * PAGE + to]);
    }
    bytes.into()
}

fn checksum(salt: u64, number: u64, payload: &[u8]) -> u32 {
    let mut head = [0; 16];
    head[..8].copy_from_slice(&salt.to_le_bytes());
    head[8..].copy_from_slice(&number.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&head), payload)
}

/// Writer of pages. Nothing is complete before [`PageWriter::finish`].
pub struct PageWriter<W> {
    out: W,
    salt: u64,
    /// Page that is being filled.
    page: Vec<u8>,
    number: u64,
}

impl<W: Write> PageWriter<W> {
    /// Creates a writer for a new object with this salt.
    pub fn new(out: W, salt: u64) -> Self {
        Self {
            out,
            salt,
            page: Vec::with_capacity(PAGE),
            number: 0,
        }
    }

    /// Returns the number of logical bytes so far.
    pub fn position(&self) -> u64 {
        self.number * PAYLOAD_BYTES + self.page.len() as u64
    }

    /// Fills the page with padding zeros, so that the next write begins a page.
    pub fn align(&mut self) -> io::Result<()> {
        match self.page.is_empty() {
            true => Ok(()),
            false => self.end_page(),
        }
    }

    /// Ends the last page and returns the physical length.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        self.align()?;
        self.out.flush()?;
        Ok((self.out, self.number * PAGE_BYTES))
    }

    fn end_page(&mut self) -> io::Result<()> {
        self.page.resize(PAYLOAD, 0);
        let sum = checksum(self.salt, self.number, &self.page);
        self.page.extend_from_slice(&sum.to_le_bytes());
        self.out.write_all(&self.page)?;
        self.page.clear();
        self.number += 1;
        Ok(())
    }
}

impl<W: Write> Write for PageWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PAYLOAD - self.page.len());
        self.page.extend_from_slice(&bytes[..taken]);
        if self.page.len() == PAYLOAD {
            self.end_page()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pages_of(salt: u64, payload: &[u8]) -> Vec<u8> {
        let mut writer = PageWriter::new(Vec::new(), salt);
        writer.write_all(payload).unwrap();
        assert_eq!(writer.position(), payload.len() as u64);
        let (pages, len) = writer.finish().unwrap();
        assert_eq!(len, pages.len() as u64);
        assert_eq!(len, physical_len(payload.len() as u64));
        pages
    }

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|place| (place * 7 + place / 251) as u8).collect()
    }

    #[test]
    fn any_range_is_read_from_the_pages_that_hold_it() {
        let written = bytes(3 * PAYLOAD + 100);
        let pages = Bytes::from(pages_of(7, &written));
        let edges = [
            0,
            1,
            PAYLOAD - 1,
            PAYLOAD,
            PAYLOAD + 1,
            2 * PAYLOAD,
            written.len() - 1,
            written.len(),
        ];
        for start in edges {
            for end in edges.into_iter().filter(|end| *end >= start) {
                let logical = start as u64..end as u64;
                let range = physical(&logical);
                let part = pages.slice(range.start as usize..range.end as usize);
                verify(7, range.start, &part).unwrap();
                assert_eq!(
                    payload(range.start, &part, &logical),
                    written[start..end],
                    "{logical:?}"
                );
                // Extra pages before and after do no harm.
                assert_eq!(payload(0, &pages, &logical), written[start..end], "{logical:?}");
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let pages = pages_of(7, &bytes(PAYLOAD + 10));
        for bit in 0..pages.len() * 8 {
            let mut damaged = pages.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let page = (bit / 8 / PAGE) as u64;
            assert_eq!(verify(7, 0, &damaged), Err(PageDamage { page }));
        }
    }

    #[test]
    fn pages_of_other_objects_and_places_are_wrong() {
        let pages = pages_of(7, &bytes(2 * PAYLOAD));
        let second = &pages[PAGE..];
        assert_eq!(verify(7, PAGE_BYTES, second), Ok(()));
        assert_eq!(verify(8, PAGE_BYTES, second), Err(PageDamage { page: 1 }));
        assert_eq!(verify(7, 0, second), Err(PageDamage { page: 0 }));
        assert_eq!(verify(7, 1, second), Err(PageDamage { page: 0 }));
        assert_eq!(verify(7, 0, &pages[..PAGE + 1]), Err(PageDamage { page: 1 }));
        assert_eq!(
            verify(7, 0, &[0; PAGE]),
            Err(PageDamage { page: 0 }),
            "a hole in a file is not a page"
        );
    }

    #[test]
    fn what_comes_after_align_begins_a_page() {
        let mut writer = PageWriter::new(Vec::new(), 1);
        writer.align().unwrap();
        assert_eq!(writer.position(), 0);
        writer.write_all(b"x").unwrap();
        writer.align().unwrap();
        assert_eq!(writer.position(), PAYLOAD_BYTES);
    }

    proptest! {
        #[test]
        fn pieces_make_the_same_pages(pieces in prop::collection::vec(0usize..6000, 0..6)) {
            let written = bytes(pieces.iter().sum());
            let mut writer = PageWriter::new(Vec::new(), 3);
            let mut rest = &written[..];
            for piece in pieces {
                let (now, later) = rest.split_at(piece);
                writer.write_all(now).unwrap();
                rest = later;
            }
            prop_assert_eq!(writer.finish().unwrap().0, pages_of(3, &written));
        }
    }
}
