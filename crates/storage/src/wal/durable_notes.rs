//! Notes beside a WAL file of how much of it is durable.
//!
//! A sync mark within the file proves that damage before it is no torn tail. Where the end of the file is damaged, or the
//! file is cut or gone, its marks go with it: the note is then what tells that from a torn tail. A note is written after a
//! sync and before anyone hears of it, and never synced: whenever it is found it is true, and where it is missing the marks
//! decide alone. So nothing that fails here fails the log.

use std::io;
use std::path::{Path, PathBuf};

use super::format::{file_path, generation_of};
use crate::disk::Disk;

/// Bytes of a note: how much is durable (u64) and the checksum (u32).
const NOTE_BYTES: usize = 12;
/// A longer file is begun anew: only the last sound note counts.
const FILE_BYTES_MAX: u64 = 64 << 10;
const SUFFIX: &str = "durable";

/// The file beside the WAL file of a generation.
pub(super) fn path(dir: &Path, generation: u64) -> PathBuf {
    file_path(dir, generation).with_extension(SUFFIX)
}

/// The generation that a file's name says; `None`: no file of notes.
pub(super) fn generation_of_notes(name: &str) -> Option<u64> {
    let stem = name.strip_suffix(SUFFIX)?;
    generation_of(&format!("{stem}log"))
}

/// Notes that the first `durable` bytes of a generation's file are durable.
pub(super) fn write(disk: &dyn Disk, dir: &Path, identity: u64, generation: u64, durable: u64) -> io::Result<()> {
    let path = path(dir, generation);
    let file = match disk.open_append(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create_append(&path)?,
        Err(error) => return Err(error),
    };
    // A torn note would put all after it out of step.
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

/// How many bytes of a generation's file are durable, as far as its notes say; `None`: they say nothing.
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
