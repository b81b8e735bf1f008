//! Reader of a WAL; it distinguishes a torn tail from damage.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};

use super::durable_notes;
use super::format::{
    FRAME_HEADER_BYTES, HEADER_BYTES, Header, MARK_BIT, MARK_FRAME_BYTES, MARK_MAGIC, file_path, generation_of,
    is_frame_sound, read_mark, u32_at,
};
use super::{RECORD_BYTES_MAX, Record};
use crate::disk::Disk;

/// Bytes per read. Files are read, not mapped: an unreadable sector is then an error of one shard and not a signal that
/// ends the process.
const WINDOW_BYTES: u64 = 1 << 20;

/// File that belongs to the log.
#[derive(Debug)]
pub(super) struct WalFile {
    pub(super) path: PathBuf,
    pub(super) header: Header,
    pub(super) len: u64,
}

/// Classified files of a WAL directory.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// By generation, without a gap.
    pub(super) files: Vec<WalFile>,
    /// Generations before the first generation to replay.
    pub(super) trimmed: Vec<u64>,
    /// Left over from a crash during the creation of a file.
    pub(super) temporary: Vec<PathBuf>,
}

/// Result of a scan of one file.
#[derive(Debug)]
pub(super) struct Scanned {
    /// End of the sound frames.
    pub(super) end: u64,
    pub(super) operations: u64,
    /// Offset of the last frame, if it is a sync mark that covers everything before it. The mark itself need not be
    /// durable.
    pub(super) proven: Option<u64>,
    /// Bytes that were durable when the marks were written.
    pub(super) known_durable: u64,
    /// Why the frame at `end` is invalid; `None`: the file ends there.
    pub(super) torn: Option<&'static str>,
}

/// Returns the error that prevents a shard from opening.
pub(super) fn damaged(path: &Path, offset: u64, why: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::ShardDamaged,
        format!(
            "write-ahead log [{}] is damaged at byte {offset}: {why}",
            path.display()
        ),
    )
}

/// Lists the files from generation `keep_from` on and checks that none is missing.
pub(super) fn list(disk: &dyn Disk, dir: &Path, identity: u64, keep_from: u64) -> Result<Listing> {
    let mut listing = Listing::default();
    let mut noted = Vec::new();
    for entry in disk.list(dir)? {
        let path = dir.join(&entry.name);
        match generation_of(&entry.name) {
            _ if entry.is_dir => {}
            Some(generation) if generation < keep_from => listing.trimmed.push(generation),
            Some(generation) => {
                let header = read_header(disk, &path, generation, identity)?;
                listing.files.push(WalFile {
                    path,
                    header,
                    len: entry.len,
                });
            }
            None if entry.name.strip_suffix(".tmp").and_then(generation_of).is_some() => listing.temporary.push(path),
            None => match durable_notes::generation_of_notes(&entry.name) {
                Some(generation) if generation < keep_from => listing.temporary.push(path),
                Some(generation) => noted.push(generation),
                None => {}
            },
        }
    }
    // Names sort by generation, so it is enough to compare neighbours.
    let first = listing.files.first().map(|file| file.header.generation);
    if keep_from > 0 && first != Some(keep_from) {
        return Err(damaged(&file_path(dir, keep_from), 0, "the file is missing"));
    }
    // Notes exist only for existing files, and are removed before them.
    let last = listing.files.last().map_or(0, |file| file.header.generation);
    for generation in noted.into_iter().filter(|generation| *generation > last) {
        if let Some(durable) = durable_notes::read(disk, dir, identity, generation) {
            let why = format!("the file is missing, and {durable} bytes of it were durable");
            return Err(damaged(&file_path(dir, generation), 0, why));
        }
    }
    for pair in listing.files.windows(2) {
        let (file, next) = (&pair[0], &pair[1].header);
        if next.generation != file.header.generation + 1 {
            return Err(damaged(
                &file_path(dir, file.header.generation + 1),
                0,
                "the file is missing",
            ));
        }
        if file.len < next.previous_len {
            let why = format!(
                "the file ends here, and generation {} knows {} bytes",
                next.generation, next.previous_len
            );
            return Err(damaged(&file.path, file.len, why));
        }
    }
    Ok(listing)
}

fn read_header(disk: &dyn Disk, path: &Path, generation: u64, identity: u64) -> Result<Header> {
    let bytes = disk
        .read_range(path, 0..HEADER_BYTES)
        .map_err(|error| unreadable(path, 0, error))?;
    let header = Header::decode(&bytes).map_err(|(offset, why)| damaged(path, offset, why))?;
    if header.generation != generation {
        return Err(damaged(
            path,
            16,
            format!("the file holds generation {}", header.generation),
        ));
    }
    if header.identity != identity {
        let why = format!(
            "the file belongs to shard {:016x}, not to {identity:016x}",
            header.identity
        );
        return Err(damaged(path, 24, why));
    }
    Ok(header)
}

fn unreadable(path: &Path, offset: u64, error: std::io::Error) -> Error {
    damaged(path, offset, "it cannot be read").caused_by(error)
}

