//! Journal of the slots' content, for restarts. `docs/formats/regions.md` describes the bytes.
//!
//! The journal is only a hint: page checksums are verified on every read. So it is neither synced nor ordered with
//! respect to the pages; an entry lost in a crash costs a fetch.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_model::tenant::TenantId;

use super::object::ObjectId;
use super::{PAGE_BYTES, REGION_PAGES};
use crate::disk::{AppendFile, Disk};

const MAGIC: &[u8; 8] = b"FIRN-REG";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 24;

/// Approximate length of a frame of entries, which has one checksum.
pub(super) const FRAME_BYTES: usize = 32 << 10;

/// Maximum length of a frame; a longer one is damage. Entries are below 128 bytes.
const FRAME_BYTES_MAX: usize = FRAME_BYTES + 128;

/// Minimum length for a rewrite, however few of the entries are current.
const REWRITE_BYTES_MIN: u64 = 1 << 20;

const TAG_OBJECT: u8 = 1;
const TAG_SLOT: u8 = 2;
const TAG_FREE: u8 = 3;

/// Journal entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// From here on this number stands for this object.
    Object {
        number: u32,
        id: ObjectId,
        owner: Option<TenantId>,
    },
    /// From here on the slot holds exactly these pages of this region.
    Slot {
        slot: u32,
        object: u32,
        region: u32,
        present: u16,
        kinds: u64,
        level: u8,
    },
    /// From here on the slot is empty.
    Free { slot: u32 },
}

impl Entry {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Object { number, id, owner } => {
                let owner = owner.as_ref().map_or("", TenantId::as_str);
                out.push(TAG_OBJECT);
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&id.0);
                out.push(owner.len() as u8);
                out.extend_from_slice(owner.as_bytes());
            }
            Self::Slot {
                slot,
                object,
                region,
                present,
                kinds,
                level,
            } => {
                out.push(TAG_SLOT);
                out.extend_from_slice(&slot.to_le_bytes());
                out.extend_from_slice(&object.to_le_bytes());
                out.extend_from_slice(&region.to_le_bytes());
                out.extend_from_slice(&present.to_le_bytes());
                out.extend_from_slice(&kinds.to_le_bytes());
                out.push(*level);
            }
            Self::Free { slot } => {
                out.push(TAG_FREE);
                out.extend_from_slice(&slot.to_le_bytes());
            }
        }
    }

    /// Reads one entry from the front; `None` if there is no complete one.
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
            let (taken, rest) = bytes.split_first_chunk::<N>()?;
            *bytes = rest;
            Some(*taken)
        }
        let u32 = |bytes: &mut &[u8]| Some(u32::from_le_bytes(take(bytes)?));
        match take::<1>(bytes)? {
            [TAG_OBJECT] => {
                let number = u32(bytes)?;
                let id = ObjectId(take(bytes)?);
                let [len] = take(bytes)?;
                let (owner, rest) = bytes.split_at_checked(len.into())?;
                *bytes = rest;
                let owner = match owner {
                    [] => None,
                    owner => Some(TenantId::parse(std::str::from_utf8(owner).ok()?).ok()?),
                };
                Some(Self::Object { number, id, owner })
            }
            [TAG_SLOT] => Some(Self::Slot {
                slot: u32(bytes)?,
                object: u32(bytes)?,
                region: u32(bytes)?,
                present: u16::from_le_bytes(take(bytes)?),
                kinds: u64::from_le_bytes(take(bytes)?),
                level: take::<1>(bytes)?[0],
            }),
            [TAG_FREE] => Some(Self::Free { slot: u32(bytes)? }),
            _ => None,
        }
    }
}

/// Entries that are not written to the file yet, in frames.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Complete frames.
    frames: Vec<u8>,
    /// Entries of the next frame.
    entries: Vec<u8>,
}

impl Log {
    pub(super) fn push(&mut self, entry: &Entry) {
        entry.write(&mut self.entries);
        if self.entries.len() >= FRAME_BYTES {
            self.end_frame();
        }
    }

    /// Returns the number of pending bytes.
    pub(super) fn len(&self) -> usize {
        self.frames.len() + self.entries.len()
    }

    /// Takes all pending entries, as frames.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.end_frame();
        std::mem::take(&mut self.frames)
    }

    fn end_frame(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        self.frames
            .extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        self.frames
            .extend_from_slice(&crc32c::crc32c(&self.entries).to_le_bytes());
        self.frames.append(&mut self.entries);
    }
}

/// File of the journal.
#[derive(Debug)]
pub(super) struct Journal {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// `None`: the file cannot be appended to.
    file: Option<Box<dyn AppendFile>>,
    /// Length after the last rewrite.
    len_fresh: u64,
}

impl Journal {
    pub(super) fn new(disk: Arc<dyn Disk>, path: &Path) -> Self {
        Self {
            disk,
            path: path.to_path_buf(),
            file: None,
            len_fresh: 0,
        }
    }

