//! Tests of all queries together: round trip, limits, and input that is no query.

use firn_model::mapping::Analyzer;
use proptest::prelude::*;
use serde_json::json;

use super::test_support::check_refused;
use super::*;

#[test]
fn invalid_queries_are_refused() {
    check_refused(json!(null), "[_na] query malformed, must start with start_object");
    check_refused(json!({}), "query malformed, empty clause found");
    check_refused(json!({"foo": {}}), "unknown query [foo]");
    check_refused(json!({"nested": {}}), "query [nested] is not implemented by firn");
    check_refused(
        json!({"term": {"a": 1}, "range": {}}),
        "[term] malformed query, expected [END_OBJECT] but found [FIELD_NAME]",
    );
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| {
        let innermost = json!({"match_all": {}});
        (1..depth).fold(innermost, |query, _| json!({"bool": {"must": query}}))
    };
    assert!(Query::parse(&nested(DEPTH_MAX)).is_ok());
    check_refused(
        nested(DEPTH_MAX + 1),
        "The nested depth of the query exceeds the maximum nested depth of [100]",
    );
}

#[test]
fn clauses_are_bounded() {
    let wide = |count: usize| json!({"bool": {"should": vec![json!({"match_all": {}}); count]}});
    assert!(Query::parse(&wide(CLAUSES_MAX - 1)).is_ok());
    check_refused(
        wide(CLAUSES_MAX),
        "Query contains too many clauses; maxClauseCount is set to 16384",
    );
    let fuzzy =
        |count: usize, fields: &[&str]| json!({"query_string": {"query": "word~ ".repeat(count), "fields": fields}});
    for (query, fits) in [
        (fuzzy(FUZZY_MAX, &["a"]), true),
        (fuzzy(FUZZY_MAX + 1, &[]), false),
        (fuzzy(FUZZY_MAX / 2 + 1, &["a", "b"]), false),
        (
            json!({"query_string": {"query": "word ".repeat(FUZZY_MAX + 1), "fields": ["a"]}}),
            true,
        ),
        (
            json!({"simple_query_string": {"query": "word~1 ".repeat(FUZZY_MAX + 1)}}),
            false,
        ),
        (
            json!({"match": {"a": {"query": "word ".repeat(FUZZY_MAX), "fuzziness": 1}}}),
            true,
        ),
        (
            json!({"match": {"a": {"query": "word ".repeat(FUZZY_MAX + 1), "fuzziness": 1}}}),
            false,
        ),
        (json!({"match": {"a": {"query": "word ".repeat(FUZZY_MAX + 1)}}}), true),
        (
            json!({"multi_match": {"query": "word ".repeat(FUZZY_MAX / 2 + 1), "fields": ["a", "b"], "fuzziness": "AUTO"}}),
            false,
        ),
        (
            json!({"bool": {"should": vec![json!({"fuzzy": {"a": "word"}}); FUZZY_MAX]}}),
            true,
        ),
        (
            json!({"bool": {"should": vec![json!({"fuzzy": {"a": "word"}}); FUZZY_MAX + 1]}}),
            false,
        ),
    ] {
        match fits {
            true => assert!(Query::parse(&query).is_ok()),
            false => check_refused(
                query,
                "Query contains too many fuzzy clauses; maxClauseCount is set to 1024",
            ),
        }
    }
    let words = json!({"query_string": {"query": "a ".repeat(CLAUSES_MAX / 2)}});
    check_refused(
        json!({"bool": {"should": [words, words]}}),
        "Query contains too many clauses; maxClauseCount is set to 16384",
    );
}

#[test]
fn every_query_is_known_once() {
    for (index, (name, ..)) in QUERIES.iter().enumerate() {
        assert!(!NOT_YET.contains(name), "{name}");
        assert!(QUERIES[..index].iter().all(|(other, ..)| other != name), "{name}");
    }
}

fn field() -> impl Strategy<Value = String> {
    "[a-z@_]{1,5}(\\.[a-z]{1,3})?"
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        "\\PC{0,8}".prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Quarters only: serde_json parses other fractions with an error of one bit unless built with
        // `float_roundtrip`.
        (-1_000_000_000_i32..1_000_000_000).prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
        any::<bool>().prop_map(Value::from),
    ]
}

fn boosted() -> impl Strategy<Value = f32> {
    prop_oneof![Just(1.0), 0.0_f32..10.0]
}

fn should_match_spec() -> impl Strategy<Value = Option<String>> {
    prop::option::of(prop_oneof![
        (-5..5_i32).prop_map(|count| count.to_string()),
        (-100..=100_i32).prop_map(|percent| format!("{percent}%")),
        Just("2<-25% 9<-3".to_owned()),
    ])
}

