//! What names a table.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A table as manifests name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterTableRef {
    /// The SHA-256 of its bytes, 64 lower-case hex digits.
    pub id: String,
    /// Bytes of the object.
    pub len: u64,
    /// What the checksums of its pages begin with.
    pub salt: u64,
    /// Where it says which split has which shape, logical; that ends where the directory begins.
    pub numbers: u64,
    /// Its directory, logical.
    pub directory: Range<u64>,
    /// Splits that it has filters of.
    pub splits: u32,
}

impl FilterTableRef {
    /// The key of its object.
    pub fn key(&self) -> String {
        format!("filters/{}/{}.table", self.id.get(..2).unwrap_or_default(), self.id)
    }
}
