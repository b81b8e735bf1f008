//! Footer of a split: everything that opening it needs.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::{BufMut, Bytes};
use firn_model::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PartKind;

/// Last bytes of every split.
const MAGIC: [u8; 8] = *b"firnsplt";
/// Format version of new splits: document locations are packed in groups.
pub const VERSION: u32 = 3;
/// Oldest readable version: columns are in one file.
const VERSION_MIN: u32 = 1;
/// Length of the [`Trailer`] in bytes.
pub(super) const TRAILER_BYTES: usize = 36;
/// Maximum length of an unpacked footer. It contains indexes of dictionaries, which take about 70 KB per million
/// documents.
const FOOTER_BYTES_MAX: usize = 64 << 20;
/// Footers are written once and read often: this level compresses them nearly as well as the highest ones.
const COMPRESSION_LEVEL: i32 = 9;

/// Part of a split: named bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Unique in the split.
    pub name: String,
    /// Kind, for statistics and read planning.
    pub kind: PartKind,
    /// Logical start; always at the start of a page.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Part {
    /// Converts a range of the part to a logical range of the split; `None`: the range exceeds the part.
    pub fn locate(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let is_within = range.start <= range.end && range.end <= self.len;
        is_within.then(|| self.start + range.start..self.start + range.end)
    }
}

/// Bytes of a part that are also in the footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hot {
    /// Index of the part in [`Footer::parts`].
    pub part: usize,
    /// Offset of the bytes in the part.
    pub start: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// Footer of a split; see the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Footer {
    /// Metadata of the split from its writer.
    pub about: Value,
    /// In the order of their location.
    pub parts: Vec<Part>,
    /// Small files that exist only here, by name.
    pub inline: BTreeMap<String, Bytes>,
    /// Sorted by part and start; ranges of one part neither overlap nor touch.
    pub hot: Vec<Hot>,
}

/// JSON header of the footer.
#[derive(Serialize, Deserialize)]
struct Header {
    about: Value,
    parts: Vec<Part>,
    /// Names and lengths.
    inline: Vec<(String, u64)>,
    /// Part, start, length.
    hot: Vec<(usize, u64, u64)>,
}

/// Last bytes of the last page: the location of the footer.
struct Trailer {
    /// Logical range of the compressed footer.
    packed: Range<u64>,
    unpacked_len: usize,
}

impl Footer {
    /// Returns a part and its index by name.
    pub fn part(&self, name: &str) -> Option<(usize, &Part)> {
        self.parts.iter().enumerate().find(|(_, part)| part.name == name)
    }

    /// Returns a range of a part, if the footer holds all of it.
    pub fn hot(&self, part: usize, range: &Range<u64>) -> Option<Bytes> {
        let after = self
            .hot
            .partition_point(|hot| (hot.part, hot.start) <= (part, range.start));
        let hot = self.hot[..after].last().filter(|hot| hot.part == part)?;
        let start = (range.start - hot.start) as usize;
        let end = start + (range.end - range.start) as usize;
        (end <= hot.bytes.len()).then(|| hot.bytes.slice(start..end))
    }

