//! Tokens of KQL, as `grammar.peggy` of Kibana's `@kbn/es-query` defines their characters.
//!
//! A value without quotes may hold spaces. Here it is one word a token; the parser puts words that stand side by side
//! together again, with what stood between them.

use std::ops::Range;

use crate::query::syntax_error::SyntaxError;

/// A text in which `*` stands for any run of characters: what stands between the stars, so a text without any is one
/// part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(pub Vec<String>);

impl Pattern {
    /// The text, if it has no star.
    pub fn as_text(&self) -> Option<&str> {
        match self.0.as_slice() {
            [text] => Some(text),
            _ => None,
        }
    }

    /// Whether it is nothing but stars.
    pub fn is_any(&self) -> bool {
        self.0.len() > 1 && self.0.iter().all(String::is_empty)
    }
}

/// How a value of a field compares with that of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The longer ones first.
pub(super) const COMPARISONS: [(&str, Comparison); 4] = [
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    And,
    Or,
    Not,
    Open,
    Close,
    OpenBrace,
    CloseBrace,
    Colon,
    Compare(Comparison),
    /// What stands between quotes, unescaped.
    Quoted(String),
    /// Unescaped.
    Word(Pattern),
}

/// A token and the bytes that it is written in.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lexeme {
    pub(super) token: Token,
    pub(super) at: Range<usize>,
}

/// What a text begins with, up to its end or to something that is no token.
#[derive(Debug, PartialEq)]
pub(super) struct Lexed {
    pub(super) lexemes: Vec<Lexeme>,
    /// Why there are no more.
    pub(super) error: Option<SyntaxError>,
}

/// Tokens of one query. A token is at least a byte, a clause at least one token.
const TOKENS_MAX: usize = 4 * crate::query::CLAUSES_MAX;

/// Characters that mean something where no quotes are.
const SPECIAL: &str = "\\():<>\"*{}";

/// Those that stand in words.
fn is_letter(character: char) -> bool {
    character == '*' || character == '\\' || !(character.is_whitespace() || SPECIAL.contains(character))
}

pub(super) fn lex(text: &str) -> Lexed {
    let mut lexer = Lexer { text, offset: 0 };
    let mut lexemes = Vec::new();
    loop {
        lexer.offset = text.len() - lexer.rest().trim_start().len();
        let start = lexer.offset;
        if lexer.rest().is_empty() {
            return Lexed { lexemes, error: None };
        }
        let token = match lexemes.len() {
            TOKENS_MAX => Err(mistake(
                start..text.len(),
                format!("More than {TOKENS_MAX} tokens"),
                &[],
            )),
            _ => lexer.next(),
        };
        match token {
            Ok(token) => lexemes.push(Lexeme {
                token,
                at: start..lexer.offset,
            }),
            Err(error) => {
                return Lexed {
                    lexemes,
                    error: Some(error),
                };
            }
        }
    }
}

fn mistake(at: Range<usize>, message: impl Into<String>, expected: &[&str]) -> SyntaxError {
    SyntaxError {
        at,
        message: message.into(),
        expected: expected.iter().map(|name| (*name).to_owned()).collect(),
    }
}

