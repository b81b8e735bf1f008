//! Value of a field as its source wrote it.

use std::borrow::Cow;

/// Value of a field. Numbers and JSON stay the text that was received, so that nothing is lost by passing them on.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// JSON's `null`, or a value that the format calls absent (`-` in an access log).
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number in JSON's notation.
    Number(Cow<'a, str>),
    /// Text, unescaped.
    Text(Cow<'a, str>),
    /// The inside of a JSON string that contains escapes, still escaped: most values are passed on as they are.
    Escaped(&'a str),
    /// A JSON array or object.
    Json(Cow<'a, str>),
}

impl<'a> Value<'a> {
    /// Creates a text that borrows from the record.
    pub fn text(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}
