//! Upper bounds of a search's term lookups, from the request alone and independent of the segments.

use firn_model::mapping::{FieldType, Mapping};
use firn_query::aggs::Aggregations;
use firn_query::query::query_string::Node;
use firn_query::query::{MultiMatch, MultiMatchType, Query, QueryString, SimpleQueryString, TextQuery};
use firn_query::search::SearchRequest;
use firn_segment::schema::Class;
use serde_json::Value;

use super::super::ShardSearch;
use crate::compile::field;
use crate::compile::field::Target;

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
            index.add_aggregations(&request.aggs);
            most.terms = most.terms.max(index.found.terms);
            most.looks_through |= index.found.looks_through;
            most.has_phrases |= index.found.has_phrases;
        }
        most
    }
}

/// Fields in which a text is looked up.
#[derive(Clone, Copy)]
enum Fields<'a> {
    /// `index.query.default_field`.
    Default,
    /// Names and patterns of a query over several fields.
    Listed(&'a [(String, f32)]),
    /// One name or pattern.
    One(&'a str),
}

impl<'a> Fields<'a> {
    fn listed(fields: &'a [(String, f32)]) -> Self {
        match fields.is_empty() {
            true => Self::Default,
            false => Self::Listed(fields),
        }
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
        // A query that cannot be translated does not run on this index.
        if let Ok(query) = query.without_kql(self.mapping) {
            self.found.looks_through |= query.properties().scans_terms;
            let terms = self.terms_of(&query);
            self.found.terms = self.found.terms.saturating_add(terms);
        }
    }

    /// Adds the queries in aggregations; all other lookups of aggregations are in columns.
    fn add_aggregations(&mut self, aggregations: &Aggregations) {
        aggregations.visit(&mut |_, aggregation| {
            let queries = aggregation.kind.queries();
            queries.into_iter().for_each(|query| self.add_query(query));
        });
    }

    /// Counts the terms of a query. A word that is looked up in several fields counts once per field.
    fn terms_of(&mut self, query: &Query) -> u64 {
        match query {
            Query::MatchAll(_) | Query::MatchNone => 0,
            Query::Term(part) => self.exact(&part.field, std::slice::from_ref(&part.value)),
            Query::Terms(part) => self.exact(&part.field, &part.values),
            // Numbers are in columns; a range of strings scans the terms.
            Query::Range(part) => {
                self.found.looks_through |= self.has_terms(&part.field);
                0
            }
            Query::Exists(part) => self.exists(&part.field),
            Query::Ids(part) => part.values.len() as u64,
            Query::Match(part) | Query::MatchBoolPrefix(part) => self.text(part),
            Query::MatchPhrase(part) | Query::MatchPhrasePrefix(part) => {
                self.found.has_phrases = true;
                self.text(part)
            }
            Query::MultiMatch(part) => self.multi_match(part),
            Query::Bool(part) => {
                let clauses = [&part.must, &part.filter, &part.should, &part.must_not];
                self.sum(clauses.into_iter().flatten())
            }
            Query::DisMax(part) => self.sum(&part.queries),
            Query::Boosting(part) => self.sum([&*part.positive, &*part.negative]),
            Query::ConstantScore(part) => self.terms_of(&part.filter),
            Query::Named(part) => self.terms_of(&part.query),
            Query::QueryString(part) => self.query_string(part),
            Query::SimpleQueryString(part) => self.simple_query_string(part),
            // Translated before.
            Query::Kql(_) => 0,
            Query::Prefix(part) | Query::Wildcard(part) => words_of_text(&part.value),
            Query::Regexp(part) => words_of_text(&part.pattern.value),
            Query::Fuzzy(part) => words_of_text(&part.value),
        }
    }

    fn sum<'q>(&mut self, queries: impl IntoIterator<Item = &'q Query>) -> u64 {
        let mut sum: u64 = 0;
        for query in queries {
            sum = sum.saturating_add(self.terms_of(query));
        }
        sum
    }

    /// Counts the values of a query on keywords, where each value is one term.
    fn exact(&mut self, path: &str, values: &[Value]) -> u64 {
        let mut is_text = false;
        if let Target::Field(field) = field::resolve(self.mapping, path) {
            is_text = matches!(field.class, Class::Text(_));
            self.found.looks_through |= field.field_type == FieldType::Ip && values.iter().any(is_block);
        }
        match is_text {
            true => values.iter().map(words_of).fold(0, u64::saturating_add),
            false => values.len() as u64,
        }
    }

    fn text(&mut self, part: &TextQuery) -> u64 {
        if let Target::Field(field) = field::resolve(self.mapping, &part.field) {
            self.found.looks_through |= field.field_type == FieldType::Ip && is_block(&part.query);
        }
        words_of(&part.query)
    }

    fn multi_match(&mut self, part: &MultiMatch) -> u64 {
        self.take_kind(part.kind);
        self.found.looks_through |= is_block(&part.query) && self.has_addresses();
        words_of(&part.query).saturating_mul(self.count(Fields::listed(&part.fields)))
    }

    fn take_kind(&mut self, kind: MultiMatchType) {
        self.found.has_phrases |= matches!(kind, MultiMatchType::Phrase | MultiMatchType::PhrasePrefix);
    }

    fn query_string(&mut self, part: &QueryString) -> u64 {
        self.take_kind(part.kind);
        self.clause(&part.parsed, Fields::listed(&part.default_fields))
    }

    fn simple_query_string(&mut self, part: &SimpleQueryString) -> u64 {
        self.clause(&part.parsed, Fields::listed(&part.fields))
    }

    /// Counts the terms of a clause of a query string.
    fn clause(&mut self, node: &Node, fields: Fields<'_>) -> u64 {
        match node {
            Node::All => 0,
            Node::Bool { must, should, must_not } => {
                let mut sum: u64 = 0;
                for node in must.iter().chain(should).chain(must_not) {
                    sum = sum.saturating_add(self.clause(node, fields));
                }
                sum
            }
            Node::Scoped { field, node, .. } => {
                let fields = field.as_deref().map_or(fields, Fields::One);
                self.clause(node, fields)
            }
            Node::Exists(field) => self.exists(field),
            Node::Range { .. } => {
                self.found.looks_through |= match fields {
                    Fields::Default => true,
                    Fields::Listed(fields) => fields.iter().any(|(field, _)| self.has_terms(field)),
                    Fields::One(field) => self.has_terms(field),
                };
                0
            }
            Node::Phrase(text, _) => {
                self.found.has_phrases = true;
                self.found.looks_through |= text.contains('/') && self.has_addresses();
                words_of_text(text).saturating_mul(self.count(fields))
            }
            Node::Word(text) => {
                self.found.looks_through |= text.contains('/') && self.has_addresses();
                words_of_text(text).saturating_mul(self.count(fields))
            }
            Node::Wildcard(text) | Node::Prefix(text) | Node::Fuzzy(text, _) | Node::Regexp(text) => {
                words_of_text(text).saturating_mul(self.count(fields))
            }
        }
    }

    /// Counts the fields that a name, a pattern or an object stands for.
    fn exists(&self, path: &str) -> u64 {
        match is_pattern(path) || matches!(field::resolve(self.mapping, path), Target::Nothing) {
            true => self.mapping.leaves().len() as u64,
            false => 1,
        }
    }

    /// Returns the number of fields in which a text is looked up.
    fn count(&self, fields: Fields<'_>) -> u64 {
        let all = || self.mapping.leaves().len().max(1) as u64;
        match fields {
            Fields::Default => self.fields,
            Fields::Listed(fields) if fields.iter().any(|(field, _)| is_pattern(field)) => all(),
            Fields::Listed(fields) => fields.len() as u64,
            Fields::One(field) if is_pattern(field) => all(),
            Fields::One(_) => 1,
        }
    }

    /// Returns whether a name or pattern may stand for a field whose values are terms. Numbers are in columns.
    fn has_terms(&self, path: &str) -> bool {
        match field::resolve(self.mapping, path) {
            _ if is_pattern(path) => true,
            Target::Field(field) => field.class != Class::Number,
            Target::Meta(_) | Target::Nothing => false,
        }
    }

    fn has_addresses(&self) -> bool {
        let leaves = self.mapping.leaves();
        leaves.iter().any(|(_, field)| field.field_type == FieldType::Ip)
    }
}

