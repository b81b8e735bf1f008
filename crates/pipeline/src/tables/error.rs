//! Errors of tables.

use std::fmt;

/// Reason why a table cannot be loaded or refreshed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableError {
    /// Name of the table.
    pub table: String,
    /// What failed and why.
    pub reason: String,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, reason } = self;
        write!(f, "table [{table}]: {reason}")
    }
}

impl std::error::Error for TableError {}
