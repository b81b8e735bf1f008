//! Stored lengths of texts. Without them, counting the lengths reads all postings of a field.

use std::io::Write;

use firn_model::{Error, ErrorKind, Result};
use tantivy::SegmentReader;
use tantivy::directory::FileSlice;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::schema::Field;

use super::names;
use super::split_files::SplitFiles;
use super::split_info::PathLengthsAbout;
use crate::path_lengths::{PathLengths, count};
use crate::schema::fields;

/// Lengths of adjacent documents are similar: one byte each, which compresses to a third even at the fastest level.
const COMPRESSION_LEVEL: i32 = 3;
/// Ends the path in a key of a JSON field's dictionary; the kind of value follows.
const PATH_END: u8 = 0;

/// Counts and writes the lengths of every path with text.
pub(super) fn write(
    reader: &SegmentReader,
    out: &mut dyn Write,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Vec<PathLengthsAbout>> {
    let fields = fields();
    let mut written = Vec::new();
    let mut offset = 0;
    for field in [
        fields.text,
        fields.text_simple,
        fields.text_whitespace,
        fields.text_keyword,
    ] {
        for start in paths(reader, field)? {
            let lengths = count(reader, field, start.as_bytes(), stop)?;
            let codes: Vec<u8> = (0..reader.max_doc())
                .map(|doc| lengths.norms.fieldnorm_id(doc))
                .collect();
            let packed = zstd::bulk::compress(&codes, COMPRESSION_LEVEL)?;
            out.write_all(&packed)?;
            written.push(PathLengthsAbout {
                field: reader.schema().get_field_name(field).to_owned(),
                start,
                offset,
                len: packed.len() as u64,
                tokens: lengths.tokens,
                docs: lengths.docs,
            });
            offset += packed.len() as u64;
        }
    }
    Ok(written)
}

/// Returns the key prefix of each path of a field.
fn paths(reader: &SegmentReader, field: Field) -> Result<Vec<String>> {
    let failed = |error: &dyn std::fmt::Display| Error::internal(format!("reading a segment failed: {error}"));
    let index = reader.inverted_index(field).map_err(|error| failed(&error))?;
    let mut paths = Vec::new();
    let mut from: Vec<u8> = Vec::new();
    loop {
        let mut terms = index.terms().range().ge(&from).limit(1).into_stream()?;
        if !terms.advance() {
            return Ok(paths);
        }
        let key = terms.key();
        let end = key
            .iter()
            .position(|byte| *byte == PATH_END)
            .filter(|end| end + 2 <= key.len());
        let end = end.ok_or_else(|| failed(&"a key has no path"))? + 2;
        paths.push(String::from_utf8(key[..end].to_vec()).map_err(|error| failed(&error))?);
        from = key[..end].to_vec();
        // The kind of value is a letter, so incrementing it cannot overflow.
        from[end - 1] += 1;
    }
}

/// Reads the lengths of a path.
pub(super) fn read(files: &SplitFiles, about: &PathLengthsAbout, docs: u32) -> Result<PathLengths> {
    let damaged = || Error::new(ErrorKind::Repository, "the lengths of texts of a split are damaged");
    let (part, _) = files.footer.part(names::LENGTHS).ok_or_else(damaged)?;
    let packed = files.read(part, &(about.offset..about.offset.saturating_add(about.len)))?;
    let codes = zstd::bulk::decompress(&packed, docs as usize).map_err(|_| damaged())?;
    if codes.len() != docs as usize {
        return Err(damaged());
    }
    Ok(PathLengths {
        norms: FieldNormReader::open(FileSlice::from(codes)).map_err(|_| damaged())?,
        tokens: about.tokens,
        docs: about.docs,
    })
}
