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

#[cfg(test)]
mod tests {
    use firn_testkit::random::Random;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::search::IndexTarget;
    use firn_model::ErrorKind;

    fn request(body: &Value) -> SearchRequest {
        SearchRequest::parse(IndexTarget::default(), Some(body)).unwrap_or_else(|error| panic!("{body}: {error}"))
    }

    fn of_query(query: &Value) -> Properties {
        Query::parse(query)
            .unwrap_or_else(|error| panic!("{query}: {error}"))
            .properties()
    }

    /// Returns bodies with a text in every place where it is read as a date. Query strings quote or escape it: a
    /// slash would begin a regular expression.
    fn relative_to_now(now: &str) -> Vec<Value> {
        let queries = [
            json!({"term": {"t": now}}),
            json!({"terms": {"t": ["2024", now]}}),
            json!({"range": {"t": {"gt": now}}}),
            json!({"range": {"t": {"lte": now, "format": "yyyy", "time_zone": "+01:00"}}}),
            json!({"match": {"t": now}}),
            json!({"match_phrase": {"t": now}}),
            json!({"match_phrase_prefix": {"t": now}}),
            json!({"match_bool_prefix": {"t": now}}),
            json!({"multi_match": {"query": now, "fields": ["t"]}}),
            json!({"query_string": {"query": format!("t:[{now} TO *]")}}),
            json!({"query_string": {"query": format!("a OR (b AND t:>=\"{now}\")")}}),
            json!({"query_string": {"query": format!("t:\"{now}\"")}}),
            json!({"query_string": {"query": now, "escape": true}}),
            json!({"simple_query_string": {"query": format!("\"{now}\""), "fields": ["t"]}}),
            json!({"kql": {"query": format!("t >= \"{now}\"")}}),
            json!({"kql": {"query": format!("a: 1 and not t: ({now} or b)")}}),
            json!({"kql": {"query": format!("t*: \"{now}\"")}}),
            json!({"kql": {"query": format!("t* < \"{now}\"")}}),
            json!({"kql": {"query": format!("t*: {now} b*")}}),
            json!({"bool": {"must_not": {"constant_score": {"filter": {"range": {"t": {"gt": now}}}}}}}),
            json!({"dis_max": {"queries": [{"match_all": {}}, {"range": {"t": {"gt": now}}}]}}),
            json!({"boosting": {"positive": {"match_all": {}}, "negative": {"term": {"t": now}}, "negative_boost": 0.5}}),
            json!({"term": {"t": {"value": now, "_name": "n"}}}),
        ];
        let aggregations = [
            json!({"date_range": {"field": "t", "ranges": [{"from": now}]}}),
            json!({"date_range": {"field": "t", "ranges": [{"from": "2024"}, {"to": now}]}}),
            json!({"date_range": {"field": "t", "ranges": [{"from": "2024"}], "missing": now}}),
            json!({"date_histogram": {"field": "t", "fixed_interval": "1d", "missing": now}}),
            json!({"date_histogram": {"field": "t", "fixed_interval": "1d", "hard_bounds": {"min": now}}}),
            json!({"date_histogram": {"field": "t", "fixed_interval": "1d", "extended_bounds": {"max": now}}}),
            json!({"auto_date_histogram": {"field": "t", "missing": now}}),
            json!({"histogram": {"field": "t", "interval": 1, "missing": now}}),
            json!({"max": {"field": "t", "missing": now}}),
            json!({"percentiles": {"field": "t", "missing": now}}),
            json!({"weighted_avg": {"value": {"field": "a"}, "weight": {"field": "t", "missing": now}}}),
            json!({"cardinality": {"field": "t", "missing": now}}),
            json!({"terms": {"field": "t", "missing": now}}),
            json!({"terms": {"field": "t", "include": [now]}}),
            json!({"terms": {"field": "t", "exclude": ["2024", now]}}),
            json!({"rare_terms": {"field": "t", "exclude": [now]}}),
            json!({"significant_terms": {"field": "t", "include": [now]}}),
            json!({"significant_terms": {"field": "a", "background_filter": {"term": {"t": now}}}}),
            json!({"multi_terms": {"terms": [{"field": "a"}, {"field": "t", "missing": now}]}}),
            json!({"missing": {"field": "t", "missing": now}}),
            json!({"filter": {"range": {"t": {"gt": now}}}}),
            json!({"filters": {"filters": [{"range": {"t": {"gt": now}}}]}}),
            json!({"adjacency_matrix": {"filters": {"a": {"range": {"t": {"gt": now}}}}}}),
            json!({"top_hits": {"sort": [{"t": {"missing": now}}]}}),
            json!({"top_hits": {"highlight": {"fields": {"a": {"highlight_query": {"term": {"t": now}}}}}}}),
            json!({"sampler": {}, "aggs": {"b": {"min": {"field": "t", "missing": now}}}}),
        ];
        let mut bodies = vec![
            json!({"post_filter": {"term": {"t": now}}}),
            json!({"sort": [{"t": {"missing": now}}]}),
            json!({"sort": ["t"], "search_after": [now]}),
            json!({"highlight": {"fields": {"a": {}}, "highlight_query": {"term": {"t": now}}}}),
            json!({"collapse": {"field": "a", "inner_hits": {"name": "n", "sort": [{"t": {"missing": now}}]}}}),
        ];
        bodies.extend(queries.map(|query| json!({"query": query})));
        bodies.extend(aggregations.map(|aggregation| json!({"aggs": {"a": aggregation}})));
        bodies
    }

