//! What somebody who types a query could mean next.

use std::ops::Range;

/// Something that could stand where the cursor is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// What.
    pub wanted: Wanted,
    /// What is there of it, up to the cursor; escapes are resolved.
    pub typed: String,
    /// Bytes of the text that a choice replaces.
    pub replace: Range<usize>,
}

/// Kinds of what is typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// The name of a field.
    Field,
    /// A value of the field of this name.
    Value(String),
    /// How the field of this name is compared.
    Operator(String),
    /// `and`, `or`.
    Conjunction,
}

impl Slot {
    pub(super) fn new(wanted: Wanted, typed: impl Into<String>, replace: Range<usize>) -> Self {
        Self {
            wanted,
            typed: typed.into(),
            replace,
        }
    }
}

/// The beginning of a text up to a cursor, which stands at a character boundary.
pub(super) fn before(text: &str, cursor: usize) -> &str {
    let mut cursor = cursor.min(text.len());
    while !text.is_char_boundary(cursor) {
        cursor -= 1;
    }
    &text[..cursor]
}
