//! Text of a gzip file.

use std::fs::File;
use std::io::{self, Read, Seek};

use flate2::read::MultiGzDecoder;

use super::mark::Mark;

/// See the module: the part that was unpacked and not taken.
#[derive(Debug)]
pub(super) struct Unpacked {
    decoder: Box<MultiGzDecoder<File>>,
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
        let mut decoder = Box::new(MultiGzDecoder::new(file));
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
        let mut file = self.decoder.get_ref();
        file.stream_position().unwrap_or(0)
    }
}

/// Returns the first bytes of the text, at most `length`, and whether it ends there.
pub(super) fn start(file: File, length: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    let end = read_text(&mut MultiGzDecoder::new(file), &mut bytes, &mut filled);
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
    skip_and_read(&mut MultiGzDecoder::new(file), offset, length)
}

fn skip_and_read(decoder: &mut MultiGzDecoder<File>, offset: u64, length: usize) -> io::Result<Vec<u8>> {
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
