//! One hit and its JSON, for search answers and aggregations alike.

use bytes::Bytes;
use firn_model::Result;
use serde::Serialize;
use serde_json::{Map, Value};

use super::TotalHits;

/// One hit of a search.
#[derive(Debug, Clone, Default)]
pub struct Hit {
    /// Concrete index.
    pub index: String,
    /// Empty if `no_stored_fields` is set.
    pub id: String,
    /// `None`: not scored.
    pub score: Option<f32>,
    /// Already filtered; if there is no filter, the stored bytes.
    pub source: Option<Bytes>,
    /// `_routing`.
    pub routing: Option<String>,
    /// Set only if requested.
    pub version: Option<u64>,
    /// Sequence number and primary term, set only if requested.
    pub seq_no: Option<(u64, u64)>,
    /// `_ignored`, sorted.
    pub ignored: Vec<String>,
    /// Values of `fields` and `docvalue_fields`: field name to a list of values.
    pub fields: Map<String, Value>,
    /// Marked fragments by field.
    pub highlight: Map<String, Value>,
    /// One JSON value per sort key, as Elasticsearch prints it and `search_after` accepts it; empty if sorted by score
    /// alone.
    pub sort: Vec<Value>,
    /// Names of the queries that match the hit, with their scores if requested.
    pub matched_queries: Vec<(String, Option<f32>)>,
    /// Hits of the collapsed group, by name, in the order of the request.
    pub inner_hits: Vec<(String, InnerPage)>,
}

/// `inner_hits` of one hit.
#[derive(Debug, Clone)]
pub struct InnerPage {
    /// Total of the group; `None`: hits are not counted.
    pub total: Option<TotalHits>,
    /// Highest score; `None`: hits are not scored.
    pub max_score: Option<f32>,
    /// The page.
    pub hits: Vec<Hit>,
}

impl Hit {
    /// Creates a hit with only an index.
    pub fn new(index: String) -> Self {
        Self {
            index,
            id: String::new(),
            score: None,
            source: None,
            routing: None,
            version: None,
            seq_no: None,
            ignored: Vec::new(),
            fields: Map::new(),
            highlight: Map::new(),
            sort: Vec::new(),
            matched_queries: Vec::new(),
            inner_hits: Vec::new(),
        }
    }

    /// Appends the hit as JSON; the source is copied byte for byte.
    pub fn write(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(b"{\"_index\":");
        json(output, &self.index);
        if !self.id.is_empty() {
            entry(output, "_id", &self.id);
        }
        if let Some(version) = self.version {
            entry(output, "_version", &version);
        }
        if let Some((seq_no, primary_term)) = self.seq_no {
            entry(output, "_seq_no", &seq_no);
            entry(output, "_primary_term", &primary_term);
        }
        output.extend_from_slice(b",\"_score\":");
        write_score(output, self.score);
        if let Some(routing) = &self.routing {
            entry(output, "_routing", routing);
        }
        if !self.ignored.is_empty() {
            entry(output, "_ignored", &self.ignored);
        }
        if let Some(source) = &self.source {
            output.extend_from_slice(b",\"_source\":");
            output.extend_from_slice(source);
        }
        if !self.fields.is_empty() {
            entry(output, "fields", &self.fields);
        }
        if !self.highlight.is_empty() {
            entry(output, "highlight", &self.highlight);
        }
        if !self.sort.is_empty() {
            entry(output, "sort", &self.sort);
        }
        if let Some((_, score)) = self.matched_queries.first() {
            let names = self.matched_queries.iter();
            match score {
                None => entry(
                    output,
                    "matched_queries",
                    &names.map(|(name, _)| name).collect::<Vec<_>>(),
                ),
                Some(_) => {
                    let scores: Map<String, Value> =
                        names.map(|(name, score)| (name.clone(), (*score).into())).collect();
                    entry(output, "matched_queries", &scores);
                }
            }
        }
        if !self.inner_hits.is_empty() {
            output.extend_from_slice(b",\"inner_hits\":{");
            for (number, (name, page)) in self.inner_hits.iter().enumerate() {
                if number > 0 {
                    output.push(b',');
                }
                json(output, name);
                output.extend_from_slice(b":{\"hits\":{");
                page.write(output);
                output.extend_from_slice(b"}}");
            }
            output.push(b'}');
        }
        output.push(b'}');
    }

    /// Returns the hit as a JSON value. Fails if the source is not JSON.
    pub(crate) fn to_json(&self) -> Result<Value> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        Ok(serde_json::from_slice(&bytes)?)
    }
}

impl InnerPage {
    fn write(&self, output: &mut Vec<u8>) {
        if let Some(total) = self.total {
            let relation = if total.exact { "eq" } else { "gte" };
            output.extend_from_slice(b"\"total\":");
            json(output, &serde_json::json!({"value": total.value, "relation": relation}));
            output.push(b',');
        }
        output.extend_from_slice(b"\"max_score\":");
        write_score(output, self.max_score);
        output.extend_from_slice(b",\"hits\":[");
        for (number, hit) in self.hits.iter().enumerate() {
            if number > 0 {
                output.push(b',');
            }
            hit.write(output);
        }
        output.push(b']');
    }
}

/// Appends a score: a number, or null.
pub fn write_score(output: &mut Vec<u8>, score: Option<f32>) {
    match score {
        Some(score) if score.is_finite() => json(output, &score),
        _ => output.extend_from_slice(b"null"),
    }
}

fn entry<T: Serialize + ?Sized>(output: &mut Vec<u8>, key: &str, value: &T) {
    output.push(b',');
    json(output, key);
    output.push(b':');
    json(output, value);
}

fn json<T: Serialize + ?Sized>(output: &mut Vec<u8>, value: &T) {
    // Writing to a vector cannot fail.
    let _ = serde_json::to_writer(output, value);
}
