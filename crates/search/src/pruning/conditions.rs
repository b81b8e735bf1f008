//! Extraction of pure conditions from a query: clauses that every hit must meet and that do not
//! score.
//!
//! Conditions on time or tenant are answered from the row order of a segment
//! ([`crate::pruning::time_window`], [`crate::tenancy::tenant_rows`]); only the rest of the query is evaluated
//! document by document.

use firn_query::query::{Bool, ConstantScore, MatchAll, Query};

/// Returns the query without the conditions that `is_condition` accepts; `None`: the query has none
/// of them. `scoring`: the caller needs the query's scores.
pub(crate) fn take_out(query: &Query, scoring: bool, is_condition: &mut dyn FnMut(&Query) -> bool) -> Option<Query> {
    match query {
        Query::Bool(part) => take_out_of_bool(part, scoring, is_condition),
        Query::ConstantScore(part) => {
            let rest = ConstantScore {
                filter: Box::new(take_out(&part.filter, false, is_condition)?),
                boost: part.boost,
            };
            Some(Query::ConstantScore(rest))
        }
        // Names of matched queries are computed for hits from the original query.
        Query::Named(part) => take_out(&part.query, scoring, is_condition),
        _ if !scoring && is_condition(query) => Some(Query::MatchAll(MatchAll::default())),
        _ => None,
    }
}

fn take_out_of_bool(part: &Bool, scoring: bool, is_condition: &mut dyn FnMut(&Query) -> bool) -> Option<Query> {
    let mut rest = part.clone();
    let mut found = take_out_of_clauses(&mut rest.filter, is_condition);
    if !scoring {
        found |= take_out_of_clauses(&mut rest.must, is_condition);
    }
    if !found {
        return None;
    }
    let nothing_required = rest.filter.is_empty() && rest.must.is_empty();
    if nothing_required && rest.should.is_empty() && rest.must_not.is_empty() {
        return Some(Query::MatchAll(MatchAll { boost: rest.boost.0 }));
    }
    // Without a filter, one of `should` would have to match.
    if nothing_required && !rest.should.is_empty() {
        rest.filter.push(Query::MatchAll(MatchAll::default()));
    }
    Some(Query::Bool(rest))
}

/// Removes conditions from clauses. Returns true if there were any.
fn take_out_of_clauses(clauses: &mut Vec<Query>, is_condition: &mut dyn FnMut(&Query) -> bool) -> bool {
    let mut found = false;
    clauses.retain_mut(|clause| match take_out(clause, false, is_condition) {
        None => true,
        Some(rest) => {
            found = true;
            let is_needed = !matches!(rest, Query::MatchAll(_));
            *clause = rest;
            is_needed
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Checks with `term`s on `t` as the conditions.
    fn check(query: Value, scoring: bool, expect: Option<Value>) {
        let query = Query::parse(&query).unwrap();
        let rest = take_out(
            &query,
            scoring,
            &mut |query| matches!(query, Query::Term(term) if term.field == "t"),
        );
        assert_eq!(rest.map(|rest| rest.print()), expect, "{}", query.print());
    }

    #[test]
    fn takes_conditions_out() {
        let (condition, other) = (json!({"term": {"t": 1}}), json!({"exists": {"field": "o"}}));
        let all = Query::MatchAll(MatchAll::default()).print();
        check(condition.clone(), false, Some(all.clone()));
        check(condition.clone(), true, None);
        check(other.clone(), false, None);
        check(json!({"bool": {"filter": [condition]}}), true, Some(all.clone()));
        check(json!({"bool": {"must": [condition]}}), false, Some(all.clone()));
        check(json!({"bool": {"must": [condition]}}), true, None);
        check(json!({"bool": {"should": [condition]}}), false, None);
        check(json!({"bool": {"must_not": [condition]}}), false, None);
        check(
            json!({"bool": {"filter": [other, {"bool": {"must": [condition]}}]}}),
            true,
            Some(json!({"bool": {"filter": [other]}})),
        );
        check(
            json!({"bool": {"filter": [{"bool": {"must": [condition], "must_not": [other]}}]}}),
            true,
            Some(json!({"bool": {"filter": [{"bool": {"must_not": [other]}}]}})),
        );
        check(
            json!({"constant_score": {"filter": condition, "boost": 2.0}}),
            true,
            Some(json!({"constant_score": {"filter": all, "boost": 2.0}})),
        );
    }

    #[test]
    fn should_clauses_stay_optional() {
        let (condition, other) = (json!({"term": {"t": 1}}), json!({"exists": {"field": "o"}}));
        let all = Query::MatchAll(MatchAll::default()).print();
        check(
            json!({"bool": {"filter": [condition], "should": [other]}}),
            true,
            Some(json!({"bool": {"filter": [all], "should": [other]}})),
        );
        check(
            json!({"bool": {"filter": [condition], "should": [other], "minimum_should_match": 1}}),
            true,
            Some(json!({"bool": {"filter": [all], "should": [other], "minimum_should_match": "1"}})),
        );
        check(
            json!({"bool": {"filter": [condition, other], "should": [other]}}),
            true,
            Some(json!({"bool": {"filter": [other], "should": [other]}})),
        );
    }
}
