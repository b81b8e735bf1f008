//! Reader of one file, from a position on, in whole lines.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use memchr::memchr;

use super::super::{Resume, SourceEvent};
use super::mark::{self, Mark};
use super::unpacked::{self, End, GZIP, Unpacked};

/// Bytes that one reading takes at most.
pub(super) const READ_BYTES: usize = 1 << 20;
/// Lines that one reading takes at most.
const LINES_MAX: usize = 2000;
/// Longest line; a longer one is delivered in pieces of this length.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Bytes of the first line that identify a file.
const FIRST_BYTES: usize = 1024;
/// Cuts that are remembered.
const CUTS_MAX: usize = 16;

/// Device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl FileId {
    /// Returns the id and the stamp of a regular file; `None`: it is none, or it is gone.
    pub(super) fn of(path: &Path) -> io::Result<Option<(Self, Stamp)>> {
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let stamp = Stamp {
            length: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        let id = Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        };
        Ok(metadata.is_file().then_some((id, stamp)))
    }
}

/// Length of a file and time of its last change, which no program can set: the same stamp means nothing new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) length: u64,
    pub(super) changed: (i64, i64),
}

/// Lines of one reading.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) first_offset: u64,
    pub(super) last_offset: u64,
    /// Offset and bytes of each line.
    pub(super) lines: Vec<(u64, Bytes)>,
    /// See [`Batch::note`](super::super::Batch::note).
    pub(super) note: String,
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

/// Outcome of one reading.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Lines(Lines),
    /// There are no whole lines.
    Nothing,
    /// The file was written anew: it must be identified again.
    Rewritten,
}

/// The first line, or as much of it as there was when the file was identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct First {
    length: usize,
    checksum: u32,
}

impl First {
    fn of(bytes: &[u8]) -> Self {
        Self {
            length: bytes.len(),
            checksum: crc32c::crc32c(bytes),
        }
    }

    fn is_of(&self, start: &[u8]) -> bool {
        start.len() >= self.length && crc32c::crc32c(&start[..self.length]) == self.checksum
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tail {
    id: FileId,
    path: PathBuf,
    file: Option<(File, Instant)>,
    /// `None`: the file is not identified, because its first line has no end yet.
    first: Option<First>,
    /// Checksum in the name of the partition: that of the first line when the partition was first read.
    identity: u32,
    is_gzip: bool,
    /// Checksum of the first bytes of a gzip file, which older versions had in the names of partitions.
    packed: u32,
    generation: u32,
    /// Partition and generation of the content before the file was written anew.
    before: Option<(u32, u32)>,
    /// Where reading continues; `None`: the position is not known yet.
    offset: Option<u64>,
    /// What was read before the position; `None`: nothing, or it is not known.
    mark: Option<Mark>,
    /// Where lines without a line break were taken for whole, ascending. Lines that are read again end there again, also if they were
    /// completed since: an event that is stored is not stored with the rest of its line once more, and the rest is an event.
    cuts: Vec<u64>,
    /// Where the file ends behind a last line without a line break, and since when.
    partial: Option<(u64, Instant)>,
    unpacked: Option<Unpacked>,
    /// Where a gzip file ends in the middle of its data, and since when; without a time it was reported.
    cut: Option<(u64, Option<Instant>)>,
    /// Bytes of a gzip file that are not unpacked.
    packed_rest: Option<u64>,
    /// Bytes behind the end of a gzip file.
    trailing_garbage: TrailingGarbage,
}

/// Whether bytes that are no member follow the members of a gzip file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrailingGarbage {
    None,
    Found,
    Reported,
}

impl Tail {
    pub(super) fn new(id: FileId, path: PathBuf) -> Self {
        Self {
            id,
            path,
            file: None,
            first: None,
            identity: 0,
            is_gzip: false,
            packed: 0,
            generation: 0,
            before: None,
            offset: None,
            mark: None,
            cuts: Vec::new(),
            partial: None,
            unpacked: None,
            cut: None,
            packed_rest: None,
            trailing_garbage: TrailingGarbage::None,
        }
    }

