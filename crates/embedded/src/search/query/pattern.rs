//! Patterns over the terms of a field: wildcards, prefixes, regular expressions.
//!
//! All of them become one anchored regular expression of bounded size and the literal start that
//! every match has. The terms of the field that begin so are read in order and tested; the
//! expression runs in time linear in the term, whatever the pattern.

use std::fmt::Write as _;
use std::sync::Arc;

use firn_model::{Error, ErrorKind, Result};
use regex::bytes::{Regex, RegexBuilder};

use super::super::compile::Compiler;
use super::super::field::Field;
use super::super::marks::Mark;
use super::super::weight::{ColumnWeight, Compiled, TermsWeight, Test};
use super::super::{column, paths};
use crate::schema::Class;

/// Longer patterns are refused, as in Elasticsearch (`index.max_regex_length`).
const PATTERN_CHARS_MAX: usize = 1000;
/// Bytes of a compiled expression.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A pattern for whole terms.
#[derive(Debug, Clone)]
pub(in super::super) struct Pattern {
    /// Every match begins so.
    pub(in super::super) prefix: String,
    /// The rest as an expression; `None`: anything.
    rest: Option<String>,
    ignore_case: bool,
}

impl Pattern {
    /// Terms that begin so.
    pub(in super::super) fn prefix(text: &str, ignore_case: bool) -> Self {
        if ignore_case {
            return Self {
                prefix: String::new(),
                rest: Some(format!("{}(?s:.*)", regex::escape(text))),
                ignore_case,
            };
        }
        Self {
            prefix: text.to_owned(),
            rest: None,
            ignore_case,
        }
    }

    /// `*`, `?` and `\` as an escape.
    pub(in super::super) fn wildcard(text: &str, ignore_case: bool) -> Self {
        let mut prefix = String::new();
        let mut rest = String::new();
        let mut letters = text.chars();
        let mut only_any = false;
        while let Some(letter) = letters.next() {
            let literal = match letter {
                '*' => {
                    only_any = rest.is_empty();
                    rest.push_str("(?s:.*)");
                    continue;
                }
                '?' => {
                    only_any = false;
                    rest.push_str("(?s:.)");
                    continue;
                }
                '\\' => letters.next().unwrap_or('\\'),
                other => other,
            };
            only_any = false;
            if rest.is_empty() && !ignore_case {
                prefix.push(literal);
            } else {
                push_literal(&mut rest, literal);
            }
        }
        Self {
            prefix,
            rest: (!only_any).then_some(rest),
            ignore_case,
        }
    }

    /// Lucene's regular expressions, anchored. Their rarer operators (`~`, `&`, `<1-9>`) are
    /// refused by name.
    pub(in super::super) fn regexp(text: &str) -> Result<Self> {
        Ok(Self {
            prefix: String::new(),
            rest: Some(translate(text)?),
            ignore_case: false,
        })
    }

    /// The expression over a whole term, or `None` if the prefix says it all.
    pub(in super::super) fn compile(&self) -> Result<Option<Regex>> {
        let Some(rest) = &self.rest else {
            return Ok(None);
        };
        if rest.len() > PATTERN_CHARS_MAX * 8 {
            return Err(Error::illegal_argument(format!(
                "The length of regex [{}] used in the request has exceeded the allowed maximum of [{PATTERN_CHARS_MAX}]",
                rest.chars().count()
            )));
        }
        let expression = format!("^(?:{}(?:{rest}))$", regex::escape(&self.prefix));
        RegexBuilder::new(&expression)
            .case_insensitive(self.ignore_case)
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(COMPILED_BYTES_MAX)
            .build()
            .map(Some)
            .map_err(|error| Error::new(ErrorKind::QueryShard, format!("failed to create query: {error}")))
    }
}

/// One value, ASCII letters in either case.
pub(in super::super) fn ignoring_case(text: &str) -> Pattern {
    Pattern {
        prefix: String::new(),
        rest: Some(regex::escape(text)),
        ignore_case: true,
    }
}

fn push_literal(out: &mut String, literal: char) {
    out.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4])));
}

/// Lucene's syntax to that of the regex crate.
fn translate(text: &str) -> Result<String> {
    if text.chars().count() > PATTERN_CHARS_MAX {
        return Err(Error::illegal_argument(format!(
            "The length of regex [{}] used in the Regexp Query request has exceeded the allowed maximum of [{PATTERN_CHARS_MAX}]. \
             This maximum can be set by changing the [index.max_regex_length] index level setting.",
            text.chars().count()
        )));
    }
    let mut out = String::new();
    let mut letters = text.chars().peekable();
    let mut in_class = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(class @ ('d' | 'D' | 's' | 'S' | 'w' | 'W')) => {
                    let _ = write!(out, "(?-u:\\{class})");
                    if in_class {
                        return Err(unsupported("character classes inside of brackets"));
                    }
                }
                Some(literal) => push_literal(&mut out, literal),
                None => push_literal(&mut out, '\\'),
            },
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '[' if in_class => out.push_str("\\["),
            '&' | '~' | '-' if in_class && letters.peek() == Some(&letter) => {
                out.push('\\');
                out.push(letter);
            }
            other if in_class => out.push(other),
            '[' => {
                in_class = true;
                out.push('[');
                if letters.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
            }
            '"' => {
                for literal in letters.by_ref().take_while(|&letter| letter != '"') {
                    push_literal(&mut out, literal);
                }
            }
            '.' => out.push_str("(?s:.)"),
            '@' => out.push_str("(?s:.*)"),
            '#' => out.push_str("[^\\x00-\\x{10FFFF}]"),
            '^' | '$' => push_literal(&mut out, letter),
            '~' => return Err(unsupported("the regexp operator [~]")),
            '&' => return Err(unsupported("the regexp operator [&]")),
            '<' => return Err(unsupported("the regexp operator [<>]")),
            '(' => out.push_str("(?:"),
            other => out.push(other),
        }
    }
    Ok(out)
}