fn leaf() -> impl Strategy<Value = Query> {
    let bound = || prop::option::of((scalar(), any::<bool>()));
    let words = "[a-z]{1,4}( AND [a-z]{1,4}| -[a-z]{1,3}\\*| [a-z]:\\[1 TO \\*\\})?";
    prop_oneof![
        boosted().prop_map(|boost| Query::MatchAll(MatchAll { boost })),
        Just(Query::MatchNone),
        (field(), scalar(), boosted(), any::<bool>()).prop_map(|(field, value, boost, case_insensitive)| {
            Query::Term(Term {
                field,
                value,
                boost,
                case_insensitive,
            })
        }),
        (field(), prop::collection::vec(scalar(), 0..4), boosted())
            .prop_map(|(field, values, boost)| Query::Terms(Terms { field, values, boost })),
        (field(), bound(), bound(), boosted()).prop_map(|(field, lower, upper, boost)| {
            Query::Range(Range {
                field,
                lower,
                upper,
                format: None,
                time_zone: None,
                boost,
            })
        }),
        (field(), boosted()).prop_map(|(field, boost)| Query::Exists(Exists { field, boost })),
        (prop::collection::vec("\\PC{0,8}", 0..4), boosted())
            .prop_map(|(values, boost)| Query::Ids(Ids { values, boost })),
        text_query(&[]).prop_map(Query::Match),
        text_query(&["slop"]).prop_map(Query::MatchPhrase),
        text_query(&["slop"]).prop_map(Query::MatchPhrasePrefix),
        text_query(&[]).prop_map(Query::MatchBoolPrefix),
        term_pattern().prop_map(Query::Prefix),
        term_pattern().prop_map(Query::Wildcard),
        (term_pattern(), 0..64_i64, 1..20_000_u32).prop_map(|(pattern, flags, states)| {
            let mut body = pattern.print("regexp");
            let params = body["regexp"][&pattern.field].as_object_mut().unwrap();
            params.insert("flags_value".into(), flags.into());
            params.insert("max_determinized_states".into(), states.into());
            Query::parse(&body).unwrap()
        }),
        (field(), "\\PC{0,8}", fuzziness(), fuzzy(), boosted()).prop_map(|(field, value, fuzziness, fuzzy, boost)| {
            Query::Fuzzy(FuzzyTerm {
                field,
                value,
                fuzziness,
                fuzzy,
                boost,
            })
        }),
        (
            (scalar(), weighted_fields(), 0..6_usize),
            (prop::option::of(0.0_f32..1.0), options(&[]), boosted())
        )
            .prop_map(|((query, fields, kind), (tie_breaker, mut options, boost))| {
                use MultiMatchType::*;
                let kind = [BestFields, MostFields, CrossFields, Phrase, PhrasePrefix, BoolPrefix][kind];
                if matches!(kind, CrossFields | Phrase | PhrasePrefix) {
                    options.fuzziness = None;
                }
                Query::MultiMatch(MultiMatch {
                    query,
                    fields,
                    kind,
                    tie_breaker,
                    options,
                    boost,
                })
            }),
        (
            (words, weighted_fields(), options(&["slop"])),
            (any::<bool>(), any::<bool>(), boosted(), rewrite())
        )
            .prop_map(
                |((query, default_fields, mut options), (analyze_wildcard, escape, boost, rewrite))| {
                    options.zero_terms_all = false;
                    let body = Query::QueryString(QueryString {
                        default_fields,
                        options,
                        analyze_wildcard,
                        escape,
                        rewrite,
                        boost,
                        ..QueryString::new(&query).unwrap()
                    })
                    .print();
                    Query::parse(&body).unwrap()
                }
            ),
        ("\\PC{0,12}", weighted_fields(), 0..1024_i64, boosted()).prop_map(|(query, fields, flags, boost)| {
            let mut body = serde_json::Map::new();
            body.insert("query".into(), query.into());
            body.insert("flags".into(), flags.into());
            super::weighted_fields::put(&mut body, &fields);
            params::put_boost(&mut body, boost);
            Query::parse(&json!({"simple_query_string": body})).unwrap()
        }),
    ]
}

fn weighted_fields() -> impl Strategy<Value = Vec<(String, f32)>> {
    prop::collection::vec((field(), boosted()), 2..4)
}

fn fuzziness() -> impl Strategy<Value = Fuzziness> {
    prop_oneof![
        (0..3_u8).prop_map(Fuzziness::Edits),
        (0..5_u32, 5..9_u32).prop_map(|(low, high)| Fuzziness::Auto { low, high }),
        Just(Fuzziness::default()),
    ]
}

fn rewrite() -> impl Strategy<Value = Rewrite> {
    prop_oneof![
        Just(Rewrite::Constant),
        Just(Rewrite::Scoring),
        (0..=REWRITE_TERMS_MAX).prop_map(Rewrite::TopTerms),
        (0..=REWRITE_TERMS_MAX).prop_map(Rewrite::TopTermsBoost),
        (0..=REWRITE_TERMS_MAX).prop_map(Rewrite::TopTermsBlended),
    ]
}

