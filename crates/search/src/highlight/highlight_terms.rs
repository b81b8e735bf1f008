//! The terms and patterns that a query looks for in each field, for highlighting.
//!
//! The query compiler records them, because it knows them best: for every kind of query, the tests on the terms of
//! a field pass through a few functions. Without a [`HighlightTerms`], this costs nothing.

use std::cell::RefCell;
use std::sync::Arc;

/// The terms and patterns of a query, by field.
#[derive(Default)]
pub(crate) struct HighlightTerms(RefCell<Vec<(String, HighlightTerm)>>);

/// One term, phrase or pattern of a query.
#[derive(Clone)]
pub(crate) enum HighlightTerm {
    /// A term.
    Term(String),
    /// Consecutive terms, each with its position; `slop` moves are allowed.
    Phrase { terms: Vec<(usize, String)>, slop: u32 },
    /// Any term that passes the test.
    Test(Arc<TermTest>),
}

impl HighlightTerm {
    /// Returns the approximate bytes of the mark.
    pub(crate) fn bytes(&self) -> usize {
        let text = |text: &String| size_of::<String>() + text.len();
        size_of::<Self>()
            + match self {
                Self::Term(term) => text(term),
                Self::Phrase { terms, .. } => terms.iter().map(|(_, term)| text(term)).sum(),
                Self::Test(_) => 0,
            }
    }
}

/// Test whether a term matches.
pub(crate) type TermTest = dyn Fn(&str) -> bool + Send + Sync;

impl HighlightTerms {
    /// Records a mark for the field with a path.
    pub(crate) fn push(&self, path: &str, mark: HighlightTerm) {
        self.0.borrow_mut().push((path.to_owned(), mark));
    }

    /// Returns all marks with the paths of their fields, in the order of the query.
    pub(crate) fn into_inner(self) -> Vec<(String, HighlightTerm)> {
        self.0.into_inner()
    }
}
