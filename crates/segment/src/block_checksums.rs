//! Checksums of the files of a segment, one for each block of 64 KB. Format: `docs/formats/shard.md`.
//!
//! The commit point has one checksum for each whole file, which helps only a reader of the whole file. With block
//! checksums a reader verifies the blocks that it reads: each block once after the segment was opened
//! ([`BlockVerifier`]).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::varint::{self, Reader};

/// The file of checksums in a segment's folder.
pub const CHECKSUMS_FILE: &str = "checksums.bin";
/// Bytes of a block; the last block of a file may be shorter.
pub(crate) const BLOCK_BYTES: usize = 64 << 10;
/// First byte of the file.
const VERSION: u8 = 1;
/// Blocks per word of a bitmap.
const WORD_BLOCKS: usize = 64;

/// Length and checksum of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSum {
    /// Bytes.
    pub len: u64,
    /// CRC32C of the whole file.
    pub crc: u32,
}

impl FileSum {
    /// Computes length and checksum of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            len: bytes.len() as u64,
            crc: crc32c::crc32c(bytes),
        }
    }
}

/// Checksums of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChecksums {
    /// Length and checksum of the whole file.
    pub whole: FileSum,
    /// CRC32C of each block.
    pub(crate) blocks: Arc<[u32]>,
}

/// Checksums of files by their names.
pub type Checksums = BTreeMap<String, FileChecksums>;

/// Computes the checksums of a file from a stream of its bytes.
#[derive(Debug, Default)]
pub(crate) struct ChecksumWriter {
    len: u64,
    crc: u32,
    blocks: Vec<u32>,
    /// CRC32C of the incomplete block.
    block_crc: u32,
    block_len: usize,
}

impl ChecksumWriter {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (own, later) = rest.split_at(rest.len().min(BLOCK_BYTES - self.block_len));
            self.block_crc = crc32c::crc32c_append(self.block_crc, own);
            self.block_len += own.len();
            if self.block_len == BLOCK_BYTES {
                self.end_block();
            }
            rest = later;
        }
    }

    fn end_block(&mut self) {
        self.blocks.push(self.block_crc);
        self.block_crc = 0;
        self.block_len = 0;
    }

    pub(crate) fn finish(mut self) -> FileChecksums {
        if self.block_len > 0 {
            self.end_block();
        }
        FileChecksums {
            whole: FileSum {
                len: self.len,
                crc: self.crc,
            },
            blocks: self.blocks.into(),
        }
    }
}

impl FileChecksums {
    /// Computes the checksums of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        let mut writer = ChecksumWriter::default();
        writer.update(bytes);
        writer.finish()
    }

    /// Returns the offset of the first damaged block in a part of the file that begins with block `first`.
    pub(crate) fn find_damage(&self, first: usize, bytes: &[u8]) -> Option<u64> {
        let blocks = bytes.chunks(BLOCK_BYTES).enumerate();
        let mut damaged =
            blocks.filter(|(number, block)| self.blocks.get(first + number) != Some(&crc32c::crc32c(block)));
        damaged
            .next()
            .map(|(number, _)| ((first + number) * BLOCK_BYTES) as u64)
    }
}

