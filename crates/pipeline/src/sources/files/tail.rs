//! Reader of one file, from a position on, in whole lines.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use memchr::memchr;

use super::super::SourceEvent;

/// Bytes that one reading takes at most.
const READ_BYTES: usize = 1 << 20;
/// Lines that one reading takes at most.
const LINES_MAX: usize = 2000;
/// Longest line; a longer one is delivered in pieces of this length.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Bytes of the first line that identify a file.
const FIRST_BYTES: usize = 1024;
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Returns the id and the stamp of a regular file; `None`: it is none, or it is gone.
    pub(super) fn of(path: &Path) -> Option<(Self, Stamp)> {
        let metadata = std::fs::metadata(path).ok()?;
        let stamp = Stamp {
            length: metadata.len(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
        };
        let id = Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        };
        metadata.is_file().then_some((id, stamp))
    }
}

/// Lines of one reading.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) first_offset: u64,
    pub(super) last_offset: u64,
    /// Offset and bytes of each line.
    pub(super) lines: Vec<(u64, Bytes)>,
}

impl Lines {
    pub(super) fn into_events(self, received_ns: i64) -> Vec<SourceEvent> {
        let event = |(offset, bytes)| SourceEvent {
            bytes,
            offset,
            received_ns,
            context: None,
            stored_at: None,
        };
        self.lines.into_iter().map(event).collect()
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tail {
    id: FileId,
    path: PathBuf,
    file: Option<(File, Instant)>,
    /// Checksum of the first line, or of the first bytes of a gzip file; `None`: there is no whole line yet.
    first: Option<u32>,
    is_gzip: bool,
    generation: u32,
    /// Where reading continues; `None`: the position is not known yet.
    offset: Option<u64>,
    unpacked: Option<Unpacked>,
}

/// Text of a gzip file that is being read.
#[derive(Debug)]
struct Unpacked {
    decoder: Box<MultiGzDecoder<File>>,
    /// Offset of `text`.
    offset: u64,
    /// Text that was unpacked and not taken.
    text: Vec<u8>,
}

/// Length and time of change of a file: the same stamp means nothing new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    length: u64,
    changed: (i64, i64),
}

impl Tail {
    pub(super) fn new(id: FileId, path: PathBuf) -> Self {
        Self {
            id,
            path,
            file: None,
            first: None,
            is_gzip: false,
            generation: 0,
            offset: None,
            unpacked: None,
        }
    }

    /// Notes that the file was renamed.
    pub(super) fn moved_to(&mut self, path: PathBuf) {
        self.path = path;
    }

    pub(super) fn opened_at(&self) -> Option<Instant> {
        self.file.as_ref().map(|(_, at)| *at)
    }

    pub(super) fn close(&mut self) {
        self.file = None;
    }

    /// Returns the partition in its current generation.
    pub(super) fn partition(&self) -> String {
        self.partition_of(self.generation)
    }

    pub(super) fn partition_of(&self, generation: u32) -> String {
        let FileId { device, inode } = self.id;
        format!("{device}:{inode}:{:08x}:{generation}", self.first.unwrap_or_default())
    }

    /// Identifies the file if that is not done, and notices that it became shorter or another one.
    pub(super) fn look(&mut self, is_gone: bool) {
        let Ok(first) = self.first_of_file(is_gone) else {
            return;
        };
        if first.is_some() && first != self.first {
            // The content is another one.
            self.first = first;
            self.unpacked = None;
            self.offset = None;
        } else if self.first.is_some() && self.is_shorter() {
            // The content was cut; what comes may have the same first line.
            self.generation += 1;
            self.offset = Some(0);
        }
    }

    /// Whether the position of the partition must be looked up before the file is read.
    pub(super) fn needs_position(&self) -> bool {
        self.first.is_some() && self.offset.is_none()
    }

    /// Sets the position from the last generation that is known, and the offset from which that must be read again.
    pub(super) fn set_position(&mut self, known: Option<(u32, u64)>) {
        let length = self.length().unwrap_or(0);
        (self.generation, self.offset) = match known {
            None => (0, Some(0)),
            Some((generation, offset)) if self.is_gzip || offset <= length => (generation, Some(offset)),
            // The file was truncated since.
            Some((generation, _)) => (generation + 1, Some(0)),
        };
    }

    /// Reads the next whole lines; `None`: there are none. `is_gone`: a last line without a line break is whole, too.
    pub(super) fn read(&mut self, is_gone: bool) -> io::Result<Option<Lines>> {
        let Some(offset) = self.offset else { return Ok(None) };
        if self.first.is_none() {
            return Ok(None);
        }
        let lines = match self.is_gzip {
            true => self.unpack(offset)?,
            false => {
                let (bytes, is_end) = self.read_at(offset)?;
                split(&bytes, offset, is_end && is_gone)
            }
        };
        if let Some(lines) = &lines {
            self.offset = Some(lines.last_offset + 1);
        }
        Ok(lines)
    }

