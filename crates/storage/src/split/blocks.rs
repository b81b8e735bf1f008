//! Records in compressed blocks, with an index that is read in pieces.
//!
//! Stored documents are most of a split and hardly any of them are ever read, so an index of all blocks would
//! be most of what reading one document costs. Here the index is entries of a fixed size, and only
//! every [`SAMPLE_ENTRIES`]th of them is kept where the split is open: a record takes one range of the
//! index (3 KB) and one block.

use std::io::Write;
use std::ops::Range;

use bytes::{Buf, BufMut, Bytes};
use firn_model::{Error, ErrorKind, Result};

/// A block is closed at so many bytes: larger ones pack better, smaller ones cost less for one record.
const BLOCK_BYTES: usize = 64 << 10;
/// A block never unpacks to more: the largest record and its neighbours.
const BLOCK_BYTES_MAX: usize = 1 << 30;
/// What a split costs is paid once and what it takes is paid for years.
const COMPRESSION_LEVEL: i32 = 9;
/// First record (u32) and offset (u64), little-endian.
const ENTRY_BYTES: usize = 12;
/// Entries of a piece of the index: 3 KB, within two pages.
const SAMPLE_ENTRIES: usize = 256;

/// Writes records, which are numbered from 0.
pub struct BlockWriter<'a> {
    out: &'a mut dyn Write,
    compressor: zstd::bulk::Compressor<'static>,
    records: Vec<u8>,
    ends: Vec<u32>,
    index: Vec<u8>,
    first: u32,
    offset: u64,
}

/// What a reader needs beside the blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockIndex {
    /// Entries by block, and one for the end.
    pub entries: Bytes,
    /// What is kept where the split is open: [`Samples::decode`] reads it.
    pub samples: Bytes,
}

impl<'a> BlockWriter<'a> {
    /// Blocks go to `out`.
    pub fn new(out: &'a mut dyn Write) -> Result<Self> {
        Ok(Self {
            out,
            compressor: zstd::bulk::Compressor::new(COMPRESSION_LEVEL)?,
            records: Vec::new(),
            ends: Vec::new(),
            index: Vec::new(),
            first: 0,
            offset: 0,
        })
    }

    /// Adds a record.
    pub fn push(&mut self, record: &[u8]) -> Result<()> {
        self.records.extend_from_slice(record);
        self.ends.push(self.records.len() as u32);
        match self.records.len() >= BLOCK_BYTES {
            true => self.end_block(),
            false => Ok(()),
        }
    }

    /// Ends the last block.
    pub fn finish(mut self) -> Result<BlockIndex> {
        self.end_block()?;
        self.put_entry();
        let mut samples = (self.index.len() as u32 / ENTRY_BYTES as u32).to_le_bytes().to_vec();
        let entries = self.index.chunks(ENTRY_BYTES);
        entries
            .step_by(SAMPLE_ENTRIES)
            .for_each(|entry| samples.extend_from_slice(&entry[..4]));
        Ok(BlockIndex {
            entries: self.index.into(),
            samples: samples.into(),
        })
    }

    fn put_entry(&mut self) {
        self.index.put_u32_le(self.first);
        self.index.put_u64_le(self.offset);
    }

    fn end_block(&mut self) -> Result<()> {
        if self.ends.is_empty() {
            return Ok(());
        }
        self.put_entry();
        let mut block = Vec::with_capacity(4 + 4 * self.ends.len() + self.records.len());
        block.put_u32_le(self.ends.len() as u32);
        self.ends.iter().for_each(|end| block.put_u32_le(*end));
        block.extend_from_slice(&self.records);
        let packed = self.compressor.compress(&block)?;
        let mut bytes = (block.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&packed);
        self.out.write_all(&bytes)?;
        self.first += self.ends.len() as u32;
        self.offset += bytes.len() as u64;
        self.records.clear();
        self.ends.clear();
        Ok(())
    }
}

/// The part of an index that is kept where a split is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Samples {
    entry_count: u32,
    /// The first record of every [`SAMPLE_ENTRIES`]th entry.
    firsts: Vec<u32>,
}

/// Where a block is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockPlace {
    /// Bytes among the blocks.
    pub bytes: Range<u64>,
    /// The records that it holds.
    pub records: Range<u32>,
}

impl Samples {
    /// From [`BlockIndex::samples`].
    pub fn decode(mut bytes: &[u8]) -> Result<Self> {
        let entry_count = bytes.try_get_u32_le().map_err(|_| damaged())?;
        let (firsts, rest) = bytes.as_chunks::<4>();
        let samples = Self {
            entry_count,
            firsts: firsts.iter().map(|first| u32::from_le_bytes(*first)).collect(),
        };
        let expected = (entry_count as usize).div_ceil(SAMPLE_ENTRIES);
        let fits = rest.is_empty() && samples.firsts.len() == expected && entry_count > 0;
        if fits { Ok(samples) } else { Err(damaged()) }
    }

    /// The bytes of the index that tell where a record's block is.
    pub fn piece(&self, record: u32) -> Range<u64> {
        let piece = self.firsts.partition_point(|first| *first <= record).saturating_sub(1);
        let start = piece * SAMPLE_ENTRIES;
        let end = (start + SAMPLE_ENTRIES + 1).min(self.entry_count as usize);
        (start * ENTRY_BYTES) as u64..(end * ENTRY_BYTES) as u64
    }

