//! Translator from Lucene's regular expressions to those of the regex crate.
//!
//! Most of the syntax is the same. Lucene adds `"literal"`, `@` (any string), `#` (none), `<1-20>` (numbers), `~`
//! (not) and `&` (and). The last two have no equivalent within one expression of the regex crate: they are
//! supported on whole terms and rejected elsewhere. Grammar: the class comment of Lucene's `RegExp`.

use firn_model::{Error, ErrorKind, Result};
use firn_query::query::RegexpFlags;

/// Greatest nesting depth of parentheses.
const DEPTH_MAX: usize = 100;

/// A condition on whole terms.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Expression {
    /// An expression of the regex crate, not anchored.
    Regex(String),
    /// `a|b`, if not both are plain expressions.
    Any(Vec<Expression>),
    /// `a&b`.
    All(Vec<Expression>),
    /// `~a`.
    Not(Box<Expression>),
}

/// Translates an expression. With `ignore_case`, ASCII letters match in either case, except in ranges in brackets,
/// as in Lucene.
pub(super) fn translate(text: &str, flags: RegexpFlags, ignore_case: bool) -> Result<Expression> {
    let mut parser = Parser {
        letters: text.chars().collect(),
        position: 0,
        flags,
        ignore_case,
        depth: 0,
    };
    if parser.letters.is_empty() {
        return Ok(Expression::Regex(String::new()));
    }
    let expression = parser.union()?;
    match parser.peek() {
        None => Ok(expression),
        Some(_) => Err(parser.error("end-of-string expected")),
    }
}

/// Returns a literal prefix of every match, if the expression shows one directly.
pub(super) fn literal_start(text: &str, flags: RegexpFlags) -> String {
    let mut start = String::new();
    let mut letters = text.chars();
    loop {
        match letters.next() {
            // Another alternative may start differently.
            Some('|') => return String::new(),
            Some('&') if flags.intersection() => return String::new(),
            Some('?' | '*' | '+' | '{') => {
                start.pop();
                break;
            }
            None | Some('.' | '[' | '(' | '"' | '\\' | '#' | '@' | '<' | '~' | '^' | '$' | ')' | ']' | '}') => break,
            Some(letter) => start.push(letter),
        }
    }
    if letters.any(|letter| matches!(letter, '|' | '&')) {
        return String::new();
    }
    start
}

/// Appends a literal for the regex crate.
pub(super) fn push_literal(out: &mut String, literal: char, ignore_case: bool) {
    if ignore_case && literal.is_ascii_alphabetic() {
        out.push('[');
        out.push(literal.to_ascii_lowercase());
        out.push(literal.to_ascii_uppercase());
        out.push(']');
    } else {
        out.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4])));
    }
}

