//! Upper bounds of a search's term lookups, from the request alone and independent of the segments.

use firn_model::mapping::{FieldType, Mapping};
use firn_query::query::Query;
use firn_query::search::SearchRequest;
use serde_json::Value;

use super::super::ShardSearch;
use crate::compile::field;
use crate::compile::field::Target;
use firn_segment::schema::Class;

/// Queries that scan dictionaries: their reads depend on the terms in the dictionary.
const LOOKING_THROUGH: &[&str] = &[
    "prefix",
    "wildcard",
    "regexp",
    "fuzzy",
    "fuzziness",
    "match_phrase_prefix",
    "match_bool_prefix",
    "phrase_prefix",
    "bool_prefix",
    "case_insensitive",
];
/// Characters in `query_string` and `simple_query_string` that may start such a query.
const LOOKING_THROUGH_LETTERS: &[char] = &['*', '?', '~', '/', '[', '{', '<', '>'];
/// Keys under which aggregations have queries.
const AGGREGATED_QUERIES: &[&str] = &["filter", "filters", "background_filter"];
/// Quotation marks of phrases.
const QUOTES: &[char] = &['"', '\u{201c}', '\u{201d}'];

/// The most that a search looks up in a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lookups {
    /// Terms that it may look up.
    pub(super) terms: u64,
    /// It reads whole dictionaries, and the postings of all terms.
    pub(super) looks_through: bool,
    /// It reads positions.
    pub(super) has_phrases: bool,
}

impl Lookups {
    pub(super) fn of(request: &SearchRequest, shards: &[ShardSearch]) -> Self {
        let mut most = Self::default();
        for shard in shards {
            let mut index = OfIndex::new(&shard.mapping, &shard.default_fields);
            let queries = std::iter::once(&request.query).chain(&request.post_filter);
            queries.chain(&shard.filters).for_each(|query| index.add_query(query));
            index.add_aggs(&request.aggs.print());
            most.terms = most.terms.max(index.found.terms);
            most.looks_through |= index.found.looks_through;
            most.has_phrases |= index.found.has_phrases;
        }
        most
    }
}

/// Analysis of the queries on one index.
struct OfIndex<'a> {
    mapping: &'a Mapping,
    /// Number of fields that a word without a field is looked up in.
    fields: u64,
    found: Lookups,
}

impl<'a> OfIndex<'a> {
    fn new(mapping: &'a Mapping, default_fields: &[String]) -> Self {
        let fields = match default_fields.iter().any(|field| field.contains('*')) || default_fields.is_empty() {
            true => mapping.leaves().len(),
            false => default_fields.len(),
        };
        Self {
            mapping,
            fields: fields.max(1) as u64,
            found: Lookups::default(),
        }
    }

    fn add_query(&mut self, query: &Query) {
        let printed = match query.without_kql(self.mapping) {
            Ok(query) => query.print(),
            // Such a query does not run on this index.
            Err(_) => return,
        };
        self.add(&printed);
    }

    /// Adds the queries in printed aggregations; all other lookups of aggregations are in columns.
    fn add_aggs(&mut self, printed: &Value) {
        match printed {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match AGGREGATED_QUERIES.contains(&name.as_str()) {
                        true => self.add(value),
                        false => self.add_aggs(value),
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|value| self.add_aggs(value)),
            _ => {}
        }
    }

    /// Adds a printed query.
    fn add(&mut self, printed: &Value) {
        self.found.terms = self.found.terms.saturating_add(self.words(printed));
    }

    /// Counts the words and numbers of a query, which bound its term lookups. A word that is looked up in several
    /// fields counts once per field.
    fn words(&mut self, query: &Value) -> u64 {
        match query {
            Value::Null => 0,
            Value::Bool(_) | Value::Number(_) => 1,
            Value::String(text) => {
                // It may be the `type` of a `multi_match`.
                self.found.looks_through |= LOOKING_THROUGH.contains(&text.as_str());
                self.found.has_phrases |= text.starts_with("phrase");
                words_of_text(text)
            }
            Value::Array(values) => values
                .iter()
                .fold(0, |sum: u64, value| sum.saturating_add(self.words(value))),
            Value::Object(fields) => fields.iter().fold(0, |sum: u64, (name, value)| {
                sum.saturating_add(self.words_of_entry(name, value))
            }),
        }
    }

