//! `highlight`: fragments of a hit's fields in which the matches of the query are marked.
//!
//! A field's values are read from the source and analyzed again. The tokens that the query looks for ([`finder`])
//! are grouped into passages ([`unified`]) or fragments ([`plain`]), like in Lucene's highlighters of these names.

pub(crate) mod highlight_terms;

mod boundaries;
mod finder;
mod plain;
mod text;
mod unified;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use firn_model::mapping::{Analyzer, FieldType, Mapping};
use firn_model::names::matches_pattern;
use firn_model::{Error, Result};
use firn_query::query::Query;
use firn_query::search::{BoundaryScanner, Highlight, HighlightBudget, HighlightOptions, Highlighter};
use firn_segment::schema::Class;
use serde_json::{Map, Value};

use self::finder::Finder;
use self::text::FieldText;
use super::ShardSearch;
use super::compile::Compiler;
use super::fetch::{source_path, walk};
use crate::compile::field;
use crate::compile::field::{Field, Target, scalar_text};
use crate::compile::limits::{Guard, Pace, Stop};
use crate::highlight::highlight_terms::{HighlightTerm, HighlightTerms};
use crate::run::memory::MemoryLoan;

/// Cost of looking for a field in a document, in steps of a [`Pace`].
const STEPS_OF_FIELD: usize = 64;

/// The highlighted fields, resolved against the mapping of a shard.
pub(super) struct HighlightPlan {
    fields: Vec<FieldPlan>,
    index: Arc<str>,
    /// `index.highlight.max_analyzed_offset`.
    analyzed_max: u64,
    budget: Option<HighlightBudget>,
    /// The part of the budget that all shards of a search have spent.
    spent: Arc<AtomicUsize>,
}

struct FieldPlan {
    /// The name in the answer.
    name: String,
    /// The path of the values in the source: the parent's path for a multi-field.
    path: String,
    analyzer: Analyzer,
    /// `normalizer: lowercase`; as in Elasticsearch, the normalized value is shown.
    lowercase: bool,
    /// Longer values are not indexed.
    ignore_above: Option<u32>,
    options: HighlightOptions,
    finder: Finder,
}

impl HighlightPlan {
    /// Resolves fields and the marks of `query` in them. `spent` is shared by the shards of a search.
    pub(super) fn compile(
        shard: &ShardSearch,
        highlight: &Highlight,
        query: &Query,
        now_ms: i64,
        stop: &Stop,
        spent: &Arc<AtomicUsize>,
    ) -> Result<Self> {
        let of_query = marks_of(shard, query, now_ms, stop)?;
        let mut fields: Vec<FieldPlan> = Vec::new();
        // Mostly all fields have the same query.
        let mut own: Option<(&Query, Vec<(String, HighlightTerm)>)> = None;
        for requested in &highlight.fields {
            let marks = match (requested.options.query.as_deref(), &own) {
                (None, _) => &of_query,
                (Some(query), Some((known, marks))) if query == *known => marks,
                (Some(query), _) => &own.insert((query, marks_of(shard, query, now_ms, stop)?)).1,
            };
            // A mapping may have thousands of fields: only those that the query names are read.
            let only_named = highlight.budget.is_some() && requested.options.shows_only_matches();
            let is_named = |name: &String| !only_named || marks.iter().any(|(path, _)| path == name);
            for name in names(&shard.mapping, &requested.pattern, &is_named) {
                let Target::Field(field) = field::resolve(&shard.mapping, &name) else {
                    continue;
                };
                let Some(plan) = FieldPlan::new(&shard.mapping, name, &field, &requested.options, marks, stop)? else {
                    continue;
                };
                // Such a field has no matches. The plain highlighter rejects long texts there all the same.
                let is_idle = plan.finder.is_empty() && plan.options.no_match_size == 0;
                if is_idle && (plan.options.highlighter == Highlighter::Unified || highlight.budget.is_some()) {
                    continue;
                }
                match fields.iter_mut().find(|other| other.name == plan.name) {
                    Some(other) => *other = plan,
                    None => fields.push(plan),
                }
            }
        }
        Ok(Self {
            fields,
            index: Arc::clone(&shard.snapshot.index),
            analyzed_max: shard.max_analyzed_offset,
            budget: highlight.budget,
            spent: Arc::clone(spent),
        })
    }

