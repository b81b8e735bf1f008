//! Elasticsearch's query DSL.

use firn_query::query::{Bool, Query, TextOptions, TextQuery, minimum_should_match};
use serde_json::Value;

use super::{everything, kql, lucene, not, nothing, test};
use crate::expression::Expression;
use crate::glob::Token;

pub(super) fn condition(query: &Query) -> Result<Expression, String> {
    let all = |queries: &[Query]| queries.iter().map(condition).collect::<Result<Vec<_>, _>>();
    let refused = |name: &str| Err(format!("the query [{name}] is not supported in rules"));
    Ok(match query {
        Query::MatchAll(_) => everything(),
        Query::MatchNone => nothing(),
        Query::Term(term) => test::json(Some(&term.field), &term.value, term.case_insensitive)?,
        Query::Terms(terms) => {
            let values = terms
                .values
                .iter()
                .map(|value| test::json(Some(&terms.field), value, false));
            Expression::Or(values.collect::<Result<_, _>>()?)
        }
        Query::Range(range) => test::range(range)?,
        Query::Exists(exists) => test::exists(&exists.field)?,
        Query::Match(part) => text(part, false)?,
        Query::MatchPhrase(part) => text(part, true)?,
        Query::Bool(part) => bool_query(part)?,
        Query::DisMax(part) => Expression::Or(all(&part.queries)?),
        Query::ConstantScore(part) => condition(&part.filter)?,
        Query::Named(part) => condition(&part.query)?,
        Query::QueryString(part) => {
            let all = wants_all(&part.options)?;
            match &part.default_fields[..] {
                [] => lucene::condition(None, &part.parsed, all)?,
                fields => {
                    let each = fields.iter().map(|(name, _)| match name.as_str() {
                        "*" => lucene::condition(None, &part.parsed, all),
                        name => lucene::condition(Some(name), &part.parsed, all),
                    });
                    Expression::Or(each.collect::<Result<_, _>>()?)
                }
            }
        }
        Query::Kql(part) => kql::condition(&part.parsed)?,
        Query::Prefix(part) => {
            let tokens = vec![Token::Literal(part.value.clone()), Token::AnyText];
            test::pattern(Some(&part.field), tokens, part.case_insensitive)?
        }
        Query::Wildcard(part) => {
            let tokens = test::wildcard_tokens(&part.value);
            test::pattern(Some(&part.field), tokens, part.case_insensitive)?
        }
        Query::Regexp(part) => {
            let pattern = &part.pattern;
            test::regexp(Some(&pattern.field), &pattern.value, pattern.case_insensitive)?
        }
        Query::MultiMatch(part) if !part.fields.is_empty() => {
            let (value, all) = (scalar(&part.query)?, wants_all(&part.options)?);
            let each = part.fields.iter().map(|(name, _)| {
                let name = Some(name.as_str()).filter(|name| *name != "*");
                test::value(name, &value, all)
            });
            Expression::Or(each.collect())
        }
        Query::MultiMatch(_) => return refused("multi_match without fields"),
        Query::Ids(_) => return refused("ids"),
        Query::MatchPhrasePrefix(_) => return refused("match_phrase_prefix"),
        Query::MatchBoolPrefix(_) => return refused("match_bool_prefix"),
        Query::Boosting(_) => return refused("boosting"),
        Query::SimpleQueryString(_) => return refused("simple_query_string"),
        Query::Fuzzy(_) => return refused("fuzzy"),
    })
}

fn text(part: &TextQuery, is_phrase: bool) -> Result<Expression, String> {
    let (value, all) = (scalar(&part.query)?, wants_all(&part.options)?);
    Ok(match is_phrase {
        true => test::phrase(Some(&part.field), &value),
        false => test::value(Some(&part.field), &value, all),
    })
}

/// Returns whether all words of a text are wanted, not one of them.
fn wants_all(options: &TextOptions) -> Result<bool, String> {
    let refused = [
        ("analyzer", options.analyzer.is_some()),
        ("minimum_should_match", options.minimum_should_match.is_some()),
        ("fuzziness", options.fuzziness.is_some()),
        ("slop", options.slop > 0),
    ];
    match refused.iter().find(|(_, is_set)| *is_set) {
        Some((name, _)) => Err(format!("[{name}] of a text is not supported in rules")),
        None => Ok(options.operator_and),
    }
}

fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        other => Err(format!("[{other}] is no value to search for")),
    }
}

fn bool_query(part: &Bool) -> Result<Expression, String> {
    let all = |queries: &[Query]| queries.iter().map(condition).collect::<Result<Vec<_>, _>>();
    let mut parts = all(&part.must)?;
    parts.append(&mut all(&part.filter)?);
    let is_optional = !parts.is_empty();
    parts.extend(all(&part.must_not)?.into_iter().map(not));
    let should = all(&part.should)?;
    let wanted = match &part.minimum_should_match {
        Some(text) => minimum_should_match(text, should.len()),
        None => usize::from(!is_optional && !should.is_empty()),
    };
    match wanted {
        0 => {}
        1 => parts.push(Expression::Or(should)),
        wanted => parts.push(Expression::AtLeast(wanted, should)),
    }
    Ok(Expression::And(parts))
}
