//! Texts of which each match of a regular expression contains one.

use regex_syntax::hir::{Class, Hir, HirKind};

/// Most texts that one expression is looked for by.
const LITERALS_MAX: usize = 64;

/// Returns texts in lower case of which each match contains at least one, in any case of letters; `None` if there are none. Of several
/// possible sets the one whose shortest text is longest.
pub(super) fn required_literals(expression: &str) -> Option<Vec<String>> {
    let hir = regex_syntax::parse(expression).ok()?;
    required(&hir).filter(|literals| literals.iter().all(|literal| !literal.is_empty()))
}

fn required(hir: &Hir) -> Option<Vec<String>> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(vec![lower(str::from_utf8(&literal.0).ok()?)]),
        HirKind::Class(class) => letter(class).map(|letter| vec![letter.to_string()]),
        HirKind::Capture(capture) => required(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required(&repetition.sub),
        HirKind::Alternation(branches) => {
            let mut all = Vec::new();
            for branch in branches {
                all.extend(required(branch)?);
            }
            all.sort_unstable();
            all.dedup();
            (all.len() <= LITERALS_MAX).then_some(all)
        }
        HirKind::Concat(parts) => {
            let mut best: Option<Vec<String>> = None;
            let mut run = String::new();
            let mut offer = |candidate: Vec<String>| {
                if shortest(&candidate) > best.as_ref().map_or(0, |best| shortest(best)) {
                    best = Some(candidate);
                }
            };
            for part in parts {
                match part.kind() {
                    HirKind::Literal(literal) => match str::from_utf8(&literal.0) {
                        Ok(text) => run.push_str(&lower(text)),
                        Err(_) => offer(vec![std::mem::take(&mut run)]),
                    },
                    HirKind::Class(class) if letter(class).is_some() => run.extend(letter(class)),
                    // Takes no place in the text.
                    HirKind::Look(_) | HirKind::Empty => {}
                    _ => {
                        offer(vec![std::mem::take(&mut run)]);
                        required(part).into_iter().for_each(&mut offer);
                    }
                }
            }
            offer(vec![run]);
            best
        }
        _ => None,
    }
}

fn shortest(literals: &[String]) -> usize {
    literals.iter().map(String::len).min().unwrap_or(0)
}

fn lower(text: &str) -> String {
    crate::glob::lower_case(text)
}

/// Returns the letter, in lower case, of a class that is one letter in all its cases.
fn letter(class: &Class) -> Option<char> {
    let Class::Unicode(class) = class else {
        return None;
    };
    let ranges = class.ranges().iter();
    if ranges.clone().any(|range| range.start() != range.end()) {
        return None;
    }
    let mut letters = ranges.map(|range| lower(range.start().encode_utf8(&mut [0; 4])));
    let first = letters.next()?;
    let mut characters = first.chars();
    let letter = characters.next()?;
    (characters.next().is_none() && letters.all(|other| other == first)).then_some(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_match_contains_one() {
        for (expression, expected) in [
            ("abc", Some(vec!["abc"])),
            ("(?i)abc", Some(vec!["abc"])),
            ("a.*LONGER", Some(vec!["longer"])),
            ("foo|bar+", Some(vec!["ba", "foo"])),
            ("(?:foo|barbar)x?", Some(vec!["barbar", "foo"])),
            ("x(?:foo|ba)longest", Some(vec!["longest"])),
            ("[a-z]+", None),
            ("a*", None),
            ("foo|.*", None),
            (r"\bcmd\.exe$", Some(vec!["cmd.exe"])),
            (r"(?:ab){2,}", Some(vec!["abab"])),
        ] {
            let found = required_literals(expression);
            // A repetition may be unrolled or not.
            match expected {
                Some(expected) if expression.contains("{2,}") => {
                    assert!(
                        found.is_some_and(|found| expected[0].contains(&found[0])),
                        "{expression}"
                    );
                }
                expected => assert_eq!(
                    found,
                    expected.map(|all| all.into_iter().map(str::to_owned).collect::<Vec<_>>()),
                    "{expression}"
                ),
            }
        }
    }
}
