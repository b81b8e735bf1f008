//! Lexer of scripts.

/// Token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Int(i64),
    Float(f64),
    Text(String),
    /// Expression between slashes, and its flags.
    Regex(String, String),
    Name(String),
    Symbol(&'static str),
    End,
}

/// Longer symbols first.
const SYMBOLS: &[&str] = &[
    "===", "!==", "==~", "&&", "||", "==", "!=", "<=", ">=", "=~", "?:", "?.", "++", "--", "+=", "-=", "*=", "/=",
    "%=", "->", "::", "(", ")", "[", "]", "{", "}", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ",", ";", ".",
    "=", "&", "|", "^", "~", "@", "$",
];

/// Returns all tokens with their offsets, or the offset and text of the first mistake.
pub(super) fn tokens(source: &str) -> Result<Vec<(usize, Token)>, (usize, String)> {
    let mut tokens: Vec<(usize, Token)> = Vec::new();
    let mut at = 0;
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        // After a value, `/` divides and `.1` is an element.
        let after_value = match tokens.last() {
            Some((_, Token::Symbol(symbol))) => matches!(*symbol, ")" | "]" | "}"),
            Some((_, Token::Name(name))) => !matches!(name.as_str(), "return" | "in" | "instanceof" | "else"),
            Some(_) => true,
            None => false,
        };
        let length = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").ok_or_else(|| (at, "unterminated comment".to_owned()))?;
            at += end + 2;
            continue;
        } else if first.is_ascii_digit()
            || (first == '.' && !after_value && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            let is_element = matches!(tokens.last(), Some((_, Token::Symbol("." | "?."))));
            let (token, length) = number(rest, is_element).ok_or_else(|| (at, "invalid number".to_owned()))?;
            tokens.push((at, token));
            length
        } else if first.is_ascii_alphabetic() || first == '_' {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            tokens.push((at, Token::Name(rest[..length].to_owned())));
            length
        } else if first == '\'' || first == '"' {
            let (text, length) = text(rest, first).ok_or_else(|| (at, "unterminated string".to_owned()))?;
            tokens.push((at, Token::Text(text)));
            length
        } else if first == '/' && !after_value {
            let (token, length) = regex(rest).ok_or_else(|| (at, "unterminated regular expression".to_owned()))?;
            tokens.push((at, token));
            length
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            tokens.push((at, Token::Symbol(symbol)));
            symbol.len()
        } else {
            return Err((at, format!("unexpected character [{first}].")));
        };
        at += length;
    }
    tokens.push((source.len(), Token::End));
    Ok(tokens)
}

/// Reads `1`, `0x1f`, `1.5`, `.5`, `1e3`, with Java's suffixes `L`, `f`, `d`.
fn number(text: &str, is_element: bool) -> Option<(Token, usize)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let length = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        let suffix = usize::from(hex[length..].starts_with(['l', 'L']));
        return Some((
            Token::Int(i64::from_str_radix(&hex[..length], 16).ok()?),
            2 + length + suffix,
        ));
    }
    let mut length = digits(text);
    let mut is_float = false;
    let after = &text[length..];
    if !is_element && after.starts_with('.') && after[1..].starts_with(|c: char| c.is_ascii_digit()) {
        is_float = true;
        length += 1 + digits(&after[1..]);
    }
    let exponent = &text[length..];
    if exponent.starts_with(['e', 'E']) {
        let sign = usize::from(exponent[1..].starts_with(['+', '-']));
        let count = digits(&exponent[1 + sign..]);
        if count > 0 {
            is_float = true;
            length += 1 + sign + count;
        }
    }
    let suffix = text[length..].chars().next();
    let is_float = is_float || matches!(suffix, Some('f' | 'F' | 'd' | 'D'));
    let suffix = usize::from(matches!(suffix, Some('f' | 'F' | 'd' | 'D' | 'l' | 'L')));
    let token = match is_float {
        true => Token::Float(text[..length].parse().ok()?),
        false => Token::Int(text[..length].parse().ok()?),
    };
    Some((token, length + suffix))
}

fn text(rest: &str, quote: char) -> Option<(String, usize)> {
    let mut out = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Some((out, at + 1)),
            '\\' => match chars.next()?.1 {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                other => out.push(other),
            },
            other => out.push(other),
        }
    }
    None
}

fn regex(rest: &str) -> Option<(Token, usize)> {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => return None,
            '/' if !escaped => {
                let flags: String = rest[at + 1..].chars().take_while(char::is_ascii_alphabetic).collect();
                let length = at + 1 + flags.len();
                // A slash is escaped for the lexer only.
                return Some((Token::Regex(rest[1..at].replace("\\/", "/"), flags), length));
            }
            _ => escaped = c == '\\' && !escaped,
        }
    }
    None
}
