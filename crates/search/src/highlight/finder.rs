//! Finder of the tokens of a text that a query looks for.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use firn_model::Result;

use super::text::{FieldText, Token};
use crate::compile::limits::Pace;
use crate::highlight::highlight_terms::{HighlightTerm, TermTest};

/// Cost of testing a token in addition to reading it, in steps of a [`Pace`].
const STEPS_OF_TEST: usize = 6;

/// The terms, tests and phrases of one field.
#[derive(Default)]
pub(super) struct Finder {
    terms: HashSet<String>,
    tests: Vec<Arc<TermTest>>,
    phrases: Vec<Phrase>,
}

struct Phrase {
    terms: Vec<(usize, String)>,
    slop: usize,
}

/// A matching token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    /// First character.
    pub(super) start: usize,
    /// After the last character.
    pub(super) end: usize,
    /// Matches of the same term or test have the same number.
    pub(super) term: usize,
}

impl Finder {
    pub(super) fn new(marks: impl Iterator<Item = HighlightTerm>) -> Self {
        let mut finder = Self::default();
        for mark in marks {
            match mark {
                HighlightTerm::Term(term) => drop(finder.terms.insert(term)),
                HighlightTerm::Test(test) => finder.tests.push(test),
                HighlightTerm::Phrase { terms, slop } => finder.phrases.push(Phrase {
                    terms,
                    slop: slop as usize,
                }),
            }
        }
        finder
    }

    /// Returns whether there is nothing to find.
    pub(super) fn is_empty(&self) -> bool {
        self.terms.is_empty() && self.tests.is_empty() && self.phrases.is_empty()
    }

    /// Returns whether match counts influence scores: Lucene counts only if it needs positions.
    pub(super) fn counts(&self) -> bool {
        !self.phrases.is_empty()
    }

    /// Returns for each token of the text the number of its term or test, if it matches.
    pub(super) fn find(&self, text: &FieldText, pace: &Pace) -> Result<Vec<Option<usize>>> {
        let tokens = &text.tokens;
        let mut found = vec![None; tokens.len()];
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut number_of = |term| {
            let next = self.tests.len() + numbers.len();
            *numbers.entry(term).or_insert(next)
        };
        for (place, token) in tokens.iter().enumerate() {
            pace.step(1)?;
            if self.terms.contains(&token.text) {
                found[place] = Some(number_of(token.text.as_str()));
            } else {
                for (number, test) in self.tests.iter().enumerate() {
                    pace.step(STEPS_OF_TEST + token.text.len())?;
                    if test(&token.text) {
                        found[place] = Some(number);
                        break;
                    }
                }
            }
        }
        for phrase in &self.phrases {
            for place in phrase.find(tokens, pace)? {
                found[place].get_or_insert_with(|| number_of(tokens[place].text.as_str()));
            }
        }
        Ok(found)
    }

    /// Returns the matching tokens, in order.
    pub(super) fn matches(&self, text: &FieldText, pace: &Pace) -> Result<Vec<Match>> {
        let found = self.find(text, pace)?.into_iter().zip(&text.tokens);
        let matches = found
            .filter_map(|(term, token)| {
                Some(Match {
                    start: token.start,
                    end: token.end,
                    term: term?,
                })
            })
            .collect();
        Ok(matches)
    }
}

impl Phrase {
    /// Returns the tokens that are part of an occurrence.
    fn find(&self, tokens: &[Token], pace: &Pace) -> Result<HashSet<usize>> {
        // Positions and tokens of each term, ascending.
        let mut places: HashMap<&str, Vec<(usize, usize)>> =
            self.terms.iter().map(|(_, term)| (term.as_str(), Vec::new())).collect();
        for (place, token) in tokens.iter().enumerate() {
            pace.step(1)?;
            if let Some(found) = places.get_mut(token.text.as_str()) {
                found.push((token.position, place));
            }
        }
        let lists: Vec<&[(usize, usize)]> = self
            .terms
            .iter()
            .map(|(_, term)| places[term.as_str()].as_slice())
            .collect();
        if self.slop == 0 {
            self.exact(&lists, pace)
        } else {
            self.near(&lists, pace)
        }
    }