/// Encodes the file of checksums.
pub fn encode(checksums: &Checksums) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    varint::put(&mut bytes, checksums.len() as u64);
    for (name, file) in checksums {
        varint::put_text(&mut bytes, name);
        varint::put(&mut bytes, file.whole.len);
        bytes.extend_from_slice(&file.whole.crc.to_le_bytes());
        for block in file.blocks.iter() {
            bytes.extend_from_slice(&block.to_le_bytes());
        }
    }
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// Decodes the file of checksums; `None`: the bytes are invalid or damaged.
pub fn decode(bytes: &[u8]) -> Option<Checksums> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
        return None;
    }
    let mut reader = Reader { rest: body };
    if reader.byte()? != VERSION {
        return None;
    }
    let count = reader.number()?;
    let mut checksums = Checksums::new();
    for _ in 0..count {
        let name = reader.text()?.to_owned();
        let len = reader.number()?;
        let (crc, rest) = reader.rest.split_first_chunk::<4>()?;
        let block_count = usize::try_from(len.div_ceil(BLOCK_BYTES as u64)).ok()?;
        let (blocks, rest) = rest.split_at_checked(block_count.checked_mul(4)?)?;
        reader.rest = rest;
        let (blocks, _) = blocks.as_chunks::<4>();
        let file = FileChecksums {
            whole: FileSum {
                len,
                crc: u32::from_le_bytes(*crc),
            },
            blocks: blocks.iter().map(|block| u32::from_le_bytes(*block)).collect(),
        };
        checksums.insert(name, file);
    }
    reader.rest.is_empty().then_some(checksums)
}

/// Verifies the blocks of one open file at their first read, and records the verified ones.
#[derive(Debug)]
pub(crate) struct BlockVerifier {
    /// Unset: the file is older than block checksums, and nothing is verified.
    blocks: OnceLock<Arc<[u32]>>,
    /// A bit for each verified block.
    verified: Box<[AtomicU64]>,
    /// Number of unverified blocks.
    unverified: AtomicUsize,
    /// All blocks are verified.
    is_whole: AtomicBool,
}

impl BlockVerifier {
    /// Creates a verifier for a file of `len` bytes with no verified block.
    pub(crate) fn new(len: u64, blocks: Option<Arc<[u32]>>) -> Self {
        let count = usize::try_from(len.div_ceil(BLOCK_BYTES as u64)).unwrap_or(usize::MAX);
        let verifier = Self {
            blocks: OnceLock::new(),
            verified: (0..count.div_ceil(WORD_BLOCKS)).map(|_| AtomicU64::new(0)).collect(),
            unverified: AtomicUsize::new(count),
            is_whole: AtomicBool::new(count == 0),
        };
        if let Some(blocks) = blocks {
            verifier.learn(blocks);
        }
        verifier
    }

    /// Sets the checksums of a file that had none.
    pub(crate) fn learn(&self, blocks: Arc<[u32]>) {
        let _ = self.blocks.set(blocks);
    }

    /// Records that every byte was verified just now.
    pub(crate) fn set_whole(&self) {
        self.is_whole.store(true, Ordering::Release);
    }

    /// Verifies the unverified blocks of a range; `Err`: offset of the first damaged block. `bytes` is the whole file.
    #[inline]
    pub(crate) fn verify(&self, bytes: &[u8], range: &Range<usize>) -> Result<(), u64> {
        match self.is_whole.load(Ordering::Acquire) || range.is_empty() {
            true => Ok(()),
            false => self.verify_blocks(bytes, range),
        }
    }

