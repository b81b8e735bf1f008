//! Columns of a segment, read as order-preserving `u64`s.
//!
//! Tantivy picks the number type of a JSON column by the values in a segment: the same field may be
//! `i64` in one segment, and `u64` or `f64` in another. [`NumColumn`] hides that without loss:
//! every type maps to `u64` in its order, and [`Place`] gives the position of any number in that
//! order.

use std::cmp::Ordering;
use std::ops::RangeInclusive;
use std::sync::Arc;

use firn_model::{Error, Result};
use tantivy::columnar::{Column, ColumnIndex, ColumnType, MonotonicallyMappableToU64, NumericalType};
use tantivy::directory::error::OpenReadError;
use tantivy::{DocId, SegmentReader, TantivyError};

pub use super::presence::is_full;
use super::strings::StrColumn;
use super::{paths, presence};
use crate::schema::Class;
use crate::segment::Segment;
use crate::segment_cache::{CACHE, CacheKey};
use crate::splits::dry_run::{self, Rows};
use crate::splits::{RunValues, StoredRuns, read_bytes};
use firn_model::metadata::TIMESTAMP;

/// Converts an error of the segment library into ours.
pub fn failed(error: TantivyError) -> Error {
    // An error of ours that passed through Tantivy comes out unchanged.
    let io = match &error {
        TantivyError::IoError(io) => Some(io),
        TantivyError::OpenReadError(OpenReadError::IoError { io_error, .. }) => Some(io_error),
        _ => None,
    };
    if let Some(own) = io.and_then(|io| io.get_ref()?.downcast_ref::<Error>()) {
        return own.clone();
    }
    Error::internal(format!("reading a segment failed: {error}"))
}

/// A number of a query or a document.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    /// An integer of the range of `i64` or `u64`.
    Int(i128),
    /// A float; never NaN.
    Float(f64),
}

impl Number {
    /// Returns the nearest `f64`.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    /// Compares by value, exactly.
    pub fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(&b),
            (Self::Float(a), Self::Float(b)) => a.total_cmp(&b),
            (Self::Int(a), Self::Float(b)) => compare_int_float(a, b),
            (Self::Float(a), Self::Int(b)) => compare_int_float(b, a).reverse(),
        }
    }
}

fn compare_int_float(int: i128, float: f64) -> Ordering {
    // The cast saturates, which is right: every `i64` and `u64` is far inside of `i128`.
    let floor = float.floor();
    int.cmp(&(floor as i128))
        .then(if float > floor { Ordering::Less } else { Ordering::Equal })
}

/// Position of a number among the raw values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The number is this raw value.
    At(u64),
    /// The number is between the previous raw value and this one.
    Before(u64),
    /// The number is larger than every raw value of the column's type.
    Past,
}

/// A range of numbers: bounds, and whether they are inclusive; `None`: open.
#[derive(Debug, Clone, Copy, Default)]
pub struct NumRange {
    /// Lower bound.
    pub lower: Option<(Number, bool)>,
    /// Upper bound.
    pub upper: Option<(Number, bool)>,
}

/// A column of numbers.
#[derive(Clone)]
pub struct NumColumn {
    /// Raw values.
    pub column: Column<u64>,
    kind: NumericalType,
}

const NUMERIC: [ColumnType; 3] = [ColumnType::I64, ColumnType::U64, ColumnType::F64];

impl NumColumn {
    /// Opens the numbers of a field; `None`: the segment has none.
    pub fn open(reader: &SegmentReader, path: &str) -> Result<Option<Self>> {
        Self::open_named(reader, &paths::column_name("num", path))
    }

    /// Opens the timestamps of a segment rounded to the hour; `unit` is the size of an hour in
    /// stored units. `None`: the segment does not store them.
    pub fn open_hours(segment: &Segment, unit: u64) -> Result<Option<Self>> {
        let Some(runs) = segment.derived.split().and_then(|split| split.hours(unit)) else {
            return Ok(None);
        };
        let opened = once_opened(&segment.reader, "hours", TIMESTAMP, |key| {
            Ok(Some(Self {
                column: runs.values(key.clone())?,
                kind: NumericalType::I64,
            }))
        })?;
        if let Some(opened) = &opened {
            note_rows(&opened.column);
        }
        Ok(opened)
    }

    /// Like [`NumColumn::open`], for callers that open the column again before they read values: a
    /// dry-run prefetch does not record the values.
    pub fn look_at(reader: &SegmentReader, path: &str) -> Result<Option<Self>> {
        Self::find(reader, &paths::column_name("num", path))
    }

