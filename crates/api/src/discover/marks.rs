//! What a query found in the fields of a hit, marked for a screen.

use firn_engine::search::HighlightBudget;
use serde_json::{Map, Value, json};

use super::request::Question;

/// Around what was found: the console makes elements of them, whatever else is in the text.
const MARKS: (&str, &str) = ("@firn-mark@", "@/firn-mark@");
/// Nobody waits for marks: of a field so much is looked at as a page shows of it at first, and of a page of ordinary events all. Of
/// one that is made of long texts the last ones have none: 2 million are some 50 ms of one core.
pub(super) const BUDGET: HighlightBudget = HighlightBudget {
    field_chars: 4_000,
    spent_max: 2_000_000,
};

/// The `highlight` of a search for hits: of the columns, and of all fields if that was asked for. It marks what the search's query
/// finds, or `query`. `None`: there is nothing to mark.
pub(super) fn highlight(question: &Question, query: Option<&Value>) -> Option<Value> {
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