    /// Returns the approximate size in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let inline: usize = self.inline.values().map(Bytes::len).sum();
        let hot: usize = self.hot.iter().map(|hot| hot.bytes.len() + size_of::<Hot>()).sum();
        inline + hot + self.parts.len() * size_of::<Part>()
    }

    /// Returns the compressed bytes and the uncompressed length.
    pub(super) fn encode(&self) -> Result<(Vec<u8>, usize)> {
        let header = serde_json::to_vec(&Header {
            about: self.about.clone(),
            parts: self.parts.clone(),
            inline: self
                .inline
                .iter()
                .map(|(name, bytes)| (name.clone(), bytes.len() as u64))
                .collect(),
            hot: self
                .hot
                .iter()
                .map(|hot| (hot.part, hot.start, hot.bytes.len() as u64))
                .collect(),
        })?;
        let mut bytes = Vec::new();
        bytes.put_u32_le(header.len() as u32);
        bytes.extend_from_slice(&header);
        self.inline.values().for_each(|inline| bytes.extend_from_slice(inline));
        self.hot.iter().for_each(|hot| bytes.extend_from_slice(&hot.bytes));
        if bytes.len() > FOOTER_BYTES_MAX {
            return Err(Error::illegal_argument(format!(
                "cannot write a split: its footer has {} bytes, at most {FOOTER_BYTES_MAX} are allowed",
                bytes.len()
            )));
        }
        let packed = zstd::bulk::compress(&bytes, COMPRESSION_LEVEL)?;
        Ok((packed, bytes.len()))
    }

    /// Decodes the footer from the payload of the pages at the end of a split; `logical_start` is the logical offset of
    /// its first byte. Also reports damage that passed the checksums.
    pub fn decode(logical_start: u64, payload: &Bytes) -> Result<Self> {
        let start = payload
            .len()
            .checked_sub(TRAILER_BYTES)
            .ok_or_else(|| damaged("it is truncated"))?;
        let trailer = Trailer::decode(&payload[start..])?;
        let place = |offset: u64| usize::try_from(offset.checked_sub(logical_start)?).ok();
        let packed = place(trailer.packed.start)
            .zip(place(trailer.packed.end))
            .and_then(|(start, end)| payload.get(start..end))
            .ok_or_else(|| damaged("its location is wrong"))?;
        let bytes =
            zstd::bulk::decompress(packed, trailer.unpacked_len).map_err(|_| damaged("it cannot be decompressed"))?;
        Self::read(bytes.into()).ok_or_else(|| damaged("its parts are inconsistent"))
    }

    fn read(mut bytes: Bytes) -> Option<Self> {
        let len = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
        let mut take = |len: usize| (len <= bytes.len()).then(|| bytes.split_to(len));
        take(4)?;
        let header: Header = serde_json::from_slice(&take(len)?).ok()?;
        let mut inline = BTreeMap::new();
        for (name, len) in header.inline {
            inline.insert(name, take(usize::try_from(len).ok()?)?);
        }
        let mut hot: Vec<Hot> = Vec::with_capacity(header.hot.len());
        for (part, start, len) in header.hot {
            let end = start.checked_add(len)?;
            header.parts.get(part)?.locate(&(start..end))?;
            let bytes = take(usize::try_from(len).ok()?)?;
            let is_next = hot
                .last()
                .is_none_or(|last| (last.part, last.start + last.bytes.len() as u64) < (part, start));
            if !is_next {
                return None;
            }
            hot.push(Hot { part, start, bytes });
        }
        bytes.is_empty().then_some(Self {
            about: header.about,
            parts: header.parts,
            inline,
            hot,
        })
    }
}

impl Trailer {
    fn decode(bytes: &[u8]) -> Result<Self> {
        let number = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let small = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if bytes.len() != TRAILER_BYTES || bytes[TRAILER_BYTES - MAGIC.len()..] != MAGIC {
            return Err(damaged("its trailer is not that of a split"));
        }
        let version = small(24);
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(damaged(&format!(
                "it has format version {version}, this firn reads {VERSION_MIN} to {VERSION}"
            )));
        }
        let unpacked_len = number(16);
        if unpacked_len > FOOTER_BYTES_MAX as u64 {
            return Err(damaged("it is too large"));
        }
        Ok(Self {
            packed: number(0)..number(8),
            unpacked_len: unpacked_len as usize,
        })
    }
}

/// Returns the last bytes of a split whose compressed footer is at a logical range.
pub(super) fn trailer(packed: &Range<u64>, unpacked_len: usize) -> [u8; TRAILER_BYTES] {
    let mut bytes = [0; TRAILER_BYTES];
    bytes[0..8].copy_from_slice(&packed.start.to_le_bytes());
    bytes[8..16].copy_from_slice(&packed.end.to_le_bytes());
    bytes[16..24].copy_from_slice(&(unpacked_len as u64).to_le_bytes());
    bytes[24..28].copy_from_slice(&VERSION.to_le_bytes());
    bytes[28..].copy_from_slice(&MAGIC);
    bytes
}

fn damaged(what: &str) -> Error {
    Error::new(
        ErrorKind::Repository,
        format!("the footer of a split is damaged: {what}"),
    )
}
