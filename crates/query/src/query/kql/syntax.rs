//! Parser of KQL.

use std::collections::BTreeSet;
use std::ops::Range;

use super::lexer::{COMPARISONS, Comparison, Lexed, Lexeme, Pattern, Token, escape_word, escape_words, lex, quote};
use crate::query::CLAUSES_MAX;
use crate::query::syntax_error::SyntaxError;

/// Maximum nesting of parentheses and `not`. Hand-written queries stay below ten.
pub const DEPTH_MAX: usize = 100;

/// Tree of a KQL text. `and` binds tighter than `or`; redundant parentheses are dropped.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// The empty text, which matches everything.
    All,
    /// Two or more.
    And(Vec<Node>),
    /// Two or more.
    Or(Vec<Node>),
    /// Documents that do not match.
    Not(Box<Node>),
    /// `field: value`, or a value without a field.
    Is {
        /// `None`: the default fields.
        field: Option<Pattern>,
        /// Searched value.
        value: Value,
    },
    /// `field > value`.
    Range {
        /// Compared field.
        field: Pattern,
        /// Comparison operator.
        comparison: Comparison,
        /// As written, unescaped.
        value: String,
    },
}

/// Searched value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Words without quotes; a text field matches if it contains any of them. Never empty.
    Words(Pattern),
    /// Quoted text, in which only escapes are special.
    Phrase(String),
}

/// What the grammar allows at a position of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Expected {
    And,
    Or,
    Not,
    Colon,
    Comparison,
    Open,
    Close,
    Field,
    Value,
    End,
}

use Expected as May;

impl Expected {
    /// Returns the texts that a user can type, or the name of the category.
    fn names(self) -> &'static [&'static str] {
        match self {
            May::And => &["AND"],
            May::Or => &["OR"],
            May::Not => &["NOT"],
            May::Colon => &[":"],
            May::Comparison => &["<=", ">=", "<", ">"],
            May::Open => &["("],
            May::Close => &[")"],
            May::Field => &["field name"],
            May::Value => &["value"],
            May::End => &["end of input"],
        }
    }
}

/// Allowed at the start of a query.
const START: &[Expected] = &[May::Field, May::Value, May::Not, May::Open];
/// Allowed after a field and a colon.
const VALUES: &[Expected] = &[May::Value, May::Open];
/// Allowed at the start of an element of a value list.
const LISTED: &[Expected] = &[May::Value, May::Not, May::Open];

/// Parses a text.
pub fn parse(text: &str) -> Result<Node, SyntaxError> {
    let mut parser = Parser::new(text, lex(text));
    if parser.is_at_end() {
        return Ok(Node::All);
    }
    let node = parser.or(None)?;
    match parser.is_at_end() {
        true => Ok(node),
        false => Err(parser.unexpected(&parser.after)),
    }
}

/// Returns what may follow an incomplete text, and the field whose value may follow. `None`: the text already has a
/// mistake.
pub(super) fn expected_after(text: &str) -> Option<(Vec<Expected>, Option<Pattern>)> {
    let lexed = lex(text);
    if lexed.error.is_some() {
        return None;
    }
    let mut parser = Parser::new(text, lexed);
    if parser.is_at_end() {
        return Some((START.to_vec(), None));
    }
    let result = parser.or(None);
    if parser.next < parser.lexemes.len() {
        return None;
    }
    let (mut expected, field) = match result {
        Ok(_) => (parser.after, None),
        Err(_) => (parser.missing?, parser.field_of_missing),
    };
    expected.retain(|may| *may != May::End);
    Some((expected, field))
}

