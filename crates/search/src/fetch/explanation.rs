//! Printer of queries in Lucene's notation: the explanation of `_validate/query`.
//!
//! It prints texts as the terms that they are analyzed into, field patterns as the fields that they match, dates as
//! milliseconds.

use firn_model::Result;
use firn_model::mapping::Analyzer;
use firn_query::query::query_string::Node;
use firn_query::query::{
    Bool, Fuzziness, MultiMatch, MultiMatchType, Query, Range, TermPattern, TextOptions, TextQuery,
};
use serde_json::Value;

use crate::compile::Compiler;
use crate::compile::field::{Field, Meta, NANOS, Target, scalar_text};
use crate::compile::query::range;
use crate::compile::query::targets::Fields;
use crate::compile::query::text::{Analyzed, Kind};
use crate::compile::text;

impl Compiler<'_> {
    /// Prints a query. Compile the query first: this function does not detect invalid queries.
    pub(crate) fn describe(&self, query: &Query) -> Result<String> {
        Ok(match query {
            Query::MatchAll(part) => boosted("*:*", part.boost),
            Query::MatchNone => "MatchNoDocsQuery(\"User requested \"match_none\" query.\")".to_owned(),
            Query::Named(part) => self.describe(&part.query)?,
            Query::Bool(part) => boosted(&self.describe_bool(part)?, part.boost.0),
            Query::ConstantScore(part) => {
                boosted(&format!("ConstantScore({})", self.describe(&part.filter)?), part.boost)
            }
            Query::DisMax(part) => {
                let parts = part.queries.iter().map(|query| self.describe(query));
                boosted(&best(parts.collect::<Result<_>>()?, part.tie_breaker), part.boost)
            }
            Query::Boosting(part) => {
                let (positive, negative) = (self.describe(&part.positive)?, self.describe(&part.negative)?);
                let lowered = format!("boost(queryboost(score({negative}))^{})", number(part.negative_boost));
                boosted(
                    &format!("FunctionScoreQuery({positive}, scored by {lowered})"),
                    part.boost,
                )
            }
            Query::Term(part) => boosted(&self.value(&part.field, &part.value)?, part.boost),
            Query::Terms(part) => {
                let values: Vec<String> = part.values.iter().filter_map(scalar_text).collect();
                boosted(
                    &format!("{}:({})", self.path(&part.field), values.join(" ")),
                    part.boost,
                )
            }
            Query::Range(part) => boosted(&self.describe_range(part)?, part.boost),
            Query::Exists(part) => boosted(
                &format!("ConstantScore(FieldExistsQuery [field={}])", self.path(&part.field)),
                part.boost,
            ),
            Query::Ids(part) => boosted(&format!("_id:({})", part.values.join(" ")), part.boost),
            Query::Match(part) => self.describe_text(part, Kind::Terms)?,
            Query::MatchPhrase(part) => self.describe_text(part, Kind::Phrase)?,
            Query::MatchPhrasePrefix(part) => self.describe_text(part, Kind::PhrasePrefix)?,
            Query::MatchBoolPrefix(part) => self.describe_text(part, Kind::BoolPrefix)?,
            Query::MultiMatch(part) => boosted(&self.describe_multi(part)?, part.boost),
            Query::QueryString(part) => {
                let fields = Fields::new(self, &part.default_fields, part.options.lenient);
                let scope = Scope {
                    fields,
                    kind: part.kind,
                    tie_breaker: part.tie_breaker.unwrap_or(part.kind.tie_breaker()),
                    options: &part.options,
                };
                boosted(&self.node(&scope, &part.parsed)?, part.boost)
            }
            Query::SimpleQueryString(part) => {
                let scope = Scope {
                    fields: Fields::new(self, &part.fields, part.options.lenient),
                    kind: MultiMatchType::MostFields,
                    tie_breaker: 1.0,
                    options: &part.options,
                };
                boosted(&self.node(&scope, &part.parsed)?, part.boost)
            }
            Query::Kql(part) => self.describe(&part.lower(self.mapping)?)?,
            Query::Prefix(part) => self.pattern(part, |value| format!("{value}*")),
            Query::Wildcard(part) => self.pattern(part, str::to_owned),
            Query::Regexp(part) => self.pattern(&part.pattern, |value| format!("/{value}/")),
            Query::Fuzzy(part) => {
                let edits = part.fuzziness.edits(part.value.chars().count());
                boosted(
                    &format!("{}:{}~{edits}", self.path(&part.field), part.value),
                    part.boost,
                )
            }
        })
    }

    /// Returns the path that a name stands for.
    fn path(&self, name: &str) -> String {
        match self.resolve(name) {
            Target::Field(field) => field.path,
            Target::Meta(_) | Target::Nothing => name.to_owned(),
        }
    }

    fn describe_bool(&self, part: &Bool) -> Result<String> {
        let mut clauses = Vec::new();
        for (mark, queries) in [
            ("+", &part.must),
            ("#", &part.filter),
            ("-", &part.must_not),
            ("", &part.should),
        ] {
            for query in queries {
                let written = self.describe(query)?;
                clauses.push(
                    match matches!(query, Query::Bool(_)) || written.contains(' ') && is_list(&written) {
                        true => format!("{mark}({written})"),
                        false => format!("{mark}{written}"),
                    },
                );
            }
        }
        if clauses.is_empty() {
            return Ok("*:*".to_owned());
        }
        if part.must.is_empty() && part.filter.is_empty() && part.should.is_empty() {
            clauses.push("#*:*".to_owned());
        }
        let clauses = clauses.join(" ");
        Ok(match &part.minimum_should_match {
            Some(spec) => {
                let least = crate::compile::query::minimum::calculate(spec, part.should.len())?;
                format!("({clauses})~{least}")
            }
            None => clauses,
        })
    }

    /// Prints one value of a field: a term, or for numbers the range that holds only this value.
    fn value(&self, name: &str, value: &Value) -> Result<String> {
        let text = scalar_text(value).unwrap_or_default();
        let Target::Field(field) = self.resolve(name) else {
            return Ok(format!("{name}:{text}"));
        };
        if let Some(numeric) = field.numeric() {
            if numeric.date_format().is_some() {
                let range = Range {
                    field: name.to_owned(),
                    lower: Some((value.clone(), true)),
                    upper: Some((value.clone(), true)),
                    format: None,
                    time_zone: None,
                    boost: 1.0,
                };
                return self.describe_range(&range);
            }
            // A value that is not a number is looked up among the values that did not fit the type.
            return Ok(match numeric.read(value) {
                Some(_) => format!("{}:[{text} TO {text}]", field.path),
                None => format!("{}:{text}", field.path),
            });
        }
        Ok(format!("{}:{text}", field.path))
    }

    fn describe_range(&self, part: &Range) -> Result<String> {
        let target = self.resolve(&part.field);
        let format = match &target {
            Target::Field(field) => field.numeric().and_then(|numeric| numeric.date_format().cloned()),
            Target::Meta(_) | Target::Nothing => None,
        };
        let (lower, upper) = match format {
            Some(format) => {
                let (lower, upper) = range::date_bounds(self.now_ms, &format, part)?;
                let shown = |bound: Option<(i128, bool)>| {
                    bound.map(|(nanos, included)| (nanos.div_euclid(NANOS.into()).to_string(), included))
                };
                (shown(lower), shown(upper))
            }
            None => {
                let shown = |bound: &Option<(Value, bool)>| {
                    let (value, included) = bound.as_ref()?;
                    Some((scalar_text(value)?, *included))
                };
                (shown(&part.lower), shown(&part.upper))
            }
        };
        Ok(format!("{}:{}", self.path(&part.field), interval(lower, upper)))
    }

    fn pattern(&self, part: &TermPattern, write: impl Fn(&str) -> String) -> String {
        boosted(
            &format!("{}:{}", self.path(&part.field), write(&part.value)),
            part.boost,
        )
    }

    fn describe_text(&self, part: &TextQuery, kind: Kind) -> Result<String> {
        let target = self.resolve(&part.field);
        Ok(boosted(
            &self.text(&target, &part.field, kind, &part.query, &part.options)?,
            part.boost,
        ))
    }

    /// Prints a text query on one field.
    fn text(&self, target: &Target, name: &str, kind: Kind, value: &Value, options: &TextOptions) -> Result<String> {
        let field = match target {
            Target::Field(field) => field,
            Target::Meta(_) => return self.value(name, value),
            Target::Nothing => return Ok("MatchNoDocsQuery(\"unmapped field\")".to_owned()),
        };
        let text = scalar_text(value).unwrap_or_default();
        let path = &field.path;
        let Some(analyzed) = Analyzed::of(field, options.analyzer) else {
            return Ok(match (kind, options.fuzziness) {
                (Kind::BoolPrefix, _) if field.numeric().is_none() => format!("{path}:{text}*"),
                (Kind::Terms, Some(fuzziness)) => word(path, &text, Some(fuzziness)),
                _ => self.value(path, value)?,
            });
        };
        let tokens = analyzed.tokens(self, &text)?;
        if tokens.is_empty() {
            return Ok(match options.zero_terms_all {
                true => "*:*".to_owned(),
                false => "MatchNoDocsQuery(\"Matching no documents because no terms present\")".to_owned(),
            });
        }
        let words: Vec<&str> = tokens.iter().map(|(_, token)| token.as_str()).collect();
        Ok(match kind {
            Kind::Phrase if words.len() > 1 => {
                let slop = if options.slop > 0 {
                    format!("~{}", options.slop)
                } else {
                    String::new()
                };
                format!("{path}:\"{}\"{slop}", words.join(" "))
            }
            Kind::PhrasePrefix => format!("{path}:\"{}*\"", words.join(" ")),
            Kind::Phrase | Kind::Terms | Kind::BoolPrefix => {
                let last = words.len() - 1;
                let written = words.iter().enumerate().map(|(number, token)| match kind {
                    Kind::BoolPrefix if number == last => format!("{path}:{token}*"),
                    _ => word(path, token, options.fuzziness),
                });
                together(written.collect(), options)?
            }
        })
    }

    fn describe_multi(&self, part: &MultiMatch) -> Result<String> {
        let scope = Scope {
            fields: Fields::new(self, &part.fields, part.options.lenient),
            kind: part.kind,
            tie_breaker: part.tie_breaker.unwrap_or(part.kind.tie_breaker()),
            options: &part.options,
        };
        self.in_fields(&scope, part.kind, &part.query, &part.options)
    }

    /// Prints a text query on several fields.
    fn in_fields(
        &self,
        scope: &Scope<'_>,
        kind: MultiMatchType,
        value: &Value,
        options: &TextOptions,
    ) -> Result<String> {
        let text_kind = match kind {
            MultiMatchType::Phrase => Kind::Phrase,
            MultiMatchType::PhrasePrefix => Kind::PhrasePrefix,
            MultiMatchType::BoolPrefix => Kind::BoolPrefix,
            _ => Kind::Terms,
        };
        if kind == MultiMatchType::CrossFields {
            return self.across(scope, value, options);
        }
        let mut parts = Vec::new();
        for (target, boost) in scope.fields.targets(self)? {
            let name = name_of(&target);
            let written = self.text(&target, &name, text_kind, value, options)?;
            parts.push(match boost {
                1.0 => grouped(written),
                boost => boosted(&written, boost),
            });
        }
        Ok(best(parts, scope.tie_breaker))
    }

    /// Prints a text query on several fields as if they were one: fields with the same analyzer share each term.
    fn across(&self, scope: &Scope<'_>, value: &Value, options: &TextOptions) -> Result<String> {
        let mut groups: Vec<(Analyzer, Vec<Target>)> = Vec::new();
        let mut parts = Vec::new();
        for (target, boost) in scope.fields.targets(self)? {
            let analyzer = match &target {
                Target::Field(field) => Analyzed::of(field, options.analyzer).map(|analyzed| analyzed.analyzer),
                Target::Meta(_) | Target::Nothing => None,
            };
            let Some(analyzer) = analyzer else {
                let written = self.text(&target, &name_of(&target), Kind::Terms, value, options)?;
                parts.push(boosted(&written, boost));
                continue;
            };
            match groups.iter_mut().find(|(known, _)| *known == analyzer) {
                Some((_, targets)) => targets.push(target),
                None => groups.push((analyzer, vec![target])),
            }
        }
        let text = scalar_text(value).unwrap_or_default();
        for (analyzer, targets) in groups {
            let term = |token: &str| match targets.as_slice() {
                [only] => format!("{}:{token}", name_of(only)),
                several => {
                    let terms: Vec<String> = several
                        .iter()
                        .map(|target| format!("{}:{token}", name_of(target)))
                        .collect();
                    format!("blended(terms:[{}])", terms.join(", "))
                }
            };
            let tokens = text::tokens(analyzer, &text, self.guard)?;
            parts.push(together(
                tokens.iter().map(|(_, token)| term(token)).collect(),
                options,
            )?);
        }
        if parts.len() > 1 {
            parts = parts.into_iter().map(grouped).collect();
        }
        Ok(best(parts, scope.tie_breaker))
    }

    fn node(&self, scope: &Scope<'_>, node: &Node) -> Result<String> {
        let each = |write: &dyn Fn(&str) -> String| -> Result<String> {
            let mut parts = Vec::new();
            for (target, boost) in scope.fields.targets(self)? {
                parts.push(boosted(&write(&name_of(&target)), boost));
            }
            Ok(best(parts, scope.tie_breaker))
        };
        Ok(match node {
            Node::All => "*:*".to_owned(),
            Node::Exists(field) => format!("ConstantScore(FieldExistsQuery [field={field}])"),
            Node::Bool { must, should, must_not } => {
                let mut clauses = Vec::new();
                for (mark, nodes) in [("+", must), ("-", must_not), ("", should)] {
                    for node in nodes {
                        clauses.push(format!("{mark}{}", grouped(self.node(scope, node)?)));
                    }
                }
                clauses.join(" ")
            }
            Node::Scoped { field, boost, node } => {
                let inner = match field {
                    Some(field) => {
                        let scope = Scope {
                            fields: Fields {
                                names: vec![(field.clone(), 1.0)],
                                lenient: scope.fields.lenient,
                            },
                            ..scope.clone()
                        };
                        self.node(&scope, node)?
                    }
                    None => self.node(scope, node)?,
                };
                boosted(&inner, *boost)
            }
            Node::Word(text) => self.in_fields(scope, scope.kind, &Value::from(text.as_str()), scope.options)?,
            Node::Phrase(text, slop) => {
                let options = TextOptions {
                    slop: *slop,
                    ..scope.options.clone()
                };
                self.in_fields(scope, MultiMatchType::Phrase, &Value::from(text.as_str()), &options)?
            }
            Node::Prefix(text) => each(&|field| format!("{field}:{text}*"))?,
            Node::Wildcard(text) => each(&|field| format!("{field}:{text}"))?,
            Node::Regexp(text) => each(&|field| format!("{field}:/{text}/"))?,
            Node::Fuzzy(text, edits) => each(&|field| format!("{field}:{text}~{edits}"))?,
            Node::Range { lower, upper } => {
                each(&|field| format!("{field}:{}", interval(lower.clone(), upper.clone())))?
            }
        })
    }
}

