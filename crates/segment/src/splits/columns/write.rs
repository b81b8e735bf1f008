//! Writer of columns: converts Tantivy's columnar file to runs.

use std::io::Write;
use std::ops::Range;

use bytes::Bytes;
use firn_model::{Error, Result};
use firn_storage::split::numbers;
use tantivy::columnar::column_values::load_u64_based_column_values;
use tantivy::columnar::{CURRENT_VERSION, ColumnType, ColumnValues, ColumnarReader};
use tantivy::directory::FileSlice;
use tantivy::directory::footer::Footer;

use super::super::split_files::owned;
use super::rebuild::{self, Pieces};
use super::table::RUN_ROWS;
use super::table::{ColumnTable, IndexPlace, Runs, Stored, StoredColumn};

/// An index no longer than this is stored in the table. The index of a column with one value per document is one byte.
const INLINE_INDEX_BYTES: usize = 16;
/// Indexes are bitmaps and lists of offsets.
const COMPRESSION_LEVEL: i32 = 9;
/// Bytes of the number at the end of a column.
const LEN_BYTES: usize = 4;

/// Writes the columns of Tantivy's file and returns their places.
pub(in crate::splits) fn write(
    file: &Bytes,
    out: &mut dyn Write,
    stop: &dyn Fn() -> Result<()>,
) -> Result<ColumnTable> {
    let (_, body) = Footer::extract_footer(FileSlice::new(std::sync::Arc::new(owned(file.clone()))))?;
    let version_is_known = version(&body)? == CURRENT_VERSION as u32;
    let mut columns = Vec::new();
    let (mut file_start, mut start) = (0, 0);
    for (_, handle) in ColumnarReader::open(body)?.list_columns()? {
        stop()?;
        let range = file_start..file_start + handle.num_bytes().get_bytes();
        let bytes = &file[range.start as usize..range.end as usize];
        let column_type = handle.column_type();
        let stored = match version_is_known {
            true => write_runs(bytes, column_type, out, stop)?,
            false => None,
        };
        let len = match &stored {
            Some((_, len)) => *len,
            None => {
                out.write_all(bytes)?;
                bytes.len() as u64
            }
        };
        file_start = range.end;
        columns.push(StoredColumn {
            file: range,
            start,
            stored: stored.map_or(Stored::Whole, |(runs, _)| Stored::Runs(runs)),
        });
        start += len;
    }
    Ok(ColumnTable {
        columns,
        tail: file.slice(file_start as usize..),
    })
}

/// Returns the version at the end of a columnar file.
fn version(body: &FileSlice) -> Result<u32> {
    const MAGIC_BYTES: usize = 4;
    let end = body.slice_from_end(LEN_BYTES + MAGIC_BYTES).read_bytes()?;
    let number = end.first_chunk().map(|number| u32::from_le_bytes(*number));
    number.ok_or_else(|| Error::internal("a file of columns has no end"))
}

/// Writes one column in runs. `None`, and nothing written: the column could not be rebuilt byte for byte.
fn write_runs(
    bytes: &[u8],
    column_type: ColumnType,
    out: &mut dyn Write,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Option<(Runs, u64)>> {
    let Some(taken) = take_apart(bytes, column_type) else {
        return Ok(None);
    };
    let column = load_u64_based_column_values::<u64>(owned(Bytes::copy_from_slice(&bytes[taken.values.clone()])))?;
    let mut values = vec![0; column.num_vals() as usize];
    column.get_range(0, &mut values);
    let dictionary = taken.dictionary.as_ref().map(|range| &bytes[range.clone()]);
    let index = &bytes[taken.index.clone()];
    let pieces = Pieces {
        dictionary,
        index,
        codec: bytes[taken.values.start],
        values: &values,
    };
    let again = rebuild::column(&pieces).ok().flatten();
    if values.is_empty() || again.as_deref() != Some(bytes) {
        return Ok(None);
    }
    let dictionary = dictionary.unwrap_or_default();
    out.write_all(dictionary)?;
    let (index, packed_len) = match index.len() <= INLINE_INDEX_BYTES {
        true => (IndexPlace::Inline(index.to_vec()), 0),
        false => {
            let packed = zstd::bulk::compress(index, COMPRESSION_LEVEL)?;
            out.write_all(&packed)?;
            (
                IndexPlace::Packed(packed.len() as u64, index.len() as u64),
                packed.len() as u64,
            )
        }
    };
    let mut ends = Vec::new();
    let mut end = 0;
    for run in values.chunks(RUN_ROWS as usize) {
        stop()?;
        let packed = numbers::pack(run)?;
        out.write_all(&packed)?;
        end += packed.len() as u64;
        ends.push(end);
    }
    let runs = Runs {
        dictionary: taken.dictionary.map(|range| range.len() as u64),
        index,
        codec: pieces.codec,
        rows: column.num_vals(),
        min: column.min_value(),
        max: column.max_value(),
        ends,
    };
    Ok(Some((runs, dictionary.len() as u64 + packed_len + end)))
}

/// Ranges of the pieces of a column.
struct Taken {
    dictionary: Option<Range<usize>>,
    index: Range<usize>,
    values: Range<usize>,
}

/// Finds the pieces of a column; `None`: columns of this type are stored whole.
fn take_apart(bytes: &[u8], column_type: ColumnType) -> Option<Taken> {
    let len_at = |end: usize| {
        let number = bytes.get(end.checked_sub(LEN_BYTES)?..end)?.first_chunk()?;
        Some(u32::from_le_bytes(*number) as usize)
    };
    let (dictionary, end) = match column_type {
        ColumnType::Str | ColumnType::Bytes => (Some(0..len_at(bytes.len())?), bytes.len() - LEN_BYTES),
        ColumnType::IpAddr => return None,
        _ => (None, bytes.len()),
    };
    let start = dictionary.as_ref().map_or(0, |range| range.end);
    let index_end = start.checked_add(len_at(end)?)?;
    let values = index_end..end - LEN_BYTES;
    rebuild::codec(*bytes.get(values.start)?)?;
    (values.start < values.end).then_some(Taken {
        dictionary,
        index: start..index_end,
        values,
    })
}
