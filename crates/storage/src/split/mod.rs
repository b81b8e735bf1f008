//! A split: one immutable object that holds a segment, laid out to be read in few ranges.

/// What a part of a split is, for statistics and for read planning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
