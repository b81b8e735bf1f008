//! Reference search engine, simple and slow: a list of documents, each tested against the query, and aggregations over
//! lists of matches.
//!
//! It shares no code with firn and reads the same JSON bodies, as in Elasticsearch's documentation. It implements what
//! [`crate::random`] generates and panics on anything else. Tests compare its answers with firn's, and with a real
//! server's to decide which of the two is wrong.

mod aggs;
mod compare;
mod dates;
mod query;
mod query_string;
mod schema;
mod sort;
mod text;

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

pub use compare::compare;
pub use schema::{Document, FIELDS, Kind, mappings};

/// Index of the reference engine.
#[derive(Debug, Clone, Default)]
pub struct Reference {
    documents: BTreeMap<String, Document>,
}

impl Reference {
    /// Indexes or replaces a document.
    pub fn put(&mut self, id: &str, source: Json) {
        self.documents.insert(id.to_owned(), Document::new(id, source));
    }

    /// Deletes a document, if it exists.
    pub fn delete(&mut self, id: &str) {
        self.documents.remove(id);
    }

    /// Returns ids and sources of all documents.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &Json)> {
        self.documents
            .values()
            .map(|document| (document.id.as_str(), &document.source))
    }

    /// Returns the answer to a search body, in Elasticsearch's format: `hits.total`, the hits with `_id` and `sort`,
    /// and `aggregations`. Without `sort` hits are in no order.
    pub fn answer(&self, body: &Json) -> Json {
        let all: Vec<&Document> = self.documents.values().collect();
        let matching = |query: &Json, documents: &[&'_ Document]| -> Vec<String> {
            let found = documents.iter().filter(|document| query::matches(query, document));
            found.map(|document| document.id.clone()).collect()
        };
        let select = |ids: &[String]| -> Vec<&Document> { ids.iter().map(|id| &self.documents[id]).collect() };
        let found = match body.get("query") {
            Some(query) => select(&matching(query, &all)),
            None => all.clone(),
        };
        let hits = match body.get("post_filter") {
            Some(query) => select(&matching(query, &found)),
            None => found.clone(),
        };
        let mut answer = json!({"hits": self.hits(body, &hits)});
        if let Some(aggregations) = body.get("aggs").filter(|level| **level != json!({})) {
            answer["aggregations"] = aggs::Scope::new(&all).level(aggregations, &found);
        }
        answer
    }

    fn hits(&self, body: &Json, found: &[&Document]) -> Json {
        let total = json!({"value": found.len(), "relation": "eq"});
        let from = body["from"].as_u64().unwrap_or(0) as usize;
        let size = body["size"].as_u64().unwrap_or(10) as usize;
        let hits: Vec<Json> = match body.get("sort") {
            None => found.iter().map(|document| json!({"_id": document.id})).collect(),
            Some(sort) => {
                let keys = sort::Key::list(sort);
                let sorted = sort::sorted(found, &keys);
                let hit = |(document, values): (&Document, Vec<Json>)| json!({"_id": document.id, "sort": values});
                sorted.into_iter().map(hit).skip(from).take(size).collect()
            }
        };
        json!({"total": total, "hits": hits})
    }
}
