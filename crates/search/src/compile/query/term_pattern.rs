//! Pattern for whole terms: the literal prefix of every match, and an anchored expression of bounded size.

use std::sync::Arc;

use firn_model::{Error, Result};
use firn_query::query::RegexpFlags;

use super::lucene_regexp::{self, Expression, push_literal};
use super::matcher::Matcher;
use crate::compile::limits::Stop;

/// Longer patterns are rejected, as in Elasticsearch (`index.max_regex_length`).
const PATTERN_CHARS_MAX: usize = 1000;
/// A pattern for whole terms.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// Prefix of every match.
    pub(crate) prefix: String,
    /// The test of a match; `None`: every term with the prefix matches.
    expression: Option<Expression>,
    /// Substring of every match; empty: unknown.
    pub(crate) piece: String,
    /// Length of the pattern in the request, for messages.
    length: usize,
    kind: &'static str,
}

impl Pattern {
    /// Returns the pattern of terms with a prefix.
    pub(crate) fn prefix(text: &str, ignore_case: bool) -> Self {
        let mut pattern = Self {
            prefix: text.to_owned(),
            expression: None,
            piece: String::new(),
            length: text.chars().count(),
            kind: "prefix",
        };
        if ignore_case {
            let mut expression = String::new();
            text.chars()
                .for_each(|letter| push_literal(&mut expression, letter, true));
            pattern.prefix = String::new();
            pattern.expression = Some(Expression::Regex(expression + "(?s:.*)"));
        }
        pattern
    }

    /// Returns the pattern of a wildcard: `*`, `?`, and `\` as the escape.
    pub(crate) fn wildcard(text: &str, ignore_case: bool) -> Self {
        let mut prefix = String::new();
        let mut expression = String::new();
        let mut letters = text.chars();
        let mut is_literal = true;
        let mut only_any = false;
        let (mut piece, mut longest) = (String::new(), String::new());
        while let Some(letter) = letters.next() {
            let literal = match letter {
                '*' => {
                    only_any = is_literal;
                    is_literal = false;
                    piece.clear();
                    expression.push_str("(?s:.*)");
                    continue;
                }
                '?' => {
                    only_any = false;
                    is_literal = false;
                    piece.clear();
                    expression.push_str("(?s:.)");
                    continue;
                }
                '\\' => letters.next().unwrap_or('\\'),
                other => other,
            };
            only_any = false;
            if is_literal && !ignore_case {
                prefix.push(literal);
            }
            push_literal(&mut expression, literal, ignore_case);
            piece.push(literal);
            if piece.len() > longest.len() && !ignore_case {
                longest.clone_from(&piece);
            }
        }
        Self {
            piece: longest,
            // `abc*` is the same as a prefix.
            expression: (!only_any || ignore_case).then_some(Expression::Regex(expression)),
            prefix,
            length: text.chars().count(),
            kind: "wildcard",
        }
    }

    /// Returns the pattern of a Lucene regular expression.
    pub(crate) fn regexp(text: &str, flags: RegexpFlags, ignore_case: bool) -> Result<Self> {
        let length = text.chars().count();
        if length > PATTERN_CHARS_MAX {
            return Err(Error::illegal_argument(format!(
                "The length of regex [{length}] used in the Regexp Query request has exceeded the allowed maximum of [{PATTERN_CHARS_MAX}]. \
                 This maximum can be set by changing the [index.max_regex_length] index level setting."
            )));
        }
        Ok(Self {
            prefix: match ignore_case {
                true => String::new(),
                false => lucene_regexp::literal_start(text, flags),
            },
            expression: Some(lucene_regexp::translate(text, flags, ignore_case)?),
            piece: String::new(),
            length,
            kind: "regexp",
        })
    }

    /// Compiles the test of terms that have the prefix; counts it as memory of the search. A search compiles each
    /// expression once for all shards and clauses.
    pub(crate) fn compile(&self, stop: &Stop) -> Result<Arc<Matcher>> {
        self.check_length()?;
        match &self.expression {
            None => Ok(Arc::new(Matcher::Anything)),
            Some(expression) => stop.compiled(expression, || Matcher::new(expression, &mut |bytes| stop.take(bytes))),
        }
    }

    fn check_length(&self) -> Result<()> {
        if self.length > PATTERN_CHARS_MAX && self.expression.is_some() {
            return Err(Error::illegal_argument(format!(
                "The length of {} [{}] used in the request has exceeded the allowed maximum of [{PATTERN_CHARS_MAX}]",
                self.kind, self.length
            )));
        }
        Ok(())
    }

    /// Returns whether a text matches. The compiled expression is not cached.
    pub(crate) fn is_match(&self, text: &str) -> Result<bool> {
        self.check_length()?;
        let matcher = match &self.expression {
            None => Matcher::Anything,
            Some(expression) => Matcher::new(expression, &mut |_| Ok(()))?,
        };
        Ok(text.starts_with(&self.prefix) && matcher.is_match(text.as_bytes()))
    }
}

