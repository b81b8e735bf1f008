//! Virtual file that looks like Tantivy's columnar file.

use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use firn_model::{Error, ErrorKind, Result};
use firn_storage::split::numbers::Numbers;
use tantivy::HasLen;
use tantivy::directory::{FileHandle, OwnedBytes};

use super::super::split_files::{SplitFiles, owned};
use super::open::StoredRuns;
use super::rebuild::{self, Pieces};
use super::table::{ColumnTable, Runs, Stored, StoredColumn};

/// See the module.
pub(in crate::splits) struct ColumnsFile {
    pub(in crate::splits) files: Arc<SplitFiles>,
    /// Number of the part with the columns.
    pub(in crate::splits) part: usize,
}

impl fmt::Debug for ColumnsFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ColumnsFile({})", self.part)
    }
}

impl HasLen for ColumnsFile {
    fn len(&self) -> usize {
        self.files.columns.as_ref().map_or(0, ColumnTable::file_len) as usize
    }
}

impl FileHandle for ColumnsFile {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        if range.is_empty() {
            return Ok(OwnedBytes::empty());
        }
        let range = range.start as u64..range.end as u64;
        self.read(&range).map(owned).map_err(io::Error::other)
    }
}

impl ColumnsFile {
    fn read(&self, range: &Range<u64>) -> Result<Bytes> {
        let beyond = || {
            Error::new(
                ErrorKind::Repository,
                "a read goes beyond the bytes of the columns of a split",
            )
        };
        let table = self.files.columns.as_ref().ok_or_else(beyond)?;
        let end = table.columns_end();
        if let Some(start) = range.start.checked_sub(end) {
            let (start, end) = (start as usize, (range.end - end) as usize);
            return (end <= table.tail.len())
                .then(|| table.tail.slice(start..end))
                .ok_or_else(beyond);
        }
        let number = table.columns.partition_point(|column| column.file.end <= range.start);
        let column = table
            .columns
            .get(number)
            .filter(|column| range.end <= column.file.end)
            .ok_or_else(beyond)?;
        let Stored::Runs(_) = column.stored else {
            let start = column.start + (range.start - column.file.start);
            return self.files.read(self.part, &(start..start + (range.end - range.start)));
        };
        if *range == column.file && StoredRuns::answer(&self.files, self.part, number) {
            return Err(Error::new(ErrorKind::Unavailable, "the column is stored in runs"));
        }
        let whole = whole(&self.files, self.part, column)?;
        let (start, end) = (range.start - column.file.start, range.end - column.file.start);
        Ok(whole.slice(start as usize..end as usize))
    }
}

/// Reproduces a column byte for byte.
fn whole(files: &SplitFiles, part: usize, column: &StoredColumn) -> Result<Bytes> {
    let damaged = || Error::new(ErrorKind::Repository, "a column of a split is damaged");
    match &column.stored {
        Stored::Whole => {
            let len = column.file.end - column.file.start;
            files.read(part, &(column.start..column.start + len))
        }
        Stored::Runs(runs) => {
            let end = runs.ends.len().checked_sub(1).ok_or_else(damaged)?;
            // One read for all runs.
            let all = files.read(part, &(column.start..column.run(runs, end).end))?;
            let piece = |range: Range<u64>| {
                all.slice((range.start - column.start) as usize..(range.end - column.start) as usize)
            };
            let index = index(runs, &piece(column.index(runs))).ok_or_else(damaged)?;
            let mut values = vec![0; runs.rows as usize];
            for number in 0..runs.ends.len() {
                let rows = runs.rows_of(number);
                let run = Numbers::unpack(&piece(column.run(runs, number)), rows.len()).ok_or_else(damaged)?;
                run.read(0, &mut values[rows.start as usize..rows.end as usize]);
            }
            let dictionary = column.dictionary(runs).map(piece);
            let pieces = Pieces {
                dictionary: dictionary.as_deref(),
                index: &index,
                codec: runs.codec,
                values: &values,
            };
            let bytes = rebuild::column(&pieces)?.ok_or_else(damaged)?;
            (bytes.len() as u64 == column.file.end - column.file.start)
                .then(|| bytes.into())
                .ok_or_else(damaged)
        }
    }
}

fn index(runs: &Runs, packed: &[u8]) -> Option<Vec<u8>> {
    match &runs.index {
        super::table::IndexPlace::Inline(bytes) => Some(bytes.clone()),
        super::table::IndexPlace::Packed(_, unpacked) => zstd::bulk::decompress(packed, *unpacked as usize).ok(),
    }
}

/// Writes the whole file, as in the segment.
pub(in crate::splits) fn copy_to(
    files: &SplitFiles,
    part: usize,
    out: &mut dyn Write,
    stop: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let Some(table) = &files.columns else {
        return Ok(());
    };
    for column in &table.columns {
        stop()?;
        out.write_all(&whole(files, part, column)?)?;
    }
    out.write_all(&table.tail)?;
    Ok(())
}
