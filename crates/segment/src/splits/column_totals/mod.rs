//! Statistics of the columns of a whole split.
//!
//! The time window of a dashboard covers most splits completely. The number of documents for each value of a column is
//! then known without the column: the footer counts the values of columns with few values. The part `totals` holds, for
//! each value of such a column, the count, minimum, maximum and sum of another column over its documents. Deletes are
//! not part of a split, so all statistics are about the documents as they were written.

mod table;
mod write;

pub use self::table::{ColumnTotals, Counted, Measure};
pub(super) use self::table::{Totals, decode_measures};
pub(super) use self::write::write;
