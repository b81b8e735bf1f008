//! Highlighting of query matches in the fields of a hit.

use firn_query::search::HighlightBudget;
use serde_json::{Map, Value, json};

use super::request::EventSelection;

/// Markers around a match: the console converts them to elements. Text that looks like other markup is not affected.
const MARKS: (&str, &str) = ("@firn-mark@", "@/firn-mark@");
/// Highlighting must not delay the page. Per field it covers as much text as a page shows at first, and it covers all
/// ordinary events of a page. On a page of long texts the last ones have no marks: 2 million are some 50 ms of one
/// core.
pub(super) const BUDGET: HighlightBudget = HighlightBudget {
    field_chars: 4_000,
    spent_max: 2_000_000,
};

/// Returns the `highlight` part of a search for hits: over the columns, and over all fields if the request says so. It
/// marks matches of the search's query, or of `query`. `None`: there is nothing to mark.
pub(super) fn highlight(question: &EventSelection, query: Option<&Value>) -> Option<Value> {
    let columns = question.columns.iter().map(String::as_str);
    let all = question.highlight.then_some("*");
    let fields: Map<String, Value> = all
        .into_iter()
        .chain(columns)
        .map(|name| (name.to_owned(), json!({})))
        .collect();
    if fields.is_empty() || question.conditions().is_empty() {
        return None;
    }
    let mut highlight = json!({
        "pre_tags": [MARKS.0],
        "post_tags": [MARKS.1],
        "number_of_fragments": 0,
        "fields": fields,
    });
    if let Some(query) = query {
        highlight["highlight_query"] = query.clone();
    }
    Some(highlight)
}