    fn file(&mut self) -> io::Result<&File> {
        if self.file.is_none() {
            self.file = Some((self.open()?, Instant::now()));
        }
        match &self.file {
            Some((file, _)) => Ok(file),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn open(&self) -> io::Result<File> {
        let file = File::open(&self.path)?;
        let metadata = file.metadata()?;
        match (metadata.dev(), metadata.ino()) == (self.id.device, self.id.inode) {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::NotFound, "the file was renamed")),
        }
    }

    fn length(&mut self) -> io::Result<u64> {
        Ok(self.file()?.metadata()?.len())
    }

    fn is_shorter(&mut self) -> bool {
        let offset = self.offset.unwrap_or(0);
        !self.is_gzip && self.length().is_ok_and(|length| length < offset)
    }

    /// Returns the checksum of the first line; `None`: it is not whole yet.
    fn first_of_file(&mut self, is_gone: bool) -> io::Result<Option<u32>> {
        let mut start = [0; FIRST_BYTES];
        let mut file = self.file()?;
        file.seek(SeekFrom::Start(0))?;
        let length = read_full(&mut file, &mut start)?;
        let start = &start[..length];
        self.is_gzip = start.starts_with(GZIP);
        if self.is_gzip {
            return Ok(Some(crc32c::crc32c(start)));
        }
        let end = match memchr(b'\n', start) {
            Some(end) => end,
            None if length == FIRST_BYTES || (is_gone && length > 0) => length,
            None => return Ok(None),
        };
        Ok(Some(crc32c::crc32c(&start[..end])))
    }

    /// Returns bytes from an offset on, and whether the file ends behind them.
    fn read_at(&mut self, offset: u64) -> io::Result<(Vec<u8>, bool)> {
        let mut file = self.file()?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = vec![0; READ_BYTES];
        let length = read_full(&mut file, &mut bytes)?;
        bytes.truncate(length);
        let is_end = length < READ_BYTES;
        if length > 0
            && let Some((_, changed)) = &mut self.file
        {
            *changed = Instant::now();
        }
        Ok((bytes, is_end))
    }

    /// Returns the lines of a gzip file from an offset on. Continues where the last call ended, or unpacks from the start.
    fn unpack(&mut self, offset: u64) -> io::Result<Option<Lines>> {
        let continued = self.unpacked.take().filter(|unpacked| unpacked.offset == offset);
        let mut unpacked = match continued {
            Some(unpacked) => unpacked,
            None => {
                // A handle of its own: clones share their position, and the first bytes are looked at again and again.
                let mut decoder = Box::new(MultiGzDecoder::new(self.open()?));
                io::copy(&mut decoder.by_ref().take(offset), &mut io::sink())?;
                Unpacked {
                    decoder,
                    offset,
                    text: Vec::new(),
                }
            }
        };
        let waiting = unpacked.text.len();
        let wanted = READ_BYTES.saturating_sub(waiting);
        unpacked.text.resize(waiting + wanted, 0);
        let length = read_full(&mut unpacked.decoder, &mut unpacked.text[waiting..])?;
        unpacked.text.truncate(waiting + length);
        let lines = split(&unpacked.text, offset, length < wanted);
        match &lines {
            Some(lines) => {
                let taken = lines.last_offset + 1 - offset;
                unpacked.text.drain(..taken as usize);
                unpacked.offset += taken;
                self.unpacked = Some(unpacked);
            }
            // A file that is still being written is unpacked again when it has changed.
            None => self.file = None,
        }
        Ok(lines)
    }
}

/// Reads until the buffer is full or the file ends.
fn read_full(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// Splits bytes that start at an offset into lines. `ends`: what is behind the last line break is a line, too.
fn split(bytes: &[u8], offset: u64, ends: bool) -> Option<Lines> {
    let whole = Bytes::copy_from_slice(bytes);
    let bytes = &whole[..];
    let (mut at, mut lines) = (0, Vec::new());
    while at < bytes.len() && lines.len() < LINES_MAX {
        let rest = &bytes[at..];
        let (length, next) = match memchr(b'\n', rest) {
            Some(end) => (end, end + 1),
            None if ends || rest.len() >= LINE_BYTES_MAX => (rest.len(), rest.len()),
            None => break,
        };
        let line = rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]);
        if !line.is_empty() {
            lines.push((offset + at as u64, whole.slice_ref(line)));
        }
        at += next;
    }
    (at > 0).then(|| Lines {
        first_offset: offset,
        last_offset: offset + at as u64 - 1,
        lines,
    })
}
