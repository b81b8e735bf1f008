//! Pruning: decides from bounds, tenants and terms which segments, rows and splits a search need not read.

pub(crate) mod conditions;
pub mod required_terms;
pub(crate) mod segment_pruning;
pub mod shard_conditions;
pub(crate) mod time_window;
