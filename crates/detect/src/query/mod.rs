//! Conditions from queries: KQL, Lucene's syntax, and Elasticsearch's query DSL.
//!
//! A rule sees one event and no index, so a query means what it means for an index of keywords: a value equals the whole text,
//! with its case; numbers compare as numbers; a value with a prefix length (`10.0.0.0/8`) is also a network. Only the fields that
//! ECS has as texts (`message`, `error.message`, `event.original`, and names that end in `.text`) are searched by word, without
//! case. What cannot be answered from one event, or would mean something else there, is refused with a reason.

mod dsl;
mod kql;
mod lucene;
mod test;

use firn_query::query::Query;
use serde_json::Value;

use crate::expression::Expression;

pub(crate) use test::is_text;

/// Language of a query in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// The Kibana Query Language.
    #[default]
    #[serde(alias = "kql")]
    Kuery,
    /// Lucene's syntax, as in `query_string`.
    Lucene,
}

/// Returns the condition of a query in a text.
///
/// # Errors
/// The text cannot be read, or cannot be evaluated on one event; the reason for readers.
pub fn text_condition(text: &str, language: Language) -> Result<Expression, String> {
    match language {
        Language::Kuery => {
            let node = firn_query::query::kql::parse(text).map_err(|error| error.message)?;
            kql::condition(&node)
        }
        Language::Lucene => {
            let body = serde_json::json!({"query_string": {"query": text}});
            dsl_condition(&body)
        }
    }
}

/// Returns the condition of a query in the query DSL.
///
/// # Errors
/// The query cannot be read, or cannot be evaluated on one event; the reason for readers.
pub fn dsl_condition(body: &Value) -> Result<Expression, String> {
    let query = Query::parse(body).map_err(|error| error.reason().to_owned())?;
    dsl::condition(&query)
}

/// Holds for every event.
fn everything() -> Expression {
    Expression::And(Vec::new())
}

/// Holds for no event.
fn nothing() -> Expression {
    Expression::Or(Vec::new())
}

fn not(inner: Expression) -> Expression {
    Expression::Not(Box::new(inner))
}

#[cfg(test)]
mod tests;