    /// Opens a column by its full name.
    pub fn open_named(reader: &SegmentReader, name: &str) -> Result<Option<Self>> {
        let opened = Self::find(reader, name)?;
        if let Some(opened) = &opened {
            note_rows(&opened.column);
        }
        Ok(opened)
    }

    fn find(reader: &SegmentReader, name: &str) -> Result<Option<Self>> {
        once_opened(reader, "num", name, |key| {
            let handles = reader.fast_fields().dynamic_column_handles(name).map_err(failed)?;
            let Some(handle) = handles.iter().find(|handle| NUMERIC.contains(&handle.column_type())) else {
                return Ok(None);
            };
            let column = match StoredRuns::behind(handle.file_slice()) {
                Some(runs) => Some(runs.values(key.clone())?),
                None => handle.open_u64_lenient()?,
            };
            let kind = handle.column_type().numerical_type();
            Ok(column.zip(kind).map(|(column, kind)| Self { column, kind }))
        })
    }

    /// Opens a column of a split that stores totals, without its documents, by its full name. Reads
    /// nothing.
    pub fn known(reader: &SegmentReader, name: &str) -> Result<Option<(Self, StoredRuns)>> {
        let handles = reader.fast_fields().dynamic_column_handles(name).map_err(failed)?;
        let Some(handle) = handles.iter().find(|handle| NUMERIC.contains(&handle.column_type())) else {
            return Ok(None);
        };
        let runs = StoredRuns::behind(handle.file_slice()).filter(|runs| runs.totals().is_some());
        let known = runs.zip(handle.column_type().numerical_type());
        Ok(known.map(|(runs, kind)| {
            let column = runs.without_documents(known_key(reader, name), reader.max_doc());
            (Self { column, kind }, runs)
        }))
    }

    /// Returns whether raw values are those of `i64`.
    pub fn is_i64(&self) -> bool {
        self.kind == NumericalType::I64
    }

    /// Returns whether the values are integers.
    pub fn is_integer(&self) -> bool {
        self.kind != NumericalType::F64
    }

    /// Returns the number of a raw value.
    pub fn number(&self, raw: u64) -> Number {
        match self.kind {
            NumericalType::I64 => Number::Int(i64::from_u64(raw).into()),
            NumericalType::U64 => Number::Int(raw.into()),
            NumericalType::F64 => Number::Float(f64::from_u64(raw)),
        }
    }

    /// Returns the nearest `f64` of a raw value.
    pub fn as_f64(&self, raw: u64) -> f64 {
        match self.kind {
            NumericalType::I64 => i64::from_u64(raw) as f64,
            NumericalType::U64 => raw as f64,
            NumericalType::F64 => f64::from_u64(raw),
        }
    }

    /// Returns the number of a raw value, rounded down to an `i64`.
    pub fn as_i64(&self, raw: u64) -> i64 {
        match self.kind {
            NumericalType::I64 => i64::from_u64(raw),
            NumericalType::U64 => i64::try_from(raw).unwrap_or(i64::MAX),
            NumericalType::F64 => f64::from_u64(raw).floor() as i64,
        }
    }

    /// Returns the position of `number`.
    pub fn place(&self, number: Number) -> Place {
        match self.kind {
            NumericalType::I64 => place_int(number, i64::MIN.into(), i64::MAX.into(), |value| {
                (value as i64).to_u64()
            }),
            NumericalType::U64 => place_int(number, 0, u64::MAX.into(), |value| value as u64),
            NumericalType::F64 => match number {
                // Adding zero makes -0.0 the same as 0.0.
                Number::Float(value) => Place::At((value + 0.0).to_u64()),
                Number::Int(value) => {
                    let near = value as f64;
                    match compare_int_float(value, near) {
                        Ordering::Equal => Place::At(near.to_u64()),
                        Ordering::Less => Place::Before(near.to_u64()),
                        Ordering::Greater => Place::Before(near.next_up().to_u64()),
                    }
                }
            },
        }
    }

    /// Returns the raw values in a range; `None`: no raw value is in it.
    pub fn raw_range(&self, range: &NumRange) -> Option<RangeInclusive<u64>> {
        let start = match range.lower {
            None => 0,
            Some((number, included)) => match self.place(number) {
                Place::At(raw) if included => raw,
                Place::At(raw) => raw.checked_add(1)?,
                Place::Before(raw) => raw,
                Place::Past => return None,
            },
        };
        let end = match range.upper {
            None => u64::MAX,
            Some((number, included)) => match self.place(number) {
                Place::At(raw) if included => raw,
                Place::At(raw) | Place::Before(raw) => raw.checked_sub(1)?,
                Place::Past => u64::MAX,
            },
        };
        (start <= end).then_some(start..=end)
    }
}

