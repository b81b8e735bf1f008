//! Field names in a Lucene query text, with their positions.

use std::ops::Range;

use super::lexer::{Token, lex};
use super::syntax::unescape;

/// Field name of a clause that matches documents with a value in the named field.
const EXISTS: &str = "_exists_";

/// Returns the fields that a text names, unescaped, with the byte range of each name. Names with wildcards are left
/// out.
pub fn field_names(text: &str) -> Vec<(Range<usize>, String)> {
    let tokens = lex(text).tokens;
    let mut names = Vec::new();
    let mut asks_for_existence = false;
    for (number, (at, token)) in tokens.iter().enumerate() {
        let is_name = matches!(tokens.get(number + 1), Some((_, Token::Colon)));
        match token {
            Token::Term(EXISTS) if is_name => asks_for_existence = true,
            Token::Colon => {}
            Token::Term(word) => {
                if (is_name || asks_for_existence)
                    && let Some(name) = unescape(word)
                {
                    names.push((at.clone(), name));
                }
                asks_for_existence = false;
            }
            _ => asks_for_existence = false,
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[(&str, &str)]) {
        crate::query::completion::check_names(field_names, text, expect);
    }

    #[test]
    fn names_precede_colons_or_follow_exists() {
        check(
            "a:1 AND (b.c:>=2 OR NOT d:(x OR y)) +e:[1 TO 2]",
            &[("a", "a"), ("b.c", "b.c"), ("d", "d"), ("e", "e")],
        );
        check("a:\"b:c\" _exists_:d _exists_:* x", &[("a", "a"), ("d", "d")]);
        check(r"a\ b:1 é:é", &[(r"a\ b", "a b"), ("é", "é")]);
        check("a*:1 words alone", &[]);
        check("", &[]);
    }
}
