//! Writer of a split: parts in the order of their arrival, then the footer.

use std::io::{self, Write};
use std::ops::Range;

use bytes::Bytes;
use firn_model::Result;

use super::footer::{self, Footer, Hot, TRAILER_BYTES, VERSION};
use super::hashing::{Hashing, salt_of};
use super::pages::{PAGE_BYTES, PAYLOAD_BYTES, PageWriter};
use super::{Part, PartKind};

/// Writer of a split. Its output depends only on its input, so the same segment gives the same object.
pub struct SplitWriter<W> {
    pages: PageWriter<Hashing<W>>,
    footer: Footer,
}

/// Returns the page salt of a segment's split, derived from the segment's id, the layout version, and `about`, the
/// metadata of the segment. So the same split has the same salt each time it is written, and any other object with that
/// segment id has another salt: a cache never takes pages of one object for pages of the other.
pub fn salt_of_segment(segment: &str, about: &[u8]) -> u64 {
    let version = VERSION.to_le_bytes();
    salt_of([segment.as_bytes(), &[0], &version, about].into_iter())
}

/// Result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// SHA-256 of all bytes, in hex.
    pub id: String,
    /// Length of the object in bytes.
    pub len: u64,
    /// Physical range of the pages that hold the footer.
    pub footer: Range<u64>,
}

impl<W: Write> SplitWriter<W> {
    /// Creates a split whose pages have this salt.
    pub fn new(out: W, salt: u64) -> Self {
        Self {
            pages: PageWriter::new(Hashing::new(out), salt),
            footer: Footer {
                about: serde_json::Value::Null,
                parts: Vec::new(),
                inline: Default::default(),
                hot: Vec::new(),
            },
        }
    }

    /// Adds a part whose content `write` writes.
    pub fn part<T>(
        &mut self,
        name: &str,
        kind: PartKind,
        write: impl FnOnce(&mut dyn Write) -> Result<T>,
    ) -> Result<(Part, T)> {
        self.pages.align()?;
        let start = self.pages.position();
        let outcome = write(&mut self.pages)?;
        let part = Part {
            name: name.to_owned(),
            kind,
            start,
            len: self.pages.position() - start,
        };
        self.footer.parts.push(part.clone());
        Ok((part, outcome))
    }

    /// Adds a small file that is only in the footer.
    pub fn inline(&mut self, name: &str, bytes: Bytes) {
        self.footer.inline.insert(name.to_owned(), bytes);
    }

    /// Adds the ranges of a part that an open reads to the footer; they may overlap. `bytes` returns their content.
    pub fn hot(
        &mut self,
        name: &str,
        mut ranges: Vec<Range<u64>>,
        mut bytes: impl FnMut(Range<u64>) -> Result<Bytes>,
    ) -> Result<()> {
        let Some((number, _)) = self.footer.part(name) else {
            return Ok(());
        };
        ranges.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        for range in joined {
            self.footer.hot.push(Hot {
                part: number,
                start: range.start,
                bytes: bytes(range)?,
            });
        }
        Ok(())
    }