    /// Notes that the file was renamed.
    pub(super) fn moved_to(&mut self, path: PathBuf) {
        self.path = path;
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn opened_at(&self) -> Option<Instant> {
        self.file.as_ref().map(|(_, at)| *at)
    }

    pub(super) fn close(&mut self) {
        self.file = None;
    }

    /// Returns the partition without its generation; `None`: the file is not identified.
    pub(super) fn partition_name(&self) -> Option<String> {
        self.first.map(|_| self.name())
    }

    /// Returns the partition in its current generation.
    pub(super) fn partition(&self) -> String {
        self.partition_of(self.generation)
    }

    pub(super) fn partition_of(&self, generation: u32) -> String {
        format!("{}:{generation}", self.name())
    }

    fn name(&self) -> String {
        let FileId { device, inode } = self.id;
        format!("{device}:{inode}:{:08x}", self.identity)
    }

    /// Returns the bytes of a file of `length` bytes that were not read.
    pub(super) fn behind(&self, length: u64) -> u64 {
        match (self.is_gzip, self.first.and(self.offset)) {
            (_, None) => length,
            (false, Some(offset)) => length.saturating_sub(offset),
            (true, Some(_)) => {
                let text = self.unpacked.as_ref().map_or(0, |unpacked| unpacked.text.len() as u64);
                text + self.packed_rest.unwrap_or(length)
            }
        }
    }

    /// Whether the file was read up to `length` bytes. Of a gzip file, that is not known.
    pub(super) fn is_read_to(&self, length: u64) -> bool {
        !self.is_gzip && self.first.and(self.offset).is_some_and(|offset| offset >= length)
    }

    /// Whether a last line without a line break is due, if the file has not grown since.
    pub(super) fn is_partial_due(&self, after: Duration) -> bool {
        let since = self.partial.map(|(_, since)| since);
        let cut_since = self.cut.and_then(|(_, since)| since);
        since.into_iter().chain(cut_since).any(|since| since.elapsed() >= after)
    }

    /// Identifies the file if that is not done, and notices that it became shorter or another one. `after`: time until a last line
    /// without a line break is whole.
    pub(super) fn look(&mut self, after: Duration) -> io::Result<()> {
        let start = self.bytes_at(0, FIRST_BYTES)?;
        let is_gzip = start.starts_with(&GZIP);
        let packed = crc32c::crc32c(&start);
        let (start, is_end) = match is_gzip {
            true => unpacked::start(self.open()?, FIRST_BYTES)?,
            false => (start, false),
        };
        if let Some(first) = self.first {
            let is_same = is_gzip == self.is_gzip && first.is_of(&start);
            if is_same && !self.is_shorter()? {
                return Ok(());
            }
            self.begin_anew();
        }
        (self.is_gzip, self.packed) = (is_gzip, packed);
        let end = match memchr(b'\n', &start) {
            Some(end) => end,
            None if start.is_empty() => return Ok(()),
            None if start.len() == FIRST_BYTES || is_end || self.is_quiet(start.len() as u64, after) => start.len(),
            None => return Ok(()),
        };
        let first = First::of(&start[..end]);
        self.identity = first.checksum;
        self.first = Some(first);
        Ok(())
    }

    /// Notes that the content is another one.
    fn begin_anew(&mut self) {
        // Without a position, nothing was read since it was last written anew.
        if self.offset.is_some() {
            self.before = Some((self.identity, self.generation));
        }
        self.first = None;
        self.offset = None;
        self.mark = None;
        self.cuts.clear();
        self.partial = None;
        self.unpacked = None;
        self.cut = None;
        self.packed_rest = None;
        self.trailing_garbage = TrailingGarbage::None;
    }

    /// Whether bytes were found behind the end of a gzip file; true once for each content.
    pub(super) fn take_trailing_garbage(&mut self) -> bool {
        let is_found = self.trailing_garbage == TrailingGarbage::Found;
        if is_found {
            self.trailing_garbage = TrailingGarbage::Reported;
        }
        is_found
    }

    /// Whether the position of the partition must be looked up before the file is read.
    pub(super) fn needs_position(&self) -> bool {
        self.first.is_some() && self.offset.is_none()
    }

    /// Whether the content replaced another one while the file was followed: no position is one of this content.
    pub(super) fn is_rewritten(&self) -> bool {
        self.before.is_some()
    }

    /// Returns the first generation that the content may have.
    pub(super) fn first_generation(&self) -> u32 {
        match self.before {
            Some((identity, generation)) if identity == self.identity => generation + 1,
            _ => 0,
        }
    }

    /// Returns the partition that an older version has read the file in.
    pub(super) fn is_older_partition(&self, name: &str) -> bool {
        let FileId { device, inode } = self.id;
        self.is_gzip && name == format!("{device}:{inode}:{:08x}", self.packed)
    }

    /// Whether the file begins with what was read of a partition. Without a note, that is not known of files that are long enough.
    pub(super) fn begins_with(&mut self, resume: &Resume) -> io::Result<bool> {
        let Some(mark) = resume.note.as_deref().and_then(Mark::from_note) else {
            return Ok(self.is_gzip || resume.offset <= self.length()?);
        };
        let (start, length) = mark.covers();
        let bytes = match self.is_gzip {
            true => unpacked::text_at(self.open()?, start, length)?,
            false => self.bytes_at(start, length)?,
        };
        Ok(mark.is_of(&bytes))
    }

    /// Takes the partition `name` for that of the file.
    pub(super) fn set_identity(&mut self, name: &str) {
        if let Some(checksum) = name.rsplit(':').next()
            && let Ok(checksum) = u32::from_str_radix(checksum, 16)
        {
            self.identity = checksum;
        }
    }

    /// Sets the position; `None`: the content was not read in this generation.
    pub(super) fn set_position(&mut self, generation: u32, resume: Option<&Resume>) {
        self.before = None;
        self.generation = generation;
        self.offset = Some(resume.map_or(0, |resume| resume.offset));
        let note = resume.and_then(|resume| resume.note.as_deref());
        self.mark = note.and_then(Mark::from_note);
        self.cuts = note.map(mark::cuts_of_note).unwrap_or_default();
        // The bytes before the end were read: the line that follows begins there.
        self.cuts.extend(self.mark.map(|mark| mark.end));
    }

    /// Reads the next whole lines. `after`: time until a last line without a line break is whole.
    pub(super) fn read(&mut self, after: Duration) -> io::Result<Reading> {
        let (Some(_), Some(offset)) = (self.first, self.offset) else {
            return Ok(Reading::Nothing);
        };
        let reading = match self.is_gzip {
            true => self.read_packed(offset, after)?,
            false => self.read_plain(offset, after)?,
        };
        match &reading {
            Reading::Lines(lines) => self.offset = Some(lines.last_offset + 1),
            Reading::Nothing => {}
            Reading::Rewritten => self.begin_anew(),
        }
        Ok(reading)
    }

    fn read_plain(&mut self, offset: u64, after: Duration) -> io::Result<Reading> {
        let context = Mark::length_before(offset);
        let bytes = self.bytes_at(offset - context as u64, context + READ_BYTES)?;
        // After the reading: what was read is what follows these bytes.
        if bytes.len() < context || !self.is_marked()? {
            return Ok(Reading::Rewritten);
        }
        if bytes.len() > context
            && let Some((_, changed)) = &mut self.file
        {
            *changed = Instant::now();
        }
        let is_end = bytes.len() < context + READ_BYTES;
        let lines = self.split(&bytes, context, offset, is_end.then_some(after));
        Ok(lines.map_or(Reading::Nothing, Reading::Lines))
    }

    /// Reads on in a gzip file where the last call ended, or unpacks it from the start.
    fn read_packed(&mut self, offset: u64, after: Duration) -> io::Result<Reading> {
        let continued = self.unpacked.take().filter(|unpacked| unpacked.offset == offset);
        let mut unpacked = match continued {
            Some(unpacked) => unpacked,
            None => {
                // A handle of its own: the decoder moves its position.
                let unpacked = Unpacked::new(self.open()?, offset)?;
                let is_it = |unpacked: &Unpacked| {
                    let mark = self.mark.filter(|mark| mark.end == offset);
                    mark.is_none_or(|mark| mark.is_of(&unpacked.before))
                };
                match unpacked.filter(is_it) {
                    Some(unpacked) => unpacked,
                    None => return Ok(Reading::Rewritten),
                }
            }
        };
        let end = unpacked.fill(READ_BYTES);
        self.packed_rest = Some(self.length()?.saturating_sub(unpacked.packed_position()));
        if unpacked.has_trailing_garbage() {
            self.packed_rest = Some(0);
            if self.trailing_garbage == TrailingGarbage::None {
                self.trailing_garbage = TrailingGarbage::Found;
            }
        }
        if !matches!(end, Ok(End::Cut)) {
            self.cut = None;
        }
        let context = unpacked.before.len();
        let bytes = [&unpacked.before[..], &unpacked.text[..]].concat();
        let ends = match &end {
            Ok(End::Clean) => Some(Duration::ZERO),
            // After a cut, more may still be written.
            Ok(End::Cut | End::Full) | Err(_) => None,
        };
        let Some(lines) = self.split(&bytes, context, offset, ends) else {
            // A file that is still being written is unpacked again when it has changed.
            self.file = None;
            if matches!(end, Ok(End::Cut)) {
                self.check_cut(unpacked.packed_position(), after)?;
            }
            return end.map(|_| Reading::Nothing);
        };
        if matches!(end, Ok(End::Clean | End::Full)) {
            unpacked.take((lines.last_offset + 1 - offset) as usize);
            self.unpacked = Some(unpacked);
        }
        Ok(Reading::Lines(lines))
    }

    /// Splits bytes into lines: `offset` is that of the byte behind the first `context` ones. `ends`: the file ends behind the bytes,
    /// and after this time a last line without a line break is whole.
    fn split(&mut self, bytes: &[u8], context: usize, offset: u64, ends: Option<Duration>) -> Option<Lines> {
        let new = &bytes[context..];
        let has_rest = new.last().is_some_and(|last| *last != b'\n');
        let is_whole = match ends {
            Some(after) if has_rest => self.is_quiet(offset + new.len() as u64, after),
            _ => {
                self.partial = None;
                false
            }
        };
        let (lines, taken) = split(new, offset, is_whole, &self.cuts)?;
        let next = offset + taken as u64;
        if is_whole && has_rest && taken == new.len() {
            self.cuts.push(next);
            self.cuts.dedup();
            let excess = self.cuts.len().saturating_sub(CUTS_MAX);
            self.cuts.drain(..excess);
        }
        let mark = Mark::of(&bytes[..context + taken], next);
        self.mark = Some(mark);
        Some(Lines {
            first_offset: offset,
            last_offset: next - 1,
            lines,
            note: mark.to_note(&self.cuts),
        })
    }

    /// Whether a file that ends without a line break has ended there for some time.
    fn is_quiet(&mut self, end: u64, after: Duration) -> bool {
        match self.partial {
            Some((known, since)) if known == end => since.elapsed() >= after,
            _ => {
                self.partial = Some((end, Instant::now()));
                after.is_zero()
            }
        }
    }

    /// Whether a gzip file that is not whole was reported.
    pub(super) fn is_cut(&self) -> bool {
        matches!(self.cut, Some((_, None)))
    }

    /// Fails once if a gzip file has ended in the middle of its data for some time.
    fn check_cut(&mut self, length: u64, after: Duration) -> io::Result<()> {
        match self.cut {
            Some((known, None)) if known == length => Ok(()),
            Some((known, Some(since))) if known == length => {
                if since.elapsed() < after {
                    return Ok(());
                }
                self.cut = Some((length, None));
                let reason = "the gzip file ends in the middle of its data";
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason))
            }
            _ => {
                self.cut = Some((length, Some(Instant::now())));
                Ok(())
            }
        }
    }

