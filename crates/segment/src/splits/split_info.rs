//! JSON part of the footer of a split.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::commit_point::SegmentMeta;

/// See the module.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct About {
    /// Metadata of the segment from its commit point.
    pub(super) segment: SegmentMeta,
    /// Documents with a value in the string column of each path.
    #[serde(default)]
    pub(super) column_docs: BTreeMap<String, u64>,
    /// Terms are stored in pages; a restore converts them back to blocks.
    #[serde(default)]
    pub(super) paged_terms: bool,
    /// Places of the text lengths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) lengths: Vec<PathLengthsAbout>,
}

/// Place of the text lengths of one path.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PathLengthsAbout {
    /// Name of the schema field.
    pub(super) field: String,
    /// Prefix of the path's keys in the dictionary of the field.
    pub(super) start: String,
    /// Compressed bytes in the `lengths` part.
    pub(super) offset: u64,
    pub(super) len: u64,
    /// Sum of all lengths.
    pub(super) tokens: u64,
    /// Documents with text in the path.
    pub(super) docs: u64,
}
