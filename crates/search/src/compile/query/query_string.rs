//! `query_string` and `simple_query_string` queries: trees of clauses over several fields.

use firn_model::mapping::Analyzer;
use firn_model::{Error, Result};
use firn_query::query::query_string::Node;
use firn_query::query::{
    FUZZY_MAX, MultiMatchType, QueryString, Range, RegexpFlags, Rewrite, SimpleQueryString, TextOptions,
};
use serde_json::Value;

use super::super::field::{Field, Target};
use super::super::weight::{Compiled, combine};
use super::targets::Fields;
use super::term_pattern::Pattern;
use super::text::{self, Analyzed, Kind};
use super::{exists, fuzzy, minimum, multi_match, prefix, range, regexp, term, wildcard};
use crate::compile::Compiler;

/// Most fuzzy words of a query, times its default fields. [`firn_query::query::FUZZY_MAX`] bounds the words in the
/// request; `*` may expand to many fields, most of them with small dictionaries.
const FUZZY_ON_FIELDS_MAX: usize = 4 * FUZZY_MAX;

pub(crate) fn compile(compiler: &Compiler, part: &QueryString) -> Result<Compiled> {
    let scope = Scope {
        options: &part.options,
        kind: part.kind,
        tie_breaker: part.tie_breaker.unwrap_or(part.kind.tie_breaker()),
        quote_analyzer: part.quote_analyzer,
        quote_field_suffix: part.quote_field_suffix.as_deref(),
        rewrite: part.rewrite,
        time_zone: part.time_zone.as_deref(),
        fields: Fields::new(compiler, &part.default_fields, part.options.lenient),
    };
    scope.check_fuzzy(compiler, &part.parsed)?;
    let compiled = scope.top(compiler, &part.parsed)?;
    Ok(compiled.boost(part.boost, compiler.scoring()))
}

/// Compiles a `simple_query_string`; every field with a word adds to the score, as in Elasticsearch.
pub(crate) fn compile_simple(compiler: &Compiler, part: &SimpleQueryString) -> Result<Compiled> {
    let scope = Scope {
        options: &part.options,
        kind: MultiMatchType::MostFields,
        tie_breaker: MultiMatchType::MostFields.tie_breaker(),
        quote_analyzer: None,
        quote_field_suffix: part.quote_field_suffix.as_deref(),
        rewrite: Rewrite::Constant,
        time_zone: None,
        fields: Fields::new(compiler, &part.fields, part.options.lenient),
    };
    scope.check_fuzzy(compiler, &part.parsed)?;
    let compiled = scope.top(compiler, &part.parsed)?;
    Ok(compiled.boost(part.boost, compiler.scoring()))
}

/// The settings of the query that its clauses need.
#[derive(Clone)]
struct Scope<'a> {
    options: &'a TextOptions,
    kind: MultiMatchType,
    tie_breaker: f32,
    quote_analyzer: Option<Analyzer>,
    quote_field_suffix: Option<&'a str>,
    rewrite: Rewrite,
    time_zone: Option<&'a str>,
    fields: Fields,
}