    /// Writes the footer.
    pub fn finish(mut self, about: serde_json::Value) -> Result<(W, Written)> {
        self.footer.about = about;
        self.footer.hot.sort_by_key(|hot| (hot.part, hot.start));
        self.pages.align()?;
        let start = self.pages.position();
        let (packed, unpacked_len) = self.footer.encode()?;
        self.pages.write_all(&packed)?;
        let end = self.pages.position();
        // The trailer ends the last page, so that a reader finds it without other information.
        let total = (end + TRAILER_BYTES as u64).div_ceil(PAYLOAD_BYTES) * PAYLOAD_BYTES;
        let gap = total - TRAILER_BYTES as u64 - end;
        io::copy(&mut io::Read::take(io::repeat(0), gap), &mut self.pages)?;
        self.pages.write_all(&footer::trailer(&(start..end), unpacked_len))?;
        let (hashing, len) = self.pages.finish()?;
        let (out, id) = hashing.finish();
        let written = Written {
            id,
            len,
            footer: start / PAYLOAD_BYTES * PAGE_BYTES..len,
        };
        Ok((out, written))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sha2::{Digest, Sha256};

    use super::super::pages;
    use super::*;

    fn example() -> (Bytes, Written) {
        let mut writer = SplitWriter::new(Vec::new(), 7);
        writer
            .part("a", PartKind::Terms, |out| Ok(out.write_all(&[1; 5000])?))
            .unwrap();
        writer.part("empty", PartKind::Positions, |_| Ok(())).unwrap();
        writer
            .part("b", PartKind::Store, |out| Ok(out.write_all(b"0123456789")?))
            .unwrap();
        writer.inline("small", Bytes::from_static(b"tiny"));
        let digits =
            |range: Range<u64>| Ok(Bytes::from_static(b"0123456789").slice(range.start as usize..range.end as usize));
        writer.hot("b", vec![7..9, 0..2, 1..4, 4..4], digits).unwrap();
        let (bytes, written) = writer.finish(json!({"docs": 3})).unwrap();
        (bytes.into(), written)
    }

    fn open(bytes: &Bytes, written: &Written) -> Result<Footer> {
        let pages = bytes.slice(written.footer.start as usize..);
        pages::verify(7, written.footer.start, &pages).unwrap();
        let logical = pages::logical(&written.footer);
        Footer::decode(logical.start, &pages::payload(written.footer.start, &pages, &logical))
    }

    #[test]
    fn the_salt_depends_on_the_segment_and_its_metadata() {
        let salt = salt_of_segment("00ab", b"{\"docs\":1}");
        assert_eq!(salt, salt_of_segment("00ab", b"{\"docs\":1}"));
        for (segment, about) in [
            ("00ac", "{\"docs\":1}"),
            ("00ab", "{\"docs\":2}"),
            ("00a", "b{\"docs\":1}"),
        ] {
            assert_ne!(salt, salt_of_segment(segment, about.as_bytes()), "{segment} {about}");
        }
    }

    #[test]
    fn a_split_is_read_as_written() {
        let (bytes, written) = example();
        assert_eq!(written.len, bytes.len() as u64);
        assert_eq!(written.footer.end, written.len);
        let footer = open(&bytes, &written).unwrap();
        assert_eq!(footer.about, json!({"docs": 3}));
        assert_eq!(footer.inline["small"], "tiny");
        let names: Vec<(&str, u64, u64)> = footer
            .parts
            .iter()
            .map(|part| (part.name.as_str(), part.start, part.len))
            .collect();
        let page = PAYLOAD_BYTES;
        assert_eq!(names, [("a", 0, 5000), ("empty", 2 * page, 0), ("b", 2 * page, 10)]);
        let (number, part) = footer.part("b").unwrap();
        let place = part.locate(&(3..10)).unwrap();
        let range = pages::physical(&place);
        let read = bytes.slice(range.start as usize..range.end as usize);
        assert_eq!(pages::payload(range.start, &read, &place), "3456789");
        assert_eq!(part.locate(&(3..11)), None);
        let hot = |range| footer.hot(number, &range);
        assert_eq!(hot(0..4).unwrap(), "0123");
        assert_eq!(hot(1..3).unwrap(), "12");
        assert_eq!(hot(7..9).unwrap(), "78");
        assert_eq!((hot(3..5), hot(4..5), hot(8..10)), (None, None, None));
        assert_eq!(footer.hot(0, &(0..1)), None);
    }

    #[test]
    fn the_same_input_makes_the_same_object() {
        let (first, second) = (example(), example());
        assert_eq!(first, second);
        let digest = Sha256::digest(&first.0);
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(first.1.id, hex);
    }

    #[test]
    fn the_trailer_is_the_end_of_the_last_page() {
        let (bytes, written) = example();
        let page = written.len - PAGE_BYTES..written.len;
        let logical = pages::logical(&page);
        let last = pages::payload(page.start, &bytes.slice(page.start as usize..), &logical);
        let whole = open(&bytes, &written).unwrap();
        assert_eq!(Footer::decode(logical.start, &last).unwrap(), whole);
    }

    #[test]
    fn footers_of_other_kinds_are_refused() {
        let (bytes, written) = example();
        let logical = pages::logical(&written.footer);
        let whole = pages::payload(0, &bytes, &logical);
        let check = |change: &dyn Fn(&mut Vec<u8>), expect: &str| {
            let mut payload = whole.to_vec();
            change(&mut payload);
            let error = Footer::decode(logical.start, &payload.into()).unwrap_err();
            assert!(error.reason().contains(expect), "{error}");
        };
        let end = whole.len();
        check(&|payload| payload[end - 1] = b'x', "not that of a split");
        check(&|payload| payload[end - 12] = 9, "format version 9");
        check(&|payload| payload[end - 36 + 7] = 1, "location is wrong");
        check(&|payload| payload[end - 36 + 23] = 1, "too large");
        check(&|payload| payload[8] ^= 0xff, "decompressed");
        check(&Vec::clear, "is truncated");
    }
}
