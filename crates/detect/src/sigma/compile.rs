//! Sigma's detections and conditions to expressions.

use std::collections::{BTreeMap, HashMap};

use rsigma_ir::{
    IrCondition, IrDetection, IrDetectionItem, IrEncoding, IrExpandPart, IrFilter, IrMatcher, IrNumber, IrPattern,
    IrPatternPart, IrRule, IrStrOp, IrTimePart,
};
use rsigma_parser::Quantifier;

use super::encodings::encode;
use crate::expression::{Comparison, Expression, Field, FieldTest, Test, TextOperator, TimePart};
use crate::glob::{Pattern, Token};
use crate::index::compile_regex;

/// Most wildcards in one text: more are taken for a mistake.
const WILDCARDS_MAX: usize = 64;

/// Returns the condition of a rule; of several one has to hold.
pub(super) fn condition(rule: &IrRule) -> Result<Expression, String> {
    any_condition(&rule.detections, &rule.conditions)
}

/// Returns the condition of a filter, which is added to those of the rules that it is for.
pub(super) fn filter_condition(filter: &IrFilter) -> Result<Expression, String> {
    any_condition(&filter.detections, &filter.conditions)
}

fn any_condition(named: &HashMap<String, IrDetection>, conditions: &[IrCondition]) -> Result<Expression, String> {
    let detections = detections(named)?;
    let conditions: Result<Vec<_>, _> = conditions.iter().map(|part| combine(part, &detections)).collect();
    let mut conditions = conditions?;
    match conditions.len() {
        0 => Err("there is no condition".to_owned()),
        1 => Ok(conditions.remove(0)),
        _ => Ok(Expression::Or(conditions)),
    }
}

/// Detections by name, in an order that does not depend on a hash.
fn detections(named: &HashMap<String, IrDetection>) -> Result<BTreeMap<&str, Expression>, String> {
    let compiled = named.iter().map(|(name, inner)| Ok((name.as_str(), detection(inner)?)));
    compiled.collect()
}

fn combine(condition: &IrCondition, detections: &BTreeMap<&str, Expression>) -> Result<Expression, String> {
    let all = |parts: &[IrCondition]| -> Result<Vec<_>, String> {
        parts.iter().map(|part| combine(part, detections)).collect()
    };
    match condition {
        IrCondition::Detection(name) => match detections.get(name.as_str()) {
            Some(expression) => Ok(expression.clone()),
            None => Err(format!(
                "the condition names [{name}], which is no detection of the rule"
            )),
        },
        IrCondition::And(parts) => Ok(Expression::And(all(parts)?)),
        IrCondition::Or(parts) => Ok(Expression::Or(all(parts)?)),
        IrCondition::Not(part) => Ok(Expression::Not(Box::new(combine(part, detections)?))),
        IrCondition::Selector { quantifier, pattern } => {
            let selected = detections
                .iter()
                .filter(|(name, _)| pattern.matches_detection_name(name));
            let selected: Vec<Expression> = selected.map(|(_, expression)| expression.clone()).collect();
            if selected.is_empty() {
                return Err(format!(
                    "the condition selects [{pattern}], which no detection of the rule matches"
                ));
            }
            Ok(match quantifier {
                Quantifier::Any => Expression::Or(selected),
                Quantifier::All => Expression::And(selected),
                Quantifier::Count(count) => {
                    Expression::AtLeast(usize::try_from(*count).unwrap_or(usize::MAX), selected)
                }
            })
        }
    }
}

fn detection(inner: &IrDetection) -> Result<Expression, String> {
    match inner {
        IrDetection::AllOf(items) => {
            let tests: Result<Vec<_>, _> = items.iter().map(item).collect();
            Ok(Expression::And(tests?))
        }
        IrDetection::AnyOf(inner) => {
            let any: Result<Vec<_>, _> = inner.iter().map(detection).collect();
            Ok(Expression::Or(any?))
        }
        IrDetection::And(inner) => {
            let all: Result<Vec<_>, _> = inner.iter().map(detection).collect();
            Ok(Expression::And(all?))
        }
        IrDetection::Keywords(inner) => matcher(&Field::AnyText, inner),
        IrDetection::Conditional { named, condition } => combine(condition, &detections(named)?),
        IrDetection::ArrayMatch { field, .. } => Err(format!(
            "[{field}]: quantifiers over the objects of a list are not supported"
        )),
    }
}

