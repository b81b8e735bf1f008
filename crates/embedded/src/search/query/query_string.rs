//! `query_string`: Lucene's query syntax.

use firn_engine::query::query_string::Node;
use firn_engine::query::{QueryString, Range};
use firn_model::mapping::FieldType;
use firn_model::names::matches_pattern;
use firn_model::{Error, Result};
use serde_json::Value;
use tantivy::query::{FuzzyTermQuery, Query as _};
use tantivy::schema::IndexRecordOption;

use super::super::column::failed;
use super::super::compile::Compiler;
use super::super::field::{Field, Target};
use super::super::weight::{Compiled, combine};
use super::super::{paths, text};
use super::pattern::{self, Pattern};
use super::{exists, match_phrase, match_query, prefix, range, term, wildcard};
use crate::schema::Class;

/// A clause over all fields reads at most so many (`indices.query.bool.max_clause_count`).
const FIELDS_MAX: usize = 1024;

pub(in super::super) fn compile(compiler: &Compiler, part: &QueryString) -> Result<Compiled> {
    let defaults = if part.default_fields.is_empty() {
        compiler
            .default_fields
            .iter()
            .map(|field| (field.clone(), 1.0))
            .collect()
    } else {
        part.default_fields.clone()
    };
    let scope = Scope {
        part,
        // All fields, however that is written, means those that a text can be looked for in.
        lenient: part.lenient || defaults.iter().any(|(field, _)| field == "*") || defaults.is_empty(),
        fields: if defaults.is_empty() {
            vec![("*".to_owned(), 1.0)]
        } else {
            defaults
        },
    };
    let compiled = scope.compile(compiler, &part.parsed)?;
    Ok(compiled.boost(part.boost, compiler.scoring()))
}

struct Scope<'a> {
    part: &'a QueryString,
    fields: Vec<(String, f32)>,
    lenient: bool,
}

