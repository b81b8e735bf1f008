//! A split: one immutable object that holds a segment, laid out to be read in few ranges.
//!
//! An object of [`pages`]: the segment's *parts* one after the other, then a [`footer`] with the place of
//! each part, what is small enough to be there whole, and the ranges of parts that opening the segment
//! reads. Whoever has the footer opens the segment without another request. What surprises: nothing
//! here knows what a segment is; parts are named bytes. What they mean is decided in
//! `firn_embedded::splits`. The format is described in `docs/formats/split.md`.

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

/// What a part of a split is, for statistics and for read planning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// Everything that an open needs.
    Footer,
    /// Term dictionaries.
    Terms,
    /// Document lists of terms.
    Postings,
    /// Positions of terms in texts.
    Positions,
    /// Columns.
    Columns,
    /// Stored documents.
    Store,
    /// Filters of terms.
    Filters,
    /// Lengths of texts.
    Lengths,
}

impl PartKind {
    /// All of them, in the order of statistics.
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

    /// Its name in statistics.
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
