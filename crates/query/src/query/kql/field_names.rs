//! Field names in a KQL text, with their positions.

use std::ops::Range;

use super::Pattern;
use super::lexer::{Token, lex};

/// Returns the fields that a text names, unescaped, with the byte range of each name. Names with `*` are left out.
pub fn field_names(text: &str) -> Vec<(Range<usize>, String)> {
    let lexemes = lex(text).lexemes;
    let pairs = lexemes.windows(2);
    let named = pairs.filter(|pair| matches!(pair[1].token, Token::Colon | Token::Compare(_)));
    let names = named.filter_map(|pair| {
        let name = match &pair[0].token {
            Token::Word(pattern) => Pattern::as_text(pattern)?,
            Token::Quoted(name) => name,
            _ => return None,
        };
        Some((pair[0].at.clone(), name.to_owned()))
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &[(&str, &str)]) {
        crate::query::completion::check_names(field_names, text, expect);
    }

    #[test]
    fn names_precede_colons_and_comparisons() {
        check(
            "a: 1 and (b.c >= 2 or not d: (x or y))",
            &[("a", "a"), ("b.c", "b.c"), ("d", "d")],
        );
        check("a: \"b: c\" and \"d e\": 1", &[("a", "a"), ("\"d e\"", "d e")]);
        check(r"a\:b: é and é: 1", &[(r"a\:b", "a:b"), ("é", "é")]);
        check("a*: 1 and words alone", &[]);
        check("", &[]);
    }
}