/// Scans the frames of a file in order. `limit` is the file's length as the next file states it, or `None` for the last
/// file, the only one that may have a torn tail.
pub(super) fn scan(
    disk: &dyn Disk,
    file: &WalFile,
    limit: Option<u64>,
    replay: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<Scanned> {
    let header = &file.header;
    let len = limit.unwrap_or(file.len);
    let mut window = Window {
        disk,
        path: &file.path,
        len,
        start: 0,
        bytes: Bytes::new(),
    };
    let mut scanned = Scanned {
        end: HEADER_BYTES,
        operations: 0,
        proven: None,
        known_durable: HEADER_BYTES,
        torn: None,
    };
    while scanned.end < len {
        match next_frame(&mut window, header.salt, scanned.end)? {
            Frame::Record(frame) => {
                let payload = &frame[FRAME_HEADER_BYTES as usize..];
                replay(Record {
                    generation: header.generation,
                    offset: scanned.end,
                    payload,
                })?;
                scanned.operations += 1;
                scanned.proven = None;
                scanned.end += frame.len() as u64;
            }
            Frame::Mark { durable } => {
                scanned.known_durable = scanned.known_durable.max(durable);
                scanned.proven = Some(durable).filter(|durable| *durable == scanned.end);
                scanned.end += MARK_FRAME_BYTES;
            }
            Frame::Bad(why) if limit.is_some() => return Err(damaged(&file.path, scanned.end, why)),
            Frame::Bad(why) => {
                if let Some(mark) = find_proof(&mut window, header.salt, scanned.end)? {
                    let why = format!("{why}, and the bytes were durable when the mark at byte {mark} was written");
                    return Err(damaged(&file.path, scanned.end, why));
                }
                scanned.torn = Some(why);
                return Ok(scanned);
            }
        }
    }
    Ok(scanned)
}

enum Frame {
    /// The whole frame.
    Record(Bytes),
    Mark {
        durable: u64,
    },
    Bad(&'static str),
}

fn next_frame(window: &mut Window<'_>, salt: u32, offset: u64) -> Result<Frame> {
    let Some(start) = window.get(offset, FRAME_HEADER_BYTES)? else {
        return Ok(Frame::Bad("the file ends within a frame's header"));
    };
    let length = u32_at(&start, 0);
    let payload_bytes = length & !MARK_BIT;
    if payload_bytes == 0 || payload_bytes as usize > RECORD_BYTES_MAX {
        return Ok(Frame::Bad("the length of a frame is invalid"));
    }
    let Some(frame) = window.get(offset, FRAME_HEADER_BYTES + u64::from(payload_bytes))? else {
        return Ok(Frame::Bad("the file ends within a frame"));
    };
    if length & MARK_BIT != 0 {
        return Ok(match read_mark(salt, offset, &frame) {
            Some(durable) => Frame::Mark { durable },
            None => Frame::Bad("a sync mark's checksum differs"),
        });
    }
    Ok(match is_frame_sound(salt, &frame) {
        true => Frame::Record(frame),
        false => Frame::Bad("a record's checksum differs"),
    })
}

/// Searches behind the bad frame at `bad` for a sync mark that was written after the frame's bytes became durable, and
/// returns its offset.
fn find_proof(window: &mut Window<'_>, salt: u32, bad: u64) -> Result<Option<u64>> {
    let finder = memchr::memmem::Finder::new(&MARK_MAGIC);
    let mut from = bad;
    while from < window.len {
        let bytes = window.at_most(from, WINDOW_BYTES)?;
        for position in finder.find_iter(&bytes) {
            let Some(offset) = (from + position as u64).checked_sub(FRAME_HEADER_BYTES) else {
                continue;
            };
            if offset < bad {
                continue;
            }
            let Some(frame) = window.get(offset, MARK_FRAME_BYTES)? else {
                continue;
            };
            if read_mark(salt, offset, &frame).is_some_and(|durable| durable > bad) {
                return Ok(Some(offset));
            }
        }
        if bytes.len() < MARK_FRAME_BYTES as usize {
            break;
        }
        // The next window overlaps this one, so that it contains a mark that crosses the border.
        from += bytes.len() as u64 - (MARK_FRAME_BYTES - 1);
        if from + MARK_FRAME_BYTES > window.len {
            break;
        }
    }
    Ok(None)
}

/// Part of the file in memory.
struct Window<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    len: u64,
    start: u64,
    bytes: Bytes,
}

impl Window<'_> {
    /// Returns exactly these bytes; `None` if the file ends earlier.
    fn get(&mut self, offset: u64, count: u64) -> Result<Option<Bytes>> {
        if offset + count > self.len {
            return Ok(None);
        }
        let bytes = self.at_most(offset, count)?;
        Ok((bytes.len() as u64 == count).then_some(bytes))
    }

    /// Returns these bytes, or fewer at the end of the file.
    fn at_most(&mut self, offset: u64, count: u64) -> Result<Bytes> {
        let count = count.min(self.len.saturating_sub(offset));
        let is_inside = offset >= self.start && offset + count <= self.start + self.bytes.len() as u64;
        if !is_inside {
            let end = (offset + count.max(WINDOW_BYTES)).min(self.len);
            self.bytes = self
                .disk
                .read_range(self.path, offset..end)
                .map_err(|error| unreadable(self.path, offset, error))?;
            self.start = offset;
        }
        let from = ((offset - self.start) as usize).min(self.bytes.len());
        let to = (from + count as usize).min(self.bytes.len());
        Ok(self.bytes.slice(from..to))
    }
}

/// See [`super::Wal::holds_no_record`].
pub(super) fn holds_no_record(disk: &dyn Disk, dir: &Path) -> Result<bool> {
    let entries = match disk.list(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    for entry in entries {
        if generation_of(&entry.name).is_none() {
            continue;
        }
        let bytes = disk.read(&dir.join(&entry.name))?;
        if (bytes.len() as u64) < HEADER_BYTES {
            continue;
        }
        let Ok(header) = Header::decode(&bytes) else {
            return Ok(false);
        };
        let mut offset = HEADER_BYTES;
        while offset < bytes.len() as u64 {
            if read_mark(header.salt, offset, &bytes[offset as usize..]).is_none() {
                return Ok(false);
            }
            offset += MARK_FRAME_BYTES;
        }
    }
    Ok(true)
}