fn item(item: &IrDetectionItem) -> Result<Expression, String> {
    let field = match &item.field {
        Some(name) => Field::Named(name.as_str().into()),
        None => Field::AnyText,
    };
    matcher(&field, &item.matcher).map_err(|reason| match &item.field {
        Some(name) => format!("[{name}]: {reason}"),
        None => reason,
    })
}

fn matcher(field: &Field, inner: &IrMatcher) -> Result<Expression, String> {
    if let IrMatcher::AnyOf(inner) | IrMatcher::AllOf(inner) = inner
        && inner.is_empty()
    {
        return Err("the list of values is empty: no event would match".to_owned());
    }
    let test = |test: Test| {
        Expression::Test(FieldTest {
            field: field.clone(),
            test,
        })
    };
    let number = |comparison: Comparison, number: &IrNumber| match number {
        IrNumber::Literal(number) => Ok(match field {
            Field::Named(_) => test(Test::Number(comparison, *number)),
            // A number among keywords is looked for as text.
            Field::AnyText => test(Test::Text(Pattern::new(
                surround(number.to_string(), IrStrOp::Contains),
                true,
            ))),
        }),
        IrNumber::DynamicSourceRef { source_id, .. } => {
            Err(format!("the number comes from [{source_id}], which firn does not know"))
        }
    };
    match inner {
        IrMatcher::Str {
            op,
            pattern,
            case_insensitive,
        } => Ok(test(Test::Text(text(*op, pattern, *case_insensitive)?))),
        IrMatcher::Encoded {
            encodings,
            op,
            value,
            case_insensitive,
        } => {
            if encodings.contains(&IrEncoding::Windash) {
                return Ok(test(Test::Text(Pattern::new(dashes(value, *op), *case_insensitive))));
            }
            let encoded = encode(value, encodings);
            let op = if encoded.is_part { IrStrOp::Contains } else { *op };
            let patterns = encoded
                .texts
                .into_iter()
                .map(|encoded| test(Test::Text(Pattern::new(surround(encoded, op), *case_insensitive))));
            Ok(Expression::Or(patterns.collect()))
        }
        IrMatcher::Regex {
            pattern,
            case_insensitive,
            multiline,
            dotall,
            ..
        } => {
            let flags: String = [(*case_insensitive, 'i'), (*multiline, 'm'), (*dotall, 's')]
                .into_iter()
                .filter_map(|(is_set, flag)| is_set.then_some(flag))
                .collect();
            let expression = match flags.is_empty() {
                true => pattern.clone(),
                false => format!("(?{flags}){pattern}"),
            };
            compile_regex(&expression)?;
            Ok(test(Test::Regex(expression)))
        }
        IrMatcher::Cidr { network } => match network.parse() {
            Ok(network) => Ok(test(Test::Network(network))),
            Err(_) => Err(format!("[{network}] is no network")),
        },
        IrMatcher::NumericEq(value) => number(Comparison::Equal, value),
        IrMatcher::NumericGt(value) => number(Comparison::Greater, value),
        IrMatcher::NumericGte(value) => number(Comparison::GreaterOrEqual, value),
        IrMatcher::NumericLt(value) => number(Comparison::Less, value),
        IrMatcher::NumericLte(value) => number(Comparison::LessOrEqual, value),
        IrMatcher::Exists(true) => Ok(test(Test::Exists)),
        IrMatcher::Exists(false) => Ok(Expression::Not(Box::new(test(Test::Exists)))),
        IrMatcher::FieldRef {
            field: name,
            op,
            case_insensitive,
        } => Ok(test(Test::OtherField {
            name: name.as_str().into(),
            operator: match op {
                IrStrOp::Exact => TextOperator::Equals,
                IrStrOp::Contains => TextOperator::Contains,
                IrStrOp::StartsWith => TextOperator::StartsWith,
                IrStrOp::EndsWith => TextOperator::EndsWith,
            },
            ignore_case: *case_insensitive,
        })),
        IrMatcher::Null => Ok(test(Test::Null)),
        IrMatcher::BoolEq(value) => Ok(test(Test::Boolean(*value))),
        IrMatcher::Expand { template, .. } => Err(placeholder(template)),
        IrMatcher::TimestampPart { part, inner } => match &**inner {
            IrMatcher::NumericEq(IrNumber::Literal(number)) => Ok(test(Test::TimePart(
                match part {
                    IrTimePart::Minute => TimePart::Minute,
                    IrTimePart::Hour => TimePart::Hour,
                    IrTimePart::Day => TimePart::Day,
                    IrTimePart::Week => TimePart::Week,
                    IrTimePart::Month => TimePart::Month,
                    IrTimePart::Year => TimePart::Year,
                },
                *number as i64,
            ))),
            _ => Err("a part of a date is compared with a number".to_owned()),
        },
        IrMatcher::Not(inner) => Ok(Expression::Not(Box::new(matcher(field, inner)?))),
        IrMatcher::AnyOf(inner) => {
            let any: Result<Vec<_>, _> = inner.iter().map(|inner| matcher(field, inner)).collect();
            Ok(Expression::Or(any?))
        }
        IrMatcher::AllOf(inner) => {
            let all: Result<Vec<_>, _> = inner.iter().map(|inner| matcher(field, inner)).collect();
            Ok(Expression::And(all?))
        }
    }
}

