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

/// What `complete` makes of a text in which `|` is the cursor; slots as `kind<typed>start..end`.
#[cfg(test)]
#[track_caller]
pub(super) fn check(complete: impl Fn(&str, usize) -> Vec<Slot>, text: &str, expect: &[&str]) {
    let cursor = text.find('|').unwrap();
    let text = text.replacen('|', "", 1);
    let shown: Vec<String> = complete(&text, cursor)
        .into_iter()
        .map(|slot| {
            let kind = match slot.wanted {
                Wanted::Field => "field".to_owned(),
                Wanted::Value(name) => format!("value of {name}"),
                Wanted::Operator(name) => format!("operator of {name}"),
                Wanted::Conjunction => "conjunction".to_owned(),
            };
            format!("{kind}<{}>{}..{}", slot.typed, slot.replace.start, slot.replace.end)
        })
        .collect();
    assert_eq!(shown, expect, "{text}");
}