    fn words_of_entry(&mut self, name: &str, value: &Value) -> u64 {
        self.found.looks_through |= LOOKING_THROUGH.contains(&name);
        self.found.has_phrases |= name.starts_with("match_phrase");
        let times = match name {
            "query_string" | "simple_query_string" | "kql" => {
                let text = value["query"].as_str().unwrap_or_default();
                self.found.looks_through |= text.contains(LOOKING_THROUGH_LETTERS) || text.contains(" TO ");
                self.found.has_phrases |= text.contains(QUOTES);
                self.fields_of(value)
            }
            "multi_match" => {
                let text = value["query"].as_str().unwrap_or_default();
                self.found.looks_through |= text.contains('/') && self.has_addresses();
                self.fields_of(value)
            }
            "exists" => {
                let path = value["field"].as_str().unwrap_or_default();
                match path.contains('*') || matches!(field::resolve(self.mapping, path), Target::Nothing) {
                    true => self.mapping.leaves().len() as u64,
                    false => 1,
                }
            }
            "term" | "terms" => return self.exact(value),
            "match" => {
                self.looks_for_blocks(value);
                1
            }
            "ids" => return values(value),
            // Numbers are in columns; a range of strings scans the terms.
            "range" => {
                self.found.looks_through |= self.is_of_terms(value);
                0
            }
            _ => 1,
        };
        self.words(value).saturating_mul(times)
    }

    /// A CIDR block of addresses scans all terms in its range.
    fn looks_for_blocks(&mut self, query: &Value) {
        let mut fields = query.as_object().into_iter().flatten();
        self.found.looks_through |= fields.any(|(path, value)| {
            let is_address =
                matches!(field::resolve(self.mapping, path), Target::Field(field) if field.field_type == FieldType::Ip);
            is_address && value.to_string().contains('/')
        });
    }

    fn has_addresses(&self) -> bool {
        let leaves = self.mapping.leaves();
        leaves.iter().any(|(_, field)| field.field_type == FieldType::Ip)
    }

    /// Counts the values of a query on keywords, where each value is one term.
    fn exact(&mut self, query: &Value) -> u64 {
        self.looks_for_blocks(query);
        let fields = query.as_object().into_iter().flatten();
        fields.fold(0, |sum: u64, (path, value)| {
            self.found.looks_through |= value["case_insensitive"] == true;
            let is_text = match field::resolve(self.mapping, path) {
                Target::Field(field) => matches!(field.class, Class::Text(_)),
                Target::Meta(_) | Target::Nothing => false,
            };
            sum.saturating_add(if is_text { self.words(value) } else { values(value) })
        })
    }

    /// Returns the number of fields in which the words of a query are looked up.
    fn fields_of(&self, query: &Value) -> u64 {
        match query["fields"].as_array() {
            Some(fields)
                if !fields
                    .iter()
                    .any(|field| field.as_str().is_none_or(|field| field.contains('*'))) =>
            {
                fields.len() as u64
            }
            Some(_) => self.mapping.leaves().len().max(1) as u64,
            None => self.fields,
        }
    }

    /// Returns whether a `range` is on fields without numbers.
    fn is_of_terms(&self, bounds: &Value) -> bool {
        let mut bounds = bounds.as_object().into_iter().flatten();
        // The `range` aggregation names its field differently.
        bounds.any(|(path, body)| {
            body.is_object()
                && match field::resolve(self.mapping, path) {
                    Target::Field(field) => field.class != Class::Number,
                    Target::Meta(_) | Target::Nothing => false,
                }
        })
    }
}

/// Counts the words of a text. In scripts without spaces, each letter counts as one.
fn words_of_text(text: &str) -> u64 {
    let words = text
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty());
    let letters = text
        .chars()
        .filter(|letter| !letter.is_ascii() && letter.is_alphanumeric());
    (words.count() + letters.count()).max(1) as u64
}

