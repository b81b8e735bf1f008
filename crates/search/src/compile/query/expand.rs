//! Expansion of a pattern or a fuzzy word into terms, as a query in which each term scores.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use firn_model::{Error, Result};
use firn_query::query::{REWRITE_TERMS_MAX, Rewrite};
use tantivy::schema::IndexRecordOption;

use super::super::weight::Compiled;
use super::term;
use crate::compile::Compiler;
use crate::highlight::highlight_terms::HighlightTerm;

/// The place of a field's terms.
pub(crate) struct TermsOf<'a> {
    pub(crate) field: tantivy::schema::Field,
    pub(crate) option: IndexRecordOption,
    pub(crate) path: &'a str,
}

/// The nearest terms so far, at most `limit`; ties go to the first by bytes. The order does not depend on term
/// frequencies, so a rejected term stays rejected.
pub(crate) struct Nearest {
    limit: usize,
    terms: BTreeSet<(Reverse<u32>, String)>,
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

/// Returns how many terms a rewrite collects.
pub(crate) fn limit(rewrite: Rewrite) -> usize {
    match rewrite {
        Rewrite::Constant => REWRITE_TERMS_MAX,
        // One more term shows that there are too many.
        Rewrite::Scoring => REWRITE_TERMS_MAX + 1,
        Rewrite::TopTerms(count) | Rewrite::TopTermsBoost(count) | Rewrite::TopTermsBlended(count) => count,
    }
}

/// Compiles to the documents with any of the terms, scored by `rewrite`.
pub(crate) fn scored(compiler: &Compiler, terms: &TermsOf<'_>, found: Nearest, rewrite: Rewrite) -> Result<Compiled> {
    let scoring = compiler.scoring();
    if rewrite == Rewrite::Scoring && found.terms.len() > REWRITE_TERMS_MAX {
        return Err(Error::illegal_argument(format!(
            "maxClauseCount is set to {REWRITE_TERMS_MAX}"
        )));
    }
    if !scoring || rewrite == Rewrite::Constant {
        for (_, term) in &found.terms {
            compiler.mark(terms.path, || HighlightTerm::Term(term.clone()));
        }
        let keys = found.terms.iter().map(|(_, term)| term.as_str());
        return Ok(term::any_term(compiler, terms.field, terms.path, keys).constant(1.0, scoring));
    }
    compiler.guard.take_clauses(found.terms.len())?;
    let mut doc_freq = None;
    if let (Rewrite::TopTermsBlended(_), Some(statistics)) = (rewrite, compiler.statistics) {
        let mut most = 0;
        for (_, term) in &found.terms {
            most = most.max(statistics.doc_freq_of(terms.field, terms.path, term)?);
        }
        doc_freq = Some(most);
    }
    let mut parts = Vec::with_capacity(found.terms.len());
    for (Reverse(bits), value) in &found.terms {
        let similarity = f32::from_bits(*bits);
        let part = term::scored(compiler, terms, value, doc_freq)?;
        parts.push(match rewrite {
            Rewrite::TopTermsBoost(_) => part.constant(similarity, scoring),
            _ => part.boost(similarity, scoring),
        });
    }
    Ok(Compiled::any(parts, scoring))
}

#[cfg(test)]
mod tests {
    use super::Nearest;

    #[test]
    fn the_nearest_terms_stay() {
        let mut nearest = Nearest::new(2);
        let found = [("b", 0.5), ("d", 1.0), ("a", 0.5), ("b", 0.5), ("c", 0.25), ("a", 0.5)];
        let taken = found.map(|(term, similarity)| nearest.add(term.as_bytes(), similarity, || Ok(true)).unwrap());
        let kept: Vec<&str> = nearest.terms.iter().map(|(_, term)| term.as_str()).collect();
        assert_eq!(kept, ["d", "a"]);
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
