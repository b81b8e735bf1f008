//! Index of the blocks of records, packed so tightly that an open split mostly holds all of it in memory.
//!
//! Without it, reading one record would wait for another request that locates its block. Blocks are similar: the record
//! counts and the lengths are [`numbers`] that pack to about two bytes per block, in groups of [`GROUP_BLOCKS`]. The
//! locations of groups are in memory while the split is open. The groups are too, unless there are very many; then each
//! is read on demand.

use std::io::Write;
use std::ops::Range;

use bytes::{Buf, Bytes};
use firn_model::{Error, ErrorKind, Result};

use super::numbers::{self, Numbers};

/// Blocks per group: 2 KB packed, one or two pages if it must be fetched, and microseconds to unpack.
const GROUP_BLOCKS: usize = 1024;
/// Bytes of a group's location: first record (u32), offset of its first block (u64), packed length (u32).
const PLACE_BYTES: usize = 16;
/// Index of formats 1 and 2: entries of first record (u32) and offset (u64); every 256th record number is in memory.
const ENTRY_BYTES: usize = 12;
const SAMPLE_ENTRIES: usize = 256;

/// Index for readers of the blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockIndex {
    /// Groups, one after the other.
    pub groups: Bytes,
    /// Locations of the groups, in memory while the split is open; [`Places::decode`] reads them.
    pub places: Bytes,
}

/// Collector of block sizes, in block order.
#[derive(Debug, Default)]
pub(super) struct IndexWriter {
    records: Vec<u64>,
    lens: Vec<u64>,
}

impl IndexWriter {
    /// Adds a block by its number of records and its length in bytes.
    pub(super) fn push(&mut self, records: usize, len: usize) {
        self.records.push(records as u64);
        self.lens.push(len as u64);
    }

    pub(super) fn finish(self) -> Result<BlockIndex> {
        let mut places = (self.records.len() as u32).to_le_bytes().to_vec();
        let mut groups = Vec::new();
        let (mut first, mut offset) = (0, 0);
        for (records, lens) in self.records.chunks(GROUP_BLOCKS).zip(self.lens.chunks(GROUP_BLOCKS)) {
            let start = groups.len();
            let packed = numbers::pack(records)?;
            groups.extend_from_slice(&(packed.len() as u32).to_le_bytes());
            groups.extend_from_slice(&packed);
            groups.extend_from_slice(&numbers::pack(lens)?);
            put_place(&mut places, first, offset, (groups.len() - start) as u32)?;
            first += records.iter().sum::<u64>();
            offset += lens.iter().sum::<u64>();
        }
        // End marker: the location of a further group.
        put_place(&mut places, first, offset, 0)?;
        Ok(BlockIndex {
            groups: groups.into(),
            places: places.into(),
        })
    }
}

fn put_place(places: &mut Vec<u8>, first: u64, offset: u64, len: u32) -> Result<()> {
    let first = u32::try_from(first).map_err(|_| Error::internal("a split has more records than a u32 can count"))?;
    places.write_all(&first.to_le_bytes())?;
    places.write_all(&offset.to_le_bytes())?;
    places.write_all(&len.to_le_bytes())?;
    Ok(())
}

/// In-memory part of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Places {
    /// Index with groups.
    Groups {
        /// Number of blocks.
        blocks: usize,
        /// Location of each group, and the end.
        places: Vec<GroupPlace>,
    },
    /// Index of formats 1 and 2.
    Samples {
        /// Number of blocks, plus the end entry.
        entry_count: usize,
        /// First record of every 256th entry.
        firsts: Vec<u32>,
    },
}

/// Location of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlace {
    first: u32,
    offset: u64,
    /// Byte range of the group among the packed groups.
    bytes: Range<u64>,
}

/// Location of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockPlace {
    /// Byte range among the blocks.
    pub bytes: Range<u64>,
    /// Records of the block.
    pub records: Range<u32>,
}

/// Locations of neighbouring blocks, unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// First record and offset of each block, and the end of the last one.
    bounds: Vec<(u32, u64)>,
}

impl Places {
    /// Decodes [`BlockIndex::places`]; the groups have `groups_len` bytes.
    pub fn decode(mut bytes: &[u8], groups_len: u64) -> Result<Self> {
        let blocks = bytes.try_get_u32_le().map_err(|_| damaged())? as usize;
        let (entries, rest) = bytes.as_chunks::<PLACE_BYTES>();
        let mut start = 0;
        let place = |entry: &[u8; PLACE_BYTES]| {
            let mut entry = &entry[..];
            let (first, offset, len) = (entry.get_u32_le(), entry.get_u64_le(), entry.get_u32_le());
            let end = start + u64::from(len);
            let bytes = start..end;
            start = end;
            GroupPlace { first, offset, bytes }
        };
        let places: Vec<GroupPlace> = entries.iter().map(place).collect();
        let ascends = places
            .windows(2)
            .all(|pair| pair[0].first < pair[1].first && pair[0].offset < pair[1].offset);
        let begins = places
            .first()
            .is_some_and(|place| (place.first, place.offset) == (0, 0));
        let fits = rest.is_empty()
            && begins
            && ascends
            && places.len() == blocks.div_ceil(GROUP_BLOCKS) + 1
            && start == groups_len;
        match fits {
            true => Ok(Self::Groups { blocks, places }),
            false => Err(damaged()),
        }
    }