fn is_pattern(path: &str) -> bool {
    path.contains('*')
}

/// Whether a value may be a block of addresses, which scans all terms in its range.
fn is_block(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.contains('/'))
}

/// Counts the words of a searched value.
fn words_of(value: &Value) -> u64 {
    value.as_str().map_or(1, words_of_text)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the number of terms, and whether dictionaries are scanned and positions read.
    fn lookups(query: Value) -> (u64, bool, bool) {
        let mapping = json!({"properties": {"n": {"type": "long"}, "k": {"type": "keyword"}, "t": {"type": "text"}, "a": {"type": "ip"}}});
        let mapping = Mapping::parse(&mapping).unwrap();
        let mut index = OfIndex::new(&mapping, &[]);
        index.add_query(&Query::parse(&query).unwrap());
        let found = index.found;
        (found.terms, found.looks_through, found.has_phrases)
    }

    #[test]
    fn a_query_looks_up_one_term_per_word() {
        assert_eq!(lookups(json!({"match_all": {}})), (0, false, false));
        assert_eq!(lookups(json!({"term": {"k": {"value": "u-1"}}})), (1, false, false));
        assert_eq!(lookups(json!({"term": {"t": {"value": "u-1"}}})), (2, false, false));
        assert_eq!(lookups(json!({"ids": {"values": ["a-b", "c"]}})), (2, false, false));
        assert_eq!(lookups(json!({"terms": {"k": ["a", "b", 7]}})), (3, false, false));
        let many = lookups(json!({"multi_match": {"query": "one two", "fields": ["k", "t"]}}));
        assert_eq!(many, (2 * 2, false, false));
        let tree =
            json!({"query_string": {"query": "k:a AND (t:\"b c\" OR *:d)", "boost": 2, "minimum_should_match": 1}});
        assert_eq!(
            lookups(tree),
            (1 + 2 + 4, false, true),
            "one of them in each of four fields"
        );
        let named = json!({"bool": {"must": [{"term": {"k": "a"}}, {"match": {"range": "b c"}}], "boost": 2}});
        assert_eq!(lookups(named), (1 + 2, false, false));
    }

    #[test]
    fn dictionary_scans_read_whole_dictionaries() {
        let looks = |query: &Value| lookups(query.clone()).1;
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
            // Only values count, not the letters of names and options.
            json!({"query_string": {"query": "n:[1 TO 5] AND k:\"a?\"", "fuzziness": "AUTO"}}),
            json!({"match": {"prefix": "fuzzy wildcard"}}),
            json!({"bool": {"filter": {"term": {"k": "bool_prefix"}}, "_name": "regexp"}}),
        ] {
            assert!(!looks(&query), "{query}");
        }
        assert!(!lookups(json!({"range": {"n": {"gte": 5}}})).1);
        assert_eq!(lookups(json!({"range": {"n": {"gte": 5}}})).0, 0, "it is in a column");
        assert!(lookups(json!({"match_phrase": {"t": "a b"}})).2);
        assert!(lookups(json!({"query_string": {"query": "t:\"a b\""}})).2);
    }
}