struct Parser<'t> {
    text: &'t str,
    lexemes: Vec<Lexeme>,
    /// Error that ended the tokens; `None`: the text ended.
    error: Option<SyntaxError>,
    next: usize,
    depth: usize,
    clauses: usize,
    /// Number of open parentheses.
    open: usize,
    /// What may follow the last part.
    after: Vec<Expected>,
    /// What was missing at the end of the text, and the field concerned.
    missing: Option<Vec<Expected>>,
    field_of_missing: Option<Pattern>,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, lexed: Lexed) -> Self {
        Self {
            text,
            lexemes: lexed.lexemes,
            error: lexed.error,
            next: 0,
            depth: 0,
            clauses: 0,
            open: 0,
            after: Vec::new(),
            missing: None,
            field_of_missing: None,
        }
    }

    fn peek(&self) -> Option<&Token> {
        self.lexemes.get(self.next).map(|lexeme| &lexeme.token)
    }

    fn takes(&mut self, token: &Token) -> bool {
        let is_next = self.peek() == Some(token);
        self.next += usize::from(is_next);
        is_next
    }

    /// Whether all tokens are consumed and the lexer reached the end.
    fn is_at_end(&self) -> bool {
        self.next == self.lexemes.len() && self.error.is_none()
    }

    fn error_at(&self, at: Range<usize>, message: String) -> SyntaxError {
        SyntaxError {
            at,
            message,
            expected: Vec::new(),
        }
    }

    /// Returns the error that the next token, or the end, is none of the expected.
    fn unexpected(&self, expected: &[Expected]) -> SyntaxError {
        let names: Vec<&str> = expected.iter().flat_map(|may| may.names()).copied().collect();
        let list = match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
            None => "nothing".to_owned(),
        };
        let (at, found) = match (self.lexemes.get(self.next), &self.error) {
            (None, Some(error)) => return error.clone(),
            (None, None) => (self.text.len()..self.text.len(), "end of input".to_owned()),
            (Some(lexeme), _) => (lexeme.at.clone(), self.shown(&lexeme.at)),
        };
        SyntaxError {
            at,
            message: format!("Expected {list} but {found} found"),
            expected: names.into_iter().map(str::to_owned).collect(),
        }
    }

    /// Returns a token as written, shortened if it is long.
    fn shown(&self, at: &Range<usize>) -> String {
        const SHOWN_CHARS: usize = 50;
        let written = &self.text[at.clone()];
        let start: String = written.chars().take(SHOWN_CHARS).collect();
        match start.len() < written.len() {
            true => format!("\"{start}…\""),
            false => format!("\"{start}\""),
        }
    }

    /// Returns the same error and records what may follow if the text ends here.
    fn needs<T>(&mut self, expected: &[Expected], field: Option<&Pattern>) -> Result<T, SyntaxError> {
        self.missing = Some(expected.to_vec());
        self.field_of_missing = field.cloned();
        Err(self.unexpected(expected))
    }

    /// Records that a part is complete, and what may follow.
    fn complete(&mut self, more: &[Expected]) {
        let end = if self.open > 0 { May::Close } else { May::End };
        self.after = [&[May::And, May::Or], more, &[end]].concat();
    }

    fn deeper(&mut self) -> Result<(), SyntaxError> {
        self.depth += 1;
        if self.depth <= DEPTH_MAX {
            return Ok(());
        }
        let at = self
            .lexemes
            .get(self.next)
            .map_or(self.text.len()..self.text.len(), |lexeme| lexeme.at.clone());
        Err(self.error_at(at, format!("Parentheses and NOT nest deeper than {DEPTH_MAX}")))
    }

    /// Parses parts joined by `or`: of a query, or of a value list.
    fn or(&mut self, field: Option<&Pattern>) -> Result<Node, SyntaxError> {
        let mut parts = vec![self.and(field)?];
        while self.takes(&Token::Or) {
            parts.push(self.and(field)?);
        }
        Ok(several(parts, Node::Or))
    }

    fn and(&mut self, field: Option<&Pattern>) -> Result<Node, SyntaxError> {
        let mut parts = vec![self.not(field)?];
        while self.takes(&Token::And) {
            parts.push(self.not(field)?);
        }
        Ok(several(parts, Node::And))
    }

    fn not(&mut self, field: Option<&Pattern>) -> Result<Node, SyntaxError> {
        if !self.takes(&Token::Not) {
            return self.part(field);
        }
        self.deeper()?;
        let node = self.not(field)?;
        self.depth -= 1;
        Ok(Node::Not(Box::new(node)))
    }

    /// Parses one operand.
    fn part(&mut self, field: Option<&Pattern>) -> Result<Node, SyntaxError> {
        if self.takes(&Token::Open) {
            return self.parentheses(field);
        }
        match field {
            Some(field) => self.value(Some(field)),
            None => self.expression(),
        }
    }

    /// Parses the content of parentheses.
    fn parentheses(&mut self, field: Option<&Pattern>) -> Result<Node, SyntaxError> {
        self.deeper()?;
        self.open += 1;
        let node = self.or(field)?;
        if !self.takes(&Token::Close) {
            let after = self.after.clone();
            return self.needs(&after, None);
        }
        self.open -= 1;
        self.depth -= 1;
        self.complete(&[]);
        Ok(node)
    }

    /// Parses a field with its value, or a value without a field.
    fn expression(&mut self) -> Result<Node, SyntaxError> {
        let name = match self.peek() {
            Some(Token::Word(name)) => name.clone(),
            Some(Token::Quoted(name)) => Pattern(vec![name.clone()]),
            _ => return self.needs(START, None),
        };
        match self.lexemes.get(self.next + 1).map(|lexeme| &lexeme.token) {
            Some(Token::Colon) => {
                self.next += 2;
                self.values(&name)
            }
            Some(Token::Compare(comparison)) => {
                let comparison = *comparison;
                self.next += 2;
                self.range(name, comparison)
            }
            _ => {
                let first = self.next;
                let node = self.value(None)?;
                // A single word may be a field name.
                if self.next == first + 1 {
                    self.complete(&[May::Colon, May::Comparison]);
                }
                Ok(node)
            }
        }
    }

    /// Parses what follows a field and a colon.
    fn values(&mut self, field: &Pattern) -> Result<Node, SyntaxError> {
        match self.peek() {
            Some(Token::Open) => self.part(Some(field)),
            Some(Token::Word(_) | Token::Quoted(_)) => self.value(Some(field)),
            Some(Token::OpenBrace) => {
                let at = self.lexemes[self.next].at.clone();
                Err(self.error_at(
                    at,
                    "Nested queries (field: { … }) are not implemented by firn".to_owned(),
                ))
            }
            _ => self.needs(VALUES, Some(field)),
        }
    }

    fn range(&mut self, field: Pattern, comparison: Comparison) -> Result<Node, SyntaxError> {
        let first = self.next;
        let node = match self.peek() {
            Some(Token::Word(_) | Token::Quoted(_)) => self.value(Some(&field))?,
            _ => return self.needs(&[May::Value], Some(&field)),
        };
        let value = match node {
            Node::Is {
                value: Value::Phrase(text),
                ..
            } => text,
            Node::Is {
                value: Value::Words(Pattern(parts)),
                ..
            } if parts.len() == 1 => parts.concat(),
            _ => {
                let at = self.lexemes[first].at.start..self.lexemes[self.next - 1].at.end;
                let mut error = self.error_at(at, "Expected a value without * to compare with".to_owned());
                error.expected = vec!["value".to_owned()];
                return Err(error);
            }
        };
        Ok(Node::Range {
            field,
            comparison,
            value,
        })
    }

    /// Parses a quoted value, or adjacent words.
    fn value(&mut self, field: Option<&Pattern>) -> Result<Node, SyntaxError> {
        self.clauses += 1;
        if self.clauses > CLAUSES_MAX {
            let at = self.lexemes.get(self.next).map_or(0..0, |lexeme| lexeme.at.clone());
            return Err(self.error_at(at, format!("More than {CLAUSES_MAX} clauses")));
        }
        let value = match self.peek() {
            Some(Token::Quoted(text)) => {
                let value = Value::Phrase(text.clone());
                self.next += 1;
                value
            }
            Some(Token::Word(_)) => Value::Words(self.words()),
            _ => return self.needs(LISTED, field),
        };
        self.complete(&[]);
        Ok(Node::Is {
            field: field.cloned(),
            value,
        })
    }

    /// Parses words as one value. A word before a colon or a comparison is a field name, which must follow an operator.
    fn words(&mut self) -> Pattern {
        let mut parts: Vec<String> = Vec::new();
        let mut end = 0;
        while let Some(Lexeme {
            token: Token::Word(Pattern(more)),
            at,
        }) = self.lexemes.get(self.next)
        {
            match parts.last_mut() {
                None => parts.clone_from(more),
                Some(last) => {
                    last.push_str(&self.text[end..at.start]);
                    let (first, rest) = more
                        .split_first()
                        .map_or(("", more.as_slice()), |(first, rest)| (first, rest));
                    last.push_str(first);
                    parts.extend_from_slice(rest);
                }
            }
            end = at.end;
            self.next += 1;
        }
        Pattern(parts)
    }
}

