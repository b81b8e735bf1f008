//! End of a page of hits.

use super::SortValue;

/// End of a page of hits; the next page starts after it.
#[derive(Debug, Clone)]
pub struct After {
    pub(crate) values: Vec<SortValue>,
    /// The segment's number and the document. `None`: after all hits with these values.
    pub(crate) tie: Option<(u32, tantivy::DocId)>,
}
