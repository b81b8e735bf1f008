//! Lexer of scripts.

use super::ast::Value;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'a> {
    Number(Value),
    /// Without its quotes.
    Text(&'a str),
    Name(&'a str),
    Symbol(&'static str),
    End,
}

impl Token<'_> {
    /// Returns the token as error messages show it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Number(Value::Int(value)) => value.to_string(),
            Self::Number(Value::Float(value)) => value.to_string(),
            Self::Number(_) => "number".to_owned(),
            Self::Text(text) => format!("'{text}'"),
            Self::Name(name) => (*name).to_owned(),
            Self::Symbol(symbol) => (*symbol).to_owned(),
            Self::End => "end of script".to_owned(),
        }
    }
}

/// Longer symbols first.
const SYMBOLS: &[&str] = &[
    "===", "!==", "&&", "||", "==", "!=", "<=", ">=", "?:", "?.", "(", ")", "[", "]", "{", "}", "<", ">", "+", "-",
    "*", "/", "%", "!", "?", ":", ",", ";", ".", "=",
];

/// Returns all tokens with their byte offsets; else the offset and reason of the first mistake.
pub(super) fn tokens(source: &str) -> Result<Vec<(u32, Token<'_>)>, (u32, String)> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(character) = source[at..].chars().next() {
        let rest = &source[at..];
        let start = at as u32;
        if character.is_whitespace() {
            at += character.len_utf8();
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            match rest.find("*/") {
                Some(end) => at += end + 2,
                None => return Err((start, "unterminated comment".to_owned())),
            }
        } else if character.is_ascii_digit()
            || (character == '.' && rest[1..].starts_with(|next: char| next.is_ascii_digit()))
        {
            let (value, length) = number(rest).ok_or_else(|| (start, "invalid number".to_owned()))?;
            tokens.push((start, Token::Number(value)));
            at += length;
        } else if character.is_ascii_alphabetic() || character == '_' {
            let is_part = |next: char| next.is_ascii_alphanumeric() || next == '_';
            let length = rest.find(|next: char| !is_part(next)).unwrap_or(rest.len());
            tokens.push((start, Token::Name(&rest[..length])));
            at += length;
        } else if character == '\'' || character == '"' {
            let Some(length) = rest[1..].find(character) else {
                return Err((start, "unterminated string".to_owned()));
            };
            tokens.push((start, Token::Text(&rest[1..=length])));
            at += length + 2;
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            tokens.push((start, Token::Symbol(symbol)));
            at += symbol.len();
        } else {
            return Err((start, format!("unexpected character [{character}].")));
        }
    }
    tokens.push((source.len() as u32, Token::End));
    Ok(tokens)
}

/// `1`, `1.5`, `.5`, `1e3`, with Java's suffixes `L`, `f`, `d`.
fn number(text: &str) -> Option<(Value, usize)> {
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let mut end = digits(0);
    let mut is_float = false;
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        is_float = true;
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            is_float = true;
            end = exponent;
        }
    }
    let digits_end = end;
    match bytes.get(end) {
        Some(b'f' | b'F' | b'd' | b'D') => {
            is_float = true;
            end += 1;
        }
        Some(b'l' | b'L') if !is_float => end += 1,
        _ => {}
    }
    // `1x` is neither a number nor a name.
    if bytes
        .get(end)
        .is_some_and(|next| next.is_ascii_alphanumeric() || *next == b'_')
    {
        return None;
    }
    let digits = &text[..digits_end];
    let value = if is_float {
        Value::Float(digits.parse().ok()?)
    } else {
        Value::Int(digits.parse().ok()?)
    };
    Some((value, end))
}