    #[test]
    fn values_relative_to_now_are_found_everywhere() {
        for now in ["now-1d/d", "now/d"] {
            for body in relative_to_now(now) {
                assert!(request(&body).properties().depends_on_now, "{body}");
            }
        }
        // The same places with another value.
        for body in relative_to_now("2024-06-15").iter().chain(&relative_to_now("nowadays")) {
            assert!(request(body).properties().is_repeatable(), "{body}");
        }
    }

    #[test]
    fn the_letters_alone_are_no_date() {
        for query in [
            json!({"term": {"snow": "known"}}),
            json!({"term": {"user": "nowak"}}),
            json!({"term": {"now": 1}}),
            json!({"match": {"a": "now or never"}}),
            json!({"match": {"a": " now"}}),
            json!({"ids": {"values": ["now", "random"]}}),
            json!({"exists": {"field": "now"}}),
            json!({"prefix": {"a": "now"}}),
            json!({"wildcard": {"a": "now-*"}}),
            json!({"regexp": {"a": "now"}}),
            json!({"query_string": {"query": "now:2024 AND a:random*"}}),
            json!({"kql": {"query": "now > 5 and random: *"}}),
            json!({"range": {"a": {"gte": "NOW"}}}),
            json!({"range": {"a": {"gte": "2024-01-01||-1d/d"}}}),
            json!({"term": {"a": {"value": "b", "_name": "now"}}}),
        ] {
            assert!(of_query(&query).is_repeatable(), "{query}");
        }
        let aggregations = json!({
            "now": {"terms": {"field": "now", "include": "now"}, "meta": {"since": "now"}},
            "random": {"bucket_script": {"buckets_path": {"now": "_count"}, "script": "params.now"}}
        });
        let body =
            json!({"aggs": {"h": {"date_histogram": {"field": "t", "fixed_interval": "1d"}, "aggs": aggregations}}});
        assert!(request(&body).properties().is_repeatable());
    }

    #[test]
    fn names_of_indices_may_be_relative_to_now() {
        let named = |names: &[&str]| {
            let target = IndexTarget {
                expression: names.iter().map(|name| (*name).to_owned()).collect(),
                ..IndexTarget::default()
            };
            SearchRequest::parse(target, None).unwrap()
        };
        for name in ["<logs-{now/d}>", "<{now}>", "-<logs-{now-1d{yyyy}}>", "<logs-{\\now}>"] {
            assert!(named(&["a*", name]).properties().depends_on_now, "{name}");
        }
        for name in ["snow-1", "now", "<now>", "<logs-{2024-01-01||/M}>"] {
            assert!(named(&[name]).properties().is_repeatable(), "{name}");
        }
        let boosted = json!({"indices_boost": [{"<logs-{now/d}>": 2}]});
        assert!(request(&boosted).properties().depends_on_now);
    }

