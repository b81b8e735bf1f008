//! Highlighting of query matches in the fields of a hit.

use serde_json::{Map, Value, json};

use super::request::EventSelection;

/// Markers around a match: the console converts them to elements. Text that looks like other markup is not affected.
const MARKS: (&str, &str) = ("@firn-mark@", "@/firn-mark@");
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
