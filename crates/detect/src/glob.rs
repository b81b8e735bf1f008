//! Patterns of texts: literals with wildcards.

/// A pattern that a whole text must match.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Case is ignored: the literals are in lower case, and so are the texts to be matched.
    pub ignore_case: bool,
    tokens: Vec<Token>,
}

/// Part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Token {
    /// This text.
    Literal(String),
    /// One character.
    AnyCharacter,
    /// Any number of characters.
    AnyText,
    /// One of the characters that Windows programs take for the dash before an option: `-`, `/`, and three dashes of Unicode.
    Dash,
}

/// What [`Token::Dash`] matches.
const DASHES: [char; 5] = ['-', '/', '\u{2013}', '\u{2014}', '\u{2015}'];

/// A pattern of one literal, by where it stands in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Simple<'p> {
    Equals(&'p str),
    StartsWith(&'p str),
    EndsWith(&'p str),
    Contains(&'p str),
}

impl Pattern {
    /// Creates a pattern. Neighbouring literals become one.
    pub fn new(tokens: impl IntoIterator<Item = Token>, ignore_case: bool) -> Self {
        let mut joined: Vec<Token> = Vec::new();
        for token in tokens {
            match (joined.last_mut(), token) {
                (_, Token::Literal(text)) if text.is_empty() => {}
                (Some(Token::Literal(last)), Token::Literal(text)) => last.push_str(&fold(&text, ignore_case)),
                (_, Token::Literal(text)) => joined.push(Token::Literal(fold(&text, ignore_case))),
                (Some(Token::AnyText), Token::AnyText) => {}
                (_, token) => joined.push(token),
            }
        }
        Self {
            ignore_case,
            tokens: joined,
        }
    }

    /// Returns the parts.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Returns the pattern as one literal, if it is one.
    pub(crate) fn simple(&self) -> Option<Simple<'_>> {
        match &self.tokens[..] {
            [] => Some(Simple::Equals("")),
            [Token::Literal(text)] => Some(Simple::Equals(text)),
            [Token::Literal(text), Token::AnyText] => Some(Simple::StartsWith(text)),
            [Token::AnyText, Token::Literal(text)] => Some(Simple::EndsWith(text)),
            [Token::AnyText, Token::Literal(text), Token::AnyText] => Some(Simple::Contains(text)),
            _ => None,
        }
    }

    /// Returns the patterns without [`Token::Dash`] of which a text matches one if it matches this one; `None`: there are more than
    /// `most`.
    pub(crate) fn without_dashes(&self, most: usize) -> Option<Vec<Self>> {
        let mut written_out = vec![Vec::new()];
        for token in &self.tokens {
            match token {
                Token::Dash => {
                    if written_out.len() * DASHES.len() > most {
                        return None;
                    }
                    let with_each = written_out.iter().flat_map(|tokens: &Vec<Token>| {
                        DASHES.iter().map(|dash| {
                            let mut tokens = tokens.clone();
                            tokens.push(Token::Literal(dash.to_string()));
                            tokens
                        })
                    });
                    written_out = with_each.collect();
                }
                token => written_out.iter_mut().for_each(|tokens| tokens.push(token.clone())),
            }
        }
        let patterns = written_out
            .into_iter()
            .map(|tokens| Self::new(tokens, self.ignore_case));
        Some(patterns.collect())
    }

    /// Returns the longest literal; each text that matches contains it.
    pub(crate) fn longest_literal(&self) -> Option<&str> {
        let literals = self.tokens.iter().filter_map(|token| match token {
            Token::Literal(text) => Some(text.as_str()),
            _ => None,
        });
        literals.max_by_key(|text| text.len())
    }

    /// Returns whether a text matches. If the pattern ignores case, `text` must be in lower case (`lower_case`).
    pub fn matches(&self, text: &str) -> bool {
        // The last `AnyText` that was met, and the text that it has not taken yet: it takes one more character when what follows
        // it does not fit.
        let mut again: Option<(usize, &str)> = None;
        let (mut place, mut rest) = (0, text);
        loop {
            let step = match self.tokens.get(place) {
                None if rest.is_empty() => return true,
                None => None,
                Some(Token::AnyText) => {
                    again = Some((place + 1, rest));
                    // What follows is looked for, instead of tried at each character.
                    if let Some(Token::Literal(literal)) = self.tokens.get(place + 1) {
                        match rest.find(literal.as_str()) {
                            Some(at) => {
                                again = Some((place + 1, &rest[at..]));
                                rest = &rest[at..];
                            }
                            None => return false,
                        }
                    }
                    Some(rest)
                }
                Some(Token::Literal(literal)) => rest.strip_prefix(literal.as_str()),
                Some(Token::AnyCharacter) => rest.chars().next().map(|first| &rest[first.len_utf8()..]),
                Some(Token::Dash) => rest.strip_prefix(DASHES),
            };
            match (step, again) {
                (Some(next), _) => {
                    place += 1;
                    rest = next;
                }
                (None, Some((after, taken))) => {
                    let Some(first) = taken.chars().next() else {
                        return false;
                    };
                    let taken = &taken[first.len_utf8()..];
                    again = Some((after, taken));
                    place = after;
                    rest = taken;
                    if let Some(Token::Literal(literal)) = self.tokens.get(after) {
                        match taken.find(literal.as_str()) {
                            Some(at) => {
                                again = Some((after, &taken[at..]));
                                rest = &taken[at..];
                            }
                            None => return false,
                        }
                    }
                }
                (None, None) => return false,
            }
        }
    }
}

fn fold(text: &str, ignore_case: bool) -> String {
    match ignore_case {
        true => lower_case(text),
        false => text.to_owned(),
    }
}

/// Returns a text in lower case, character by character, so that a part of a text becomes a part of its lower case.
pub(crate) fn lower_case(text: &str) -> String {
    let mut lower = String::with_capacity(text.len());
    push_lower_case(text, &mut lower);
    lower
}

/// Appends a text in lower case.
pub(crate) fn push_lower_case(text: &str, lower: &mut String) {
    if text.is_ascii() {
        let start = lower.len();
        lower.push_str(text);
        lower[start..].make_ascii_lowercase();
    } else {
        // The long s folds to `s` in Unicode, as regular expressions that ignore case have it.
        let folded = text.chars().map(|letter| if letter == 'ſ' { 's' } else { letter });
        lower.extend(folded.flat_map(char::to_lowercase));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        let tokens = text.chars().map(|character| match character {
            '*' => Token::AnyText,
            '?' => Token::AnyCharacter,
            '~' => Token::Dash,
            other => Token::Literal(other.to_string()),
        });
        Pattern::new(tokens, true)
    }

    #[test]
    fn patterns_match_whole_texts() {
        for (glob, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "a\nb", true),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*c", "abbc", true),
            ("a*c", "ac", true),
            ("a*c", "acb", false),
            ("*ab", "aab", true),
            ("*ab", "abab", true),
            ("*ab", "aba", false),
            ("a*b*c", "a-b-b-c", true),
            ("?", "é", true),
            ("?", "", false),
            ("a?c*", "abcabc", true),
            ("*a?c", "abbabc", true),
            ("*?*", "", false),
            ("* ~enc *", "x /enc y", true),
            ("* ~enc *", "x \u{2013}enc y", true),
            ("* ~enc *", "x +enc y", false),
            ("*aab*aab", "aaabaaab", true),
            ("*\\a?\\*", "c:\\ab\\ac\\d", true),
        ] {
            assert_eq!(pattern(glob).matches(text), expected, "{glob} on {text:?}");
        }
    }

    /// Matches by trying everything.
    fn naive(tokens: &[Token], text: &str) -> bool {
        let Some((first, rest)) = tokens.split_first() else {
            return text.is_empty();
        };
        let tail = |taken: usize| &text[taken..];
        match first {
            Token::Literal(literal) => text.starts_with(literal.as_str()) && naive(rest, tail(literal.len())),
            Token::AnyText => {
                let mut ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
                ends.any(|end| naive(rest, tail(end)))
            }
            Token::AnyCharacter => text.chars().next().is_some_and(|c| naive(rest, tail(c.len_utf8()))),
            Token::Dash => text
                .chars()
                .next()
                .is_some_and(|c| DASHES.contains(&c) && naive(rest, tail(c.len_utf8()))),
        }
    }

    #[test]
    fn random_patterns_match_as_by_trying_everything() {
        let seed = 20_261_129;
        let mut random = fastrand::Rng::with_seed(seed);
        let text = |alphabet: &[char], random: &mut fastrand::Rng| -> String {
            (0..random.usize(..9))
                .map(|_| alphabet[random.usize(..alphabet.len())])
                .collect()
        };
        let mut matches = 0;
        for _ in 0..20_000 {
            let glob = text(&['a', 'b', '*', '?', '~'], &mut random);
            let value = text(&['a', 'b', '-', 'é'], &mut random);
            let pattern = pattern(&glob);
            let expected = naive(pattern.tokens(), &value);
            matches += usize::from(expected);
            assert_eq!(pattern.matches(&value), expected, "seed {seed}: {glob} on {value}");
        }
        assert!(matches > 1000, "{matches} matches");
    }
}
