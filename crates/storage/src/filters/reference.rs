//! Reference to a filter table.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Reference to a table in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterTableRef {
    /// SHA-256 of the table's bytes, 64 lower-case hex digits.
    pub id: String,
    /// Length of the object in bytes.
    pub len: u64,
    /// Salt of the page checksums.
    pub salt: u64,
    /// Logical start of the shape numbers of splits; they end where the directory begins.
    pub numbers: u64,
    /// Logical range of the directory.
    pub directory: Range<u64>,
    /// Number of splits with filters in the table.
    pub splits: u32,
}

impl FilterTableRef {
    /// Returns the key of the table's object.
    pub fn key(&self) -> String {
        format!("filters/{}/{}.table", self.id.get(..2).unwrap_or_default(), self.id)
    }
}
