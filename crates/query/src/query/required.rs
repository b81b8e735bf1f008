//! Required queries: conditions that every match of a query meets.

use super::Query;

impl Query {
    /// Calls `visit` with queries that every match meets: the query itself, or the queries in `must` and `filter` at
    /// any depth. Pruning by them loses no match.
    pub fn for_each_required<'q>(&'q self, visit: &mut dyn FnMut(&'q Query)) {
        match self {
            Query::Bool(part) => {
                for query in part.must.iter().chain(&part.filter) {
                    query.for_each_required(visit);
                }
            }
            Query::ConstantScore(part) => part.filter.for_each_required(visit),
            Query::Named(part) => part.query.for_each_required(visit),
            Query::Kql(part) => part.unmapped.for_each_required(visit),
            other => visit(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(query: Value, expect: &[Value]) {
        let query = Query::parse(&query).unwrap();
        let mut found = Vec::new();
        query.for_each_required(&mut |query| found.push(query.clone()));
        let expect: Vec<Query> = expect.iter().map(|query| Query::parse(query).unwrap()).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn only_conjunctions_are_visited() {
        let (a, b, c) = (
            json!({"term": {"a": 1}}),
            json!({"term": {"b": 1}}),
            json!({"range": {"@timestamp": {"gte": 5}}}),
        );
        check(a.clone(), std::slice::from_ref(&a));
        check(
            json!({"bool": {"must": [a], "filter": {"constant_score": {"filter": c}}, "should": [b], "must_not": [b]}}),
            &[a.clone(), c.clone()],
        );
        check(
            json!({"bool": {"filter": {"bool": {"filter": [a, c]}}}}),
            &[a.clone(), c],
        );
        check(json!({"bool": {"should": [a, b]}}), &[]);
        check(
            json!({"kql": {"query": "a: 1 and @timestamp >= 5 and (b: 1 or not c: 1)"}}),
            &[
                json!({"match": {"a": "1"}}),
                json!({"range": {"@timestamp": {"gte": "5"}}}),
            ],
        );
    }
}
