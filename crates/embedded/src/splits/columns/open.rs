//! Opens a column of a split by its runs.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use firn_model::{Error, ErrorKind, Result};
use tantivy::HasLen;
use tantivy::columnar::column_index::open_column_index;
use tantivy::columnar::{CURRENT_VERSION, Column, Dictionary};
use tantivy::directory::{FileHandle, FileSlice, OwnedBytes};

use super::super::directory::{SplitFiles, owned};
use super::table::{IndexPlace, Runs, Stored, StoredColumn};
use super::values::RunValues;
use crate::segment_cache::CacheKey;

/// Dictionaries no longer than this are read whole, together with their columns: those that are shown in buckets are
/// looked up at the end, which would be another round of requests.
const DICTIONARY_BYTES: u64 = 32 << 10;
/// The index of a dictionary is in its last part of so many, and of no fewer bytes than that.
const DICTIONARY_END_SHARE: u64 = 64;
const DICTIONARY_END_BYTES: u64 = 8 << 10;

thread_local! {
    /// `Some`: whoever reads a whole column now asks whether it is kept in runs.
    static ASKED: RefCell<Option<Option<StoredRuns>>> = const { RefCell::new(None) };
}

/// A column in runs.
#[derive(Clone)]
pub(crate) struct StoredRuns {
    pub(super) files: Arc<SplitFiles>,
    /// The part that it lies in.
    pub(super) part: usize,
    /// Its number in the table.
    column: usize,
}

impl StoredRuns {
    /// The column behind a slice of Tantivy's file of columns; `None`: it is not kept in runs. All that is known of a
    /// slice is how to read it, so that is how it is asked.
    pub(crate) fn behind(slice: &FileSlice) -> Option<Self> {
        ASKED.set(Some(None));
        let _ = slice.read_bytes();
        ASKED.take().flatten()
    }

    /// Answers the question of [`StoredRuns::behind`] in the thread that asks; false: nobody does.
    pub(super) fn tell(files: &Arc<SplitFiles>, part: usize, column: usize) -> bool {
        ASKED.with_borrow_mut(|asked| match asked {
            Some(answer) => {
                *answer = Some(Self {
                    files: Arc::clone(files),
                    part,
                    column,
                });
                true
            }
            None => false,
        })
    }

    fn column(&self) -> &StoredColumn {
        let table = self
            .files
            .columns
            .as_ref()
            .expect("there is one where a column of it is");
        &table.columns[self.column]
    }

    pub(super) fn runs(&self) -> &Runs {
        match &self.column().stored {
            Stored::Runs(runs) => runs,
            Stored::Whole => unreachable!("only columns in runs are told"),
        }
    }

    /// A run, in the part.
    pub(super) fn run(&self, number: usize) -> Range<u64> {
        self.column().run(self.runs(), number)
    }

    /// Which documents have values, as Tantivy writes it.
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

    /// The place of the dictionary in the part, if these are strings.
    pub(super) fn dictionary_range(&self) -> Option<Range<u64>> {
        self.column().dictionary(self.runs())
    }

    /// Opens the values, which are kept under a name.
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
