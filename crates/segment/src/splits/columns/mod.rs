//! Columns of a split, in a layout that lets a search fetch only the rows that it needs.
//!
//! Tantivy reads a column whole. A split stores the same values in *runs* of [`RUN_ROWS`] rows, each compressed
//! separately ([`firn_storage::split::numbers`]), and the footer contains the place of each run ([`table`]). Searches
//! open columns as [`RunValues`], which fetch a run when one of its rows is read. What surprises: Tantivy's file is not
//! stored, but can still be read. Each of its columns is rebuilt from its runs byte for byte; the writer of the split
//! proves this, and stores a column whole if it cannot be rebuilt. So code that does not know runs reads slowly but
//! correctly, and a restore reproduces the file of the segment.

mod file;
mod hours;
mod open;
mod rebuild;
mod table;
mod values;
mod write;

pub(super) use self::file::{ColumnsFile, copy_to};
pub(super) use self::hours::Hours;
pub use self::open::StoredRuns;
pub(super) use self::table::ColumnTable;
pub use self::table::RUN_ROWS;
pub use self::values::RunValues;
pub(super) use self::write::write;