/// Counts the values in a part of a query.
fn values(part: &Value) -> u64 {
    match part {
        Value::Null => 0,
        Value::Array(parts) => parts.iter().map(values).sum(),
        Value::Object(parts) => parts.values().map(values).sum(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the number of terms, and whether dictionaries are scanned and positions read.
    fn asked(query: Value) -> (u64, bool, bool) {
        let mapping = json!({"properties": {"n": {"type": "long"}, "k": {"type": "keyword"}, "t": {"type": "text"}, "a": {"type": "ip"}}});
        let mapping = Mapping::parse(&mapping).unwrap();
        let mut index = OfIndex::new(&mapping, &[]);
        index.add_query(&Query::parse(&query).unwrap());
        let found = index.found;
        (found.terms, found.looks_through, found.has_phrases)
    }

    #[test]
    fn a_query_looks_up_one_term_per_word() {
        assert_eq!(asked(json!({"match_all": {}})), (0, false, false));
        assert_eq!(asked(json!({"term": {"k": {"value": "u-1"}}})), (1, false, false));
        assert_eq!(asked(json!({"term": {"t": {"value": "u-1"}}})), (2, false, false));
        assert_eq!(asked(json!({"ids": {"values": ["a-b", "c"]}})), (2, false, false));
        assert_eq!(asked(json!({"terms": {"k": ["a", "b", 7]}})), (3, false, false));
        let many = asked(json!({"multi_match": {"query": "one two", "fields": ["k", "t"]}}));
        assert!(many.0 >= 2 * 2 && !many.1, "{many:?}");
    }

    #[test]
    fn dictionary_scans_read_whole_dictionaries() {
        let looks = |query: &Value| asked(query.clone()).1;
        for query in [
            json!({"prefix": {"k": "a"}}),
            json!({"wildcard": {"k": "a*"}}),
            json!({"regexp": {"k": "a."}}),
            json!({"fuzzy": {"k": "ab"}}),
            json!({"match": {"t": {"query": "ab", "fuzziness": "AUTO"}}}),
            json!({"match_phrase_prefix": {"t": "a b"}}),
            json!({"match_bool_prefix": {"t": "a b"}}),
            json!({"multi_match": {"query": "a b", "type": "phrase_prefix", "fields": ["t"]}}),
            json!({"range": {"k": {"gte": "a"}}}),
            json!({"query_string": {"query": "k:a*"}}),
            json!({"query_string": {"query": "k:[a TO b]"}}),
            json!({"simple_query_string": {"query": "a*"}}),
            json!({"kql": {"query": "k: a*"}}),
            json!({"kql": {"query": "k > a"}}),
            json!({"term": {"k": {"value": "a", "case_insensitive": true}}}),
            json!({"term": {"a": "10.0.0.0/8"}}),
            json!({"terms": {"a": ["10.0.0.0/8"]}}),
            json!({"match": {"a": "10.0.0.0/8"}}),
            json!({"multi_match": {"query": "10.0.0.0/8", "fields": ["a"]}}),
            json!({"bool": {"must_not": {"constant_score": {"filter": {"prefix": {"k": "a"}}}}}}),
        ] {
            assert!(looks(&query), "{query}");
        }
        for query in [
            json!({"range": {"n": {"gte": 5}}}),
            json!({"kql": {"query": "n > 5 and k: \"a\""}}),
            json!({"match": {"t": "a b"}}),
            json!({"term": {"a": "10.0.0.1"}}),
            json!({"term": {"k": "a/b"}}),
            json!({"query_string": {"query": "k:a AND b"}}),
        ] {
            assert!(!looks(&query), "{query}");
        }
        assert!(!asked(json!({"range": {"n": {"gte": 5}}})).1);
        assert_eq!(asked(json!({"range": {"n": {"gte": 5}}})).0, 0, "it is in a column");
        assert!(asked(json!({"match_phrase": {"t": "a b"}})).2);
        assert!(asked(json!({"query_string": {"query": "t:\"a b\""}})).2);
    }
}
