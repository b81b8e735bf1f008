//! Required terms: exact values that every match must have, derived from the query alone.
//!
//! A split that holds none of them holds no match, and term filters show that before the split is
//! opened. The values are the ones that the compiled query would look up: the same field, the same
//! term.

use firn_model::ids::{AutoId, key_of};
use firn_model::mapping::Mapping;
use firn_query::query::{Bool, Ids, Query, TextOptions};
use firn_segment::schema::Class;
use firn_segment::splits::ID_FIELD;
use serde_json::Value;

use crate::compile::field;
use crate::compile::field::{Meta, Target};
use crate::compile::query::{minimum, terms};

/// Most values of one alternative. Checking more of them in the filters would cost more than
/// opening the splits.
const VALUES_MAX: usize = 256;
/// Most conditions that are returned: those with the fewest alternatives decide.
const CONDITIONS_MAX: usize = 8;

/// Alternatives: every match has one of these.
pub type AnyOf = Vec<RequiredTerm>;

/// One value that a match has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RequiredTerm {
    /// This term of the field with this path.
    Term {
        /// Path of the field.
        field: String,
        /// The term, as indexed.
        term: String,
    },
    /// An id that firn generated on this shard, which contains the sequence number of the write.
    Made {
        /// Number of the shard.
        shard: u32,
        /// Sequence number of the write.
        seq_no: u64,
    },
}

/// The facts about an index that the derivation needs.
pub struct Exact<'a> {
    /// The index's mapping.
    pub mapping: &'a Mapping,
    /// The index tag in generated ids.
    pub tag: u32,
    /// The field that holds a document's tenant. Term filters are not used for it, because
    /// manifests list the tenants.
    pub tenant_field: Option<&'a str>,
    /// The tenant whose documents are searched; `None`: documents of all tenants.
    pub tenant: Option<&'a str>,
}

