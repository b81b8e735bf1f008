//! Lexer of Lucene's query syntax, as `QueryParser.jj` of Lucene 9 defines it: the longest token wins, and separate
//! lexical rules apply after `^`, `[` and `{`.

use std::ops::Range;

use crate::query::syntax_error::SyntaxError;

/// One token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'t> {
    And,
    Or,
    Not,
    Plus,
    Minus,
    Open,
    Close,
    Colon,
    /// `^2.5`.
    Boost(f32),
    /// Text between quotes, still escaped.
    Quoted(&'t str),
    /// A word without unescaped wildcards, still escaped; also `+`, `-` and `!` before white space, which are words
    /// there.
    Term(&'t str),
    /// A single `*`.
    Star,
    /// `word*`, without the star, still escaped.
    Prefix(&'t str),
    /// A word with wildcards, still escaped.
    Wildcard(&'t str),
    /// Text between slashes, as written.
    Regexp(&'t str),
    /// `~` and the text after it.
    Tilde(&'t str),
    Range(RangeToken<'t>),
}

/// `[a TO b}`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RangeToken<'t> {
    pub(super) lower: Bound<'t>,
    pub(super) lower_inclusive: bool,
    pub(super) upper: Bound<'t>,
    pub(super) upper_inclusive: bool,
}

/// One bound of a range, still escaped.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bound<'t> {
    pub(super) text: &'t str,
    pub(super) quoted: bool,
}

/// Maximum tokens of one query. A token has at least one byte, a clause at least one token.
const TOKENS_MAX: usize = 4 * crate::query::CLAUSES_MAX;

/// Tokens of a text, up to its end or its first mistake.
pub(super) struct Lexed<'t> {
    /// Tokens with their byte ranges.
    pub(super) tokens: Vec<(Range<usize>, Token<'t>)>,
    /// Error that ended the tokens.
    pub(super) error: Option<SyntaxError>,
}

/// Splits a text into tokens, up to its first mistake.
pub(super) fn lex(text: &str) -> Lexed<'_> {
    let mut lexer = Lexer { text, offset: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_space();
        let start = lexer.offset;
        let token = match tokens.len() {
            TOKENS_MAX => lexer.error(format!("more than {TOKENS_MAX} tokens"), &[]),
            _ => lexer.next(),
        };
        let error = match token {
            Ok(Some(token)) => {
                tokens.push((start..lexer.offset, token));
                continue;
            }
            Ok(None) => None,
            Err(error) => Some(error),
        };
        return Lexed { tokens, error };
    }
}

/// Splits a text into tokens; fails at its first mistake.
pub(super) fn tokens(text: &str) -> Result<Vec<(Range<usize>, Token<'_>)>, SyntaxError> {
    let lexed = lex(text);
    match lexed.error {
        Some(error) => Err(error),
        None => Ok(lexed.tokens),
    }
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\u{3000}')
}

/// Whether an unescaped character may start a word.
fn starts_term(character: char) -> bool {
    !is_space(character)
        && !matches!(
            character,
            '+' | '-' | '!' | '(' | ')' | ':' | '^' | '[' | ']' | '"' | '{' | '}' | '~' | '*' | '?' | '\\' | '/'
        )
}

struct Lexer<'t> {
    text: &'t str,
    offset: usize,
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.offset..]
    }

    fn skip_space(&mut self) {
        self.offset = self.text.len() - self.rest().trim_start_matches(is_space).len();
    }

    fn error<T>(&self, message: impl Into<String>, expected: &[&str]) -> Result<T, SyntaxError> {
        let next = self.rest().chars().next().map_or(0, char::len_utf8);
        Err(SyntaxError {
            at: self.offset..self.offset + next,
            message: message.into(),
            expected: expected.iter().map(|name| (*name).to_owned()).collect(),
        })
    }

    fn next(&mut self) -> Result<Option<Token<'t>>, SyntaxError> {
        let rest = self.rest();
        let mut characters = rest.chars();
        let Some(first) = characters.next() else {
            return Ok(None);
        };
        let second = characters.next();
        let single = match first {
            // `+ `, `- ` and `! ` are words.
            '+' | '-' | '!' if second.is_some_and(is_space) => Some(Token::Term(&rest[..1])),
            '+' => Some(Token::Plus),
            '-' => Some(Token::Minus),
            '!' => Some(Token::Not),
            '(' => Some(Token::Open),
            ')' => Some(Token::Close),
            ':' => Some(Token::Colon),
            _ => None,
        };
        if let Some(token) = single {
            self.offset += 1;
            return Ok(Some(token));
        }
        match first {
            '^' => self.boost().map(Some),
            '"' => self.quoted().map(Some),
            '/' => self.regexp().map(Some),
            '[' | '{' => self.range(first == '[').map(Some),
            '~' => {
                self.offset += 1;
                let length = term_length(self.rest(), false);
                let tail = &self.rest()[..length];
                self.offset += length;
                Ok(Some(Token::Tilde(tail)))
            }
            ']' | '}' => self.error(format!("Encountered \"{first}\""), &[]),
            _ => self.word().map(Some),
        }
    }

    /// Reads words, the operators that look like words, and words with wildcards.
    fn word(&mut self) -> Result<Token<'t>, SyntaxError> {
        let rest = self.rest();
        let length = term_length(rest, true);
        if length == 0 {
            return self.error("Term can not end with escape character.", &[]);
        }
        let word = &rest[..length];
        self.offset += length;
        let wildcards = unescaped_wildcards(word);
        Ok(match wildcards {
            Wildcards::None => match word {
                "AND" | "&&" => Token::And,
                "OR" | "||" => Token::Or,
                "NOT" => Token::Not,
                _ => Token::Term(word),
            },
            Wildcards::OneStarAtTheEnd if length == 1 => Token::Star,
            Wildcards::OneStarAtTheEnd => Token::Prefix(&word[..length - 1]),
            Wildcards::Other => Token::Wildcard(word),
        })
    }

    /// Reads `^` and a number, with optional white space between.
    fn boost(&mut self) -> Result<Token<'t>, SyntaxError> {
        self.offset += 1;
        self.skip_space();
        let rest = self.rest();
        let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let mut length = digits(rest);
        if length > 0
            && let Some(fraction) = rest[length..].strip_prefix('.')
            && digits(fraction) > 0
        {
            length += 1 + digits(fraction);
        }
        match rest[..length].parse::<f32>() {
            Ok(boost) if boost.is_finite() => {
                self.offset += length;
                Ok(Token::Boost(boost))
            }
            _ => self.error("Encountered no number after \"^\"", &["number"]),
        }
    }

    fn quoted(&mut self) -> Result<Token<'t>, SyntaxError> {
        match delimited(self.rest(), '"') {
            Some(inside) => {
                self.offset += inside.len() + 2;
                Ok(Token::Quoted(inside))
            }
            None => self.without_end("Encountered an unterminated quote", "\""),
        }
    }

    fn regexp(&mut self) -> Result<Token<'t>, SyntaxError> {
        match delimited(self.rest(), '/') {
            Some(inside) => {
                self.offset += inside.len() + 2;
                Ok(Token::Regexp(inside))
            }
            None => self.without_end("Encountered an unterminated regular expression", "/"),
        }
    }

    /// Returns the error that the token at the current position has no end.
    fn without_end<T>(&self, message: &str, end: &str) -> Result<T, SyntaxError> {
        Err(SyntaxError {
            at: self.offset..self.text.len(),
            message: message.to_owned(),
            expected: vec![end.to_owned()],
        })
    }

    fn range(&mut self, lower_inclusive: bool) -> Result<Token<'t>, SyntaxError> {
        self.offset += 1;
        let lower = self.bound()?;
        self.skip_space();
        match self.rest().strip_prefix("TO") {
            Some(rest) if rest.starts_with(is_space) => self.offset += 2,
            _ => return self.error("Encountered a range without \"TO\"", &["TO"]),
        }
        let upper = self.bound()?;
        self.skip_space();
        let upper_inclusive = match self.rest().chars().next() {
            Some(']') => true,
            Some('}') => false,
            _ => return self.error("Encountered an unterminated range", &["]", "}"]),
        };
        self.offset += 1;
        Ok(Token::Range(RangeToken {
            lower,
            lower_inclusive,
            upper,
            upper_inclusive,
        }))
    }

    /// Reads one bound of a range: quoted, or the text up to a space or the end of the range.
    fn bound(&mut self) -> Result<Bound<'t>, SyntaxError> {
        self.skip_space();
        let rest = self.rest();
        if rest.starts_with('"')
            && let Some(text) = delimited(rest, '"').filter(|text| !text.is_empty())
        {
            self.offset += text.len() + 2;
            return Ok(Bound { text, quoted: true });
        }
        let length = rest
            .find(|c: char| is_space(c) || matches!(c, ']' | '}'))
            .unwrap_or(rest.len());
        if length == 0 {
            return self.error("Encountered a range without a bound", &["value", "*"]);
        }
        self.offset += length;
        Ok(Bound {
            text: &rest[..length],
            quoted: false,
        })
    }
}

