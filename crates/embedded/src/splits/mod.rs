//! Segments as splits, and splits as segments.
//!
//! [`write_split`] makes one object of a committed segment, [`open_split`] a [`Segment`](crate::segment::Segment) of an
//! object that lies elsewhere, of which it reads the footer and nothing else. Everything above searches
//! it as any other segment; what it has not got yet is read when it is asked for, through [`SplitBytes`]. What
//! differs from a segment on disk is what would cost whole columns there: documents carry their
//! sequence numbers with them ([`document`]), and zones of time and lengths of texts, which a segment on
//! disk computes when they are first needed, are written down. The format: `docs/formats/split.md`.

mod about;
mod bytes;
mod columns;
mod directory;
mod document;
mod extent;
mod filters;
mod lengths;
mod open;
pub(crate) mod reads;
mod recorder;
mod restore;
mod terms;
mod totals;
mod write;

pub use self::bytes::{SplitBytes, Wanted, WholeSplit};
pub(crate) use self::columns::{RUN_ROWS, RunValues, StoredRuns};
pub(crate) use self::directory::read_bytes;
pub(crate) use self::document::SplitDocument;
pub use self::filters::{ID_FIELD, shared_hash, value_hash};
pub(crate) use self::open::OpenSplit;
pub use self::open::open_split;
pub(crate) use self::restore::restore_segment;
pub(crate) use self::totals::{ColumnTotals, Counted, Measure};
pub use self::write::write_split;

/// Names of what a split holds; Tantivy's files go by their extension.
mod names {
    pub(super) const TERMS: &str = "term";
    pub(super) const POSTINGS: &str = "idx";
    pub(super) const POSITIONS: &str = "pos";
    /// Tantivy's file of columns, which is made of the next one.
    pub(super) const COLUMNS: &str = "fast";
    pub(super) const COLUMN_RUNS: &str = "columns";
    /// Instants to the hour.
    pub(super) const HOURS: &str = "hours";
    /// What is measured by the values of columns.
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
    /// What formats 1 and 2 have instead.
    pub(super) const STORE_SAMPLES: &str = "store.samples";
    pub(super) const TIME_ZONES: &str = "time.zones";
    pub(super) const COLUMN_TABLE: &str = "columns.table";
    pub(super) const HOUR_TABLE: &str = "hours.table";
    pub(super) const TOTAL_TABLE: &str = "totals.table";
}