/// The settings of a query string that its clauses need.
#[derive(Clone)]
struct Scope<'a> {
    fields: Fields,
    kind: MultiMatchType,
    tie_breaker: f32,
    options: &'a TextOptions,
}

fn name_of(target: &Target) -> String {
    match target {
        Target::Field(Field { path, .. }) => path.clone(),
        Target::Meta(Meta::Id) => "_id".to_owned(),
        Target::Meta(Meta::Index) => "_index".to_owned(),
        Target::Meta(Meta::SeqNo) => "_seq_no".to_owned(),
        Target::Meta(Meta::Version) => "_version".to_owned(),
        Target::Meta(Meta::Ignored) => "_ignored".to_owned(),
        Target::Meta(Meta::Routing) => "_routing".to_owned(),
        Target::Nothing => "_nothing".to_owned(),
    }
}

fn word(path: &str, token: &str, fuzziness: Option<Fuzziness>) -> String {
    match fuzziness.map(|fuzziness| fuzziness.edits(token.chars().count())) {
        None | Some(0) => format!("{path}:{token}"),
        Some(edits) => format!("{path}:{token}~{edits}"),
    }
}

/// Joins clauses by `operator` and `minimum_should_match`.
fn together(clauses: Vec<String>, options: &TextOptions) -> Result<String> {
    if clauses.len() == 1 {
        return Ok(clauses.concat());
    }
    if options.operator_and {
        return Ok(format!("+{}", clauses.join(" +")));
    }
    match &options.minimum_should_match {
        Some(spec) => {
            let least = crate::compile::query::minimum::calculate(spec, clauses.len())?;
            Ok(format!("({})~{least}", clauses.join(" ")))
        }
        None => Ok(clauses.join(" ")),
    }
}

