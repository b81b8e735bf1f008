//! Ends of sentences and words, by the rules of Java's break iterators.
//!
//! Unicode's rules (UAX #29) would end a sentence at every line break and split `user-name` and `100%` in two;
//! fragments would then differ from Elasticsearch's for most log lines. These few rules agree with Elasticsearch in
//! all compared cases.

/// Returns the ends of the sentences of `chars[start..end]`, ascending; the last one is `end`.
pub(super) fn sentences(chars: &[char], start: usize, end: usize) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = start;
    while at < end {
        let next = match chars[at] {
            '\u{2029}' => Some(at + 1),
            '.' | '\u{ff0e}' => after_full_stop(chars, at, end),
            character if ends_always(character) => Some(after_end(chars, at, end)),
            _ => None,
        };
        match next {
            Some(next) if next < end => {
                ends.push(next);
                at = next;
            }
            // The other marks of a run have the same successor, so none of them ends a sentence either.
            _ => match chars[at] {
                '.' | '\u{ff0e}' => at = past(chars, at, end, |mark| mark == '.' || mark == '\u{ff0e}'),
                character if ends_always(character) => {
                    at = past(chars, at, end, |mark| ends_always(mark) || mark == '.');
                }
                _ => at += 1,
            },
        }
    }
    ends.push(end);
    ends
}

fn ends_always(character: char) -> bool {
    matches!(character, '!' | '?' | '\u{3002}' | '\u{ff01}' | '\u{ff1f}')
}

fn closes(character: char) -> bool {
    matches!(
        character,
        '"' | '\'' | ')' | ']' | '}' | '\u{bb}' | '\u{2019}' | '\u{201d}' | '\u{203a}' | '\u{300d}' | '\u{300f}'
    )
}

fn opens(character: char) -> bool {
    matches!(
        character,
        '"' | '\'' | '(' | '[' | '{' | '\u{ab}' | '\u{2018}' | '\u{201c}' | '\u{2039}' | '\u{300c}' | '\u{300e}'
    )
}

/// Skips characters for which `belongs` holds.
fn past(chars: &[char], mut at: usize, end: usize, belongs: impl Fn(char) -> bool) -> usize {
    while at < end && belongs(chars[at]) {
        at += 1;
    }
    at
}

/// Skips marks that always end a sentence, closing quotes and brackets, and spaces.
fn after_end(chars: &[char], at: usize, end: usize) -> usize {
    let marks = past(chars, at, end, |character| ends_always(character) || character == '.');
    let closed = past(chars, marks, end, closes);
    past(chars, closed, end, char::is_whitespace)
}

/// Returns the end of a sentence at a full stop: a space must follow, and then a character that may start a
/// sentence. That is no digit, and a lower-case letter only after more than one space.
fn after_full_stop(chars: &[char], at: usize, end: usize) -> Option<usize> {
    let marks = past(chars, at, end, |character| character == '.' || character == '\u{ff0e}');
    if chars
        .get(marks)
        .copied()
        .filter(|_| marks < end)
        .is_some_and(ends_always)
    {
        return Some(after_end(chars, marks, end));
    }
    let closed = past(chars, marks, end, closes);
    let spaces = past(chars, closed, end, char::is_whitespace);
    let next = *chars.get(spaces).filter(|_| spaces < end)?;
    let begins = if spaces > closed {
        let continues = next.is_lowercase() && spaces == closed + 1;
        opens(next) || !(continues || next.is_numeric() || next == '.')
    } else {
        closed > marks && next.is_alphabetic() && !next.is_lowercase()
    };
    begins.then_some(spaces)
}

/// Returns the ends of the words of `chars[start..end]` and of the gaps between them, ascending.
pub(super) fn words(chars: &[char], start: usize, end: usize) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = start;
    while at < end {
        at = after_word(chars, at, end);
        ends.push(at);
    }
    ends
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Letters, digits, combining marks and joiners.
    Word,
    Ideograph,
    Kana,
    Space,
    /// A segment of one character.
    Other,
}

fn kind(character: char) -> Kind {
    match character {
        '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' | '\u{f900}'..='\u{faff}' => Kind::Ideograph,
        '\u{3040}'..='\u{30ff}' => Kind::Kana,
        '\u{300}'..='\u{36f}' | '\u{200c}' | '\u{200d}' | '_' => Kind::Word,
        _ if character.is_alphanumeric() => Kind::Word,
        _ if character.is_whitespace() => Kind::Space,
        _ => Kind::Other,
    }
}

