//! Completion of a Lucene query text that is being typed.

use std::ops::Range;

use super::lexer::{Lexed, Token, lex};
use super::syntax::unescape;
use crate::query::completion::{CompletionKind, Slot, before};

/// Returns what may stand at a byte position of the text. It reads only the text before the cursor, and the end of the
/// word at the cursor.
pub fn complete(text: &str, cursor: usize) -> Vec<Slot> {
    let left = before(text, cursor);
    let cursor = left.len();
    let Lexed { mut tokens, error } = lex(left);
    if let Some(error) = error {
        let start = error.at.start;
        let place = Position::after(&tokens);
        return match left[start..].strip_prefix('"').and_then(unescape) {
            Some(typed) => place.slots(false, &typed, start..token_end(text, start, cursor)),
            None => Vec::new(),
        };
    }
    let is_typed = |(at, token): &(Range<usize>, Token<'_>)| at.end == cursor && is_word(token);
    let Some((at, _)) = tokens.pop_if(|token| is_typed(token)) else {
        let place = Position::after(&tokens);
        return place.slots(true, "", cursor..cursor);
    };
    let Some(typed) = unescape(&text[at.clone()]) else {
        return Vec::new();
    };
    let place = Position::after(&tokens);
    let is_field = place.field.is_none();
    let mut slots = place.slots(true, &typed, at.start..token_end(text, at.start, cursor));
    if is_field && token_end(text, at.start, cursor) == cursor {
        slots.push(Slot::new(CompletionKind::Operator(typed), "", cursor..cursor));
    }
    slots
}

/// Returns a value as the syntax writes it.
pub fn write_value(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns a field name as the syntax writes it.
pub fn write_field(name: &str) -> String {
    let mut written = String::with_capacity(name.len());
    for letter in name.chars() {
        if letter.is_whitespace() || "\\+!():^[]\"{}~*?|&/".contains(letter) || letter == '-' && written.is_empty() {
            written.push('\\');
        }
        written.push(letter);
    }
    written
}

fn is_word(token: &Token<'_>) -> bool {
    matches!(
        token,
        Token::Term(_) | Token::Prefix(_) | Token::Wildcard(_) | Token::And | Token::Or | Token::Not
    )
}

/// Returns the end of the token that begins at `start` and continues at least to the cursor.
fn token_end(text: &str, start: usize, cursor: usize) -> usize {
    let whole = lex(&text[start..]).tokens;
    whole.first().map_or(cursor, |(at, _)| (start + at.end).max(cursor))
}

/// Parser state at the cursor.
struct Position {
    /// Field whose value comes next.
    field: Option<String>,
    /// The last clause is complete.
    is_complete: bool,
}

impl Position {
    fn after(tokens: &[(Range<usize>, Token<'_>)]) -> Self {
        // Fields before the open parentheses, and before the next value.
        let mut outer: Vec<Option<String>> = Vec::new();
        let mut field: Option<String> = None;
        let mut is_complete = false;
        let mut tokens = tokens.iter().map(|(_, token)| token).peekable();
        while let Some(token) = tokens.next() {
            match token {
                Token::Term(name) if tokens.peek() == Some(&&Token::Colon) => {
                    tokens.next();
                    field = unescape(name);
                    is_complete = false;
                    continue;
                }
                Token::Open => {
                    let around = outer.last().cloned().flatten();
                    outer.push(field.take().or(around));
                    is_complete = false;
                }
                Token::Close => {
                    outer.pop();
                    is_complete = true;
                }
                Token::And | Token::Or | Token::Not | Token::Plus | Token::Minus | Token::Colon => is_complete = false,
                _ => is_complete = true,
            }
            field = None;
        }
        Self {
            field: field.or_else(|| outer.last().cloned().flatten()),
            is_complete,
        }
    }

    fn slots(self, with_conjunctions: bool, typed: &str, replace: Range<usize>) -> Vec<Slot> {
        let mut slots = Vec::new();
        if self.is_complete && with_conjunctions {
            slots.push(Slot::new(CompletionKind::Conjunction, typed, replace.clone()));
        }
        match self.field {
            // A new value may start only after an operator.
            Some(_) if self.is_complete && typed.is_empty() => {}
            Some(field) => slots.push(Slot::new(CompletionKind::Value(field), typed, replace)),
            None if self.is_complete && typed.is_empty() => {}
            None => slots.push(Slot::new(CompletionKind::Field, typed, replace)),
        }
        slots
    }
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
        check("ho|st:x", &["field<ho>0..4"]);
        check("host:|", &["value of host<>5..5"]);
        check("host:we|b", &["value of host<we>5..8"]);
        check("host:\"we|b\"", &["value of host<we>5..10"]);
        check("host:\"we|", &["value of host<we>5..8"]);
        check("host:(a OR |", &["value of host<>11..11"]);
        check("host:(a OR (b|", &["value of host<b>12..13"]);
        check("host:x |", &["conjunction<>7..7"]);
        check(
            "host:x A|",
            &["conjunction<A>7..8", "field<A>7..8", "operator of A<>8..8"],
        );
        check("host:x AND |", &["field<>11..11"]);
        check("host:(a) |", &["conjunction<>9..9"]);
        check("NOT ho|", &["field<ho>4..6", "operator of ho<>6..6"]);
        check("a:[1 TO |", &[]);
        check("a:/x|", &[]);
    }

    #[test]
    fn written_choices_parse_back() {
        assert_eq!(write_value(r#"a "b" \c"#), r#""a \"b\" \\c""#);
        assert_eq!(write_field("a b:c-d"), r"a\ b\:c-d");
    }
}