fn fuzzy() -> impl Strategy<Value = Fuzzy> {
    (0..5_u32, 1..100_u32, any::<bool>(), rewrite()).prop_map(
        |(prefix_length, max_expansions, transpositions, rewrite)| Fuzzy {
            prefix_length,
            max_expansions,
            transpositions,
            rewrite,
        },
    )
}

/// Options that a query with or without `slop` can have.
fn options(with: &'static [&'static str]) -> impl Strategy<Value = TextOptions> {
    let analyzer = prop::option::of(prop_oneof![Just(Analyzer::Simple), Just(Analyzer::Keyword)]);
    (
        (analyzer, any::<bool>(), should_match_spec()),
        (prop::option::of(fuzziness()), fuzzy(), 0..4_u32),
        (any::<bool>(), any::<bool>()),
    )
        .prop_map(
            move |((analyzer, operator_and, minimum), (fuzziness, fuzzy, slop), (lenient, zero_terms_all))| {
                TextOptions {
                    analyzer,
                    operator_and,
                    minimum_should_match: minimum,
                    fuzziness,
                    fuzzy,
                    slop: if with.contains(&"slop") { slop } else { 0 },
                    zero_terms_all,
                    lenient,
                }
            },
        )
}

/// A text query with its options: what its parser accepts of what is printed.
fn text_query(with: &'static [&'static str]) -> impl Strategy<Value = TextQuery> {
    (field(), scalar(), options(with), boosted()).prop_map(move |(field, query, options, boost)| {
        let default = TextOptions::default();
        let is_phrase = with.contains(&"slop");
        TextQuery {
            field,
            query,
            options: match is_phrase {
                true => TextOptions {
                    analyzer: options.analyzer,
                    slop: options.slop,
                    ..default
                },
                false => TextOptions {
                    zero_terms_all: false,
                    lenient: false,
                    ..options
                },
            },
            boost,
        }
    })
}

fn term_pattern() -> impl Strategy<Value = TermPattern> {
    (field(), "\\PC{0,8}", any::<bool>(), rewrite(), boosted()).prop_map(
        |(field, value, case_insensitive, rewrite, boost)| TermPattern {
            field,
            value,
            case_insensitive,
            rewrite,
            boost,
        },
    )
}

/// Random queries of all kinds.
pub(crate) fn query() -> impl Strategy<Value = Query> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        let list = || prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            ((list(), list(), list(), list()), should_match_spec(), boosted()).prop_map(
                |((must, filter, should, must_not), minimum_should_match, boost)| {
                    Query::Bool(Bool {
                        must,
                        filter,
                        should,
                        must_not,
                        minimum_should_match,
                        boost: Boost(boost),
                    })
                }
            ),
            (inner.clone(), boosted()).prop_map(|(filter, boost)| {
                Query::ConstantScore(ConstantScore {
                    filter: Box::new(filter),
                    boost,
                })
            }),
            (prop::collection::vec(inner.clone(), 1..3), 0.0_f32..1.0, boosted()).prop_map(
                |(queries, tie_breaker, boost)| {
                    Query::DisMax(DisMax {
                        queries,
                        tie_breaker,
                        boost,
                    })
                }
            ),
            (inner.clone(), inner.clone(), 0.0_f32..1.0, boosted()).prop_map(
                |(positive, negative, negative_boost, boost)| {
                    Query::Boosting(Boosting {
                        positive: Box::new(positive),
                        negative: Box::new(negative),
                        negative_boost,
                        boost,
                    })
                }
            ),
            ("\\PC{0,8}", inner.clone()).prop_map(|(name, query)| match query {
                Query::Named(named) => Query::Named(Named { name, ..named }),
                query => Query::Named(Named {
                    name,
                    query: Box::new(query),
                }),
            }),
        ]
    })
}

/// JSON that resembles queries.
fn json() -> impl Strategy<Value = Value> {
    let names: Vec<&str> = QUERIES.iter().map(|(name, ..)| *name).collect();
    let params = [
        "query",
        "value",
        "values",
        "field",
        "fields",
        "gte",
        "boost",
        "must",
        "filter",
        "should",
        "operator",
        "a",
        "minimum_should_match",
        "_name",
        "queries",
        "positive",
        "negative",
        "negative_boost",
        "fuzziness",
        "flags",
        "type",
        "rewrite",
        "analyzer",
    ];
    let key = prop_oneof![prop::sample::select(names), prop::sample::select(params.to_vec())];
    let leaf = prop_oneof![scalar(), Just(Value::Null)];
    leaf.prop_recursive(5, 32, 3, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::vec((key.clone(), inner), 0..3).prop_map(|entries| entries
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    #[test]
    fn printed_queries_parse_to_themselves(query in query()) {
        let printed = query.print();
        let text = serde_json::to_string(&printed).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(Query::parse(&read).unwrap(), query, "{}", text);
    }

    #[test]
    fn no_json_panics(value in json()) {
        if let Ok(query) = Query::parse(&value) {
            prop_assert_eq!(Query::parse(&query.print()).unwrap(), query);
        }
    }
}