struct Parser {
    letters: Vec<char>,
    position: usize,
    flags: RegexpFlags,
    ignore_case: bool,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.letters.get(self.position).copied()
    }

    fn next(&mut self) -> Result<char> {
        let letter = self.peek().ok_or_else(|| self.error("unexpected end-of-string"))?;
        self.position += 1;
        Ok(letter)
    }

    fn take(&mut self, letter: char) -> bool {
        let found = self.peek() == Some(letter);
        self.position += usize::from(found);
        found
    }

    fn error(&self, what: &str) -> Error {
        Error::new(
            ErrorKind::QueryShard,
            format!("failed to create query: {what} at position {}", self.position),
        )
    }

    fn union(&mut self) -> Result<Expression> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error("parentheses nested too deep"));
        }
        let mut parts = vec![self.intersection()?];
        while self.take('|') {
            parts.push(self.intersection()?);
        }
        self.depth -= 1;
        if parts.len() == 1 {
            return Ok(parts.remove(0));
        }
        let texts: Option<Vec<&str>> = parts.iter().map(Expression::regex).collect();
        match texts {
            Some(texts) => Ok(Expression::Regex(format!("(?:{})", texts.join("|")))),
            None => Ok(Expression::Any(parts)),
        }
    }

    fn intersection(&mut self) -> Result<Expression> {
        let mut parts = vec![self.concatenation()?];
        while self.flags.intersection() && self.take('&') {
            parts.push(self.concatenation()?);
        }
        if parts.len() == 1 {
            return Ok(parts.remove(0));
        }
        Ok(Expression::All(parts))
    }

    fn concatenation(&mut self) -> Result<Expression> {
        let mut whole = self.repetition()?;
        loop {
            match self.peek() {
                None | Some(')' | '|') => return Ok(whole),
                Some('&') if self.flags.intersection() => return Ok(whole),
                _ => {}
            }
            let next = self.repetition()?;
            whole = Expression::Regex(whole.in_expression()? + &next.in_expression()?);
        }
    }

    fn repetition(&mut self) -> Result<Expression> {
        let mut expression = self.complement()?;
        loop {
            let times = match self.peek() {
                Some(letter @ ('?' | '*' | '+')) => {
                    self.position += 1;
                    letter.to_string()
                }
                Some('{') => {
                    self.position += 1;
                    self.times()?
                }
                _ => return Ok(expression),
            };
            expression = Expression::Regex(format!("(?:{}){times}", expression.in_expression()?));
        }
    }

    /// Parses the part after `{`.
    fn times(&mut self) -> Result<String> {
        let least = self.number()?.ok_or_else(|| self.error("integer expected"))?;
        let times = if self.take(',') {
            match self.number()? {
                Some(most) if most < least => return Err(self.error("repetitions out of order")),
                Some(most) => format!("{{{least},{most}}}"),
                None => format!("{{{least},}}"),
            }
        } else {
            format!("{{{least}}}")
        };
        match self.take('}') {
            true => Ok(times),
            false => Err(self.error("expected '}'")),
        }
    }

    fn number(&mut self) -> Result<Option<u32>> {
        let start = self.position;
        while self.peek().is_some_and(|letter| letter.is_ascii_digit()) {
            self.position += 1;
        }
        let digits: String = self.letters[start..self.position].iter().collect();
        match digits.is_empty() {
            true => Ok(None),
            false => digits.parse().map(Some).map_err(|_| self.error("number too large")),
        }
    }

    fn complement(&mut self) -> Result<Expression> {
        let mut is_negated = false;
        while self.flags.complement() && self.take('~') {
            is_negated = !is_negated;
        }
        let expression = self.simple()?;
        Ok(match is_negated {
            true => Expression::Not(Box::new(expression)),
            false => expression,
        })
    }

    fn simple(&mut self) -> Result<Expression> {
        let mut out = String::new();
        match self.next()? {
            '.' => out.push_str("(?s:.)"),
            '#' if self.flags.empty() => out.push_str("[^\\x00-\\x{10FFFF}]"),
            '@' if self.flags.any_string() => out.push_str("(?s:.*)"),
            '"' => loop {
                match self.next()? {
                    '"' => break,
                    literal => push_literal(&mut out, literal, self.ignore_case),
                }
            },
            '(' if self.take(')') => {}
            '(' => {
                let inside = self.union()?;
                if !self.take(')') {
                    return Err(self.error("expected ')'"));
                }
                return Ok(inside);
            }
            '<' if self.flags.interval() => out = self.interval()?,
            '[' => out = self.class()?,
            '\\' => match self.next()? {
                class if is_class(class) => out = class_text(class),
                literal => push_literal(&mut out, literal, self.ignore_case),
            },
            letter @ ('?' | '*' | '+' | '{' | ')' | '|') => {
                return Err(self.error(&format!("unexpected [{letter}]")));
            }
            literal => push_literal(&mut out, literal, self.ignore_case),
        }
        Ok(Expression::Regex(out))
    }

    /// Parses the part after `[`.
    fn class(&mut self) -> Result<String> {
        let mut out = String::from("[");
        if self.take('^') {
            out.push('^');
        }
        let mut is_empty = true;
        while is_empty || self.peek() != Some(']') {
            is_empty = false;
            let letter = match self.next()? {
                '\\' => match self.next()? {
                    class if is_class(class) => {
                        out.push_str(&class_text(class));
                        continue;
                    }
                    literal => literal,
                },
                literal => literal,
            };
            if self.peek() == Some('-') && self.letters.get(self.position + 1).is_some_and(|next| *next != ']') {
                self.position += 1;
                let last = match self.next()? {
                    '\\' => self.next()?,
                    last => last,
                };
                if last < letter {
                    return Err(self.error("range out of order"));
                }
                push_literal(&mut out, letter, false);
                out.push('-');
                push_literal(&mut out, last, false);
                continue;
            }
            // Brackets within brackets are a union, so a letter in either case is written as outside of brackets.
            push_literal(&mut out, letter, self.ignore_case);
        }
        self.position += 1;
        out.push(']');
        Ok(out)
    }

    /// Parses the part after `<`: numbers between two, both included.
    fn interval(&mut self) -> Result<String> {
        let start = self.position;
        while self.next()? != '>' {}
        let inside: String = self.letters[start..self.position - 1].iter().collect();
        let digits = |text: &str| !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
        match inside.split_once('-') {
            Some((first, last)) if digits(first) && digits(last) => {
                let same_length = first.len() == last.len();
                let as_number = |text: &str| text.parse::<u32>().unwrap_or_default();
                let (first, last) = (as_number(first), as_number(last));
                let (first, last) = (first.min(last), first.max(last));
                Ok(match same_length {
                    true => fixed(&inside, first, last),
                    false => format!("0*(?:{})", by_length(first, last).join("|")),
                })
            }
            Some(_) => Err(self.error("interval syntax error")),
            None => Err(Error::not_implemented(format!(
                "the named automaton [<{inside}>] of regexp"
            ))),
        }
    }
}

