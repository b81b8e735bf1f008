//! Lucene's syntax, already parsed.

use firn_query::query::Range;
use firn_query::query::query_string::Node;

use super::test::{self, Name};
use super::{everything, not, nothing};
use crate::expression::Expression;
use crate::glob::Token;

/// Returns the condition of a node. `all`: the words of a text are all wanted (`default_operator`).
pub(super) fn condition(name: Name<'_>, node: &Node, all: bool) -> Result<Expression, String> {
    Ok(match node {
        Node::All => everything(),
        Node::Bool { must, should, must_not } => {
            let each = |nodes: &[Node]| {
                let conditions = nodes.iter().map(|node| condition(name, node, all));
                conditions.collect::<Result<Vec<_>, _>>()
            };
            let mut parts = each(must)?;
            if must.is_empty() && !should.is_empty() {
                parts.push(Expression::Or(each(should)?));
            }
            parts.extend(each(must_not)?.into_iter().map(not));
            match parts.is_empty() {
                true => nothing(),
                false => Expression::And(parts),
            }
        }
        Node::Scoped { field, node, .. } => match field {
            Some(field) if field == "*" => condition(None, node, all)?,
            Some(field) if field.contains('*') => {
                return Err(format!(
                    "the field [{field}] is a pattern, which is not supported in rules"
                ));
            }
            Some(field) => condition(Some(field), node, all)?,
            None => condition(name, node, all)?,
        },
        Node::Word(text) => test::value(name, text, all),
        Node::Phrase(text, 0) => test::phrase(name, text),
        Node::Phrase(..) => return Err("phrases with a distance (~) are not supported in rules".to_owned()),
        Node::Wildcard(text) => test::pattern(name, test::wildcard_tokens(text), false)?,
        Node::Prefix(text) => test::pattern(name, vec![Token::Literal(text.clone()), Token::AnyText], false)?,
        Node::Fuzzy(..) => return Err("fuzzy words (~) are not supported in rules".to_owned()),
        Node::Regexp(text) => test::regexp(name, text, false)?,
        Node::Range { lower, upper } => {
            let Some(name) = name else {
                return Err("a range needs a field".to_owned());
            };
            let bound = |bound: &Option<(String, bool)>| bound.as_ref().map(|(text, is)| (text.as_str().into(), *is));
            test::range(&Range {
                field: name.to_owned(),
                lower: bound(lower),
                upper: bound(upper),
                format: None,
                time_zone: None,
                boost: 1.0,
            })?
        }
        Node::Exists(field) => test::exists(field)?,
    })
}
