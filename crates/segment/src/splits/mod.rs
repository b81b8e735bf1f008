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
mod open;
mod open_recorder;
mod read_extent;
mod restore;
mod split_info;
mod terms;
mod write;

pub use self::bytes::{ReadRange, SplitBytes, WholeSplit};
pub use self::column_totals::{ColumnTotals, Counted, Measure};
pub use self::columns::{RUN_ROWS, RunValues, StoredRuns};
pub(crate) use self::directory::read_bytes;
pub(crate) use self::document::SplitDocument;
pub use self::filters::{ID_FIELD, shared_hash, value_hash};
pub use self::open::OpenSplit;
pub use self::open::open_split;
pub use self::restore::restore_segment;
pub use self::write::write_split;

/// Names of the parts of a split; Tantivy's files are named by their extension.
mod names {
    pub(super) const TERMS: &str = "term";
    pub(super) const POSTINGS: &str = "idx";
    pub(super) const POSITIONS: &str = "pos";
    /// Tantivy's columnar file, which is rebuilt from `COLUMN_RUNS`.
    pub(super) const COLUMNS: &str = "fast";
    pub(super) const COLUMN_RUNS: &str = "columns";
    /// Timestamps rounded down to the hour.
    pub(super) const HOURS: &str = "hours";
    /// Measures of other columns, by value of a counted column.
    pub(super) const TOTALS: &str = "totals";
    pub(super) const FIELD_NORMS: &str = "fieldnorm";
    /// Blocks of documents; in the folder of a segment, Tantivy's store.
    pub(super) const STORE: &str = "store";
    pub(super) const STORE_INDEX: &str = "store.index";
    pub(super) const LENGTHS: &str = "lengths";
    pub(super) const FILTERS: &str = "filters";
    pub(super) const ID_FILTER: &str = "ids.filter";
    // Only in the footer:
    pub(super) const META: &str = "meta.json";
    pub(super) const STORE_GROUPS: &str = "store.groups";
    /// Replaces `STORE_GROUPS` in formats 1 and 2.
    pub(super) const STORE_SAMPLES: &str = "store.samples";
    pub(super) const TIME_ZONES: &str = "time.zones";
    pub(super) const COLUMN_TABLE: &str = "columns.table";
    pub(super) const HOUR_TABLE: &str = "hours.table";
    pub(super) const TOTAL_TABLE: &str = "totals.table";
}
