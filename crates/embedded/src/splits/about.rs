//! What the footer of a split says in words.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::shard::SegmentMeta;

/// See the module.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct About {
    /// The segment as its commit point knew it.
    pub(super) segment: SegmentMeta,
    /// Documents with a value in the column of each path of strings.
    #[serde(default)]
    pub(super) column_docs: BTreeMap<String, u64>,
    /// Terms are in pages, from which a restore makes blocks again.
    #[serde(default)]
    pub(super) paged_terms: bool,
    /// Lengths of texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) lengths: Vec<PathLengthsAbout>,
}

/// Where the lengths of one path are.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PathLengthsAbout {
    /// The field of the schema.
    pub(super) field: String,
    /// What the keys of the path begin with in the field's dictionary.
    pub(super) start: String,
    /// Packed bytes in the part of lengths.
    pub(super) offset: u64,
    pub(super) len: u64,
    /// All lengths together.
    pub(super) tokens: u64,
    /// Documents that have any.
    pub(super) docs: u64,
}
