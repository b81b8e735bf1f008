//! Names of the parts of a split; Tantivy's files are named by their extension.

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