/// Returns the pattern of one value, with ASCII letters in either case.
pub(crate) fn ignoring_case(text: &str) -> Pattern {
    let mut expression = String::new();
    text.chars()
        .for_each(|letter| push_literal(&mut expression, letter, true));
    Pattern {
        prefix: String::new(),
        expression: Some(Expression::Regex(expression)),
        // It is a value, not a pattern, so its length is not limited here.
        length: 0,
        kind: "value",
        piece: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use firn_query::query::RegexpFlags;

    use super::Pattern;

    fn check(pattern: &Pattern, yes: &[&str], no: &[&str]) {
        for text in yes {
            assert!(pattern.is_match(text).unwrap(), "{pattern:?} on {text:?}");
        }
        for text in no {
            assert!(!pattern.is_match(text).unwrap(), "{pattern:?} on {text:?}");
        }
    }

    #[test]
    fn wildcards() {
        check(&Pattern::wildcard("a*", false), &["a", "ab", "a\nb"], &["b", "A"]);
        check(&Pattern::wildcard("a?c", false), &["abc", "aéc"], &["ac", "abbc"]);
        check(&Pattern::wildcard("*b*", false), &["b", "abc"], &["ac"]);
        check(&Pattern::wildcard(r"a\*b", false), &["a*b"], &["axb"]);
        check(&Pattern::wildcard("a.c", false), &["a.c"], &["abc"]);
        check(&Pattern::wildcard("aB*", true), &["AbC", "ab"], &["b"]);
        check(&Pattern::wildcard("*", false), &["", "x"], &[]);
        check(&Pattern::prefix("ab", true), &["ABC"], &["a"]);
        check(&Pattern::wildcard("*a*b*", false), &["ab", "xaxbx"], &["ba"]);
        // Only ASCII letters have two cases.
        check(
            &Pattern::wildcard("ks\u{e4}*", true),
            &["KS\u{e4}"],
            &["\u{212a}s\u{e4}", "ks\u{c4}"],
        );
    }

    fn regexp(text: &str) -> Pattern {
        Pattern::regexp(text, RegexpFlags::default(), false).unwrap()
    }

    #[test]
    fn regular_expressions() {
        check(&regexp("a.*c"), &["abc", "ac", "a\nc"], &["xabc", "abcd"]);
        check(&regexp("(ab|cd)+"), &["ab", "abcd"], &["a"]);
        check(&regexp("ab|cd"), &["ab", "cd"], &["abd"]);
        check(&regexp("[a-c]{2}"), &["ab"], &["ad", "abc"]);
        check(&regexp("[^a-c&&]"), &["d"], &["a", "&"]);
        check(&regexp("[]a]"), &["]", "a"], &["b"]);
        check(&regexp("[a\\]-]"), &["]", "a", "-"], &["\\"]);
        check(&regexp("a\"b.c\"d"), &["ab.cd"], &["abxcd"]);
        check(&regexp("x@"), &["x", "xyz"], &["y"]);
        check(&regexp("#|x"), &["x"], &["", "#"]);
        check(&regexp("^a$"), &["^a$"], &["a"]);
        check(&regexp(r"\d+\w[\s\d]"), &["12a ", "1_7"], &["a", "12"]);
        check(&regexp("()|a"), &["", "a"], &["b"]);
        check(&regexp("a{2,3}b{1,}"), &["aab", "aaabb"], &["ab", "aaaab"]);
        check(&regexp("v<1-12>"), &["v1", "v12", "v007"], &["v0", "v13", "v"]);
        check(&regexp("<08-12>"), &["08", "11"], &["8", "13", "008"]);
    }

    #[test]
    fn not_and_and_of_whole_terms() {
        check(&regexp("~(ab.*)"), &["a", "b"], &["ab", "abc"]);
        check(&regexp("a.*&.*z&~(.*m.*)"), &["az", "abz"], &["amz", "a"]);
        check(&regexp("x|~(.+)"), &["x", ""], &["y"]);
        check(&regexp("(a|b)&~a"), &["b"], &["a"]);
        for text in ["a~b", "(a&b)c", "(~a)*"] {
            let error = Pattern::regexp(text, RegexpFlags::default(), false).unwrap_err();
            assert!(
                error.reason().contains("on a part of a term is not implemented"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn either_case() {
        let pattern = Pattern::regexp("wEb-[a-c]x", RegexpFlags::default(), true).unwrap();
        check(&pattern, &["WeB-aX"], &["web-Ax"]);
    }

    #[test]
    fn invalid_and_explosive_patterns_are_rejected() {
        for text in [
            "a{1,", "a{2,1}", "(a", "a)", "*a", "[b-a]", "[a", "\\", "a||b", "<1-x>", "\"a",
        ] {
            assert!(Pattern::regexp(text, RegexpFlags::default(), false).is_err(), "{text}");
        }
        assert!(regexp("((a{1000}){1000}){1000}").is_match("a").is_err());
        assert!(Pattern::regexp(&"(".repeat(500), RegexpFlags::default(), false).is_err());
        assert!(Pattern::regexp(&"a".repeat(1001), RegexpFlags::default(), false).is_err());
        assert!(Pattern::wildcard(&"*a".repeat(501), false).is_match("a").is_err());
        // Lucene's classical worst cases take only linear time here.
        check(&regexp("(x+x+)+y"), &["xxy"], &[&"x".repeat(30_000)]);
        check(
            &Pattern::wildcard(&"*a".repeat(100), false),
            &[&"a".repeat(100)],
            &[&"ab".repeat(90)],
        );
    }
}
