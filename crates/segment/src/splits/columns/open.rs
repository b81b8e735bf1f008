//! Opening of a column of a split by its runs.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use firn_model::{Error, ErrorKind, Result};
use tantivy::columnar::column_index::open_column_index;
use tantivy::columnar::{CURRENT_VERSION, Column, ColumnIndex, Dictionary};
use tantivy::directory::{FileHandle, FileSlice, OwnedBytes};
use tantivy::{DocId, HasLen};

use super::super::column_totals::{ColumnTotals, Measure, decode_measures};
use super::super::names;
use super::super::split_files::{SplitFiles, owned};
use super::table::{IndexPlace, Runs, Stored, StoredColumn};
use super::values::RunValues;
use crate::segment_cache::CacheKey;

/// Dictionaries no longer than this are read whole, together with their column: the terms of the shown buckets are
/// looked up at the end, which would be another round of requests.
const DICTIONARY_BYTES: u64 = 32 << 10;
/// The index of a dictionary is in the last 1/64 of its bytes, and this read has at least `DICTIONARY_END_BYTES`.
const DICTIONARY_END_SHARE: u64 = 64;
const DICTIONARY_END_BYTES: u64 = 8 << 10;

thread_local! {
    /// `Some`: the next read of a whole column in this thread only finds out whether it is stored in runs.
    static PENDING: RefCell<Option<Option<StoredRuns>>> = const { RefCell::new(None) };
}

/// A column in runs.
#[derive(Clone)]
pub struct StoredRuns {
    pub(super) files: Arc<SplitFiles>,
    /// Number of its part.
    pub(super) part: usize,
    which: Which,
}

/// Identifies a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    /// The column with this number in the table.
    OfTable(usize),
    /// The timestamps rounded down to the hour.
    Hours,
}

impl StoredRuns {
    /// Returns the column behind a slice of Tantivy's columnar file; `None`: it is not stored in runs. A slice offers
    /// no way to ask for this but a read, so a thread-local variable carries the answer.
    pub(crate) fn behind(slice: &FileSlice) -> Option<Self> {
        PENDING.set(Some(None));
        let _ = slice.read_bytes();
        PENDING.take().flatten()
    }

    /// Answers a running [`StoredRuns::behind`] of this thread. Returns false if there is none.
    pub(super) fn answer(files: &Arc<SplitFiles>, part: usize, column: usize) -> bool {
        PENDING.with_borrow_mut(|pending| match pending {
            Some(answer) => {
                *answer = Some(Self {
                    files: Arc::clone(files),
                    part,
                    which: Which::OfTable(column),
                });
                true
            }
            None => false,
        })
    }

    /// Returns the timestamps rounded down to the hour, if an hour has `unit` units in the column; `None`: the split
    /// has none.
    pub(in crate::splits) fn hours(files: &Arc<SplitFiles>, unit: u64) -> Option<Self> {
        files.hours.as_ref().filter(|hours| hours.unit() == unit)?;
        let (part, _) = files.footer.part(names::HOURS)?;
        Some(Self {
            files: Arc::clone(files),
            part,
            which: Which::Hours,
        })
    }

    /// Returns the statistics of the column over all documents.
    pub fn totals(&self) -> Option<&ColumnTotals> {
        match self.which {
            Which::OfTable(number) => self.files.totals.as_ref()?.column(number),
            Which::Hours => None,
        }
    }

    /// Returns the place of the measures of another column by the values of this one.
    fn measures_place(&self, other: &Self) -> Option<&(usize, Range<u64>)> {
        let (Which::OfTable(_), Which::OfTable(other)) = (self.which, other.which) else {
            return None;
        };
        let measured = &self.totals()?.counted.as_ref()?.measured;
        measured.iter().find(|(column, _)| *column == other)
    }

    /// Whether the split has measures of another column by the values of this one.
    pub fn measures(&self, other: &Self) -> bool {
        self.measures_place(other).is_some()
    }

