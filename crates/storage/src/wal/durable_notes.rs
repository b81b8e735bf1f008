//! Durable-length notes beside a WAL file.
//!
//! A sync mark within the file proves that damage before it is not a torn tail. If the end of the file is damaged, or
//! the file is truncated or missing, its marks are lost too; the note then distinguishes this from a torn tail. A note
//! is written after a sync and before any waiter is notified, and is never synced: whenever it is found it is true, and
//! if it is missing the marks decide alone. So a failure here never fails the log.

use std::io;
use std::path::{Path, PathBuf};

use super::format::{file_path, generation_of};
use crate::disk::Disk;

/// Bytes of a note: durable length (u64) and checksum (u32).
const NOTE_BYTES: usize = 12;
/// A longer file is replaced by a new one: only the last sound note counts.
const FILE_BYTES_MAX: u64 = 64 << 10;
const SUFFIX: &str = "durable";

/// Returns the path of the notes beside the WAL file of a generation.
pub(super) fn path(dir: &Path, generation: u64) -> PathBuf {
    file_path(dir, generation).with_extension(SUFFIX)
}

/// Returns the generation in a file name, or `None` if it is not a notes file.
pub(super) fn generation_of_notes(name: &str) -> Option<u64> {
    let stem = name.strip_suffix(SUFFIX)?;
    generation_of(&format!("{stem}log"))
}

/// Appends a note that the first `durable` bytes of a generation's file are durable.
pub(super) fn write(disk: &dyn Disk, dir: &Path, identity: u64, generation: u64, durable: u64) -> io::Result<()> {
    let path = path(dir, generation);
    let file = match disk.open_append(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create_append(&path)?,
        Err(error) => return Err(error),
    };
    // A torn note would misalign all notes after it.
    let is_whole = file.len().is_multiple_of(NOTE_BYTES as u64);
    let file = match is_whole && file.len() < FILE_BYTES_MAX {
        true => file,
        false => {
            drop(file);
            disk.remove_file(&path)?;
            disk.create_append(&path)?
        }
    };
    let mut note = durable.to_le_bytes().to_vec();
    note.extend_from_slice(&checksum(identity, generation, &note).to_le_bytes());
    file.append(&note)
}

/// Returns the durable length of a generation's file according to its notes; `None` without a sound note.
pub(super) fn read(disk: &dyn Disk, dir: &Path, identity: u64, generation: u64) -> Option<u64> {
    let bytes = disk.read_range(&path(dir, generation), 0..2 * FILE_BYTES_MAX).ok()?;
    let notes = bytes.chunks_exact(NOTE_BYTES).filter_map(|note| {
        let (durable, sum) = note.split_at(8);
        let is_sound = checksum(identity, generation, durable).to_le_bytes() == *sum;
        is_sound.then(|| u64::from_le_bytes(durable.try_into().unwrap_or_default()))
    });
    notes.max()
}

fn checksum(identity: u64, generation: u64, durable: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&identity.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &generation.to_le_bytes());
    crc32c::crc32c_append(sum, durable)
}
