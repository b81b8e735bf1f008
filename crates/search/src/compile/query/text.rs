//! Analyzed text in a field: `match`, `match_phrase`, `match_phrase_prefix` and `match_bool_prefix`, and their use
//! in queries over several fields.

use std::collections::HashMap;

use firn_model::mapping::{Analyzer, FieldType};
use firn_model::{Error, ErrorKind, Result};
use firn_query::query::{Rewrite, TextOptions, TextQuery};
use firn_segment::columns::paths;
use firn_segment::schema::Class;
use serde_json::Value;

use super::super::field::{Field, Target, scalar_text};
use super::super::text;
use super::super::weight::{Compiled, combine};
use super::term::TermsOf;
use super::{fuzzy, match_phrase, minimum, prefix, targets, term};
use crate::compile::Compiler;

/// The relation between the terms of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// They match one by one.
    Terms,
    /// They are consecutive.
    Phrase,
    /// They are consecutive, and the last one is a prefix.
    PhrasePrefix,
    /// They match one by one, and the last one is a prefix.
    BoolPrefix,
}

pub(crate) fn compile(compiler: &Compiler, part: &TextQuery, kind: Kind) -> Result<Compiled> {
    let target = compiler.resolve(&part.field);
    let found = on_target(compiler, &target, kind, &part.query, &part.options);
    Ok(targets::or_nothing(part.options.lenient, found)?.boost(part.boost, compiler.scoring()))
}

/// Compiles to the documents whose field has a text.
pub(crate) fn on_target(
    compiler: &Compiler,
    target: &Target,
    kind: Kind,
    value: &Value,
    options: &TextOptions,
) -> Result<Compiled> {
    let field = match target {
        Target::Nothing => return Ok(Compiled::None),
        Target::Meta(meta) => return term::on_meta(compiler, *meta, value),
        Target::Field(field) => field,
    };
    let Some(text) = scalar_text(value) else {
        return Ok(Compiled::None);
    };
    if let Some(analyzed) = Analyzed::of(field, options.analyzer) {
        return analyzed.find(compiler, kind, &text, options);
    }
    let takes_terms = paths::term_field(field.class).is_some();
    match kind {
        Kind::PhrasePrefix => Err(Error::new(
            ErrorKind::QueryShard,
            format!(
                "Can only use phrase prefix queries on text fields - not on [{}] which is of type [{}]",
                field.path,
                field.type_name()
            ),
        )),
        Kind::BoolPrefix if takes_terms && field.field_type != FieldType::Ip => {
            prefix::on_field(compiler, field, &text, false, Rewrite::Constant)
        }
        Kind::Terms if options.fuzziness.is_some() => {
            let word = term::normalized(field, &text);
            near(compiler, field, &word, options)
        }
        _ => term::on_field(compiler, field, value, false),
    }
}

/// A field whose values are tokens, and the analyzer of query texts for it.
pub(crate) struct Analyzed<'a> {
    pub(crate) field: &'a Field,
    /// The analyzer of the query text.
    pub(crate) analyzer: Analyzer,
    /// The analyzer that indexed the tokens, if they have positions.
    indexed: Option<Analyzer>,
}

impl<'a> Analyzed<'a> {
    /// Returns the analysis of a field; `None`: values are compared as a whole. `own`, the analyzer of the query,
    /// also splits text for fields of whole strings.
    pub(crate) fn of(field: &'a Field, own: Option<Analyzer>) -> Option<Self> {
        match (field.class, field.field_type) {
            (Class::Text(indexed), FieldType::Text | FieldType::MatchOnlyText) => {
                let mapped = field.mapping.as_ref().and_then(|mapping| mapping.search_analyzer);
                Some(Self {
                    field,
                    analyzer: own.or(mapped).unwrap_or(indexed),
                    indexed: Some(indexed),
                })
            }
            (Class::Keyword | Class::KeywordTerms, FieldType::Keyword | FieldType::Wildcard | FieldType::Flattened) => {
                Some(Self {
                    field,
                    analyzer: own?,
                    indexed: None,
                })
            }
            _ => None,
        }
    }