    /// Where a record's block is, from the bytes of [`Samples::piece`].
    pub fn block(&self, record: u32, piece: &[u8]) -> Result<BlockPlace> {
        let (entries, _) = piece.as_chunks::<ENTRY_BYTES>();
        let read = |entry: &[u8; ENTRY_BYTES]| {
            let mut entry = &entry[..];
            (entry.get_u32_le(), entry.get_u64_le())
        };
        let after = entries.partition_point(|entry| read(entry).0 <= record);
        let (Some(own), Some(next)) = (
            after.checked_sub(1).and_then(|own| entries.get(own)),
            entries.get(after),
        ) else {
            return Err(damaged());
        };
        let (own, next) = (read(own), read(next));
        Ok(BlockPlace {
            bytes: own.1..next.1,
            records: own.0..next.0,
        })
    }
}

/// An unpacked block.
#[derive(Debug, Clone)]
pub struct Block {
    bytes: Bytes,
    count: u32,
}

impl Block {
    /// From the bytes of a [`BlockPlace`].
    pub fn unpack(mut bytes: &[u8]) -> Result<Self> {
        let len = bytes.try_get_u32_le().map_err(|_| damaged())? as usize;
        if len > BLOCK_BYTES_MAX {
            return Err(damaged());
        }
        let bytes: Bytes = zstd::bulk::decompress(bytes, len).map_err(|_| damaged())?.into();
        let count = bytes.as_ref().try_get_u32_le().map_err(|_| damaged())?;
        if bytes.len() < 4 + 4 * count as usize {
            return Err(damaged());
        }
        Ok(Self { bytes, count })
    }

    /// Bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Records in it.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// A record by its number in the block.
    pub fn record(&self, number: u32) -> Result<Bytes> {
        let end = |number: u32| {
            let at = 4 + 4 * number as usize;
            self.bytes
                .get(at..at + 4)
                .and_then(|bytes| bytes.first_chunk())
                .map(|bytes| u32::from_le_bytes(*bytes) as usize)
        };
        let start = match number {
            0 => Some(0),
            _ => end(number - 1),
        };
        let records = 4 + 4 * self.count as usize;
        let range = start
            .zip(end(number))
            .map(|(start, end)| records + start..records + end);
        match range {
            Some(range) if number < self.count && range.start <= range.end && range.end <= self.bytes.len() => {
                Ok(self.bytes.slice(range))
            }
            _ => Err(damaged()),
        }
    }
}

fn damaged() -> Error {
    Error::new(ErrorKind::Repository, "the stored documents of a split are damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u32) -> Vec<u8> {
        let mut seed = u64::from(number) + 1;
        let len = number as usize * 37 % 900;
        let step = |seed: &mut u64| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (*seed >> 56) as u8
        };
        (0..len).map(|_| step(&mut seed)).collect()
    }

    #[test]
    fn every_record_is_found_through_a_piece_of_the_index() {
        for count in [1, 2, 1000, 60_000] {
            let mut out = Vec::new();
            let mut writer = BlockWriter::new(&mut out).unwrap();
            (0..count).for_each(|number| writer.push(&record(number)).unwrap());
            let index = writer.finish().unwrap();
            let samples = Samples::decode(&index.samples).unwrap();
            let mut seen = 0;
            while seen < count {
                let piece = samples.piece(seen);
                let piece = &index.entries[piece.start as usize..piece.end as usize];
                assert!(piece.len() <= (SAMPLE_ENTRIES + 1) * ENTRY_BYTES);
                let place = samples.block(seen, piece).unwrap();
                assert_eq!(place.records.start, seen);
                // The last record of a block leads to the same block.
                let last = samples.piece(place.records.end - 1);
                let last = &index.entries[last.start as usize..last.end as usize];
                assert_eq!(samples.block(place.records.end - 1, last).unwrap(), place);
                let block = Block::unpack(&out[place.bytes.start as usize..place.bytes.end as usize]).unwrap();
                assert_eq!(block.count(), place.records.end - place.records.start);
                for number in place.records.clone() {
                    assert_eq!(block.record(number - seen).unwrap(), record(number), "{number}");
                }
                assert!(block.record(block.count()).is_err());
                seen = place.records.end;
            }
            assert_eq!(seen, count);
            let piece = samples.piece(count);
            let piece = &index.entries[piece.start as usize..piece.end as usize];
            assert!(samples.block(count, piece).is_err());
        }
    }

    #[test]
    fn no_records_are_no_blocks() {
        let mut out = Vec::new();
        let index = BlockWriter::new(&mut out).unwrap().finish().unwrap();
        let samples = Samples::decode(&index.samples).unwrap();
        assert!(samples.block(0, &index.entries).is_err());
        assert!(out.is_empty());
    }

    #[test]
    fn damage_is_an_error() {
        let mut out = Vec::new();
        let mut writer = BlockWriter::new(&mut out).unwrap();
        (0..50).for_each(|number| writer.push(&record(number)).unwrap());
        writer.finish().unwrap();
        for len in 0..out.len() {
            assert!(Block::unpack(&out[..len]).is_err(), "{len}");
        }
        assert!(Samples::decode(&[]).is_err());
        assert!(Samples::decode(&[1, 0, 0, 0]).is_err());
        assert!(Samples::decode(&[0, 0, 0, 0]).is_err());
    }
}
