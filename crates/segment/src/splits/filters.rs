//! Term filters of a split: which exact values it may hold.
//!
//! A needle is a value that occurs in few of many splits, or in none. If a filter says that a split does not hold the
//! value, the split is not opened. A field with many values has a separate filter. Fields with few values share one
//! filter, whose entries contain the field name and the value, so the shared filter also rules out fields that the
//! split does not have at all.

use std::collections::HashSet;
use std::io::Write;
use std::ops::Range;

use firn_model::{Error, Result};
use firn_storage::split::{SplitFilter, filter};
use tantivy::SegmentReader;
use tantivy::schema::Field;

use crate::schema::fields;

/// Name of the filter of document ids, which belong to no field of a mapping.
pub const ID_FIELD: &str = "_id";

/// Fields with fewer distinct values use the shared filter, because each separate filter takes a line in the manifest.
const VALUES_MIN: usize = 1024;
/// Fields with more distinct values have no filter: the hashes are in memory while the filter is built, eight bytes
/// each. No field has more in the largest segment that merges produce.
const VALUES_MAX: usize = 16 << 20;
/// Ends the path in a key of a JSON field's dictionary; the kind of value follows, then the value.
const PATH_END: u8 = 0;
/// Separates the levels of a path in such a key.
const PATH_SEPARATOR: char = '\u{1}';
/// Terms read between two checks for cancellation.
const STOP_TERMS: usize = 4096;

/// Returns the hash of a value in the field's separate filter: the hash of its term, as the field of the mapping writes
/// it.
pub fn value_hash(term: &str) -> u64 {
    filter::hash(term.as_bytes())
}

/// Returns the hash of a value in the shared filter.
pub fn shared_hash(field: &str, term: &str) -> u64 {
    shared(field, term.as_bytes())
}

fn shared(field: &str, term: &[u8]) -> u64 {
    filter::hash(&[field.as_bytes(), &[PATH_END], term].concat())
}

/// A filter in the `filters` part.
pub(super) struct Written {
    field: String,
    range: Range<u64>,
    slices: u32,
    values: u32,
}

impl Written {
    /// Creates the entry that says that the field has no filter.
    fn without_filter(field: String) -> Self {
        Self {
            field,
            range: 0..0,
            slices: 0,
            values: 0,
        }
    }

    /// Returns the filter as the manifest names it; the part starts at logical offset `start`.
    pub(super) fn placed_at(self, start: u64) -> SplitFilter {
        SplitFilter {
            field: self.field,
            range: start + self.range.start..start + self.range.end,
            slices: self.slices,
            values: self.values,
        }
    }
}

/// Writes the filters of all fields that get one.
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
        few: Some(Vec::new()),
        names: HashSet::new(),
    };
    for field in [fields.kw_terms, fields.kw] {
        writer.json_field(reader, field, stop)?;
    }
    writer.ids(reader, fields.id, stop)?;
    writer.shared()?;
    Ok(writer.written)
}

struct Writer<'a> {
    out: &'a mut dyn Write,
    offset: u64,
    written: Vec<Written>,
    /// Hashes of the values of fields without a separate filter; `None`: there are too many.
    few: Option<Vec<u64>>,
    /// Fields that are finished.
    names: HashSet<String>,
}

impl Writer<'_> {
    /// Terms are ordered by path.
    fn json_field(&mut self, reader: &SegmentReader, field: Field, stop: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut values = Values::of(String::new());
        let mut path: Vec<u8> = Vec::new();
        each_term(reader, field, stop, &mut |key| {
            let end = key.iter().position(|byte| *byte == PATH_END).unwrap_or(key.len());
            if key[..end] != path[..] {
                path = key[..end].to_vec();
                self.put(std::mem::replace(&mut values, Values::of(path_name(&path))))?;
            }
            values.push(key.get(end + 2..).unwrap_or_default());
            Ok(())
        })?;
        self.put(values)
    }

    fn ids(&mut self, reader: &SegmentReader, field: Field, stop: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut values = Values::of(ID_FIELD.to_owned());
        each_term(reader, field, stop, &mut |key| {
            values.push(key);
            Ok(())
        })?;
        self.put(values)
    }

    fn put(&mut self, values: Values) -> Result<()> {
        let Values { field, hashes, few } = values;
        let count = hashes.len();
        if count == 0 {
            return Ok(());
        }
        if !self.names.insert(field.clone()) {
            // Two schema fields have this path, and a filter would lack the values of the other field.
            self.written.retain(|written| written.field != field);
            self.written.push(Written::without_filter(field));
            return Ok(());
        }
        if count < VALUES_MIN {
            self.few = self.few.take().filter(|all| all.len() < VALUES_MAX);
            self.few.iter_mut().for_each(|all| all.extend(&few));
            return Ok(());
        }
        if count > VALUES_MAX || !self.write(&field, hashes)? {
            self.written.push(Written::without_filter(field));
        }
        Ok(())
    }

    /// Writes the shared filter.
    fn shared(&mut self) -> Result<()> {
        match self.few.take() {
            Some(hashes) => self.write(SplitFilter::SHARED, hashes).map(drop),
            None => Ok(()),
        }
    }

    /// Writes one filter. Returns false if there is none for these values.
    fn write(&mut self, field: &str, hashes: Vec<u64>) -> Result<bool> {
        let values = hashes.len();
        if values == 0 {
            return Ok(false);
        }
        let Some((bytes, slices)) = filter::build(hashes) else {
            return Ok(false);
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
        Ok(true)
    }
}

/// The distinct values of a field.
struct Values {
    field: String,
    /// Hashes for a separate filter; at most one more than the limit.
    hashes: Vec<u64>,
    /// Hashes for the shared filter, while there are few.
    few: Vec<u64>,
}

impl Values {
    fn of(field: String) -> Self {
        Self {
            field,
            hashes: Vec::new(),
            few: Vec::new(),
        }
    }

    fn push(&mut self, term: &[u8]) {
        if self.hashes.len() <= VALUES_MAX {
            self.hashes.push(filter::hash(term));
        }
        if self.hashes.len() < VALUES_MIN {
            self.few.push(shared(&self.field, term));
        }
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
