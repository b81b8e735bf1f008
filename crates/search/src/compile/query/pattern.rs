//! Patterns over the terms of a field: wildcards, prefixes, regular expressions.
//!
//! Each pattern becomes an anchored regular expression of bounded size and a literal prefix of every match. The
//! terms with this prefix are read in order and tested; the test is linear in the length of the term for every
//! pattern. A wildcard without a literal prefix first searches the values of the column for its longest literal
//! piece.

use std::sync::Arc;

use firn_model::mapping::FieldType;
use firn_model::{Error, ErrorKind, Result};
use firn_query::query::{RegexpFlags, Rewrite};
use firn_segment::columns::column;
use firn_segment::columns::column::{failed, into_tantivy};
use firn_segment::columns::paths;
use firn_segment::schema::Class;
use firn_segment::splits::dry_run::or_later;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use tantivy::SegmentReader;

use super::super::field::Field;
use super::super::string_scan::Texts;
use super::super::weight::{ColumnWeight, Compiled, TermsWeight, Test};
use super::expand::{self, Nearest, TermsOf};
use super::lucene_regexp::{self, Expression, push_literal};
use crate::compile::Compiler;
use crate::compile::limits::{Stop, Walk};
use crate::highlight::highlight_terms::HighlightTerm;
use crate::tenancy::tenant_terms::OwnTerms;

/// Longer patterns are rejected, as in Elasticsearch (`index.max_regex_length`).
const PATTERN_CHARS_MAX: usize = 1000;
/// Shorter pieces occur in too many values to help.
const PIECE_BYTES_MIN: usize = 2;
/// For more terms than this, reading all terms is faster than single lookups.
const LOOKUPS_MAX: usize = 1024;
/// Most bytes of a compiled expression; a pattern may be compiled into two (forwards and backwards).
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Most bytes of an expression's cache over the terms it was tested on, per thread.
const REMEMBERED_BYTES_MAX: usize = 1 << 18;
/// The cache of an expression is at most about this many times its size.
const REMEMBERED_TIMES: usize = 8;

/// A pattern for whole terms.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// Prefix of every match.
    pub(crate) prefix: String,
    /// The test of a match; `None`: every term with the prefix matches.
    expression: Option<Expression>,
    /// Substring of every match; empty: unknown.
    piece: String,
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

/// A compiled test of whole terms.
pub(crate) enum Matcher {
    Anything,
    Regex(Regex),
    Any(Vec<Matcher>),
    All(Vec<Matcher>),
    Not(Box<Matcher>),
}

impl Matcher {
    /// Compiles; `take` receives the bytes of each part.
    fn new(expression: &Expression, take: &mut dyn FnMut(usize) -> Result<()>) -> Result<Self> {
        let mut each = |parts: &[Expression]| {
            let parts = parts.iter().map(|part| Self::new(part, take));
            parts.collect::<Result<Vec<_>>>()
        };
        Ok(match expression {
            Expression::Any(parts) => Self::Any(each(parts)?),
            Expression::All(parts) => Self::All(each(parts)?),
            Expression::Not(part) => Self::Not(Box::new(Self::new(part, take)?)),
            Expression::Regex(text) => {
                let config = Regex::config()
                    .utf8_empty(false)
                    .nfa_size_limit(Some(COMPILED_BYTES_MAX))
                    .onepass_size_limit(Some(COMPILED_BYTES_MAX))
                    .hybrid_cache_capacity(REMEMBERED_BYTES_MAX);
                let regex = Regex::builder()
                    .configure(config)
                    .syntax(syntax::Config::new().utf8(false))
                    .build(&format!("^(?:{text})$"))
                    .map_err(|error| {
                        let reason = match error.size_limit() {
                            Some(limit) => format!("Compiled regex exceeds size limit of {limit} bytes."),
                            None => error.to_string(),
                        };
                        Error::new(ErrorKind::QueryShard, format!("failed to create query: {reason}"))
                    })?;
                let own = regex.memory_usage();
                take(own + text.len() + REMEMBERED_BYTES_MAX.min(own * REMEMBERED_TIMES))?;
                Self::Regex(regex)
            }
        })
    }