    /// Returns the place of its terms.
    pub(crate) fn terms(&self) -> Option<TermsOf<'a>> {
        let (field, option) = paths::term_field(self.field.class)?;
        Some(TermsOf {
            field,
            option,
            path: &self.field.path,
        })
    }

    /// Returns the tokens of a query text.
    pub(crate) fn tokens(&self, compiler: &Compiler, text: &str) -> Result<Vec<(usize, String)>> {
        text::tokens(self.analyzer, text, compiler.guard)
    }

    fn find(&self, compiler: &Compiler, kind: Kind, text: &str, options: &TextOptions) -> Result<Compiled> {
        let tokens = self.tokens(compiler, text)?;
        if tokens.is_empty() {
            return Ok(match options.zero_terms_all {
                true => Compiled::All.constant(1.0, compiler.scoring()),
                false => Compiled::None,
            });
        }
        match (kind, self.indexed) {
            (Kind::Terms, _) => self.terms_of(compiler, &tokens, options, false),
            (Kind::BoolPrefix, _) => self.terms_of(compiler, &tokens, options, true),
            (Kind::Phrase, Some(indexed)) => {
                match_phrase::phrase(compiler, indexed, &self.field.path, &tokens, options.slop)
            }
            (Kind::PhrasePrefix, Some(indexed)) => match_phrase::phrase_prefix(
                compiler,
                indexed,
                &self.field.path,
                &tokens,
                options.slop,
                options.fuzzy.max_expansions,
            ),
            (Kind::Phrase, None) if tokens.len() == 1 => self.terms_of(compiler, &tokens, options, false),
            (Kind::Phrase | Kind::PhrasePrefix, None) => Err(Error::new(
                ErrorKind::QueryShard,
                format!(
                    "failed to create query: field:[{}] was indexed without position data; cannot run PhraseQuery",
                    self.field.path
                ),
            )),
        }
    }

    fn terms_of(
        &self,
        compiler: &Compiler,
        tokens: &[(usize, String)],
        options: &TextOptions,
        last_goes_on: bool,
    ) -> Result<Compiled> {
        let (whole, start) = match tokens.split_last() {
            Some(((_, start), whole)) if last_goes_on => (whole, Some(start)),
            _ => (tokens, None),
        };
        // `minimum_should_match` counts matching tokens, so a repeated token counts repeatedly.
        let each_counts = options.minimum_should_match.is_some() && !options.operator_and;
        let mut clauses = Vec::new();
        for (token, count) in different(whole, each_counts) {
            let clause = self.token(compiler, token, options)?;
            clauses.push(clause.boost(count as f32, compiler.scoring()));
        }
        if let Some(start) = start {
            clauses.push(prefix::on_field(compiler, self.field, start, false, Rewrite::Constant)?);
        }
        together(compiler, clauses, options)
    }

    /// Compiles to the documents with one token, or with tokens near it.
    fn token(&self, compiler: &Compiler, token: &str, options: &TextOptions) -> Result<Compiled> {
        if options.fuzziness.is_some() {
            return near(compiler, self.field, token, options);
        }
        match self.terms() {
            Some(terms) => term::scored(compiler, &terms, token, None),
            None => Ok(Compiled::None),
        }
    }
}

/// Returns the distinct tokens in their first order, with their numbers of occurrences: as in Lucene, a repeated
/// token is one clause with a multiplied score. With `each_counts`, all tokens are distinct.
fn different(tokens: &[(usize, String)], each_counts: bool) -> Vec<(&str, usize)> {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for (_, token) in tokens {
        let next = counted.len();
        let number = match each_counts {
            true => next,
            false => *numbers.entry(token).or_insert(next),
        };
        match counted.get_mut(number) {
            Some((_, count)) => *count += 1,
            None => counted.push((token, 1)),
        }
    }
    counted
}

/// Compiles to the documents with a term near a word.
fn near(compiler: &Compiler, field: &Field, word: &str, options: &TextOptions) -> Result<Compiled> {
    let edits = options.fuzziness.unwrap_or_default().edits(word.chars().count());
    fuzzy::on_field(compiler, field, word, edits, &options.fuzzy)
}

/// Combines clauses by `operator` and `minimum_should_match`.
pub(crate) fn together(compiler: &Compiler, mut clauses: Vec<Compiled>, options: &TextOptions) -> Result<Compiled> {
    let scoring = compiler.scoring();
    // A single term is no combination; the minimum does not apply.
    if clauses.len() == 1 {
        return Ok(clauses.remove(0));
    }
    if options.operator_and {
        return Ok(Compiled::all(clauses, scoring));
    }
    let minimum = match &options.minimum_should_match {
        // As in Lucene, a minimum below one still requires one term.
        Some(spec) => minimum::calculate(spec, clauses.len())?.max(1),
        None => 1,
    };
    Ok(combine(Vec::new(), clauses, Vec::new(), minimum, scoring))
}
