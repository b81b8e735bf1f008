//! Split format: one immutable object that holds a segment, laid out so that few range reads suffice.
//!
//! A split is an object of [`pages`]: the *parts* of the segment one after the other, then a [`footer`]. The footer
//! contains the location of each part, small files as a whole, and the ranges of parts that opening the segment reads.
//! With the footer a reader opens the segment without another request. What surprises: this module does not know what a
//! segment is; parts are named bytes. `firn_segment::splits` defines their meaning. `docs/formats/split.md` describes
//! the format.

pub mod block_index;
pub mod blocks;
pub mod filter;
pub mod footer;
pub(crate) mod hashing;
pub mod numbers;
pub mod pages;
mod reference;
pub mod writer;

use serde::{Deserialize, Serialize};

pub use self::footer::{Footer, Part, VERSION};
pub use self::reference::{FilterOf, SplitFilter, SplitRef, SplitTenant};
pub use self::writer::{SplitWriter, salt_of_segment};

/// Kind of a part, for statistics and read planning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// Footer: everything that an open needs.
    Footer,
    /// Term dictionaries.
    Terms,
    /// Postings lists.
    Postings,
    /// Term positions.
    Positions,
    /// Columns.
    Columns,
    /// Stored documents.
    Store,
    /// Term filters.
    Filters,
    /// Field lengths.
    Lengths,
}

impl PartKind {
    /// All kinds, in the order of statistics.
    pub const ALL: [Self; 8] = [
        Self::Footer,
        Self::Terms,
        Self::Postings,
        Self::Positions,
        Self::Columns,
        Self::Store,
        Self::Filters,
        Self::Lengths,
    ];

    /// Returns the name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Footer => "footer",
            Self::Terms => "terms",
            Self::Postings => "postings",
            Self::Positions => "positions",
            Self::Columns => "columns",
            Self::Store => "store",
            Self::Filters => "filters",
            Self::Lengths => "lengths",
        }
    }
}
