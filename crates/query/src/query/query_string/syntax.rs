//! Parser of Lucene's query string syntax.
//!
//! Follows the grammar of Lucene 9's classic `QueryParser.jj` and the additions of Elasticsearch's
//! `QueryStringQueryParser`: `_exists_`, `field:>=1`, `field:*`. As there, `AND`, `OR` and `NOT` are not operators with
//! precedence: they set the occurrence of the adjacent clauses.

use std::collections::BTreeSet;
use std::ops::Range;

use firn_model::{Error, ErrorKind, Result};

use super::lexer::{Bound, RangeToken, Token, tokens};
use crate::query::CLAUSES_MAX;
use crate::query::fuzziness::Fuzziness;
use crate::query::syntax_error::{SyntaxError, line_and_column};

/// Maximum nesting of parentheses. Hand-written queries stay below ten.
pub const DEPTH_MAX: usize = 100;

/// The syntax tree of a query string.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// `*:*` or a bare `*`.
    All,
    /// Clauses with their occurrence, already resolved from `AND`, `OR`, `NOT`, `+`, `-`. If all are negative, the
    /// parser adds [`Node::All`] to `must`, as Elasticsearch does. The empty string, which matches nothing, has
    /// [`Node::All`] in `must_not`.
    Bool {
        /// Must match.
        must: Vec<Node>,
        /// May match; one must if `must` is empty.
        should: Vec<Node>,
        /// Must not match.
        must_not: Vec<Node>,
    },
    /// `field:(…)` and `(…)^2`.
    Scoped {
        /// `None`: the default fields. May contain `*`.
        field: Option<String>,
        /// Multiplies the score.
        boost: f32,
        /// Scoped clause.
        node: Box<Node>,
    },
    /// A bare word, unescaped. Adjacent words without an operator are one text with spaces: Lucene passes them to the
    /// field's analyzer together. The resulting terms combine by the default operator, per field.
    Word(String),
    /// `"quoted words"~slop`.
    Phrase(String, u32),
    /// A word with unescaped `*` or `?`, still escaped with `\`.
    Wildcard(String),
    /// `word*`.
    Prefix(String),
    /// `word~distance`.
    Fuzzy(String, u8),
    /// `/regexp/`.
    Regexp(String),
    /// `[a TO b}`, `>=a`: bounds with inclusion, `*` is `None`.
    Range {
        /// Lower bound.
        lower: Option<(String, bool)>,
        /// Upper bound.
        upper: Option<(String, bool)>,
    },
    /// `_exists_:field`.
    Exists(String),
}

impl Node {
    /// Returns a node that matches nothing.
    pub(in crate::query) fn nothing() -> Self {
        Self::Bool {
            must: Vec::new(),
            should: Vec::new(),
            must_not: vec![Self::All],
        }
    }

    /// Returns the number of leaves, at least 1; each word of a text counts.
    pub(in crate::query) fn clause_count(&self) -> usize {
        match self {
            Self::Bool { must, should, must_not } => {
                let clauses = must.iter().chain(should).chain(must_not);
                clauses.map(Self::clause_count).sum::<usize>().max(1)
            }
            Self::Scoped { node, .. } => node.clause_count(),
            Self::Word(text) => text.split(' ').count(),
            _ => 1,
        }
    }

    /// Returns the number of fuzzy words.
    pub fn fuzzy_count(&self) -> usize {
        match self {
            Self::Bool { must, should, must_not } => {
                let clauses = must.iter().chain(should).chain(must_not);
                clauses.map(Self::fuzzy_count).sum()
            }
            Self::Scoped { node, .. } => node.fuzzy_count(),
            Self::Fuzzy(..) => 1,
            _ => 0,
        }
    }

    /// Adds the named fields; returns true if the default fields are read too.
    pub(in crate::query) fn collect_fields(&self, fields: &mut BTreeSet<String>) -> bool {
        match self {
            Self::All => false,
            Self::Bool { must, should, must_not } => {
                let mut reads_default = false;
                for node in must.iter().chain(should).chain(must_not) {
                    reads_default |= node.collect_fields(fields);
                }
                reads_default
            }
            Self::Scoped { field, node, .. } => {
                let reads_default = node.collect_fields(fields);
                match field {
                    Some(field) => {
                        if reads_default {
                            fields.insert(field.clone());
                        }
                        false
                    }
                    None => reads_default,
                }
            }
            Self::Exists(field) => {
                fields.insert(field.clone());
                false
            }
            _ => true,
        }
    }
}