/// Returns whether a character joins two letters.
fn joins_letters(character: char) -> bool {
    matches!(
        character,
        '-' | '\u{ad}' | '\'' | '"' | '.' | '\u{2019}' | '\u{b7}' | '\u{2010}'..='\u{2015}' | '\u{2027}'
    )
}

/// Returns whether a character joins two digits.
fn joins_digits(character: char) -> bool {
    matches!(character, '.' | ',' | '-')
}

fn after_word(chars: &[char], at: usize, end: usize) -> usize {
    let is_digit = |place: usize| place < end && chars[place].is_numeric();
    let first = chars[at];
    match kind(first) {
        Kind::Word => {}
        Kind::Other if matches!(first, '$' | '£' | '€' | '¥' | '#') && is_digit(at + 1) => {}
        Kind::Other => return at + 1,
        run => return past(chars, at, end, |character| kind(character) == run),
    }
    let mut at = at + 1;
    while at < end {
        let character = chars[at];
        let joined = match kind(character) {
            Kind::Word => true,
            Kind::Other => {
                let (before, after) = (chars[at - 1], chars.get(at + 1).copied().filter(|_| at + 1 < end));
                let letters = before.is_alphabetic() && after.is_some_and(char::is_alphabetic);
                let digits = before.is_numeric() && after.is_some_and(char::is_numeric);
                let percent = matches!(character, '%' | '¢' | '°' | '‰') && before.is_numeric();
                percent || letters && joins_letters(character) || digits && joins_digits(character)
            }
            Kind::Ideograph | Kind::Kana | Kind::Space => false,
        };
        if !joined {
            break;
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(find: fn(&[char], usize, usize) -> Vec<usize>, text: &str) {
        let plain: Vec<char> = text.chars().filter(|character| *character != '|').collect();
        let mut shown = String::new();
        let mut start = 0;
        for end in find(&plain, 0, plain.len()) {
            shown.extend(&plain[start..end]);
            shown.push('|');
            start = end;
        }
        assert_eq!(shown, text);
    }

    /// The answers of OpenSearch 3.6 for these texts, sentence by sentence.
    #[test]
    fn sentence_ends() {
        for text in [
            "x one. 3 x two|",
            "x one.\"|X two|",
            "x one. |\"x two\" X|",
            "x one\nx two\n\nX three x|",
            "x one; x: x|",
            "x 1.X x|",
            "x one… X two|",
            "x (one.) |X two|",
            "x one.) x two|",
            "x one!|x two|",
            "x one?! |x two|",
            "U.S. x X. |Ü x|",
            "x\u{2029}|x|",
            "x one.\n|X two|",
            "x one.\t|X|",
            "x。|x|",
            "x one. |(x) two|",
            "x one. |_x_ x|",
            "x one. |'x|",
            "x.) |(X x|",
            "x! |x? |x.|",
            "x one.\nx two|",
            "x one.\r\n|x two|",
            "x one.\n\n|x two|",
            "x one.\n\n3 x|",
            "x one.- x|",
            "x one! |\"x|",
            "x. é x|",
            "x. |É x|",
            "x!!! |... x|",
            "x. . |X|",
        ] {
            check(sentences, text);
        }
    }

    #[test]
    fn runs_of_marks_are_read_once() {
        let started = std::time::Instant::now();
        for mark in ['.', '!'] {
            let text: Vec<char> = std::iter::repeat_n(mark, 500_000).collect();
            assert_eq!(sentences(&text, 0, text.len()), [text.len()]);
        }
        assert!(
            started.elapsed() < std::time::Duration::from_secs(20),
            "{:?}",
            started.elapsed()
        );
    }

    #[test]
    fn word_ends() {
        for text in [
            "ab-cd| |ef|",
            "don't| |x|",
            "a.b| |c|",
            "3.14| |x|",
            "a|  |b|",
            "foo_bar| |x|",
            "user|@|host| |x|",
            "a|,| |b|",
            "10|:|20|:|30|",
            "x|/|y|",
            "a|-|-|b|",
            "日本語| |x|",
            "カタカナ| |x|",
            "1,234| |x|",
            "$5| |x|",
            "5%| |x|",
        ] {
            check(words, text);
        }
    }
}
