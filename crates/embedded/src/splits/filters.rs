//! Filters of the fields of a split that have many distinct values.
//!
//! A needle is a value that is in few of many splits, or in none. Where a filter says that a split does
//! not hold it, the split is not opened. Fields with few values have no filter: their dictionaries
//! are short, and most splits hold most of them.

use std::io::Write;
use std::ops::Range;

use firn_model::{Error, Result};
use firn_storage::split::{SplitFilter, filter};
use tantivy::SegmentReader;
use tantivy::schema::Field;

use crate::schema::fields;

/// The name of the filter of ids, which belong to no field of a mapping.
pub const ID_FIELD: &str = "_id";

/// Fields with fewer distinct values have no filter.
const VALUES_MIN: usize = 1024;
/// Nor have those with more: their hashes are held in memory while the filter is made, eight bytes each. More
/// than any field has in the largest segment that merges make.
const VALUES_MAX: usize = 16 << 20;
/// Ends the path in a key of a JSON field's dictionary; the kind of value follows, then the value.
const PATH_END: u8 = 0;
/// Separates the levels of a path there.
const PATH_SEPARATOR: char = '\u{1}';
/// Terms read between two looks at whether to stop.
const STOP_TERMS: usize = 4096;

/// The hash that filters know a value by: that of its term, as the mapping's field writes it.
pub fn value_hash(term: &str) -> u64 {
    filter::hash(term.as_bytes())
}

/// A filter in the part of filters.
pub(super) struct Written {
    field: String,
    range: Range<u64>,
    slices: u32,
    values: u32,
}

impl Written {
    /// As a manifest names it, with the part starting at a logical offset.
    pub(super) fn placed_at(self, start: u64) -> SplitFilter {
        SplitFilter {
            field: self.field,
            range: start + self.range.start..start + self.range.end,
            slices: self.slices,
            values: self.values,
        }
    }
}

/// Writes the filters of all fields that are to have one.
pub(super) fn write(
    reader: &SegmentReader,
    out: &mut dyn Write,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Vec<Written>> {
    let fields = fields();
    let mut writer = Writer {
        out,
        offset: 0,
        written: Vec::new(),
    };
    for field in [fields.kw, fields.kw_terms] {
        writer.json_field(reader, field, stop)?;
    }
    writer.ids(reader, fields.id, stop)?;
    Ok(writer.written)
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    offset: u64,
    written: Vec<Written>,
}

impl Writer<'_> {
    /// Terms stand by path.
    fn json_field(&mut self, reader: &SegmentReader, field: Field, stop: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut path: Vec<u8> = Vec::new();
        let mut hashes = Vec::new();
        each_term(reader, field, stop, &mut |key| {
            let end = key.iter().position(|byte| *byte == PATH_END).unwrap_or(key.len());
            if key[..end] != path[..] {
                self.put(&path_name(&path), std::mem::take(&mut hashes))?;
                path = key[..end].to_vec();
            }
            if hashes.len() <= VALUES_MAX {
                hashes.push(filter::hash(key.get(end + 2..).unwrap_or_default()));
            }
            Ok(())
        })?;
        self.put(&path_name(&path), hashes)
    }

    fn ids(&mut self, reader: &SegmentReader, field: Field, stop: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut hashes = Vec::new();
        each_term(reader, field, stop, &mut |key| {
            if hashes.len() <= VALUES_MAX {
                hashes.push(filter::hash(key));
            }
            Ok(())
        })?;
        self.put(ID_FIELD, hashes)
    }

    fn put(&mut self, field: &str, hashes: Vec<u64>) -> Result<()> {
        let values = hashes.len();
        if !(VALUES_MIN..=VALUES_MAX).contains(&values) {
            return Ok(());
        }
        let Some((bytes, slices)) = filter::build(hashes) else {
            return Ok(());
        };
        self.out.write_all(&bytes)?;
        let end = self.offset + bytes.len() as u64;
        self.written.push(Written {
            field: field.to_owned(),
            range: self.offset..end,
            slices,
            values: values as u32,
        });
        self.offset = end;
        Ok(())
    }
}

fn path_name(path: &[u8]) -> String {
    String::from_utf8_lossy(path).replace(PATH_SEPARATOR, ".")
}

fn each_term(
    reader: &SegmentReader,
    field: Field,
    stop: &dyn Fn() -> Result<()>,
    then: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let failed = |error: tantivy::TantivyError| Error::internal(format!("reading a segment failed: {error}"));
    let index = reader.inverted_index(field).map_err(failed)?;
    let mut terms = index.terms().stream()?;
    let mut seen = 0;
    while terms.advance() {
        if seen % STOP_TERMS == 0 {
            stop()?;
        }
        seen += 1;
        then(terms.key())?;
    }
    Ok(())
}
