//! Words, phrases and patterns.

use regex::Regex;

/// Returns the words of a text, lower-cased. Generated texts consist of letters, digits, spaces and commas, and numbers
/// such as `2.5`, for which the standard analyzer does the same.
pub(crate) fn words(text: &str) -> Vec<String> {
    let is_decimal = text.parse::<f64>().is_ok() && text.contains('.');
    let is_part = |letter: char| letter.is_alphanumeric() || is_decimal && letter == '.';
    let parts = text.split(|letter: char| !is_part(letter));
    parts.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Returns whether `phrase` occurs in `words` with at most `slop` moves: Lucene's sloppy phrase. Tries every placement
/// of the phrase's words at distinct positions.
pub(crate) fn has_phrase(words: &[String], phrase: &[String], slop: i64) -> bool {
    fn place(words: &[String], phrase: &[String], slop: i64, taken: &mut Vec<usize>) -> bool {
        let Some(next) = phrase.get(taken.len()) else {
            let shifts = || {
                taken
                    .iter()
                    .enumerate()
                    .map(|(index, position)| *position as i64 - index as i64)
            };
            return shifts().max().unwrap_or(0) - shifts().min().unwrap_or(0) <= slop;
        };
        for (position, word) in words.iter().enumerate() {
            if word == next && !taken.contains(&position) {
                taken.push(position);
                if place(words, phrase, slop, taken) {
                    return true;
                }
                taken.pop();
            }
        }
        false
    }
    !phrase.is_empty() && place(words, phrase, slop, &mut Vec::new())
}

/// Converts a pattern with `*` and `?`; `\` escapes the next character.
pub(crate) fn wildcard(pattern: &str, ignore_case: bool) -> Regex {
    let mut regex = String::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '\\' => regex.push_str(&regex::escape(&letters.next().map(String::from).unwrap_or_default())),
            letter => regex.push_str(&regex::escape(&letter.to_string())),
        }
    }
    whole(&regex, ignore_case)
}

/// Compiles a regular expression for the whole text. Generated expressions use only syntax that Lucene and this engine
/// share.
pub(crate) fn whole(regex: &str, ignore_case: bool) -> Regex {
    let flags = if ignore_case { "(?is)" } else { "(?s)" };
    Regex::new(&format!("{flags}^(?:{regex})$")).expect("the generator makes valid patterns")
}

/// Returns the number of insertions, deletions, substitutions and transpositions between two words (optimal string
/// alignment, as in Lucene's automata).
pub(crate) fn distance(left: &str, right: &str, swaps: bool) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut table = vec![vec![0; right.len() + 1]; left.len() + 1];
    for row in 0..=left.len() {
        for column in 0..=right.len() {
            table[row][column] = if row == 0 || column == 0 {
                row + column
            } else {
                let change = usize::from(left[row - 1] != right[column - 1]);
                let mut best = (table[row - 1][column - 1] + change)
                    .min(table[row - 1][column] + 1)
                    .min(table[row][column - 1] + 1);
                let swapped =
                    row > 1 && column > 1 && left[row - 1] == right[column - 2] && left[row - 2] == right[column - 1];
                if swaps && swapped {
                    best = best.min(table[row - 2][column - 2] + 1);
                }
                best
            };
        }
    }
    table[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases() {
        let text = words("the quick brown fox, the lazy dog");
        let check =
            |phrase: &str, slop, expected| assert_eq!(has_phrase(&text, &words(phrase), slop), expected, "{phrase}");
        check("quick brown", 0, true);
        check("brown quick", 0, false);
        check("brown quick", 1, false);
        check("brown quick", 2, true);
        check("quick fox", 1, true);
        check("the the", 0, false);
        check("the the", 3, true);
        check("fox fox", 9, false);
    }

    #[test]
    fn patterns_and_distances() {
        assert!(wildcard("a*c?", false).is_match("abbcd"));
        assert!(!wildcard("a*c?", false).is_match("abbc"));
        assert!(wildcard("A\\*", true).is_match("a*"));
        assert_eq!(distance("abcd", "acbd", true), 1);
        assert_eq!(distance("abcd", "acbd", false), 2);
        assert_eq!(distance("", "ab", true), 2);
    }
}
