//! Text of a gzip file.
//!
//! As for `gzip -dc`, bytes behind a member that begin no other one are no part of the text.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::os::unix::fs::FileExt;

use flate2::bufread::GzDecoder;

use super::mark::Mark;

/// First bytes of a member.
pub(super) const GZIP: [u8; 2] = [0x1f, 0x8b];

/// See the module: the part that was unpacked and not taken.
#[derive(Debug)]
pub(super) struct Unpacked {
    decoder: Box<Decoder>,
    /// Offset of `text`.
    pub(super) offset: u64,
    /// Text before the offset, as much as a [`Mark`] covers.
    pub(super) before: Vec<u8>,
    pub(super) text: Vec<u8>,
}

/// How a reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The buffer is full.
    Full,
    /// The file ends, and is whole.
    Clean,
    /// The file ends in the middle of its data.
    Cut,
}

impl Unpacked {
    /// Unpacks up to an offset; `None`: the text ends before.
    pub(super) fn new(file: File, offset: u64) -> io::Result<Option<Self>> {
        let mut decoder = Box::new(Decoder::new(file));
        let length = Mark::length_before(offset);
        let before = skip_and_read(&mut decoder, offset - length as u64, length)?;
        Ok((before.len() == length).then_some(Self {
            decoder,
            offset,
            before,
            text: Vec::new(),
        }))
    }

    /// Unpacks until there are `length` bytes of text, or the file ends. If it fails, the text before the damage is there.
    pub(super) fn fill(&mut self, length: usize) -> io::Result<End> {
        let waiting = self.text.len();
        let wanted = length.saturating_sub(waiting);
        self.text.resize(waiting + wanted, 0);
        let mut filled = 0;
        let end = read_text(&mut self.decoder, &mut self.text[waiting..], &mut filled);
        self.text.truncate(waiting + filled);
        end
    }

    /// Moves the offset.
    pub(super) fn take(&mut self, length: usize) {
        self.before.extend(self.text.drain(..length));
        self.offset += length as u64;
        let surplus = self.before.len() - Mark::length_before(self.offset);
        self.before.drain(..surplus);
    }

    /// Returns how much of the file was read.
    pub(super) fn packed_position(&self) -> u64 {
        let member = self.decoder.member.as_ref();
        let position = member.map(|member| member.get_ref().get_ref().stream_position());
        position.and_then(Result::ok).unwrap_or(0)
    }

    /// Whether bytes that are no member follow the last one.
    pub(super) fn has_trailing_garbage(&self) -> bool {
        self.decoder.has_trailing_garbage
    }
}

/// Decoder of all members of a file.
#[derive(Debug)]
struct Decoder {
    /// `None` only while it is replaced.
    member: Option<GzDecoder<BufReader<File>>>,
    has_trailing_garbage: bool,
}

impl Decoder {
    fn new(file: File) -> Self {
        Self {
            member: Some(GzDecoder::new(BufReader::new(file))),
            has_trailing_garbage: false,
        }
    }

    /// Goes on to the next member; false: there is none.
    fn next_member(&mut self) -> io::Result<bool> {
        let Some(member) = &mut self.member else {
            return Ok(false);
        };
        let position = member.get_mut().stream_position()?;
        let mut begin = [0; GZIP.len()];
        let length = read_at(member.get_ref().get_ref(), &mut begin, position)?;
        // One byte may be half of what is being written.
        if length == 0 || begin[..length] != GZIP[..length] {
            self.has_trailing_garbage = length > 0;
            return Ok(false);
        }
        let member = self.member.take().map(GzDecoder::into_inner);
        self.member = member.map(GzDecoder::new);
        Ok(true)
    }
}

impl Read for Decoder {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.has_trailing_garbage || buffer.is_empty() {
            return Ok(0);
        }
        while let Some(member) = &mut self.member {
            let read = member.read(buffer)?;
            if read > 0 || !self.next_member()? {
                return Ok(read);
            }
        }
        Ok(0)
    }
}

/// Returns how many bytes there are from an offset on, at most the length of the buffer.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Returns the first bytes of the text, at most `length`, and whether it ends there.
pub(super) fn start(file: File, length: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    let end = read_text(&mut Decoder::new(file), &mut bytes, &mut filled);
    bytes.truncate(filled);
    match end {
        Ok(end) => Ok((bytes, end == End::Clean)),
        // What is before the damage identifies the file.
        Err(_) if filled > 0 => Ok((bytes, false)),
        Err(error) => Err(error),
    }
}

/// Returns up to `length` bytes of the text from an offset on; fewer if it ends before.
pub(super) fn text_at(file: File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    skip_and_read(&mut Decoder::new(file), offset, length)
}

fn skip_and_read(decoder: &mut Decoder, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    match io::copy(&mut decoder.by_ref().take(offset), &mut io::sink()) {
        Ok(skipped) if skipped == offset => {}
        Ok(_) => return Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Vec::new()),
        Err(error) => return Err(error),
    }
    let mut bytes = vec![0; length];
    let mut filled = 0;
    read_text(decoder, &mut bytes, &mut filled)?;
    bytes.truncate(filled);
    Ok(bytes)
}

/// Reads until the buffer is full or the file ends. `filled`: bytes that were read, also if it fails.
fn read_text(decoder: &mut impl Read, buffer: &mut [u8], filled: &mut usize) -> io::Result<End> {
    while *filled < buffer.len() {
        match decoder.read(&mut buffer[*filled..]) {
            Ok(0) => return Ok(End::Clean),
            Ok(read) => *filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(End::Cut),
            Err(error) => return Err(error),
        }
    }
    Ok(End::Full)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    /// Checks the text of a file, how it ends, and whether garbage follows.
    fn check(parts: &[&[u8]], text: &str, end: End, garbage: bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gz");
        std::fs::write(&path, parts.concat()).unwrap();
        let open = || File::open(&path).unwrap();
        let mut unpacked = Unpacked::new(open(), 0).unwrap().unwrap();
        assert_eq!(unpacked.fill(1 << 20).unwrap(), end, "{parts:?}");
        assert_eq!(unpacked.text, text.as_bytes());
        assert_eq!(unpacked.has_trailing_garbage(), garbage, "{parts:?}");
        assert_eq!(
            start(open(), 1 << 20).unwrap(),
            (text.as_bytes().to_vec(), end == End::Clean)
        );
    }

    #[test]
    fn members_follow_each_other_and_other_bytes_are_ignored() {
        let (one, two) = (gzip("one\n"), gzip("two\n"));
        check(&[&one], "one\n", End::Clean, false);
        check(&[&one, &two], "one\ntwo\n", End::Clean, false);
        check(&[&one, &gzip(""), &two], "one\ntwo\n", End::Clean, false);
        for garbage in [&b"x"[..], b"\0\0\0", b"\x1fx", b"garbage\n", &two[1..]] {
            check(&[&one, garbage], "one\n", End::Clean, true);
            check(&[&one, &two, garbage, &one], "one\ntwo\n", End::Clean, true);
        }
        // More may still be written.
        for length in [1, 2, 5, two.len() - 1] {
            check(
                &[&one, &two[..length]],
                if length > 10 { "one\ntwo\n" } else { "one\n" },
                End::Cut,
                false,
            );
        }
    }
}