fn place_int(number: Number, min: i128, max: i128, raw: impl Fn(i128) -> u64) -> Place {
    let (value, exact) = match number {
        Number::Int(value) => (value, true),
        Number::Float(value) => (value.ceil() as i128, value.ceil() == value),
    };
    if value > max {
        Place::Past
    } else if value < min {
        Place::Before(raw(min))
    } else if exact {
        Place::At(raw(value))
    } else {
        Place::Before(raw(value))
    }
}

/// Opens a column, or returns it from the cache. A column of numbers has a head for every 512
/// documents; reading the heads of a million documents took a tenth of a millisecond each time.
fn once_opened<T: Clone + Send + Sync + 'static>(
    reader: &SegmentReader,
    kind: &str,
    name: &str,
    open: impl FnOnce(&CacheKey) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let key = CacheKey {
        segment: reader.segment_id(),
        name: format!("{kind} {name}").into(),
    };
    if let Some(column) = CACHE.get::<Option<T>>(&key) {
        return Ok(column.as_ref().clone());
    }
    let before = read_bytes();
    let column = open(&key)?;
    let bytes = (read_bytes() - before) as usize + COLUMN_BYTES + reader.max_doc() as usize / HEAD_DOCS * HEAD_BYTES;
    CACHE.put(key, Arc::new(column.clone()), bytes);
    Ok(column)
}

/// Approximate bytes of an open column, and of the heads of its blocks.
const COLUMN_BYTES: usize = 512;
const HEAD_DOCS: usize = 512;
const HEAD_BYTES: usize = 48;

/// Opens the strings of a field; `None`: the segment has none, or the class has no column.
pub fn open_strings(reader: &SegmentReader, class: Class, path: &str) -> Result<Option<StrColumn>> {
    let Some(name) = paths::string_column_name(class, path) else {
        return Ok(None);
    };
    let opened = once_opened(reader, "str", &name, |key| {
        let fields = reader.fast_fields();
        let Some(handle) = fields.dynamic_column_handle(&name, ColumnType::Str).map_err(failed)? else {
            return Ok(None);
        };
        if let Some(runs) = StoredRuns::behind(handle.file_slice()) {
            // In a dry-run prefetch, both reads must be recorded.
            let (dictionary, ords) = (runs.dictionary(), runs.values(key.clone()));
            return Ok(Some(StrColumn::new(dictionary?, ords?)));
        }
        Ok(fields.str(&name).map_err(failed)?.map(StrColumn::from))
    })?;
    if let Some(opened) = &opened {
        note_rows(opened.ords());
    }
    Ok(opened)
}

/// Finds the string column of a split that stores totals. Reads nothing.
pub fn known_strings(reader: &SegmentReader, class: Class, path: &str) -> Result<Option<StoredRuns>> {
    let Some(name) = paths::string_column_name(class, path) else {
        return Ok(None);
    };
    let fields = reader.fast_fields();
    let handle = fields.dynamic_column_handle(&name, ColumnType::Str).map_err(failed)?;
    let runs = handle.and_then(|handle| StoredRuns::behind(handle.file_slice()));
    Ok(runs.filter(|runs| runs.totals().is_some()))
}

/// Opens the strings of such a column, without its documents. Reads the dictionary.
pub fn strings_without_documents(reader: &SegmentReader, runs: &StoredRuns) -> Result<StrColumn> {
    let ords = runs.without_documents(known_key(reader, "strings"), reader.max_doc());
    Ok(StrColumn::new(runs.dictionary()?, ords))
}

/// Returns the cache key of a column without documents. Such a column loads no run, so nothing is
/// cached under this key.
fn known_key(reader: &SegmentReader, name: &str) -> CacheKey {
    CacheKey {
        segment: reader.segment_id(),
        name: format!("known {name}").into(),
    }
}

/// Records, in a dry-run prefetch ([`crate::splits::dry_run`]), the reads that the values of the
/// current rows need.
fn note_rows(column: &Column<u64>) {
    if !dry_run::is_collecting() {
        return;
    }
    if let Some(values) = column.values.downcast_ref::<RunValues>() {
        match dry_run::rows() {
            Rows::All => values.note(0..column.values.num_vals()),
            Rows::Of(docs) => docs
                .iter()
                .for_each(|docs| values.note(column.index.docid_range_to_rowids(docs.clone()))),
        }
    }
}

