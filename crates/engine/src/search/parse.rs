//! Reading a search.

use firn_model::Result;
use serde_json::Value;

use super::{IndexTarget, SearchRequest, SortKey, TrackTotalHits};

impl SearchRequest {
    /// A request with every default: match all, size 10.
    pub fn new(_target: IndexTarget) -> Self {
        todo!()
    }
    /// Reads the body of `_search` (`None` or an empty object: all defaults).
    pub fn parse(_target: IndexTarget, _body: Option<&Value>) -> Result<Self> {
        todo!()
    }
}

/// The `sort` URL parameter: `field:desc,_score`.
pub fn parse_sort_param(_text: &str) -> Result<Vec<SortKey>> {
    todo!()
}

/// `track_total_hits` from a URL (`true`, `false`, a number).
pub fn parse_track_total_hits(_text: &str) -> Result<TrackTotalHits> {
    todo!()
}