    /// Returns whether a term matches; the caller has checked the pattern's prefix.
    pub(crate) fn is_match(&self, term: &[u8]) -> bool {
        match self {
            Self::Anything => true,
            Self::Regex(regex) => regex.is_match(term),
            Self::Any(parts) => parts.iter().any(|part| part.is_match(term)),
            Self::All(parts) => parts.iter().all(|part| part.is_match(term)),
            Self::Not(part) => !part.is_match(term),
        }
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

/// Compiles to the documents with a matching term of a field, scored by `rewrite`.
pub(crate) fn rewritten(compiler: &Compiler, field: &Field, pattern: &Pattern, rewrite: Rewrite) -> Result<Compiled> {
    let Some((terms, option)) = paths::term_field(field.class) else {
        return Ok(on_field(compiler, field, pattern)?.constant(1.0, compiler.scoring()));
    };
    if rewrite == Rewrite::Constant || field.field_type == FieldType::ConstantKeyword {
        return Ok(on_field(compiler, field, pattern)?.constant(1.0, compiler.scoring()));
    }
    let matcher = pattern.compile(&compiler.guard.stop)?;
    mark(compiler, field, &pattern.prefix, &matcher);
    let start = paths::key_prefix(terms, &field.path);
    let from = [start.as_slice(), pattern.prefix.as_bytes()].concat();
    let walk = compiler.guard.stop.walk();
    let mut found = Nearest::new(expand::limit(rewrite));
    for segment in &compiler.snapshot.segments {
        let own = OwnTerms::new(segment, compiler.tenant)?;
        if own.has_none() {
            continue;
        }
        let index = segment.reader.inverted_index(terms).map_err(failed)?;
        let mut stream = index
            .terms()
            .range()
            .ge(&from)
            .lt(paths::end_of(&from))
            .into_stream()
            .map_err(|error| failed(error.into()))?;
        while stream.advance() && stream.key().starts_with(&from) {
            walk.step()?;
            let value = &stream.key()[start.len()..];
            let counts = || own.contain(&index, stream.value(), &|| walk.step());
            // All terms are equally near and ascend, so later ones are rejected too.
            if matcher.is_match(value) && !found.add(value, 1.0, counts)? {
                break;
            }
        }
    }
    let terms = TermsOf {
        field: terms,
        option,
        path: &field.path,
    };
    // The pattern is already marked; do not mark its terms.
    expand::scored(&compiler.unmarked(), &terms, found, rewrite)
}

/// A pattern without a literal prefix, but with a literal piece.
struct Inside {
    piece: String,
    class: Class,
    path: String,
}

impl Inside {
    /// `None`: it is better to read the terms one by one.
    fn of(field: &Field, pattern: &Pattern) -> Option<Self> {
        (pattern.prefix.is_empty() && pattern.piece.len() >= PIECE_BYTES_MIN).then(|| Self {
            piece: pattern.piece.clone(),
            class: field.class,
            path: field.path.clone(),
        })
    }

    /// Returns the keys of the matching terms, found in the values of the column; `None`: there are too many of
    /// them, or there is no column.
    fn keys(
        &self,
        reader: &SegmentReader,
        start: &[u8],
        matcher: &Matcher,
        walk: &Walk,
    ) -> Result<Option<Vec<Vec<u8>>>> {
        let Some(texts) = Texts::of(reader, self.class, &self.path, &mut || walk.step())? else {
            return Ok(None);
        };
        let mut keys = Vec::new();
        texts.containing(self.piece.as_bytes(), |value| {
            walk.step()?;
            if keys.len() <= LOOKUPS_MAX && matcher.is_match(value) {
                keys.push([start, value].concat());
            }
            Ok(())
        })?;
        Ok((keys.len() <= LOOKUPS_MAX).then_some(keys))
    }
}

/// Compiles to the documents with a matching term of a field.
pub(crate) fn on_field(compiler: &Compiler, field: &Field, pattern: &Pattern) -> Result<Compiled> {
    let matcher = pattern.compile(&compiler.guard.stop)?;
    let prefix = pattern.prefix.clone();
    mark(compiler, field, &prefix, &matcher);
    if let Some(mapping) = &field.mapping
        && mapping.field_type == FieldType::ConstantKeyword
    {
        let constant = mapping.constant.as_deref();
        let hit = constant.is_some_and(|text| text.starts_with(&prefix) && matcher.is_match(text.as_bytes()));
        return Ok(if hit {
            Compiled::All.constant(1.0, compiler.scoring())
        } else {
            Compiled::None
        });
    }
    let stop = compiler.guard.stop.clone();
    if let Some((terms, _)) = paths::term_field(field.class) {
        let start = paths::key_prefix(terms, &field.path);
        let inside = Inside::of(field, pattern);
        return Ok(Compiled::Some(Box::new(TermsWeight {
            field: terms,
            find: Box::new(move |reader, found| {
                let walk = stop.walk();
                let index = reader.inverted_index(terms)?;
                let keys = match &inside {
                    Some(inside) => inside.keys(reader, &start, &matcher, &walk).map_err(into_tantivy)?,
                    None => None,
                };
                if let Some(keys) = keys {
                    for key in keys {
                        if let Some(info) = or_later(index.terms().get(&key), None)? {
                            found(&info)?;
                        }
                    }
                    return Ok(());
                }
                let from = [start.as_slice(), prefix.as_bytes()].concat();
                let mut stream = index.terms().range().ge(&from).lt(paths::end_of(&from)).into_stream()?;
                while stream.advance() && stream.key().starts_with(&from) {
                    walk.step().map_err(into_tantivy)?;
                    if matcher.is_match(&stream.key()[start.len()..]) {
                        found(stream.value())?;
                    }
                }
                Ok(())
            }),
        })));
    }
    if field.class != Class::KeywordColumn {
        return Ok(Compiled::None);
    }
    let path = field.path.clone();
    Ok(Compiled::Some(Box::new(ColumnWeight(Box::new(move |reader| {
        let Some(strings) = column::open_strings(reader, Class::KeywordColumn, &path).map_err(into_tantivy)? else {
            return Ok(None);
        };
        let mut stream = strings.dictionary().range().ge(prefix.as_bytes()).into_stream()?;
        let mut ordinals = Ordinals::new(&stop);
        while stream.advance() && stream.key().starts_with(prefix.as_bytes()) {
            ordinals.step().map_err(into_tantivy)?;
            if matcher.is_match(stream.key()) {
                ordinals.push(stream.term_ord()).map_err(into_tantivy)?;
            }
        }
        Ok(ordinals.test().map(|test| (strings.ords().clone(), test)))
    })))))
}

/// Marks the pattern.
fn mark(compiler: &Compiler, field: &Field, prefix: &str, matcher: &Arc<Matcher>) {
    compiler.mark(&field.path, || {
        let (prefix, matcher) = (prefix.to_owned(), Arc::clone(matcher));
        HighlightTerm::Test(Arc::new(move |term| {
            term.starts_with(&prefix) && matcher.is_match(term.as_bytes())
        }))
    });
}

/// Ordinals found in the dictionary of a column. There may be as many as the column has values, so they are counted
/// as memory of the search.
pub(crate) struct Ordinals {
    stop: Stop,
    walk: Walk,
    found: Vec<u64>,
}

impl Ordinals {
    /// Ordinals for which memory is reserved at once.
    const STEP: usize = 4096;

    pub(crate) fn new(stop: &Stop) -> Self {
        Self {
            stop: stop.clone(),
            walk: stop.walk(),
            found: Vec::new(),
        }
    }

    /// Checks for cancellation. Call it for every value of the dictionary.
    pub(crate) fn step(&self) -> Result<()> {
        self.walk.step()
    }

    pub(crate) fn push(&mut self, ordinal: u64) -> Result<()> {
        if self.found.len().is_multiple_of(Self::STEP) {
            self.stop.take(Self::STEP * size_of::<u64>())?;
        }
        self.found.push(ordinal);
        Ok(())
    }

    /// Returns the test for them; `None`: there are none.
    pub(crate) fn test(self) -> Option<Test> {
        (!self.found.is_empty()).then(|| Test::Set(self.found.into()))
    }
}

/// Rejects a pattern on numbers and other fields without strings.
pub(crate) fn check_strings(field: &Field, query: &str) -> Result<()> {
    let (types, takes_ip) = match query {
        "prefix" | "wildcard" => ("keyword, text and wildcard", true),
        _ => ("keyword and text", false),
    };
    let is_other = match field.field_type {
        FieldType::GeoPoint => true,
        FieldType::Ip => !takes_ip,
        _ => field.numeric().is_some(),
    };
    if is_other {
        return Err(Error::new(
            ErrorKind::QueryShard,
            format!(
                "Can only use {query} queries on {types} fields - not on [{}] which is of type [{}]",
                field.path,
                field.type_name()
            ),
        ));
    }
    Ok(())
}

/// Returns the result of a term query on a field that has no terms.
pub(crate) fn not_indexed(field: &Field) -> Result<Compiled> {
    match field.class {
        Class::KeywordColumn => Err(Error::new(
            ErrorKind::QueryShard,
            format!(
                "failed to create query: Cannot search on field [{}] since it is not indexed.",
                field.path
            ),
        )),
        _ => Ok(Compiled::None),
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