/// Reads the values of rows, which ascend and may repeat. If every document has one value, row
/// numbers are document numbers.
pub fn read_values(column: &Column<u64>, docs: &[DocId], values: &mut [u64]) {
    match docs.first() {
        // Adjacent values are unpacked together.
        Some(&first) if is_run(docs, first) => column.values.get_range(first.into(), values),
        _ => column.values.get_vals(docs, values),
    }
}

/// Returns whether documents follow each other without gap or repetition; the first and last
/// document alone do not show this. It has no branch per document, so it costs almost nothing.
pub fn is_run(docs: &[DocId], first: DocId) -> bool {
    let ends_fit = docs
        .last()
        .is_some_and(|last| (last - first) as usize + 1 == docs.len());
    let differences = || {
        docs.iter()
            .zip(first..)
            .fold(0, |found, (doc, expected)| found | (doc ^ expected))
    };
    ends_fit && differences() == 0
}

/// Returns how many documents of a segment have a value.
pub fn docs_with_value(index: &ColumnIndex, max_doc: DocId) -> u64 {
    u64::from(match index {
        ColumnIndex::Empty { .. } => 0,
        ColumnIndex::Full => max_doc,
        ColumnIndex::Optional(optional) => optional.num_non_nulls(),
        ColumnIndex::Multivalued(_) => (0..max_doc).filter(|doc| index.has_value(*doc)).count() as u32,
    })
}

/// The values of a block of documents: `raws[i]` belongs to the document at `positions[i]` of the
/// block. The buffers are reused for the next block.
#[derive(Default)]
pub struct ValueBlock {
    /// Ascending. A document with several values occurs several times, a document without values
    /// not at all.
    pub positions: Vec<u32>,
    /// Raw values.
    pub raws: Vec<u64>,
    rows: Vec<u32>,
    found: Vec<DocId>,
}

impl ValueBlock {
    /// Reads the values of `docs`, which ascend and may repeat.
    pub fn read(&mut self, column: &Column<u64>, docs: &[DocId]) {
        if matches!(column.index, ColumnIndex::Full) {
            let known = self.positions.len() as u32;
            self.positions.truncate(docs.len());
            self.positions.extend(known..docs.len() as u32);
            // An earlier block that was read through an index may have set other positions.
            if !self.rows.is_empty() {
                self.rows.clear();
                self.positions.clear();
                self.positions.extend(0..docs.len() as u32);
            }
            self.raws.resize(docs.len(), 0);
            read_values(column, docs, &mut self.raws);
            return;
        }
        presence::find_rows(
            &column.index,
            docs,
            &mut self.positions,
            &mut self.rows,
            &mut self.found,
        );
        self.raws.resize(self.rows.len(), 0);
        read_values(column, &self.rows, &mut self.raws);
    }
}

impl ValueBlock {
    /// Returns the rows of the column that the last [`ValueBlock::read`] of `docs` read, in the order of
    /// [`ValueBlock::raws`].
    pub fn rows<'a>(&'a self, docs: &'a [DocId]) -> &'a [u32] {
        match self.rows.is_empty() && !self.raws.is_empty() {
            true => docs,
            false => &self.rows,
        }
    }

    /// Finds the rows of `docs`, which ascend and may repeat, without reading their values.
    pub fn find_rows<'a>(&'a mut self, column: &Column<u64>, docs: &'a [DocId]) -> &'a [u32] {
        if matches!(column.index, ColumnIndex::Full) {
            return docs;
        }
        presence::find_rows(
            &column.index,
            docs,
            &mut self.positions,
            &mut self.rows,
            &mut self.found,
        );
        &self.rows
    }
}

/// Wraps our error to pass it through a callback of the segment library.
pub fn into_tantivy(error: Error) -> TantivyError {
    TantivyError::from(std::io::Error::other(error))
}

impl ValueBlock {
    /// Sorts the values of each document and removes duplicates.
    pub fn sort_distinct(&mut self) {
        let mut retained = 0;
        let mut start = 0;
        while start < self.positions.len() {
            let position = self.positions[start];
            let mut end = start + 1;
            while self.positions.get(end) == Some(&position) {
                end += 1;
            }
            self.raws[start..end].sort_unstable();
            for index in start..end {
                if index > start && self.raws[index] == self.raws[index - 1] {
                    continue;
                }
                self.positions[retained] = position;
                self.raws[retained] = self.raws[index];
                retained += 1;
            }
            start = end;
        }
        self.positions.truncate(retained);
        self.raws.truncate(retained);
    }
}
