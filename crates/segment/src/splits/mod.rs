//! Conversion of segments to splits, and reading of splits as segments.
//!
//! [`write_split`] writes a committed segment as one object. [`open_split`] opens such an object as a
//! [`Segment`](crate::segment::Segment); it reads only the footer. Searches use it like any other segment, and read
//! missing bytes on demand through [`SplitBytes`]. A split differs from a segment on disk where the segment would need
//! whole columns: documents contain their sequence numbers ([`document`]), and zones of `@timestamp` and lengths of
//! texts, which a segment on disk computes when they are first needed, are stored. The format: `docs/formats/split.md`.

mod bytes;
mod column_totals;
mod columns;
mod directory;
mod document;
pub mod dry_run;
mod filters;
mod lengths;
mod names;
mod open;
mod open_recorder;
mod open_split;
mod read_extent;
mod restore;
mod split_files;
mod split_info;
mod terms;
mod write;

pub use self::bytes::{ReadRange, SplitBytes, WholeSplit};
pub use self::column_totals::{ColumnTotals, Counted, Measure};
pub use self::columns::{RUN_ROWS, RunValues, StoredRuns};
pub(crate) use self::document::SplitDocument;
pub use self::filters::{ID_FIELD, shared_hash, value_hash};
pub use self::open::open_split;
pub use self::open_split::OpenSplit;
pub use self::restore::restore_segment;
pub(crate) use self::split_files::read_bytes;
pub use self::write::write_split;