/// Options of the parser.
pub(in crate::query) struct Syntax<'t> {
    /// Adjacent words combine with `AND`.
    pub(in crate::query) operator_and: bool,
    /// The only default field, if there is one: a bare `*` tests it for any value.
    pub(in crate::query) default_field: Option<&'t str>,
    /// Edit distance of a bare `~`.
    pub(in crate::query) fuzziness: Fuzziness,
    /// Slop of phrases without one.
    pub(in crate::query) phrase_slop: u32,
    /// Patterns may begin with `*` and `?`.
    pub(in crate::query) allow_leading_wildcard: bool,
}

/// Parses Lucene's query syntax. Fails with [`ErrorKind::QueryShard`] and the position in the cause, as Elasticsearch
/// does.
pub fn parse(text: &str, operator_and: bool) -> Result<Node> {
    let syntax = Syntax {
        operator_and,
        default_field: None,
        fuzziness: Fuzziness::default(),
        phrase_slop: 0,
        allow_leading_wildcard: true,
    };
    syntax.parse(text)
}

impl Syntax<'_> {
    pub(in crate::query) fn parse(&self, text: &str) -> Result<Node> {
        let tokens = tokens(text).map_err(|error| failed(text, &error))?;
        if tokens.is_empty() {
            return Ok(Node::nothing());
        }
        let mut parser = Parser {
            syntax: self,
            end: text.len(),
            tokens,
            position: 0,
            operator_and: self.operator_and,
            depth: 0,
            clauses: 0,
        };
        let node = parser.query(None).map_err(|error| failed(text, &error))?;
        if parser.position < parser.tokens.len() {
            return Err(failed(text, &parser.encountered(AFTER)));
        }
        Ok(node)
    }
}

/// Allowed at the start of a clause.
const CLAUSE: &[&str] = &["field name", "value", "(", "NOT"];
/// Allowed after a clause.
const AFTER: &[&str] = &["AND", "OR", "value", "end of input"];

/// Maximum characters of the text that an error repeats.
const SHOWN_LENGTH: usize = 1000;

/// The cause has the position twice: in Lucene's words, and in the form of every [`SyntaxError`].
fn failed(text: &str, error: &SyntaxError) -> Error {
    let (line, column) = line_and_column(text, error.at.start);
    let shown: String = text.chars().take(SHOWN_LENGTH).collect();
    let placed = error.clone().into_error(text);
    let cause = Error::parsing(format!(
        "Cannot parse '{shown}': {} at line {line}, column {column}.",
        error.message
    ))
    .with_position(line, column)
    .with_details(placed.details().cloned().unwrap_or_default());
    Error::new(ErrorKind::QueryShard, format!("Failed to parse query [{shown}]")).caused_by(cause)
}

#[derive(Clone, Copy, PartialEq)]
enum Conjunction {
    None,
    And,
    Or,
}

#[derive(Clone, Copy, PartialEq)]
enum Occurrence {
    Must,
    Should,
    MustNot,
}