/// Returns the text between `delimiter` at the start of `text` and the next unescaped one.
fn delimited(text: &str, delimiter: char) -> Option<&str> {
    let inside = &text[1..];
    let mut escaped = false;
    for (index, character) in inside.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == delimiter => return Some(&inside[..index]),
            _ => {}
        }
    }
    None
}

/// Returns the bytes of the word at the start of `text`; 0 if there is none. An escape includes the character after it;
/// a lone `\` at the end belongs to no word. Within a word `+` and `-` are letters; with `wildcards` so are `*` and
/// `?`, also at its start.
fn term_length(text: &str, wildcards: bool) -> usize {
    let mut characters = text.char_indices();
    let mut first = wildcards;
    while let Some((index, character)) = characters.next() {
        match character {
            '\\' => {
                if characters.next().is_none() {
                    return index;
                }
            }
            '*' | '?' if wildcards => {}
            '+' | '-' if !first => {}
            _ if starts_term(character) => {}
            _ => return index,
        }
        first = false;
    }
    text.len()
}

enum Wildcards {
    None,
    OneStarAtTheEnd,
    Other,
}

fn unescaped_wildcards(word: &str) -> Wildcards {
    let mut found = Wildcards::None;
    let mut escaped = false;
    for (index, character) in word.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '*' if index + 1 == word.len() && matches!(found, Wildcards::None) => found = Wildcards::OneStarAtTheEnd,
            '*' | '?' => found = Wildcards::Other,
            _ => {}
        }
    }
    found
}
