//! `match_phrase`: terms one after another.

use firn_engine::query::MatchPhrase;
use firn_model::Result;
use firn_model::mapping::Analyzer;
use tantivy::query::{PhraseQuery, Query as _};
use tantivy::schema::IndexRecordOption;

use super::super::column::failed;
use super::super::compile::Compiler;
use super::super::field::{Target, scalar_text};
use super::super::marks::Mark;
use super::super::weight::Compiled;
use super::super::{paths, text};
use super::{match_query, term};
use crate::schema::Class;

pub(in super::super) fn compile(compiler: &Compiler, part: &MatchPhrase) -> Result<Compiled> {
    let scoring = compiler.scoring();
    let compiled = match compiler.resolve(&part.field) {
        Target::Nothing => Compiled::None,
        Target::Meta(meta) => term::on_meta(compiler, meta, &part.query)?,
        Target::Field(field) => match (match_query::search_analyzer(&field), field.class) {
            (Some(analyzer), Class::Text(indexed)) => {
                let tokens = text::tokens(analyzer, &scalar_text(&part.query).unwrap_or_default());
                match tokens.is_empty() {
                    true if part.zero_terms_all => Compiled::All,
                    _ => phrase(compiler, indexed, &field.path, tokens, part.slop)?,
                }
            }
            _ => term::on_field(compiler, &field, &part.query, false)?,
        },
    };
    Ok(compiled.boost(part.boost, scoring))
}

/// Documents with these terms at these distances; `slop` moves are allowed.
pub(in super::super) fn phrase(
    compiler: &Compiler,
    indexed: Analyzer,
    path: &str,
    tokens: Vec<(usize, String)>,
    slop: u32,
) -> Result<Compiled> {
    let field = paths::text_field(indexed);
    match tokens.as_slice() {
        [] => Ok(Compiled::None),
        [(_, token)] => term::terms_weight(compiler, field, IndexRecordOption::WithFreqs, path, token),
        tokens => {
            compiler.mark(path, || Mark::Phrase {
                terms: tokens.to_vec(),
                slop,
            });
            let first = tokens[0].0;
            let terms = tokens
                .iter()
                .map(|(position, token)| (position - first, paths::term(field, path, token)))
                .collect();
            let query = PhraseQuery::new_with_offset_and_slop(terms, slop);
            Ok(Compiled::Some(query.weight(compiler.enable()).map_err(failed)?))
        }
    }
}
