//! What a query looks for in a field, for highlighting.
//!
//! Nothing knows that better than the code that compiles queries: whatever kind of query it comes
//! from, what is asked of the terms of a field goes through a handful of functions. Given a
//! [`Marks`], the compiler notes it there; otherwise this costs nothing.

use std::cell::RefCell;
use std::sync::Arc;

use super::compile::Compiler;

/// What a query looks for, by field.
#[derive(Default)]
pub(super) struct Marks(RefCell<Vec<(String, Mark)>>);

/// One thing that a query looks for.
#[derive(Clone)]
pub(super) enum Mark {
    /// A term.
    Term(String),
    /// Terms one after another, each with its position; `slop` moves are allowed.
    Phrase { terms: Vec<(usize, String)>, slop: u32 },
    /// Any term that passes.
    Test(Arc<TermTest>),
}

impl Mark {
    /// Rough bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        let text = |text: &String| size_of::<String>() + text.len();
        size_of::<Self>()
            + match self {
                Self::Term(term) => text(term),
                Self::Phrase { terms, .. } => terms.iter().map(|(_, term)| text(term)).sum(),
                Self::Test(_) => 0,
            }
    }
}

/// Whether a term matches.
pub(super) type TermTest = dyn Fn(&str) -> bool + Send + Sync;

impl Marks {
    /// Everything noted, in the order of the query: the path of the field and what is asked of it.
    pub(super) fn into_inner(self) -> Vec<(String, Mark)> {
        self.0.into_inner()
    }
}

impl Compiler<'_> {
    /// Notes what the query looks for, if somebody wants to know.
    pub(super) fn mark(&self, path: &str, mark: impl FnOnce() -> Mark) {
        if let Some(marks) = self.marks
            && !path.starts_with('_')
        {
            marks.0.borrow_mut().push((path.to_owned(), mark()));
        }
    }

    /// The same without notes: for what documents must not have.
    pub(super) fn unmarked(self) -> Self {
        Self { marks: None, ..self }
    }
}
