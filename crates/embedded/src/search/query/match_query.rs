//! `match`: full text, analyzed.

use firn_engine::query::Match;
use firn_model::Result;
use firn_model::mapping::{Analyzer, FieldType};
use tantivy::schema::IndexRecordOption;

use super::super::compile::Compiler;
use super::super::field::{Field, Target, scalar_text};
use super::super::weight::{Compiled, combine};
use super::super::{paths, text};
use super::{minimum, term};
use crate::schema::Class;

pub(in super::super) fn compile(compiler: &Compiler, part: &Match) -> Result<Compiled> {
    let scoring = compiler.scoring();
    let compiled = match compiler.resolve(&part.field) {
        Target::Nothing => Ok(Compiled::None),
        Target::Meta(meta) => term::on_meta(compiler, meta, &part.query),
        Target::Field(field) => match search_analyzer(&field) {
            Some(analyzer) => on_text(compiler, part, &field, analyzer),
            None => term::on_field(compiler, &field, &part.query, false),
        },
    };
    match compiled {
        Ok(compiled) => Ok(compiled.boost(part.boost, scoring)),
        Err(_) if part.lenient => Ok(Compiled::None),
        Err(error) => Err(error),
    }
}

/// How queries on a field are analyzed; `None`: not at all.
pub(in super::super) fn search_analyzer(field: &Field) -> Option<Analyzer> {
    match (field.class, field.field_type) {
        (Class::Text(analyzer), FieldType::Text | FieldType::MatchOnlyText) => {
            let own = field.mapping.as_ref().and_then(|mapping| mapping.search_analyzer);
            Some(own.unwrap_or(analyzer))
        }
        _ => None,
    }
}

fn on_text(compiler: &Compiler, part: &Match, field: &Field, analyzer: Analyzer) -> Result<Compiled> {
    let Class::Text(indexed) = field.class else {
        return Ok(Compiled::None);
    };
    let Some(query) = scalar_text(&part.query) else {
        return Ok(Compiled::None);
    };
    let tokens = text::tokens(analyzer, &query);
    if tokens.is_empty() {
        return Ok(if part.zero_terms_all {
            Compiled::All
        } else {
            Compiled::None
        });
    }
    let terms = paths::text_field(indexed);
    let mut clauses = Vec::with_capacity(tokens.len());
    for (_, token) in &tokens {
        clauses.push(term::terms_weight(
            compiler,
            terms,
            IndexRecordOption::WithFreqs,
            &field.path,
            token,
        )?);
    }
    let scoring = compiler.scoring();
    if part.operator_and {
        return Ok(Compiled::all(clauses, scoring));
    }
    let minimum = match &part.minimum_should_match {
        // As in Lucene, a minimum below one still needs one term.
        Some(spec) => minimum::calculate(spec, clauses.len())?.max(1),
        None => 1,
    };
    Ok(combine(Vec::new(), clauses, Vec::new(), minimum, scoring))
}
