//! Lucene's query string syntax.

/// The syntax tree of a query string.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// The empty string, or `*:*` / a bare `*`.
    All,
    /// Clauses with their occurrence, already resolved from `AND`, `OR`, `NOT`, `+`, `-`.
    Bool {
        /// Must match.
        must: Vec<Node>,
        /// May match; one must if `must` is empty.
        should: Vec<Node>,
        /// Must not match.
        must_not: Vec<Node>,
    },
    /// `field:(…)` and `(…)^2`.
    Scoped {
        /// `None`: the default fields. May hold `*`.
        field: Option<String>,
        /// Multiplies the score.
        boost: f32,
        /// Inside.
        node: Box<Node>,
    },
    /// A bare word, unescaped.
    Word(String),
    /// `"quoted words"~slop`.
    Phrase(String, u32),
    /// A word with unescaped `*` or `?`, escapes kept as `\`.
    Wildcard(String),
    /// `word*`.
    Prefix(String),
    /// `word~distance`.
    Fuzzy(String, u8),
    /// `/regexp/`.
    Regexp(String),
    /// `[a TO b}`, `>=a`: bounds with inclusion, `*` is `None`.
    Range {
        /// Lower bound.
        lower: Option<(String, bool)>,
        /// Upper bound.
        upper: Option<(String, bool)>,
    },
    /// `_exists_:field`.
    Exists(String),
}

/// Parses Lucene's query syntax.
pub fn parse(_text: &str, _operator_and: bool) -> crate::Result<Node> {
    todo!()
}