impl Expression {
    fn regex(&self) -> Option<&str> {
        match self {
            Self::Regex(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the text of a part within an expression.
    fn in_expression(self) -> Result<String> {
        match self {
            Self::Regex(text) => Ok(text),
            Self::Not(_) => Err(Error::not_implemented("the regexp operator [~] on a part of a term")),
            Self::All(_) | Self::Any(_) => Err(Error::not_implemented("the regexp operator [&] on a part of a term")),
        }
    }
}

fn is_class(letter: char) -> bool {
    matches!(letter, 'd' | 'D' | 's' | 'S' | 'w' | 'W')
}

/// Returns a character class: Lucene's classes are ASCII; the negated ones match every other character.
fn class_text(class: char) -> String {
    match class {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => "[ \\t\\n\\r]",
        'S' => "[^ \\t\\n\\r]",
        'w' => "[0-9A-Za-z_]",
        _ => "[^0-9A-Za-z_]",
    }
    .to_owned()
}

/// Returns an expression for numbers that have as many digits as both bounds.
fn fixed(written: &str, first: u32, last: u32) -> String {
    let width = written.len() / 2;
    let (first, last) = (format!("{first:0width$}"), format!("{last:0width$}"));
    format!("(?:{})", between(first.as_bytes(), last.as_bytes()))
}

/// Returns expressions for numbers without leading zeros, one per length.
fn by_length(first: u32, last: u32) -> Vec<String> {
    let mut parts = Vec::new();
    let mut low = u64::from(first);
    let last = u64::from(last);
    loop {
        let length = low.to_string().len() as u32;
        let high = last.min(10u64.pow(length) - 1);
        parts.push(between(low.to_string().as_bytes(), high.to_string().as_bytes()));
        if high == last {
            return parts;
        }
        low = high + 1;
    }
}

/// Returns an expression for digits between two numbers of the same length.
fn between(first: &[u8], last: &[u8]) -> String {
    let (Some((&low, first_rest)), Some((&high, last_rest))) = (first.split_first(), last.split_first()) else {
        return String::new();
    };
    if low == high {
        return format!("{}{}", char::from(low), between(first_rest, last_rest));
    }
    let zeros = vec![b'0'; first_rest.len()];
    let nines = vec![b'9'; first_rest.len()];
    let mut parts = vec![format!("{}{}", char::from(low), between(first_rest, &nines))];
    if low + 1 < high {
        parts.push(format!(
            "[{}-{}][0-9]{{{}}}",
            char::from(low + 1),
            char::from(high - 1),
            first_rest.len()
        ));
    }
    parts.push(format!("{}{}", char::from(high), between(&zeros, last_rest)));
    format!("(?:{})", parts.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts() {
        let start = |text| literal_start(text, RegexpFlags::default());
        for (text, expected) in [
            ("web-[0-9]+", "web-"),
            ("web-1", "web-1"),
            ("ab*c", "a"),
            ("ab|c", ""),
            ("ab.*|c", ""),
            ("ab&a.*", ""),
            ("~ab", ""),
            (".*x", ""),
        ] {
            assert_eq!(start(text), expected, "{text}");
        }
    }

    #[test]
    fn intervals_match_their_numbers() {
        for (first, last) in [(0, 0), (1, 9), (7, 123), (99, 1000), (250, 260), (18, 18)] {
            let text = format!("^(?:0*(?:{}))$", by_length(first, last).join("|"));
            let regex = regex::Regex::new(&text).unwrap();
            for number in 0..1200 {
                let expected = (first..=last).contains(&number);
                assert_eq!(regex.is_match(&number.to_string()), expected, "{number} in {text}");
                assert_eq!(regex.is_match(&format!("00{number}")), expected, "00{number} in {text}");
            }
        }
    }
}
