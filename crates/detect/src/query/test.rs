//! Tests of one field, as the queries of all languages need them.

use firn_query::query::Range;
use ipnet::IpNet;
use serde_json::Value;

use super::everything;
use crate::expression::{Comparison, Expression, Field, FieldTest, Test};
use crate::glob::{Pattern, Token};

/// Fields that ECS has as texts; so are those whose names end in `.text`.
const TEXTS: [&str; 3] = ["message", "error.message", "event.original"];

/// Field of a query; `None`: every text of the event.
pub(super) type Name<'n> = Option<&'n str>;

/// Returns whether a field is searched by word.
pub(crate) fn is_text(name: Name<'_>) -> bool {
    name.is_none_or(|name| TEXTS.contains(&name) || name.ends_with(".text"))
}

fn on(name: Name<'_>, test: Test) -> Expression {
    let field = name.map_or(Field::AnyText, |name| Field::Named(name.into()));
    Expression::Test(FieldTest { field, test })
}

/// A value equals, or a text contains its words: one of them, or all.
pub(super) fn value(name: Name<'_>, text: &str, all: bool) -> Expression {
    if !is_text(name) {
        return exact(name, text, false);
    }
    let words = words(text).map(|word| phrase(name, word));
    let words: Vec<Expression> = words.collect();
    match all {
        true => Expression::And(words),
        false => Expression::Or(words),
    }
}

/// A value equals, or a text contains the words one after the other.
pub(super) fn phrase(name: Name<'_>, text: &str) -> Expression {
    if !is_text(name) {
        return exact(name, text, false);
    }
    let words: Vec<String> = words(text).map(regex::escape).collect();
    if words.is_empty() {
        return super::nothing();
    }
    let words = words.join(r"[^\p{Alphabetic}\p{N}_]+");
    on(
        name,
        Test::Regex(format!(
            r"(?i)(?:^|[^\p{{Alphabetic}}\p{{N}}_]){words}(?:[^\p{{Alphabetic}}\p{{N}}_]|$)"
        )),
    )
}

/// Words of a text, roughly as the standard analyzer finds them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|character: char| !(character.is_alphanumeric() || character == '_'));
    words.filter(|word| !word.is_empty())
}

/// A value equals.
pub(super) fn exact(name: Name<'_>, text: &str, ignore_case: bool) -> Expression {
    let equals = on(
        name,
        Test::Text(Pattern::new([Token::Literal(text.to_owned())], ignore_case)),
    );
    match text.parse::<IpNet>() {
        Ok(network) if name.is_some() => Expression::Or(vec![equals, on(name, Test::Network(network))]),
        _ => equals,
    }
}

/// A value of JSON equals.
pub(super) fn json(name: Name<'_>, value: &Value, ignore_case: bool) -> Result<Expression, String> {
    match value {
        Value::String(text) => Ok(exact(name, text, ignore_case)),
        Value::Bool(value) => Ok(on(name, Test::Boolean(*value))),
        Value::Number(number) => match number.as_f64() {
            Some(number) => Ok(on(name, Test::Number(Comparison::Equal, number))),
            None => Err(format!("[{number}] is no number that can be compared")),
        },
        Value::Null | Value::Array(_) | Value::Object(_) => Err(format!("[{value}] is no value to compare with")),
    }
}

/// A value matches a pattern: a whole value, or a word of a text.
pub(super) fn pattern(name: Name<'_>, tokens: Vec<Token>, ignore_case: bool) -> Result<Expression, String> {
    if !is_text(name) {
        return Ok(on(name, Test::Text(Pattern::new(tokens, ignore_case))));
    }
    let mut words = String::new();
    for token in &tokens {
        match token {
            Token::Literal(text) if text.contains(char::is_whitespace) => {
                return Err("a pattern of several words cannot be looked for in a text".to_owned());
            }
            Token::Literal(text) => words.push_str(&regex::escape(text)),
            Token::AnyCharacter => words.push_str(r"[\p{Alphabetic}\p{N}_]"),
            Token::AnyText => words.push_str(r"[\p{Alphabetic}\p{N}_]*"),
            Token::Dash => words.push('-'),
        }
    }
    Ok(on(
        name,
        Test::Regex(format!(
            r"(?i)(?:^|[^\p{{Alphabetic}}\p{{N}}_]){words}(?:[^\p{{Alphabetic}}\p{{N}}_]|$)"
        )),
    ))
}

/// A wildcard of Lucene: `*`, `?`, and `\` before one that is meant as it is.
pub(super) fn wildcard_tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        tokens.push(match character {
            '*' => Token::AnyText,
            '?' => Token::AnyCharacter,
            '\\' => Token::Literal(characters.next().unwrap_or('\\').to_string()),
            other => Token::Literal(other.to_string()),
        });
    }
    tokens
}

/// A value matches a regular expression of Lucene as a whole.
pub(super) fn regexp(name: Name<'_>, expression: &str, ignore_case: bool) -> Result<Expression, String> {
    let mut is_escaped = false;
    for character in expression.chars() {
        // Lucene's own operators, which mean nothing or something else in other syntaxes.
        if !is_escaped && matches!(character, '~' | '&' | '<' | '@' | '#' | '"' | '^' | '$') {
            return Err(format!(
                "the operator [{character}] of the regular expression [{expression}] is not supported in rules"
            ));
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    let flags = if ignore_case { "(?is)" } else { "(?s)" };
    Ok(on(name, Test::Regex(format!("{flags}^(?:{expression})$"))))
}

/// There is a value.
pub(super) fn exists(name: &str) -> Result<Expression, String> {
    match name {
        "*" => Ok(everything()),
        name if name.contains('*') => Err(format!(
            "the field [{name}] is a pattern, which is not supported in rules"
        )),
        name => Ok(on(Some(name), Test::Exists)),
    }
}

/// A number is within bounds.
pub(super) fn range(range: &Range) -> Result<Expression, String> {
    let mut bounds = Vec::new();
    for (bound, inclusive, exclusive) in [
        (&range.lower, Comparison::GreaterOrEqual, Comparison::Greater),
        (&range.upper, Comparison::LessOrEqual, Comparison::Less),
    ] {
        if let Some((value, is_inclusive)) = bound {
            let comparison = if *is_inclusive { inclusive } else { exclusive };
            bounds.push(compare(&range.field, comparison, value)?);
        }
    }
    match bounds.is_empty() {
        true => exists(&range.field),
        false => Ok(Expression::And(bounds)),
    }
}

/// A number compares with a bound.
pub(super) fn compare(name: &str, comparison: Comparison, bound: &Value) -> Result<Expression, String> {
    let number = match bound {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
        _ => None,
    };
    match number {
        Some(number) => Ok(on(Some(name), Test::Number(comparison, number))),
        None => Err(format!(
            "[{name}] is compared with [{bound}]: rules compare numbers only"
        )),
    }
}
