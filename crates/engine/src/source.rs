//! `_source` filtering.

/// What of `_source` goes into an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SourceFilter {
    /// Byte for byte as stored.
    #[default]
    All,
    /// Nothing.
    None,
    /// Only matching paths; patterns are full paths with `*`, naming a whole object or a leaf.
    Paths {
        /// Empty: everything.
        includes: Vec<String>,
        /// Taken out again.
        excludes: Vec<String>,
    },
}

impl SourceFilter {
    /// Applies it to one JSON object. `All` gives the bytes back unchanged (no copy).
    pub fn apply(&self, _source: &bytes::Bytes) -> crate::Result<Option<bytes::Bytes>> {
        todo!()
    }
    /// Reads the `_source` of a body: a bool, a pattern, a list, or includes/excludes.
    pub fn parse(_value: &serde_json::Value) -> crate::Result<Self> {
        todo!()
    }
}