fn several(mut parts: Vec<Node>, join: impl FnOnce(Vec<Node>) -> Node) -> Node {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            join(parts)
        }
        None => Node::All,
    }
}

impl Node {
    /// Returns a text that parses to this tree.
    pub fn print(&self) -> String {
        match self {
            Self::All => String::new(),
            Self::And(parts) => print_all(parts, " and "),
            Self::Or(parts) => print_all(parts, " or "),
            Self::Not(node) => format!("not {}", node.print_part()),
            Self::Is { field: None, value } => value.print(),
            Self::Is {
                field: Some(field),
                value,
            } => format!("{}: {}", print_name(field), value.print()),
            Self::Range {
                field,
                comparison,
                value,
            } => {
                let sign = COMPARISONS.iter().find(|(_, known)| known == comparison);
                let sign = sign.map_or("", |(written, _)| written);
                format!("{} {sign} {}", print_name(field), quote(value))
            }
        }
    }

    fn print_part(&self) -> String {
        match self {
            Self::And(_) | Self::Or(_) => format!("({})", self.print()),
            _ => self.print(),
        }
    }

    /// Returns the number of leaves, at least 1.
    pub(in crate::query) fn clause_count(&self) -> usize {
        match self {
            Self::And(parts) | Self::Or(parts) => parts.iter().map(Self::clause_count).sum(),
            Self::Not(node) => node.clause_count(),
            Self::All | Self::Is { .. } | Self::Range { .. } => 1,
        }
    }