    /// Decodes the samples of formats 1 and 2: number of entries, and the first record of every 256th.
    pub fn decode_samples(mut bytes: &[u8]) -> Result<Self> {
        let entry_count = bytes.try_get_u32_le().map_err(|_| damaged())? as usize;
        let (firsts, rest) = bytes.as_chunks::<4>();
        let firsts: Vec<u32> = firsts.iter().map(|first| u32::from_le_bytes(*first)).collect();
        let fits = rest.is_empty() && firsts.len() == entry_count.div_ceil(SAMPLE_ENTRIES) && entry_count > 0;
        match fits {
            true => Ok(Self::Samples { entry_count, firsts }),
            false => Err(damaged()),
        }
    }

    /// Returns the byte range of the index that locates a record's block; for a record beyond the end, some other
    /// range.
    pub fn piece(&self, record: u32) -> Range<u64> {
        match self {
            Self::Groups { places, .. } => places
                .get(group_of(places, record))
                .map_or(0..0, |place| place.bytes.clone()),
            Self::Samples { entry_count, firsts } => {
                let piece = firsts.partition_point(|first| *first <= record).saturating_sub(1);
                let start = piece * SAMPLE_ENTRIES;
                let end = (start + SAMPLE_ENTRIES + 1).min(*entry_count);
                (start * ENTRY_BYTES) as u64..(end * ENTRY_BYTES) as u64
            }
        }
    }

    /// Returns the byte range of all blocks of the groups with these records; `None`: unknown. `records` is not empty.
    pub fn around(&self, records: &Range<u32>) -> Option<Range<u64>> {
        let Self::Groups { places, .. } = self else {
            return None;
        };
        let first = places.get(group_of(places, records.start))?;
        let end = places.get(group_of(places, records.end.saturating_sub(1)) + 1)?;
        Some(first.offset..end.offset)
    }

    /// Unpacks the blocks around a record's block from the bytes of [`Places::piece`].
    pub fn group(&self, record: u32, piece: &[u8]) -> Result<Group> {
        match self {
            Self::Groups { blocks, places } => {
                let number = group_of(places, record);
                let (Some(place), Some(next)) = (places.get(number), places.get(number + 1)) else {
                    return Err(damaged());
                };
                let count = GROUP_BLOCKS.min(blocks - number * GROUP_BLOCKS);
                Group::unpack(piece, count, place, next)
            }
            Self::Samples { .. } => {
                let (entries, rest) = piece.as_chunks::<ENTRY_BYTES>();
                let bound = |entry: &[u8; ENTRY_BYTES]| {
                    let mut entry = &entry[..];
                    (entry.get_u32_le(), entry.get_u64_le())
                };
                let bounds: Vec<(u32, u64)> = entries.iter().map(bound).collect();
                let ascends = bounds
                    .windows(2)
                    .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
                match rest.is_empty() && ascends {
                    true => Ok(Group { bounds }),
                    false => Err(damaged()),
                }
            }
        }
    }
}

/// Returns the last group that begins at or before a record.
fn group_of(places: &[GroupPlace], record: u32) -> usize {
    places.partition_point(|place| place.first <= record).saturating_sub(1)
}

impl Group {
    fn unpack(piece: &[u8], count: usize, place: &GroupPlace, next: &GroupPlace) -> Result<Self> {
        let (len, rest) = piece.split_first_chunk::<4>().ok_or_else(damaged)?;
        let (records, lens) = rest
            .split_at_checked(u32::from_le_bytes(*len) as usize)
            .ok_or_else(damaged)?;
        let numbers = |bytes: &[u8]| Numbers::unpack(bytes, count).ok_or_else(damaged);
        let (records, lens) = (numbers(records)?, numbers(lens)?);
        let mut bounds = Vec::with_capacity(count + 1);
        let (mut first, mut offset) = (place.first, place.offset);
        bounds.push((first, offset));
        for block in 0..count {
            let more = u32::try_from(records.get(block)).ok().filter(|more| *more > 0);
            first = more.and_then(|more| first.checked_add(more)).ok_or_else(damaged)?;
            offset = offset.checked_add(lens.get(block)).ok_or_else(damaged)?;
            bounds.push((first, offset));
        }
        match (first, offset) == (next.first, next.offset) {
            true => Ok(Self { bounds }),
            false => Err(damaged()),
        }
    }

    /// Returns the records of all its blocks.
    pub fn records(&self) -> Range<u32> {
        let bound = |bound: Option<&(u32, u64)>| bound.map_or(0, |(record, _)| *record);
        bound(self.bounds.first())..bound(self.bounds.last())
    }

    /// Returns the length of its largest block in bytes.
    pub fn largest_block(&self) -> u64 {
        let lens = self.bounds.windows(2).map(|pair| pair[1].1 - pair[0].1);
        lens.max().unwrap_or_default()
    }

