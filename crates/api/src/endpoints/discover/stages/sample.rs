//! `sample`: the first events, and their total number.
//!
//! It uses two searches: the first finds the hits without counting the rest, so the hits are posted before the count is
//! known.

use std::time::Duration;

use firn_query::search::{SearchResponse, TotalHits};
use serde_json::{Value, json};

use super::outcome::Outcome;
use crate::endpoints::discover::highlights;
use crate::endpoints::discover::request::{EventSelection, write_hits};
use crate::endpoints::discover::stage_run::Step;
use crate::wire::error::ApiError;

/// Additional wait for the count: so short a delay is not visible.
const GRACE: Duration = Duration::from_millis(15);

/// Returns the body of the search for the hits, without the query.
pub(crate) fn hits_body(question: &EventSelection, size: u64, search_after: Option<&Value>) -> Value {
    let mut body = json!({
        "size": size,
        "sort": question.sort,
        "track_total_hits": false,
    });
    if let Some(after) = search_after {
        body["search_after"] = after.clone();
    }
    if !question.columns.is_empty() {
        body["fields"] = question.columns.clone().into();
    }
    if let Some(highlight) = highlights::highlight(question, None) {
        body["highlight"] = highlight;
    }
    body
}

pub(super) async fn run(step: &Step<'_>, size: u64, search_after: Option<&Value>) -> Result<Outcome, ApiError> {
    let question = &step.run.question;
    let count = question.search(json!({"size": 0, "track_total_hits": true}))?;
    let hits = question.search(hits_body(question, size, search_after))?;
    let mut counting = std::pin::pin!(step.search(count, &|_| {}));
    let mut finding = std::pin::pin!(step.search(hits, &|_| {}));
    let (found, counted) = tokio::select! {
        biased;
        found = &mut finding => {
            let found = match found {
                Ok(found) => found,
                // Dropping a search cancels it, and with it all searches of the request.
                Err(error) => {
                    let _ = counting.await;
                    return Err(error);
                }
            };
            let counted = match tokio::time::timeout(GRACE, &mut counting).await {
                Ok(counted) => counted?,
                Err(_) => {
                    let at_least = TotalHits { value: found.hits.len() as u64, exact: false };
                    step.partial(&print(&found, at_least));
                    counting.await?
                }
            };
            (found, counted)
        }
        counted = &mut counting => (finding.await?, counted?),
    };
    let total = counted.total.unwrap_or(TotalHits { value: 0, exact: false });
    Ok(Outcome::Done(print(&found, total)))
}

fn print(found: &SearchResponse, total: TotalHits) -> Vec<u8> {
    let relation = if total.exact { "eq" } else { "gte" };
    let mut output = json!({"total": {"value": total.value, "relation": relation}})
        .to_string()
        .into_bytes();
    output.pop();
    output.extend_from_slice(b",\"hits\":");
    let omitted = write_hits(&mut output, &found.hits);
    output.extend_from_slice(format!(",\"omitted\":{omitted}}}").as_bytes());
    output
}

#[cfg(test)]
mod tests {
    use firn_query::search::Hit;

    use super::*;

    fn printed(sources: &[usize], total: TotalHits) -> Value {
        let hit = |bytes: &usize| Hit {
            index: "a".to_owned(),
            id: "1".to_owned(),
            source: Some(format!("\"{}\"", "x".repeat(*bytes)).into()),
            ..Hit::default()
        };
        let found = SearchResponse {
            hits: sources.iter().map(hit).collect(),
            ..SearchResponse::default()
        };
        serde_json::from_slice(&print(&found, total)).unwrap()
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let total = TotalHits { value: 9, exact: true };
        let all = printed(&[1, 2], total);
        assert_eq!(all["total"], json!({"value": 9, "relation": "eq"}));
        assert_eq!((all["hits"].as_array().unwrap().len(), &all["omitted"]), (2, &json!(0)));
        let cut = printed(&[20 << 20, 1, 1], total);
        assert_eq!((cut["hits"].as_array().unwrap().len(), &cut["omitted"]), (1, &json!(2)));
    }
}
