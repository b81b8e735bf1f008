//! Which tokens of a text a query looks for.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::super::marks::{Mark, TermTest};
use super::text::{FieldText, Token};

/// What is looked for in one field.
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

/// A token that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    /// First character.
    pub(super) start: usize,
    /// After the last character.
    pub(super) end: usize,
    /// Matches of one thing that is looked for have the same.
    pub(super) term: usize,
}

impl Finder {
    pub(super) fn new(marks: impl Iterator<Item = Mark>) -> Self {
        let mut finder = Self::default();
        for mark in marks {
            match mark {
                Mark::Term(term) => drop(finder.terms.insert(term)),
                Mark::Test(test) => finder.tests.push(test),
                Mark::Phrase { terms, slop } => finder.phrases.push(Phrase {
                    terms,
                    slop: slop as usize,
                }),
            }
        }
        finder
    }

    /// Whether counts of matches matter to scores: Lucene counts only where it needs positions.
    pub(super) fn counts(&self) -> bool {
        !self.phrases.is_empty()
    }

    /// What each token of the text is found for, if for anything.
    pub(super) fn find(&self, text: &FieldText) -> Vec<Option<usize>> {
        let tokens = &text.tokens;
        let mut found = vec![None; tokens.len()];
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut number_of = |term| {
            let next = self.tests.len() + numbers.len();
            *numbers.entry(term).or_insert(next)
        };
        for (place, token) in tokens.iter().enumerate() {
            if self.terms.contains(&token.text) {
                found[place] = Some(number_of(token.text.as_str()));
            } else {
                found[place] = self.tests.iter().position(|test| test(&token.text));
            }
        }
        for phrase in &self.phrases {
            for place in phrase.find(tokens) {
                found[place].get_or_insert_with(|| number_of(tokens[place].text.as_str()));
            }
        }
        found
    }

    /// The found tokens, in order.
    pub(super) fn matches(&self, text: &FieldText) -> Vec<Match> {
        let found = self.find(text).into_iter().zip(&text.tokens);
        found
            .filter_map(|(term, token)| {
                Some(Match {
                    start: token.start,
                    end: token.end,
                    term: term?,
                })
            })
            .collect()
    }
}

impl Phrase {
    /// The tokens that are part of an occurrence.
    fn find(&self, tokens: &[Token]) -> HashSet<usize> {
        // Where each term stands: position and token, ascending.
        let mut places: HashMap<&str, Vec<(usize, usize)>> =
            self.terms.iter().map(|(_, term)| (term.as_str(), Vec::new())).collect();
        for (place, token) in tokens.iter().enumerate() {
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
            self.exact(&lists)
        } else {
            self.near(&lists)
        }
    }

    fn exact(&self, lists: &[&[(usize, usize)]]) -> HashSet<usize> {
        let mut found = HashSet::new();
        let (Some((first_offset, _)), Some(firsts)) = (self.terms.first(), lists.first()) else {
            return found;
        };
        for &(position, _) in *firsts {
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
        found
    }

    /// In any order, all within as many positions as there are terms, gaps of the phrase and moves.
    fn near(&self, lists: &[&[(usize, usize)]]) -> HashSet<usize> {
        let mut found = HashSet::new();
        let mut heads = vec![0; lists.len()];
        let first = self.terms.first().map_or(0, |(offset, _)| *offset);
        let last = self.terms.last().map_or(0, |(offset, _)| *offset);
        let width_max = (last - first).max(lists.len().saturating_sub(1)) + self.slop;
        loop {
            let current: Option<Vec<(usize, usize)>> = lists
                .iter()
                .zip(&heads)
                .map(|(list, &head)| list.get(head).copied())
                .collect();
            let Some(current) = current.filter(|current| !current.is_empty()) else {
                return found;
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

    use super::*;

    fn check(marks: Vec<Mark>, values: &[&str], expected: &str) {
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        let text = FieldText::new(&values, Analyzer::Standard, None);
        let found = Finder::new(marks.into_iter()).find(&text);
        let shown: Vec<&str> = found
            .iter()
            .zip(&text.tokens)
            .map(|(found, token)| if found.is_some() { token.text.as_str() } else { "-" })
            .collect();
        assert_eq!(shown.join(" "), expected);
    }

    fn phrase(terms: &[(usize, &str)], slop: u32) -> Mark {
        Mark::Phrase {
            terms: terms.iter().map(|(at, term)| (*at, (*term).to_owned())).collect(),
            slop,
        }
    }

    #[test]
    fn terms_and_tests() {
        check(
            vec![Mark::Term("fox".to_owned())],
            &["a Fox and a fox"],
            "- fox - - fox",
        );
        let test = Mark::Test(Arc::new(|term| term.starts_with('f')));
        check(vec![test], &["fo bar fix"], "fo - fix");
    }

    #[test]
    fn phrases() {
        let ab = || phrase(&[(0, "a"), (1, "b")], 0);
        check(vec![ab()], &["a b a x b"], "a b - - -");
        check(vec![ab()], &["a", "b"], "- -");
        check(vec![ab(), Mark::Term("x".to_owned())], &["b x a b"], "- x a b");
        check(vec![phrase(&[(3, "a"), (5, "b")], 0)], &["a b a x b"], "- - a - b");
        check(vec![phrase(&[(0, "a"), (1, "b")], 1)], &["a x b y y a"], "a - b - - -");
        check(vec![phrase(&[(0, "a"), (1, "b")], 1)], &["b a"], "b a");
    }
}
