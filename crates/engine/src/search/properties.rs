//! Properties of search requests that caches and cost estimates need: dependence on the time of the request, random
//! numbers, scans of term dictionaries.

use firn_model::dates::is_relative_to_now;
use firn_model::names::is_relative_name;
use serde_json::Value;

use super::SearchRequest;
use super::visit::{Accept, Visitor};
use crate::aggs::{AggregationKind, Aggregations};
use crate::query::query_string::Node;
use crate::query::{MultiMatchType, Query};

/// Properties of a search request or a part of it. They hold for every mapping: a value that may be a date counts as
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Properties {
    /// The answer depends on the time of the request: a value or an index name is date math with `now`.
    pub depends_on_now: bool,
    /// The answer depends on random numbers.
    pub is_random: bool,
    /// It reads the terms of a dictionary one by one. On some types of fields, further queries do that: a range of
    /// strings, a block of addresses.
    pub scans_terms: bool,
}

impl Properties {
    /// Whether the answer is the same at any time, as long as the searched data is.
    pub fn is_repeatable(&self) -> bool {
        !self.depends_on_now && !self.is_random
    }

    fn of(part: &dyn Accept) -> Self {
        let mut properties = Self::default();
        part.accept(&mut properties);
        properties
    }
}

impl SearchRequest {
    /// Returns the properties of the whole request.
    pub fn properties(&self) -> Properties {
        Properties::of(self)
    }
}

impl Query {
    /// Returns the properties of the query and the queries in it.
    pub fn properties(&self) -> Properties {
        Properties::of(self)
    }
}

impl Aggregations {
    /// Returns the properties of the aggregations of all levels and the queries in them.
    pub fn properties(&self) -> Properties {
        Properties::of(self)
    }
}

impl Visitor for Properties {
    fn value(&mut self, value: &Value) {
        if let Value::String(text) = value {
            self.depends_on_now |= is_relative_to_now(text);
        }
    }

    fn index_name(&mut self, name: &str) {
        self.depends_on_now |= is_relative_name(name);
    }

    fn query(&mut self, query: &Query) {
        self.is_random |= is_random_query(query);
        self.scans_terms |= scans_terms(query);
    }

    fn aggregation(&mut self, kind: &AggregationKind) {
        self.is_random |= is_random_aggregation(kind);
    }

    fn syntax_tree(&mut self, node: &Node) {
        match node {
            Node::All | Node::Exists(_) => {}
            Node::Bool { must, should, must_not } => {
                for node in must.iter().chain(should).chain(must_not) {
                    self.syntax_tree(node);
                }
            }
            Node::Scoped { node, .. } => self.syntax_tree(node),
            // On a date field, the whole text is a date.
            Node::Word(text) | Node::Phrase(text, _) => self.depends_on_now |= is_relative_to_now(text),
            Node::Range { lower, upper } => {
                let mut bounds = lower.iter().chain(upper);
                self.depends_on_now |= bounds.any(|(text, _)| is_relative_to_now(text));
            }
            // These test for any value of the field.
            Node::Wildcard(pattern) if pattern == "*" => {}
            Node::Prefix(start) if start.is_empty() => {}
            Node::Wildcard(_) | Node::Prefix(_) | Node::Fuzzy(..) | Node::Regexp(_) => self.scans_terms = true,
        }
    }

    /// A translation with a mapping has the same values and patterns, in queries that fit the types of the fields.
    fn kql_translation(&mut self, query: &Query) {
        query.accept(self);
    }
}