struct Parser<'t> {
    syntax: &'t Syntax<'t>,
    end: usize,
    tokens: Vec<(Range<usize>, Token<'t>)>,
    position: usize,
    operator_and: bool,
    depth: usize,
    clauses: usize,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<&Token<'t>> {
        self.peek_after(0)
    }

    fn peek_after(&self, count: usize) -> Option<&Token<'t>> {
        self.tokens.get(self.position + count).map(|(_, token)| token)
    }

    /// Returns the byte range of the next token, or the end of the text.
    fn here(&self) -> Range<usize> {
        self.tokens
            .get(self.position)
            .map_or(self.end..self.end, |(at, _)| at.clone())
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError {
            at: self.here(),
            message: message.into(),
            expected: Vec::new(),
        })
    }

    /// Returns the error that the next token, or the end, is none of the expected.
    fn encountered(&self, expected: &[&str]) -> SyntaxError {
        let message = match self.peek() {
            None => "Encountered \"<EOF>\"".to_owned(),
            Some(token) => format!("Encountered {}", describe(token)),
        };
        SyntaxError {
            at: self.here(),
            message,
            expected: expected.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// Parses clauses up to a closing parenthesis or the end.
    fn query(&mut self, field: Option<&str>) -> Result<Node, SyntaxError> {
        let mut clauses: Vec<(Occurrence, Node)> = Vec::new();
        // A single clause without a modifier is returned without a `Bool` around it.
        let mut plain = true;
        loop {
            let conjunction = match self.peek() {
                Some(Token::And) if !clauses.is_empty() => Conjunction::And,
                Some(Token::Or) if !clauses.is_empty() => Conjunction::Or,
                None | Some(Token::Close) if !clauses.is_empty() => break,
                _ => Conjunction::None,
            };
            if conjunction == Conjunction::None
                && let Some(words) = self.words()
            {
                self.take_clause()?;
                let occurrence = if self.operator_and {
                    Occurrence::Must
                } else {
                    Occurrence::Should
                };
                clauses.push((occurrence, self.word(field, words)));
                continue;
            }
            if conjunction != Conjunction::None {
                self.position += 1;
            }
            let modifier = match self.peek() {
                Some(Token::Plus) => Some(Occurrence::Must),
                Some(Token::Minus | Token::Not) => Some(Occurrence::MustNot),
                _ => None,
            };
            if modifier.is_some() {
                self.position += 1;
            }
            plain &= modifier.is_none();
            let clause = self.clause(field)?;
            let occurrence = self.occurrence(&mut clauses, conjunction, modifier);
            clauses.push((occurrence, clause));
        }
        if plain && clauses.len() == 1 {
            return Ok(clauses.remove(0).1);
        }
        let (mut must, mut should, mut must_not) = (Vec::new(), Vec::new(), Vec::new());
        for (occurrence, node) in clauses {
            match occurrence {
                Occurrence::Must => must.push(node),
                Occurrence::Should => should.push(node),
                Occurrence::MustNot => must_not.push(node),
            }
        }
        if must.is_empty() && should.is_empty() {
            must.push(Node::All);
        }
        Ok(Node::Bool { must, should, must_not })
    }

    /// Lucene's `addClause`: resolves the occurrence of a clause from the modifiers of it and of the previous one.
    fn occurrence(
        &self,
        clauses: &mut [(Occurrence, Node)],
        conjunction: Conjunction,
        modifier: Option<Occurrence>,
    ) -> Occurrence {
        if let Some((before, _)) = clauses.last_mut()
            && *before != Occurrence::MustNot
        {
            match conjunction {
                Conjunction::And => *before = Occurrence::Must,
                Conjunction::Or if self.operator_and => *before = Occurrence::Should,
                _ => {}
            }
        }
        match modifier {
            Some(Occurrence::MustNot) => Occurrence::MustNot,
            Some(_) if !self.operator_and => Occurrence::Must,
            _ if self.operator_and && conjunction != Conjunction::Or => Occurrence::Must,
            _ if !self.operator_and && conjunction == Conjunction::And => Occurrence::Must,
            _ => Occurrence::Should,
        }
    }

    /// Lucene's `MultiTerm`: at least two adjacent words. A word before an operator, a colon or a boost does not belong
    /// to them.
    fn words(&mut self) -> Option<String> {
        let ends_well = |next: Option<&Token<'_>>| {
            !matches!(
                next,
                Some(Token::Colon | Token::Star | Token::Tilde(_) | Token::Boost(_) | Token::And | Token::Or)
            )
        };
        let mut count = 0;
        while matches!(self.peek_after(count), Some(Token::Term(_))) && ends_well(self.peek_after(count + 1)) {
            count += 1;
        }
        if count < 2 {
            return None;
        }
        let mut words = Vec::with_capacity(count);
        for (_, token) in &self.tokens[self.position..self.position + count] {
            if let Token::Term(word) = token {
                words.push(unescape(word)?);
            }
        }
        self.position += count;
        self.clauses += count - 1;
        Some(words.join(" "))
    }

    fn take_clause(&mut self) -> Result<(), SyntaxError> {
        self.clauses += 1;
        if self.clauses > CLAUSES_MAX {
            return self.error(format!(
                "Encountered too many clauses: maxClauseCount is set to {CLAUSES_MAX}"
            ));
        }
        Ok(())
    }

    /// Parses `field:` and a term, a range, a phrase, or parentheses, with an optional boost.
    fn clause(&mut self, outer_field: Option<&str>) -> Result<Node, SyntaxError> {
        self.take_clause()?;
        let own_field = match (self.peek(), self.peek_after(1)) {
            (Some(Token::Term(name)), Some(Token::Colon)) => match unescape(name) {
                Some(name) => Some(name),
                None => return self.error("Encountered an escape that is not a character"),
            },
            (Some(Token::Star), Some(Token::Colon)) => Some("*".to_owned()),
            _ => None,
        };
        if own_field.is_some() {
            self.position += 2;
        }
        let field = own_field.as_deref().or(outer_field);
        let (node, boost) = if self.peek() == Some(&Token::Open) {
            self.position += 1;
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return self.error(format!("Encountered parentheses nested deeper than {DEPTH_MAX}"));
            }
            let node = self.query(field)?;
            self.depth -= 1;
            if self.peek() != Some(&Token::Close) {
                return Err(self.encountered(&[")"]));
            }
            self.position += 1;
            (node, self.boost())
        } else {
            self.leaf(field)?
        };
        let boost = boost.unwrap_or(1.0);
        // These nodes already name their field.
        let scope = own_field.filter(|_| !matches!(node, Node::All | Node::Exists(_)));
        if scope.is_none() && boost == 1.0 {
            return Ok(node);
        }
        Ok(Node::Scoped {
            field: scope,
            boost,
            node: Box::new(node),
        })
    }

    fn boost(&mut self) -> Option<f32> {
        match self.peek() {
            Some(Token::Boost(boost)) => {
                let boost = *boost;
                self.position += 1;
                Some(boost)
            }
            _ => None,
        }
    }

    fn tilde(&mut self) -> Option<&'t str> {
        match self.peek() {
            Some(Token::Tilde(tail)) => {
                let tail = *tail;
                self.position += 1;
                Some(tail)
            }
            _ => None,
        }
    }

    /// Parses one term, range or phrase with its `~` and `^`, in either order.
    fn leaf(&mut self, field: Option<&str>) -> Result<(Node, Option<f32>), SyntaxError> {
        let Some((_, token)) = self.tokens.get(self.position).cloned() else {
            return Err(self.encountered(CLAUSE));
        };
        if let Token::Range(range) = &token {
            self.position += 1;
            let node = self.range(range)?;
            return Ok((node, self.boost()));
        }
        let is_term = matches!(
            token,
            Token::Term(_) | Token::Star | Token::Prefix(_) | Token::Wildcard(_) | Token::Regexp(_) | Token::Quoted(_)
        );
        if !is_term {
            return Err(self.encountered(CLAUSE));
        }
        self.position += 1;
        let mut tilde = self.tilde();
        let boost = self.boost();
        if tilde.is_none() && boost.is_some() {
            tilde = self.tilde();
        }
        let exists = field == Some("_exists_");
        let node = match token {
            Token::Star => match field.or(self.syntax.default_field) {
                None | Some("*") => Node::All,
                Some(field) => Node::Exists(field.to_owned()),
            },
            Token::Wildcard(pattern) if exists => Node::Exists(pattern.to_owned()),
            Token::Wildcard(pattern) if pattern.starts_with(['*', '?']) && !self.syntax.allow_leading_wildcard => {
                return self.error("'*' or '?' not allowed as first character in WildcardQuery");
            }
            Token::Wildcard(pattern) => Node::Wildcard(pattern.to_owned()),
            Token::Prefix(start) if exists => Node::Exists(format!("{start}*")),
            Token::Prefix(start) => Node::Prefix(self.unescaped(start)?),
            Token::Regexp(pattern) => Node::Regexp(pattern.to_owned()),
            Token::Quoted(text) if exists => Node::Exists(self.unescaped(text)?),
            // Text after the `~` of a phrase counts only if it is a number.
            Token::Quoted(text) => {
                let slop = match tilde.and_then(|tail| tail.parse::<f32>().ok()) {
                    Some(slop) => slop.max(0.0) as u32,
                    None => self.syntax.phrase_slop,
                };
                Node::Phrase(self.unescaped(text)?, slop)
            }
            Token::Term(word) => {
                let word = self.unescaped(word)?;
                match tilde {
                    Some(tail) => {
                        let distance = self.distance(&word, tail)?;
                        Node::Fuzzy(word, distance)
                    }
                    None => self.word(field, word),
                }
            }
            _ => return Err(self.encountered(CLAUSE)),
        };
        Ok((node, boost))
    }

    /// Parses a word, or the forms that Elasticsearch accepts after a field: the field of `_exists_`, or a comparison.
    fn word(&self, field: Option<&str>, word: String) -> Node {
        match field {
            None => return Node::Word(word),
            Some("_exists_") => return Node::Exists(word),
            Some(_) => {}
        }
        let bound = |rest: &str, inclusive| Some((rest.to_owned(), inclusive));
        let (lower, upper) = if let Some(rest) = after(&word, ">=") {
            (bound(rest, true), None)
        } else if let Some(rest) = after(&word, ">") {
            (bound(rest, false), None)
        } else if let Some(rest) = after(&word, "<=") {
            (None, bound(rest, true))
        } else if let Some(rest) = after(&word, "<") {
            (None, bound(rest, false))
        } else {
            return Node::Word(word);
        };
        Node::Range { lower, upper }
    }

    fn range(&self, range: &RangeToken<'_>) -> Result<Node, SyntaxError> {
        let side = |bound: &Bound<'_>, inclusive| {
            if bound.text == "*" && !bound.quoted {
                return Ok(None);
            }
            Ok(Some((self.unescaped(bound.text)?, inclusive)))
        };
        Ok(Node::Range {
            lower: side(&range.lower, range.lower_inclusive)?,
            upper: side(&range.upper, range.upper_inclusive)?,
        })
    }

    /// Returns the edit distance that `~`, `~2` or `~0.8` sets for a word.
    fn distance(&self, word: &str, tail: &str) -> Result<u8, SyntaxError> {
        let length = word.chars().count();
        if tail.is_empty() {
            return Ok(self.syntax.fuzziness.edits(length));
        }
        let Ok(similarity) = tail.parse::<f32>() else {
            return self.error(format!("Encountered \"~{tail}\", which is not a number,"));
        };
        if !similarity.is_finite() || similarity < 0.0 {
            return self.error("Minimum similarity for a FuzzyQuery has to be between 0.0f and 1.0f !");
        }
        if similarity >= 1.0 {
            if similarity.fract() != 0.0 {
                return self.error("Fractional edit distances are not allowed!");
            }
            return Ok(similarity.min(2.0) as u8);
        }
        if similarity == 0.0 {
            return Ok(0);
        }
        Ok(((1.0 - f64::from(similarity)) * length as f64).min(2.0) as u8)
    }

    fn unescaped(&self, text: &str) -> Result<String, SyntaxError> {
        match unescape(text) {
            Some(text) => Ok(text),
            None => self.error("Encountered an escape that is not a character"),
        }
    }
}

