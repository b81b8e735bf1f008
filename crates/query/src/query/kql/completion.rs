//! Completion of a KQL text that is being typed.

use std::ops::Range;

use super::lexer::{Lexeme, Token, lex, quote};
use super::syntax::{Expected, expected_after};
use super::{Pattern, lexer};
use crate::query::completion::{CompletionKind, Slot, before};

/// Returns what may stand at a byte position of the text. It reads only the text before the cursor, and the end of the
/// word at the cursor.
pub fn complete(text: &str, cursor: usize) -> Vec<Slot> {
    let left = before(text, cursor);
    let cursor = left.len();
    let lexed = lex(left);
    if let Some(error) = lexed.error {
        let is_quote = left[error.at.start..].starts_with('"');
        return match is_quote {
            true => quoted(text, error.at.start, cursor),
            false => Vec::new(),
        };
    }
    let is_typed = |lexeme: &&Lexeme| lexeme.at.end == cursor && is_word(&lexeme.token);
    match lexed.lexemes.last().filter(is_typed) {
        Some(last) => word(
            text,
            &lexed.lexemes,
            last.at.start..word_end(text, last.at.start, cursor),
            cursor,
        ),
        None => between(left),
    }
}

/// Returns a value as KQL writes it.
pub fn write_value(value: &str) -> String {
    quote(value)
}

/// Returns a field name as KQL writes it.
pub fn write_field(name: &str) -> String {
    lexer::escape_word(&Pattern(vec![name.to_owned()]))
}

fn is_word(token: &Token) -> bool {
    matches!(token, Token::Word(_) | Token::And | Token::Or | Token::Not)
}

/// Returns the end of the word that begins at `start` and continues at least to the cursor.
fn word_end(text: &str, start: usize, cursor: usize) -> usize {
    let whole = lex(&text[start..]).lexemes;
    whole
        .first()
        .map_or(cursor, |lexeme| (start + lexeme.at.end).max(cursor))
}

/// The cursor is after a space or an operator character.
fn between(left: &str) -> Vec<Slot> {
    let Some((may, field)) = expected_after(left) else {
        return Vec::new();
    };
    let here = left.len()..left.len();
    let mut slots = Vec::new();
    if let Some(name) = field.as_ref().and_then(Pattern::as_text) {
        slots.push(Slot::new(CompletionKind::Value(name.to_owned()), "", here.clone()));
    }
    if may.contains(&Expected::Colon)
        && let Some(Token::Word(name)) = lex(left).lexemes.pop().map(|lexeme| lexeme.token)
        && let Some(name) = name.as_text()
    {
        slots.push(Slot::new(CompletionKind::Operator(name.to_owned()), "", here.clone()));
    }
    if may.contains(&Expected::And) {
        slots.push(Slot::new(CompletionKind::Conjunction, "", here.clone()));
    }
    if may.contains(&Expected::Field) {
        slots.push(Slot::new(CompletionKind::Field, "", here));
    }
    slots
}

/// The cursor is in or after the word at `last`.
fn word(text: &str, lexemes: &[Lexeme], last: Range<usize>, cursor: usize) -> Vec<Slot> {
    // Adjacent words are one value.
    let others = lexemes.len() - 1;
    let run = lexemes[..others]
        .iter()
        .rev()
        .take_while(|lexeme| matches!(lexeme.token, Token::Word(_)));
    let words = run.count();
    let start = lexemes[others - words].at.start;
    let mut slots = Vec::new();
    if let Some((may, field)) = expected_after(&text[..start]) {
        if let Some(name) = field.as_ref().and_then(Pattern::as_text) {
            let typed = unescaped(&text[start..cursor]);
            slots.push(Slot::new(
                CompletionKind::Value(name.to_owned()),
                typed,
                start..last.end,
            ));
        } else if words == 0 && may.contains(&Expected::Field) {
            let typed = unescaped(&text[last.start..cursor]);
            slots.push(Slot::new(CompletionKind::Field, typed.clone(), last.clone()));
            if last.end == cursor {
                slots.push(Slot::new(CompletionKind::Operator(typed), "", cursor..cursor));
            }
        }
    }
    let follows = expected_after(&text[..last.start]);
    if follows.is_some_and(|(may, _)| may.contains(&Expected::And)) {
        slots.push(Slot::new(CompletionKind::Conjunction, &text[last.start..cursor], last));
    }
    slots
}

/// The cursor is within quotes that open at `start`.
fn quoted(text: &str, start: usize, cursor: usize) -> Vec<Slot> {
    let Some((may, field)) = expected_after(&text[..start]) else {
        return Vec::new();
    };
    let closed = format!("{}\"", &text[start..cursor]);
    let typed = match lex(&closed).lexemes.pop().map(|lexeme| lexeme.token) {
        Some(Token::Quoted(typed)) => typed,
        _ => return Vec::new(),
    };
    let replace = start..word_end(text, start, cursor);
    match field.as_ref().and_then(Pattern::as_text) {
        Some(name) => vec![Slot::new(CompletionKind::Value(name.to_owned()), typed, replace)],
        None if may.contains(&Expected::Field) => vec![Slot::new(CompletionKind::Field, typed, replace)],
        None => Vec::new(),
    }
}

/// Returns the value of escaped words.
fn unescaped(words: &str) -> String {
    let mut value = String::new();
    let mut end = 0;
    for lexeme in lex(words).lexemes {
        value.push_str(&words[end..lexeme.at.start]);
        match &lexeme.token {
            Token::Word(pattern) => value.push_str(&pattern.0.join("*")),
            _ => value.push_str(&words[lexeme.at.clone()]),
        }
        end = lexeme.at.end;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        crate::query::completion::check(complete, text, expect);
    }

    #[test]
    fn slots_follow_the_position() {
        check("|", &["field<>0..0"]);
        check("ho|", &["field<ho>0..2", "operator of ho<>2..2"]);
        check("ho|st: x", &["field<ho>0..4"]);
        check("host |", &["operator of host<>5..5", "conjunction<>5..5"]);
        check("host:|", &["value of host<>5..5"]);
        check("host: we|b-1", &["value of host<we>6..11"]);
        check("host: \"we|b\" and", &["value of host<we>6..11"]);
        check("host: \"we|", &["value of host<we>6..9"]);
        check("host: x |", &["conjunction<>8..8"]);
        check("host: x a|", &["value of host<x a>6..9", "conjunction<a>8..9"]);
        check("host: x an|", &["value of host<x an>6..10", "conjunction<an>8..10"]);
        check("host: x and|", &["value of host<x and>6..11", "conjunction<and>8..11"]);
        check("host: x and |", &["field<>12..12"]);
        check("host: (x or |", &["value of host<>12..12"]);
        check("host: (x or y|", &["value of host<y>12..13"]);
        check("host > 5|", &["value of host<5>7..8"]);
        check("not |", &["field<>4..4"]);
        check("not|", &["field<not>0..3", "operator of not<>3..3"]);
        check("(ho|", &["field<ho>1..3", "operator of ho<>3..3"]);
        check("a: 1 b|", &["value of a<1 b>3..6", "conjunction<b>5..6"]);
        check("a: 1) |", &[]);
        check("a\\:b|", &["field<a:b>0..4", "operator of a:b<>4..4"]);
        check("h: é|", &["value of h<é>3..5"]);
    }

    #[test]
    fn written_choices_parse_back() {
        assert_eq!(write_value("a \"b\" \\c"), r#""a \"b\" \\c""#);
        assert_eq!(write_field("a b:c"), r"a\u0020b\:c");
    }
}