    /// Returns the location of a record's block; `None`: the record is in no block of this group.
    pub fn block(&self, record: u32) -> Option<BlockPlace> {
        let after = self.bounds.partition_point(|(first, _)| *first <= record);
        let (own, next) = (self.bounds.get(after.checked_sub(1)?)?, self.bounds.get(after)?);
        Some(BlockPlace {
            bytes: own.1..next.1,
            records: own.0..next.0,
        })
    }
}

pub(super) fn damaged() -> Error {
    Error::new(ErrorKind::Repository, "the stored documents of a split are damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns record counts and lengths of different blocks.
    fn blocks(count: usize) -> Vec<(usize, usize)> {
        (0..count)
            .map(|number| (1 + number * number % 7, 11_000 + number * 37 % 900))
            .collect()
    }

    fn index_of(blocks: &[(usize, usize)]) -> BlockIndex {
        let mut writer = IndexWriter::default();
        blocks.iter().for_each(|(records, len)| writer.push(*records, *len));
        writer.finish().unwrap()
    }

    /// Looks up the first and the last record of each block.
    fn check(blocks: &[(usize, usize)], places: &Places, index: &[u8]) {
        let ask = |record: u32| {
            let piece = places.piece(record);
            let group = places.group(record, &index[piece.start as usize..piece.end as usize]);
            group.ok().and_then(|group| group.block(record))
        };
        let (mut first, mut offset) = (0, 0);
        for (records, len) in blocks {
            let expect = BlockPlace {
                bytes: offset..offset + *len as u64,
                records: first..first + *records as u32,
            };
            assert_eq!(ask(first), Some(expect.clone()));
            assert_eq!(ask(expect.records.end - 1), Some(expect.clone()));
            (first, offset) = (expect.records.end, expect.bytes.end);
        }
        assert_eq!(ask(first), None);
        assert_eq!(ask(u32::MAX), None);
        let (mut seen, mut largest) = (0, 0);
        while seen < first {
            let piece = places.piece(seen);
            let group = places
                .group(seen, &index[piece.start as usize..piece.end as usize])
                .unwrap();
            if let Some(around) = places.around(&(seen..group.records().end)) {
                let last = group.block(group.records().end - 1).unwrap();
                assert_eq!(around, group.block(seen).unwrap().bytes.start..last.bytes.end);
            }
            largest = largest.max(group.largest_block());
            seen = group.records().end;
        }
        assert_eq!(
            largest,
            blocks.iter().map(|(_, len)| *len as u64).max().unwrap_or_default()
        );
    }

    #[test]
    fn every_block_is_found() {
        for count in [0, 1, 2, GROUP_BLOCKS - 1, GROUP_BLOCKS, GROUP_BLOCKS + 1, 5000] {
            let blocks = blocks(count);
            let index = index_of(&blocks);
            let places = Places::decode(&index.places, index.groups.len() as u64).unwrap();
            check(&blocks, &places, &index.groups);
            assert!(
                index.groups.len() < 50 + 3 * count,
                "{} for {count}",
                index.groups.len()
            );
        }
    }

    #[test]
    fn every_block_is_found_in_the_index_of_former_formats() {
        for count in [0, 1, 2, 255, 256, 257, 700] {
            let blocks = blocks(count);
            let (mut first, mut offset) = (0u32, 0u64);
            let mut entries = Vec::new();
            let mut put = |first: u32, offset: u64| {
                entries.extend_from_slice(&first.to_le_bytes());
                entries.extend_from_slice(&offset.to_le_bytes());
            };
            for (records, len) in &blocks {
                put(first, offset);
                (first, offset) = (first + *records as u32, offset + *len as u64);
            }
            put(first, offset);
            let mut samples = ((count + 1) as u32).to_le_bytes().to_vec();
            let sampled = entries.chunks(ENTRY_BYTES).step_by(SAMPLE_ENTRIES);
            sampled.for_each(|entry| samples.extend_from_slice(&entry[..4]));
            check(&blocks, &Places::decode_samples(&samples).unwrap(), &entries);
        }
        assert!(Places::decode_samples(&[]).is_err());
        assert!(Places::decode_samples(&[1, 0, 0, 0]).is_err());
        assert!(Places::decode_samples(&[0, 0, 0, 0]).is_err());
    }

    #[test]
    fn damage_is_an_error() {
        let index = index_of(&blocks(GROUP_BLOCKS + 9));
        let len = index.groups.len() as u64;
        let places = Places::decode(&index.places, len).unwrap();
        assert!(Places::decode(&index.places, len - 1).is_err());
        for cut in 0..index.places.len() {
            assert!(Places::decode(&index.places[..cut], len).is_err(), "{cut}");
        }
        let piece = places.piece(0);
        let group = &index.groups[piece.start as usize..piece.end as usize];
        assert!(places.group(0, group).is_ok());
        for cut in 0..group.len() {
            assert!(places.group(0, &group[..cut]).is_err(), "{cut}");
        }
        // Reads the second group in place of the first one, and the first one in place of the last.
        let last = places.piece(u32::MAX - 1);
        assert!(last.is_empty());
        let second = &index.groups[piece.end as usize..];
        assert!(places.group(0, second).is_err());
    }
}