impl Scope<'_> {
    /// Rejects too many fuzzy words before the first automaton is built.
    fn check_fuzzy(&self, compiler: &Compiler, node: &Node) -> Result<()> {
        let words = node.fuzzy_count();
        if words == 0 {
            return Ok(());
        }
        let count = words.saturating_mul(self.fields.count(compiler));
        if count > FUZZY_ON_FIELDS_MAX {
            return Err(Error::illegal_argument(format!(
                "Query contains too many fuzzy clauses; maxClauseCount is set to {FUZZY_ON_FIELDS_MAX}, and each word in each field \
                 is a clause"
            )));
        }
        Ok(())
    }

    /// Compiles the whole tree. `minimum_should_match` applies to its optional clauses: those at the top, or the
    /// words of a text in one field.
    fn top(&self, compiler: &Compiler, node: &Node) -> Result<Compiled> {
        let Some(spec) = &self.options.minimum_should_match else {
            return self.compile(compiler, node);
        };
        match node {
            Node::Bool { must, should, must_not } if !should.is_empty() => {
                let least = usize::from(must.is_empty());
                let minimum = minimum::calculate(spec, should.len())?.max(least);
                self.bool(compiler, [must, should, must_not], minimum)
            }
            Node::Word(_) if self.fields.names.len() == 1 => self.on_fields(compiler, node, self.options),
            _ => self.compile(compiler, node),
        }
    }

    fn compile(&self, compiler: &Compiler, node: &Node) -> Result<Compiled> {
        let scoring = compiler.scoring();
        match node {
            Node::All => Ok(Compiled::All.constant(1.0, scoring)),
            Node::Bool { must, should, must_not } => {
                let minimum = usize::from(must.is_empty() && !should.is_empty());
                self.bool(compiler, [must, should, must_not], minimum)
            }
            Node::Scoped { field, boost, node } => {
                let inner = match field {
                    Some(field) => Scope {
                        fields: Fields {
                            lenient: self.options.lenient || field.contains('*'),
                            names: vec![(field.clone(), 1.0)],
                        },
                        ..self.clone()
                    }
                    .compile(compiler, node)?,
                    None => self.compile(compiler, node)?,
                };
                Ok(inner.boost(*boost, scoring))
            }
            Node::Exists(field) => Ok(exists::by_name(&compiler.filter(), field)?.constant(1.0, scoring)),
            // `field:*` tests for any value of the field, not for its terms.
            Node::Wildcard(pattern) if pattern == "*" => self.any_value(compiler),
            Node::Prefix(start) if start.is_empty() => self.any_value(compiler),
            Node::Word(_) if self.options.minimum_should_match.is_some() => {
                let options = TextOptions {
                    minimum_should_match: None,
                    ..self.options.clone()
                };
                self.on_fields(compiler, node, &options)
            }
            leaf => self.on_fields(compiler, leaf, self.options),
        }
    }

    /// Compiles clauses that must, should and must not match.
    fn bool(&self, compiler: &Compiler, clauses: [&Vec<Node>; 3], minimum: usize) -> Result<Compiled> {
        let filter = compiler.filter().unmarked();
        let each = |compiler: &Compiler, nodes: &[Node]| -> Result<Vec<Compiled>> {
            nodes.iter().map(|node| self.compile(compiler, node)).collect()
        };
        let [must, should, must_not] = clauses;
        Ok(combine(
            each(compiler, must)?,
            each(compiler, should)?,
            each(&filter, must_not)?,
            minimum,
            compiler.scoring(),
        ))
    }

    fn any_value(&self, compiler: &Compiler) -> Result<Compiled> {
        let scoring = compiler.scoring();
        let mut parts = Vec::new();
        for (field, _) in &self.fields.names {
            if field == "*" {
                return Ok(Compiled::All.constant(1.0, scoring));
            }
            parts.push(exists::by_name(&compiler.filter(), field)?);
        }
        Ok(Compiled::any(parts, false).constant(1.0, scoring))
    }

    /// Compiles a leaf in all fields of the query.
    fn on_fields(&self, compiler: &Compiler, leaf: &Node, options: &TextOptions) -> Result<Compiled> {
        let (kind, fields, tie_breaker) = (self.kind, &self.fields, self.tie_breaker);
        // `fuzziness` applies to words with a `~`, which have their edits.
        let options = &TextOptions {
            fuzziness: None,
            slop: 0,
            ..options.clone()
        };
        match leaf {
            Node::Word(text) => {
                let value = Value::String(text.clone());
                multi_match::in_fields(compiler, fields, kind, tie_breaker, &value, options)
            }
            Node::Phrase(text, slop) => {
                let value = Value::String(text.clone());
                let options = TextOptions {
                    analyzer: self.quote_analyzer.or(options.analyzer),
                    slop: *slop,
                    ..options.clone()
                };
                let fields = self.quoted(compiler);
                multi_match::in_fields(compiler, &fields, MultiMatchType::Phrase, tie_breaker, &value, &options)
            }
            leaf => {
                let parts = fields.each(compiler, |target| self.on_target(compiler, target, leaf))?;
                Ok(Compiled::best(parts, tie_breaker, compiler.scoring()))
            }
        }
    }

    /// Returns the fields of phrases: the fields with the suffix, if they exist.
    fn quoted(&self, compiler: &Compiler) -> Fields {
        let mut fields = self.fields.clone();
        if let Some(suffix) = self.quote_field_suffix {
            for (name, _) in &mut fields.names {
                let other = format!("{name}{suffix}");
                if compiler.mapping.resolve(&other).is_some() {
                    *name = other;
                }
            }
        }
        fields
    }

    fn on_target(&self, compiler: &Compiler, target: &Target, leaf: &Node) -> Result<Compiled> {
        let scoring = compiler.scoring();
        let field = match target {
            Target::Nothing => return Ok(Compiled::None),
            Target::Meta(meta) => {
                let pattern = match leaf {
                    Node::Prefix(text) => Pattern::prefix(text, false),
                    Node::Wildcard(text) => Pattern::wildcard(text, false),
                    Node::Regexp(text) => Pattern::regexp(text, RegexpFlags::default(), false)?,
                    _ => {
                        return Err(Error::not_implemented(format!(
                            "this kind of query_string clause on [{meta:?}]"
                        )));
                    }
                };
                return Ok(prefix::on_meta(compiler, *meta, &pattern)?.constant(1.0, scoring));
            }
            Target::Field(field) => field,
        };
        match leaf {
            Node::Prefix(start) => prefix::on_field(compiler, field, &self.folded(field, start), false, self.rewrite),
            Node::Wildcard(text) => wildcard::on_field(compiler, field, &self.folded(field, text), false, self.rewrite),
            Node::Regexp(text) => regexp::on_field(compiler, field, text, RegexpFlags::default(), false, self.rewrite),
            Node::Fuzzy(word, edits) => {
                fuzzy::on_field(compiler, field, &self.folded(field, word), *edits, &self.options.fuzzy)
            }
            Node::Range { lower, upper } => {
                let bound = |bound: &Option<(String, bool)>| {
                    bound
                        .as_ref()
                        .map(|(text, included)| (Value::String(text.clone()), *included))
                };
                let range = Range {
                    field: field.path.clone(),
                    lower: bound(lower),
                    upper: bound(upper),
                    format: None,
                    time_zone: self.time_zone.map(str::to_owned),
                    boost: 1.0,
                };
                range::compile(compiler, &range)
            }
            Node::Word(text) | Node::Phrase(text, _) => {
                let value = Value::String(text.clone());
                text::on_target(compiler, target, Kind::Terms, &value, self.options)
            }
            Node::All | Node::Bool { .. } | Node::Scoped { .. } | Node::Exists(_) => self.compile(compiler, leaf),
        }
    }

    /// Returns a pattern in the case of the indexed terms: lower case for analyzed text.
    fn folded(&self, field: &Field, text: &str) -> String {
        match Analyzed::of(field, self.options.analyzer) {
            Some(Analyzed {
                analyzer: Analyzer::Standard | Analyzer::Simple,
                ..
            }) => text.to_lowercase(),
            Some(_) => text.to_owned(),
            None => term::normalized(field, text),
        }
    }
}
