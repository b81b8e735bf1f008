//! Lexer of KQL, with the characters that `grammar.peggy` of Kibana's `@kbn/es-query` defines.
//!
//! A value without quotes may contain spaces. The lexer returns one token per word; the parser joins adjacent words
//! again, with the text between them.

use std::ops::Range;

use crate::query::syntax_error::SyntaxError;

/// Text in which `*` matches any run of characters: the list of parts between the stars. A text without a star is one
/// part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(pub Vec<String>);

impl Pattern {
    /// Returns the text if it has no star.
    pub fn as_text(&self) -> Option<&str> {
        match self.0.as_slice() {
            [text] => Some(text),
            _ => None,
        }
    }

    /// Whether it consists of stars only.
    pub fn is_any(&self) -> bool {
        self.0.len() > 1 && self.0.iter().all(String::is_empty)
    }
}

/// Comparison of a field's value with a range bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Longer operators first.
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
    /// Text between quotes, unescaped.
    Quoted(String),
    /// Unescaped word.
    Word(Pattern),
}

/// A token and its byte range.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lexeme {
    pub(super) token: Token,
    pub(super) at: Range<usize>,
}

/// Tokens of a text, up to its end or its first mistake.
#[derive(Debug, PartialEq)]
pub(super) struct Lexed {
    pub(super) lexemes: Vec<Lexeme>,
    /// Error that ended the tokens.
    pub(super) error: Option<SyntaxError>,
}

/// Maximum tokens of one query. A token has at least one byte, a clause at least one token.
const TOKENS_MAX: usize = 4 * crate::query::CLAUSES_MAX;

/// Characters with a meaning outside of quotes.
const SPECIAL: &str = "\\():<>\"*{}";

/// Whether a character may be part of a word.
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

    /// Reads the token at the offset, which is not a space, and advances past it.
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
                    // A `\` that starts no escape is a plain character here.
                    None => inside.push('\\'),
                },
                other => inside.push(other),
            }
            offset += taken;
        }
        let message = "Expected \" at the end of a quoted value";
        Err(mistake(start..self.text.len(), message, &["\""]))
    }

    /// Reads a run of letters: a keyword, or a part of a value or name.
    fn word(&mut self) -> Result<Token, SyntaxError> {
        let length = word_length(self.rest());
        let (start, written) = (self.offset, &self.rest()[..length]);
        let after = &self.rest()[length..];
        self.offset += length;
        // `not: x` refers to a field named `not`.
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

    /// Returns the character that the escape at `at` means, with the length of the escape in bytes; `None`: no escape
    /// starts there.
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

    /// Reads `\u0041`, or two of them for a character outside the basic plane. Without four digits it is no escape.
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

/// Returns the bytes of the word at the start of a text. An escape includes the character after it.
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

/// Writes a pattern so that it parses as these words.
pub(super) fn escape_words(pattern: &Pattern) -> String {
    escape(pattern, |character, is_at_end| character == ' ' && !is_at_end)
}

/// Writes a pattern so that it parses as one word.
pub(super) fn escape_word(pattern: &Pattern) -> String {
    escape(pattern, |_, _| false)
}

/// `separates`: whether a white space character may stay unescaped between words; the flag says if it is at an end of
/// its part.
fn escape(pattern: &Pattern, separates: impl Fn(char, bool) -> bool) -> String {
    let mut escaped = String::new();
    let last_part = pattern.0.len().saturating_sub(1);
    for (number, part) in pattern.0.iter().enumerate() {
        let last = part.char_indices().next_back().map_or(0, |(index, _)| index);
        // No keyword starts or ends next to a star.
        let mut word_starts = number == 0;
        for (index, character) in part.char_indices() {
            if character.is_whitespace() && !separates(character, index == 0 || index == last) {
                // All white space characters are in the basic plane.
                escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
                word_starts = false;
                continue;
            }
            let is_keyword = || {
                let mut after = part[index..].char_indices().map(|(at, next)| (index + at, next));
                match after.find(|(at, next)| separates(*next, *at == last)) {
                    Some((end, _)) => keyword(&part[index..end]).is_some(),
                    None => number == last_part && keyword(&part[index..]).is_some(),
                }
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

/// Writes a quoted text.
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