    fn exact(&self, lists: &[&[(usize, usize)]], pace: &Pace) -> Result<HashSet<usize>> {
        let mut found = HashSet::new();
        let (Some((first_offset, _)), Some(firsts)) = (self.terms.first(), lists.first()) else {
            return Ok(found);
        };
        for &(position, _) in *firsts {
            pace.step(lists.len())?;
            let places: Option<Vec<usize>> = self
                .terms
                .iter()
                .zip(lists)
                .map(|((offset, _), list)| {
                    let wanted = position + offset - first_offset;
                    let at = list.binary_search_by_key(&wanted, |&(position, _)| position).ok()?;
                    Some(list[at].1)
                })
                .collect();
            found.extend(places.into_iter().flatten());
        }
        Ok(found)
    }

    /// Finds occurrences in any order, within a width of the terms, the gaps of the phrase and the moves.
    fn near(&self, lists: &[&[(usize, usize)]], pace: &Pace) -> Result<HashSet<usize>> {
        let mut found = HashSet::new();
        let mut heads = vec![0; lists.len()];
        let first = self.terms.first().map_or(0, |(offset, _)| *offset);
        let last = self.terms.last().map_or(0, |(offset, _)| *offset);
        let width_max = (last - first).max(lists.len().saturating_sub(1)) + self.slop;
        loop {
            pace.step(1 + lists.len())?;
            let current: Option<Vec<(usize, usize)>> = lists
                .iter()
                .zip(&heads)
                .map(|(list, &head)| list.get(head).copied())
                .collect();
            let Some(current) = current.filter(|current| !current.is_empty()) else {
                return Ok(found);
            };
            let mut earliest = 0;
            let mut end = 0;
            for (number, &(position, _)) in current.iter().enumerate() {
                end = end.max(position);
                if position < current[earliest].0 {
                    earliest = number;
                }
            }
            if end - current[earliest].0 <= width_max {
                found.extend(current.iter().map(|&(_, place)| place));
            }
            heads[earliest] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use firn_model::mapping::Analyzer;

    use super::super::unbounded;
    use super::*;

    fn check(marks: Vec<HighlightTerm>, values: &[&str], expected: &str) {
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        let stop = unbounded();
        let text = FieldText::new(&values, Analyzer::Standard, None, &stop.pace()).unwrap();
        let found = Finder::new(marks.into_iter()).find(&text, &stop.pace()).unwrap();
        let shown: Vec<&str> = found
            .iter()
            .zip(&text.tokens)
            .map(|(found, token)| if found.is_some() { token.text.as_str() } else { "-" })
            .collect();
        assert_eq!(shown.join(" "), expected);
    }

    fn phrase(terms: &[(usize, &str)], slop: u32) -> HighlightTerm {
        HighlightTerm::Phrase {
            terms: terms.iter().map(|(at, term)| (*at, (*term).to_owned())).collect(),
            slop,
        }
    }

    #[test]
    fn terms_and_tests() {
        check(
            vec![HighlightTerm::Term("fox".to_owned())],
            &["a Fox and a fox"],
            "- fox - - fox",
        );
        let test = HighlightTerm::Test(Arc::new(|term| term.starts_with('f')));
        check(vec![test], &["fo bar fix"], "fo - fix");
    }

    #[test]
    fn phrases() {
        let ab = || phrase(&[(0, "a"), (1, "b")], 0);
        check(vec![ab()], &["a b a x b"], "a b - - -");
        check(vec![ab()], &["a", "b"], "- -");
        check(vec![ab(), HighlightTerm::Term("x".to_owned())], &["b x a b"], "- x a b");
        check(vec![phrase(&[(3, "a"), (5, "b")], 0)], &["a b a x b"], "- - a - b");
        check(vec![phrase(&[(0, "a"), (1, "b")], 1)], &["a x b y y a"], "a - b - - -");
        check(vec![phrase(&[(0, "a"), (1, "b")], 1)], &["b a"], "b a");
    }
}