    /// Whether the bytes before the position are still those that were read.
    fn is_marked(&mut self) -> io::Result<bool> {
        let Some(mark) = self.mark else { return Ok(true) };
        let (start, length) = mark.covers();
        Ok(mark.is_of(&self.bytes_at(start, length)?))
    }

    fn is_shorter(&mut self) -> io::Result<bool> {
        let offset = self.offset.unwrap_or(0);
        Ok(!self.is_gzip && self.length()? < offset)
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

    /// Returns up to `length` bytes from an offset on; fewer if the file ends before.
    fn bytes_at(&mut self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let file = self.file()?;
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match file.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

/// Splits bytes that start at an offset into lines, and returns the length of what they cover. `ends`: what is behind the last line
/// break is a line, too. A line ends at each of `cuts`, too.
fn split(bytes: &[u8], offset: u64, ends: bool, cuts: &[u64]) -> Option<(Vec<(u64, Bytes)>, usize)> {
    let whole = Bytes::copy_from_slice(bytes);
    let bytes = &whole[..];
    let (mut at, mut lines) = (0, Vec::new());
    while at < bytes.len() && lines.len() < LINES_MAX {
        let rest = &bytes[at..];
        let start = offset + at as u64;
        let cut = cuts.iter().find(|cut| **cut > start);
        let cut = cut.map(|cut| (cut - start) as usize).filter(|cut| *cut <= rest.len());
        let (length, next) = match memchr(b'\n', &rest[..cut.unwrap_or(rest.len())]) {
            Some(end) => (end, end + 1),
            None if cut.is_some() => cut.map(|cut| (cut, cut))?,
            None if ends || rest.len() >= LINE_BYTES_MAX => (rest.len(), rest.len()),
            None => break,
        };
        let line = rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]);
        if !line.is_empty() {
            lines.push((offset + at as u64, whole.slice_ref(line)));
        }
        at += next;
    }
    (at > 0).then_some((lines, at))
}
