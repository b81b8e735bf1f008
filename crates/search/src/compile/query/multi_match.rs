//! `multi_match` query: a text in several fields.

use firn_model::Result;
use firn_model::mapping::Analyzer;
use firn_query::query::{MultiMatch, MultiMatchType, TextOptions};
use serde_json::Value;

use super::super::field::{Field, Target, scalar_text};
use super::super::weight::Compiled;
use super::targets::{Fields, or_nothing};
use super::term;
use super::term::TermsOf;
use super::text::{self, Analyzed, Kind};
use crate::compile::Compiler;

pub(crate) fn compile(compiler: &Compiler, part: &MultiMatch) -> Result<Compiled> {
    let fields = Fields::new(compiler, &part.fields, part.options.lenient);
    let tie_breaker = part.tie_breaker.unwrap_or(part.kind.tie_breaker());
    let found = in_fields(compiler, &fields, part.kind, tie_breaker, &part.query, &part.options)?;
    Ok(found.boost(part.boost, compiler.scoring()))
}

/// Compiles to the documents with a text in several fields.
pub(crate) fn in_fields(
    compiler: &Compiler,
    fields: &Fields,
    kind: MultiMatchType,
    tie_breaker: f32,
    value: &Value,
    options: &TextOptions,
) -> Result<Compiled> {
    let kind = match kind {
        MultiMatchType::BestFields | MultiMatchType::MostFields => Kind::Terms,
        MultiMatchType::Phrase => Kind::Phrase,
        MultiMatchType::PhrasePrefix => Kind::PhrasePrefix,
        MultiMatchType::BoolPrefix => Kind::BoolPrefix,
        MultiMatchType::CrossFields => return across(compiler, fields, tie_breaker, value, options),
    };
    let parts = fields.each(compiler, |target| {
        text::on_target(compiler, target, kind, value, options)
    })?;
    Ok(Compiled::best(parts, tie_breaker, compiler.scoring()))
}

/// Fields with the same analyzer, searched as one field: each term may be in any of them, and has the highest
/// document frequency of all of them.
struct Group {
    analyzer: Analyzer,
    fields: Vec<(Field, f32)>,
}

fn across(
    compiler: &Compiler,
    fields: &Fields,
    tie_breaker: f32,
    value: &Value,
    options: &TextOptions,
) -> Result<Compiled> {
    let scoring = compiler.scoring();
    let mut groups: Vec<Group> = Vec::new();
    let mut parts = Vec::new();
    for (target, boost) in fields.targets(compiler)? {
        match &target {
            Target::Field(field) if let Some(analyzed) = Analyzed::of(field, options.analyzer) => {
                let analyzer = analyzed.analyzer;
                let entry = (field.clone(), boost);
                match groups.iter_mut().find(|group| group.analyzer == analyzer) {
                    Some(group) => group.fields.push(entry),
                    None => groups.push(Group {
                        analyzer,
                        fields: vec![entry],
                    }),
                }
            }
            // Values that are not analyzed are compared with the whole text, field by field.
            _ => {
                let found = text::on_target(compiler, &target, Kind::Terms, value, options);
                parts.push(or_nothing(fields.lenient, found)?.boost(boost, scoring));
            }
        }
    }
    for group in &groups {
        parts.push(group.find(compiler, tie_breaker, value, options)?);
    }
    Ok(Compiled::best(parts, tie_breaker, scoring))
}

impl Group {
    fn find(&self, compiler: &Compiler, tie_breaker: f32, value: &Value, options: &TextOptions) -> Result<Compiled> {
        let scoring = compiler.scoring();
        let analyzed: Vec<(Analyzed<'_>, f32)> = self
            .fields
            .iter()
            .filter_map(|(field, boost)| Some((Analyzed::of(field, options.analyzer)?, *boost)))
            .collect();
        let (Some((first, _)), Some(text)) = (analyzed.first(), scalar_text(value)) else {
            return Ok(Compiled::None);
        };
        let tokens = first.tokens(compiler, &text)?;
        if tokens.is_empty() && options.zero_terms_all {
            return Ok(Compiled::All.constant(1.0, scoring));
        }
        let places: Vec<(TermsOf<'_>, f32)> = analyzed
            .iter()
            .filter_map(|(analyzed, boost)| Some((analyzed.terms()?, *boost)))
            .collect();
        let mut clauses = Vec::with_capacity(tokens.len());
        for (_, token) in &tokens {
            compiler.guard.take_clauses(places.len())?;
            let mut doc_freq = None;
            if let Some(statistics) = compiler.statistics {
                let mut most = 0;
                for (terms, _) in &places {
                    most = most.max(statistics.doc_freq_of(terms.field, terms.path, token)?);
                }
                doc_freq = Some(most);
            }
            let mut parts = Vec::with_capacity(places.len());
            for (terms, boost) in &places {
                parts.push(term::scored(compiler, terms, token, doc_freq)?.boost(*boost, scoring));
            }
            clauses.push(Compiled::best(parts, tie_breaker, scoring));
        }
        match clauses.is_empty() {
            true => Ok(Compiled::None),
            false => text::together(compiler, clauses, options),
        }
    }
}
