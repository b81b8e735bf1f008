//! Expansion of a pattern or a fuzzy word into terms, as a query in which each term scores.

use std::cmp::Reverse;

use firn_model::{Error, Result};
use firn_query::query::{REWRITE_TERMS_MAX, Rewrite};

use super::super::weight::Compiled;
use super::nearest_terms::Nearest;
use super::term::{self, TermsOf};
use crate::compile::Compiler;
use crate::highlight::highlight_terms::HighlightTerm;

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
