//! Columns of a split, of which a question fetches the rows that it is about.
//!
//! Tantivy reads a column whole. A split holds the same values in *runs* of [`RUN_ROWS`] rows, each packed by itself
//! ([`firn_storage::split::numbers`]), and the footer tells where each begins ([`table`]). Searches open columns as
//! [`RunValues`], which read a run when a row of it is asked for. What surprises: Tantivy's own file is not there, and yet
//! can be read. Each column of it is made again from its runs, to the byte, which is proved when the split is written; one
//! that cannot be is kept as it was. So whoever does not know of runs reads slowly and not wrongly, and a restore gets back
//! the file that the segment had.

mod file;
mod hours;
mod open;
mod rebuild;
mod table;
mod values;
mod write;

pub(super) use self::file::{ColumnsFile, copy_to};
pub(super) use self::hours::Hours;
pub(crate) use self::open::StoredRuns;
pub(super) use self::table::ColumnTable;
pub(crate) use self::values::RunValues;
pub(super) use self::write::write;

/// Rows of a run: few enough that the newest hits of a tenant cost some 20 KB of instants, and enough that a million
/// documents have only 62 of each column.
pub(crate) const RUN_ROWS: u32 = 1 << 14;