    /// Reads the entries up to the end or to damage; none if the file is missing or has another version.
    pub(super) fn read(&self) -> Vec<Entry> {
        let bytes = match self.disk.read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(%error, "the region cache starts empty: cannot read its journal");
                }
                return Vec::new();
            }
        };
        let mut entries = Vec::new();
        let Some(mut rest) = bytes.strip_prefix(&header()[..]) else {
            return entries;
        };
        while let Some((frame, after)) = next_frame(rest) {
            let mut frame = frame;
            while let Some(entry) = Entry::read(&mut frame) {
                entries.push(entry);
            }
            rest = after;
        }
        entries
    }

    /// Returns whether a [`Journal::rewrite`] is due, because most entries are outdated or the file is damaged.
    pub(super) fn is_stale(&self) -> bool {
        let len = self.file.as_ref().map_or(u64::MAX, |file| file.len());
        len > REWRITE_BYTES_MIN.max(3 * self.len_fresh)
    }

    /// Appends frames. After an error the next write rewrites the file.
    pub(super) fn append(&mut self, frames: &[u8]) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let appended = file.append(frames);
        if appended.is_err() {
            self.file = None;
        }
        appended
    }

    /// Replaces the file by one with these frames.
    pub(super) fn rewrite(&mut self, frames: &[u8]) -> io::Result<()> {
        self.file = None;
        let mut bytes = header().to_vec();
        bytes.extend_from_slice(frames);
        self.disk.write_atomic(&self.path, &bytes)?;
        self.file = Some(self.disk.open_append(&self.path)?);
        self.len_fresh = bytes.len() as u64;
        Ok(())
    }
}

fn header() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&(PAGE_BYTES as u32).to_le_bytes());
    header[16..20].copy_from_slice(&(REGION_PAGES as u32).to_le_bytes());
    let sum = crc32c::crc32c(&header[..20]);
    header[20..].copy_from_slice(&sum.to_le_bytes());
    header
}

/// Returns the entries of the first frame, and the bytes after it.
fn next_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let len = u32::from_le_bytes(*len) as usize;
    if len == 0 || len > FRAME_BYTES_MAX {
        return None;
    }
    let (entries, rest) = rest.split_at_checked(len)?;
    (crc32c::crc32c(entries) == u32::from_le_bytes(*sum)).then_some((entries, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimDisk;

    fn entries() -> Vec<Entry> {
        let mut entries = vec![
            Entry::Object {
                number: 0,
                id: ObjectId([7; 32]),
                owner: None,
            },
            Entry::Object {
                number: 9,
                id: ObjectId([8; 32]),
                owner: Some(TenantId::parse("acme").unwrap()),
            },
            Entry::Slot {
                slot: 3,
                object: 9,
                region: 70_000,
                present: 0x8001,
                kinds: 0x7654_3210_7654_3210,
                level: 15,
            },
            Entry::Free { slot: u32::MAX },
        ];
        entries.extend((0..3000).map(|slot| Entry::Slot {
            slot,
            object: 0,
            region: slot,
            present: 1,
            kinds: 0,
            level: 0,
        }));
        entries
    }

    #[test]
    fn what_was_written_is_read() {
        let disk = Arc::new(SimDisk::new());
        let mut journal = Journal::new(disk.clone(), Path::new("/journal"));
        assert!(journal.read().is_empty());
        assert!(journal.is_stale(), "a journal without a file must be written");
        let (first, second) = (entries(), entries());
        let mut log = Log::default();
        first.iter().for_each(|entry| log.push(entry));
        assert!(log.len() > 2 * FRAME_BYTES);
        journal.rewrite(&log.take()).unwrap();
        assert_eq!(log.len(), 0);
        assert!(!journal.is_stale());
        second.iter().for_each(|entry| log.push(entry));
        journal.append(&log.take()).unwrap();
        assert_eq!(journal.read(), [first, second].concat());
    }

    #[test]
    fn damage_ends_what_is_believed() {
        let disk = Arc::new(SimDisk::new());
        let path = Path::new("/journal");
        let mut journal = Journal::new(disk.clone(), path);
        let mut log = Log::default();
        entries().iter().for_each(|entry| log.push(entry));
        journal.rewrite(&log.take()).unwrap();
        let whole = disk.read(path).unwrap();
        let all = entries();
        for place in (0..whole.len()).step_by(97).chain(0..64) {
            for cut in [true, false] {
                disk.damage(path, |bytes| {
                    *bytes = whole.to_vec();
                    if cut { bytes.truncate(place) } else { bytes[place] ^= 1 }
                })
                .unwrap();
                let read = journal.read();
                assert!(read.len() < all.len(), "byte {place}, cut: {cut}");
                assert_eq!(read, all[..read.len()], "byte {place}, cut: {cut}");
            }
        }
    }
}