fn unsupported(what: &str) -> Error {
    Error::not_implemented(what)
}

/// Documents with a term of a field that matches.
pub(in super::super) fn on_field(compiler: &Compiler, field: &Field, pattern: &Pattern) -> Result<Compiled> {
    let expression = pattern.compile()?;
    let prefix = pattern.prefix.clone();
    compiler.mark(&field.path, || {
        let (prefix, expression) = (prefix.clone(), expression.clone());
        Mark::Test(Arc::new(move |term| {
            term.starts_with(&prefix) && expression.as_ref().is_none_or(|regex| regex.is_match(term.as_bytes()))
        }))
    });
    if field
        .mapping
        .as_ref()
        .is_some_and(|mapping| mapping.field_type == firn_model::mapping::FieldType::ConstantKeyword)
    {
        let hit = field
            .mapping
            .as_ref()
            .and_then(|mapping| mapping.constant.as_deref())
            .is_some_and(|constant| {
                constant.starts_with(&prefix)
                    && expression
                        .as_ref()
                        .is_none_or(|regex| regex.is_match(constant.as_bytes()))
            });
        return Ok(if hit {
            Compiled::All.constant(1.0, compiler.scoring())
        } else {
            Compiled::None
        });
    }
    if let Some((terms, _)) = paths::term_field(field.class) {
        let start = paths::key_prefix(terms, &field.path);
        return Ok(Compiled::Some(Box::new(TermsWeight {
            field: terms,
            find: Box::new(move |reader| {
                let index = reader.inverted_index(terms)?;
                let from = [start.as_slice(), prefix.as_bytes()].concat();
                let mut stream = index.terms().range().ge(&from).into_stream()?;
                let mut found = Vec::new();
                while stream.advance() {
                    if !stream.key().starts_with(&from) {
                        break;
                    }
                    let value = &stream.key()[start.len()..];
                    if expression.as_ref().is_none_or(|regex| regex.is_match(value)) {
                        found.push(stream.value().clone());
                    }
                }
                Ok(found)
            }),
        })));
    }
    if field.class != Class::KeywordColumn {
        return Ok(Compiled::None);
    }
    let path = field.path.clone();
    Ok(Compiled::Some(Box::new(ColumnWeight(Box::new(move |reader| {
        let Some(strings) = column::open_strings(reader, Class::KeywordColumn, &path).map_err(column::into_tantivy)?
        else {
            return Ok(None);
        };
        let mut stream = strings.dictionary().range().ge(prefix.as_bytes()).into_stream()?;
        let mut ordinals = Vec::new();
        while stream.advance() {
            if !stream.key().starts_with(prefix.as_bytes()) {
                break;
            }
            if expression.as_ref().is_none_or(|regex| regex.is_match(stream.key())) {
                ordinals.push(stream.term_ord());
            }
        }
        Ok((!ordinals.is_empty()).then(|| (strings.ords().clone(), Test::Set(ordinals.into()))))
    })))))
}

/// The refusal to look for a pattern among numbers and the like.
pub(in super::super) fn check_strings(field: &Field, query: &str) -> Result<()> {
    if field.numeric().is_some() || matches!(field.field_type, firn_model::mapping::FieldType::GeoPoint) {
        return Err(Error::new(
            ErrorKind::QueryShard,
            format!(
                "Can only use {query} queries on keyword, text and wildcard fields - not on [{}] which is of type [{}]",
                field.path,
                field.type_name()
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    fn check(pattern: &Pattern, yes: &[&str], no: &[&str]) {
        let regex = pattern.compile().unwrap();
        let hit = |text: &str| {
            text.starts_with(&pattern.prefix) && regex.as_ref().is_none_or(|regex| regex.is_match(text.as_bytes()))
        };
        for text in yes {
            assert!(hit(text), "{pattern:?} on {text:?}");
        }
        for text in no {
            assert!(!hit(text), "{pattern:?} on {text:?}");
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
    }

    #[test]
    fn regular_expressions() {
        let regexp = |text| Pattern::regexp(text).unwrap();
        check(&regexp("a.*c"), &["abc", "ac"], &["xabc", "abcd"]);
        check(&regexp("(ab|cd)+"), &["ab", "abcd"], &["a"]);
        check(&regexp("[a-c]{2}"), &["ab"], &["ad", "abc"]);
        check(&regexp("a\"b.c\"d"), &["ab.cd"], &["abxcd"]);
        check(&regexp("x@"), &["x", "xyz"], &["y"]);
        check(&regexp("^a$"), &["^a$"], &["a"]);
        check(&regexp(r"\d+"), &["12"], &["a"]);
        assert!(Pattern::regexp("~a").is_err());
        assert!(Pattern::regexp("a{1,").unwrap().compile().is_err());
        assert!(Pattern::regexp("((a{1000}){1000}){1000}").unwrap().compile().is_err());
    }
}