/// Whether a query itself, without the queries in it, scans terms of every field.
fn scans_terms(query: &Query) -> bool {
    let completes = |kind| match kind {
        MultiMatchType::PhrasePrefix | MultiMatchType::BoolPrefix => true,
        MultiMatchType::BestFields
        | MultiMatchType::MostFields
        | MultiMatchType::CrossFields
        | MultiMatchType::Phrase => false,
    };
    match query {
        Query::Prefix(_)
        | Query::Wildcard(_)
        | Query::Regexp(_)
        | Query::Fuzzy(_)
        | Query::MatchPhrasePrefix(_)
        | Query::MatchBoolPrefix(_) => true,
        Query::Term(part) => part.case_insensitive,
        Query::Match(part) => part.options.fuzziness.is_some(),
        Query::MultiMatch(part) => completes(part.kind) || part.options.fuzziness.is_some(),
        // `fuzziness` applies to the fuzzy words in the syntax tree.
        Query::QueryString(part) => completes(part.kind),
        Query::SimpleQueryString(_) | Query::Kql(_) => false,
        Query::MatchAll(_)
        | Query::MatchNone
        | Query::Terms(_)
        | Query::Range(_)
        | Query::Exists(_)
        | Query::Ids(_)
        | Query::MatchPhrase(_) => false,
        Query::Bool(_) | Query::DisMax(_) | Query::Boosting(_) | Query::ConstantScore(_) | Query::Named(_) => false,
    }
}

/// Whether a query itself draws random numbers. No query of firn does: `function_score`, which has `random_score`, is
/// refused by the parser.
fn is_random_query(query: &Query) -> bool {
    match query {
        Query::MatchAll(_)
        | Query::MatchNone
        | Query::Term(_)
        | Query::Terms(_)
        | Query::Range(_)
        | Query::Exists(_)
        | Query::Ids(_)
        | Query::Match(_)
        | Query::MatchPhrase(_)
        | Query::MatchPhrasePrefix(_)
        | Query::MatchBoolPrefix(_)
        | Query::MultiMatch(_)
        | Query::Bool(_)
        | Query::DisMax(_)
        | Query::Boosting(_)
        | Query::ConstantScore(_)
        | Query::QueryString(_)
        | Query::SimpleQueryString(_)
        | Query::Kql(_)
        | Query::Prefix(_)
        | Query::Wildcard(_)
        | Query::Regexp(_)
        | Query::Fuzzy(_)
        | Query::Named(_) => false,
    }
}

/// Whether an aggregation itself draws random numbers. None of firn does: samplers take the best documents by score,
/// and `random_sampler` is refused by the parser.
fn is_random_aggregation(kind: &AggregationKind) -> bool {
    match kind {
        AggregationKind::Terms(_)
        | AggregationKind::DateHistogram(_)
        | AggregationKind::Min(_)
        | AggregationKind::Max(_)
        | AggregationKind::Sum(_)
        | AggregationKind::Avg(_)
        | AggregationKind::Stats(_)
        | AggregationKind::ExtendedStats(_)
        | AggregationKind::Percentiles(_)
        | AggregationKind::PercentileRanks(_)
        | AggregationKind::MedianAbsoluteDeviation(_)
        | AggregationKind::Boxplot(_)
        | AggregationKind::WeightedAvg(_)
        | AggregationKind::StringStats(_)
        | AggregationKind::TopMetrics(_)
        | AggregationKind::ValueCount(_)
        | AggregationKind::Cardinality(_)
        | AggregationKind::Filter(_)
        | AggregationKind::Filters(_)
        | AggregationKind::Missing(_)
        | AggregationKind::Range(_)
        | AggregationKind::DateRange(_)
        | AggregationKind::IpRange(_)
        | AggregationKind::Histogram(_)
        | AggregationKind::TopHits(_)
        | AggregationKind::Pipeline(_)
        | AggregationKind::AutoDateHistogram(_)
        | AggregationKind::MultiTerms(_)
        | AggregationKind::RareTerms(_)
        | AggregationKind::Composite(_)
        | AggregationKind::Global
        | AggregationKind::SignificantTerms(_)
        | AggregationKind::Sampler(_)
        | AggregationKind::DiversifiedSampler(_)
        | AggregationKind::AdjacencyMatrix(_)
        | AggregationKind::IpPrefix(_) => false,
    }
}