impl Exact<'_> {
    /// Returns the values that every match of a query and of one of `filters` (if there are any)
    /// has. Conditions with the fewest alternatives come first.
    pub fn required(&self, query: &Query, filters: &[Query]) -> Vec<AnyOf> {
        let mut all = self.of(query);
        if !filters.is_empty() {
            all.extend(self.any(filters));
        }
        all.sort_by_key(Vec::len);
        all.dedup();
        all.truncate(CONDITIONS_MAX);
        all
    }

    fn of(&self, query: &Query) -> Vec<AnyOf> {
        let one = |found: Option<AnyOf>| found.into_iter().collect();
        match query {
            Query::Term(part) if !part.case_insensitive => {
                one(self.values(&part.field, std::slice::from_ref(&part.value)))
            }
            Query::Terms(part) => one(self.values(&part.field, &part.values)),
            // On a keyword field, a text is one term.
            Query::Match(part) | Query::MatchPhrase(part) if part.options == TextOptions::default() => {
                one(self.values(&part.field, std::slice::from_ref(&part.query)))
            }
            Query::Ids(Ids { values, .. }) => one(self.ids(values.iter().map(String::as_str))),
            Query::MatchNone => vec![AnyOf::new()],
            Query::Bool(part) => self.of_bool(part),
            Query::DisMax(part) => one(self.any(&part.queries)),
            Query::Boosting(part) => self.of(&part.positive),
            Query::ConstantScore(part) => self.of(&part.filter),
            Query::Named(part) => self.of(&part.query),
            // An unreadable query fails when it is compiled.
            Query::Kql(part) => part
                .lower(self.mapping)
                .map_or_else(|_| Vec::new(), |query| self.of(&query)),
            _ => Vec::new(),
        }
    }

    fn of_bool(&self, part: &Bool) -> Vec<AnyOf> {
        let mut all: Vec<AnyOf> = part
            .must
            .iter()
            .chain(&part.filter)
            .flat_map(|query| self.of(query))
            .collect();
        let least = match &part.minimum_should_match {
            // An unreadable value fails when the query is compiled.
            Some(spec) => minimum::calculate(spec, part.should.len()).unwrap_or_default(),
            None => 0,
        };
        let is_alone = part.must.is_empty() && part.filter.is_empty();
        if !part.should.is_empty() && (is_alone || least > 0) {
            all.extend(self.any(&part.should));
        }
        all
    }

    /// Returns the values of which a match of any of these queries has one.
    fn any(&self, queries: &[Query]) -> Option<AnyOf> {
        let mut union = AnyOf::new();
        for query in queries {
            union.extend(self.of(query).into_iter().min_by_key(Vec::len)?);
            if union.len() > VALUES_MAX {
                return None;
            }
        }
        Some(union)
    }

    /// Returns the values as terms; `None`: a match may be something else than a term of this
    /// field.
    fn values(&self, path: &str, values: &[Value]) -> Option<AnyOf> {
        if values.len() > VALUES_MAX || Some(path) == self.tenant_field {
            return None;
        }
        let scalars = || values.iter().filter(|value| field::scalar_text(value).is_some());
        match field::resolve(self.mapping, path) {
            Target::Meta(Meta::Id) => {
                let ids: Vec<String> = scalars().filter_map(field::scalar_text).collect();
                self.ids(ids.iter().map(String::as_str))
            }
            Target::Field(field) if matches!(field.class, Class::Keyword | Class::KeywordTerms) => scalars()
                .map(|value| {
                    Some(RequiredTerm::Term {
                        term: terms::whole_term(&field, value)?,
                        field: field.path.clone(),
                    })
                })
                .collect(),
            _ => None,
        }
    }

    fn ids<'i>(&self, ids: impl ExactSizeIterator<Item = &'i str>) -> Option<AnyOf> {
        if ids.len() > VALUES_MAX {
            return None;
        }
        let mut sought = AnyOf::new();
        for id in ids {
            if let Some(made) = AutoId::decode(id).filter(|made| made.index_tag == self.tag) {
                sought.push(RequiredTerm::Made {
                    shard: made.shard.into(),
                    seq_no: made.seq_no,
                });
            }
            // A user may supply an id of that form, too; then it is a term.
            let term = match (self.tenant_field, self.tenant) {
                (None, _) => id.to_owned(),
                (Some(_), Some(tenant)) => key_of(tenant, id),
                // Each tenant may have a document with such an id.
                (Some(_), None) => return None,
            };
            sought.push(RequiredTerm::Term {
                field: ID_FIELD.to_owned(),
                term,
            });
        }
        Some(sought)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use serde_json::json;

    use super::*;
    use firn_segment::schema::encode_ip;

    fn term(field: &str, term: &str) -> RequiredTerm {
        RequiredTerm::Term {
            field: field.to_owned(),
            term: term.to_owned(),
        }
    }

    fn required(query: Value, filters: &[Value]) -> Vec<AnyOf> {
        let mapping = json!({"properties": {
            "ip": {"type": "ip"}, "user": {"type": "keyword"}, "low": {"type": "keyword", "normalizer": "lowercase"},
            "port": {"type": "long"}, "text": {"type": "text"}, "column": {"type": "keyword", "index": false},
            "other": {"type": "alias", "path": "user"}, "tenant": {"type": "keyword"},
        }});
        let mapping = Mapping::parse(&mapping).unwrap();
        let exact = Exact {
            mapping: &mapping,
            tag: 7,
            tenant_field: Some("tenant"),
            tenant: Some("t1"),
        };
        let filters: Vec<Query> = filters.iter().map(|filter| Query::parse(filter).unwrap()).collect();
        exact.required(&Query::parse(&query).unwrap(), &filters)
    }

    #[track_caller]
    fn check(query: Value, expect: &[&[RequiredTerm]]) {
        assert_eq!(required(query, &[]), expect);
    }

    #[test]
    fn exact_values_equal_the_looked_up_terms() {
        let ip = |text: &str| term("ip", &encode_ip(text.parse::<IpAddr>().unwrap()));
        check(json!({"term": {"user": "a"}}), &[&[term("user", "a")]]);
        check(json!({"term": {"user": 5}}), &[&[term("user", "5")]]);
        check(json!({"term": {"other": "a"}}), &[&[term("user", "a")]]);
        check(json!({"term": {"low": "ABC"}}), &[&[term("low", "abc")]]);
        check(json!({"term": {"ip": "10.0.0.1"}}), &[&[ip("10.0.0.1")]]);
        check(json!({"match": {"user": "a b"}}), &[&[term("user", "a b")]]);
        check(json!({"match_phrase": {"user": "a b"}}), &[&[term("user", "a b")]]);
        check(
            json!({"terms": {"ip": ["10.0.0.1", "::1"]}}),
            &[&[ip("10.0.0.1"), ip("::1")]],
        );
        check(
            json!({"term": {"unmapped.path": "x"}}),
            &[&[term("unmapped.path", "x")]],
        );
        check(json!({"match_none": {}}), &[&[]]);
    }

    #[test]
    fn conditions_that_match_otherwise_are_left_out() {
        for query in [
            json!({"term": {"user": {"value": "a", "case_insensitive": true}}}),
            json!({"match": {"user": {"query": "a", "fuzziness": 1}}}),
            json!({"term": {"ip": "10.0.0.0/8"}}),
            json!({"terms": {"ip": ["10.0.0.1", "10.0.0.0/8"]}}),
            json!({"terms": {"ip": ["10.0.0.1", "no address"]}}),
            json!({"term": {"port": 80}}),
            json!({"term": {"text": "a"}}),
            json!({"term": {"column": "a"}}),
            json!({"term": {"tenant": "a"}}),
            json!({"term": {"_index": "a"}}),
            json!({"prefix": {"user": "a"}}),
            json!({"exists": {"field": "user"}}),
            json!({"bool": {"must_not": {"term": {"user": "a"}}}}),
            json!({"bool": {"should": [{"term": {"user": "a"}}, {"prefix": {"user": "b"}}]}}),
            json!({"terms": {"user": (0..300).collect::<Vec<_>>()}}),
        ] {
            check(query, &[]);
        }
    }

    #[test]
    fn conditions_are_put_together() {
        let (a, b) = (json!({"term": {"user": "a"}}), json!({"term": {"low": "b"}}));
        let (user, low) = (term("user", "a"), term("low", "b"));
        let (one, two): (&[RequiredTerm], &[RequiredTerm]) = (std::slice::from_ref(&user), std::slice::from_ref(&low));
        check(json!({"bool": {"must": [a], "filter": [b]}}), &[one, two]);
        check(json!({"bool": {"filter": [a, a]}}), &[one]);
        let both: &[RequiredTerm] = &[user.clone(), low.clone()];
        check(json!({"bool": {"should": [a, b]}}), &[both]);
        check(json!({"dis_max": {"queries": [a, b]}}), &[both]);
        // Next to a filter, none of `should` has to match, unless `minimum_should_match` says so.
        check(json!({"bool": {"filter": [a], "should": [b]}}), &[one]);
        check(
            json!({"bool": {"filter": [a], "should": [b, b], "minimum_should_match": 1}}),
            &[one, &[low.clone(), low.clone()]],
        );
        check(
            json!({"bool": {"filter": [{"bool": {"should": [b], "minimum_should_match": 1}}]}}),
            &[two],
        );
        check(
            json!({"constant_score": {"filter": {"boosting": {"positive": a, "negative": b, "negative_boost": 0.1}}}}),
            &[one],
        );
        // A document must match one of several alias filters.
        assert_eq!(required(json!({"match_all": {}}), &[a.clone(), b]), [both]);
        assert!(required(json!({"match_all": {}}), &[a, json!({"match_all": {}})]).is_empty());
    }

    #[test]
    fn ids_are_keys_or_numbers() {
        let made = AutoId {
            index_tag: 7,
            shard: 3,
            seq_no: 99,
        }
        .encode();
        let key = |id: &str| term(ID_FIELD, &key_of("t1", id));
        let number = RequiredTerm::Made { shard: 3, seq_no: 99 };
        check(json!({"ids": {"values": ["x"]}}), &[&[key("x")]]);
        check(json!({"term": {"_id": "x"}}), &[&[key("x")]]);
        check(json!({"ids": {"values": [made]}}), &[&[number, key(&made)]]);
        let foreign = AutoId {
            index_tag: 8,
            shard: 3,
            seq_no: 99,
        }
        .encode();
        check(json!({"ids": {"values": [foreign]}}), &[&[key(&foreign)]]);
        check(json!({"ids": {"values": []}}), &[&[]]);
    }
}