struct Lexer<'t> {
    text: &'t str,
    offset: usize,
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.offset..]
    }

    /// The token at the offset, where no space stands, and moves past it.
    fn next(&mut self) -> Result<Token, SyntaxError> {
        let rest = self.rest();
        if let Some((written, comparison)) = COMPARISONS.iter().find(|(written, _)| rest.starts_with(written)) {
            self.offset += written.len();
            return Ok(Token::Compare(*comparison));
        }
        let single = match rest.as_bytes().first() {
            Some(b'(') => Token::Open,
            Some(b')') => Token::Close,
            Some(b'{') => Token::OpenBrace,
            Some(b'}') => Token::CloseBrace,
            Some(b':') => Token::Colon,
            Some(b'"') => return self.quoted(),
            _ => return self.word(),
        };
        self.offset += 1;
        Ok(single)
    }

    fn quoted(&mut self) -> Result<Token, SyntaxError> {
        let start = self.offset;
        let mut inside = String::new();
        let mut offset = start + 1;
        while let Some(character) = self.text[offset..].chars().next() {
            let mut taken = character.len_utf8();
            match character {
                '"' => {
                    self.offset = offset + 1;
                    return Ok(Token::Quoted(inside));
                }
                '\\' => match self.escape(offset, "\\\"")? {
                    Some((text, length)) => {
                        inside.push_str(&text);
                        taken = length;
                    }
                    // A `\` that begins no escape is itself here.
                    None => inside.push('\\'),
                },
                other => inside.push(other),
            }
            offset += taken;
        }
        let message = "Expected \" at the end of a quoted value";
        Err(mistake(start..self.text.len(), message, &["\""]))
    }

    /// A run of letters: a keyword or a part of a value or name.
    fn word(&mut self) -> Result<Token, SyntaxError> {
        let length = word_length(self.rest());
        let (start, written) = (self.offset, &self.rest()[..length]);
        let after = &self.rest()[length..];
        self.offset += length;
        // `not: x` asks for a field of that name.
        let is_name = after.trim_start().starts_with([':', '<', '>']);
        if let Some(keyword) = keyword(written).filter(|_| !is_name) {
            return Ok(keyword);
        }
        if let Some(escaped) = written.strip_prefix('\\').filter(|word| keyword(word).is_some()) {
            return Ok(Token::Word(Pattern(vec![escaped.to_owned()])));
        }
        let mut parts = vec![String::new()];
        let mut offset = start;
        while let Some(character) = self.text[offset..start + length].chars().next() {
            let mut taken = character.len_utf8();
            match (character, parts.last_mut()) {
                ('*', _) => parts.push(String::new()),
                ('\\', Some(part)) => match self.escape(offset, SPECIAL)? {
                    Some((text, length)) => {
                        part.push_str(&text);
                        taken = length;
                    }
                    None => {
                        let letters = self.text[offset..].chars().take(2).map(char::len_utf8).sum::<usize>();
                        let message = "Expected a character that can be escaped after \\ outside of quotes";
                        let expected = ["\\\\", "\\(", "\\)", "\\:", "\\<", "\\>", "\\\"", "\\*", "\\{", "\\}"];
                        return Err(mistake(offset..offset + letters, message, &expected));
                    }
                },
                (other, Some(part)) => part.push(other),
                (_, None) => {}
            }
            offset += taken;
        }
        Ok(Token::Word(Pattern(parts)))
    }

    /// What the `\` at `at` and what follows it stand for, with the bytes of both; `None`: it begins no escape.
    fn escape(&self, at: usize, special: &str) -> Result<Option<(String, usize)>, SyntaxError> {
        let text = match self.text[at + 1..].chars().next() {
            Some('t') => "\t".to_owned(),
            Some('r') => "\r".to_owned(),
            Some('n') => "\n".to_owned(),
            Some('u') => return self.unicode(at),
            Some(character) if special.contains(character) => character.to_string(),
            _ => return Ok(None),
        };
        Ok(Some((text, 2)))
    }

    /// `\u0041`, or two of them for a character outside of the basic plane. Without four digits it is none.
    fn unicode(&self, at: usize) -> Result<Option<(String, usize)>, SyntaxError> {
        let unit = |at: usize| {
            let digits = self.text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
            let are_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            u16::from_str_radix(digits, 16).ok().filter(|_| are_digits)
        };
        let Some(first) = unit(at) else {
            return Ok(None);
        };
        if let Some(character) = char::from_u32(first.into()) {
            return Ok(Some((character.to_string(), 6)));
        }
        match unit(at + 6).and_then(|second| String::from_utf16(&[first, second]).ok()) {
            Some(text) => Ok(Some((text, 12))),
            None => Err(mistake(
                at..at + 6,
                "Expected both halves of a surrogate pair",
                &["\\uXXXX\\uXXXX"],
            )),
        }
    }
}

fn keyword(word: &str) -> Option<Token> {
    [("and", Token::And), ("or", Token::Or), ("not", Token::Not)]
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(word))
        .map(|(_, token)| token)
}

/// Bytes of the word at the start of a text. An escape takes the character after it with it.
fn word_length(text: &str) -> usize {
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        if !is_letter(character) {
            return index;
        }
        if character == '\\' && text[index + 1..].starts_with(|next: char| !next.is_whitespace()) {
            characters.next();
        }
    }
    text.len()
}

/// Writes a pattern so that it is read as these words.
pub(super) fn escape_words(pattern: &Pattern) -> String {
    escape(pattern, |character, is_at_end| character == ' ' && !is_at_end)
}

/// Writes a pattern so that it is read as one word.
pub(super) fn escape_word(pattern: &Pattern) -> String {
    escape(pattern, |_, _| false)
}

/// `separates`: whether a white space, at an end of its part or not, may stand between words as it is.
fn escape(pattern: &Pattern, separates: impl Fn(char, bool) -> bool) -> String {
    let mut escaped = String::new();
    let last_part = pattern.0.len().saturating_sub(1);
    for (number, part) in pattern.0.iter().enumerate() {
        let last = part.char_indices().next_back().map_or(0, |(index, _)| index);
        // Beside a star no keyword begins or ends.
        let mut word_starts = number == 0;
        for (index, character) in part.char_indices() {
            if character.is_whitespace() && !separates(character, index == 0 || index == last) {
                // All white space is within the basic plane.
                escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
                word_starts = false;
                continue;
            }
            let is_keyword = || match part[index..].split_once(|next| separates(next, false)) {
                Some((word, _)) => keyword(word).is_some(),
                None => number == last_part && keyword(&part[index..]).is_some(),
            };
            if word_starts && is_keyword() || SPECIAL.contains(character) {
                escaped.push('\\');
            }
            escaped.push(character);
            word_starts = character == ' ';
        }
        if number < last_part {
            escaped.push('*');
        }
    }
    escaped
}

/// Writes what stands between quotes.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            '\n' => quoted.push_str("\\n"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
