//! Filters that tell which exact values a split holds.
//!
//! A needle is a value that is in few of many splits, or in none. Where a filter says that a split does
//! not hold it, the split is not opened. Fields with many values have a filter of their own; those with few share one, in which a
//! value stands with the name of its field. So a field that a split has not got at all is told, too.

use std::collections::HashSet;
use std::io::Write;
use std::ops::Range;

use firn_model::{Error, Result};
use firn_storage::split::{SplitFilter, filter};
use tantivy::SegmentReader;
use tantivy::schema::Field;

use crate::schema::fields;

/// The name of the filter of ids, which belong to no field of a mapping.
pub const ID_FIELD: &str = "_id";

/// Fields with fewer distinct values share a filter: a filter of its own takes a line of the manifest.
const VALUES_MIN: usize = 1024;
/// Fields with more have none: their hashes are held in memory while the filter is made, eight bytes each. More
/// than any field has in the largest segment that merges make.
const VALUES_MAX: usize = 16 << 20;
/// Ends the path in a key of a JSON field's dictionary; the kind of value follows, then the value.
const PATH_END: u8 = 0;
/// Separates the levels of a path there.
const PATH_SEPARATOR: char = '\u{1}';
/// Terms read between two looks at whether to stop.
const STOP_TERMS: usize = 4096;

/// The hash that a field's own filter knows a value by: that of its term, as the mapping's field writes it.
pub fn value_hash(term: &str) -> u64 {
    filter::hash(term.as_bytes())
}

/// The hash that the shared filter knows a value by.
pub fn shared_hash(field: &str, term: &str) -> u64 {
    shared(field, term.as_bytes())
}

fn shared(field: &str, term: &[u8]) -> u64 {
    filter::hash(&[field.as_bytes(), &[PATH_END], term].concat())
}

/// A filter in the part of filters.
pub(super) struct Written {
    field: String,
    range: Range<u64>,
    slices: u32,
    values: u32,
}

impl Written {
    /// Says that nothing tells the values of a field.
    fn without_filter(field: String) -> Self {
        Self {
            field,
            range: 0..0,
            slices: 0,
            values: 0,
        }
    }

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
    /// Hashes of values of fields without a filter of their own; `None`: there are too many.
    few: Option<Vec<u64>>,
    /// Fields that are done.
    names: HashSet<String>,
}

impl Writer<'_> {
    /// Terms stand by path.
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
            // Two fields of the schema have the path, and one filter would not know of the other's values.
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

    /// The filter of all fields that have none.
    fn shared(&mut self) -> Result<()> {
        match self.few.take() {
            Some(hashes) => self.write(SplitFilter::SHARED, hashes).map(drop),
            None => Ok(()),
        }
    }

    /// False: there is no filter of these.
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
    /// For a filter of its own; no more than one past the most that it may have.
    hashes: Vec<u64>,
    /// For the shared filter, as long as there are few.
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
