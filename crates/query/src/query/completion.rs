//! Completion slots: positions in a query text that is being typed, and what may stand there.

use std::ops::Range;

/// One possibility for the text at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Kind of text.
    pub wanted: CompletionKind,
    /// Typed part up to the cursor; escapes are resolved.
    pub typed: String,
    /// Byte range of the text that a completion replaces.
    pub replace: Range<usize>,
}

/// Kind of text that may stand at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionKind {
    /// The name of a field.
    Field,
    /// A value of the field of this name.
    Value(String),
    /// A comparison operator of the field of this name.
    Operator(String),
    /// `and`, `or`.
    Conjunction,
}

impl Slot {
    pub(super) fn new(wanted: CompletionKind, typed: impl Into<String>, replace: Range<usize>) -> Self {
        Self {
            wanted,
            typed: typed.into(),
            replace,
        }
    }
}

/// Returns the text up to the cursor, which must be at a character boundary.
pub(super) fn before(text: &str, cursor: usize) -> &str {
    let mut cursor = cursor.min(text.len());
    while !text.is_char_boundary(cursor) {
        cursor -= 1;
    }
    &text[..cursor]
}

/// Checks the slots that `complete` returns for a text in which `|` is the cursor; slots print as
/// `kind<typed>start..end`.
#[cfg(test)]
#[track_caller]
pub(super) fn check(complete: impl Fn(&str, usize) -> Vec<Slot>, text: &str, expect: &[&str]) {
    let cursor = text.find('|').unwrap();
    let text = text.replacen('|', "", 1);
    let shown: Vec<String> = complete(&text, cursor)
        .into_iter()
        .map(|slot| {
            let kind = match slot.wanted {
                CompletionKind::Field => "field".to_owned(),
                CompletionKind::Value(name) => format!("value of {name}"),
                CompletionKind::Operator(name) => format!("operator of {name}"),
                CompletionKind::Conjunction => "conjunction".to_owned(),
            };
            format!("{kind}<{}>{}..{}", slot.typed, slot.replace.start, slot.replace.end)
        })
        .collect();
    assert_eq!(shown, expect, "{text}");
}

/// Checks the names that `field_names` finds in a text: each as written, and unescaped.
#[cfg(test)]
#[track_caller]
pub(super) fn check_names(
    field_names: impl Fn(&str) -> Vec<(Range<usize>, String)>,
    text: &str,
    expect: &[(&str, &str)],
) {
    let found = field_names(text);
    let shown: Vec<(&str, &str)> = found
        .iter()
        .map(|(at, name)| (&text[at.clone()], name.as_str()))
        .collect();
    assert_eq!(shown, expect, "{text}");
}
