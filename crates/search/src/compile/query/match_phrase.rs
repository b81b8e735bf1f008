//! Phrases: consecutive terms, the last of which may be a prefix.

use std::collections::BTreeSet;

use firn_model::Result;
use firn_model::mapping::Analyzer;
use firn_segment::columns::column::failed;
use firn_segment::columns::paths;
use tantivy::query::Bm25Weight;
use tantivy::schema::IndexRecordOption;

use super::super::phrase::{Phrase, Scores};
use super::super::statistics::OfField;
use super::super::weight::Compiled;
use super::term;
use crate::compile::Compiler;
use crate::highlight::highlight_terms::HighlightTerm;
use crate::tenancy::tenant_terms::OwnTerms;

/// Compiles to the documents with these terms at these distances; `slop` moves are allowed.
pub(crate) fn phrase(
    compiler: &Compiler,
    indexed: Analyzer,
    path: &str,
    tokens: &[(usize, String)],
    slop: u32,
) -> Result<Compiled> {
    let field = paths::text_field(indexed);
    match tokens {
        [] => Ok(Compiled::None),
        [(_, token)] => term::terms_weight(compiler, field, IndexRecordOption::WithFreqs, path, token),
        tokens => {
            compiler.mark(path, || HighlightTerm::Phrase {
                terms: tokens.to_vec(),
                slop,
            });
            let stop = &compiler.guard.stop;
            let first = tokens[0].0;
            let terms = tokens
                .iter()
                .map(|(position, token)| ((position - first) as u32, paths::term(field, path, token)));
            let phrase = Phrase::new(terms, slop, stop);
            compiler.guard.take_clauses(phrase.terms().len())?;
            let Some((statistics, of_path)) = compiler.field_statistics(field, path)? else {
                return Ok(Compiled::Some(Box::new(phrase)));
            };
            // A word counts once per occurrence in the phrase.
            let keys: Vec<_> = tokens
                .iter()
                .map(|(_, token)| paths::term(field, path, token))
                .collect();
            let different: Vec<_> = phrase.terms().cloned().collect();
            let of_phrase = OfField::new(statistics, &of_path, None, &different, stop)?;
            let scores = Scores {
                bm25: Bm25Weight::for_terms(&of_phrase, &keys).map_err(failed)?,
                norms: of_path.norms.clone(),
            };
            Ok(Compiled::Some(Box::new(phrase.scored(scores))))
        }
    }
}

/// Compiles to the documents with a phrase whose last term is a prefix. As in Lucene, it stands for the first terms
/// of the dictionary with this prefix, at most `max_expansions`. For a tenant, only terms of its documents count.
pub(crate) fn phrase_prefix(
    compiler: &Compiler,
    indexed: Analyzer,
    path: &str,
    tokens: &[(usize, String)],
    slop: u32,
    max_expansions: u32,
) -> Result<Compiled> {
    let Some(((position, start), before)) = tokens.split_last() else {
        return Ok(Compiled::None);
    };
    let scoring = compiler.scoring();
    let mut parts = Vec::new();
    for last in terms_from(compiler, indexed, path, start, max_expansions as usize)? {
        // Each phrase has all other terms again.
        compiler.guard.take_clauses(before.len())?;
        let mut tokens = before.to_vec();
        tokens.push((*position, last));
        parts.push(phrase(compiler, indexed, path, &tokens, slop)?);
    }
    Ok(Compiled::any(parts, scoring))
}

/// Returns the first terms of a shard with a prefix; for a tenant, only terms of its documents.
fn terms_from(
    compiler: &Compiler,
    indexed: Analyzer,
    path: &str,
    start: &str,
    limit: usize,
) -> Result<BTreeSet<String>> {
    let field = paths::text_field(indexed);
    let key_start = paths::key_prefix(field, path);
    let from = [key_start.as_slice(), start.as_bytes()].concat();
    let walk = compiler.guard.stop.walk();
    let mut terms = BTreeSet::new();
    for segment in &compiler.snapshot.segments {
        let own = OwnTerms::new(segment, compiler.tenant)?;
        if own.has_none() {
            continue;
        }
        let index = segment.reader.inverted_index(field).map_err(failed)?;
        let mut range = index.terms().range().ge(&from).lt(paths::end_of(&from));
        if own.has_all() {
            range = range.limit(limit as u64);
        }
        let mut stream = range.into_stream().map_err(|error| failed(error.into()))?;
        while stream.advance() && stream.key().starts_with(&from) {
            walk.step()?;
            let term = String::from_utf8_lossy(&stream.key()[key_start.len()..]);
            if terms.len() >= limit && terms.last().is_none_or(|last: &String| *term > **last) {
                break;
            }
            if !terms.contains(&*term) && own.contain(&index, stream.value(), &|| walk.step())? {
                terms.insert(term.into_owned());
                if terms.len() > limit {
                    terms.pop_last();
                }
            }
        }
    }
    Ok(terms)
}