    /// Returns whether no field can have fragments.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns the fragments of a document; fields without fragments are left out. Fails with
    /// [`ErrorKind::Timeout`](firn_model::ErrorKind::Timeout) if the search times out.
    pub(super) fn read(&self, source: &Value, stop: &Stop) -> Result<Map<String, Value>> {
        let mut out = Map::new();
        let pace = stop.pace();
        pace.pause()?;
        for field in &self.fields {
            if self.is_spent() {
                return Ok(out);
            }
            pace.step(STEPS_OF_FIELD)?;
            let mut values = field.values(source);
            match &self.budget {
                Some(budget) => self.spend(cut(&mut values, budget.field_chars)),
                None => self.check_length(field, &values)?,
            }
            if values.iter().all(String::is_empty) {
                continue;
            }
            let _text = stop.lend(FieldText::bytes_of(&values))?;
            let text = FieldText::new(&values, field.analyzer, field.options.max_analyzed_offset, &pace)?;
            let fragments = match field.options.highlighter {
                Highlighter::Plain => plain::fragments(&text, &field.finder, &field.options, &pace)?,
                Highlighter::Unified | Highlighter::Fvh => {
                    unified::fragments(&text, &field.finder, &field.options, &pace)?
                }
            };
            if !fragments.is_empty() {
                let bytes: usize = fragments.iter().map(String::len).sum();
                self.spend(bytes);
                stop.take(bytes + fragments.len() * size_of::<Value>())?;
                out.insert(field.name.clone(), fragments.into());
            }
        }
        Ok(out)
    }

    fn is_spent(&self) -> bool {
        let spent = || self.spent.load(Ordering::Relaxed);
        self.budget.is_some_and(|budget| spent() >= budget.spent_max)
    }

    fn spend(&self, amount: usize) {
        if self.budget.is_some() {
            self.spent.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Rejects long texts, which cost time for every hit; the request may set `max_analyzed_offset` to cut them
    /// instead. Unlike Elasticsearch's, the error has no document number: it would reveal to a tenant how many
    /// documents of other tenants come before it.
    fn check_length(&self, field: &FieldPlan, values: &[String]) -> Result<()> {
        // There is a separator between two values.
        let separators = values.len().saturating_sub(1);
        let length = separators + values.iter().map(|value| value.chars().count()).sum::<usize>();
        let max = self.analyzed_max;
        let tolerant = field.options.max_analyzed_offset.is_some_and(|offset| offset <= max);
        if tolerant || length as u64 <= max {
            return Ok(());
        }
        Err(Error::illegal_argument(format!(
            "The length [{}] of field [{}] in index[{}] exceeds the [index.highlight.max_analyzed_offset] \
             limit [{max}]. To avoid this error, set the query parameter [max_analyzed_offset] to a value less than \
             index setting [{max}] and this will tolerate long field values by truncating them.",
            length, field.name, self.index
        )))
    }
}

/// Truncates texts to a total number of characters; returns how many they have then.
fn cut(values: &mut Vec<String>, chars_max: usize) -> usize {
    let mut chars = 0;
    for at in 0..values.len() {
        let value = &mut values[at];
        match value.char_indices().nth(chars_max - chars) {
            Some((end, _)) => {
                value.truncate(end);
                values.truncate(at + 1);
                return chars_max;
            }
            None => chars += value.chars().count(),
        }
    }
    chars
}

/// Reserves memory for the tags around matches while fragments are built; retained fragments are counted by length.
fn lend_tags<'a>(matches: usize, options: &HighlightOptions, pace: &Pace<'a>) -> Result<MemoryLoan<'a>> {
    let tags = options.pre_tag.len() + options.post_tag.len();
    pace.stop.lend(matches.saturating_mul(tags))
}