/// Prints a disjunction that takes the best score.
fn best(parts: Vec<String>, tie_breaker: f32) -> String {
    if parts.len() < 2 {
        return parts.concat();
    }
    match tie_breaker {
        0.0 => format!("({})", parts.join(" | ")),
        tie_breaker => format!("({})~{}", parts.join(" | "), number(tie_breaker)),
    }
}

/// Returns whether the text is several clauses side by side.
fn is_list(written: &str) -> bool {
    let mut depth = 0i32;
    let mut is_quoted = false;
    for letter in written.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ' ' if depth == 0 && !is_quoted => return true,
            _ => {}
        }
    }
    false
}

fn grouped(written: String) -> String {
    match is_list(&written) {
        true => format!("({written})"),
        false => written,
    }
}

fn boosted(written: &str, boost: f32) -> String {
    match boost {
        1.0 => written.to_owned(),
        boost => format!("({written})^{}", number(boost)),
    }
}

/// Prints a float like Java.
fn number(value: f32) -> String {
    format!("{value:?}")
}

fn interval(lower: Option<(String, bool)>, upper: Option<(String, bool)>) -> String {
    let (lower, opens) = match lower {
        Some((bound, included)) => (bound, if included { '[' } else { '{' }),
        None => ("*".to_owned(), '['),
    };
    let (upper, closes) = match upper {
        Some((bound, included)) => (bound, if included { ']' } else { '}' }),
        None => ("*".to_owned(), ']'),
    };
    format!("{opens}{lower} TO {upper}{closes}")
}
