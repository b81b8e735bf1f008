//! Nearest terms of a dictionary to a pattern or a fuzzy word.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use firn_model::Result;

/// The nearest terms so far, at most `limit`; ties go to the first by bytes. The order does not depend on term
/// frequencies, so a rejected term stays rejected.
pub(crate) struct Nearest {
    limit: usize,
    pub(crate) terms: BTreeSet<(Reverse<u32>, String)>,
}

impl Nearest {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            terms: BTreeSet::new(),
        }
    }

    /// Adds a term if `counts` returns true, which is called only for terms that are near enough; `similarity` is
    /// from 0 to 1. Returns false if the term is not near enough.
    pub(crate) fn add(&mut self, term: &[u8], similarity: f32, counts: impl FnOnce() -> Result<bool>) -> Result<bool> {
        // Non-negative floats have the same order as their bits.
        let rank = Reverse(similarity.max(0.0).to_bits());
        let Ok(term) = std::str::from_utf8(term) else {
            return Ok(true);
        };
        if self.terms.len() >= self.limit {
            match self.terms.last() {
                Some((worst, last)) if (rank, term) <= (*worst, last.as_str()) => {}
                _ => return Ok(false),
            }
        }
        let term = (rank, term.to_owned());
        if !self.terms.contains(&term) && counts()? {
            self.terms.insert(term);
            if self.terms.len() > self.limit {
                self.terms.pop_last();
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::Nearest;

    #[test]
    fn the_nearest_terms_stay() {
        let mut nearest = Nearest::new(2);
        let found = [("b", 0.5), ("d", 1.0), ("a", 0.5), ("b", 0.5), ("c", 0.25), ("a", 0.5)];
        let taken = found.map(|(term, similarity)| nearest.add(term.as_bytes(), similarity, || Ok(true)).unwrap());
        let retained: Vec<&str> = nearest.terms.iter().map(|(_, term)| term.as_str()).collect();
        assert_eq!(retained, ["d", "a"]);
        assert_eq!(taken, [true, true, true, false, false, true]);
    }

    #[test]
    fn a_term_that_does_not_count_takes_no_place() {
        let mut nearest = Nearest::new(1);
        for (term, counts) in [("a", false), ("c", true), ("b", true), ("b", false)] {
            nearest.add(term.as_bytes(), 1.0, || Ok(counts)).unwrap();
        }
        assert_eq!(nearest.terms.first().map(|(_, term)| term.as_str()), Some("b"));
        assert_eq!(nearest.terms.len(), 1);
    }
}