/// Returns the rest of a word after a leading operator, if it is not empty.
fn after<'w>(word: &'w str, operator: &str) -> Option<&'w str> {
    word.strip_prefix(operator).filter(|rest| !rest.is_empty())
}

/// Resolves `\x` and `\u0041`. `None`: a `\u` without four hexadecimal digits, half of a surrogate pair, or a `\` at
/// the end.
pub(super) fn unescape(text: &str) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.to_owned());
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escaped)) = rest.split_once('\\') {
        plain.push_str(before);
        let mut characters = escaped.chars();
        match characters.next()? {
            'u' => {
                let code = code_unit(escaped)?;
                rest = &escaped[5..];
                if let Some(character) = char::from_u32(code) {
                    plain.push(character);
                } else {
                    let low = code_unit(rest.strip_prefix('\\')?)?;
                    rest = &rest[6..];
                    let pair = [u16::try_from(code).ok()?, u16::try_from(low).ok()?];
                    plain.push_str(&String::from_utf16(&pair).ok()?);
                }
            }
            character => {
                plain.push(character);
                rest = characters.as_str();
            }
        }
    }
    plain.push_str(rest);
    Some(plain)
}

/// Parses the number in `u0041…`.
fn code_unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('u')?.get(..4)?;
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(digits, 16).ok()
}

fn describe(token: &Token<'_>) -> String {
    match token {
        Token::And => "\" <AND> \"AND \"\"".to_owned(),
        Token::Or => "\" <OR> \"OR \"\"".to_owned(),
        Token::Not => "\" <NOT> \"NOT \"\"".to_owned(),
        Token::Plus => "\" \"+\" \"+ \"\"".to_owned(),
        Token::Minus => "\" \"-\" \"- \"\"".to_owned(),
        Token::Open => "\" \"(\" \"( \"\"".to_owned(),
        Token::Close => "\" \")\" \") \"\"".to_owned(),
        Token::Colon => "\" \":\" \": \"\"".to_owned(),
        Token::Boost(boost) => format!("\"^{boost}\""),
        Token::Tilde(tail) => format!("\"~{tail}\""),
        Token::Quoted(text) => format!("\"\\\"{text}\\\"\""),
        Token::Term(text) | Token::Wildcard(text) => format!("\"{text}\""),
        Token::Star => "\"*\"".to_owned(),
        Token::Prefix(text) => format!("\"{text}*\""),
        Token::Regexp(text) => format!("\"/{text}/\""),
        Token::Range(_) => "a range".to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests;