    /// Reads the measures of another column for each counted value of this one; `None`: there are none.
    pub fn measures_of(&self, other: &Self) -> Result<Option<Vec<Measure>>> {
        let (Some((_, range)), Some(totals)) = (self.measures_place(other), other.totals()) else {
            return Ok(None);
        };
        let (part, _) = self.files.footer.part(names::TOTALS).ok_or_else(damaged)?;
        let count = self
            .totals()
            .and_then(|own| own.counted.as_ref())
            .map_or(0, |own| own.values.len());
        let bytes = self.files.read(part, range)?;
        let measures = decode_measures(&bytes, count, other.runs().min, totals.sum.is_some());
        measures.map(Some).ok_or_else(damaged)
    }

    /// Opens the column without its documents: its minimum and maximum are available, its values are not.
    pub(crate) fn without_documents(&self, key: CacheKey, max_doc: DocId) -> Column<u64> {
        Column {
            index: ColumnIndex::Empty { num_docs: max_doc },
            values: Arc::new(RunValues::new(self.clone(), key)),
        }
    }

    fn column(&self) -> &StoredColumn {
        let found = match self.which {
            Which::OfTable(number) => self.files.columns.as_ref().map(|table| &table.columns[number]),
            Which::Hours => self.files.hours.as_ref().map(|hours| &hours.column),
        };
        found.expect("there is one where a column of it is")
    }

    pub(super) fn runs(&self) -> &Runs {
        match &self.column().stored {
            Stored::Runs(runs) => runs,
            Stored::Whole => unreachable!("only columns in runs are found"),
        }
    }

    /// Returns the place of a run in the part.
    pub(super) fn run(&self, number: usize) -> Range<u64> {
        self.column().run(self.runs(), number)
    }

    /// Returns the encoded set of documents with values, as Tantivy writes it.
    pub(super) fn index(&self) -> Result<Vec<u8>> {
        let runs = self.runs();
        match &runs.index {
            IndexPlace::Inline(bytes) => Ok(bytes.clone()),
            IndexPlace::Packed(_, unpacked) => {
                let packed = self.files.read(self.part, &self.column().index(runs))?;
                zstd::bulk::decompress(&packed, *unpacked as usize).map_err(|_| damaged())
            }
        }
    }

    /// Returns the place of the dictionary in the part, if this is a string column.
    pub(super) fn dictionary_range(&self) -> Option<Range<u64>> {
        self.column().dictionary(self.runs())
    }

    /// Opens the values. `key` names them in the cache.
    pub(crate) fn values(&self, key: CacheKey) -> Result<Column<u64>> {
        Ok(Column {
            index: open_column_index(OwnedBytes::new(self.index()?), CURRENT_VERSION)?,
            values: Arc::new(RunValues::new(self.clone(), key)),
        })
    }

    /// Opens the dictionary.
    pub(crate) fn dictionary(&self) -> Result<Arc<Dictionary>> {
        let range = self.dictionary_range().ok_or_else(damaged)?;
        let len = range.end - range.start;
        if len <= DICTIONARY_BYTES {
            let bytes = self.files.read(self.part, &range)?;
            return Ok(Arc::new(Dictionary::from_bytes(owned(bytes))?));
        }
        let end = len.min((len / DICTIONARY_END_SHARE).max(DICTIONARY_END_BYTES));
        self.files.note(self.part, &(range.end - end..range.end))?;
        let handle = DictionaryHandle {
            files: Arc::clone(&self.files),
            part: self.part,
            range,
        };
        Ok(Arc::new(Dictionary::open(FileSlice::new(Arc::new(handle)))?))
    }
}

fn damaged() -> Error {
    Error::new(ErrorKind::Repository, "a column of a split is damaged")
}

/// A dictionary within a part.
struct DictionaryHandle {
    files: Arc<SplitFiles>,
    part: usize,
    range: Range<u64>,
}

impl fmt::Debug for DictionaryHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "DictionaryHandle({:?})", self.range)
    }
}

impl HasLen for DictionaryHandle {
    fn len(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }
}

impl FileHandle for DictionaryHandle {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        if range.is_empty() {
            return Ok(OwnedBytes::empty());
        }
        let range = self.range.start + range.start as u64..self.range.start + range.end as u64;
        self.files.read(self.part, &range).map(owned).map_err(io::Error::other)
    }
}
