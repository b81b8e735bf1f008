//! Compressed blocks of records. [`block_index`](super::block_index) locates each block.

use std::io::Write;

use bytes::{Buf, BufMut, Bytes};
use firn_model::Result;

use super::block_index::{BlockIndex, IndexWriter, damaged};

/// Size at which a block is closed, in bytes: larger blocks compress better, smaller ones cost less per read record.
const BLOCK_BYTES: usize = 64 << 10;
/// Maximum uncompressed size of a block: the largest record and its neighbours.
const BLOCK_BYTES_MAX: usize = 1 << 30;
/// Compression is paid once, storage is paid for years.
const COMPRESSION_LEVEL: i32 = 9;

/// Writer of records, which are numbered from 0.
pub struct BlockWriter<'a> {
    out: &'a mut dyn Write,
    compressor: zstd::bulk::Compressor<'static>,
    records: Vec<u8>,
    ends: Vec<u32>,
    index: IndexWriter,
}

impl<'a> BlockWriter<'a> {
    /// Creates a writer that writes blocks to `out`.
    pub fn new(out: &'a mut dyn Write) -> Result<Self> {
        Ok(Self {
            out,
            compressor: zstd::bulk::Compressor::new(COMPRESSION_LEVEL)?,
            records: Vec::new(),
            ends: Vec::new(),
            index: IndexWriter::default(),
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

    /// Ends the last block and returns the index.
    pub fn finish(mut self) -> Result<BlockIndex> {
        self.end_block()?;
        self.index.finish()
    }

    fn end_block(&mut self) -> Result<()> {
        if self.ends.is_empty() {
            return Ok(());
        }
        let mut block = Vec::with_capacity(4 + 4 * self.ends.len() + self.records.len());
        block.put_u32_le(self.ends.len() as u32);
        self.ends.iter().for_each(|end| block.put_u32_le(*end));
        block.extend_from_slice(&self.records);
        let packed = self.compressor.compress(&block)?;
        let mut bytes = (block.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&packed);
        self.out.write_all(&bytes)?;
        self.index.push(self.ends.len(), bytes.len());
        self.records.clear();
        self.ends.clear();
        Ok(())
    }
}

/// Uncompressed block.
#[derive(Debug, Clone)]
pub struct Block {
    bytes: Bytes,
    count: u32,
}

impl Block {
    /// Decompresses the bytes of a [`BlockPlace`](super::block_index::BlockPlace).
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

    /// Returns the size in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of records.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns a record by its number in the block.
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

#[cfg(test)]
mod tests {
    use super::super::block_index::Places;
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
    fn every_record_is_found_through_the_index() {
        for count in [1, 2, 1000, 60_000] {
            let mut out = Vec::new();
            let mut writer = BlockWriter::new(&mut out).unwrap();
            (0..count).for_each(|number| writer.push(&record(number)).unwrap());
            let index = writer.finish().unwrap();
            let places = Places::decode(&index.places, index.groups.len() as u64).unwrap();
            let mut seen = 0;
            while seen < count {
                let piece = places.piece(seen);
                let piece = &index.groups[piece.start as usize..piece.end as usize];
                let place = places.group(seen, piece).unwrap().block(seen).unwrap();
                assert_eq!(place.records.start, seen);
                let block = Block::unpack(&out[place.bytes.start as usize..place.bytes.end as usize]).unwrap();
                assert_eq!(block.count(), place.records.end - place.records.start);
                for number in place.records.clone() {
                    assert_eq!(block.record(number - seen).unwrap(), record(number), "{number}");
                }
                assert!(block.record(block.count()).is_err());
                seen = place.records.end;
            }
            assert_eq!(seen, count);
        }
    }

    #[test]
    fn no_records_are_no_blocks() {
        let mut out = Vec::new();
        let index = BlockWriter::new(&mut out).unwrap().finish().unwrap();
        assert!(index.groups.is_empty());
        let places = Places::decode(&index.places, 0).unwrap();
        assert!(places.group(0, &[]).is_err());
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
    }
}