    /// Adds the named fields, patterns as written; returns true if the default fields are read too.
    pub(in crate::query) fn collect_fields(&self, fields: &mut BTreeSet<String>) -> bool {
        match self {
            Self::All => false,
            Self::And(parts) | Self::Or(parts) => {
                let mut reads_default = false;
                for part in parts {
                    reads_default |= part.collect_fields(fields);
                }
                reads_default
            }
            Self::Not(node) => node.collect_fields(fields),
            Self::Is {
                field: None,
                value: Value::Words(pattern),
            } if pattern.is_any() => false,
            Self::Is { field: None, .. } => true,
            Self::Is { field: Some(field), .. } | Self::Range { field, .. } => {
                fields.insert(field.0.join("*"));
                false
            }
        }
    }
}

impl Value {
    fn print(&self) -> String {
        match self {
            Self::Words(pattern) => escape_words(pattern),
            Self::Phrase(text) => quote(text),
        }
    }
}

/// Writes a name as one word.
fn print_name(name: &Pattern) -> String {
    match name.as_text() {
        Some("") => quote(""),
        _ => escape_word(name),
    }
}

fn print_all(parts: &[Node], between: &str) -> String {
    let parts: Vec<String> = parts.iter().map(Node::print_part).collect();
    parts.join(between)
}
