//! Byte format of a WAL file, described in `docs/formats/wal.md`. Change both together.

use std::path::{Path, PathBuf};

/// First bytes of every file.
const MAGIC: [u8; 8] = *b"FIRN-WAL";
/// The only format version.
const VERSION: u32 = 1;
/// Length of the file header in bytes; offset of the first frame.
pub(super) const HEADER_BYTES: u64 = 44;
/// Bytes before a frame's payload: length and checksum.
pub(super) const FRAME_HEADER_BYTES: u64 = 8;
/// Flag in a frame's length: the payload is a sync mark, not a record.
pub(super) const MARK_BIT: u32 = 1 << 31;
/// First bytes of a sync mark's payload. A reader searches for them behind a bad frame.
pub(super) const MARK_MAGIC: [u8; 8] = *b"FIRNSYNC";
const MARK_PAYLOAD_BYTES: usize = 24;
/// Length of a sync mark's whole frame in bytes.
pub(super) const MARK_FRAME_BYTES: u64 = FRAME_HEADER_BYTES + MARK_PAYLOAD_BYTES as u64;

/// Header of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Start value of every checksum of this file, so that frames of another file, or an event that quotes frames, are
    /// never taken for frames of this file.
    pub(super) salt: u32,
    pub(super) generation: u64,
    pub(super) identity: u64,
    /// Valid bytes of the file before this one; 0 in generation 1.
    pub(super) previous_len: u64,
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.salt.to_le_bytes());
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.identity.to_le_bytes());
        bytes.extend_from_slice(&self.previous_len.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        debug_assert_eq!(bytes.len() as u64, HEADER_BYTES);
        bytes
    }

    /// Decodes a header. Returns the offset of the defect and its reason if the header is invalid.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, (u64, String)> {
        if bytes.len() < HEADER_BYTES as usize {
            return Err((bytes.len() as u64, "the file ends within its header".to_owned()));
        }
        if bytes[..8] != MAGIC {
            return Err((0, "the file is not a write-ahead log of firn".to_owned()));
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err((
                8,
                format!("format version {version} is unknown, this firn reads version {VERSION}"),
            ));
        }
        if crc32c::crc32c(&bytes[..40]) != u32_at(bytes, 40) {
            return Err((0, "the header's checksum differs".to_owned()));
        }
        Ok(Self {
            salt: u32_at(bytes, 12),
            generation: u64_at(bytes, 16),
            identity: u64_at(bytes, 24),
            previous_len: u64_at(bytes, 32),
        })
    }
}

/// Returns a frame's header. For a sync mark, `length` includes [`MARK_BIT`].
pub(super) fn frame_header(salt: u32, length: u32, parts: &[&[u8]]) -> [u8; FRAME_HEADER_BYTES as usize] {
    let mut bytes = [0; FRAME_HEADER_BYTES as usize];
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    let checksum = parts
        .iter()
        .fold(crc32c::crc32c_append(salt, &bytes[..4]), |sum, part| {
            crc32c::crc32c_append(sum, part)
        });
    bytes[4..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Returns whether the checksum of a whole frame matches.
pub(super) fn is_frame_sound(salt: u32, frame: &[u8]) -> bool {
    let sum = crc32c::crc32c_append(salt, &frame[..4]);
    crc32c::crc32c_append(sum, &frame[FRAME_HEADER_BYTES as usize..]) == u32_at(frame, 4)
}

/// Returns the sync mark for `offset`, which states that the file's first `durable` bytes are durable.
pub(super) fn mark_frame(salt: u32, offset: u64, durable: u64) -> Vec<u8> {
    let mut payload = Vec::with_capacity(MARK_PAYLOAD_BYTES);
    payload.extend_from_slice(&MARK_MAGIC);
    payload.extend_from_slice(&offset.to_le_bytes());
    payload.extend_from_slice(&durable.to_le_bytes());
    let mut frame = frame_header(salt, MARK_BIT | MARK_PAYLOAD_BYTES as u32, &[&payload]).to_vec();
    frame.extend_from_slice(&payload);
    frame
}

/// Reads the sync mark at `offset`, whose frame is the start of `frame`, and returns the durable length that it states.
/// Returns `None` if there is no sound mark.
pub(super) fn read_mark(salt: u32, offset: u64, frame: &[u8]) -> Option<u64> {
    let frame = frame.get(..MARK_FRAME_BYTES as usize)?;
    let is_mark = u32_at(frame, 0) == MARK_BIT | MARK_PAYLOAD_BYTES as u32
        && frame[8..16] == MARK_MAGIC
        && u64_at(frame, 16) == offset
        && is_frame_sound(salt, frame);
    let durable = u64_at(frame, 24);
    (is_mark && durable <= offset).then_some(durable)
}

pub(super) fn u32_at(bytes: &[u8], position: usize) -> u32 {
    u32::from_le_bytes([
        bytes[position],
        bytes[position + 1],
        bytes[position + 2],
        bytes[position + 3],
    ])
}

fn u64_at(bytes: &[u8], position: usize) -> u64 {
    u64::from(u32_at(bytes, position)) | u64::from(u32_at(bytes, position + 4)) << 32
}

pub(super) fn file_path(dir: &Path, generation: u64) -> PathBuf {
    dir.join(format!("wal-{generation:016x}.log"))
}

/// Returns the generation in a file name, or `None` if it is not a WAL file.
pub(super) fn generation_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("wal-")?.strip_suffix(".log")?;
    let is_ours = digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_ours.then(|| u64::from_str_radix(digits, 16).ok())?
}
