//! Reader of lines from a file that may be compressed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;

/// A longer line is rejected without being stored: it indicates a damaged file, and no server would accept it.
pub(super) const LINE_LIMIT_BYTES: usize = 90 * 1024 * 1024;
const BUFFER_BYTES: usize = 256 * 1024;

/// Reads lines one after the other.
pub struct Lines<'a> {
    input: Box<dyn BufRead + Send + 'a>,
    name: String,
    number: u64,
}

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Counted from 1.
    pub(super) number: u64,
    /// With its line feed, after decompression.
    pub(super) bytes: u64,
    /// Longer than [`LINE_LIMIT_BYTES`]; only its start is stored.
    pub(super) too_long: bool,
}

impl<'a> Lines<'a> {
    /// Opens a file, or standard input for `-`. `consumed` counts the bytes read from the file on disk.
    pub fn open(path: &Path, consumed: &'a AtomicU64) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let raw: Box<dyn Read + Send> = if path == Path::new("-") {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(path).with_context(|| format!("cannot open {name}"))?)
        };
        let counted = Counted { inner: raw, consumed };
        let input = decompress(counted).with_context(|| format!("cannot read {name}"))?;
        Ok(Self { input, name, number: 0 })
    }

    /// Reads the next line into `line`, without its line feed; `None` at the end.
    pub fn next(&mut self, line: &mut Vec<u8>) -> anyhow::Result<Option<Line>> {
        line.clear();
        let mut bytes = 0u64;
        let mut too_long = false;
        loop {
            let buffer = self
                .input
                .fill_buf()
                .with_context(|| format!("cannot read {} after line {}", self.name, self.number))?;
            if buffer.is_empty() {
                break;
            }
            let (part, used, ended) = match memchr::memchr(b'\n', buffer) {
                Some(at) => (&buffer[..at], at + 1, true),
                None => (buffer, buffer.len(), false),
            };
            if line.len() + part.len() > LINE_LIMIT_BYTES {
                too_long = true;
                // Enough to recognise it in the rejects file.
                line.truncate(1024);
            }
            if !too_long {
                line.extend_from_slice(part);
            }
            bytes += used as u64;
            self.input.consume(used);
            if ended {
                break;
            }
        }
        if bytes == 0 {
            return Ok(None);
        }
        self.number += 1;
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if self.number == 1 && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        Ok(Some(Line {
            number: self.number,
            bytes,
            too_long,
        }))
    }
}

/// Detects the compression from the first bytes and inserts its decoder.
fn decompress<'a>(input: impl Read + Send + 'a) -> io::Result<Box<dyn BufRead + Send + 'a>> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    // A pipe may deliver its first bytes one by one, so this reads until it has four.
    let mut magic = Vec::with_capacity(4);
    input.by_ref().take(4).read_to_end(&mut magic)?;
    let kind = magic.clone();
    let whole = BufReader::with_capacity(BUFFER_BYTES, io::Cursor::new(magic).chain(input));
    Ok(match kind.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(BufReader::with_capacity(
            BUFFER_BYTES,
            // Files of several members come from `cat a.gz b.gz` and from parallel compressors.
            flate2::bufread::MultiGzDecoder::new(whole),
        )),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(BufReader::with_capacity(
            BUFFER_BYTES,
            zstd::Decoder::with_buffer(whole)?,
        )),
        _ => Box::new(whole),
    })
}

struct Counted<'a, R> {
    inner: R,
    consumed: &'a AtomicU64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.consumed.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    fn lines(content: &[u8]) -> anyhow::Result<Vec<(u64, String)>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("events");
        std::fs::write(&path, content)?;
        let consumed = AtomicU64::new(0);
        let mut lines = Lines::open(&path, &consumed)?;
        let mut line = Vec::new();
        let mut all = Vec::new();
        while let Some(read) = lines.next(&mut line)? {
            all.push((read.number, String::from_utf8_lossy(&line).into_owned()));
        }
        assert_eq!(consumed.load(Ordering::Relaxed), content.len() as u64);
        Ok(all)
    }

    #[test]
    fn reads_plain_and_compressed() {
        let plain = b"\xef\xbb\xbf{\"a\":1}\r\n\n{\"a\":2}";
        let expect = vec![
            (1, "{\"a\":1}".to_owned()),
            (2, String::new()),
            (3, "{\"a\":2}".to_owned()),
        ];
        assert_eq!(lines(plain).expect("lines"), expect);
        assert_eq!(lines(&gzip(plain)).expect("lines"), expect);
        assert_eq!(
            lines(&zstd::encode_all(&plain[..], 1).expect("memory")).expect("lines"),
            expect
        );
        let members = [gzip(&plain[..10]), gzip(&plain[10..])].concat();
        assert_eq!(lines(&members).expect("lines"), expect);
        assert_eq!(lines(b"").expect("lines"), vec![]);
        assert_eq!(lines(b"x").expect("lines"), vec![(1, "x".to_owned())]);
    }

    #[test]
    fn a_cut_archive_is_an_error() {
        let whole = gzip(b"{\"a\":1}\n{\"a\":2}\n");
        assert!(lines(&whole[..whole.len() - 9]).is_err());
    }
}