    /// The parser of a random function has to decide about [`Properties::is_random`]; a seed makes it repeatable.
    #[test]
    fn random_functions_are_refused() {
        for query in [
            json!({"function_score": {"random_score": {}}}),
            json!({"function_score": {"random_score": {"seed": 1, "field": "_seq_no"}}}),
        ] {
            let error = Query::parse(&query).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotImplemented, "{query}");
        }
        let sampler = json!({"a": {"random_sampler": {"probability": 0.5}, "aggs": {"b": {"max": {"field": "b"}}}}});
        assert_eq!(
            Aggregations::parse(&sampler).unwrap_err().kind(),
            ErrorKind::NotImplemented
        );
        let script = json!({"h": {"histogram": {"field": "a", "interval": 1}, "aggs": {
            "b": {"bucket_script": {"buckets_path": {"x": "_count"}, "script": "Math.random()"}}}}});
        assert!(Aggregations::parse(&script).is_err());
    }

    #[test]
    fn scans_of_dictionaries_are_found() {
        for query in [
            json!({"prefix": {"a": "b"}}),
            json!({"wildcard": {"a": "b*"}}),
            json!({"regexp": {"a": "b."}}),
            json!({"fuzzy": {"a": "b"}}),
            json!({"term": {"a": {"value": "b", "case_insensitive": true}}}),
            json!({"match": {"a": {"query": "b", "fuzziness": 1}}}),
            json!({"match_phrase_prefix": {"a": "b c"}}),
            json!({"match_bool_prefix": {"a": "b c"}}),
            json!({"multi_match": {"query": "b c", "fields": ["a"], "type": "phrase_prefix"}}),
            json!({"multi_match": {"query": "b c", "fields": ["a"], "fuzziness": "AUTO"}}),
            json!({"query_string": {"query": "b AND NOT a:c*"}}),
            json!({"query_string": {"query": "b~1"}}),
            json!({"query_string": {"query": "a:/b/"}}),
            json!({"query_string": {"query": "b c", "type": "bool_prefix"}}),
            json!({"simple_query_string": {"query": "b*"}}),
            json!({"kql": {"query": "a: b*"}}),
            json!({"kql": {"query": "a: b", "case_insensitive": true}}),
            json!({"bool": {"must_not": {"constant_score": {"filter": {"prefix": {"a": "b"}}}}}}),
        ] {
            assert!(of_query(&query).scans_terms, "{query}");
        }
        for query in [
            json!({"term": {"prefix": "wildcard*"}}),
            json!({"match": {"a": "b* c?"}}),
            json!({"multi_match": {"query": "bool_prefix", "fields": ["a"]}}),
            json!({"range": {"a": {"gt": 5}}}),
            json!({"query_string": {"query": "a:* AND \"b*\""}}),
            json!({"kql": {"query": "a: * and b > 5"}}),
        ] {
            assert!(!of_query(&query).scans_terms, "{query}");
        }
    }

    /// Replaces every text of a body by the result of `replace`, which gets the key under which it stands.
    fn replaced(body: &Value, key: &str, replace: &mut dyn FnMut(&str, &str) -> Option<String>) -> Value {
        match body {
            Value::String(text) => replace(key, text).map_or_else(|| body.clone(), Value::from),
            Value::Array(values) => values.iter().map(|value| replaced(value, key, replace)).collect(),
            Value::Object(fields) => {
                let fields = fields.iter();
                fields
                    .map(|(key, value)| (key.clone(), replaced(value, key, replace)))
                    .collect()
            }
            other => other.clone(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_date_relative_to_now_is_found_in_any_request(seed: u64) {
            let body = Random::new(seed).search();
            // Dates stand only where the request compares values.
            let is_date = |text: &str| text.starts_with("202");
            let mut dates = 0;
            let without = replaced(&body, "", &mut |_, text| {
                dates += usize::from(is_date(text));
                text.contains("now").then(|| "2024-06-15".to_owned())
            });
            prop_assert!(request(&without).properties().is_repeatable(), "{}", without);
            for chosen in 0..dates {
                let mut number = 0;
                let with = replaced(&without, "", &mut |_, text| {
                    number += usize::from(is_date(text));
                    (is_date(text) && number == chosen + 1).then(|| "now-1d/d".to_owned())
                });
                prop_assert!(request(&with).properties().depends_on_now, "{}", with);
            }
        }
    }
}