/// Returns why a text with placeholders cannot be used.
fn placeholder(template: &[IrExpandPart]) -> String {
    let names = template.iter().filter_map(|part| match part {
        IrExpandPart::Placeholder(name) => Some(format!("[%{name}%]")),
        IrExpandPart::Literal(_) => None,
    });
    let names: Vec<String> = names.collect();
    format!(
        "the placeholder {} has no values: write them in its place, without the modifier [expand]",
        names.join(", ")
    )
}

fn text(op: IrStrOp, pattern: &IrPattern, ignore_case: bool) -> Result<Pattern, String> {
    let tokens = pattern.parts.iter().map(|part| match part {
        IrPatternPart::Literal(text) => Token::Literal(text.clone()),
        IrPatternPart::WildcardMulti => Token::AnyText,
        IrPatternPart::WildcardSingle => Token::AnyCharacter,
    });
    let pattern = Pattern::new(around(tokens, op), ignore_case);
    let wildcards = pattern
        .tokens()
        .iter()
        .filter(|token| !matches!(token, Token::Literal(_)));
    match wildcards.count() {
        count if count > WILDCARDS_MAX => Err(format!("the text has {count} wildcards; {WILDCARDS_MAX} are allowed")),
        _ => Ok(pattern),
    }
}

/// Adds what an operator allows before and after a text.
fn around(tokens: impl Iterator<Item = Token>, op: IrStrOp) -> impl Iterator<Item = Token> {
    let before = matches!(op, IrStrOp::Contains | IrStrOp::EndsWith).then_some(Token::AnyText);
    let after = matches!(op, IrStrOp::Contains | IrStrOp::StartsWith).then_some(Token::AnyText);
    before.into_iter().chain(tokens).chain(after)
}

fn surround(text: String, op: IrStrOp) -> impl Iterator<Item = Token> {
    around(std::iter::once(Token::Literal(text)), op)
}

/// Tokens of a text in which a dash or slash before a word, and behind none, stands for all dashes.
fn dashes(text: &str, op: IrStrOp) -> Vec<Token> {
    let is_word = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let mut tokens = Vec::new();
    let mut before = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_dash = matches!(letter, '-' | '/') && !is_word(before) && is_word(letters.peek().copied());
        tokens.push(match is_dash {
            true => Token::Dash,
            false => Token::Literal(letter.to_string()),
        });
        before = Some(letter);
    }
    around(tokens.into_iter(), op).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_before_words_stand_for_all_dashes() {
        let pattern = Pattern::new(dashes(" -foo-bar /x - y", IrStrOp::Contains), true);
        let literal = |text: &str| Token::Literal(text.to_owned());
        assert_eq!(
            pattern.tokens(),
            [
                Token::AnyText,
                literal(" "),
                Token::Dash,
                literal("foo-bar "),
                Token::Dash,
                literal("x - y"),
                Token::AnyText
            ]
        );
    }
}