impl Scope<'_> {
    fn compile(&self, compiler: &Compiler, node: &Node) -> Result<Compiled> {
        let scoring = compiler.scoring();
        match node {
            Node::All => Ok(Compiled::All.constant(1.0, scoring)),
            Node::Bool { must, should, must_not } => {
                let each = |compiler: &Compiler, nodes: &[Node]| -> Result<Vec<Compiled>> {
                    nodes.iter().map(|node| self.compile(compiler, node)).collect()
                };
                let must = each(compiler, must)?;
                let minimum = usize::from(must.is_empty() && !should.is_empty());
                let should = each(compiler, should)?;
                let must_not = each(&compiler.filter(), must_not)?;
                Ok(combine(must, should, must_not, minimum, scoring))
            }
            Node::Scoped { field, boost, node } => {
                let inner = match field {
                    Some(field) => Scope {
                        part: self.part,
                        lenient: self.part.lenient || field.contains('*'),
                        fields: vec![(field.clone(), 1.0)],
                    }
                    .compile(compiler, node)?,
                    None => self.compile(compiler, node)?,
                };
                Ok(inner.boost(*boost, scoring))
            }
            Node::Exists(field) => Ok(exists::by_name(&compiler.filter(), field)?.constant(1.0, scoring)),
            // `field:*` asks for the field, not for its terms.
            Node::Wildcard(pattern) if pattern == "*" => self.any_value(compiler),
            Node::Prefix(start) if start.is_empty() => self.any_value(compiler),
            leaf => self.on_fields(compiler, leaf),
        }
    }

    fn any_value(&self, compiler: &Compiler) -> Result<Compiled> {
        let scoring = compiler.scoring();
        let mut parts = Vec::new();
        for (field, _) in &self.fields {
            if field == "*" {
                return Ok(Compiled::All.constant(1.0, scoring));
            }
            parts.push(exists::by_name(&compiler.filter(), field)?);
        }
        Ok(Compiled::any(parts, false).constant(1.0, scoring))
    }

    /// The fields that a clause reads, patterns expanded, with their boosts.
    fn targets(&self, compiler: &Compiler) -> Result<Vec<(Target, f32)>> {
        let mut targets = Vec::new();
        for (name, boost) in &self.fields {
            if !name.contains('*') {
                targets.push((compiler.resolve(name), *boost));
                continue;
            }
            for (path, mapping) in compiler.mapping.leaves() {
                if mapping.field_type == FieldType::Alias || !matches_pattern(name, &path) {
                    continue;
                }
                if matches!(mapping.field_type, FieldType::GeoPoint | FieldType::Binary) {
                    continue;
                }
                targets.push((compiler.resolve(&path), *boost));
            }
        }
        if targets.len() > FIELDS_MAX {
            return Err(Error::illegal_argument(format!(
                "field expansion for [{}] matches too many fields, limit: {FIELDS_MAX}, got: {}",
                self.fields.first().map_or("*", |(name, _)| name),
                targets.len()
            )));
        }
        Ok(targets)
    }

    /// What matches a leaf in any of the fields. (Elasticsearch takes the best score of the
    /// fields, this adds them up; the documents are the same.)
    fn on_fields(&self, compiler: &Compiler, leaf: &Node) -> Result<Compiled> {
        let scoring = compiler.scoring();
        let mut parts = Vec::new();
        for (target, boost) in self.targets(compiler)? {
            match self.on_target(compiler, &target, leaf) {
                Ok(part) => parts.push(part.boost(boost, scoring)),
                Err(_) if self.lenient => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Compiled::any(parts, scoring))
    }

    fn on_target(&self, compiler: &Compiler, target: &Target, leaf: &Node) -> Result<Compiled> {
        let scoring = compiler.scoring();
        let field = match target {
            Target::Nothing => return Ok(Compiled::None),
            Target::Meta(meta) => {
                return match leaf {
                    Node::Word(text) | Node::Phrase(text, _) => {
                        term::on_meta(compiler, *meta, &Value::String(text.clone()))
                    }
                    Node::Prefix(text) => {
                        Ok(prefix::on_meta(compiler, *meta, &Pattern::prefix(text, false))?.constant(1.0, scoring))
                    }
                    Node::Wildcard(text) => {
                        Ok(prefix::on_meta(compiler, *meta, &Pattern::wildcard(text, false))?.constant(1.0, scoring))
                    }
                    _ => Err(Error::not_implemented(format!(
                        "this kind of query_string clause on [{meta:?}]"
                    ))),
                };
            }
            Target::Field(field) => field,
        };
        let analyzed = match_query::search_analyzer(field).zip(match field.class {
            Class::Text(indexed) => Some(indexed),
            _ => None,
        });
        // Terms of analyzed text are lower case, patterns follow them.
        let folded = |text: &str| match analyzed {
            Some(_) => text.to_lowercase(),
            None => term::normalized(field, text),
        };
        match leaf {
            Node::Word(word) => match analyzed {
                // A word that is several terms (`foo-bar`) must stand as a whole, unless the
                // operator says otherwise.
                Some((analyzer, indexed)) => {
                    let tokens = text::tokens(analyzer, word);
                    let terms = paths::text_field(indexed);
                    let mut clauses = Vec::new();
                    for (_, token) in &tokens {
                        clauses.push(term::terms_weight(
                            compiler,
                            terms,
                            IndexRecordOption::WithFreqs,
                            &field.path,
                            token,
                        )?);
                    }
                    Ok(if self.part.operator_and {
                        if clauses.is_empty() {
                            Compiled::None
                        } else {
                            Compiled::all(clauses, scoring)
                        }
                    } else {
                        Compiled::any(clauses, scoring)
                    })
                }
                None => term::on_field(compiler, field, &Value::String(word.clone()), false),
            },
            Node::Phrase(phrase, slop) => match analyzed {
                Some((analyzer, indexed)) => {
                    let tokens = text::tokens(analyzer, phrase);
                    match_phrase::phrase(compiler, indexed, &field.path, tokens, *slop)
                }
                None => term::on_field(compiler, field, &Value::String(phrase.clone()), false),
            },
            Node::Prefix(start) => Ok(prefix::on_field(compiler, field, &folded(start), false)?.constant(1.0, scoring)),
            Node::Wildcard(text) => {
                Ok(wildcard::on_field(compiler, field, &folded(text), false)?.constant(1.0, scoring))
            }
            Node::Regexp(text) => {
                pattern::check_strings(field, "regexp")?;
                Ok(pattern::on_field(compiler, field, &Pattern::regexp(text)?)?.constant(1.0, scoring))
            }
            Node::Fuzzy(word, distance) => fuzzy(compiler, field, &folded(word), *distance),
            Node::Range { lower, upper } => {
                let bound = |bound: &Option<(String, bool)>| {
                    bound
                        .as_ref()
                        .map(|(text, included)| (Value::String(text.clone()), *included))
                };
                range::compile(
                    compiler,
                    &Range {
                        field: field.path.clone(),
                        lower: bound(lower),
                        upper: bound(upper),
                        format: None,
                        time_zone: self.part.time_zone.clone(),
                        boost: 1.0,
                    },
                )
            }
            Node::All | Node::Bool { .. } | Node::Scoped { .. } | Node::Exists(_) => self.compile(compiler, leaf),
        }
    }
}

/// Terms within some edits of a word; a swap of neighbours is one.
fn fuzzy(compiler: &Compiler, field: &Field, word: &str, distance: u8) -> Result<Compiled> {
    pattern::check_strings(field, "fuzzy")?;
    let Some((terms, _)) = paths::term_field(field.class) else {
        return Ok(Compiled::None);
    };
    let query = FuzzyTermQuery::new(paths::term(terms, &field.path, word), distance.min(2), true);
    let weight = query.weight(compiler.filter().enable()).map_err(failed)?;
    Ok(Compiled::Some(weight).constant(1.0, compiler.scoring()))
}
