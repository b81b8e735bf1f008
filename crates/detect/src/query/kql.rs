//! The Kibana Query Language.

use firn_query::query::kql::{Comparison as Operator, Node, Pattern, Value};

use super::{everything, not, test};
use crate::expression::{Comparison, Expression};
use crate::glob::Token;

pub(super) fn condition(node: &Node) -> Result<Expression, String> {
    let all = |nodes: &[Node]| nodes.iter().map(condition).collect::<Result<Vec<_>, _>>();
    Ok(match node {
        Node::All => everything(),
        Node::And(nodes) => Expression::And(all(nodes)?),
        Node::Or(nodes) => Expression::Or(all(nodes)?),
        Node::Not(node) => not(condition(node)?),
        Node::Is { field, value } => is(field.as_ref(), value)?,
        Node::Range {
            field,
            comparison,
            value,
        } => {
            let comparison = match comparison {
                Operator::Greater => Comparison::Greater,
                Operator::GreaterOrEqual => Comparison::GreaterOrEqual,
                Operator::Less => Comparison::Less,
                Operator::LessOrEqual => Comparison::LessOrEqual,
            };
            test::compare(one_field(field)?, comparison, &value.as_str().into())?
        }
    })
}

fn one_field(field: &Pattern) -> Result<&str, String> {
    field.as_text().ok_or_else(|| {
        let name = field.0.join("*");
        format!("the field [{name}] is a pattern, which is not supported in rules")
    })
}

fn is(field: Option<&Pattern>, value: &Value) -> Result<Expression, String> {
    let is_any = matches!(value, Value::Words(words) if words.is_any());
    let name = match field {
        None if is_any => return Ok(everything()),
        Some(field) if is_any => return test::exists(&field.0.join("*")),
        None => None,
        Some(field) if field.is_any() => None,
        Some(field) => Some(one_field(field)?),
    };
    match value {
        Value::Phrase(text) => Ok(test::phrase(name, text)),
        Value::Words(words) => match words.as_text() {
            Some(text) => Ok(test::value(name, text, false)),
            None => {
                let mut tokens = Vec::new();
                for (place, part) in words.0.iter().enumerate() {
                    if place > 0 {
                        tokens.push(Token::AnyText);
                    }
                    tokens.push(Token::Literal(part.clone()));
                }
                test::pattern(name, tokens, false)
            }
        },
    }
}