/// Returns a [`Stop`] without limits, for tests of paced work.
#[cfg(test)]
fn unbounded() -> Stop {
    use crate::run::memory::Memory;

    let ctx = firn_engine::RequestContext::new();
    let memory = Memory::new(u64::MAX, None, ctx.cancel.clone());
    Stop::new(&ctx, crate::compile::limits::Deadline::NONE, &memory)
}

/// Returns the marks of a query on a shard.
fn marks_of(shard: &ShardSearch, query: &Query, now_ms: i64, stop: &Stop) -> Result<Vec<(String, HighlightTerm)>> {
    let guard = Guard::new(stop);
    let marks = HighlightTerms::default();
    let compiler = Compiler {
        marks: Some(&marks),
        ..Compiler::of_shard(shard, now_ms, &guard)
    };
    compiler.compile(query)?;
    Ok(marks.into_inner())
}

/// Returns the fields that match a pattern. Of the fields that match a wildcard, only those that are `wanted`.
fn names(mapping: &Mapping, pattern: &str, wanted: &dyn Fn(&String) -> bool) -> Vec<String> {
    if !pattern.contains('*') {
        return vec![pattern.to_owned()];
    }
    let leaves = mapping.leaves().into_iter().map(|(path, _)| path);
    leaves
        .filter(|path| matches_pattern(pattern, path) && wanted(path))
        .collect()
}

impl FieldPlan {
    /// Resolves a field; `None`: fields of its type are not highlighted.
    fn new(
        mapping: &Mapping,
        name: String,
        field: &Field,
        options: &HighlightOptions,
        marks: &[(String, HighlightTerm)],
        stop: &Stop,
    ) -> Result<Option<Self>> {
        let Some(own) = &field.mapping else {
            return Ok(None);
        };
        let analyzer = match (field.field_type, field.class) {
            (FieldType::Text | FieldType::MatchOnlyText, Class::Text(analyzer)) => analyzer,
            (FieldType::Keyword | FieldType::Wildcard, _) => Analyzer::Keyword,
            _ => return Ok(None),
        };
        if options.highlighter == Highlighter::Fvh {
            return Err(Error::illegal_argument(format!(
                "the field [{name}] should be indexed with term vector with position offsets to be used with fast \
                 vector highlighter"
            )));
        }
        if options.boundary_scanner == BoundaryScanner::Chars && options.highlighter == Highlighter::Unified {
            return Err(Error::illegal_argument("Invalid boundary scanner type: CHARS"));
        }
        let wanted = marks
            .iter()
            .filter(|(path, _)| !options.require_field_match || *path == field.path)
            .map(|(_, mark)| mark.clone());
        // Without `require_field_match`, every field has a copy of all marks.
        let bytes = wanted.clone().map(|mark| mark.bytes()).sum();
        stop.take(bytes)?;
        Ok(Some(Self {
            path: source_path(mapping, field.path.clone()),
            name,
            analyzer,
            lowercase: own.lowercase,
            ignore_above: own.ignore_above,
            options: options.clone(),
            finder: Finder::new(wanted),
        }))
    }

    /// Returns the field's values in a document.
    fn values(&self, source: &Value) -> Vec<String> {
        let mut values = Vec::new();
        walk(source, &self.path, &mut |value| {
            let text = scalar_text(value);
            let short = |text: &String| {
                self.ignore_above
                    .is_none_or(|limit| text.chars().count() <= limit as usize)
            };
            let text = text.filter(short);
            values.extend(text.map(|text| if self.lowercase { text.to_lowercase() } else { text }));
        });
        values
    }
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn texts_are_cut_to_so_many_characters() {
        for (chars_max, expected, count) in [
            (0, &[""][..], 0),
            (1, &["ä"], 1),
            (2, &["äb", ""], 2),
            (4, &["äb", "c😀"], 4),
            (5, &["äb", "c😀d"], 5),
            (9, &["äb", "c😀d"], 5),
        ] {
            let mut values = vec!["äb".to_owned(), "c😀d".to_owned()];
            assert_eq!(cut(&mut values, chars_max), count);
            assert_eq!(values, expected);
        }
    }
}