    fn verify_blocks(&self, bytes: &[u8], range: &Range<usize>) -> Result<(), u64> {
        let Some(blocks) = self.blocks.get() else {
            return Ok(());
        };
        let (first, last) = (range.start / BLOCK_BYTES, (range.end - 1) / BLOCK_BYTES);
        for number in first..=last {
            let (word, bit) = (number / WORD_BLOCKS, 1u64 << (number % WORD_BLOCKS));
            let verified = self.verified.get(word);
            if verified.is_some_and(|verified| verified.load(Ordering::Relaxed) & bit != 0) {
                continue;
            }
            let start = number * BLOCK_BYTES;
            let block = bytes.get(start..bytes.len().min(start + BLOCK_BYTES));
            let is_intact = block.is_some_and(|block| blocks.get(number) == Some(&crc32c::crc32c(block)));
            let Some(verified) = verified.filter(|_| is_intact) else {
                return Err(start as u64);
            };
            let before = verified.fetch_or(bit, Ordering::AcqRel);
            if before & bit == 0 && self.unverified.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.is_whole.store(true, Ordering::Release);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(len: usize) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(len as u64);
        (0..len).map(|_| random.u8(..)).collect()
    }

    fn example() -> Checksums {
        [("a.store", 0), ("b.fast", 3 * BLOCK_BYTES + 1), ("c", 2 * BLOCK_BYTES)]
            .map(|(name, len)| (name.to_owned(), FileChecksums::of(&bytes_of(len))))
            .into()
    }

    #[test]
    fn checksums_do_not_depend_on_how_the_bytes_came() {
        let bytes = bytes_of(2 * BLOCK_BYTES + 17);
        let whole = FileChecksums::of(&bytes);
        assert_eq!(whole.blocks.len(), 3);
        assert_eq!(whole.whole, FileSum::of(&bytes));
        assert_eq!(whole.blocks[1], crc32c::crc32c(&bytes[BLOCK_BYTES..2 * BLOCK_BYTES]));
        for step in [1000, BLOCK_BYTES, BLOCK_BYTES + 1] {
            let mut writer = ChecksumWriter::default();
            bytes.chunks(step).for_each(|chunk| writer.update(chunk));
            assert_eq!(writer.finish(), whole, "{step}");
        }
    }

    #[test]
    fn reads_what_it_writes_and_nothing_else() {
        let bytes = encode(&example());
        assert_eq!(decode(&bytes), Some(example()));
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), None, "{len}");
        }
        for position in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[position] ^= 1 << (position % 8);
            assert_eq!(decode(&flipped), None, "{position}");
        }
    }

    #[test]
    fn a_block_is_verified_once() {
        let mut bytes = bytes_of(70 * BLOCK_BYTES + 5);
        let blocks = FileChecksums::of(&bytes).blocks;
        let verifier = BlockVerifier::new(bytes.len() as u64, Some(blocks.clone()));
        assert_eq!(verifier.verify(&bytes, &(10..20)), Ok(()));
        // The change is not detected: a verified block is not verified again.
        bytes[15] ^= 1;
        assert_eq!(verifier.verify(&bytes, &(0..BLOCK_BYTES)), Ok(()));
        assert_eq!(verifier.verify(&bytes, &(0..bytes.len())), Ok(()));
        assert!(verifier.is_whole.load(Ordering::Relaxed));

        let verifier = BlockVerifier::new(bytes.len() as u64, Some(blocks));
        assert_eq!(verifier.verify(&bytes, &(BLOCK_BYTES..bytes.len())), Ok(()));
        assert_eq!(verifier.verify(&bytes, &(20..21)), Err(0));
        let last = bytes.len() - 1;
        bytes[last] ^= 0x80;
        assert_eq!(verifier.verify(&bytes, &(0..0)), Ok(()));
        assert!(!verifier.is_whole.load(Ordering::Relaxed));
    }

    #[test]
    fn a_file_without_checksums_is_verified_once_it_has_some() {
        let mut bytes = bytes_of(100);
        let verifier = BlockVerifier::new(100, None);
        let blocks = FileChecksums::of(&bytes).blocks;
        bytes[0] ^= 1;
        assert_eq!(verifier.verify(&bytes, &(0..1)), Ok(()));
        verifier.learn(blocks);
        assert_eq!(verifier.verify(&bytes, &(0..1)), Err(0));
    }

    #[test]
    fn damage_is_found_where_it_is() {
        let mut bytes = bytes_of(3 * BLOCK_BYTES);
        let checksums = FileChecksums::of(&bytes);
        bytes[2 * BLOCK_BYTES + 7] ^= 4;
        assert_eq!(checksums.find_damage(0, &bytes), Some(2 * BLOCK_BYTES as u64));
        assert_eq!(checksums.find_damage(1, &bytes[BLOCK_BYTES..2 * BLOCK_BYTES]), None);
        assert_eq!(checksums.find_damage(3, &[0]), Some(3 * BLOCK_BYTES as u64));
    }
}
